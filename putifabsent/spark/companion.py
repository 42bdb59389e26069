"""The coordination service of one driver: a process of its own, which ends when the driver does."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Python begins with what lies in the working directory, and strangers' files may lie there.
_MAIN = "import sys; sys.path = list(filter(None, sys.path)); from putifabsent.cli import main; main()"
_PACKAGE = str(Path(__file__).parents[2])
_PATIENCE = 60
# Well below any deadline: whoever calls meanwhile waits for an answer.
_LONGEST_PAUSE = 5.0
_BACKLOG = 1024
_log = logging.getLogger(__name__)


class Companion:
    """A running service.

    It reads its settings from standard input, where no list of processes shows them, and it lives until that
    closes: with this object's :meth:`end`, or with this process, however that ends. Where it ends before, of
    itself or killed, another one is started: what it knows can be read again. The address is this
    process's, which has the socket, so that nobody else can listen there meanwhile and get the secret.
    ``ConfigError``: it has not started; the service's own sentence says why.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        # What this process finds, it finds. One that is started again asks the same store, whatever has been
        # changed here meanwhile.
        path = os.pathsep.join(filter(None, [*sys.path, _PACKAGE]))
        self._environment = {**os.environ, "PYTHONPATH": path}
        self._over = threading.Event()
        self._socket = _listening(settings.get("host", "127.0.0.1"), settings.get("port", 0))
        try:
            self._process = _Process(settings, self._socket, self._environment)
        except ConfigError:
            self._socket.close()
            raise
        self.address = self._process.address
        self._pid = os.getpid()
        # A forked worker must not keep the port.
        os.register_at_fork(after_in_child=self._socket.close)
        self._watch = threading.Thread(target=self._start_again, name="putifabsent-companion", daemon=True)
        self._watch.start()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def end(self) -> None:
        """Let it finish what it has begun, and end. A forked worker, whose it is not, ends nothing."""
        if os.getpid() != self._pid:
            return
        self._over.set()
        self._process.end()
        self._watch.join(_PATIENCE)
        self._socket.close()

    def _start_again(self) -> None:
        """Start it whenever it has ended, after longer and longer pauses where it does not last."""
        pause = 0.0
        while True:
            began = time.monotonic()
            code = self._process.wait()
            if time.monotonic() - began > _PATIENCE:
                pause = 0.0
            if self._over.wait(pause):
                return
            pause = min(max(1.0, 2 * pause), _LONGEST_PAUSE)
            _log.warning(
                "the coordination service at %s has ended (%d): starting it again", self.address, code
            )
            self._process.end()
            try:
                self._process = _Process(self._settings, self._socket, self._environment)
            except Exception as error:  # noqa: BLE001 - no memory, say: the next time there may be
                _log.warning("%s", error)
            if self._over.is_set():
                # Whoever ended it has met the one before.
                self._process.end()


def _listening(host: Any, port: Any) -> socket.socket:
    family = socket.AF_INET6 if ":" in str(host) else socket.AF_INET
    try:
        return socket.create_server((str(host).strip("[]"), int(port)), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError, TypeError, ValueError) as error:
        raise ConfigError(
            f"the coordination service did not start: it can't listen at {host}:{port}: {error}"
        ) from error


class _Process:
    """One process of the service, which takes calls from a socket that listens already."""

    def __init__(
        self, settings: Mapping[str, Any], listening: socket.socket, environment: Mapping[str, str]
    ) -> None:
        try:
            line = json.dumps({**settings, "fd": listening.fileno()})
        except TypeError as error:
            raise ConfigError(f"an option of the mount can't be handed to its service: {error}") from error
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-c", _MAIN, "serve", "-", "--until-eof"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[listening.fileno()],
            env=environment,
            # Ctrl-C in a shell is the driver's: what it then still has under way must be answered.
            start_new_session=True,
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError
        self._stdin = self._process.stdin
        # A forked worker must not keep the service from seeing that its driver has gone.
        os.register_at_fork(after_in_child=self._stdin.close)
        self._stdout = self._process.stdout
        self.pid = self._process.pid
        self.address: str = self._started(line)["address"]

    def _started(self, line: str) -> dict[str, Any]:
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self._process.kill()

        waiting = threading.Timer(_PATIENCE, give_up)
        waiting.daemon = True
        waiting.start()
        try:
            self._stdin.write(line + "\n")
            self._stdin.flush()
            text = ""
            # Whatever a site's own Python may print comes first.
            while (more := self._stdout.readline()) and '"address"' not in more:
                text += more
            answer: dict[str, Any] = json.loads(more or text[text.find("{") :])
        except (OSError, ValueError) as error:
            self.end()
            if late.is_set():
                raise ConfigError(
                    f"the coordination service did not start: it has not answered in {_PATIENCE} s"
                ) from error
            raise ConfigError(
                f"the coordination service did not start: it ended with {self._process.returncode} and said "
                "no more here: see stderr"
            ) from error
        finally:
            waiting.cancel()
        if "address" not in answer:
            self.end()
            raise ConfigError(f"the coordination service did not start: {answer['message']}")
        return answer

    def wait(self) -> int:
        return self._process.wait()

    def end(self) -> None:
        with suppress(BrokenPipeError):
            self._stdin.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stdout.close()
