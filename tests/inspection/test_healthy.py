"""Healthy tables: nothing is found in them, whatever cleaners, archivers and services have taken away."""

from __future__ import annotations

import itertools
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import fsspec
import pytest

from putifabsent.inspection import inspect
from putifabsent.timeline import HudiTimeline, State, read
from tests.inspection.tables import Delta, Hudi, Paimon, packed, stat

if TYPE_CHECKING:
    from tests.inspection.conftest import Place

HUDI = ["hudi_cow", "hudi_mor", "hudi_upgraded", "hudi_v6", "hudi_0_15", "hudi_long"]
RACED = ["raced_hudi", "raced_hudi_mor", "raced_delta", "raced_paimon", "killed_hudi"]
A, B = "aaaaaaaa-0", "bbbbbbbb-0"
T = [f"2026010112000000{n}" for n in range(10)]
C = [f"2026010112010000{n}" for n in range(10)]


def base(group: str, time: str, write: str = "0-1-1") -> str:
    return f"{group}_{write}_{time}.parquet"


def filled(name: str, folder: Path) -> str:
    """Unpack a timeline, and make the data files that are left of all that it says to have written."""
    root = packed(name, folder)
    timeline = read(root)
    assert isinstance(timeline, HudiTimeline)
    written: dict[str, str] = {}
    removed: set[str] = set()
    for each in [*timeline.active(), *timeline.history(raw=True)]:
        metadata = timeline.details(each).metadata
        if metadata is not None and each.state is State.COMPLETED:
            said = json.dumps(metadata.value, default=str)
            if each.action in ("clean", "rollback", "restore"):
                removed.update(re.findall(r'"(?:[^"]*/)?([^"/]+\.parquet|\.[^"/]+\.log\.[^"/]+)"', said))
            else:
                written.update(re.findall(r'"path": "([^"]+)".*?"fileSizeInBytes": (\d+)', said))
    assert removed & written.keys()
    for last in written.keys() - removed:
        path = Path(root, last)
        path.touch()
        os.truncate(path, int(written[last]))
    return root


@pytest.mark.parametrize("name", [*HUDI, "delta", "paimon"])
def test_nothing_is_found_in_timelines_by_themselves(tmp_path: Path, name: str) -> None:
    assert inspect(packed(name, tmp_path), data=False).findings == []


@pytest.mark.parametrize("name", HUDI)
def test_nothing_is_found_in_tables_that_were_cleaned_archived_and_restored(
    tmp_path: Path, name: str
) -> None:
    report = inspect(filled(name, tmp_path))
    assert report.findings == []
    assert report.files


@pytest.mark.parametrize("name", RACED)
def test_nothing_is_found_in_tables_for_which_guarded_writers_raced(tmp_path: Path, name: str) -> None:
    report = inspect(packed(name, tmp_path))
    assert report.findings == []
    assert report.files


