"""The explorer tells apart what differs, and says by which steps it came to what it found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.testing.explore import Actor, Faults, explore

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable

    from putifabsent.testing.explore import ActorRun

REQUESTS = ("a number", "a truth")


class Answers:
    """Has one answer for each request, and no state."""

    initial: Hashable = None

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    def apply(self, state: Any, request: Any) -> tuple[Hashable, Any]:
        return state, self.answers[request]

    def unanswered(self, request: Any) -> Any:
        return None

    def changes(self, request: Any) -> bool:
        return False

    def begun(self, state: Any, request: Any) -> None:
        pass


class AllTold:
    """Complains of what the process has said in the end."""

    def judge(self, world: Any, state: Any, runs: tuple[ActorRun, ...]) -> str | None:
        return f"it was told {runs[0].ended[1]}" if runs[0].ended else None


def asking() -> Generator[str, Any, list[Any]]:
    answers = []
    for request in REQUESTS:
        answers.append((yield request))  # noqa: PERF401 - a comprehension can't yield
    return answers


@pytest.mark.parametrize("second", [True, 1.0])
def test_a_process_is_told_what_it_was_answered_and_not_what_equals_it(second: Any) -> None:
    world = Answers(dict(zip(REQUESTS, (1, second), strict=True)))
    explored = explore([Actor("asker", "other", asking)], world, AllTold(), Faults())
    assert explored.violation is not None
    assert explored.violation.startswith(f"it was told [1, {second}]")


def test_the_schedule_of_a_violation_is_kept_step_by_step() -> None:
    world = Answers(dict(zip(REQUESTS, (1, True), strict=True)))
    explored = explore([Actor("asker", "other", asking)], world, AllTold(), Faults())
    assert [(step.actor, step.request) for step in explored.schedule] == [
        ("asker", request) for request in REQUESTS
    ]
    assert [repr(step.outcome) for step in explored.schedule] == ["1", "True"]
    assert (explored.violation or "").endswith(str(explored.schedule[-1]))


class Orders:
    """Notes who had ended when the second process began."""

    def __init__(self) -> None:
        self.seen: set[int | None] = set()

    def judge(self, world: Any, state: Any, runs: tuple[ActorRun, ...]) -> None:
        self.seen.add(runs[1].after)


@pytest.mark.parametrize(("timed", "seen", "states"), [(True, {None, 0, 1}, 13), (False, {None, 0}, 9)])
def test_who_had_ended_before_is_told_apart_where_somebody_asks(
    timed: bool, seen: set[int | None], states: int
) -> None:
    actors = [Actor(name, "other", asking, timed=timed) for name in ("first", "second")]
    orders = Orders()
    world = Answers(dict.fromkeys(REQUESTS, 1))
    found = explore(actors, world, orders, Faults(crashes=2))
    assert (orders.seen, found.states) == (seen, states)
