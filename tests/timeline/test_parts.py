"""Timelines in parts: together they have what is read in one go, each record once."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from putifabsent.errors import ConfigError
from putifabsent.timeline import HistoryFile, Problems, Trouble, read
from putifabsent.timeline.reading import Whole, numbered_parts, starts, stretches
from tests.timeline.tables import Delta, Hudi, Paimon, block, entry
from tests.timeline.test_fixtures import TABLES, unpacked
from tests.timeline.test_history import archived, completion, row, time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from putifabsent.timeline import Part, Timeline
    from tests.timeline.conftest import Place

# Whether what is active is read, and what is archived.
READ = [(True, True), (True, False), (False, True)]


def rows(records: Iterable[Any]) -> Counter[str]:
    return Counter(str(each.row()) for each in records)


def parts_of(timeline: Timeline[Any], most: int | None = None, **said: Any) -> list[Part]:
    """Return its parts, as another process has them."""
    sent: list[Part] = pickle.loads(pickle.dumps(timeline.parts(most, **said)))
    return sent


def in_parts(timeline: Timeline[Any], most: int | None = None, **said: Any) -> Counter[str]:
    return sum((rows(timeline.records_in(each)) for each in parts_of(timeline, most, **said)), Counter())


def in_one(timeline: Timeline[Any], *, active: bool = True, history: bool = True) -> Counter[str]:
    if active and history:
        return rows(timeline.records())
    return rows(timeline.active() if active else timeline.history())


# --- together


@pytest.mark.parametrize("name", [*TABLES, "paimon", "delta"])
def test_parts_of_real_tables_have_what_one_process_reads(tmp_path: Path, name: str) -> None:
    timeline = read(unpacked(name, tmp_path))
    for active, history in READ:
        expected = in_one(timeline, active=active, history=history)
        for most in (None, 1, 2, 3, 50):
            assert in_parts(timeline, most, active=active, history=history) == expected


@pytest.mark.parametrize("name", ["hudi_cow", "paimon", "delta"])
def test_a_part_is_read_with_no_help_from_the_others(tmp_path: Path, name: str) -> None:
    timeline = read(unpacked(name, tmp_path))
    each = [rows(timeline.records_in(part)) for part in parts_of(timeline, 3)]
    assert len(each) == 3
    assert all(each)
    assert max(Counter.total(part) for part in each) < Counter.total(rows(timeline.records()))


def test_there_are_never_more_than_were_asked_for(memory: Place) -> None:
    table = Hudi(memory.fs, memory.root)
    files: dict[str, int] = {}
    for n in range(1, 40, 2):
        files |= archived(table, n, n + 1)
    table.manifest(1, files)
    timeline = read(table.root, fs=table.fs)
    assert [len(parts_of(timeline, most)) for most in (1, 2, 5, 20, 99)] == [1, 2, 5, 20, 20]


def test_few_small_files_are_one_part(memory: Place) -> None:
    table = Hudi(memory.fs, memory.root)
    table.manifest(1, archived(table, 1, 2) | archived(table, 3, 4))
    assert len(parts_of(read(table.root, fs=table.fs))) == 1


def test_an_empty_table_has_a_part_without_records(memory: Place) -> None:
    timeline = read(Hudi(memory.fs, memory.root).root, fs=memory.fs)
    assert len(parts_of(timeline, 4)) == 1
    assert in_parts(timeline, 4) == Counter()


@pytest.mark.parametrize("most", [0, -1])
@pytest.mark.parametrize("version", [6, 9])
def test_less_than_one_part_is_refused(memory: Place, most: int, version: int) -> None:
    timeline = read(Hudi(memory.fs, memory.root, version).root, fs=memory.fs)
    with pytest.raises(ConfigError, match="1 part or more"):
        timeline.parts(most)


# --- Hudi's history in levels


def test_an_instant_that_was_archived_twice_is_one_part_s(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.manifest(1, archived(table, 1, 5) | archived(table, 4, 8) | archived(table, 7, 9, level=1))
    timeline = read(table.root, fs=table.fs)
    assert len(parts_of(timeline, 3)) == 3
    assert in_parts(timeline, 3) == in_one(timeline)
    assert Counter.total(in_one(timeline)) == 9


def too_narrow(table: Hudi, first: int, last: int, there: Iterable[int]) -> dict[str, int]:
    """Write a file whose name says less than is in it, as the upgrade of a table may."""
    name = f"{time(first)}_{time(last)}_0.parquet"
    return {name: table.archive(name, [row(n) for n in there])}


def test_a_name_that_says_too_little_costs_no_instant_and_doubles_none(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    files = archived(table, 1, 5) | archived(table, 6, 8) | too_narrow(table, 9, 9, (3, 9, 7, 12))
    table.manifest(1, files | archived(table, 10, 12))
    timeline = read(table.root, fs=table.fs)
    assert [each.time for each in timeline.history()] == [time(n) for n in range(1, 13)]
    for most in (1, 2, 3, 4):
        assert in_parts(timeline, most) == in_one(timeline)


def test_without_statistics_the_times_themselves_are_read(memory: Place) -> None:
    import io

    import pyarrow.parquet as pq

    table = Hudi(memory.fs, memory.root)
    name, other = f"{time(5)}_{time(5)}_0.parquet", f"{time(2)}_{time(3)}_0.parquet"
    table.archive(name, [row(n) for n in (5, 1, 3)])
    path = f"{memory.root}/.hoodie/timeline/history/{name}"
    plain = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(memory.fs.cat_file(path))), plain, write_statistics=False)
    memory.fs.pipe_file(path, plain.getvalue())
    table.manifest(1, {name: len(plain.getvalue()), other: table.archive(other, [row(2), row(3)])})
    timeline = read(table.root, fs=table.fs)
    assert [each.time for each in timeline.history()] == [time(n) for n in (1, 2, 3, 5)]
    assert in_parts(timeline, 2) == in_one(timeline)


def test_what_is_archived_and_still_active_is_active_and_one(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.manifest(1, archived(table, 1, 3) | archived(table, 4, 5))
    for n in (2, 4, 6):
        table.commit(time(n), completion(n))
    timeline = read(table.root, fs=table.fs)
    assert in_parts(timeline, 2) == in_one(timeline)
    assert Counter.total(in_one(timeline)) == 6
    assert in_parts(timeline, 2, active=False) == in_one(timeline, active=False)


def test_an_archiver_that_is_at_work_meanwhile_takes_nothing_away_and_doubles_nothing(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    files = archived(table, 1, 2) | archived(table, 3, 4)
    table.manifest(1, files)
    for n in (5, 6):
        table.commit(time(n), completion(n))
    timeline = read(table.root, fs=table.fs)
    before = in_one(timeline)
    parts = parts_of(timeline, 2)
    table.manifest(2, files | archived(table, 5, 6))
    folder = f"{table.root}/{table.timeline}"
    for last in (f"{time(5)}.commit.requested", f"{time(5)}.inflight", f"{time(5)}_{completion(5)}.commit"):
        place.fs.rm_file(f"{folder}/{last}")
    assert sum((rows(timeline.records_in(each)) for each in parts), Counter()) == before


def test_a_file_that_goes_before_its_part_is_read_is_no_answer(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    files = archived(table, 1, 2) | archived(table, 3, 4)
    table.manifest(1, files)
    timeline = read(table.root, fs=table.fs)
    first, second = parts_of(timeline, 2)
    place.fs.rm_file(f"{table.root}/.hoodie/timeline/history/{next(iter(files))}")
    with pytest.raises(FileNotFoundError, match="read it again"):
        list(timeline.records_in(first))
    assert Counter.total(rows(timeline.records_in(second))) == 2


def test_the_archive_of_version_6_is_read_in_one_part(place: Place) -> None:
    table = Hudi(place.fs, place.root, 6)
    both = [block([entry(time(n), "commit", "COMPLETED", stateTransitionTime=completion(n))]) for n in (1, 2)]
    table.put("archived/.commits_.archive.1_1-0-1", both[0] + both[1])
    table.put("archived/.commits_.archive.2_1-0-1", both[1])
    timeline = read(table.root, fs=table.fs)
    assert parts_of(timeline, 8) == [Whole(active=True, history=True)]
    assert in_parts(timeline, 8) == in_one(timeline)


def test_a_part_of_another_format_is_refused(memory: Place) -> None:
    timeline = read(Hudi(memory.fs, memory.root).root, fs=memory.fs)
    (part,) = numbered_parts({"a": 1}, {}, None)
    with pytest.raises(TypeError, match="no part of a timeline of hudi"):
        timeline.records_in(part)


# --- what can't be read


def test_what_is_torn_is_raised_by_its_own_part_alone(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    files = archived(table, 1, 2) | archived(table, 3, 4)
    table.manifest(1, files)
    path = f"{table.root}/.hoodie/timeline/history/{next(iter(files))}"
    place.fs.pipe_file(path, b"\0" * place.fs.size(path))
    timeline = read(table.root, fs=table.fs)
    first, second = parts_of(timeline, 2)
    with pytest.raises(OSError, match="torn") as raised:
        list(timeline.records_in(first))
    assert raised.value.filename == path
    assert Counter.total(rows(timeline.records_in(second))) == 2


def test_a_file_that_reaches_into_several_parts_is_reported_by_one(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    name = f"{time(1)}_{time(9)}_0.parquet"
    files = {name: table.archive(name, [row(1), row(9)], version=2)}
    table.manifest(1, files | archived(table, 3, 4) | archived(table, 5, 6))
    timeline = read(table.root, fs=table.fs)
    parts = parts_of(timeline, 3)
    assert len([part for part in parts if name in str(part)]) == 3
    told: list[Problems] = [[] for _ in parts]
    for part, problems in zip(parts, told, strict=True):
        list(timeline.records_in(part, problems=problems))
    expected: Problems = []
    list(timeline.records(problems=expected))
    assert [problem for problems in told for problem in problems] == expected
    assert {each.trouble for each in expected} == {Trouble.UNKNOWN}


def test_a_missing_file_is_heard_of_when_the_timeline_is_cut(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.manifest(1, archived(table, 1, 2) | {f"{time(3)}_{time(4)}_0.parquet": 1000})
    timeline = read(table.root, fs=table.fs)
    with pytest.raises(FileNotFoundError, match="manifest_1 names it"):
        timeline.parts()
    problems: Problems = []
    (part,) = timeline.parts(problems=problems)
    assert Counter.total(rows(timeline.records_in(part))) == 2
    assert [each.trouble for each in problems] == [Trouble.MISSING]


# --- Paimon and Delta


def test_a_snapshot_that_expires_meanwhile_is_read_as_its_changelog(place: Place) -> None:
    table = Paimon(place.fs, place.root)
    paths = [table.snapshot(n) for n in range(1, 5)]
    timeline = read(table.root, fs=table.fs)
    both, active = parts_of(timeline, 2), parts_of(timeline, 2, history=False)
    table.snapshot(1, "changelog")
    place.fs.rm_file(paths[0])

    def numbers(parts: Iterable[Part]) -> list[int]:
        return sorted(each.number for part in parts for each in timeline.records_in(part))

    assert numbers(both) == [1, 2, 3, 4]
    assert numbers(active) == [2, 3, 4]


def test_a_snapshot_and_its_changelog_are_one(place: Place) -> None:
    table = Paimon(place.fs, place.root)
    for n in range(1, 4):
        table.snapshot(n, "changelog")
    for n in range(3, 6):
        table.snapshot(n)
    timeline = read(table.root, fs=table.fs)
    for most in range(1, 6):
        assert in_parts(timeline, most) == in_one(timeline)
    assert Counter.total(in_one(timeline)) == 5


def test_a_torn_snapshot_or_commit_is_raised(place: Place) -> None:
    Paimon(place.fs, f"{place.root}/p").write("snapshot/snapshot-1", "{")
    delta = Delta(place.fs, f"{place.root}/d")
    delta.write("_delta_log/00000000000000000000.json", "{")
    for last in "pd":
        timeline = read(f"{place.root}/{last}", fs=place.fs)
        (part,) = parts_of(timeline)
        with pytest.raises(OSError, match="torn"):
            list(timeline.records_in(part))


def test_delta_has_no_part_of_what_is_archived(place: Place) -> None:
    table = Delta(place.fs, place.root)
    table.commit(0, {"commitInfo": {"operation": "WRITE"}})
    timeline = read(table.root, fs=table.fs)
    assert parts_of(timeline, active=False) == []


# --- how they are cut


@given(st.lists(st.integers(1, 1000), max_size=40), st.integers(1, 50))
def test_groups_cost_about_the_same(costs: list[int], most: int) -> None:
    begins = starts(costs, most, 1)
    assert len(begins) <= most
    assert begins[:1] == [0][: len(costs)]
    groups = [costs[a:b] for a, b in zip(begins, [*begins[1:], None], strict=False)]
    assert all(sum(group) <= sum(costs) / most + max(costs) for group in groups)


times = st.integers(0, 30)


@given(st.lists(st.tuples(times, times), max_size=12), st.integers(1, 14))
def test_every_instant_of_every_file_is_of_one_stretch_that_reads_the_file(
    ranges: list[tuple[int, int]], most: int
) -> None:
    files = []
    for number, pair in enumerate(ranges):
        first, last = (f"{n:02}" for n in sorted(pair))
        files.append(HistoryFile(f"{number}", 1, first, last, 0))
    found = stretches(files, most, [], frozenset())
    assert 1 <= len(found) <= most
    for file in files:
        for n in range(int(file.first), int(file.last) + 1):
            (own,) = [each for each in found if each.has(f"{n:02}")]
            assert file in own.files


@given(
    st.dictionaries(st.text(min_size=1, max_size=3), st.integers(0, 20)),
    st.dictionaries(st.text(min_size=1, max_size=3), st.integers(0, 20)),
    st.integers(1, 30),
)
def test_every_number_is_of_one_part(active: dict[str, int], gone: Mapping[str, int], most: int) -> None:
    parts = numbered_parts(active, dict(gone), most)
    assert len(parts) <= most
    whose: dict[int, set[int]] = {}
    for place, part in enumerate(parts):
        for _, number in (*part.active, *part.archived):
            whose.setdefault(number, set()).add(place)
    assert all(len(each) == 1 for each in whose.values())
    assert sorted(each for part in parts for each in part.active) == sorted(active.items())
    assert sorted(each for part in parts for each in part.archived) == sorted(gone.items())
