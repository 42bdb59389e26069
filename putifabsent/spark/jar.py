"""Where the adapter for the JVM is."""

from __future__ import annotations

from pathlib import Path

from putifabsent.errors import ConfigError

__all__ = ["jar"]

_JAR = Path(__file__).with_name("putifabsent-hadoop.jar")


def jar() -> str:
    """Return the path of the adapter's jar, which the wheel brings along.

    Raises
    ------
    ConfigError
        It is not there: in a checkout, ``make jar`` builds it.
    """
    if not _JAR.is_file():
        raise ConfigError(
            f"the adapter's jar is not at {_JAR}: reinstall putifabsent, or `make jar` in a checkout"
        )
    return str(_JAR)
