"""What the bench says of clocks is so: it convicts instants that were given twice, or too late."""

from __future__ import annotations

import json
import subprocess
import sys

from bench.clocks import Taken, judged


def test_an_instant_that_was_given_twice_is_found() -> None:
    found = judged([Taken(0, 10, ["1", "2"]), Taken(5, 15, ["3", "2"])])
    assert (found.instants, found.duplicates, found.late) == (4, 1, 0)


def test_an_instant_below_one_that_was_answered_before_is_found() -> None:
    found = judged([Taken(0, 10, ["5"]), Taken(11, 15, ["4"])])
    assert (found.duplicates, found.late) == (0, 1)


def test_calls_at_the_same_time_may_be_answered_in_any_order() -> None:
    found = judged([Taken(0, 10, ["5"]), Taken(10, 15, ["4"]), Taken(16, 20, ["6"])])
    assert (found.duplicates, found.late) == (0, 0)


def test_a_run_takes_what_it_says(tmp_path: object) -> None:
    command = [sys.executable, "-m", "bench.clocks", f"piafile://{tmp_path}", "local", "--json"]
    sizes = ["--processes", "2", "--instants", "6", "--at-once", "3"]
    done = subprocess.run([*command, *sizes], check=True, capture_output=True, text=True, timeout=60)
    found = json.loads(done.stdout)
    assert [each["instants"] for each in found] == [12, 12]
    assert [(each["duplicates"], each["late"]) for each in found] == [(0, 0), (0, 0)]
