"""Hudi's valid steps: which are, which aren't, and what is said of those."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from putifabsent.shim.formats.hudi import ACTIONS, completed_as
from putifabsent.shim.formats.hudi_steps import (
    STEPS,
    Fault,
    Seen,
    State,
    check,
    fault_of,
    finding_beside,
    is_moved,
)

ASKED, GOING, ENDED = State.REQUESTED, State.INFLIGHT, State.COMPLETED
T = "20260101120000001"
DONE = "20260101120000002"
LATER = "20260101120000003"

actions = st.sampled_from(sorted(set(ACTIONS) - {"savepoint"}))


def seen(*states: State | None, action: str = "commit", time: str = T, **more: str) -> list[Seen]:
    return [Seen(time, completed_as(action) if state is ENDED else action, state, **more) for state in states]


def faults(*sequences: list[Seen]) -> list[Fault]:
    return [each.fault for each in check(step for sequence in sequences for step in sequence)]


@given(st.lists(actions, min_size=1, max_size=4))
def test_every_action_may_go_from_nothing_to_completed(several: list[str]) -> None:
    sequences = [
        seen(ASKED, GOING, ENDED, action=action, time=f"{n:017d}") for n, action in enumerate(several)
    ]
    assert faults(*sequences) == []


@pytest.mark.parametrize(
    "states",
    [
        (ASKED, GOING, GOING, ENDED),  # another goes on with it
        (ASKED, GOING, ASKED, GOING, ENDED),  # it falls back, and is begun again
        (ASKED, None),  # it is given up
        (ASKED, GOING, None),
        (ASKED, GOING, ASKED, None),
        (ASKED, GOING, ENDED, None),  # it is archived
        (ASKED, None, ASKED, GOING, ENDED),  # the same time once more, after it was rolled back
    ],
)
def test_other_ways_are_valid_too(states: tuple[State | None, ...]) -> None:
    assert faults(seen(*states)) == []


def test_whoever_requests_it_need_not_perform_it() -> None:
    steps = [
        *seen(ASKED, by="scheduler"),
        *seen(GOING, by="worker"),
        *seen(GOING, by="successor"),
        *seen(ENDED, by="another"),
    ]
    assert check(steps) == []


@pytest.mark.parametrize(
    ("states", "fault"),
    [
        ((GOING,), Fault.UNREQUESTED),
        ((ENDED,), Fault.UNREQUESTED),
        ((ASKED, ENDED), Fault.SKIPPED),
        ((ASKED, ASKED), Fault.REPEATED),
        ((ASKED, GOING, ENDED, ENDED), Fault.REPEATED),
        ((ASKED, GOING, ENDED, GOING), Fault.REOPENED),
        ((ASKED, GOING, ENDED, ASKED), Fault.REOPENED),
        ((ASKED, None, GOING), Fault.UNREQUESTED),
    ],
)
def test_what_is_not_valid_has_a_name(states: tuple[State | None, ...], fault: Fault) -> None:
    assert faults(seen(*states)) == [fault]


def test_a_savepoint_is_requested_by_nobody() -> None:
    assert faults(seen(GOING, ENDED, action="savepoint")) == []
    assert faults(seen(ENDED, action="savepoint")) == [Fault.UNREQUESTED]


def test_a_savepoint_goes_its_own_way_beside_the_commit_that_it_saves() -> None:
    assert faults(seen(ASKED, GOING, ENDED), seen(GOING, ENDED, None, action="savepoint"), seen(None)) == []


@pytest.mark.parametrize("undoing", ["rollback", "restore"])
def test_what_is_rolled_back_or_restored_may_fall_back_from_completed(undoing: str) -> None:
    undone = seen(ASKED, GOING, ENDED)
    begun = seen(ASKED, GOING, action=undoing, time=LATER)
    assert faults(undone, begun, seen(GOING, ASKED, None), seen(ENDED, action=undoing, time=LATER)) == []
    assert faults(undone, begun, seen(ENDED, action=undoing, time=LATER), seen(GOING)) == [Fault.REOPENED]


def test_a_time_belongs_to_one_action() -> None:
    assert faults(seen(ASKED), seen(ASKED, action="clean")) == [Fault.CHANGED]
    assert faults(seen(ASKED, GOING), [Seen(T, "deltacommit", ENDED)]) == [Fault.CHANGED]
    assert faults(seen(ASKED, action="compaction"), seen(GOING, action="logcompaction")) == [Fault.CHANGED]


def test_what_changes_its_name_when_it_is_completed_is_the_same() -> None:
    assert faults(seen(ASKED, GOING, action="clustering"), [Seen(T, "replacecommit", ENDED)]) == []


def test_an_inflight_name_without_an_action_is_a_commit_s() -> None:
    assert faults(seen(ASKED), [Seen(T, "", GOING)], seen(ENDED)) == []
    assert faults(seen(ASKED, action="clean"), [Seen(T, "", GOING)]) == [Fault.CHANGED]


def test_sessions_that_keep_their_own_go_their_own_ways() -> None:
    assert (
        faults(
            seen(ASKED, salt="a"), seen(ASKED, salt="b"), seen(GOING, ENDED, salt="a"), seen(GOING, salt="b")
        )
        == []
    )


def test_nothing_is_completed_before_it_was_requested() -> None:
    assert faults([*seen(ASKED, GOING), Seen(T, "commit", ENDED, completion=DONE)]) == []
    assert faults([*seen(ASKED, GOING, time=LATER), Seen(LATER, "commit", ENDED, completion=DONE)]) == [
        Fault.BACKWARDS
    ]


def test_the_digits_that_the_metadata_table_appends_count_for_nothing() -> None:
    time = f"{T}999"
    assert faults([*seen(ASKED, GOING, time=time), Seen(time, "commit", ENDED, completion=T)]) == []


def test_a_finding_says_which_step_of_which_instant() -> None:
    (finding,) = check(seen(ASKED, ENDED))
    assert str(finding) == f"{T}: commit.requested -> commit.completed: skipped"


STATES = [None, *State]


@pytest.mark.parametrize(("before", "after"), list(product(STATES, STATES)))
def test_each_step_is_valid_or_has_one_fault(before: State | None, after: State | None) -> None:
    fault = fault_of(Seen(T, "commit", before), Seen(T, "commit", after))
    assert (fault is None) == (after in STEPS[before] or before is after is None)


# --- beside what is there

INSTANT = (f"{T}.compaction.requested", f"{T}.compaction.inflight", f"{T}_{DONE}.commit")
UNDOING = (f"{LATER}.rollback.requested", f"{LATER}.rollback.inflight", f"{LATER}_{LATER}.rollback")


def fault_beside(there: tuple[str, ...], last: str) -> Fault | None:
    finding = finding_beside(there, last)
    return None if finding is None else finding.fault


@pytest.mark.parametrize(
    ("there", "last"),
    [
        *((INSTANT[:n], last) for n, last in enumerate(INSTANT)),
        (INSTANT[:2], INSTANT[1]),
        ((INSTANT[1],), INSTANT[0]),
        ((INSTANT[2], *UNDOING[:1]), INSTANT[1]),
        ((INSTANT[2], *UNDOING[:2]), INSTANT[0]),
        (INSTANT, f"{T}.savepoint.inflight"),
        ((f"{T}.commit.requested", f"{T}.inflight"), f"{T}.commit"),  # version 6
        ((f"{LATER}.commit.requested", f"{LATER}.inflight"), f"{LATER}_{T}.commit"),  # a clock went back
        ((), "hoodie.properties"),
        ((), f"{T}.commit.requested.5b2a"),  # before it is renamed
    ],
)
def test_what_comes_next_may_be_put_beside_what_is_there(there: tuple[str, ...], last: str) -> None:
    assert finding_beside(there, last) is None


@pytest.mark.parametrize(
    ("there", "last", "fault"),
    [
        ((), INSTANT[1], Fault.UNREQUESTED),
        ((f"{T}001.commit.requested", f"{LATER}.commit.requested"), INSTANT[1], Fault.UNREQUESTED),
        (INSTANT[:1], INSTANT[2], Fault.SKIPPED),
        (INSTANT[:2], f"{T}_{DONE}.deltacommit", Fault.CHANGED),
        (INSTANT, f"{T}_{LATER}.commit", Fault.REPEATED),
        (INSTANT, INSTANT[1], Fault.REOPENED),
        ((*INSTANT, *UNDOING), INSTANT[1], Fault.REOPENED),  # the rollback is over
        (UNDOING, UNDOING[1], Fault.REOPENED),
        (INSTANT, f"{T}_{LATER}.savepoint", Fault.UNREQUESTED),
    ],
)
def test_what_does_not_come_next_may_not(there: tuple[str, ...], last: str, fault: Fault) -> None:
    assert fault_beside(there, last) is fault


@given(
    st.lists(st.sampled_from([*INSTANT, *UNDOING, f"{T}.savepoint.inflight"]), unique=True),
    st.sampled_from([*INSTANT, *UNDOING]),
)
def test_the_order_of_a_listing_counts_for_nothing(there: list[str], last: str) -> None:
    assert finding_beside(there, last) == finding_beside(sorted(there), last)


def test_a_name_is_moved_from_where_its_instant_is_in_that_state() -> None:
    assert is_moved([f"{T}.commit"], INSTANT[2])
    assert is_moved([f"{T}.replacecommit.requested"], f"{T}.clustering.requested")
    assert not is_moved([f"{T}.commit.requested", f"{LATER}.commit"], INSTANT[2])
    assert not is_moved([f"{T}.savepoint"], INSTANT[2])
    assert not is_moved([f"{T}.commit"], "hoodie.properties")
