"""A server's process: started on a free port, waited for until it answers, ended for certain."""

from __future__ import annotations

import http.client
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers import leash

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import ExitStack

_PORTS_TRIED = 3
_POLLS = 600
_BETWEEN_POLLS = 0.1
_ANSWER_SECONDS = 5
_TAIL = 3000
_STOP_SECONDS = 15


class NotStartedError(RuntimeError):
    """A server did not come up; the message ends with what it printed."""


def http_answers(port: int, path: str = "/", status: int | None = None) -> bool:
    """Whether somebody answers HTTP on a loopback port: with this status, or with any."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", path)
        answered = connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return status in {None, answered}


class Process:
    """One command on a leash, its output in a file of its folder.

    Attributes
    ----------
    folder
        A temporary folder: the working directory, removed at the end.
    port
        Where it listens.
    pids
        The leash's process and the command's.
    """

    def __init__(self, name: str, running: ExitStack) -> None:
        self.name = name
        self.folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix=f"putifabsent-{name}-")))
        self.port = 0
        self.pids: tuple[int, ...] = ()
        self._output = self.folder / "output"
        self._running = running
        self._starts: Callable[[], bool] = lambda: False

    def start(
        self,
        command: Callable[[int], Sequence[str]],
        *,
        answers: Callable[[int], bool] = http_answers,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start ``command(port)`` and return when ``answers(port)``.

        A free port can be lost before the server takes it: a server that ends at once is started
        again on another, a few times.
        """
        self._starts = lambda: self._came_up(command, answers, environment or {})
        for _ in range(_PORTS_TRIED):
            self.port = free_port()
            if self._starts():
                # Whichever it is by then: it may have been started again.
                self._running.callback(lambda: _end(self._started))
                return
        raise NotStartedError(f"{self.name} did not answer on a free port; it printed:\n{self.tail()}")

    def kill(self) -> None:
        """Kill the command and its children, and return when they are gone."""
        command = self.pids[-1]
        listed = Path(f"/proc/{command}/task/{command}/children").read_text()
        # Opened before the first is killed: a number may be another process's then.
        family = [os.pidfd_open(pid) for pid in (command, *map(int, listed.split()))]
        for member in family:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(member, signal.SIGKILL)
        for member in family:
            ended, _, _ = select.select([member], [], [], _STOP_SECONDS)
            os.close(member)
            assert ended, f"{self.name} was killed, and goes on"

    def start_again(self) -> None:
        """Start what was killed on the port that it had, in the folder as it left it."""
        _end(self._started)
        if not self._starts():
            raise NotStartedError(f"{self.name} did not answer again; it printed:\n{self.tail()}")

    def _came_up(
        self, command: Callable[[int], Sequence[str]], answers: Callable[[int], bool], more: Mapping[str, str]
    ) -> bool:
        process = self._on_leash(command(self.port), more)
        if _comes_up(process, self.port, answers):
            self._started = process
            return True
        _end(process)
        return False

    def tail(self) -> str:
        """The end of what it has printed."""
        return self._output.read_text(errors="replace")[-_TAIL:]

    def _on_leash(self, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        with self._output.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-I", str(leash.__file__), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                cwd=self.folder,
                env={**os.environ, **environment},
                text=True,
                # Ctrl-C in a terminal is for the tests, which then stop the server.
                start_new_session=True,
            )
        assert process.stdout is not None
        printed = process.stdout.readline().strip()
        if not printed:
            raise NotStartedError(f"{self.name} can't be run:\n{self.tail()}")
        self.pids = (process.pid, int(printed))
        return process


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _comes_up(process: subprocess.Popen[str], port: int, answers: Callable[[int], bool]) -> bool:
    for _ in range(_POLLS):
        if process.poll() is not None:
            return False
        if answers(port):
            return True
        time.sleep(_BETWEEN_POLLS)
    return False


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        # A byte, not just the end of the pipe: a forked writer may hold the pipe open.
        process.communicate("\n", timeout=_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
