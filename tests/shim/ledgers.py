"""A ledger under test: the real protocols and wrong ones, and the schedules that they are played in."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from putifabsent import shim
from putifabsent.backends.base import Created, Creation, InMemory, Written
from putifabsent.shim.ledger import facts
from putifabsent.shim.policy import Policy
from putifabsent.shim.requests import List, Pause, Put, removed
from putifabsent.testing.explore import Actor, Explored, Faults, explore
from putifabsent.testing.imagined import Thing
from tests.mutation import Change
from tests.shim.ledger_judges import Judge
from tests.shim.ledger_tables import (
    NAME,
    NEVER,
    REAL,
    SMALL,
    STATE,
    TIMELINE,
    RemoveAll,
    Table,
    family,
    history,
    no_clock,
    slice_of,
    things_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from putifabsent.shim.requests import Protocol

POLICY = Policy()


@dataclass
class Process:
    """What one process does: a session of its own, unless it is said to share another's.

    Attributes
    ----------
    does
        The name of a function below.
    instant
        What it is about.
    session
        Whose it is.
    warm
        How many of the records that are there before it has read; None: all.
    lease
        Of the turn that it takes; None: it takes none.
    opens
        Whether it opens the instant; else it is open, and maybe another's.
    """

    does: str
    instant: str = ""
    session: str = ""
    warm: int | None = None
    lease: float | None = None
    opens: bool = False
    follows: str | None = None


class Played:
    """One process's protocols, which use these modules."""

    def __init__(
        self, process: Process, token: str, before: Sequence[Any], every: int, p: Any, arbiter: Any = None
    ) -> None:
        self.process, self.token, self.p = process, token, p
        self.arbiter = arbiter or p.Native(SMALL)
        self.session = process.session or f"s-{token}"
        states = [p.State(every=every), *(state for _, state in history(before, every=every, p=p))]
        self.known = states[-1 if process.warm is None else process.warm]

    def start(self) -> Any:
        """Return what it knows at first."""
        read, lane = self.known, self.p.Lane(self.token)
        knows = {"state": read, "listed": read.number, "marker": read.life or None}
        return self.p.Ledger(NAME, self.session, self.arbiter, lane, **knows)

    def creation(self, suffix: str = "") -> Creation:
        return Creation(self.token + suffix, "writer", STATE)

    def rule(self, ledger: Any, path: str, suffix: str, *, deletes: bool, frees: str | None = None) -> Any:
        token = self.token + suffix
        asker = self.p.Asker(self.session, token, ledger.opened, path, ledger.relative(path), frees)
        return self.p.rule_for(asker, deletes=deletes)

    def deletes(self, ledger: Any, path: str, suffix: str) -> Protocol[None]:
        rule = self.rule(ledger, path, suffix, deletes=True)
        if not (yield from self.p.delete_by_rule(ledger, rule, path, self.creation(suffix))):
            yield from removed(path)

    def completes(self, ledger: Any, instant: str, suffix: str, turn: Any = None) -> Protocol[None]:
        path = f"{TIMELINE}/{instant}_{instant}9.commit"
        rule = self.rule(ledger, path, suffix, deletes=False)
        creation = self.creation(suffix)
        body = InMemory(creation.token.encode())
        yield from self.p.create_by_rule(
            ledger, rule, path, instant, body, creation, _never, turn=turn, largest_publish=99
        )

    def commit(self) -> Protocol[str]:
        """Open, write a slice, take the turn, complete, give the turn back."""
        process, ledger = self.process, self.start()
        instant = process.instant
        if process.opens:
            yield from self.opens(ledger, instant)
        turn = None
        if process.lease is not None:
            turn = yield from self.takes(ledger, process.lease)
            if turn is None:
                return "no turn"
        yield from self.completes(ledger, instant, "", turn)
        if turn is not None:
            with contextlib.suppress(OSError):  # it fails no commit that is complete
                yield from self.p.release(ledger, turn, self.creation("-release"))
        return "done"

    def commit_in_a_turn(self) -> Protocol[str]:
        """Take the turn, and do all else in it."""
        ledger, instant = self.start(), self.process.instant
        turn = yield from self.takes(ledger, NEVER)
        if turn is None:
            return "no turn"
        yield from self.opens(ledger, instant)
        yield from self.completes(ledger, instant, "", turn)
        with contextlib.suppress(OSError):
            yield from self.p.release(ledger, turn, self.creation("-release"))
        return "done"

    def opens(self, ledger: Any, instant: str) -> Protocol[None]:
        path = f"{TIMELINE}/{instant}.commit.requested"
        rule = self.rule(ledger, path, "-open", deletes=False)
        yield from self.p.decide(ledger, rule, self.creation("-open"))
        yield from _putting(slice_of(instant), self.creation())

    def takes(self, ledger: Any, lease: float) -> Protocol[Any]:
        """Take the turn, as a thread that is called after this process; return which one."""
        turn = yield from self.p.take(ledger, self.token, lease, self.creation("-turn"), clock=no_clock)
        return turn

    def breaks(self) -> Protocol[str]:
        """Take the turn, breaking others' where that is allowed, and give it back."""
        ledger = self.start()
        turn = yield from self.takes(ledger, NEVER)
        if turn is not None:
            with contextlib.suppress(OSError):
                yield from self.p.release(ledger, turn, self.creation("-release"))
        return "over"

    def rollback(self) -> Protocol[str]:
        """Roll an instant back that is taken for pending: its slice, its names; and complete the rollback."""
        ledger = self.start()
        return self._rollback(ledger, ledger)

    def rollback_by_replicas(self) -> Protocol[str]:
        """Do so by two caches: that by which slices are removed has read nothing since the beginning."""
        return self._rollback(self.start(), self.start())

    def _rollback(self, ledger: Any, replica: Any) -> Protocol[str]:
        process = self.process
        path = f"{TIMELINE}/9{process.instant}.rollback.requested"
        rule = self.rule(ledger, path, "", deletes=False, frees=process.instant)
        yield from self.p.decide(ledger, rule, self.creation())
        yield from self.deletes(replica, slice_of(process.instant), "-d")
        yield from self.deletes(ledger, f"{TIMELINE}/{process.instant}.inflight", "-i")
        yield from self.completes(ledger, f"9{process.instant}", "-done")
        return "rolled back"

    def restore(self) -> Protocol[str]:
        """Roll a completed instant back: its completed name first, then its slice; no rollback stays."""
        process, ledger = self.process, self.start()
        path = f"{TIMELINE}/8{process.instant}.rollback.requested"
        rule = self.rule(ledger, path, "", deletes=False, frees=process.instant)
        yield from self.p.decide(ledger, rule, self.creation())
        name = f"{TIMELINE}/{process.instant}_{process.instant}9.commit"
        yield from self.deletes(ledger, name, "-n")
        yield from self.deletes(ledger, slice_of(process.instant), "-d")
        yield from self.deletes(ledger, path, "-r")
        return "restored"

    def archive(self) -> Protocol[str]:
        """Remove a completed name that is old."""
        process, ledger = self.process, self.start()
        name = f"{TIMELINE}/{process.instant}_{process.instant}9.commit"
        yield from self.deletes(ledger, name, "-n")
        return "archived"

    def go_on(self) -> Protocol[str]:
        """Take an instant over, write its slice again, and complete it."""
        ledger, instant = self.start(), self.process.instant
        path = f"{TIMELINE}/{instant}.compaction.inflight"
        rule = self.rule(ledger, path, "-in", deletes=False)
        yield from self.p.create_by_rule(
            ledger,
            rule,
            path,
            instant,
            InMemory(b""),
            self.creation("-in"),
            partial(_putting, slice_of(instant), self.creation()),
            turn=None,
            largest_publish=99,
        )
        yield from self.completes(ledger, instant, "")
        return "done"

    def prune(self) -> Protocol[str]:
        yield from self.p.prune(self.start(), self.creation())
        return "pruned"

    def remove(self) -> Protocol[str]:
        """Remove the table at one moment."""
        everything: Any = RemoveAll()  # a request of the tests' world alone
        yield everything
        return "removed"

    def remove_one_by_one(self) -> Protocol[str]:
        """Remove what is there now of the table, the ledger's marker before all else, as the shim does."""
        found = []
        for folder in (f"{STATE}/ledger", f"{STATE}/bodies", f"{STATE}/beats", TIMELINE, "b/t"):
            listed = yield List(folder)
            found += [entry.name for entry in listed.entries]
        for name in found:
            yield from removed(name)
        return "removed"

    def read(self) -> Protocol[tuple[str, ...]]:
        """List the timeline."""
        ledger = self.start()
        yield from ledger.current(self.creation())
        listed = yield List(TIMELINE)
        names = (entry.name for entry in listed.entries)
        return tuple(self.p.shown(ledger, TIMELINE, names))


