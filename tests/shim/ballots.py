"""Ballots under test: the real protocol and wrong ones, and the schedules that they are played in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent import shim
from putifabsent.backends.base import Absent, Creation, InMemory
from putifabsent.shim import ballot
from putifabsent.shim.ballot_state import folder_of, marked
from putifabsent.shim.names import ordinary
from putifabsent.shim.state_keys import creation_of
from putifabsent.testing.explore import Faults, explore
from putifabsent.testing.imagined import LinearName, Thing
from tests.mutation import Change
from tests.shim.removals import RemovableStore, often, removing, removing_at_once, unread, without_rights
from tests.shim.roles import actors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol
    from putifabsent.testing.explore import Actor, ActorRun, Explored
    from putifabsent.testing.imagined import ImaginedStore

NAME = ordinary("bucket/t/name")
OTHER_NAME = "bucket/t/name.gz"
TWINS = (
    NAME._replace(aliases=(OTHER_NAME,)),
    ordinary(OTHER_NAME)._replace(aliases=(NAME.path,), rank=1),
)


@dataclass(frozen=True)
class Scenario:
    """Who does what.

    Attributes
    ----------
    name
        For people.
    roles
        A word for each process: ``c`` creates, ``d`` deletes, ``e`` does so for good, ``r`` reads, ``x``
        cleans up; ``o`` and ``q`` read without the right to write, ``q`` without having to know; ``w``,
        ``v`` and ``a`` remove all round the shim (:mod:`tests.shim.removals`). One letter after another,
        each begins when the one before has ended. Capitals do so to another name of the same identity.
    faults
        What may go wrong.
    first
        The token of what is under the plain name before, of which no ballot knows.
    """

    name: str
    roles: str
    faults: Faults
    first: str | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def names(self) -> tuple[Name, ...]:
        """The names that it is about, all of one identity."""
        return (NAME,) if self.roles.islower() else TWINS

    def actors(self, protocols: Any) -> list[Actor]:
        """Return the processes, which use these protocols."""
        return actors_of(self.roles, partial(_played, protocols, self.names))


def _played(
    protocols: Any, names: tuple[Name, ...], letter: str, token: str
) -> tuple[str, Callable[[], Protocol[Any]]]:
    name = names[letter.isupper()]
    creation = Creation(token, "writer", name.state)
    body = InMemory(token.encode())
    return {
        "c": ("create", lambda: protocols.create(name, body, creation)),
        "d": ("delete", lambda: protocols.delete(name, creation)),
        "e": ("delete", lambda: protocols.delete(name, creation, last=True)),
        "r": ("read", lambda: protocols.find(name, creation)),
        "o": ("read", lambda: without_rights(protocols.find(name, creation))),
        "q": ("other", lambda: without_rights(protocols.find(name, creation, helps=False))),
        "w": ("delete", lambda: removing(folder_of(name), name.path)),
        "v": ("delete", lambda: removing(folder_of(name), name.path, plain_first=True)),
        "a": ("delete", lambda: removing_at_once("bucket/t/")),
        "x": ("other", lambda: protocols.clean(name, creation)),
    }[letter.lower()]


def _reading(names: tuple[Name, ...]) -> Protocol[Any]:
    """Say who holds the identity, under whichever of its names."""
    last = Creation("last", "writer", NAME.state)
    found: Any = Absent()
    for name in names:
        found = yield from ballot.find(name, last)
        if not isinstance(found, Absent):
            break
    return found


def judge(
    actors: list[Actor],
    names: tuple[Name, ...],
    *,
    shown: bool,
    hidden: bool,
    first: str | None = None,
) -> LinearName:
    """Judge by what the real reader says at last.

    Parameters
    ----------
    actors, names
        The processes, and the names that they are about.
    shown, hidden
        Whether the plain name must be right, too, where somebody holds the name, and where nobody does.
    first
        Who holds the name before.
    """
    bodies = {each.token: each.token.encode() for each in actors}
    return LinearName(
        lambda: _reading(names),
        NAME.path,
        bodies,
        first=first,
        shown=shown,
        hidden=hidden,
        creation_of=_creation_of,
    )


def _creation_of(token: str) -> str:
    was = marked(token)
    return token if was is None else creation_of(was[1])


@dataclass(frozen=True)
class Ground:
    """A kind of store.

    Attributes
    ----------
    name
        For people.
    republishes, versions, slow_copies
        As for :class:`ImaginedStore`. None of them honours a condition.
    """

    name: str
    republishes: bool = True
    versions: bool = True
    slow_copies: bool = False

    def __str__(self) -> str:
        return self.name

    def store(self, *things: tuple[str, Thing]) -> ImaginedStore:
        """Return it, with these objects."""
        return RemovableStore(
            conditions=False,
            republishes=self.republishes,
            versions=self.versions,
            slow_copies=self.slow_copies,
            things=things,
        )


GROUNDS = (
    Ground("a store with versions"),
    Ground("a store without versions", versions=False),
    Ground("a disk", republishes=False),
    Ground("a store whose copies take time", versions=False, slow_copies=True),
)


def played(scenarios: Iterable[Any], *, most: int | None = None) -> list[object]:
    """Return each scenario, of ballots or of locks, on each ground that matters to it, as parameters.

    Without a deletion they are all one, and so are copies that take time where nothing is late. Those at the
    end are the hardest: one overwrites and removes whatever is there, and its copies land late where any may;
    the other does not overwrite. ``most`` is how many of these.
    """
    found = []
    for scenario in scenarios:
        grounds = GROUNDS if not {"d", "e"}.isdisjoint(scenario.roles.lower()) else GROUNDS[:1]
        differ = [each for each in grounds if scenario.faults.late or not each.slow_copies]
        found += [(scenario, each) for each in differ[-(most or len(differ)) :]]
    return [pytest.param(*each, id="{}, on {}".format(*each)) for each in found]


class Judges:
    """What several judges promise."""

    def __init__(self, *judges: Callable[[Any, Any, tuple[ActorRun, ...]], str | None]) -> None:
        self._judges = judges

    def judge(self, world: Any, state: Any, runs: tuple[ActorRun, ...]) -> str | None:
        """Return which promise is broken, or None."""
        broken = (judge(world, state, runs) for judge in self._judges)
        return next((each for each in broken if each is not None), None)


def play(
    protocols: Any,
    scenario: Scenario,
    ground: Ground,
    *,
    most: int | None = None,
) -> Explored:
    """Play all schedules of a scenario on a ground."""
    actors = scenario.actors(protocols)
    # Whatever is late may hit what came after it; only a reader through the shim is sure then.
    plain = len(scenario.names) == 1
    # A removal that goes by names hits the plain name of whoever came meanwhile.
    is_removed = not set("wva").isdisjoint(scenario.roles)
    shown = plain and not scenario.faults.late and not is_removed
    hidden = plain and not ground.slow_copies
    first = None if scenario.first is None else Thing(scenario.first, b"first")
    things = () if first is None else ((NAME.path, first),)
    before = first and _creation_of(first.token)
    held: Any = judge(actors, scenario.names, shown=shown, hidden=hidden, first=before)
    if is_removed:
        linear = held
        held = Judges(lambda world, state, runs: linear.judge(world, state, often(runs)))
    if not set("oq").isdisjoint(scenario.roles):
        held = Judges(held.judge, unread)
    return explore(actors, ground.store(*things), held, scenario.faults, most=most)


SHORT = (
    Scenario("a creator alone, whose requests come late", "c", Faults(lost=2, late=2, crashes=1)),
    Scenario("two creators, one lost answer, one crash", "c c", Faults(lost=1, crashes=1)),
    Scenario("two creators, one late request", "c c", Faults(late=1, pauses=1)),
    Scenario("a creator after a deletion", "cdc", Faults(lost=1, late=1, crashes=1)),
    Scenario("a creator, and a creation that is deleted", "c cd", Faults(pauses=1)),
    Scenario("a creation, a deletion and a reader", "c d r", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("two names of one identity", "c C", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("a name older than the shim, and its twin", "C X", Faults(lost=1, crashes=1), "old"),
    Scenario("a name older than the shim", "c dx", Faults(crashes=1, pauses=1), "old"),
    Scenario("a name that came with a copy of the table", "c dx", Faults(crashes=1, pauses=1), "old.0~1"),
    Scenario("a copy of the table, cleaned up", "c x", Faults(lost=1, crashes=1, pauses=1), "old.0~1"),
)
# Tens of thousands of states each.
MIDDLE = (
    Scenario("three creators", "c c c", Faults(pauses=1)),
    Scenario("a creator, and a deletion, and one late request", "cd c", Faults(late=1, pauses=1)),
    Scenario("clean-up at any time", "c x", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("clean-up beside a deletion", "cd x", Faults(crashes=1, pauses=1)),
)
READ_ONLY = (
    Scenario("a reader who may not write", "c c o", Faults(crashes=1, pauses=1)),
    Scenario("a reader who may not write, and need not know", "c c q", Faults(crashes=1, pauses=1)),
)
REMOVED = (
    Scenario("a creator, and a removal, and a creator", "c wc", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("two creators, and a removal", "c c w", Faults(pauses=1)),
    Scenario("two creators, and a removal of the plain name first", "c c v", Faults(pauses=1)),
    Scenario("two creators, and a removal at once", "c c a", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("a creator, a removal and a reader", "c w r", Faults(crashes=1, pauses=1)),
    Scenario("a deletion and a removal", "cdc w", Faults(pauses=1)),
)
EXPIRED = (
    Scenario("an expiry, and a creator who comes late", "c ec", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("an expiry and a deletion", "ce d", Faults(crashes=1, pauses=1)),
    Scenario("two expiries", "ce e", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("an expiry and a reader", "c e r", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("expired, and made again", "cecd", Faults(lost=1, crashes=1)),
)
LONG = (
    Scenario("an expiry, and a creator at any time", "ce c", Faults(crashes=1, pauses=1)),
    Scenario("two creators, and an expiry", "c c e", Faults(pauses=1)),
    Scenario("clean-up, an expiry, and a creator", "cx ec", Faults(pauses=1)),
    Scenario("an end that comes late, after clean-up, and a creator", "cdxc", Faults(late=1, pauses=1)),
    Scenario("a creator, a removal at once, a creator, and a reader", "c ac r", Faults(pauses=1)),
    Scenario("a reader who may not write, beside a deletion", "cd c o", Faults(crashes=1, pauses=1)),
    Scenario("two creators, a removal, and a creator", "c c wc", Faults(pauses=1)),
    Scenario("two creators, a removal of the plain name first, and a creator", "c c vc", Faults(pauses=1)),
    Scenario("two creators, a removal and a reader", "c c w r", Faults(pauses=1)),
    Scenario("a creation that is deleted and cleaned up, and a creator", "cdx c", Faults(pauses=1)),
    Scenario("older than the shim, and clean-up at any time", "c d x", Faults(crashes=1, pauses=1), "old"),
    Scenario("copied, and clean-up at any time", "c d x", Faults(crashes=1, pauses=1), "old.0~1"),
    Scenario("clean-up and deletion at any time", "c d x", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("clean-up twice, at any time", "c x x", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("two creators and clean-up", "c c x", Faults(crashes=1, pauses=1)),
    Scenario("two names of one identity, and clean-up", "c C x", Faults(pauses=1)),
    Scenario("a creator, and a creation that is deleted and cleaned up", "c cdx", Faults(pauses=1)),
    Scenario("two creators and a deleter", "c c d", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("two creators, a deleter and a reader who helps", "c c d r", Faults(crashes=1, pauses=1)),
    Scenario(
        "two creators, a deleter and a reader, nobody waits", "c c d r", Faults(lost=1, crashes=1, pauses=0)
    ),
    Scenario("three creators, one lost answer, one crash", "c c c", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("deletion and re-creation", "cdc d", Faults(late=1, pauses=1)),
    Scenario("deleted twice, and a creator", "cdcd c", Faults(crashes=1, pauses=1)),
    Scenario("deleted twice and cleaned up, and a creator", "cdcdx c", Faults(pauses=1)),
)


@dataclass(frozen=True)
class Mutant(Change):
    """One change of the ballot.

    Attributes
    ----------
    scenario
        The one that finds it out.
    """

    scenario: str

    def protocols(self) -> ModuleType:
        """Return the protocols with this change."""
        return self.modules(shim, ("ballot_state", "ballot"))["ballot"]
