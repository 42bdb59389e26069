"""Processes of a test's own, called by lines of JSON on standard input; they answer each with one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["CallError", "Child"]


class CallError(Exception):
    """A call has raised in the process.

    Parameters
    ----------
    kind
        The error's class.
    message
        What it says, a JVM's stack included.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message[:2000]}")
        self.kind = kind
        self.message = message

    @property
    def reason(self) -> str:
        """The exception that the JVM has named first, without its packages; else the error's own class."""
        named = re.search(r"\b(?:[a-z]\w*\.)+([A-Z]\w*(?:Exception|Error|Unknown))\b", self.message)
        return named[1] if named else self.kind


class Child:
    """A process; it ends with the test that has started it, for that holds its standard input.

    Parameters
    ----------
    command
        The program, and its arguments.
    log
        Where it writes what it has to say.
    cwd
        Its folder.
    env
        Its environment.
    """

    def __init__(self, command: Sequence[str], log: Path, *, cwd: Path, env: Mapping[str, str]) -> None:
        self.log = log
        with log.open("w") as stderr:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                bufsize=1,
                cwd=cwd,
                env=env,
                start_new_session=True,
            )

    def call(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Send it a line, and return what it answers.

        Whoever gives the call up, as a test does whose time is over, ends the process: nobody takes an
        answer for that to another call.
        """
        self.say(line)
        try:
            return self.heard()
        except CallError:
            raise
        except BaseException:
            self.signal(signal.SIGKILL)
            raise

    def say(self, line: Mapping[str, Any]) -> None:
        """Send it a line; of a process that has ended, :meth:`heard` says so."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(line) + "\n")

    def heard(self) -> dict[str, Any]:
        """Return the next line that it answers.

        Raises
        ------
        CallError
            The call has failed, or the process has ended.
        """
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise CallError("Gone", self.log.read_text()[-3000:])
        heard: dict[str, Any] = json.loads(line)
        if "error" in heard:
            raise CallError(heard["error"], heard["message"])
        return heard

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it, and to what it has started in its group."""
        os.killpg(self.process.pid, number)

    def end(self) -> None:
        """End it, as one whose notebook is closed; whatever does not end so is killed."""
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
