"""A ledger over ballots, and over claims, as one world: its records and what decides about them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from putifabsent import shim
from putifabsent.backends.base import Creation, InMemory
from putifabsent.backends.registries import Claim, Claimed
from putifabsent.errors import OutcomeUnknown
from putifabsent.shim import arbiter
from putifabsent.shim.ballot_state import Accept, Prepare, Scene, folder_of, parsed, written
from putifabsent.shim.ledger import facts
from putifabsent.shim.ledger.book import HalfRemoved, Lane, Ledger, is_marker, record_at
from putifabsent.shim.requests import Delete, Pause, Put, WriteClaim, removed
from putifabsent.shim.state_keys import creation_of, placed
from putifabsent.testing.explore import Actor, Explored, Faults, explore, wander
from putifabsent.testing.imagined import Thing
from tests.mutation import Change
from tests.shim.imagined_registries import ImaginedClaims
from tests.shim.ledger_judges import WAS, Judge, alone
from tests.shim.ledger_tables import (
    NAME,
    REAL,
    SMALL,
    STATE,
    TIMELINE,
    RemoveAll,
    Table,
    family,
    slice_of,
)
from tests.shim.ledger_tables import things_of as native_things_of
from tests.shim.ledgers import LEDGER, Played, Process
from tests.shim.removals import without_rights

if TYPE_CHECKING:
    from random import Random

    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol
    from putifabsent.testing.explore import ActorRun

Decides = Literal["ballot", "claims"]

PLACE = "imagined://"
TABLE = "b/t/"
LEDGER_FOLDER = f"{STATE}/ledger"
REGISTRY: Any = "the registry"
"""Requests carry it; the world knows which one is meant."""

_found = record_at(f"{LEDGER_FOLDER}/-life")
assert _found is not None
MARKER: Name = _found


class ListAll(NamedTuple):
    """List all objects of the table, at one moment."""


# --- the world


class _Records(Table):
    """A store that decides nothing, and remembers of each record the creation that was decided first."""

    def apply(self, state: Any, request: Any) -> tuple[Any, Any]:
        if isinstance(request, RemoveAll):
            # A registry knows nothing of it.
            return frozenset(each for each in state if not each[0].startswith(TABLE)), None
        if isinstance(request, ListAll):
            return state, tuple(sorted(name for name, _ in state if name.startswith(TABLE)))
        after, outcome = super().apply(state, request)
        if isinstance(request, (Put, Delete)) and isinstance(parsed(request.name), (Accept, Prepare)):
            of = placed(request.name)
            record = record_at(of.name) if of is not None and of.name else None
            after = _remembered(after, record, record and decided(dict(after), record))
        return after, outcome

    def unanswered(self, request: Any) -> Any:
        return None if isinstance(request, ListAll) else super().unanswered(request)


class _Claimed(ImaginedClaims):
    """The same with a registry beside it, which may decide for bytes that somebody has removed."""

    def __init__(self, store: _Records) -> None:
        super().__init__(store)
        self._put: dict[str, bytes] = {}

    def apply(self, state: Any, request: Any) -> tuple[Any, Any]:
        after, outcome = super().apply(state, request)
        if isinstance(request, Put):
            self._put[request.name] = request.body.whole()
        if isinstance(request, WriteClaim) and isinstance(outcome, Claimed) and request.claim.live:
            claim = request.claim
            there = dict(state).get(claim.key)
            made = Thing(claim.token, self._put[claim.key] if there is None else there.data)
            after = _remembered(after, record_at(request.identity.removeprefix(PLACE)), made)
        return after, outcome


def decided(things: dict[str, Any], name: Name) -> Thing | None:
    """Return what is decided of a name, with its creation's token; None: nothing, or its bytes are gone."""
    claim = things.get(f"{PLACE}{name.path}")
    if isinstance(claim, Claim):
        there = things.get(claim.key) if claim.live else None
        return there and Thing(claim.token, there.data)
    folder = folder_of(name)
    scene = Scene()
    for path in things:
        if path.startswith(f"{folder}/"):
            key = parsed(path)
            if isinstance(key, Prepare):
                scene.prepares[key] = _SOME_TIME
            elif isinstance(key, Accept):
                scene.accepts.append(key)
            elif key is not None:
                scene.ends[key.incarnation] = key.value
    value = scene.decided(scene.incarnation)
    there = value and things.get(f"{folder}/{written(Prepare(scene.incarnation, 0, value))}")
    return Thing(creation_of(value or ""), there.data) if there else None


