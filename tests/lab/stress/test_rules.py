"""Each rule convicts the smallest history that breaks its promise; together they convict nobody wrongly."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from putifabsent.lab.stress.results import PROMISES, RULES, Violation, count, judge, table_of
from putifabsent.testing import imagined
from tests.lab.stress.cases import (
    CASES,
    INSTANT,
    NAME,
    Case,
    absent,
    created,
    creation,
    fenced,
    killed,
    read,
    reading,
    taken,
    unknown,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TypeAlias

    from putifabsent.lab.stress.writers import Operation, Outcome

    Told: TypeAlias = Outcome | tuple[Outcome, str | None] | None


def judged(operations: Sequence[Operation]) -> list[Violation]:
    return judge(table_of(operations))


each_case = pytest.mark.parametrize("case", CASES, ids=[f"{case.promise}: {case.breach}" for case in CASES])


@each_case
def test_what_breaks_a_promise_is_convicted(case: Case) -> None:
    assert [(each.promise, each.breach) for each in judged(case.broken)] == [(case.promise, case.breach)]


@each_case
def test_what_is_right_beside_it_is_not(case: Case) -> None:
    assert judged(case.right) == []


def test_each_rule_has_a_case() -> None:
    assert {(case.promise, case.breach) for case in CASES} == set(RULES)


def test_each_promise_has_a_rule() -> None:
    assert {promise for promise, _ in RULES} == set(PROMISES)


def test_a_history_in_which_nothing_was_done_is_right() -> None:
    assert judged([]) == []


def test_a_violation_says_which_name_and_what_of_it() -> None:
    [violation] = judged([created("a", 0, 2), created("b", 1, 3)])
    assert violation.name == NAME
    assert violation.detail == "2 creations were acknowledged"


def test_violations_are_counted_by_their_promise() -> None:
    twice = [replace(each, name=name, identity=name) for name in ("t/1", "t/2") for each in CASES[0].broken]
    assert count(judged([*twice, taken("a", 0, 1)])) == {"U": 2, "T": 1}


@pytest.mark.parametrize("lost", [unknown("a", 0, 1), killed("a", 0)], ids=["unknown", "killed"])
@pytest.mark.parametrize("found", [read("a", 4, 5, closing=True), absent(4, 5, closing=True)], ids=str)
def test_what_nobody_was_told_of_may_be_there_or_not(lost: Operation, found: Operation) -> None:
    assert judged([lost, absent(2, 3), found]) == []


def test_whoever_was_killed_may_have_won() -> None:
    assert judged([killed("a", 0), taken("b", 1, 2), read("a", 3, 4, closing=True)]) == []


def test_an_error_promises_nothing() -> None:
    failed = creation("failed", "a", 0, 1)
    assert judged([failed, read("a", 2, 3)]) == []
    assert judged([failed, absent(2, 3, closing=True)]) == []
    assert judged([created("b", 0, 1), reading("failed", None, 2, 3)]) == []


def test_a_taken_instant_need_not_have_a_file() -> None:
    of_instant = {"name": "t/1.commit.requested", "identity": INSTANT}
    holder = killed("a", 0, name="t/1.deltacommit.requested", identity=INSTANT)
    nothing = [absent(begun, begun + 1, name="t/1.commit.requested") for begun in (3, 5)]
    closing = [replace(each, begun=7, ended=8, closing=True) for each in nothing[:1]]
    assert judged([holder, taken("b", 1, 2, **of_instant), *nothing, *closing]) == []


@pytest.mark.parametrize(
    "history",
    [
        [created("a", 0, 1), absent(2, 3, host="there")],
        [unknown("a", 0, 1), read("a", 2, 3), absent(4, 5, host="there")],
        [taken("a", 0, 1), unknown("b", 2, 3, host="there")],
        [read("a", 0, 1), unknown("a", 2, 3, host="there")],
    ],
    ids=["acknowledged, then absent", "found, then absent", "taken, then begun", "found, then begun"],
)
def test_times_of_two_hosts_are_not_compared(history: list[Operation]) -> None:
    assert judged(history) == []
    assert judged([replace(each, host="here") for each in history]) != []


def test_whoever_was_fenced_loses_to_nobody_in_particular() -> None:
    assert judged([fenced("a", 0, 1), absent(2, 3, closing=True)]) == []


def test_commits_that_follow_on_one_another_are_right() -> None:
    one_after_another = [
        created("a", 0, 1, name="t/1_5", saw="nothing"),
        created("b", 2, 3, name="t/2_6", saw="1"),
        unknown("c", 4, 5, name="t/3_7", saw="2"),
        created("d", 6, 7, name="t/4_8", saw="2"),
    ]
    assert judged(one_after_another) == []


def test_closing_reads_that_find_all_that_was_acknowledged_are_right() -> None:
    history = [created("a", 0, 2), taken("b", 1, 3), fenced("c", 0, 4), read("a", 5, 6, closing=True)]
    assert judged(history) == []


TOKENS = "abcde"
CREATIONS: list[Outcome | None] = ["created", "taken", "unknown", "fenced", None]
READS: list[tuple[Outcome, str | None]] = [("absent", None), *(("found", seen) for seen in TOKENS[:3])]
TOLD: list[Told] = [*CREATIONS, *READS]


def spans(moments: tuple[int, ...]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Give all ways in which operations, by their beginnings, can overlap."""
    if not moments:
        yield ()
        return
    begun, *later = moments
    for ended in later:
        for others in spans(tuple(each for each in later if each != ended)):
            yield ((begun, ended), *others)


