"""Writers that stop before a step of their protocol until they are told to go on."""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING

from putifabsent.errors import NameTaken
from putifabsent.shim.drive import run
from tests.faults.arbiters import DEADLINE
from tests.stepped import stepped

if TYPE_CHECKING:
    from tests.faults.arbiters import Table

__all__ = ["Halted", "heard_by"]

_SECONDS = 120
# Lock, six of the ballot, lock: sent and answered.
STEPS = range(1, 17)
# The lock is granted, and not given back yet.
HOLDING = STEPS[2:-1]


class Halted:
    """A writer in a thread of its own, which creates a name and stops before a step.

    Parameters
    ----------
    table
        Where.
    name, step
        Which.
    """

    def __init__(self, table: Table, name: str, step: int) -> None:
        self.table = table
        self.name = name
        self.token = str(uuid.uuid4())
        self.heard: str | BaseException | None = None
        self._step = step
        self._has_halted = threading.Event()
        self._may_go_on = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    @property
    def path(self) -> str:
        """The full name."""
        return self.table.place.name(self.name)

    def start(self) -> None:
        """Have it begin."""
        self._thread.start()

    def wait(self) -> None:
        """Return when it has stopped."""
        assert self._has_halted.wait(_SECONDS), f"{self.name}: it does not come to step {self._step}"

    def go_on(self) -> None:
        """Have it go on."""
        self._may_go_on.set()

    def end(self) -> str | None:
        """Return who holds the name, as it hears it at last."""
        self.go_on()
        self._thread.join(_SECONDS)
        assert not self._thread.is_alive(), f"{self.name}: it does not end"
        if isinstance(self.heard, BaseException):
            raise self.heard
        return self.heard

    def _halt(self, step: int) -> None:
        if step == self._step:
            self._has_halted.set()
            assert self._may_go_on.wait(_SECONDS)

    def _write(self) -> None:
        made = self.table.arbiter.create(self.path, self.token, self.token.encode())
        try:
            run(stepped(made, self._halt), self.table.store, DEADLINE)
            self.heard = self.token
        except NameTaken as taken:
            self.heard = taken.holder.token if taken.holder else None
        except BaseException as error:  # noqa: BLE001 - whoever waits for its end hears of it
            self.heard = error
        finally:
            self._has_halted.set()


def heard_by(table: Table, name: str, token: str) -> str | None:
    """Create a name; return who holds it, as its writer hears it."""
    try:
        table.create(name, token)
    except NameTaken as taken:
        return taken.holder.token if taken.holder else None
    return token
