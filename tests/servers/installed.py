"""Where ``tools/servers/install.sh`` has put a server."""

from __future__ import annotations

import os
from pathlib import Path

_PINS = Path(__file__).parents[2] / "tools" / "servers" / "pins.txt"


class NotInstalledError(RuntimeError):
    """The server is not on this machine; the message says how to put it there."""


def installed(name: str) -> Path:
    """The folder of the pinned version of a server."""
    version = _pins()[name]
    folder = cache() / "servers" / f"{name}-{version}"
    if not folder.is_dir():
        raise NotInstalledError(
            f"{name} {version} is not in {folder.parent}: run `make test-servers`, "
            f"or `tools/servers/install.sh {name}` for this one alone"
        )
    return folder


def cache() -> Path:
    """The folder of what is built or fetched once a version."""
    ours = os.environ.get("PUTIFABSENT_CACHE")
    everyone = os.environ.get("XDG_CACHE_HOME")
    return Path(ours) if ours else Path(everyone or Path.home() / ".cache") / "putifabsent"


def _pins() -> dict[str, str]:
    lines = (line.split() for line in _PINS.read_text().splitlines() if not line.startswith("#"))
    return {words[0]: words[1] for words in lines if words}