def test_a_clustered_file_group_may_be_cleaned(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.wrote(T[1], C[1], stat(A, base(A, T[1])))
    inputs = {"clusteringPlan": {"inputGroups": [{"slices": [{"dataFilePath": base(A, T[1])}]}]}}
    table.wrote(
        T[2],
        C[2],
        stat(B, base(B, T[2])),
        action="replacecommit",
        plan=inputs,
        partitionToReplaceFileIds={"": [A]},
    )
    table.cleaned(T[3], C[3], base(A, T[1]))
    assert place.findings() == []


def test_a_partition_may_be_dropped_as_a_whole(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.wrote(
        T[1], C[1], stat(A, base(A, T[1]), partition="dt=1"), stat(B, base(B, T[1]), partition="dt=2")
    )
    place.fs.rm(f"{place.root}/dt=1", recursive=True)
    table.cleaned(T[2], C[2], partition="dt=1", isPartitionDeleted=True)
    assert place.findings() == []


def test_a_clean_that_is_under_way_has_removed_what_it_was_to_remove(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.wrote(T[1], C[1], stat(A, base(A, T[1])))
    plan = {"filePathsToBeDeletedPerPartition": {"": [{"filePath": f"s3a://b/t/{base(A, T[1])}"}]}}
    table.put(f"{T[2]}.clean.requested", json.dumps(plan))
    place.fs.rm_file(f"{place.root}/{base(A, T[1])}")
    assert place.findings() == []


def test_a_writer_that_is_at_work_leaves_slices_of_two_attempts(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.put(f"{T[1]}.commit.requested")
    for write in ("0-1-1", "0-1-2"):
        table.write(base(A, T[1], write))
    assert place.findings() == []


def test_a_savepoint_shares_its_instant(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.wrote(T[1], C[1], stat(A, base(A, T[1])))
    table.put(f"{T[1]}.savepoint.inflight")
    said = {"partitionMetadata": {"": {"savepointDataFile": [base(A, T[1])]}}}
    table.put(f"{T[1]}_{C[2]}.savepoint", json.dumps(said))
    assert place.findings() == []


def test_a_compaction_that_was_rolled_back_may_be_performed_again(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    plan = {"operations": [{"fileId": A}]}
    table.rolled_back(T[2], C[2], T[1], base(A, T[1], "0-1-1"))
    table.complete(
        T[1],
        C[3],
        "commit",
        {"partitionToWriteStats": {"": [stat(A, base(A, T[1], "0-2-2"))]}},
        plan=plan,
        began="compaction",
    )
    table.write(base(A, T[1], "0-2-2"))
    assert place.findings() == []


def test_a_compaction_may_end_after_its_file_group_was_replaced(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.wrote(T[1], C[1], stat(A, base(A, T[1])))
    table.wrote(
        T[3], C[3], stat(B, base(B, T[3])), action="replacecommit", partitionToReplaceFileIds={"": [A]}
    )
    table.write(base(A, T[2]))
    parts = {"": [stat(A, base(A, T[2]), T[1])]}
    said = {"partitionToWriteStats": parts}
    table.complete(T[2], C[4], "commit", said, plan={"operations": [{"fileId": A}]}, began="compaction")
    assert place.findings() == []


def test_below_version_8_log_files_bear_the_instant_of_their_base_file(place: Place) -> None:
    table = Hudi(place.fs, place.root, version=6)
    table.wrote(T[1], "", stat(A, base(A, T[1])), action="deltacommit")
    table.wrote(T[2], "", stat(A, f".{A}_{T[1]}.log.1_0-2-2", T[1]), action="deltacommit")
    table.wrote(T[3], "", stat(B, f".{B}_{T[3]}.log.1_0-2-2"), action="deltacommit")
    for n, group in ((1, A), (3, B)):
        # Of a writer that failed, and was rolled back by a log block.
        table.write(f".{group}_{T[n]}.log.2_0-3-3")
    assert place.findings() == []


def test_concurrent_inserts_into_file_groups_of_their_own_lose_nothing(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.wrote(T[1], C[2], stat(A, base(A, T[1])))
    table.wrote(T[2], C[1], stat(B, base(B, T[2])))
    assert place.findings() == []


def test_concurrent_log_files_of_one_file_group_lose_nothing(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.wrote(T[1], C[1], stat(A, base(A, T[1])))
    for n in (2, 3):
        table.wrote(T[n], C[5 - n], stat(A, f".{A}_{T[n]}.log.1_0-1-1", T[1]), action="deltacommit")
    assert place.findings() == []


def test_with_consistent_hashing_updates_go_to_both_file_groups_while_one_is_replaced(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.wrote(T[1], C[1], stat(A, base(A, T[1])))
    inputs = {"clusteringPlan": {"inputGroups": [{"slices": [{"dataFilePath": base(A, T[1])}]}]}}
    both = (stat(A, f".{A}_{T[3]}.log.1_0-1-1", T[1]), stat(B, f".{B}_{T[3]}.log.1_0-1-1", T[2]))
    table.wrote(T[3], C[3], *both, action="deltacommit")
    table.wrote(
        T[2],
        C[4],
        stat(B, base(B, T[2])),
        action="replacecommit",
        plan=inputs,
        partitionToReplaceFileIds={"": [A]},
    )
    assert place.findings() == []


def test_a_clustering_replaces_what_it_has_read_and_all_before(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.wrote(T[1], C[3], stat(A, base(A, T[1])))
    table.wrote(T[3], C[4], stat(A, base(A, T[3]), T[1]))
    inputs = {"clusteringPlan": {"inputGroups": [{"slices": [{"dataFilePath": base(A, T[3])}]}]}}
    table.wrote(
        T[2],
        C[5],
        stat(B, base(B, T[2])),
        action="replacecommit",
        plan=inputs,
        partitionToReplaceFileIds={"": [A]},
    )
    assert place.findings() == []


def test_a_metadata_table_begins_file_groups_with_log_files_that_no_instant_names(place: Place) -> None:
    table = Hudi(place.fs, f"{place.root}/.hoodie/metadata")
    first = "00000000000000001"
    table.wrote(first, C[1], stat("files-0000-0", base("files-0000-0", first), partition="files"))
    table.write(f"col_stats/.col-stats-0000-0_{first}.log.1_0-0-0")
    assert inspect(table.root, fs=place.fs).findings == []


def test_an_empty_hudi_table_is_healthy(place: Place) -> None:
    Hudi(place.fs, place.root)
    assert place.findings() == []


def test_paimon_may_have_expired_its_oldest_snapshots_and_compacted_files_away(place: Place) -> None:
    table = Paimon(place.fs, place.root)
    table.commit(4, "c", upon=("a", "b"))
    table.commit(5, "d", removed=("a", "b", "c"), upon=("a", "b", "c"), commitKind="COMPACT")
    for name in ("a", "b"):
        table.write(f"bucket-0/{name}")
    assert place.findings() == []


@pytest.mark.parametrize("rows", [[1, 2], [1]])
def test_paimon_may_have_its_next_index_files_elsewhere(place: Place, rows: list[int]) -> None:
    table = Paimon(place.fs, place.root)
    table.commit(1, "a")
    table.commit(2, upon=["a"], vectors={"v": {"a": [1]}})
    table.commit(3, upon=["a"], vectors={"s3://other/index/w": {"a": [1, 2]}})
    table.commit(4, upon=["a"], vectors={"s3://other/index/x": {"a": rows}})
    fewer = "snapshot 4 brings back rows of a data file that 3 has deleted"
    assert [each.detail for each in place.findings()] == [fewer] * (len(rows) == 1)


def test_a_paimon_table_without_snapshots_is_healthy(place: Place) -> None:
    Paimon(place.fs, place.root)
    assert place.findings() == []


def test_delta_may_have_vacuumed_what_it_removed(place: Place) -> None:
    table = Delta(place.fs, place.root)
    table.change(0, "a", "b")
    table.change(1, "c", removed=("a",))
    place.fs.rm_file(f"{place.root}/a")
    assert place.findings() == []


def test_delta_may_have_cleaned_its_log_behind_a_checkpoint(tmp_path: Path) -> None:
    root = packed("raced_delta", tmp_path)
    for number in range(15):
        fsspec.filesystem("file").rm_file(f"{root}/_delta_log/{number:020d}.json")
    assert inspect(root).findings == []


def test_delta_may_give_a_file_a_deletion_vector_more_than_once(place: Place) -> None:
    table = Delta(place.fs, place.root)
    table.change(0, "a")
    for number in (1, 2):
        before = {"storageType": "u", "pathOrInlineDv": f"v{number - 1}", "offset": 1}
        after = {**before, "pathOrInlineDv": f"v{number}"}
        table.commit(
            number,
            {"commitInfo": {"readVersion": number - 1}},
            {"remove": {"path": "a", **({"deletionVector": before} if number > 1 else {})}},
            {"add": {"path": "a", "deletionVector": after}},
        )
    assert place.findings() == []


def test_writers_of_delta_encode_the_same_path_differently(place: Place) -> None:
    table = Delta(place.fs, place.root)
    table.change(0, "p=%C3%A4%7E/a", "p=ä~/b", files=False)  # as delta-rs and as Spark write a partition
    table.change(1, "c", removed=("p=ä~/a", "p=%C3%A4%7E/b"))
    assert place.findings() == []


def test_files_may_be_links_to_others(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "t", tmp_path / "elsewhere"
    table = Delta(fsspec.filesystem("file", auto_mkdir=True), str(root))
    table.change(0, "a", "p=1/b", "p=2/q=2/d")
    table.change(1, "c")
    elsewhere.mkdir()
    (root / "p=2/table").symlink_to(root)
    for name in ("a", "p=1", "p=2/q=2", f"_delta_log/{1:020d}.json"):
        moved = elsewhere / Path(name).name
        (root / name).rename(moved)
        (root / name).symlink_to(moved)
    report = inspect(str(root))
    assert (report.findings, len(report.records)) == ([], 2)
    (elsewhere / "a").unlink()
    assert [each.names for each in inspect(str(root)).findings] == [(f"{root}/a",)]


def test_links_between_partitions_come_to_an_end(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table, partitions = Delta(fsspec.filesystem("file", auto_mkdir=True), str(root)), "abc"
    table.change(0, *(f"p={each}/q/file" for each in partitions))
    for each, other in itertools.permutations(partitions, 2):
        (root / f"p={each}/q/{other}").symlink_to(root / f"p={other}/q")
    report = inspect(str(root))
    assert (report.findings, report.files) == ([], 15)


def test_a_delta_file_elsewhere_is_not_looked_for(place: Place) -> None:
    table = Delta(place.fs, place.root)
    table.change(0, "s3://other/table/a.parquet", files=False)
    assert place.findings() == []
