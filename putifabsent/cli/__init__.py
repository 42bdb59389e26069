"""The ``putifabsent`` command: one module a verb, and one for what they print."""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]

_ITS_OWN = ("rich", "typer")


def main() -> None:
    """Run the command line."""
    try:
        from putifabsent.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _ITS_OWN:
            raise
        sys.stderr.write(f"{error.name} is not installed: pip install 'putifabsent[cli]'\n")
        raise SystemExit(2) from error
    # Told to stop, as by Ctrl-C: servers and folders of its own go, and an outcome that is open is said.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    app()
