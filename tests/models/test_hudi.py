"""Hudi's writers break where Vanlightly found them to; the shim mends what a name can mend, and no more."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.testing.explore import Faults, explore
from tests.models.hudi import (
    DATA,
    DUPLICATE,
    LOST_WRITE,
    BytesKept,
    ConsistentRead,
    Ended,
    Names,
    Rules,
    Write,
)
from tests.models.hudi_matrix import CONFIGURATIONS, CONTROLS, OK, Configuration, Scenario, found
from tests.models.replay import Replay, send_again, state_of
from tests.models.requests import DONE, Put, Stopped, Taken
from tests.models.storage import FileSystemWorld, State

if TYPE_CHECKING:
    from putifabsent.testing.explore import ActorRun, Explored
    from tests.models.hudi import Control
    from tests.models.replay import Grounds
    from tests.models.storage import Place

OPTIMISTIC = Rules("optimistic")
COLLIDING = Names(1, None)


def cells() -> list[Any]:
    """Return them, of which a short run tries those with the shim."""
    mounts = ("guarded",) if os.environ.get("SHORT") else ("stock", "create-only", "guarded")
    return [
        pytest.param(each, mount, id=f"{' '.join(each.words())} {mount}")
        for each in CONFIGURATIONS
        for mount in mounts
        # Whether slices and inflight instants are refused as well changes nothing where no name is shared.
        if mount != "create-only" or (each.rules.key_check and not each.rules.salted)
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("configuration", "mount"), cells())
def test_every_configuration_breaks_where_it_is_published_to_and_nowhere_else(
    configuration: Configuration, mount: str
) -> None:
    result = found(configuration, mount)
    sys.stdout.write(f"{mount}: {', '.join(configuration.words())}: {result}\n")
    assert result.verdict == configuration.expected(put_if_absent=mount != "stock"), result
    assert result.states > 1000, result


def test_every_row_of_the_publication_is_tried() -> None:
    rows = {each.published(put_if_absent=absent) for each in CONFIGURATIONS for absent in (False, True)}
    assert sorted(row.row for row in rows if row) == list(range(1, 12))


@pytest.mark.parametrize("control", CONTROLS)
def test_with_the_shim_nothing_that_was_committed_changes_its_bytes(control: Control) -> None:
    colliding = Configuration(monotonic=False, rules=Rules(control))
    result = found(colliding, "guarded", BytesKept())
    assert result.verdict == OK, result
    assert found(colliding, "stock", BytesKept()).verdict != OK, "without it, it does"


class NobodyCommits:
    """What a model would keep that is safe because it does nothing."""

    def judge(self, world: Any, state: State, runs: tuple[ActorRun, ...]) -> str | None:
        ended = [each.ended for each in runs]
        return "all have" if ended == [("returned", Ended("committed"))] * len(ended) else None


@pytest.mark.parametrize("salted", [False, True])
@pytest.mark.parametrize("control", CONTROLS)
def test_writers_that_do_not_conflict_all_commit(control: Control, salted: bool) -> None:
    times = (1, 1) if salted else (None, None)
    writes = (Write("w1", "k1", "A", 1, times[0]), Write("w2", "k2", "B", 2, times[1]))
    explored = Scenario(writes).explored(Rules(control, salted=salted), "guarded", NobodyCommits())
    assert explored.violation is not None


# --- the figures of part 2 ------------------------------------------------------------------------------


class FailedWriterOverwrote(BytesKept):
    """A slice was overwritten, and whoever did it has failed its check."""

    def judge(self, world: Any, state: State, runs: tuple[ActorRun, ...]) -> str | None:
        failed = any(each.ended == ("returned", Ended("conflict")) for each in runs)
        return super().judge(world, state, runs) if failed else None


FIGURE_1 = Scenario((Write("w1", "k1", "A", 1, time=1), Write("w2", "k2", "B", 2, time=1)))
FIGURE_2 = Scenario((Write("w1", "k1", "A", 1, time=1), Write("w2", "k1", "B", 1, time=1)))
FIGURES = {
    "1: a completed instant is overwritten": (
        FIGURE_1,
        BytesKept(("completed instant",)),
        COLLIDING.instant(".commit"),
    ),
    "2: a slice is overwritten, by a writer that fails": (
        FIGURE_2,
        FailedWriterOverwrote(("slice",)),
        COLLIDING.slice(1, 1),
    ),
    "a slice is overwritten, by a writer that stops": (
        FIGURE_2,
        BytesKept(("slice",)),
        COLLIDING.slice(1, 1),
    ),
}
ALL = pytest.mark.parametrize("figure", FIGURES)


def without_the_shim(figure: str, rules: Rules = OPTIMISTIC) -> Explored:
    scenario, judge, _ = FIGURES[figure]
    return scenario.explored(rules, "stock", judge)


def commits(place: Place) -> list[str]:
    return [each.writer for each in place.log]


@ALL
def test_without_the_shim_the_figure_comes_about(figure: str, grounds: Grounds) -> None:
    scenario, judge, name = FIGURES[figure]
    explored = without_the_shim(figure)
    sys.stdout.write(f"{explored.states} states: {explored.violation}\n")
    assert explored.violation is not None
    assert explored.violation.startswith("a "), explored.violation
    writers = [step.actor for step in explored.schedule if getattr(step.request, "name", None) == name]
    assert set(writers) >= {"w1", "w2"}, "both put it"
    assert all(not isinstance(step.outcome, Taken) for step in explored.schedule)

    place = grounds(shim=False)
    played = Replay(explored.schedule, [each.actor(OPTIMISTIC) for each in scenario.writes], place)
    assert len(played.played) == len(explored.schedule)
    assert BytesKept(judge.parts).judge(None, state_of(place), ()) is not None, played
    assert ConsistentRead().judge(None, state_of(place), ()), "and rows are gone, or another's"


@ALL
def test_with_the_shim_the_same_schedule_ends_in_name_taken(figure: str, grounds: Grounds) -> None:
    scenario, _, _ = FIGURES[figure]
    explored = without_the_shim(figure)
    place = grounds(shim=True)
    played = Replay(explored.schedule, [each.actor(OPTIMISTIC) for each in scenario.writes], place)
    [refused] = [each for each in played.played if isinstance(each.outcome, Taken)]
    assert refused.request.name == COLLIDING.instant(".commit.requested"), played
    assert played.ended[refused.actor] == Ended("taken")
    puts = [each for each in played.played if each.actor == refused.actor and isinstance(each.request, Put)]
    assert puts == [refused], "its first step, and its last"
    state = state_of(place)
    assert BytesKept().judge(None, state, ()) is None, played
    assert ConsistentRead().judge(None, state, ()) is None, played


def test_the_very_request_that_overwrote_the_completed_instant_is_refused(grounds: Grounds) -> None:
    explored = without_the_shim("1: a completed instant is overwritten")
    place = grounds(shim=True)
    played = send_again(explored.schedule, place)
    harm = played[-1]
    assert (harm.actor, harm.outcome) == ("w2", Stopped(COLLIDING.instant(".commit"))), harm
    assert commits(place) == ["w1"]
    assert BytesKept(("completed instant",)).judge(None, state_of(place), ()) is None


@pytest.mark.parametrize("rules", [Rules("none"), Rules("pessimistic")], ids=lambda rules: rules.control)
def test_no_concurrency_control_prevents_the_first_figure(rules: Rules) -> None:
    explored = without_the_shim("1: a completed instant is overwritten", rules)
    assert explored.violation is not None
    assert FIGURE_1.explored(rules, "guarded", BytesKept()).violation is None


# --- the second write token (the note at the end of "Overwriting a file slice") -------------------------


def shaky(key: str, group: int, *, requested: bool) -> tuple[Write, Write]:
    """Return writers of one time, whose connections break while they write their slices."""
    return (
        Write("w1", "k1", "A", 1, time=1, shaky=True, requested=requested),
        Write("w2", key, "B", group, time=1, shaky=True, requested=requested),
    )


def with_a_lost_answer(writes: tuple[Write, ...], mount: str, judge: Any) -> Explored:
    before = [(COLLIDING.instant(".commit.requested"), b"")] if writes[0].requested else []
    world = FileSystemWorld(mount, State(frozenset(before)))
    actors = [write.actor(OPTIMISTIC) for write in writes]
    return explore(actors, world, judge, Faults(lost=2, crashes=len(actors)))


class OneWriter:
    """The slices of an instant are of one writer, keep their bytes, and are what is read."""

    def judge(self, world: Any, state: State, runs: tuple[ActorRun, ...]) -> str | None:
        slices = [data for name, data in state.files if name.startswith(DATA)]
        if len({value for data in slices for value in json.loads(data).values()}) > 1:
            return "two writers have written slices"
        return BytesKept().judge(world, state, runs) or ConsistentRead().judge(world, state, runs)


@pytest.mark.parametrize(("key", "group"), [("k1", 1), ("k2", 1), ("k2", 2)])
def test_who_has_lost_the_instant_never_gets_to_a_second_write_token(key: str, group: int) -> None:
    explored = with_a_lost_answer(shaky(key, group, requested=False), "guarded", OneWriter())
    assert explored.violation is None, explored.violation
    assert explored.complete
    assert explored.states > 100, explored
    broken = with_a_lost_answer(shaky(key, group, requested=False), "stock", OneWriter())
    assert broken.violation is not None


def test_the_completed_instant_has_one_writer_even_where_nobody_asks_whose_the_instant_is() -> None:
    writes = shaky("k2", 2, requested=True)
    explored = with_a_lost_answer(writes, "guarded", BytesKept(("completed instant",)))
    assert explored.violation is None, explored.violation
    assert explored.states > 500, explored
    assert with_a_lost_answer(writes, "stock", BytesKept(("completed instant",))).violation is not None


def test_who_does_not_stop_at_name_taken_overwrites_no_slice_of_a_commit(grounds: Grounds) -> None:
    """The second figure's requests, letter by letter: instants have owners."""
    figure = "2: a slice is overwritten, by a writer that fails"
    place = grounds(shim=True)
    played = send_again(without_the_shim(figure).schedule, place)
    assert Taken(COLLIDING.instant(".commit.requested")) in [each.outcome for each in played]
    assert BytesKept().judge(None, state_of(place), ()) is None


