"""The coordination service of one driver: a process of its own, which ends when the driver does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Companion"]

_MAIN = "from putifabsent.cli import main; main()"
_PATIENCE = 60


class Companion:
    """A running service.

    It is told its settings on standard input, where no list of processes shows them, and it lives until that
    closes: with this object's :meth:`end`, or with this process, however that ends.

    Parameters
    ----------
    told
        The service's settings.

    Attributes
    ----------
    address
        Where it listens.

    Raises
    ------
    ConfigError
        It has not started; the service's own sentence says why.
    """

    def __init__(self, told: Mapping[str, Any]) -> None:
        try:
            line = json.dumps(told)
        except TypeError as error:
            raise ConfigError(f"an option of the mount can't be handed to its service: {error}") from error
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-c", _MAIN, "serve", "-", "--until-eof"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Ctrl-C in a shell is the driver's: what it then still has under way must be answered.
            start_new_session=True,
        )
        said = self._started(line)
        self.address: str = said["address"]
        if self._process.stdin is not None:
            # A forked worker must not keep the service from seeing that its driver has gone.
            os.register_at_fork(after_in_child=self._process.stdin.close)

    def _started(self, line: str) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise AssertionError
        try:
            stdin.write(line + "\n")
            stdin.flush()
            text = ""
            # Whatever a site's own Python may print comes first.
            while (more := stdout.readline()) and '"address"' not in more:
                text += more
            said: dict[str, Any] = json.loads(more or text[text.find("{") :])
        except (OSError, ValueError) as error:
            self.end()
            raise ConfigError(f"the coordination service did not start: {error}") from error
        if "address" not in said:
            self.end()
            raise ConfigError(f"the coordination service did not start: {said['message']}")
        return said

    def end(self) -> None:
        """Let it finish what it has begun, and end."""
        process = self._process
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
