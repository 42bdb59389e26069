"""Claims under test: the real protocol and wrong ones, and the schedules that they are played in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from putifabsent import shim as shim_package
from putifabsent.backends.base import Creation, InMemory
from putifabsent.errors import PutIfAbsentError
from putifabsent.shim import claims as real
from putifabsent.shim.arbiter import Claiming
from putifabsent.shim.names import ordinary
from putifabsent.shim.state_keys import folder_of
from putifabsent.testing.explore import Faults, explore
from putifabsent.testing.imagined import LOST, LinearName, Thing
from tests.mutation import Change
from tests.shim.imagined_registries import ImaginedClaims
from tests.shim.removals import RemovableStore, often, removing, removing_at_once
from tests.shim.roles import actors_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.shim.requests import Protocol
    from putifabsent.testing.explore import Actor, ActorRun, Explored

NAME = ordinary("bucket/t/name")
PLACE = "imagined://"
LARGEST = 99
OLDER = "older"
REGISTRY: Any = "the registry"
"""Requests carry it; the world knows which one is meant."""
ARBITER = Claiming(REGISTRY, PLACE, 2**20)

Kind = Literal["overwrites", "disk", "unversioned", "slow copies"]

STORES: dict[Kind, dict[str, bool]] = {
    "overwrites": {},
    "disk": {"republishes": False},
    "unversioned": {"versions": False},
    "slow copies": {"versions": False, "slow_copies": True},
}


@dataclass(frozen=True)
class Scenario:
    """Who does what, over which store.

    Attributes
    ----------
    name
        For people.
    roles
        A word for each process: ``c`` creates, ``d`` deletes, ``e`` does so for good, ``r`` reads and helps,
        ``l`` only reads the claim, ``x`` cleans up; ``w``, ``v`` and ``a`` remove all round the shim
        (:mod:`tests.shim.removals`). One letter after another, each begins when the one before has ended.
    faults
        What may go wrong.
    store
        What the store can't do.
    older
        The token of the name that is there, older than the shim; none: it is not there.
    """

    name: str
    roles: str
    faults: Faults
    store: Kind = "overwrites"
    older: str = ""

    def __str__(self) -> str:
        return self.name

    def world(self, *, forgets: bool = False) -> ImaginedClaims:
        things = [(NAME.path, Thing(self.older, b"older"))] if self.older else []
        store = RemovableStore(conditions=False, things=things, **STORES[self.store])
        return ImaginedClaims(store, forgets=forgets)

    def actors(self, protocols: Any = real) -> list[Actor]:
        """Return the processes, which use these protocols."""
        return actors_of(self.roles, partial(_played, protocols))

    def judge(self, actors: list[Actor], protocols: Any = real) -> Judges:
        """Judge by what a reader says at last: the real one, who only looks, and theirs, who helps."""
        faults, versions = self.faults, STORES[self.store].get("versions", True)
        # Where no answer comes in time it is won, and a reader publishes it; and a deletion that comes late,
        # and goes by names, hides the name until it is read.
        shown = faults.lost + faults.late <= faults.pauses and (versions or not faults.late)
        # A claim that is forgotten may be sent once more, and live again, without its bytes.
        is_removed = not set("wvae").isdisjoint(self.roles)
        if is_removed:
            shown = False
        common: dict[str, Any] = {
            "plain": NAME.path,
            "bodies": {self.older: b"older", **{each.token: each.token.encode() for each in actors}},
            "first": self.older or None,
            "hidden": self.store != "slow copies",
            # What an older name is marked with is all that is known of it.
            "creation_of": lambda token: token if token == self.older else token.rpartition(".")[0] or token,
        }
        if is_removed:
            # A reader who only reads the claim does not see that its bytes are gone.
            held = LinearName(partial(_last, protocols, helps=True), shown=False, marks=True, **common)
            return Judges(lambda world, state, runs: held.judge(world, state, often(runs)))
        return Judges(
            _nobody_fails,
            LinearName(partial(_last, real, helps=False), shown=shown, **common).judge,
            LinearName(partial(_last, protocols, helps=True), shown=False, repairs=True, **common).judge,
            *([partial(_shows_what_was_acknowledged, may_be_hidden=not versions)] if shown else []),
        )


class Judges:
    """What several judges promise."""

    def __init__(self, *judges: Callable[[Any, Any, tuple[ActorRun, ...]], str | None]) -> None:
        self._judges = judges

    def judge(self, world: Any, state: Any, runs: tuple[ActorRun, ...]) -> str | None:
        """Return which promise is broken, or None."""
        broken = (judge(world, state, runs) for judge in self._judges)
        return next((each for each in broken if each is not None), None)


def _nobody_fails(_: Any, __: Any, runs: tuple[ActorRun, ...]) -> str | None:
    """Neither store nor registry refuses anything here: who fails has had no answer in time."""
    for each in runs:
        how, value = each.ended or ("", None)
        if how == "raised" and value is not LOST and not isinstance(value, PutIfAbsentError):
            return f"{each.actor.name} failed: {value!r}"
    return None


def _shows_what_was_acknowledged(
    _: Any, state: Any, runs: tuple[ActorRun, ...], *, may_be_hidden: bool
) -> str | None:
    """While a claim lives whose creation was acknowledged, the plain name shows it, whoever else has died."""
    there = dict(state)
    claim, plain = there.get(f"{PLACE}{NAME.path}"), there.get(NAME.path)
    returned = {each.actor.token for each in runs if each.ended is not None and each.ended[0] == "returned"}
    if claim is None or not claim.live or claim.token not in returned:
        return None
    if may_be_hidden if plain is None else plain.token.startswith(f"{claim.token}."):
        return None
    return f"{claim.token} was acknowledged, and the plain name shows {plain}"


def _last(protocols: Any, *, helps: bool) -> Any:
    return protocols.find(ARBITER, NAME, creation_of("last"), helps=helps)


def creation_of(token: str) -> Creation:
    return Creation(token, "writer", NAME.state)


def _played(protocols: Any, letter: str, token: str) -> tuple[str, Callable[[], Protocol[Any]]]:
    creation, body = creation_of(token), InMemory(token.encode())
    return {
        "c": ("create", lambda: protocols.create(ARBITER, NAME, body, creation)),
        "d": ("delete", lambda: protocols.delete(ARBITER, NAME, creation)),
        "e": ("delete", lambda: protocols.delete(ARBITER, NAME, creation, last=True)),
        "r": ("read", lambda: protocols.find(ARBITER, NAME, creation)),
        "l": ("read", lambda: protocols.find(ARBITER, NAME, creation, helps=False)),
        "x": ("other", lambda: protocols.clean(ARBITER, NAME, creation)),
        "w": ("delete", lambda: removing(folder_of(NAME), NAME.path)),
        "v": ("delete", lambda: removing(folder_of(NAME), NAME.path, plain_first=True)),
        "a": ("delete", lambda: removing_at_once("bucket/t/")),
    }[letter]


def explored(scenario: Scenario, protocols: Any = real, *, forgets: bool = False) -> Explored:
    actors = scenario.actors(protocols)
    return explore(
        actors, scenario.world(forgets=forgets), scenario.judge(actors, protocols), scenario.faults
    )


LONG = (
    Scenario("two creators, all at once", "c c", Faults(lost=2, late=2, crashes=2)),
    Scenario("four creators", "c c c c", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("two creators, a deleter, a reader, in trouble", "c c d r", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("two lives beside each other, a reader", "cd cd r", Faults(crashes=1, pauses=1)),
    Scenario("two lives beside each other, late", "cd cd", Faults(late=1, crashes=1, pauses=1)),
    Scenario("two lives beside each other, on disk", "cd cd r", Faults(crashes=1, pauses=1), "disk"),
    Scenario("two lives beside each other, by name", "cd cd r", Faults(crashes=1, pauses=1), "unversioned"),
    Scenario("two lives beside each other, slow copies", "cd cd r", Faults(late=1, pauses=1), "slow copies"),
    Scenario("a life, a creator, clean-up", "cd c x", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("a life, a creator, clean-up, on disk", "cd c x", Faults(late=1, pauses=1), "disk"),
    Scenario("a life, a creator, clean-up, by name", "cd c x", Faults(lost=1, pauses=1), "unversioned"),
    Scenario("deletion and re-creation, another deleter", "cdc d", Faults(lost=1, late=1, crashes=1)),
    Scenario("older than the shim, two creators", "c c d r", Faults(crashes=1, pauses=1), older=OLDER),
)
SHORT = (
    Scenario("a creator alone, in all kinds of trouble", "c", Faults(lost=2, late=2, crashes=1)),
    Scenario("two creators", "c c", Faults(lost=1, late=1, crashes=1, pauses=1)),
    Scenario("three creators", "c c c", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("deletion and re-creation", "cdc", Faults(lost=1, late=1, crashes=1)),
    Scenario("a creator beside a deletion", "cd c", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("a creator beside a deletion, late", "cd c", Faults(late=1, crashes=1, pauses=1)),
    Scenario("a creator beside a deletion, on disk", "cd c", Faults(late=1, crashes=1, pauses=1), "disk"),
    Scenario("a creator beside a deletion by name", "cd c", Faults(crashes=1, pauses=1), "unversioned"),
    Scenario("a creator beside a deletion, slow copies", "cd c", Faults(late=1, crashes=1), "slow copies"),
    Scenario("a reader who helps beside a deletion", "cd r", Faults(lost=1, late=1, pauses=1)),
    Scenario("a reader who only looks beside a deletion", "cd l", Faults(lost=1, late=1, pauses=1)),
    Scenario("a creator who was seen, and deleted", "c ldc", Faults(lost=1, pauses=1)),
    Scenario("two creators, a deleter, a reader", "c c d r", Faults(crashes=1, pauses=1)),
    Scenario("two creators, a deleter, a reader, on disk", "c c d r", Faults(crashes=1, pauses=1), "disk"),
    Scenario("two deleters by name", "c d d", Faults(lost=1, crashes=1, pauses=1), "unversioned"),
    Scenario("clean-up at any time", "c x", Faults(lost=1, late=1, crashes=1, pauses=1)),
    Scenario("clean-up and deletion at any time", "c d x", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("clean-up by name", "cdc x", Faults(crashes=1, pauses=1), "unversioned"),
    Scenario("older than the shim", "c d r", Faults(lost=1, crashes=1, pauses=1), older=OLDER),
    Scenario("copied with its marks", "c d x", Faults(crashes=1, pauses=1), older="older.0~1"),
    Scenario(
        "older than the shim, by name", "c d x", Faults(crashes=1, pauses=1), "unversioned", older=OLDER
    ),
)

EXPIRED = (
    Scenario("an expiry, and a creator who comes late", "c ec", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("an expiry, and a creator at any time", "ce c", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("an expiry and a deletion", "ce d", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("two expiries", "ce e", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("two creators, an expiry, a reader", "c c e r", Faults(crashes=1, pauses=1)),
    Scenario("two creators, an expiry, on disk", "c c e", Faults(lost=1, crashes=1, pauses=1), "disk"),
    Scenario("expired, and made again, and deleted", "cecd c", Faults(crashes=1, pauses=1)),
)
REMOVED = (
    Scenario("a creator, and a removal, and a creator", "c wc", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("two creators, and a removal at once", "c c a", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("two creators, and a removal", "c c w", Faults(pauses=1)),
    Scenario("two creators, and a removal of the plain name first", "c c v", Faults(pauses=1)),
    Scenario("a deletion, a creator, and a removal at once", "cd c a", Faults(pauses=1)),
    Scenario("a creator, a removal at once, a creator, a reader", "c ac r", Faults(crashes=1, pauses=1)),
)

_FAMILY = ("state_keys", "claimant", "claims")


@dataclass(frozen=True)
class Mutant(Change):
    """One change of the protocol.

    Attributes
    ----------
    scenario
        The short one that finds it out.
    """

    scenario: str

    def protocols(self) -> Any:
        """Return the protocols with this change."""
        return self.modules(shim_package, _FAMILY)["claims"]
