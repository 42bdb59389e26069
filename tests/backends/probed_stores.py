"""Stores in memory that a probe judges: honest ones, liars, and those that refuse."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from fsspec.implementations.memory import MemoryFileSystem

from putifabsent.backends.base import (
    Created,
    Exists,
    Found,
    Maybe,
    Refused,
    Staged,
)
from putifabsent.backends.memory import MemoryStore

if TYPE_CHECKING:
    from putifabsent.backends.base import (
        Body,
        CompleteOutcome,
        CreateOutcome,
        Creation,
        HeadOutcome,
        StageOutcome,
    )

FOLDER = "/t/probed"


class Memory(MemoryStore):
    """A store of its own, honest."""

    def __init__(self) -> None:
        super().__init__(_OwnMemory(skip_instance_cache=True))

    def drop(self, name: str) -> None:
        self.fs.store.pop(name, None)

    @property
    def names(self) -> list[str]:
        return sorted(self.fs.store)


class _OwnMemory(MemoryFileSystem):
    cachable = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.store: dict[str, Any] = {}
        self.pseudo_dirs: list[str] = []


class Meeting:
    """Lets those who come for one name go on when two have come, and one who stays alone after a while."""

    def __init__(self) -> None:
        self._came: Counter[str] = Counter()
        self._changed = threading.Condition()

    def wait(self, name: str) -> None:
        with self._changed:
            self._came[name] += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._came[name] > 1, timeout=0.1)


class Racy(Memory):
    """Looks first, and writes then; another may write in between."""

    def __init__(self) -> None:
        super().__init__()
        self.meeting = Meeting()

    def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
        if isinstance(self.head(name), Found):
            return Exists()
        self.meeting.wait(name)
        self.drop(name)
        return super().create(name, body, creation)


class RacyCompletion(Memory):
    """Decides single puts, and races completions."""

    def __init__(self) -> None:
        super().__init__()
        self.racy = Racy()
        self.racy.fs = self.fs

    def complete(self, staged: Staged) -> CompleteOutcome:
        return self.racy.complete(staged)


class Overwriting(Memory):
    """Ignores the condition."""

    def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
        self.fs.store.pop(name, None)
        return super().create(name, body, creation)


class SilentlyOverwriting(Memory):
    """Says "exists", and overwrites."""

    def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
        there = self.fs.store.pop(name, None)
        outcome = super().create(name, body, creation)
        return outcome if there is None else Exists()


class Deaf(Memory):
    """Says that it created a taken name, and drops the bytes."""

    def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
        super().create(name, body, creation)
        return Created()


class Forgetful(Memory):
    """Keeps no token."""

    def head(self, name: str) -> HeadOutcome:
        seen = super().head(name)
        return Found(type(seen.holder)(None)) if isinstance(seen, Found) else seen


class LosersBytes(Racy):
    """Names one winner, and keeps the bytes of the last one to come."""

    def __init__(self) -> None:
        super().__init__()
        self.acknowledged: set[str] = set()

    def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
        outcome = super().create(name, body, creation)
        if isinstance(outcome, Created):
            is_first = name not in self.acknowledged
            self.acknowledged.add(name)
            return outcome if is_first else Exists()
        return outcome


class Denying(Racy):
    """Tells the winner of a race that it lost."""

    def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
        if isinstance(self.head(name), Found):
            return Exists()
        outcome = Memory.create(self, name, body, creation)
        return Exists() if body.size > 1024 else outcome


class Refusing(Memory):
    """Knows no condition."""

    def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
        return Refused(OSError(22, "A header you provided implies functionality that is not implemented"))


class NotImplementing(Memory):
    """Answers a condition with 501, which might mean anything."""

    def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
        return Maybe(OSError("NotImplemented (501)"))


class Vague(Memory):
    """Answers 500 where it should say "exists"."""

    def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
        outcome = super().create(name, body, creation)
        return outcome if isinstance(outcome, Created) else Maybe(OSError("InternalError (500)"))


class Uploads(Memory):
    """Keeps count of the open uploads, and of what is staged at all."""

    def __init__(self) -> None:
        super().__init__()
        self.open: set[int] = set()
        self.most_open = self.staged = 0

    def stage(self, name: str, body: Body, creation: Creation) -> StageOutcome:
        staged = super().stage(name, body, creation)
        assert isinstance(staged, Staged)
        self.open.add(id(staged.upload))
        self.staged += 1
        self.most_open = max(self.most_open, len(self.open))
        return staged

    def complete(self, staged: Staged) -> CompleteOutcome:
        outcome = super().complete(staged)
        if isinstance(outcome, Created):
            self.open.remove(id(staged.upload))
        return outcome

    def discard(self, staged: Staged) -> None:
        self.open.remove(id(staged.upload))
