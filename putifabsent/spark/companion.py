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
from typing import IO, TYPE_CHECKING, Any

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
            self._process, self.address = _started(settings, self._socket, self._environment)
        except ConfigError:
            self._socket.close()
            raise
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
        _end(self._process)
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
            _end(self._process)
            try:
                self._process, _ = _started(self._settings, self._socket, self._environment)
            except Exception as error:  # noqa: BLE001 - no memory, say: the next time there may be
                _log.warning("%s", error)
            if self._over.is_set():
                # Whoever ended it has met the one before.
                _end(self._process)


def _listening(host: Any, port: Any) -> socket.socket:
    family = socket.AF_INET6 if ":" in str(host) else socket.AF_INET
    try:
        return socket.create_server((str(host).strip("[]"), int(port)), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError, TypeError, ValueError) as error:
        raise ConfigError(
            f"the coordination service did not start: it can't listen at {host}:{port}: {error}"
        ) from error


def _started(
    settings: Mapping[str, Any], listening: socket.socket, environment: Mapping[str, str]
) -> tuple[subprocess.Popen[str], str]:
    """Start a process of the service, on a socket that listens already; return its address, too."""
    try:
        line = json.dumps({**settings, "fd": listening.fileno()})
    except TypeError as error:
        raise ConfigError(f"an option of the mount can't be handed to its service: {error}") from error
    began = time.monotonic()
    process = subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-c", _MAIN, "serve", "-", "--until-eof"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=[listening.fileno()],
        env=environment,
        # Ctrl-C in a shell is the driver's: what it then still has under way must be answered.
        start_new_session=True,
    )
    stdin, stdout = _pipes(process)
    # A forked worker must not keep the service from seeing that its driver has gone.
    os.register_at_fork(after_in_child=stdin.close)
    waiting = threading.Timer(_PATIENCE, process.kill)
    waiting.daemon = True
    waiting.start()
    try:
        stdin.write(line + "\n")
        stdin.flush()
        text = ""
        # Whatever a site's own Python may print comes first.
        while (more := stdout.readline()) and '"address"' not in more:
            text += more
        answer: dict[str, Any] = json.loads(more or text[text.find("{") :])
    except (OSError, ValueError) as error:
        is_late = time.monotonic() - began >= _PATIENCE
        _end(process)
        how = f"it ended with {process.returncode} and said no more here: see stderr"
        raise ConfigError(
            "the coordination service did not start: "
            + (f"it has not answered in {_PATIENCE} s" if is_late else how)
        ) from error
    finally:
        waiting.cancel()
    if "address" not in answer:
        _end(process)
        raise ConfigError(f"the coordination service did not start: {answer['message']}")
    return process, answer["address"]


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None  # noqa: S101 - for mypy
    assert process.stdout is not None  # noqa: S101
    return process.stdin, process.stdout


def _end(process: subprocess.Popen[str]) -> None:
    stdin, stdout = _pipes(process)
    with suppress(BrokenPipeError):
        stdin.close()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    stdout.close()