_SOME_TIME: Any = None


def present_life(things: dict[str, Any]) -> str | None:
    """Return the table's present life: the one that its marker shows, or one that has records."""
    marker = things.get(MARKER.path)
    shown = marker or decided(things, MARKER)
    life: str | None = shown and REAL.life_in(shown.data, "").life
    is_used = marker or any(name.startswith(f"{WAS}{life}.") for name in things)
    return life if is_used else None


def _remembered(state: Any, record: Name | None, made: Thing | None) -> Any:
    """Return the state with what is decided of a record of the present life, if nothing was before."""
    if record is None or made is None or is_marker(record.path):
        return state
    things = dict(state)
    last = record.path.removeprefix(f"{LEDGER_FOLDER}/")
    if f"{WAS}{last}" in things or not last.startswith(f"{present_life(things)}."):
        return state
    return state | {(f"{WAS}{last}", made)}


# --- who does what


class _Composed(Played):
    """One process's protocols, over a mount's arbiter."""

    def opens_one(self) -> Protocol[str]:
        """Open an instant: one record."""
        ledger = self.start()
        path = f"{TIMELINE}/{self.process.instant}.commit.requested"
        yield from self.p.decide(ledger, self.rule(ledger, path, "", deletes=False), self.creation())
        return "opened"

    def mends(self) -> Protocol[str]:
        """Finish and clean up what others have left of records and marker, or are in the middle of."""
        everything: Any = ListAll()
        listed = yield everything
        known = {of.name for each in listed if (of := placed(each)) is not None and of.name}
        names = [name for each in sorted({*listed, *known}) if (name := record_at(each)) is not None]
        while names:
            yield from self.arbiter.mend(names.pop(0), self.creation(), free_lost=False)
        return "mended"

    def remove_in_order(self) -> Protocol[str]:
        """Remove what is there now, one by one, in the order of names."""
        return self._removes(lambda name: (name,))

    def remove_ledger_first(self) -> Protocol[str]:
        """Remove the plain ledger before what decides about it, as who goes through folders may do."""
        return self._removes(lambda name: (not name.startswith(LEDGER_FOLDER), name))

    def remove_backwards(self) -> Protocol[str]:
        """Remove the records before the marker."""
        return self._removes(lambda name: (name.startswith(f"{STATE}/"), [-ord(each) for each in name]))

    def _removes(self, order: Any) -> Protocol[str]:
        everything: Any = ListAll()
        left = sorted((yield everything), key=order)
        while left:
            yield from removed(left.pop(0))
        return "removed"

    def remove_by_the_shim(self) -> Protocol[str]:
        """Remove the table as a mount's ``rm(recursive=True)`` does: of the ledger its marker first."""
        everything: Any = ListAll()
        listed = yield everything
        known = {of.name for each in listed if (of := placed(each)) is not None and of.name}
        names = [name for each in sorted({*listed, *known}) if (name := record_at(each)) is not None]
        left = [
            each
            for each in listed
            if not each.startswith((LEDGER_FOLDER, f"{STATE}/ballot", f"{STATE}/claims"))
        ]
        while names:
            name = names.pop(0)
            end = self.arbiter.delete if is_marker(name.path) else self.arbiter.forget
            yield from end(name, self.creation())
        while left:
            yield from removed(left.pop(0))
        return "removed"

    def read_only(self) -> Protocol[tuple[str, ...]]:
        """List the timeline, without the right to write."""
        return without_rights(self.read())

    def timed(self, does: str) -> Protocol[Any]:
        """Do it, and say of an unknown outcome whether the deadline had come."""
        protocol = getattr(self, does)()
        was_late = False
        try:
            request = next(protocol)
            while True:
                outcome = yield request
                was_late = was_late or (isinstance(request, Pause) and not outcome)
                request = protocol.send(outcome)
        except StopIteration as end:
            return end.value
        except OutcomeUnknown as error:
            error.was_late = was_late  # type: ignore[attr-defined]
            raise


