"""The history in levels: which of its files count, what is in them, and what is wrong with them."""

from __future__ import annotations

import pickle
import random
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.timeline import HudiTimeline, Problem, Problems, Trouble, read
from tests.timeline.tables import PLAN, Hudi, avro

if TYPE_CHECKING:
    from pathlib import Path

    from tests.timeline.conftest import Place


def time(n: int) -> str:
    return f"20260101120000{n:03d}"


def completion(n: int) -> str:
    return f"20260101130000{n:03d}"


def row(
    n: int, action: str = "commit", metadata: bytes | None = None, plan: bytes | None = None
) -> tuple[Any, ...]:
    return time(n), completion(n), action, metadata, plan


def archived(table: Hudi, first: int, last: int, level: int = 0) -> dict[str, int]:
    """Write a file of the history with all instants between; return what a manifest says of it."""
    name = f"{time(first)}_{time(last)}_{level}.parquet"
    return {name: table.archive(name, [row(n, metadata=avro(f"m{n}")) for n in range(first, last + 1)])}


def opened(table: Hudi) -> HudiTimeline:
    timeline = read(table.root, fs=table.fs)
    assert isinstance(timeline, HudiTimeline)
    return timeline


def numbers(timeline: HudiTimeline, problems: Problems | None = None, **more: Any) -> list[int]:
    return [int(each.time[-3:]) for each in timeline.history(problems=problems, **more)]


