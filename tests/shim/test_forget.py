"""Forgetting an identity: whoever else is at it, and wherever somebody died, it can be begun anew after."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent import shim
from putifabsent.backends.base import Created, Creation, InMemory
from putifabsent.shim import ballot, claims
from putifabsent.shim.arbiter import Claiming
from putifabsent.shim.names import ordinary
from putifabsent.shim.requests import Both, Located, Pause
from putifabsent.testing.explore import Explored, Faults, explore
from putifabsent.testing.imagined import ImaginedStore
from tests.mutation import Change
from tests.shim.imagined_registries import ImaginedClaims
from tests.shim.roles import actors_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.shim.requests import Protocol
    from putifabsent.testing.explore import ActorRun
    from tests.conftest import Note

NAME = ordinary("bucket/t/ledger/7")
REGISTRY: Any = "the registry"
CLAIMED = Claiming(REGISTRY, "imagined://", 2**20)
FAMILIES = {"ballot": ("ballot_state", "ballot"), "claims": ("state_keys", "claimant", "claims")}


@dataclass(frozen=True)
class Forgetting:
    """An arbiter, in an imagined world.

    Attributes
    ----------
    kind
        ``ballot`` or ``claims``.
    protocols
        The real ones, or wrong ones.
    """

    kind: str
    protocols: Any

    def play(self, verb: str, token: str, **options: Any) -> Protocol[Any]:
        creation = Creation(token, "writer", NAME.state)
        body = (InMemory(token.encode()),) if verb == "create" else ()
        arbiter = [CLAIMED] if self.kind == "claims" else []
        protocol: Protocol[Any] = getattr(self.protocols, verb)(*arbiter, NAME, *body, creation, **options)
        return protocol

    def explored(self, roles: str, faults: Faults, *, versions: bool) -> Explored:
        store = ImaginedStore(conditions=False, versions=versions)
        world = ImaginedClaims(store) if self.kind == "claims" else store
        return explore(actors_of(roles, self._played), world, self, faults)

    def _played(self, letter: str, token: str) -> tuple[str, Callable[[], Protocol[Any]]]:
        verb = {"c": "create", "d": "delete", "r": "find", "f": "forget"}[letter]
        return "other", partial(self.play, verb, token)

    def judge(self, world: Any, state: Any, runs: tuple[ActorRun, ...]) -> str | None:
        """From here, forgotten and created, it is there; and forgotten, nothing is."""
        for each in runs:
            how, value = each.ended or ("", None)
            # Readers do not look there: they may miss bytes whose claim came late.
            if how == "raised" and not isinstance(value, OSError):
                return f"{each.actor.name} failed: {value!r}"
        state, _ = applied(world, state, self.play("forget", "forgetting"))
        if state:
            return f"forgotten, and this is left: {sorted(name for name, _ in state)}"
        state, created = applied(world, state, self.play("create", "anew"))
        if not isinstance(created, Created):
            return f"forgotten, it can't be created: {created!r}"
        state, found = applied(world, state, self.play("find", "reader"))
        if not isinstance(found, Located) or dict(state)[found.path].data != b"anew":
            return f"created anew, a reader finds {found!r}"
        return None


def applied(world: Any, state: Any, protocol: Protocol[Any]) -> tuple[Any, Any]:
    """Run a protocol that nobody disturbs; return the state after it, and what it returned or raised."""
    outcome: Any = None
    while True:
        try:
            request = protocol.send(outcome)
        except StopIteration as end:
            return state, end.value
        except Exception as error:  # noqa: BLE001 - the judge says what it means
            return state, error
        if isinstance(request, Pause):
            outcome = False
        elif isinstance(request, Both):
            state, first = world.apply(state, request.first)
            state, second = world.apply(state, request.second)
            outcome = first, second
        else:
            state, outcome = world.apply(state, request)


REAL = (Forgetting("ballot", ballot), Forgetting("claims", claims))
TROUBLE = Faults(lost=1, crashes=1, pauses=1)
PLAYED = [
    *(pytest.param(roles, TROUBLE, id=roles) for roles in ("c f", "cd f", "cf f", "c f r")),
    pytest.param("c c f", Faults(crashes=1, pauses=0), id="c c f"),
    pytest.param("c c f", Faults(crashes=1, pauses=1), id="c c f, paused", marks=pytest.mark.exhaustive),
]


@pytest.mark.parametrize("versions", [True, False], ids=["versions", "no versions"])
@pytest.mark.parametrize(("roles", "faults"), PLAYED)
@pytest.mark.parametrize("arbiter", REAL, ids=lambda each: each.kind)
def test_what_is_forgotten_can_be_begun_anew_whoever_died(
    arbiter: Forgetting, roles: str, faults: Faults, versions: bool, note: Note
) -> None:
    found = arbiter.explored(roles, faults, versions=versions)
    note(found)
    assert found.violation is None, found.violation
    assert found.complete
    assert found.states > 100


def after(arbiter: Forgetting, *verbs: str) -> tuple[dict[str, Any], Any]:
    """Return what is there after these and a deletion for good, and what that returned."""
    store = ImaginedStore(conditions=False)
    world = ImaginedClaims(store) if arbiter.kind == "claims" else store
    state: Any = frozenset()
    for number, verb in enumerate(verbs):
        state, _ = applied(world, state, arbiter.play(verb, f"{verb}-{number}"))
    state, outcome = applied(world, state, arbiter.play("delete", "last", last=True))
    return dict(state), outcome


@pytest.mark.parametrize(
    "verbs", [("create",), ("create", "delete"), ("create", "delete", "create")], ids=str
)
@pytest.mark.parametrize("arbiter", REAL, ids=lambda each: each.kind)
def test_nothing_is_left_of_what_is_deleted_for_good(arbiter: Forgetting, verbs: tuple[str, ...]) -> None:
    assert after(arbiter, *verbs) == ({}, True)


def test_an_end_that_clean_up_has_voted_for_stays() -> None:
    """Whoever has seen that it is decided may send it once more, after any pause."""
    world, ballots = ImaginedStore(conditions=False), REAL[0]
    state, _ = world.apply(frozenset(), ballots.play("create", "dead").send(None))
    state, _ = applied(world, state, ballots.play("clean", "cleaner"))
    state, is_gone = applied(world, state, ballots.play("delete", "last", last=True))
    assert not is_gone
    assert [name.rpartition("/")[2][:12] for name, _ in state] == ["X~0000000001"]


@dataclass(frozen=True)
class Mutant(Change):
    """One change of an arbiter, and what finds it out."""

    kind: str
    roles: str = "c f"

    def arbiter(self) -> Forgetting:
        return Forgetting(self.kind, self.modules(shim, FAMILIES[self.kind])[self.kind])


MUTANTS = (
    Mutant("the end marks stay", "ballot", "*scene.accepts, *ends]", "*scene.accepts]", "ballot", "cd f"),
    Mutant("the accepts stay", "ballot", "*scene.accepts, *ends]", "*ends]", "ballot"),
    Mutant(
        "the plain name stays",
        "ballot",
        "[*map(voter.path, keys), *name.all_names]",
        "[*map(voter.path, keys)]",
        "ballot",
    ),
    Mutant(
        "the claim stays",
        "claims",
        "        outcome = yield from claimant.forget(claim)\n",
        "        outcome = None\n",
        "claims",
    ),
    Mutant("the bytes stay", "claims", "list((yield from claimant.listed()))", "[]", "claims"),
    Mutant(
        "the living claim stays",
        "claims",
        "    while claim is not None and claim.live:\n        claim = yield from claimant.end(claim)\n"
        "    left",
        "    if claim is not None and claim.live:\n        return\n    left",
        "claims",
    ),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_schedule_finds_out_each_mutant(mutant: Mutant) -> None:
    found = mutant.arbiter().explored(mutant.roles, Faults(crashes=1, pauses=1), versions=True)
    assert found.violation
