"""Races a store, and says what it really guarantees.

Each operation that can create a name is tried by itself: one create after the other, then many at once. So
are, where they are asked for, listings after puts, and copies of what is being deleted. A probe can prove a
store unsafe, never safe.
"""

from __future__ import annotations

import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count, cycle
from typing import TYPE_CHECKING, TypeAlias

from putifabsent.backends.base import Created, Exists, Maybe, Refused
from putifabsent.backends.probe_evidence import Tally, never
from putifabsent.backends.probe_ground import Ground
from putifabsent.backends.probe_listing import ListingProber
from putifabsent.backends.probe_look import ENOUGH, Patience, look, together, unless_not_the_store_s
from putifabsent.backends.probe_operations import operations_of
from putifabsent.backends.probe_publishing import PublishingProber
from putifabsent.backends.verdicts import BESIDE, NEEDED, Verdict, recall, remember, turn
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from putifabsent.backends.base import Store
    from putifabsent.backends.probe_operations import Attempt, Decision, Prepare

__all__ = ["BESIDE", "CREATES", "NEEDED", "ROUNDS", "Verdict", "probe", "verdicts_for"]

CREATES = 32
"""Simultaneous creates of one name. A client that is probed must allow that many connections."""

ROUNDS = 24
"""Names that are raced, for each operation."""

SECONDS = 20.0

Progress: TypeAlias = "Callable[[int, int, str], None]"

# A server that looks first and writes then is caught between the two, which takes it longer for more bytes.
_LARGE, _SMALL = 256 * 1024, 1024
_SIZES = (_LARGE, _LARGE, _LARGE, _SMALL)
_BESIDE: dict[str, type[ListingProber | PublishingProber]] = {
    prober.word: prober for prober in (ListingProber, PublishingProber)
}
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
    """Race each operation of ``store`` that can create a name, or those that are asked for.

    Parameters
    ----------
    store
        Any store.
    folder
        An existing folder of it. Nothing is written but below its ``.putifabsent/probe-<uuid>/``, which
        is gone afterwards.
    operations
        Which of ``"put"``, ``"complete"``, ``"copy"``; by default those that the store has. ``"list"`` and
        ``"publish"`` are tried only where they are asked for: arbiters beside the store rest on them.
    creates
        Simultaneous creates of one name; simultaneous requests of any kind.
    rounds
        Names to race, for each operation. Fewer are raced once a fault was found.
    seconds
        After which no further race of an operation is begun.
    progress
        Called with steps done, steps in all, and what is being tried.

    Raises
    ------
    ConfigError
        The store has no such operation.
    OSError
        The store can't be probed: it does not answer, or lets nobody write there.
    """
    offered = operations_of(store)
    chosen = list(offered if operations is None else operations)
    for word in chosen:
        if word not in (*offered, *BESIDE):
            there = ", ".join((*offered, *BESIDE))
            raise ConfigError(f"the {store.kind} store has no {word!r}: choose from {there}")
    verdicts: dict[str, Verdict] = {}
    with Ground(store, folder) as ground, ThreadPoolExecutor(creates, "putifabsent-probe") as pool:
        for number, word in enumerate(chosen):
            report = _part(progress, number, len(chosen), rounds + 1)
            patience = Patience(seconds)
            prober: _Prober | ListingProber | PublishingProber
            if word in BESIDE:
                prober = _BESIDE[word](ground, pool, creates, patience)
            else:
                prober = _Prober(ground, pool, creates, word, offered[word], patience)
            verdicts[word] = prober.verdict(rounds, report)
    if progress:
        progress(len(chosen) * (rounds + 1), len(chosen) * (rounds + 1), "done")
    return verdicts


