"""Whether a listing shows at once what was put before: what a ballot rests on."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from putifabsent.backends.base import Listed, Maybe, Written
from putifabsent.backends.body import InMemory
from putifabsent.backends.probe_evidence import brief
from putifabsent.backends.probe_ground import content
from putifabsent.backends.probe_look import ENOUGH, error_of, look, together, unless_not_the_store_s
from putifabsent.backends.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from putifabsent.backends.base import Creation, ListOutcome, PutOutcome
    from putifabsent.backends.probe_ground import Ground
    from putifabsent.backends.probe_look import Patience

__all__ = ["ListingProber"]

_SIZE = 1024
_KEYS = 3


@dataclass(slots=True)
class _Seen:
    """What came of the races: folders, listings, and those that lacked something."""

    raced: int = 0
    listings: int = 0
    lacking: int = 0
    folders: int = 0
    causes: list[Exception] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ListingProber:
    """Puts and lists: one after the other, then many at once.

    Attributes
    ----------
    ground, pool, writers
        Where, by which threads, and how many at once.
    patience
        When no further race is begun.
    """

    word: ClassVar[str] = "list"
    ground: Ground
    pool: ThreadPoolExecutor
    writers: int
    patience: Patience

    def verdict(self, rounds: int, report: Callable[[int, str], None]) -> Verdict:
        """Try it, and say what was seen."""
        report(0, "list: one after the other")
        fault = self._one_after_the_other()
        if fault is not None:
            return Verdict(self.word, safe=False, evidence=fault)
        seen = _Seen()
        for number in range(rounds):
            report(1 + number, f"list: race {number + 1} of {rounds}")
            self._race(seen)
            if self.patience.is_over or (seen.lacking and seen.raced >= ENOUGH):
                break
        return self._judge(seen)

    def _one_after_the_other(self) -> str | None:
        """Put keys, and return what is wrong with what can be read and listed."""
        store, folder, names = self.ground.store, self.ground.subfolder(self.word), set()
        for number in range(_KEYS):
            name, creation = self.ground.name(self.word, folder), self.ground.creation()
            outcome = self.patience.certainly(partial(self._put, name, creation))
            if not isinstance(unless_not_the_store_s(outcome), Written):
                return f"refused: it never put a key: {brief(error_of(outcome))}"
            seen = look(store, name, self.patience)
            if (seen.token, seen.data) != (creation.token, content(creation.token, _SIZE)):
                return "one after the other: the bytes or the token of a put could not be read back"
            names.add(name)
            listed = unless_not_the_store_s(self.patience.certainly(partial(store.list, folder)))
            if not isinstance(listed, Listed):
                return f"refused: it never listed a folder: {brief(error_of(listed))}"
            shown = {entry.name for entry in listed.entries}
            if shown != names:
                return f"one after the other: {number + 1} keys were put, {len(shown & names)} of them listed"
        return None

    def _race(self, seen: _Seen) -> None:
        store, folder = self.ground.store, self.ground.subfolder(self.word)
        ended: list[str] = []

        def put_and_list(name: str) -> tuple[set[str], PutOutcome | ListOutcome]:
            outcome = self._put(name, self.ground.creation())
            if not isinstance(outcome, Written):
                return set(), outcome
            # Whoever is in here has put before this listing begins: the writer itself, at least.
            ended.append(name)
            before = set(ended)
            try:
                listed = store.list(folder)
            except Exception as error:  # noqa: BLE001 - what nobody foresaw is unknown
                return set(), Maybe(error)
            if not isinstance(listed, Listed):
                return set(), listed
            return before - {entry.name for entry in listed.entries}, listed

        names = [self.ground.name(self.word, folder) for _ in range(self.writers)]
        came = together(self.pool, [partial(put_and_list, name) for name in names])
        lacking = sum(bool(missed) for missed, _ in came)
        certain = [outcome for _, outcome in came if isinstance(outcome, Listed)]
        seen.causes += [error_of(outcome) for _, outcome in came if not isinstance(outcome, Listed)]
        seen.raced += 1
        seen.listings += len(certain)
        seen.lacking += lacking
        seen.folders += bool(lacking)

    def _put(self, name: str, creation: Creation) -> PutOutcome:
        try:
            return self.ground.store.put(name, InMemory(content(creation.token, _SIZE)), creation)
        except Exception as error:  # noqa: BLE001 - what nobody foresaw is unknown
            return Maybe(error)

    def _judge(self, seen: _Seen) -> Verdict:
        asked = seen.raced * self.writers
        unsure = f"{len(seen.causes)} of {asked} writers had no certain answer"
        if seen.lacking:
            evidence = (
                f"{self.writers} writers at once: {seen.lacking} of {seen.listings} listings lacked what had "
                f"been put before them, in {seen.folders} of {seen.raced} folders"
            )
        elif seen.listings * 2 < asked:
            evidence = (
                f"only {seen.listings} of {asked} writers could list; {unsure}: {brief(seen.causes[-1])}"
            )
        else:
            evidence = (
                f"{self.writers} writers at once: each of {seen.listings} listings, in {seen.raced} folders, "
                f"showed all that had been put before it{'; ' + unsure if seen.causes else ''}"
            )
        return Verdict(self.word, safe=not seen.lacking and seen.listings * 2 >= asked, evidence=evidence)
