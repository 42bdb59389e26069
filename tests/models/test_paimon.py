"""Paimon's topologies break where Vanlightly found them to; the shim stands for PutIfAbsent, and no more."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.models.paimon import snapshot
from tests.models.paimon_checks import DANGLING_VECTOR, LOST_COMMIT, LOST_UPDATE, TWO_ROWS, Checks
from tests.models.paimon_matrix import STORAGES, TOPOLOGIES, found
from tests.models.replay import Replay, fill, send_again, state_of
from tests.models.requests import Rename, Taken

if TYPE_CHECKING:
    from tests.models.replay import Grounds

SERIAL = "1: a writer a bucket"
READ_MODIFY_WRITE = "2: writers of one bucket that change what they have read"
REWRITTEN = next(name for name in TOPOLOGIES if name.endswith("the other rewrites"))
REMOVED = next(name for name in TOPOLOGIES if name.endswith("removes another"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_every_topology_breaks_where_it_is_published_to_and_nowhere_else(topology: str, storage: str) -> None:
    result = found(TOPOLOGIES[topology], storage)
    sys.stdout.write(f"{topology}: {storage}: {result}\n")
    if storage == "neither":
        assert LOST_COMMIT in result.kinds, result
    else:
        assert result.kinds == TOPOLOGIES[topology].breaks, result
        assert result.states > 50, result


def test_with_the_shim_the_schedule_that_lost_a_commit_ends_in_name_taken(grounds: Grounds) -> None:
    topology = TOPOLOGIES[SERIAL]
    explored = topology.explored("neither", LOST_COMMIT)
    assert explored.violation is not None
    harm = explored.schedule[-1]
    assert isinstance(harm.request, Rename)
    assert not any(isinstance(step.outcome, Taken) for step in explored.schedule)
    actors = [each.actor() for each in topology.processes]

    without = grounds(shim=False)
    fill(without, topology.start())
    played = Replay(explored.schedule, actors, without)
    assert Checks(LOST_COMMIT).judge(None, state_of(without), ()) is not None, played

    place = grounds(shim=True)
    fill(place, topology.start())
    played = Replay(explored.schedule, actors, place)
    assert [each.request for each in played.played] == [step.request for step in explored.schedule]
    assert played.played[-1].outcome == Taken(snapshot(1)), played
    assert [each.version for each in place.log] == [1], "one of the two was acknowledged"
    assert Checks().judge(None, state_of(place), ()) is None, played

    played.finish()
    assert set(played.ended.values()) == {"committed"}
    assert [each.version for each in place.log] == [1, 2, 3, 4], (
        "who lost has committed upon what it had missed"
    )
    assert Checks().judge(None, state_of(place), ()) is None, played


def test_the_very_requests_of_that_schedule_overwrite_no_snapshot(grounds: Grounds) -> None:
    topology = TOPOLOGIES[SERIAL]
    place = grounds(shim=True)
    fill(place, topology.start())
    played = send_again(topology.explored("neither", LOST_COMMIT).schedule, place)
    assert played[-1].outcome == Taken(snapshot(1))
    assert len(place.log) == 1


@pytest.mark.parametrize(
    ("topology", "kind"),
    [
        (READ_MODIFY_WRITE, LOST_UPDATE),
        (REWRITTEN, DANGLING_VECTOR),
        (REWRITTEN, TWO_ROWS),
        (REMOVED, DANGLING_VECTOR),
        (REMOVED, TWO_ROWS),
    ],
)
def test_what_remains_with_the_shim_is_what_only_a_conflict_check_prevents(
    topology: str, kind: str, grounds: Grounds
) -> None:
    """Every snapshot is created once and keeps its bytes, and the table is wrong all the same."""
    chosen = TOPOLOGIES[topology]
    explored = chosen.explored("shim", kind)
    assert explored.violation is not None
    sys.stdout.write(f"{explored.states} states: {explored.violation}\n")

    place = grounds(shim=True)
    fill(place, chosen.start())
    actors = [each.actor() for each in chosen.processes]
    played = Replay(explored.schedule, actors, place)
    state = state_of(place)
    assert Checks(LOST_COMMIT).judge(None, state, ()) is None, played
    broken = Checks(kind).judge(None, state, ())
    assert broken is not None, played
    assert broken.startswith(kind), broken


def test_a_lost_vector_is_of_a_row_that_neither_rewritten_file_held() -> None:
    """Two copies of the one vector file: who commits second takes the other's change back."""
    explored = TOPOLOGIES[REMOVED].explored("shim", TWO_ROWS)
    assert explored.violation is not None
    assert explored.violation.startswith(f"{TWO_ROWS}: sarah"), explored.violation
