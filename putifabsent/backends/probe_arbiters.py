"""What arbiters beside the store need: a listing shows what was put, and a missing source is not copied.

A copy whose source goes missing *meanwhile* may still come off. That is no fault for whoever reads through
the shim, which tells by the token what has ended; but others may see a deleted name until it is cleaned up,
so it is reported.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from putifabsent.backends.base import Absent, Deleted, Exists, Listed, Written
from putifabsent.backends.body import InMemory
from putifabsent.backends.probe_cache import Verdict
from putifabsent.backends.probe_ground import (
    SIZES,
    SMALL,
    Seen,
    brief,
    content,
    error_of,
    foreseen,
    look,
    together,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from putifabsent.backends.base import Creation, DeleteOutcome, ListOutcome, PublishOutcome, PutOutcome
    from putifabsent.backends.probe_ground import Ground, Patience

_KEYS = 3


@dataclass(slots=True)
class ListingProber:
    """Puts and lists: one after the other, then many at once.

    It keeps how many listings, in how many folders, lacked something.
    """

    word: ClassVar[str] = "list"
    ground: Ground
    pool: ThreadPoolExecutor
    writers: int
    patience: Patience
    _raced: int = 0
    _listings: int = 0
    _lacking: int = 0
    _folders: int = 0
    _causes: list[Exception] = field(default_factory=list)

    def one_after_the_other(self) -> str | None:
        """Put keys, and return what is wrong with what can be read and listed."""
        store, folder, names = self.ground.store, self.ground.subfolder(self.word), set()
        for number in range(_KEYS):
            name, creation = self.ground.name(self.word, folder), self.ground.creation()
            outcome = self.patience.answer(partial(self._put, name, creation))
            if not isinstance(outcome, Written):
                return f"refused: it never put a key: {brief(error_of(outcome))}"
            seen = look(store, name, self.patience)
            if (seen.token, seen.data) != (creation.token, content(creation.token, SMALL)):
                return "one after the other: the bytes or the token of a put could not be read back"
            names.add(name)
            listed = self.patience.answer(partial(store.list, folder))
            if not isinstance(listed, Listed):
                return f"refused: it never listed a folder: {brief(error_of(listed))}"
            shown = {entry.name for entry in listed.entries}
            if shown != names:
                return f"one after the other: {number + 1} keys were put, {len(shown & names)} of them listed"
        return None

    def race(self, _: int) -> bool:
        """Have all writers put and list at once; return whether a listing has ever lacked something."""
        store, folder = self.ground.store, self.ground.subfolder(self.word)
        ended: list[str] = []

        def put_and_list(name: str) -> tuple[set[str], PutOutcome | ListOutcome]:
            outcome = self._put(name, self.ground.creation())
            if not isinstance(outcome, Written):
                return set(), outcome
            # Whoever is in here has put before this listing begins: the writer itself, at least.
            ended.append(name)
            before = set(ended)
            listed = foreseen(partial(store.list, folder))
            if not isinstance(listed, Listed):
                return set(), listed
            return before - {entry.name for entry in listed.entries}, listed

        names = [self.ground.name(self.word, folder) for _ in range(self.writers)]
        came = together(self.pool, [partial(put_and_list, name) for name in names])
        lacking = sum(bool(missed) for missed, _ in came)
        causes = [error_of(outcome) for _, outcome in came if not isinstance(outcome, Listed)]
        self._causes += causes
        self._raced += 1
        self._listings += len(came) - len(causes)
        self._lacking += lacking
        self._folders += bool(lacking)
        return bool(self._lacking)

    def _put(self, name: str, creation: Creation) -> PutOutcome:
        body = InMemory(content(creation.token, SMALL))
        return foreseen(partial(self.ground.store.put, name, body, creation))

    def verdict(self) -> Verdict:
        """Say what was seen."""
        raced, listings, attempts = self._raced, self._listings, self._raced * self.writers
        unsure = f"{len(self._causes)} of {attempts} writers had no certain answer"
        if self._lacking:
            evidence = (
                f"{self.writers} writers at once: {self._lacking} of {listings} listings lacked what had "
                f"been put before them, in {self._folders} of {raced} folders"
            )
        elif listings * 2 < attempts:
            evidence = (
                f"only {listings} of {attempts} writers could list; {unsure}: {brief(self._causes[-1])}"
            )
        else:
            evidence = (
                f"{self.writers} writers at once: each of {listings} listings, in {raced} folders, "
                f"showed all that had been put before it{'; ' + unsure if self._causes else ''}"
            )
        return Verdict(self.word, safe=not self._lacking and listings * 2 >= attempts, evidence=evidence)


_LAGS = 4
_NOTHING = Seen(None, None)
_ONE_BY_ONE = "one after the other: "


@dataclass(slots=True)
class PublishingProber:
    """Publishes and deletes: one after the other, then many at once, of which half publish and half delete.

    It keeps how many names were deleted for certain, and how many of them were there again.
    """

    word: ClassVar[str] = "publish"
    ground: Ground
    pool: ThreadPoolExecutor
    threads: int
    patience: Patience
    _raced: int = 0
    _judged: int = 0
    _back: int = 0
    _causes: list[Exception] = field(default_factory=list)

    def one_after_the_other(self) -> str | None:
        """Publish and delete, and return what is wrong with what came of it."""
        name, first, other = (self.ground.name(self.word) for _ in range(3))
        for source in (first, other):
            outcome = self._put(source, SMALL)
            if not isinstance(outcome, Written):
                return f"refused: it never put a key: {brief(error_of(outcome))}"
        outcome_of_first = self._publish(first, name)
        if not isinstance(outcome_of_first, Written):
            return f"refused: it never published a key: {brief(error_of(outcome_of_first))}"
        if not self._shows(name, first):
            return f"{_ONE_BY_ONE}the bytes or the token of a copy could not be read back"
        outcome_of_other = self._publish(other, name)
        if not self._shows(name, other if isinstance(outcome_of_other, Written) else first):
            return f"{_ONE_BY_ONE}a copy over another object left neither of them whole"
        if not isinstance(outcome_of_other, (Written, Exists)):
            return f"refused: it never published over another object: {brief(error_of(outcome_of_other))}"
        return self._without_a_source(other, name)

    def _without_a_source(self, source: str, taken: str) -> str | None:
        before = look(self.ground.store, taken, self.patience)
        if not isinstance(self._delete(source), Deleted):
            return "refused: it never deleted a key"
        for name in (self.ground.name(self.word), taken):
            outcome = self._publish(source, name)
            seen = look(self.ground.store, name, self.patience)
            if isinstance(outcome, Written):
                return f"{_ONE_BY_ONE}a copy of a missing source was acknowledged"
            if seen != (before if name == taken else _NOTHING):
                return f"{_ONE_BY_ONE}a copy of a missing source wrote something"
            if not isinstance(outcome, Absent):
                why = brief(error_of(outcome))
                return f"{_ONE_BY_ONE}a copy of a missing source failed without saying why: {why}"
        return None

    def race(self, number: int) -> bool:
        """Publish names and delete them at once; return whether one was ever there again."""
        size = SIZES[number % len(SIZES)]
        names = [(self.ground.name(self.word), self.ground.name(self.word)) for _ in range(self.threads // 2)]
        put = list(self.pool.map(lambda pair: self._put(pair[0], size), names))
        pairs = [pair for pair, outcome in zip(names, put, strict=True) if isinstance(outcome, Written)]
        steps: list[Callable[[], object]] = []
        for lag, (source, name) in enumerate(pairs):
            steps += [
                partial(self._publish_once, source, name),
                partial(self._delete_both, source, name, lag),
            ]
        came = together(self.pool, steps)
        self._raced += len(names)
        self._causes += [error_of(outcome) for outcome in put if not isinstance(outcome, Written)]
        for (_, name), published, deleted in zip(pairs, came[::2], came[1::2], strict=True):
            if not isinstance(published, (Written, Absent)):
                self._causes.append(error_of(published))
            # Deleted with certainty, and nobody publishes any more: it must be gone.
            if deleted is True:
                self._judged += 1
                self._back += look(self.ground.store, name, self.patience) != _NOTHING
        return bool(self._back)

    def verdict(self) -> Verdict:
        """Say what was seen."""
        unsure = f"{len(self._causes)} requests had no certain answer"
        if self._judged * 2 < self._raced:
            cause = brief(self._causes[-1] if self._causes else None)
            evidence = f"only {self._judged} of {self._raced} names could be deleted; {unsure}: {cause}"
        else:
            again = (
                f"{self._back} of {self._judged} deleted names were there again, for readers round the shim"
                if self._back
                else f"none of {self._judged} deleted names was there again"
            )
            evidence = (
                f"{_ONE_BY_ONE}a copy of a missing source failed, and wrote nothing; at once with the "
                f"deletion of its source: {again}{'; ' + unsure if self._causes else ''}"
            )
        return Verdict(self.word, safe=self._judged * 2 >= self._raced, evidence=evidence)

    def _shows(self, name: str, source: str) -> bool:
        seen = look(self.ground.store, name, self.patience)
        return seen == look(self.ground.store, source, self.patience) and seen.data == content(source, SMALL)

    def _put(self, source: str, size: int) -> PutOutcome:
        creation = self.ground.creation()
        body = InMemory(content(source, size))
        return self.patience.answer(lambda: self.ground.store.put(source, body, creation))

    def _publish(self, source: str, name: str) -> PublishOutcome:
        return self.patience.answer(partial(self._publish_once, source, name))

    def _publish_once(self, source: str, name: str) -> PublishOutcome:
        return foreseen(partial(self.ground.store.publish, source, name, self.ground.creation()))

    def _delete(self, name: str) -> DeleteOutcome:
        return self.patience.answer(partial(self.ground.store.delete, name))

    def _delete_both(self, source: str, name: str, lag: int) -> bool:
        # Each time, the copy has come a little further.
        for _ in range(lag % _LAGS):
            self.ground.store.head(source)
        return all(isinstance(self._delete(each), Deleted) for each in (source, name))
