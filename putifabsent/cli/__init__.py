"""The ``putifabsent`` command: its verbs by what they are about."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

__all__ = ["main"]

_ITS_OWN = ("rich", "typer")


def main() -> None:
    """Run the command line."""
    for stream, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, stream) is None:  # closed by whoever has started this
            setattr(sys, stream, Path(os.devnull).open(mode))  # noqa: SIM115 - it stays open
    try:
        from putifabsent.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _ITS_OWN:
            raise
        sys.stderr.write(f"{error.name} is not installed: pip install 'putifabsent[cli]'\n")
        raise SystemExit(2) from error
    # SIGTERM ends it as Ctrl-C does: its own servers and folders go, and an open outcome is reported.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    app()
