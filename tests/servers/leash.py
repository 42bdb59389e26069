"""Runs a command, and ends it when told to or when the process that asked for it is gone.

A process of its own, so that it works for any command, from any thread, after any kind of death:
``leash.py COMMAND...`` prints the command's process id, then waits for a byte, or the end, of its
standard input. Run by path: it imports nothing but the standard library.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading

_PR_SET_PDEATHSIG = 1
_PATIENCE = 5


def _killed_with_the_leash() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_when_told(command: subprocess.Popen[bytes]) -> None:
    # Not through sys.stdin, which a thread that waits in it keeps Python from closing at the end.
    os.read(0, 1)
    command.terminate()
    try:
        command.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        command.kill()


def main() -> int:
    """Run the command of the arguments; return its exit status."""
    command = subprocess.Popen(
        sys.argv[1:],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        preexec_fn=_killed_with_the_leash,  # noqa: PLW1509 - this process has one thread at that moment
    )
    print(command.pid, flush=True)  # noqa: T201 - what the starter reads
    threading.Thread(target=_end_when_told, args=[command], daemon=True).start()
    return command.wait()


if __name__ == "__main__":
    sys.exit(main())