SPANS = {count: list(spans(tuple(range(2 * count)))) for count in range(1, 6)}


def history_of(told: Sequence[Told], when: Sequence[tuple[int, int]]) -> list[Operation]:
    return [
        reading(*each, begun, ended)
        if isinstance(each, tuple)
        else creation(each, token, begun, ended if each else None)
        for token, each, (begun, ended) in zip(TOKENS, told, when, strict=False)
    ]


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    """Give what writers of one host did with one name, and perhaps a closing read."""
    count = draw(st.integers(2, 5))
    told = draw(st.lists(st.sampled_from(TOLD), min_size=count, max_size=count))
    history = history_of(told, draw(st.sampled_from(SPANS[count])))
    closing = draw(st.sampled_from([*[None] * len(READS), *READS]))
    return [*history, reading(*closing, 98, 99, closing=True)] if closing else history


LINEAR = {"created": "done", "taken": "taken", "found": "found", "absent": "absent"}


def has_an_order(history: Sequence[Operation]) -> bool:
    """Whether a name that is written once, whoever has it at last, explains all that was told."""
    # Whoever was fenced has had no effect.
    happened = [each for each in history if each.outcome != "fenced"]
    operations = tuple(
        imagined.Operation(
            each.action,
            each.offered or "",
            LINEAR.get(each.outcome or ""),
            each.seen,
            ended_before(each, happened),
        )
        for each in happened
    )
    return any(imagined.is_linear(operations, last) for last in (None, *(each.offered for each in happened)))


def ended_before(operation: Operation, operations: Sequence[Operation]) -> int:
    return sum(
        1 << i for i, each in enumerate(operations) if each.ended is not None and each.ended < operation.begun
    )


def wrongly_judged(several: Iterable[list[Operation]]) -> list[list[Operation]]:
    names = {f"t/snapshot/snapshot-{number}": history for number, history in enumerate(several)}
    together = [
        replace(each, name=name, identity=name) for name, history in names.items() for each in history
    ]
    convicted = {violation.name for violation in judged(together)}
    return [history for name, history in names.items() if (name in convicted) == has_an_order(history)]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_rules_convict_each_short_history_that_has_no_order_and_no_other(count: int) -> None:
    all_of_them = product(product(TOLD, repeat=count), SPANS[count])
    assert wrongly_judged(history_of(told, when) for told, when in all_of_them) == []


@settings(max_examples=40)
@given(st.lists(histories(), min_size=1, max_size=20))
def test_the_rules_convict_exactly_the_histories_that_have_no_order(several: list[list[Operation]]) -> None:
    assert wrongly_judged(several) == []
