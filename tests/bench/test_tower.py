"""What the bench of the tower counts and shows is what came of its races."""

from __future__ import annotations

import io
import itertools

from rich.console import Console

from bench.tower import by_turns_shared, cause_of, in_vain, table_of, tried
from putifabsent.inspection.hudi_slices import Stats
from putifabsent.shim.formats.hudi_files import Group, Removed, Write
from putifabsent.timeline import Instant, State
from tests.child import CallError

GROUP = "b5068208-e1a4-11e6-bf01-fe55135034f3-0"


def base(instant: str) -> str:
    return f"{GROUP}_1-0-1_{instant}.parquet"


def commit(instant: str) -> Stats:
    write = Write(Group("dt=1", GROUP), base(instant), (), "")
    return Stats(Instant(instant, "commit", State.COMPLETED), legible=True, writes=(write,))


def test_what_no_commit_names_was_done_in_vain_there_or_taken_back() -> None:
    rollback = Stats(
        Instant("4", "rollback", State.COMPLETED),
        legible=True,
        undone=frozenset("3"),
        removed=Removed(frozenset((base("3"),)), frozenset()),
    )
    clean = Stats(
        Instant("5", "clean", State.COMPLETED),
        legible=True,
        removed=Removed(frozenset((base("1"),)), frozenset()),
    )
    sizes = {base("2"): 5, base("6"): 7, ".hoodie_partition_metadata": 96}
    found = in_vain([commit("1"), commit("2"), rollback, clean], sizes)
    assert found == {"files_in_vain": 2, "bytes_in_vain_there": 7}


def test_half_of_the_commits_are_to_what_another_driver_writes() -> None:
    written = [[by_turns_shared(number, n) for n in range(10)] for number in range(4)]
    rows = [row for commits in written for [row] in commits]
    assert len(set(rows)) == len(rows)
    partitions = [{who for [(who, _)] in commits} for commits in written]
    shared = {pair: partitions[pair[0]] & partitions[pair[1]] for pair in itertools.combinations(range(4), 2)}
    assert {pair for pair, both in shared.items() if both} == {(0, 1), (2, 3)}
    assert sum(who in shared[0, 1] | shared[2, 3] for who, _ in rows) == len(rows) / 2


def test_a_night_ends_with_what_was_committed_at_last() -> None:
    others = [("w1", 0)]

    def commit() -> None:
        others.append(("w1", len(others)))
        if len(others) < 4:
            raise CallError("Py4JJavaError", "org.apache.hudi.exception.HoodieWriteConflictException: met")

    night = tried(commit, others)
    assert (night["committed"], night["others_before"]) == (True, 3)
    assert night["errors"] == {"HoodieWriteConflictException": 2}


def test_an_error_of_a_jvm_is_told_by_its_last_cause() -> None:
    error = CallError(
        "Py4JJavaError", "An error occurred\n: A\n\tat b\nCaused by: C: c\nCaused by: D: d\n\tat e"
    )
    assert cause_of(error) == "CallError: Caused by: D: d"
    assert cause_of(OSError("no")) == "OSError: no"
    assert cause_of(CallError("Gone", "")) == "CallError: "


def test_a_row_that_failed_is_shown_beside_the_others() -> None:
    whole = {
        "cell": "b",
        "drivers": 4,
        "how": "tower",
        "acknowledged": 3,
        "failed": 1,
        "conflicts": 1,
        "lost": 0,
        "doubled": 0,
        "rows_per_second": 1.5,
        "one_alone": 0.5,
        "files_in_vain": 2,
        "errors": {"HoodieWriteConflictException": 1},
    }
    failed = {"cell": "a", "drivers": 4, "how": "zookeeper", "error": "CallError: Gone"}
    shown = io.StringIO()
    Console(file=shown, width=200).print(table_of([whole, failed]))
    assert "CallError: Gone" in shown.getvalue()
    assert "3 of 4" in shown.getvalue()
    assert "3.00 times one driver's 0.50/s" in shown.getvalue()