def _never() -> Protocol[Any]:
    yield from ()
    raise AssertionError("it was opened through the ledger")


def _putting(path: str, creation: Creation) -> Protocol[Any]:
    """Put a slice, or fail."""
    pauses = 0
    while True:
        outcome = yield Put(path, InMemory(b"slice"), creation)
        if isinstance(outcome, Written):
            return Created()
        pauses += 1
        if not (yield Pause(pauses)):
            raise TimeoutError(path)


@dataclass(frozen=True)
class Scenario:
    """Who does what.

    Attributes
    ----------
    name
        For people.
    processes
        One or more.
    faults
        What may go wrong.
    before
        The records that are there at first.
    every
        Which records are checkpoints.
    conditions, versions, republishes
        Of the store.
    """

    name: str
    processes: tuple[Process, ...]
    faults: Faults
    before: tuple[Any, ...] = ()
    every: int = 64
    store: dict[str, bool] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def actors(self, p: Any = REAL) -> list[Actor]:
        """Return the processes, which use these modules."""
        found = []
        for number, process in enumerate(self.processes):
            token = f"{process.does}{number}"
            played = Played(process, token, self.before, self.every, p)
            make = getattr(played, process.does)
            found.append(Actor(token, process.does, make, token, process.follows, timed=False))
        return found

    def world(self) -> Table:
        """Return the table as it is before."""
        there = {each.instant for each in self.before if each.KIND == "OPEN"}
        slices = [(slice_of(instant), Thing("", b"slice")) for instant in sorted(there)]
        things = [*things_of(self.before, every=self.every), *slices]
        return Table(things=things, **self.store)


def play(scenario: Scenario, p: Any = REAL, *, most: int | None = None) -> Explored:
    """Play all schedules of a scenario."""
    archived = {each.instant for each in scenario.processes if each.does == "archive"}
    is_certain = not (scenario.faults.lost or scenario.faults.late)
    judge = Judge(NAME, facts.State(every=scenario.every), archived, is_certain=is_certain)
    return explore(scenario.actors(p), scenario.world(), judge, scenario.faults, most=most)


LEDGER = (
    "facts",
    "records",
    "book",
    "appending",
    "turns",
    "completion",
    "calls",
)


@dataclass(frozen=True)
class Mutant(Change):
    """One change of the ledger.

    Attributes
    ----------
    scenario
        The short one that finds it out.
    """

    scenario: str

    def protocols(self) -> Any:
        """Return the modules with this change."""
        made = self.modules(shim, [f"ledger/{each}" for each in LEDGER] + ["formats/hudi_ledger"])
        return family({name.rpartition("/")[2]: module for name, module in made.items()})