def test_by_names_alone_another_overwrites_a_slice(grounds: Grounds) -> None:
    """A slice's name guards nothing: that T belongs to one writer is a rule about more than one name."""
    explored = with_a_lost_answer(shaky("k1", 1, requested=True), "guarded", BytesKept(("slice",)))
    assert explored.violation is not None, explored
    assert explored.violation.startswith("a slice of w"), explored.violation
    puts = [
        step for step in explored.schedule if getattr(step.request, "name", None) == COLLIDING.slice(1, 1)
    ]
    assert {step.actor for step in puts} == {"w1", "w2"}
    assert all(step.outcome == DONE for step in puts), explored.violation
    where_instants_have_owners(explored, grounds)


def test_by_names_alone_a_second_write_token_is_a_gap_even_where_slices_are_create_only(
    grounds: Grounds,
) -> None:
    """The gap that the publication notes: both slices are there, and a reader of the instant finds either."""
    writes = shaky("k1", 1, requested=True)
    explored = with_a_lost_answer(writes, "guarded with slices", ConsistentRead())
    assert explored.violation is not None, explored
    assert explored.violation.startswith(DUPLICATE), explored.violation
    puts = {
        step.request.name: step.actor
        for step in explored.schedule
        if step.outcome == DONE and getattr(step.request, "name", "").startswith("/t/data/")
    }
    assert puts.keys() == {COLLIDING.slice(1, 1), COLLIDING.slice(1, 2)}
    assert len(set(puts.values())) == 2, "one slice each"
    assert with_a_lost_answer(writes, "guarded with slices", BytesKept()).violation is None, "no byte changed"
    where_instants_have_owners(explored, grounds)


