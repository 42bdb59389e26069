"""What the bench of Spark's writers reads off a service."""

from __future__ import annotations

from bench.spark_cost import counted
from putifabsent.service.app import Tally


def test_calls_are_counted_whatever_their_answers_and_bytes_beside_them() -> None:
    tally = Tally()
    for status in (200, 409):
        tally.add("turns/take", status, 0.1)
        tally.read("turns/take", 7)
    tally.add("create", 200, 0.1)
    tally.read("create", 1000)
    assert counted(tally.text()) == {
        "turns/take": 2,
        "bytes turns/take": 14,
        "create": 1,
        "bytes create": 1000,
    }
