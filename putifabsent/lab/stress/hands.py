"""One writer's hands: whatever they do through a path stands in the journal, with what was told of it."""

from __future__ import annotations

import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

from putifabsent.errors import Fenced, OutcomeUnknown, unknown_of
from putifabsent.lab.stress.bodies import body, offered_in
from putifabsent.lab.stress.journal import host
from putifabsent.lab.stress.records import Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from putifabsent.lab.stress.journal import Journal
    from putifabsent.lab.stress.paths import Path
    from putifabsent.lab.stress.records import Outcome, Purpose

__all__ = ["Hands", "failed"]

_TRIES = 4
_REST_SECONDS = 1.0


class Hands:
    """What a format's writer works with.

    Parameters
    ----------
    path
        Its way to the store.
    journal
        Where all is noted.
    writer
        Its number; -1: nobody's.
    closing
        Whether all writers have ended.
    holds
        Called with 1 when the writer has its table's turn, and with 0 when it has not any more.
    """

    def __init__(
        self,
        path: Path,
        journal: Journal,
        writer: int,
        *,
        closing: bool = False,
        holds: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.path = path
        self._holds = holds
        self._journal = journal
        self._writer = writer
        self._closing = closing

    @contextmanager
    def turn(self, folder: str) -> Iterator[None]:
        """Have a table's turn, where the path knows how."""
        with self.path.turn(folder):
            self._holds(1)
            try:
                yield
            finally:
                self._holds(0)

    def create(
        self, purpose: Purpose, folder: str, name: str, identity: str | None = None, saw: str | None = None
    ) -> Outcome:
        """Create a name with bytes like no others, and return what was told."""
        offered = uuid.uuid4().hex
        began = self._journal.begin(
            Operation("create", host(), self._writer, purpose, folder, name, identity or name, offered, saw)
        )
        outcome: Outcome = "created"
        said = None
        try:
            self.path.create(name, body(offered))
        except Exception as error:  # noqa: BLE001 - whatever a client raises is what its writer was told
            outcome, said = _outcome(error), f"{type(error).__name__}: {error}"
        self._journal.end(began, outcome=outcome, error=said)
        return outcome

    def read(self, purpose: Purpose, folder: str, name: str) -> str | None:
        """Return what is offered under a name; None: nothing is there, or it could not be read.

        A closing read that fails is tried again: what it says at last is held against the path.
        """
        began = self._journal.begin(
            Operation("read", host(), self._writer, purpose, folder, name, name, closing=self._closing)
        )
        outcome: Outcome = "found"
        seen = said = None
        for tries_left in reversed(range(_TRIES if self._closing else 1)):
            try:
                seen = offered_in(self.path.read(name))
            except FileNotFoundError:
                outcome = "absent"
            except Exception as error:  # noqa: BLE001 - as above
                if tries_left:
                    time.sleep(_REST_SECONDS)
                    continue
                outcome, said = "failed", f"{type(error).__name__}: {error}"
            break
        self._journal.end(began, outcome=outcome, seen=seen, error=said)
        return seen


def failed(journal: Journal, writer: int, folder: str, error: Exception) -> None:
    """Note that a writer's step between its creations and reads has failed."""
    began = journal.begin(Operation("read", host(), writer, "", folder, folder, folder))
    journal.end(began, outcome="failed", error=f"{type(error).__name__}: {error}")


def _outcome(error: Exception) -> Outcome:
    if isinstance(error, FileExistsError):
        return "taken"
    if isinstance(unknown_of(error), OutcomeUnknown):
        return "unknown"
    return "fenced" if isinstance(error, Fenced) else "failed"