def test_the_files_of_the_manifest_are_read_and_no_others(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    files = archived(table, 1, 3) | archived(table, 4, 5)
    archived(table, 6, 7)  # nobody has named it: its writer has died, or is at it
    table.manifest(1, files)
    assert numbers(opened(table)) == [1, 2, 3, 4, 5]


def test_what_was_compacted_is_read_from_its_level_and_not_from_below(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    archived(table, 1, 2)
    archived(table, 3, 4)
    table.manifest(3, archived(table, 1, 4, level=1) | archived(table, 5, 6))
    timeline = opened(table)
    assert numbers(timeline) == [1, 2, 3, 4, 5, 6]
    assert [file.level for file in timeline.manifest().files] == [0, 1]


def test_files_come_by_level_and_in_each_the_newest_first(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    files = (
        archived(table, 5, 6)
        | archived(table, 1, 2, level=1)
        | archived(table, 7, 8)
        | archived(table, 3, 4, level=1)
    )
    table.manifest(1, files)
    found = opened(table).manifest().files
    assert [(file.level, file.first) for file in found] == [
        (0, time(7)),
        (0, time(5)),
        (1, time(3)),
        (1, time(1)),
    ]


def test_instants_come_in_one_order_though_files_overlap(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    files = {}
    for name, there in (
        (f"{time(1)}_{time(9)}_0.parquet", (9, 1, 5)),
        (f"{time(3)}_{time(7)}_1.parquet", (7, 3)),
    ):
        files[name] = table.archive(name, [row(n) for n in there])
    table.manifest(1, files)
    assert numbers(opened(table)) == [1, 3, 5, 7, 9]


def test_instants_come_by_when_they_were_completed(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    name = f"{time(1)}_{time(3)}_0.parquet"
    rows = [(time(n), completion(9 - n), "commit", None, None) for n in (1, 2, 3)]
    table.manifest(1, {name: table.archive(name, rows)})
    assert numbers(opened(table), order="completed") == [3, 2, 1]


def test_an_instant_that_was_archived_twice_is_one(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.manifest(1, archived(table, 1, 3) | archived(table, 2, 4))
    assert numbers(opened(table)) == [1, 2, 3, 4]


def test_a_savepoint_and_its_commit_are_two_in_the_history_too(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    name = f"{time(1)}_{time(1)}_0.parquet"
    table.manifest(1, {name: table.archive(name, [row(1), row(1, "savepoint")])})
    assert [each.action for each in opened(table).history()] == ["commit", "savepoint"]


def test_what_is_archived_and_still_active_is_active_and_one(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.manifest(1, archived(table, 1, 3))
    table.commit(time(3), completion(3))
    table.commit(time(4), completion(4))
    found = [(int(each.time[-3:]), each.archived) for each in opened(table).records()]
    assert found == [(1, True), (2, True), (3, False), (4, False)]


def test_what_is_still_pending_comes_among_what_is_archived(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.manifest(1, archived(table, 1, 1) | archived(table, 3, 3))
    table.put(f"{time(2)}.compaction.requested")
    assert [int(each.time[-3:]) for each in opened(table).records()] == [1, 2, 3]


# --- which manifest counts ----------------------------------------------------------------------------------


def test_the_version_file_says_which_manifest_counts(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.manifest(1, archived(table, 1, 2))
    table.manifest(2, archived(table, 1, 3, level=1), version=False)  # its writer has died before
    assert numbers(opened(table)) == [1, 2]


@pytest.mark.parametrize(
    "version", [None, "7", "", "x"], ids=["gone", "names one that went", "empty", "torn"]
)
def test_without_a_version_file_that_helps_the_highest_manifest_counts(
    place: Place, version: str | None
) -> None:
    table = Hudi(place.fs, place.root)
    table.manifest(9, archived(table, 1, 2), version=False)
    table.manifest(10, archived(table, 1, 3), version=False)
    if version is not None:
        table.put("history/_version_", version)
    assert numbers(opened(table)) == [1, 2, 3]


def test_a_table_that_was_never_archived_has_no_history(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.commit(time(1), completion(1))
    assert numbers(opened(table)) == []


def test_an_archiver_that_is_faster_than_the_reader_is_read_again(memory: Place) -> None:
    table = Hudi(memory.fs, memory.root)
    table.manifest(1, archived(table, 1, 2))

    class Faster(type(memory.fs)):  # type: ignore[misc]
        """The archiver goes on whenever ``_version_`` has been read, and removes what it has compacted."""

        cachable = False
        runs = 0

        def cat_file(self, path: str, **more: Any) -> Any:
            read = super().cat_file(path, **more)
            if path.endswith("_version_") and self.runs == 0:
                self.runs = 1
                files = archived(table, 1, 3, level=1)
                table.manifest(2, files)
                self.rm(f"{table.root}/.hoodie/timeline/history/manifest_1")
            return read

    table_read_by = HudiTimeline(Faster(), table.root)
    assert [int(each.time[-3:]) for each in table_read_by.history()] == [1, 2, 3]


# --- what is in it ------------------------------------------------------------------------------------------


def test_details_of_what_is_archived_are_read_when_they_are_asked_for(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    name = f"{time(1)}_{time(2)}_0.parquet"
    rows = [row(1, "commit", avro("done"), avro("planned", PLAN)), row(2)]
    table.manifest(1, {name: table.archive(name, rows)})
    timeline = opened(table)
    first, second = timeline.history()
    plan, metadata = timeline.details(first)
    assert first.raw is None
    assert plan is not None
    assert metadata is not None
    assert (plan.kind, plan.value) == ("HoodieCompactionPlan", {"operationType": "planned"})
    assert (metadata.kind, metadata.value) == ("HoodieCommitMetadata", {"operationType": "done"})
    assert timeline.details(second) == (None, None)


def test_details_that_were_read_along_are_the_same(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.manifest(1, archived(table, 1, 3))
    timeline = opened(table)
    lazily = [timeline.details(each) for each in timeline.history()]
    along = [timeline.details(each) for each in timeline.history(raw=True)]
    assert along == lazily
    assert all(each.metadata for each in along)


def test_without_details_their_bytes_are_not_read(tmp_path: Path) -> None:
    import fsspec

    table = Hudi(fsspec.filesystem("file"), str(tmp_path / "t"))
    name = f"{time(1)}_{time(1)}_0.parquet"
    bytes_of_it = random.Random(1).randbytes(1_000_000)
    size = table.archive(name, [row(1, metadata=bytes_of_it)])
    table.manifest(1, {name: size})
    path = tmp_path / "t/.hoodie/timeline/history" / name
    written = path.read_bytes()
    path.write_bytes(
        written[: size // 4] + b"\xff" * (size // 2) + written[-(size - size // 4 - size // 2) :]
    )
    assert numbers(opened(table)) == [1]
    with pytest.raises(OSError, match="torn"):
        numbers(opened(table), raw=True)


def test_a_timeline_can_be_sent_to_another_process(tmp_path: Path) -> None:
    import fsspec

    table = Hudi(fsspec.filesystem("file"), str(tmp_path / "t"))
    table.manifest(1, archived(table, 1, 2))
    found = list(pickle.loads(pickle.dumps(opened(table))).history())
    assert [each.time for each in found] == [time(1), time(2)]
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_table_of_all_instants_has_a_row_for_each(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.manifest(1, archived(table, 1, 2))
    table.put(f"{time(3)}.compaction.requested")
    found = opened(table).table().select(["time", "action", "state", "completion", "archived"]).to_pylist()
    assert [tuple(each.values()) for each in found] == [
        (time(1), "commit", "completed", completion(1), True),
        (time(2), "commit", "completed", completion(2), True),
        (time(3), "compaction", "requested", None, False),
    ]
    assert opened(table).table(history=False).num_rows == 1


# --- what is wrong with it ----------------------------------------------------------------------------------


def test_a_truncated_file_is_a_problem_and_the_others_are_read(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    files = archived(table, 1, 2) | archived(table, 3, 4)
    table.manifest(1, files)
    path = f"{place.root}/.hoodie/timeline/history/{next(iter(files))}"
    place.fs.pipe_file(path, place.fs.cat_file(path)[:-20])
    problems: Problems = []
    assert numbers(opened(table), problems) == [3, 4]
    assert [(each.path, each.trouble) for each in problems] == [(path, Trouble.UNREADABLE)]


def test_a_file_that_is_torn_at_its_full_length_is_a_problem(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    files = archived(table, 1, 2)
    table.manifest(1, files)
    path = f"{place.root}/.hoodie/timeline/history/{next(iter(files))}"
    size = place.fs.size(path)
    for torn in (b"\0" * size, b"PAR1" + b"\xff" * (size - 8) + b"PAR1"):
        place.fs.pipe_file(path, torn)
        problems: Problems = []
        assert numbers(opened(table), problems) == []
        assert [(each.path, each.trouble) for each in problems] == [(path, Trouble.UNREADABLE)]


def test_a_file_that_is_not_there_is_a_problem(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    files = archived(table, 1, 2)
    missing = f"{time(3)}_{time(4)}_0.parquet"
    table.manifest(1, files | {missing: 1000})
    problems: Problems = []
    assert numbers(opened(table), problems) == [1, 2]
    (problem,) = problems
    assert problem.trouble is Trouble.MISSING
    assert problem.path.endswith(missing)


def test_a_torn_manifest_is_a_problem(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.manifest(1, archived(table, 1, 2))
    for torn in (
        "",
        '{"files": [',
        "[]",
        '{"files": [{"fileLen": 1}]}',
        '{"files": [{"fileName": "x", "fileLen": 1}]}',
    ):
        table.put("history/manifest_1", torn)
        problems: Problems = []
        assert numbers(opened(table), problems) == []
        assert [each.trouble for each in problems] == [Trouble.UNREADABLE]


def test_files_without_a_manifest_are_a_problem(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    archived(table, 1, 2)
    problems: Problems = []
    assert numbers(opened(table), problems) == []
    assert [each.trouble for each in problems] == [Trouble.MISSING]


def test_a_parquet_file_of_something_else_is_a_problem(place: Place) -> None:
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    table = Hudi(place.fs, place.root)
    file = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), file)
    name = f"{time(1)}_{time(1)}_0.parquet"
    table.put(f"history/{name}", file.getvalue())
    table.manifest(1, {name: len(file.getvalue())})
    problems: Problems = []
    assert numbers(opened(table), problems) == []
    assert "instantTime" in problems[0].reason


def test_a_record_of_an_unknown_version_is_a_problem_and_the_others_are_read(place: Place) -> None:
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    from tests.timeline.tables import HISTORY

    table = Hudi(place.fs, place.root)
    rows = [
        [time(1), time(2)],
        [completion(1), completion(2)],
        ["commit"] * 2,
        [None] * 2,
        [None] * 2,
        [2, 1],
    ]
    file = io.BytesIO()
    pq.write_table(pa.table(rows, schema=HISTORY), file)
    name = f"{time(1)}_{time(2)}_0.parquet"
    table.put(f"history/{name}", file.getvalue())
    table.manifest(1, {name: len(file.getvalue())})
    problems: Problems = []
    assert numbers(opened(table), problems) == [2]
    assert [each.trouble for each in problems] == [Trouble.UNKNOWN]


class Unsearched(list[Problem]):
    """Problems that nobody looks through for each of many."""

    def __contains__(self, problem: object) -> bool:
        raise AssertionError(problem)


def test_many_records_that_can_t_be_read_are_reported_at_once(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    last = f"{time(1)}_{time(3)}_0.parquet"
    rows = [(time(number), completion(number), "commit", None, None) for number in (1, 2, 3)]
    table.manifest(1, {last: table.archive(last, rows, version=2)})
    problems = Unsearched()
    assert numbers(opened(table), problems) == []
    assert len(problems) == 3
    assert numbers(opened(table), problems) == []
    assert len(problems) == 3


def test_what_cannot_be_read_is_raised_where_nobody_takes_it(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    files = archived(table, 1, 2)
    table.manifest(1, files)
    path = f"{place.root}/.hoodie/timeline/history/{next(iter(files))}"
    place.fs.pipe_file(path, b"PAR1")
    with pytest.raises(OSError, match="bytes, and manifest_1 says") as raised:
        numbers(opened(table))
    assert raised.value.filename == path


def test_torn_details_are_a_problem_of_their_instant_alone(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    name = f"{time(1)}_{time(2)}_0.parquet"
    whole = avro("done")
    table.manifest(1, {name: table.archive(name, [row(1, metadata=whole[:-9]), row(2, metadata=whole)])})
    timeline = opened(table)
    problems: Problems = []
    details = [timeline.details(each, problems) for each in timeline.history()]
    assert [each.metadata is None for each in details] == [True, False]
    (problem,) = problems
    assert time(1) in problem.path


def test_an_instant_that_has_left_the_history_meanwhile_is_a_problem(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.manifest(1, archived(table, 1, 1))
    timeline = opened(table)
    (instant,) = timeline.history()
    table.manifest(2, archived(table, 2, 2))
    problems: Problems = []
    assert timeline.details(instant, problems) == (None, None)
    assert [each.trouble for each in problems] == [Trouble.MISSING]
