"""Writes what the adapter throws for each of the service's errors, as the service knows it."""

from __future__ import annotations

from pathlib import Path

from putifabsent.service.wire import FAILURES

FILE = Path(__file__).parent / "src/main/resources/org/putifabsent/hadoop/errors.properties"


def properties() -> str:
    """Return the file's text: an error's word, and the exception's class."""
    lines = [f"{failure.kind}={failure.java}\n" for failure in FAILURES]
    return "".join(["# From putifabsent/service/wire.py, by hadoop/errors.py\n", *lines])


if __name__ == "__main__":
    FILE.write_text(properties())