@dataclass(frozen=True)
class Scenario:
    """Who does what.

    Attributes
    ----------
    name
        For people.
    by
        What decides.
    processes, faults, before, every
        As for :class:`tests.shim.ledgers.Scenario`.
    versions
        Whether the store deletes by version.
    """

    name: str
    by: Decides
    processes: tuple[Process, ...]
    faults: Faults
    before: tuple[Any, ...] = ()
    every: int = 64
    versions: bool = True

    def __str__(self) -> str:
        return f"{self.name}, by {self.by}"

    def actors(self, p: Any) -> list[Actor]:
        """Return the processes, which use these modules."""
        found = []
        for number, process in enumerate(self.processes):
            token = f"{process.does}{number}".replace("_", "-")
            played = _Composed(process, token, self.before, self.every, p, p.arbiter_of(self.by))
            make = _Making(played, process.does)
            found.append(Actor(token, process.does, make, token, process.follows, timed=False))
        return found

    def world(self) -> Any:
        """Return the table as it is before."""
        table = _Records(conditions=False, versions=self.versions)
        world = _Claimed(table) if self.by == "claims" else table
        state: Any = frozenset()
        arbiter = REAL_FAMILY.arbiter_of(self.by)
        for path, thing in native_things_of(self.before, every=self.every):
            name = record_at(path)
            if name is None and not path.startswith(WAS):
                state |= {(path, thing)}
            elif name is not None:
                making = arbiter.create(name, InMemory(thing.data), Creation(thing.token, "writer", STATE))
                _, state = alone(making, world, state)
        opened = sorted({each.instant for each in self.before if each.KIND == "OPEN"})
        state |= {(slice_of(instant), Thing("", b"slice")) for instant in opened}
        world.initial = state
        return world

    @property
    def is_halved(self) -> bool:
        """Whether somebody removes the table so that half of it may be there for a time."""
        return any(each.does.startswith("remove_") for each in self.processes)


@dataclass(frozen=True)
class _Making:
    played: _Composed
    does: str

    def __call__(self) -> Protocol[Any]:
        return self.played.timed(self.does)


# --- the promises


class ComposedJudge(Judge):
    """Judges a ledger's records, and what the arbiter adds to that.

    While a table is being removed bit by bit, half of it may be there, and everybody be told so; when that is
    over, not any more.
    """

    def __init__(self, scenario: Scenario, p: Any) -> None:
        first = facts.State(every=scenario.every)
        super().__init__(NAME, first, arbiter=REAL_FAMILY.arbiter_of(scenario.by))
        self._scenario, self._p = scenario, p

    def present(self, things: dict[str, Any]) -> str | None:
        return present_life(things)

    def judge(self, world: Any, state: Any, runs: tuple[ActorRun, ...]) -> str | None:
        """Return which promise is broken, or None."""
        for each in runs:
            broken = None if each.ended is None else self._wrong_end(each)
            if broken is not None:
                return broken
        halved = any(
            each.actor.role.startswith("remove_") and each.after is not None and not _has_removed(each)
            for each in runs
        )
        return None if halved else super().judge(world, state, runs)

    def _look(self, world: Any, state: Any) -> Any:
        """Look when a reader has finished what has no decision yet: whose it was has heard of none."""
        ledger = Ledger(NAME, "judge", self._arbiter, Lane("judge"), state=self._first)
        with contextlib.suppress(Exception):  # it is found out once more, and told
            _, state = alone(ledger.current(Creation("judge", "judge", "")), world, state)
        return super()._look(world, state)

    def _wedge(self, world: Any, state: Any) -> str | None:
        """Whether such a session as plays can't begin an instant: real ones can make up for what it does."""
        p, arbiter = self._p, self._p.arbiter_of(self._scenario.by)
        first = p.State(every=self._scenario.every)
        ledger = p.Ledger(NAME, "judge", arbiter, p.Lane("judge"), state=first)
        opening = p.append(ledger, lambda _: p.Open("z", "judge", "z"), Creation("z", "judge", ""))
        try:
            alone(opening, world, state)
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody could work any more
            return f"nobody can append any more: {error!r}"
        return None

    def _wrong_end(self, each: ActorRun) -> str | None:
        assert each.ended is not None
        how, value = each.ended
        if how == "returned":
            return None
        faults = self._scenario.faults
        if isinstance(value, PermissionError) and each.actor.role == "read_only":
            return f"{each.actor.name}, who may not write, was told {value!r}"
        if faults.lost or faults.late or not isinstance(value, OutcomeUnknown):
            return None
        is_halved = self._scenario.is_halved and ("were removed" in value.reason or _is_half_removed(value))
        if value.was_late or is_halved:  # type: ignore[attr-defined]
            return None
        return f"{each.actor.name} was told {value!r}, and every request was answered, in time"


