"""Races a store, and says what it really guarantees.

Each operation that can create a name is tried by itself: one create after the other, then many at once. So
are, on request, listings after puts, and copies of what is being deleted. A probe can prove a
store unsafe, never safe.
"""

from __future__ import annotations

import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, TypeAlias, cast

from putifabsent.backends.base import (
    Absent,
    ConditionalCopy,
    Created,
    Exists,
    Maybe,
    Refused,
    Staged,
    TryAgain,
)
from putifabsent.backends.body import InMemory
from putifabsent.backends.probe_arbiters import ListingProber, PublishingProber
from putifabsent.backends.probe_cache import BESIDE, NEEDED, Verdict, recall, remember, turn
from putifabsent.backends.probe_ground import (
    ENOUGH,
    SIZES,
    SMALL,
    Ground,
    Patience,
    Seen,
    brief,
    content,
    foreseen,
    look,
    together,
    unless_not_the_store_s,
)
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from putifabsent.backends.base import CompleteOutcome, Store

    Decision: TypeAlias = CompleteOutcome | Absent
    Prepare: TypeAlias = Callable[[Ground, str, int, int], "Attempt"]

__all__ = ["BESIDE", "CREATES", "NEEDED", "ROUNDS", "Verdict", "probe", "verdicts_for"]

CREATES = 32  # simultaneous creates of one name. A client that is probed must allow that many connections.
ROUNDS = 24  # names that are raced, for each operation
SECONDS = 20.0

Progress: TypeAlias = "Callable[[int, int, str], None]"

_log = logging.getLogger(__name__)


def probe(
    store: Store,
    folder: str,
    *,
    operations: Iterable[str] | None = None,
    creates: int = CREATES,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    progress: Progress | None = None,
) -> dict[str, Verdict]:
    """Race each operation of ``store`` that can create a name, or those that are requested.

    The folder is there. Nothing is written but below its ``.putifabsent/probe-<uuid>/``, which is gone
    afterwards. Of the operations, ``"list"`` and ``"publish"`` are tried only on request: arbiters beside the
    store rest on them. ``creates`` are simultaneous requests of any kind; of so many ``rounds``, a name each,
    fewer are raced once a fault was found, and none of an operation is begun after so many ``seconds``.
    ``progress`` is called with steps done, steps in all, and what is being tried. ``ConfigError``: the store
    has no such operation; ``OSError``: it can't be probed, it does not answer, or lets nobody write there.
    """
    creating: dict[str, Prepare] = {"put": _put, "complete": _complete}
    if isinstance(store, ConditionalCopy):
        creating["copy"] = _copy
    probers: dict[str, Callable[..., _Prober | ListingProber | PublishingProber]] = {
        **{word: partial(_Prober, word, prepare) for word, prepare in creating.items()},
        **{prober.word: prober for prober in (ListingProber, PublishingProber)},
    }
    chosen = list(creating if operations is None else operations)
    for word in chosen:
        if word not in probers:
            raise ConfigError(f"the {store.kind} store has no {word!r}: choose from {', '.join(probers)}")
    verdicts: dict[str, Verdict] = {}
    with Ground(store, folder) as ground, ThreadPoolExecutor(creates, "putifabsent-probe") as pool:
        for number, word in enumerate(chosen):
            report = _part(progress, number, len(chosen), rounds + 1)
            prober = probers[word](ground, pool, creates, Patience(seconds))
            verdicts[word] = _tried(prober, rounds, report)
    if progress:
        progress(len(chosen) * (rounds + 1), len(chosen) * (rounds + 1), "done")
    return verdicts


def _tried(
    prober: _Prober | ListingProber | PublishingProber, rounds: int, report: Callable[[int, str], None]
) -> Verdict:
    report(0, f"{prober.word}: one after the other")
    fault = prober.one_after_the_other()
    if fault is not None:
        return Verdict(prober.word, safe=False, evidence=fault)
    for number in range(rounds):
        report(1 + number, f"{prober.word}: race {number + 1} of {rounds}")
        has_fault = prober.race(number)
        if prober.patience.is_over or (has_fault and number + 1 >= ENOUGH):
            break
    return prober.verdict()