def verdicts_for(
    kind: str,
    endpoint: str | None,
    make_store: Callable[[], Store],
    folder: str,
    *,
    operations: Sequence[str] = NEEDED,
    progress: Progress | None = None,
) -> dict[str, Verdict]:
    """Return what is known of a store, after probing it for what is not.

    Parameters
    ----------
    kind, endpoint
        What a verdict is about: ``Store.kind`` and the address that its requests go to.
    make_store
        Makes the store to probe. Its client should allow :data:`CREATES` connections.
    folder, progress
        As for :func:`probe`.
    operations
        What the mount is going to use; by default what it can't do without.

    Raises
    ------
    ConfigError, OSError
        As for :func:`probe`; nothing is kept.
    """
    with _turn_of(f"{kind} {endpoint}"):
        known = recall(kind, endpoint)
        if not known.keys() >= set(operations):
            with turn(kind, endpoint):
                known = recall(kind, endpoint)
                unknown = [operation for operation in operations if operation not in known]
                if unknown:
                    _log.info(
                        "racing %s at %s, once a week, before it is relied on: %s", kind, endpoint, unknown
                    )
                    found = probe(make_store(), folder, operations=unknown, progress=progress)
                    remember(kind, endpoint, found)
                    known.update(found)
    return {operation: known[operation] for operation in operations}


_turns: dict[str, threading.Lock] = {}


def _turn_of(key: str) -> threading.Lock:
    """Return the lock by which the threads of this process probe a store once."""
    return _turns.setdefault(key, threading.Lock())


# A child forked while a thread was probing would wait for that thread, which it has not.
os.register_at_fork(after_in_child=_turns.clear)


@dataclass(frozen=True, slots=True)
class _Prober:
    """Tries one operation."""

    ground: Ground
    pool: ThreadPoolExecutor
    creates: int
    word: str
    prepare: Prepare
    patience: Patience

    def verdict(self, rounds: int, report: Callable[[int, str], None]) -> Verdict:
        report(0, f"{self.word}: one after the other")
        fault = self._one_after_the_other()
        if fault is not None:
            return Verdict(self.word, safe=False, evidence=fault)
        tally = Tally(self.creates)
        for number, size in zip(range(rounds), cycle(_SIZES)):
            report(1 + number, f"{self.word}: race {number + 1} of {rounds}")
            self._race(size, tally)
            if self.patience.is_over or (tally.faults and tally.raced >= ENOUGH):
                break
        return Verdict(self.word, tally.is_safe, str(tally))

    def _one_after_the_other(self) -> str | None:
        """Create a name twice, and return what is wrong with what came of it."""
        name, first, outcome = self._certainly()
        seen = look(self.ground.store, name, self.patience)
        if not isinstance(outcome, Created):
            return never("created a new name", outcome, seen)
        if seen.token != first.token:
            return f"one after the other: a creation's token could not be read back ({seen.token} was)"
        if not seen.is_of(first):
            return "one after the other: a creation's bytes could not be read back"
        _, second, outcome = self._certainly(name)
        seen = look(self.ground.store, name, self.patience)
        if isinstance(outcome, Created):
            what = "an existing object was overwritten" if seen.is_of(second) else "a taken name was created"
            return f"one after the other: {what} by a conditional {self.word}, which was acknowledged"
        if not seen.is_of(first):
            return f"one after the other: an existing object was overwritten by a refused {self.word}"
        if not isinstance(outcome, Exists):
            return never("said that a taken name exists", outcome, seen)
        return None

    def _certainly(self, name: str | None = None) -> tuple[str, Attempt, Decision]:
        """Attempt ``name``, or a new one each time, until the answer is certain; a few times at most."""
        for number in count():
            tried = name or self.ground.name(self.word)
            attempt = self.prepare(self.ground, tried, _SMALL, 0)
            outcome = _decide(attempt)
            attempt.discard()
            if isinstance(
                unless_not_the_store_s(outcome), (Created, Exists, Refused)
            ) or not self.patience.may_try_again(number):
                return tried, attempt, outcome
        raise AssertionError

    def _race(self, size: int, tally: Tally) -> None:
        name = self.ground.name(self.word)
        attempts = list(
            self.pool.map(lambda place: self.prepare(self.ground, name, size, place), range(self.creates))
        )
        outcomes = together(self.pool, [partial(_decide, attempt) for attempt in attempts])
        tally.note(attempts, outcomes, look(self.ground.store, name, self.patience))
        list(self.pool.map(lambda attempt: attempt.discard(), attempts))


def _decide(attempt: Attempt) -> Decision:
    try:
        return attempt.decide()
    except Exception as error:  # noqa: BLE001 - as for a protocol: what nobody foresaw is unknown
        return Maybe(error)


def _part(progress: Progress | None, number: int, parts: int, steps: int) -> Callable[[int, str], None]:
    """Return what reports the steps of one operation among all."""
    return lambda step, what: progress(number * steps + step, parts * steps, what) if progress else None
