"""The one folder that a probe writes in, and empties; how it reads, waits and begins races."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from putifabsent.backends import base
from putifabsent.backends.local import LocalStore, make_own_folders
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self


_AT_ONCE = 16
# A liar in a versioned bucket leaves one version of a name for each of its winners.
_MOST_VERSIONS = 200
# Names that are links to one file on a disk are not removed at once: of their removals one has its lock.
_BETWEEN_TRIES = 0.01
_CLEANING = 30.0
"""Seconds that a probe takes to remove what it has made: a store that is gone keeps nobody longer."""
_log = logging.getLogger(__name__)


SMALL = 1024

SIZES = (256 * 1024, 256 * 1024, 256 * 1024, SMALL)
"""Bytes of what is raced. A server that looks first and acts then is caught between the two, which takes it
longer for more bytes."""


def content(mark: str, size: int) -> bytes:
    """Return ``size`` bytes that say whose they are from the first to the last."""
    return (mark.encode() * (size // len(mark) + 1))[:size]


class Ground:
    """``<folder>/.putifabsent/probe-<uuid>/``, from entering to leaving the ``with``."""

    def __init__(self, store: base.Store, folder: str) -> None:
        self.store = store
        self.folder = f"{folder.rstrip('/')}/{base.STATE_FOLDER}/probe-{uuid.uuid4()}"
        self._state = f"{self.folder}/{base.STATE_FOLDER}"
        self._writer = str(uuid.uuid4())
        self._names: list[str] = []
        self._subfolders: list[Path] = []
        self._open: dict[int, base.Staged] = {}

    def name(self, word: str, folder: str | None = None) -> str:
        """Return a name that nobody has used, to be removed in the end."""
        name = f"{folder or self.folder}/{word}-{uuid.uuid4()}"
        self._names.append(name)
        return name

    def subfolder(self, word: str) -> str:
        """Return a folder that nobody has used, in which only a put can make names."""
        folder = f"{self.folder}/{word}-{uuid.uuid4()}"
        self._subfolders.append(Path(folder))
        return folder

    def creation(self) -> base.Creation:
        """Return a creation with a token of its own."""
        return base.Creation(str(uuid.uuid4()), self._writer, self._state)

    def stage(self, name: str, data: bytes, creation: base.Creation) -> base.StageOutcome:
        """Stage bytes, to be discarded in the end."""
        staged = self.store.stage(name, base.InMemory(data), creation)
        if isinstance(staged, base.Staged):
            self._open[id(staged)] = staged
        return staged

    def complete(self, staged: base.Staged) -> base.CompleteOutcome:
        """Complete staged bytes; what has won its name is not to be discarded any more."""
        outcome = self.store.complete(staged)
        if isinstance(outcome, base.Created):
            self._open.pop(id(staged), None)
        return outcome

    def discard(self, staged: base.Staged) -> None:
        """Discard staged bytes now, unless they have won their name."""
        if self._open.pop(id(staged), None) is not None:
            self.store.discard(staged)

    def __enter__(self) -> Self:
        # Only a local disk has folders that must be there before a file can be.
        if isinstance(self.store, LocalStore):
            make_own_folders(self.folder)
        return self

    def __exit__(self, *_: object) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self.store.discard, self._open.values()))
            patience = Patience(_CLEANING)
            clean = all(list(pool.map(partial(self._remove, patience=patience), self._names)))
        if not clean:
            _log.warning("the probe could not make sure that %s is empty: look there", self.folder)
        if isinstance(self.store, LocalStore):
            own = (Path(self._state), Path(self.folder), Path(self.folder).parent)
            for folder in (*self._subfolders, *own):
                # The last one goes only if nobody else keeps anything in it.
                with contextlib.suppress(OSError):
                    folder.rmdir()

    def _remove(self, name: str, patience: Patience) -> bool:
        for _ in range(_MOST_VERSIONS):
            if patience.is_over:
                return False
            seen = patience.certainly(partial(self.store.head, name))
            if isinstance(seen, base.TryAgain):
                return False
            if not isinstance(seen, base.Found):
                return not isinstance(seen, base.Refused)
            outcome = self.store.delete(name, seen.holder.version)
            if isinstance(outcome, base.Refused):
                return False
            if isinstance(outcome, base.Maybe):
                time.sleep(_BETWEEN_TRIES)
        return False


ENOUGH = 8  # once a fault was found, so many races say how often
T = TypeVar("T")

_TRIES = 5
_FIRST_PAUSE = 0.05
# Rights, a missing bucket, a path that can't be: they say nothing about what the store guarantees.
_NOT_THE_STORES = (
    PermissionError,
    FileNotFoundError,
    NotADirectoryError,
    IsADirectoryError,
    ConfigError,
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What is readable under a name; both None: nothing."""

    token: str | None
    data: bytes | None