def where_instants_have_owners(explored: Explored, grounds: Grounds) -> None:
    """Play a schedule in which two go on with a third one's instant: one commits, of its own slice."""
    place = grounds(shim=True)
    Put(COLLIDING.instant(".commit.requested"), b"").at(place)
    actors = [each.actor(OPTIMISTIC) for each in shaky("k1", 1, requested=True)]
    played = Replay(explored.schedule, actors, place)
    played.finish()
    assert any(isinstance(each.outcome, Stopped) for each in played.played), played
    assert len(commits(place)) == 1, played
    assert OneCommitted().judge(None, state_of(place), ()) is None, played


class OneCommitted:
    """What is committed keeps its bytes, and is what is read."""

    def judge(self, world: Any, state: State, runs: tuple[ActorRun, ...]) -> str | None:
        return BytesKept().judge(world, state, runs) or ConsistentRead().judge(world, state, runs)


# --- what no shim repairs -------------------------------------------------------------------------------


def test_what_remains_is_two_instants_on_one_file_group_without_concurrency_control(grounds: Grounds) -> None:
    """Part 3, case 1: different names for conflicting work."""
    rules = Rules("none")
    scenario = Scenario((Write("w1", "k1", "A", 1), Write("w2", "k2", "B", 1)))
    explored = scenario.explored(rules, "guarded", ConsistentRead())
    assert explored.violation is not None
    assert explored.violation.startswith(LOST_WRITE), explored.violation
    place = grounds(shim=True)
    played = Replay(explored.schedule, [each.actor(rules) for each in scenario.writes], place)
    played.finish()
    assert played.ended == {"w1": Ended("committed"), "w2": Ended("committed")}
    assert not any(isinstance(each.outcome, Taken) for each in played.played)
    assert sorted(commits(place)) == ["w1", "w2"], "both were acknowledged"
    assert ConsistentRead().judge(None, state_of(place), ()) is not None, "and one of them is not read"
    assert BytesKept().judge(None, state_of(place), ()) is None, "though all of its bytes are there"
