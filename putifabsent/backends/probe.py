"""Races a store, and says what it really guarantees.

Each operation that can create a name is tried by itself: one create after the other, then many at once. So
are, on request, listings after puts; copies of what was deleted are tried alone. A probe can prove a store
unsafe, never safe.
"""

from __future__ import annotations

import logging
import os
import threading
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from putifabsent.backends import base
from putifabsent.backends.probe_cache import BESIDE, NEEDED, recall, remember, turn
from putifabsent.backends.probe_ground import (
    ENOUGH,
    SIZES,
    SMALL,
    Ground,
    Patience,
    Seen,
    brief,
    content,
    error_of,
    foreseen,
    look,
    together,
    unless_not_the_store_s,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Decision: TypeAlias = base.CompleteOutcome | base.Absent
    Prepare: TypeAlias = Callable[[Ground, str, int], "Attempt"]

__all__ = ["BESIDE", "CREATES", "NEEDED", "ROUNDS", "probe", "verdicts_for"]

CREATES = 32  # simultaneous creates of one name. A client that is probed must allow that many connections.
ROUNDS = 24  # names that are raced, for each operation
SECONDS = 20.0

Progress: TypeAlias = "Callable[[int, int, str], None]"

_log = logging.getLogger(__name__)


def probe(
    store: base.Store,
    folder: str,
    *,
    operations: Iterable[str] | None = None,
    creates: int = CREATES,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    progress: Progress | None = None,
) -> dict[str, base.Verdict]:
    """Race each operation of ``store`` that can create a name, or those that are requested.

    The folder is there. Nothing is written but below its ``.putifabsent/probe-<uuid>/``, which is gone
    afterwards. Of the operations, ``"list"`` and ``"publish"`` are tried only on request: arbiters beside the
    store rest on them. ``creates`` are simultaneous requests of any kind; of so many ``rounds``, a name each,
    fewer are raced once a fault was found, and none of an operation is begun after so many ``seconds``.
    ``progress`` is called with steps done, steps in all, and what is being tried. ``OSError``: it can't be
    probed, it does not answer, or lets nobody write there.
    """
    probers: dict[str, Callable[..., _Prober]] = {
        "put": partial(_Creating, "put", prepare=_put),
        "complete": partial(_Creating, "complete", prepare=_complete),
        "list": partial(_Listing, "list"),
        "publish": partial(_Publishing, "publish"),
    }
    chosen = list(NEEDED if operations is None else operations)
    verdicts: dict[str, base.Verdict] = {}
    with Ground(store, folder) as ground, ThreadPoolExecutor(creates, "putifabsent-probe") as pool:
        for number, word in enumerate(chosen):
            report = _part(progress, number, len(chosen), rounds + 1)
            verdicts[word] = probers[word](ground, pool, creates, Patience(seconds)).tried(rounds, report)
    if progress:
        progress(len(chosen) * (rounds + 1), len(chosen) * (rounds + 1), "done")
    return verdicts


def verdicts_for(
    kind: str,
    endpoint: str | None,
    make_store: Callable[[], base.Store],
    folder: str,
    *,
    operations: Sequence[str] = NEEDED,
) -> dict[str, base.Verdict]:
    """Return what is known of a store, after probing it for what is not.

    A verdict is about ``Store.kind``, the address that its requests go to, and the bucket. The client of the
    store that is made should allow :data:`CREATES` connections. The operations are those that the mount is
    going to use.
    """
    # The threads of this process probe a store once.
    with _turns.setdefault(f"{kind} {endpoint}", threading.Lock()):
        known = recall(kind, endpoint, folder)
        if not known.keys() >= set(operations):
            with turn(kind, endpoint):
                known = recall(kind, endpoint, folder)
                unknown = [operation for operation in operations if operation not in known]
                if unknown:
                    _log.info(
                        "racing %s at %s, once a week, before it is relied on: %s", kind, endpoint, unknown
                    )
                    found = probe(make_store(), folder, operations=unknown)
                    remember(kind, endpoint, folder, found)
                    known.update(found)
    return {operation: known[operation] for operation in operations}


_turns: dict[str, threading.Lock] = {}

# A child forked while a thread was probing would wait for that thread, which it has not.
os.register_at_fork(after_in_child=_turns.clear)


@dataclass(slots=True)
class _Prober(ABC):
    """Tries one operation, and keeps what came of it."""

    races: ClassVar[bool] = True
    word: str
    ground: Ground
    pool: ThreadPoolExecutor
    at_once: int
    patience: Patience
    _raced: int = 0
    _causes: list[Exception] = field(default_factory=list)

    def tried(self, rounds: int, report: Callable[[int, str], None]) -> base.Verdict:
        report(0, f"{self.word}: one after the other")
        fault = self.one_after_the_other()
        if fault is not None:
            return base.Verdict(self.word, safe=False, evidence=fault)
        for number in range(rounds if self.races else 0):
            report(1 + number, f"{self.word}: race {number + 1} of {rounds}")
            has_fault = self.race(number)
            if self.patience.is_over or (has_fault and number + 1 >= ENOUGH):
                break
        return self.verdict()

    @abstractmethod
    def one_after_the_other(self) -> str | None:
        """Return what is wrong with what comes of it where nobody else does anything."""

    def race(self, number: int) -> bool:
        """Have all do it at once; return whether there has ever been a fault."""
        raise NotImplementedError

    @abstractmethod
    def verdict(self) -> base.Verdict:
        """Say what was seen: safe is no fault, in enough races that came to an end."""

    def _why(self) -> str:
        return brief(self._causes[-1] if self._causes else None)


@dataclass(slots=True)
class _Creating(_Prober):
    """Creates names, and keeps how many of them had each fault."""

    prepare: Prepare = field(kw_only=True)
    _faults: dict[str, int] = field(default_factory=dict)
    _decided: int = 0
    _most_winners: int = 0

    def one_after_the_other(self) -> str | None:
        name, first, outcome = self._certainly()
        seen = look(self.ground.store, name, self.patience)
        if not isinstance(outcome, base.Created):
            return never("created a new name", outcome, seen)
        if seen.token != first.token:
            return f"one after the other: a creation's token could not be read back ({seen.token} was)"
        if not first.wrote(seen):
            return "one after the other: a creation's bytes could not be read back"
        _, second, outcome = self._certainly(name)
        seen = look(self.ground.store, name, self.patience)
        if isinstance(outcome, base.Created):
            what = "an existing object was overwritten" if second.wrote(seen) else "a taken name was created"
            return f"one after the other: {what} by a conditional {self.word}, which was acknowledged"
        if not first.wrote(seen):
            return f"one after the other: an existing object was overwritten by a refused {self.word}"
        if not isinstance(outcome, base.Exists):
            return never("refused a taken name", outcome, seen)
        return None

    def _certainly(self, name: str | None = None) -> tuple[str, Attempt, Decision]:
        """Attempt ``name``, or a new one each time, until the answer is certain; a few times at most."""
        for number in count():
            tried = name or self.ground.name(self.word)
            attempt = self.prepare(self.ground, tried, SMALL)
            outcome = foreseen(attempt.decide)
            attempt.discard()
            if isinstance(
                unless_not_the_store_s(outcome), (base.Created, base.Exists, base.Refused)
            ) or not self.patience.may_try_again(number):
                return tried, attempt, outcome
        raise AssertionError

    def race(self, number: int) -> bool:
        name, size = self.ground.name(self.word), SIZES[number % len(SIZES)]
        attempts = list(self.pool.map(lambda _: self.prepare(self.ground, name, size), range(self.at_once)))
        outcomes = together(self.pool, [partial(foreseen, attempt.decide) for attempt in attempts])
        self._note(attempts, outcomes, look(self.ground.store, name, self.patience))
        list(self.pool.map(lambda attempt: attempt.discard(), attempts))
        return bool(self._faults)

    def _note(self, attempts: Sequence[Attempt], outcomes: Sequence[Decision], seen: Seen) -> None:
        pairs = list(zip(attempts, outcomes, strict=True))
        winners = [attempt for attempt, outcome in pairs if isinstance(outcome, base.Created)]
        losers = [
            attempt
            for attempt, outcome in pairs
            if isinstance(outcome, (base.Exists, base.Refused, base.TryAgain))
        ]
        fault = _fault(winners, losers, seen)
        if fault is not None:
            self._faults[fault] = self._faults.get(fault, 0) + 1
        self._raced += 1
        self._decided += fault is None and bool(winners)
        self._most_winners = max(self._most_winners, len(winners))
        self._causes += [
            outcome.cause for outcome in outcomes if isinstance(outcome, (base.TryAgain, base.Maybe))
        ]

    def verdict(self) -> base.Verdict:
        raced = self._raced
        unsure = f"{len(self._causes)} of {raced * self.at_once} creates had no certain answer"
        is_decided = self._decided * 2 >= raced
        if self._faults:
            found = ", ".join(f"{times} of {raced} names {fault}" for fault, times in self._faults.items())
            most = f" (up to {self._most_winners})" if self._most_winners > 1 else ""
            evidence = f"{self.at_once} creates at once: {found}{most}"
        elif not is_decided:
            evidence = f"only {self._decided} of {raced} races had a winner; {unsure}: {self._why()}"
        else:
            evidence = (
                f"{self.at_once} creates at once: {self._decided} of {raced} names had one winner, and its "
                f"bytes and token; one after the other: a taken name was refused, and kept"
                f"{'; ' + unsure if self._causes else ''}"
            )
        return base.Verdict(self.word, not self._faults and is_decided, evidence)


def _part(progress: Progress | None, number: int, parts: int, steps: int) -> Callable[[int, str], None]:
    """Return what reports the steps of one operation among all."""
    return lambda step, what: progress(number * steps + step, parts * steps, what) if progress else None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One create of a name, ready, of ``size`` bytes that are made of its token."""

    token: str
    size: int
    decide: Callable[[], Decision]
    discard: Callable[[], None] = lambda: None

    def wrote(self, seen: Seen) -> bool:
        """Whether what was read, the token and every byte, is this attempt's."""
        return seen.token == self.token and seen.data == content(self.token, self.size)


# Each prepares an attempt from the probe's ground, a name and a number of bytes.


def _put(ground: Ground, name: str, size: int) -> Attempt:
    creation = ground.creation()
    body = base.InMemory(content(creation.token, size))
    return Attempt(creation.token, size, lambda: ground.store.create(name, body, creation))


def _complete(ground: Ground, name: str, size: int) -> Attempt:
    creation = ground.creation()
    staged = ground.stage(name, content(creation.token, size), creation)
    if not isinstance(staged, base.Staged):
        return Attempt(creation.token, size, lambda: staged)
    return Attempt(creation.token, size, partial(ground.complete, staged), partial(ground.discard, staged))


def never(what: str, outcome: Decision, seen: Seen) -> str:
    """Say why an operation, one at a time, never did ``what`` it must."""
    if isinstance(outcome, base.Exists):
        return f"one after the other: it never {what}, but answered that the name exists"
    if isinstance(outcome, base.Refused):
        return f"refused: {brief(outcome.error)}"
    cause = (
        brief(outcome.cause) if isinstance(outcome, (base.TryAgain, base.Maybe)) else type(outcome).__name__
    )
    wrote = "wrote nothing" if seen.token is None else "gave no certain answer"
    return f"refused: it never {what}, and {wrote}: {cause}"


def _fault(winners: Sequence[Attempt], losers: Sequence[Attempt], seen: Seen) -> str | None:
    if len(winners) > 1:
        return "had more than one winner"
    if winners and not winners[0].wrote(seen):
        return "held other bytes, or another token, than their winner's"
    if any(seen.token == loser.token for loser in losers):
        return "were held by a creation that was refused"
    return None


# --- what arbiters beside the store need: a listing shows what was put, and a missing source is not copied
#
# A copy whose source goes missing *meanwhile* may still come off. That is no fault for whoever reads through
# the shim, which tells by the token what has ended.

_KEYS = 3


@dataclass(slots=True)
class _Listing(_Prober):
    """Puts and lists, and keeps how many listings, in how many folders, lacked something."""

    _listings: int = 0
    _lacking: int = 0
    _folders: int = 0

    def one_after_the_other(self) -> str | None:
        store, folder, names = self.ground.store, self.ground.subfolder(self.word), set()
        for number in range(_KEYS):
            name, creation = self.ground.name(self.word, folder), self.ground.creation()
            outcome = self.patience.answer(partial(self._put, name, creation))
            if not isinstance(outcome, base.Written):
                return f"refused: it never put a key: {brief(error_of(outcome))}"
            seen = look(store, name, self.patience)
            if (seen.token, seen.data) != (creation.token, content(creation.token, SMALL)):
                return "one after the other: the bytes or the token of a put could not be read back"
            names.add(name)
            listed = self.patience.answer(partial(store.list, folder))
            if not isinstance(listed, base.Listed):
                return f"refused: it never listed a folder: {brief(error_of(listed))}"
            shown = {entry.name for entry in listed.entries}
            if shown != names:
                return f"one after the other: {number + 1} keys were put, {len(shown & names)} of them listed"
        return None

    def race(self, _: int) -> bool:
        store, folder = self.ground.store, self.ground.subfolder(self.word)
        ended: list[str] = []

        def put_and_list(name: str) -> tuple[set[str], base.PutOutcome | base.ListOutcome]:
            outcome = self._put(name, self.ground.creation())
            if not isinstance(outcome, base.Written):
                return set(), outcome
            # Whoever is in here has put before this listing begins: the writer itself, at least.
            ended.append(name)
            before = set(ended)
            listed = foreseen(partial(store.list, folder))
            if not isinstance(listed, base.Listed):
                return set(), listed
            return before - {entry.name for entry in listed.entries}, listed

        names = [self.ground.name(self.word, folder) for _ in range(self.at_once)]
        came = together(self.pool, [partial(put_and_list, name) for name in names])
        lacking = sum(bool(missed) for missed, _ in came)
        causes = [error_of(outcome) for _, outcome in came if not isinstance(outcome, base.Listed)]
        self._causes += causes
        self._raced += 1
        self._listings += len(came) - len(causes)
        self._lacking += lacking
        self._folders += bool(lacking)
        return bool(self._lacking)

    def _put(self, name: str, creation: base.Creation) -> base.PutOutcome:
        body = base.InMemory(content(creation.token, SMALL))
        return foreseen(partial(self.ground.store.put, name, body, creation))

    def verdict(self) -> base.Verdict:
        raced, listings, attempts = self._raced, self._listings, self._raced * self.at_once
        unsure = f"{len(self._causes)} of {attempts} writers had no certain answer"
        if self._lacking:
            evidence = (
                f"{self.at_once} writers at once: {self._lacking} of {listings} listings lacked what had "
                f"been put before them, in {self._folders} of {raced} folders"
            )
        elif listings * 2 < attempts:
            evidence = f"only {listings} of {attempts} writers could list; {unsure}: {self._why()}"
        else:
            evidence = (
                f"{self.at_once} writers at once: each of {listings} listings, in {raced} folders, "
                f"showed all that had been put before it{'; ' + unsure if self._causes else ''}"
            )
        return base.Verdict(self.word, safe=not self._lacking and listings * 2 >= attempts, evidence=evidence)


_NOTHING = Seen(None, None)
_ONE_BY_ONE = "one after the other: "


@dataclass(slots=True)
class _Publishing(_Prober):
    """Publishes, deletes, and publishes what is deleted."""

    races: ClassVar[bool] = False

    def one_after_the_other(self) -> str | None:
        name, first, other = (self.ground.name(self.word) for _ in range(3))
        for source in (first, other):
            outcome = self._put(source)
            if not isinstance(outcome, base.Written):
                return f"refused: it never put a key: {brief(error_of(outcome))}"
        outcome_of_first = self._publish(first, name)
        if not isinstance(outcome_of_first, base.Written):
            return f"refused: it never published a key: {brief(error_of(outcome_of_first))}"
        if not self._shows(name, first):
            return f"{_ONE_BY_ONE}the bytes or the token of a copy could not be read back"
        outcome_of_other = self._publish(other, name)
        if not self._shows(name, other if isinstance(outcome_of_other, base.Written) else first):
            return f"{_ONE_BY_ONE}a copy over another object left neither of them whole"
        if not isinstance(outcome_of_other, (base.Written, base.Exists)):
            return f"refused: it never published over another object: {brief(error_of(outcome_of_other))}"
        return self._without_a_source(other, name)

    def _without_a_source(self, source: str, taken: str) -> str | None:
        before = look(self.ground.store, taken, self.patience)
        if not isinstance(self._delete(source), base.Deleted):
            return "refused: it never deleted a key"
        for name in (self.ground.name(self.word), taken):
            outcome = self._publish(source, name)
            seen = look(self.ground.store, name, self.patience)
            if isinstance(outcome, base.Written):
                return f"{_ONE_BY_ONE}a copy of a missing source was acknowledged"
            if seen != (before if name == taken else _NOTHING):
                return f"{_ONE_BY_ONE}a copy of a missing source wrote something"
            if not isinstance(outcome, base.Absent):
                why = brief(error_of(outcome))
                return f"{_ONE_BY_ONE}a copy of a missing source failed without saying why: {why}"
        return None

    def verdict(self) -> base.Verdict:
        evidence = f"{_ONE_BY_ONE}a copy of a missing source failed, and wrote nothing"
        return base.Verdict(self.word, safe=True, evidence=evidence)

    def _shows(self, name: str, source: str) -> bool:
        seen = look(self.ground.store, name, self.patience)
        return seen == look(self.ground.store, source, self.patience) and seen.data == content(source, SMALL)

    def _put(self, source: str) -> base.PutOutcome:
        body, creation = base.InMemory(content(source, SMALL)), self.ground.creation()
        return self.patience.answer(lambda: self.ground.store.put(source, body, creation))

    def _publish(self, source: str, name: str) -> base.PublishOutcome:
        publish = partial(self.ground.store.publish, source, name, self.ground.creation())
        return self.patience.answer(partial(foreseen, publish))

    def _delete(self, name: str) -> base.DeleteOutcome:
        return self.patience.answer(partial(self.ground.store.delete, name))
