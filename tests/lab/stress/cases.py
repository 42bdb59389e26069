"""The smallest histories that break each rule of the stress bench, and what is right beside them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from putifabsent.lab.stress.writers import Operation

if TYPE_CHECKING:
    from putifabsent.lab.stress.writers import Outcome

NAME = "t/snapshot/snapshot-1"
INSTANT = "t/.hoodie/timeline/1 requested"


def creation(
    outcome: Outcome | None,
    offered: str,
    begun: int,
    ended: int | None,
    *,
    host: str = "here",
    name: str = NAME,
    identity: str | None = None,
    saw: str | None = None,
) -> Operation:
    return Operation(
        "create", host, 1, "commit", "t", name, identity or name, offered, saw, begun, ended, outcome
    )


def reading(
    outcome: Outcome,
    seen: str | None,
    begun: int,
    ended: int,
    *,
    host: str = "here",
    name: str = NAME,
    closing: bool = False,
    error: str | None = None,
) -> Operation:
    return Operation(
        "read", host, 2, "commit", "t", name, name, None, None, begun, ended, outcome, seen, closing, error
    )


def beside(action: Literal["list", "plain"], seen: str | None = None) -> Operation:
    return Operation(action, "here", -1, "commit", "t/snapshot", NAME, NAME, seen=seen, closing=True)


created = partial(creation, "created")
taken = partial(creation, "taken")
fenced = partial(creation, "fenced")
unknown = partial(creation, "unknown")
killed = partial(creation, None, ended=None)
read = partial(reading, "found")
absent = partial(reading, "absent", None)


class Case(NamedTuple):
    """What breaks a rule, and what is right beside it."""

    promise: str
    breach: str
    broken: list[Operation]
    right: list[Operation]


CASES = [
    Case(
        "U",
        "more than one creation was acknowledged",
        broken=[created("a", 0, 2), created("b", 1, 3)],
        right=[created("a", 0, 2), taken("b", 1, 3)],
    ),
    Case(
        "U",
        "more than one creation was acknowledged",
        broken=[
            created("a", 0, 2, name="t/1.commit.requested", identity=INSTANT),
            created("b", 1, 3, name="t/1.deltacommit.requested", identity=INSTANT),
        ],
        right=[
            created("a", 0, 2, name="t/1.commit.requested", identity=INSTANT),
            created("b", 1, 3, name="t/2.commit.requested", identity="t/.hoodie/timeline/2 requested"),
        ],
    ),
    Case(
        "U",
        "more than one name of one identity is there",
        broken=[
            unknown("a", 0, 2, name="t/1.commit.requested", identity=INSTANT),
            unknown("b", 1, 3, name="t/1.deltacommit.requested", identity=INSTANT),
            read("a", 4, 5, name="t/1.commit.requested", closing=True),
            read("b", 4, 6, name="t/1.deltacommit.requested", closing=True),
        ],
        right=[
            unknown("a", 0, 2, name="t/1.commit.requested", identity=INSTANT),
            unknown("b", 1, 3, name="t/1.deltacommit.requested", identity=INSTANT),
            read("a", 4, 5, name="t/1.commit.requested", closing=True),
            absent(4, 6, name="t/1.deltacommit.requested", closing=True),
        ],
    ),
    Case(
        "L",
        "it was read, and is gone",
        broken=[
            unknown("a", 0, 1, host="there"),
            read("a", 2, 3, host="there"),
            absent(2, 3, closing=True),
        ],
        right=[unknown("a", 0, 1, host="there"), read("a", 2, 3, host="there"), absent(2, 3)],
    ),
    Case(
        "K",
        "two commits are there that had not seen each other",
        broken=[
            killed("k", 0, name="t/1_3", saw="0"),
            created("c", 1, 3, name="t/2_4", saw="0"),
            read("k", 5, 6, name="t/1_3", closing=True),
        ],
        right=[
            killed("k", 0, name="t/1_3", saw="0"),
            created("c", 1, 3, name="t/2_4", saw="0"),
            absent(5, 6, name="t/1_3", closing=True),
        ],
    ),
    Case(
        "T",
        "it was called taken when nobody else had begun to create it",
        broken=[
            taken("a", 0, 2, name="t/1.commit.requested", identity=INSTANT),
            fenced("b", 1, 3, name="t/1.deltacommit.requested", identity=INSTANT),
        ],
        right=[
            taken("a", 0, 2, name="t/1.commit.requested", identity=INSTANT),
            unknown("b", 1, 3, name="t/1.deltacommit.requested", identity=INSTANT),
        ],
    ),
    Case(
        "B",
        "its bytes have changed",
        broken=[unknown("a", 0, 2), unknown("b", 1, 3), read("a", 4, 5), read("b", 6, 7)],
        right=[unknown("a", 0, 2), unknown("b", 1, 3), read("a", 4, 5), read("a", 6, 7)],
    ),
    Case(
        "B",
        "its plain bytes are others",
        broken=[created("a", 0, 1), read("a", 2, 3, closing=True), beside("plain", "b")],
        right=[created("a", 0, 1), read("a", 2, 3, closing=True), beside("plain", "a")],
    ),
    Case(
        "L",
        "it was read, and its folder's listing leaves it out",
        broken=[created("a", 0, 1), read("a", 2, 3, closing=True), beside("list")],
        right=[unknown("a", 0, 1), absent(2, 3, closing=True), beside("list")],
    ),
    Case(
        "B",
        "it has bytes that nobody wrote",
        broken=[unknown("a", 0, 1), read("torn", 2, 3)],
        right=[unknown("a", 0, 1), read("a", 2, 3)],
    ),
    Case(
        "B",
        "it has bytes that nobody wrote",
        broken=[unknown("a", 0, 1, name="t/snapshot/snapshot-2"), read("a", 2, 3)],
        right=[unknown("a", 0, 1), read("a", 2, 3)],
    ),
    Case(
        "K",
        "an acknowledged creation is gone",
        broken=[created("a", 0, 1), absent(2, 3, host="there", closing=True)],
        right=[created("a", 0, 1), read("a", 2, 3, host="there", closing=True)],
    ),
    Case(
        "K",
        "an acknowledged creation is gone",
        broken=[created("a", 0, 2), unknown("b", 1, 3), read("b", 4, 5)],
        right=[created("a", 0, 2), unknown("b", 1, 3), read("a", 4, 5)],
    ),
    Case(
        "K",
        "an acknowledged creation is gone",
        broken=[unknown("b", 0, 3), read("b", 1, 4), created("a", 2, 5)],
        right=[unknown("b", 0, 3), read("a", 1, 4), created("a", 2, 5)],
    ),
    Case(
        "K",
        "an acknowledged creation can't be read",
        broken=[created("a", 0, 1), reading("failed", None, 2, 3, closing=True, error="OSError: 500")],
        right=[created("a", 0, 1), reading("failed", None, 2, 3, error="OSError: 500")],
    ),
    Case(
        "K",
        "a winner was told that it lost",
        broken=[taken("a", 0, 2), unknown("b", 1, 3), read("a", 4, 5)],
        right=[taken("a", 0, 2), unknown("b", 1, 3), read("b", 4, 5)],
    ),
    Case(
        "K",
        "a winner was told that it lost",
        broken=[fenced("a", 0, 1), read("a", 2, 3)],
        right=[fenced("a", 0, 1), absent(2, 3)],
    ),
    Case(
        "K",
        "two commits are there that had not seen each other",
        broken=[created("a", 0, 2, name="t/1_3", saw="0"), created("b", 1, 3, name="t/2_4", saw="0")],
        right=[created("a", 0, 2, name="t/1_3", saw="0"), created("b", 3, 4, name="t/2_4", saw="1")],
    ),
    Case(
        "T",
        "it was called taken when nobody else had begun to create it",
        broken=[taken("a", 0, 1), unknown("b", 2, 3)],
        right=[taken("a", 0, 2), unknown("b", 1, 3)],
    ),
    Case(
        "T",
        "it was called taken when nobody else had begun to create it",
        broken=[fenced("a", 0, 2), taken("b", 1, 3)],
        right=[killed("a", 0), taken("b", 1, 3)],
    ),
    Case(
        "T",
        "it was called taken, and nobody has it",
        broken=[taken("a", 0, 2), unknown("b", 1, 3), absent(4, 5, host="there", closing=True)],
        right=[taken("a", 0, 2), unknown("b", 1, 3), read("b", 4, 5, host="there", closing=True)],
    ),
    Case(
        "L",
        "it was not there, after it had been",
        broken=[unknown("a", 0, 1), read("a", 2, 4), absent(5, 6)],
        right=[unknown("a", 0, 1), read("a", 2, 4), absent(3, 6)],
    ),
    Case(
        "L",
        "it was not there, after it had been",
        broken=[unknown("a", 0, 1), taken("b", 2, 4), absent(5, 6)],
        right=[unknown("a", 0, 1), taken("b", 2, 4), absent(3, 6)],
    ),
    Case(
        "L",
        "it was there, before its creation had begun",
        broken=[read("a", 0, 1), unknown("a", 2, 3)],
        right=[read("a", 0, 2), unknown("a", 1, 3)],
    ),
    Case(
        "L",
        "it was there, before its creation had begun",
        broken=[unknown("a", 0, 2), taken("b", 1, 3), created("c", 4, 5)],
        right=[unknown("a", 0, 2), taken("b", 1, 4), created("c", 3, 5)],
    ),
]