def verdicts_for(
    kind: str,
    endpoint: str | None,
    make_store: Callable[[], Store],
    folder: str,
    *,
    operations: Sequence[str] = NEEDED,
) -> dict[str, Verdict]:
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
class _Prober:
    """Tries one operation that creates names, and keeps how many names had each fault."""

    word: str
    prepare: Prepare
    ground: Ground
    pool: ThreadPoolExecutor
    creates: int
    patience: Patience
    _faults: dict[str, int] = field(default_factory=dict)
    _raced: int = 0
    _decided: int = 0
    _uncertain: int = 0
    _most_winners: int = 0
    _cause: Exception | None = None

    def one_after_the_other(self) -> str | None:
        """Create a name twice, and return what is wrong with what came of it."""
        name, first, outcome = self._certainly()
        seen = look(self.ground.store, name, self.patience)
        if not isinstance(outcome, Created):
            return never("created a new name", outcome, seen)
        if seen.token != first.token:
            return f"one after the other: a creation's token could not be read back ({seen.token} was)"
        if not first.wrote(seen):
            return "one after the other: a creation's bytes could not be read back"
        _, second, outcome = self._certainly(name)
        seen = look(self.ground.store, name, self.patience)
        if isinstance(outcome, Created):
            what = "an existing object was overwritten" if second.wrote(seen) else "a taken name was created"
            return f"one after the other: {what} by a conditional {self.word}, which was acknowledged"
        if not first.wrote(seen):
            return f"one after the other: an existing object was overwritten by a refused {self.word}"
        if not isinstance(outcome, Exists):
            return never("refused a taken name", outcome, seen)
        return None

    def _certainly(self, name: str | None = None) -> tuple[str, Attempt, Decision]:
        """Attempt ``name``, or a new one each time, until the answer is certain; a few times at most."""
        for number in count():
            tried = name or self.ground.name(self.word)
            attempt = self.prepare(self.ground, tried, SMALL, 0)
            outcome = foreseen(attempt.decide)
            attempt.discard()
            if isinstance(
                unless_not_the_store_s(outcome), (Created, Exists, Refused)
            ) or not self.patience.may_try_again(number):
                return tried, attempt, outcome
        raise AssertionError

    def race(self, number: int) -> bool:
        """Create a name by all at once; return whether one has ever had a fault."""
        name, size = self.ground.name(self.word), SIZES[number % len(SIZES)]
        attempts = list(
            self.pool.map(lambda place: self.prepare(self.ground, name, size, place), range(self.creates))
        )
        outcomes = together(self.pool, [partial(foreseen, attempt.decide) for attempt in attempts])
        self._note(attempts, outcomes, look(self.ground.store, name, self.patience))
        list(self.pool.map(lambda attempt: attempt.discard(), attempts))
        return bool(self._faults)

    def _note(self, attempts: Sequence[Attempt], outcomes: Sequence[Decision], seen: Seen) -> None:
        pairs = list(zip(attempts, outcomes, strict=True))
        winners = [attempt for attempt, outcome in pairs if isinstance(outcome, Created)]
        losers = [attempt for attempt, outcome in pairs if isinstance(outcome, (Exists, Refused, TryAgain))]
        fault = _fault(winners, losers, seen)
        if fault is not None:
            self._faults[fault] = self._faults.get(fault, 0) + 1
        self._raced += 1
        self._decided += fault is None and bool(winners)
        self._most_winners = max(self._most_winners, len(winners))
        causes = [outcome.cause for outcome in outcomes if isinstance(outcome, (TryAgain, Maybe))]
        self._uncertain += len(causes)
        self._cause = causes[-1] if causes else self._cause

    def verdict(self) -> Verdict:
        """Say what was seen: safe is no fault, in enough races that came to an end."""
        raced = self._raced
        unsure = f"{self._uncertain} of {raced * self.creates} creates had no certain answer"
        is_decided = self._decided * 2 >= raced
        if self._faults:
            found = ", ".join(f"{times} of {raced} names {fault}" for fault, times in self._faults.items())
            most = f" (up to {self._most_winners})" if self._most_winners > 1 else ""
            evidence = f"{self.creates} creates at once: {found}{most}"
        elif not is_decided:
            evidence = f"only {self._decided} of {raced} races had a winner; {unsure}: {brief(self._cause)}"
        else:
            evidence = (
                f"{self.creates} creates at once: {self._decided} of {raced} names had one winner, and its "
                f"bytes and token; one after the other: a taken name was refused, and kept"
                f"{'; ' + unsure if self._uncertain else ''}"
            )
        return Verdict(self.word, not self._faults and is_decided, evidence)


def _part(progress: Progress | None, number: int, parts: int, steps: int) -> Callable[[int, str], None]:
    """Return what reports the steps of one operation among all."""
    return lambda step, what: progress(number * steps + step, parts * steps, what) if progress else None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One create of a name, ready, of ``size`` bytes that are made of ``mark``."""

    token: str
    mark: str
    size: int
    decide: Callable[[], Decision]
    discard: Callable[[], None] = lambda: None

    def wrote(self, seen: Seen) -> bool:
        """Whether what was read, the token and every byte, is this attempt's."""
        return seen.token == self.token and seen.data == content(self.mark, self.size)


# Each prepares an attempt from the probe's ground, a name, a number of bytes and the attempt's place among
# those that are raced together.


def _put(ground: Ground, name: str, size: int, _: int) -> Attempt:
    creation = ground.creation()
    token, body = creation.token, InMemory(content(creation.token, size))
    return Attempt(token, token, size, lambda: ground.store.create(name, body, creation))


def _complete(ground: Ground, name: str, size: int, _: int) -> Attempt:
    creation = ground.creation()
    token = creation.token
    staged = ground.stage(name, content(token, size), creation)
    if not isinstance(staged, Staged):
        return Attempt(token, token, size, lambda: staged)
    return Attempt(token, token, size, partial(ground.complete, staged), partial(ground.discard, staged))


def _copy(ground: Ground, name: str, size: int, place: int) -> Attempt:
    creation = ground.creation()
    source, made = ground.source(place, size)
    if not isinstance(made, Created):
        return Attempt(creation.token, source, size, lambda: made)
    copy = cast("ConditionalCopy", ground.store).copy
    return Attempt(creation.token, source, size, partial(copy, source, name, creation))


def never(what: str, outcome: Decision, seen: Seen) -> str:
    """Say why an operation, one at a time, never did ``what`` it must."""
    if isinstance(outcome, Exists):
        return f"one after the other: it never {what}, but answered that the name exists"
    if isinstance(outcome, Refused):
        return f"refused: {brief(outcome.error)}"
    cause = brief(outcome.cause) if isinstance(outcome, (TryAgain, Maybe)) else type(outcome).__name__
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