def _has_removed(each: ActorRun) -> bool:
    return each.ended is not None and each.ended[0] == "returned"


def _is_half_removed(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, HalfRemoved):
            return True
        error = error.__cause__
    return False


# --- playing


def play(scenario: Scenario, p: Any = None, *, most: int | None = None) -> Explored:
    """Play all schedules of a scenario."""
    p = p or REAL_FAMILY
    judge = ComposedJudge(scenario, p)
    return explore(scenario.actors(p), scenario.world(), judge, scenario.faults, most=most)


def play_at_random(scenario: Scenario, *, random: Random, schedules: int) -> Explored:
    """Play some schedules of a scenario."""
    judge, actors = ComposedJudge(scenario, REAL_FAMILY), scenario.actors(REAL_FAMILY)
    return wander(actors, scenario.world(), judge, scenario.faults, random=random, schedules=schedules)


class _Family:
    """The modules at work: a ledger's, and the arbiters'."""

    def __init__(self, ledger: Any, arbiters: Any) -> None:
        vars(self).update(vars(ledger))
        self._arbiters = arbiters

    def arbiter_of(self, by: Decides) -> Any:
        if by == "ballot":
            return self._arbiters.Balloting(SMALL)
        return self._arbiters.Claiming(REGISTRY, PLACE, SMALL)


REAL_FAMILY = _Family(REAL, arbiter)


@dataclass(frozen=True)
class Mutant(Change):
    """One change of the ledger, or of what decides about its records.

    Attributes
    ----------
    scenario
        The one that finds it out.
    """

    scenario: str

    def protocols(self) -> Any:
        """Return the modules with this change."""
        # Each has its own `create`, `find`, `marked`: what a family calls so is its own.
        by_ballot = self.modules(shim, ("ballot_state", "ballot"))
        by_claims = self.modules(shim, ("state_keys", "claimant", "claims"))
        above = self.modules(shim, ("leftovers", "arbiter"))
        vars(above["leftovers"])["ballot"] = by_ballot["ballot"]
        balloting, claiming = above["arbiter"].Balloting, above["arbiter"].Claiming
        balloting._create = staticmethod(by_ballot["ballot"].create)
        claiming._create = by_claims["claims"].create
        for name in ("find", "resolve", "delete", "forget"):
            setattr(balloting, name, staticmethod(getattr(by_ballot["ballot"], name)))
            setattr(claiming, name, getattr(by_claims["claims"], name))
        balloting.leftovers = staticmethod(above["leftovers"].in_ballots)
        balloting.mend = staticmethod(above["leftovers"].mend_ballots)
        claiming.leftovers, claiming.mend = above["leftovers"].in_claims, above["leftovers"].mend_claims
        of_ledger = self.modules(shim, (*(f"ledger/{each}" for each in LEDGER), "formats/hudi_ledger"))
        named = {name.rpartition("/")[2]: module for name, module in of_ledger.items()}
        return _Family(family(named), above["arbiter"])