class Patience:
    """For so many seconds, and a few tries of the same."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be begun."""
        return time.monotonic() > self._ends

    def may_try_again(self, number: int) -> bool:
        """Wait after try ``number`` (from 0), and say whether another one is to follow."""
        if number + 1 >= _TRIES or self.is_over:
            return False
        time.sleep(_FIRST_PAUSE * 2**number)
        return True

    def certainly(self, ask: Callable[[], T]) -> T:
        """Ask until the answer is certain, a few times at most; only what may be sent twice."""
        for number in count():
            outcome = ask()
            if not isinstance(outcome, (base.TryAgain, base.Maybe)) or not self.may_try_again(number):
                return outcome
        raise AssertionError

    def answer(self, ask: Callable[[], T]) -> T:
        """As :meth:`certainly`, and raise what the mount alone is to blame for."""
        return unless_not_the_store_s(self.certainly(ask))


def look(store: base.Store, name: str, patience: Patience) -> Seen:
    """Read a name; a store that can't be read can't be probed."""
    for number in count():
        seen = store.head(name)
        if isinstance(seen, base.Absent):
            return Seen(None, None)
        got = store.get(name) if isinstance(seen, base.Found) else seen
        if isinstance(seen, base.Found) and isinstance(got, base.Got):
            return Seen(seen.holder.token, got.data)
        if isinstance(got, base.Refused):
            raise got.error
        if not patience.may_try_again(number):
            cause = got.cause if isinstance(got, base.TryAgain) else None
            why = f"the store can't be probed, for it does not answer: {brief(cause)}"
            raise ConnectionError(why) from cause
    raise AssertionError


def together(pool: ThreadPoolExecutor, steps: Sequence[Callable[[], T]]) -> list[T]:
    """Take all steps at once, each in a thread of its own, and return what came of them."""
    barrier = threading.Barrier(len(steps))

    def take(step: Callable[[], T]) -> T:
        barrier.wait()
        return step()

    try:
        return list(pool.map(take, steps))
    except BaseException:
        # Interrupted: whoever waits for the others would wait for ever.
        barrier.abort()
        raise


def foreseen(ask: Callable[[], T]) -> T | base.Maybe:
    """Ask, and take for unknown what nobody foresaw, as a protocol does."""
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - whatever it is
        return base.Maybe(error)


def unless_not_the_store_s(outcome: T) -> T:
    """Return ``outcome``, or raise what it was refused for if that is the mount's affair."""
    if isinstance(outcome, base.Refused) and isinstance(outcome.error, _NOT_THE_STORES):
        raise outcome.error
    return outcome


def error_of(outcome: object) -> Exception:
    """Return the exception that an outcome tells of."""
    error = getattr(outcome, "error", None) or getattr(outcome, "cause", None)
    return error if isinstance(error, Exception) else OSError(f"it answered {type(outcome).__name__}")


def brief(error: Exception | None) -> str:
    """Return the first line of an error: some clients go on with what only their authors can read."""
    return str(error or "no reason was given").split("\n", 1)[0]
