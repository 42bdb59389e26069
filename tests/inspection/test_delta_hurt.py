"""Hurt Delta tables: each kind of damage is found, and named with what it is about."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from putifabsent.inspection import Kind, Severity, inspect
from tests.inspection.tables import Delta, packed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.inspection.conftest import Place

UUID = "d2c639aa-8816-431a-aaf6-d3fe2512ff61"


@pytest.fixture(name="table")
def of_two_commits(delta: Delta) -> Delta:
    return delta


def log(place: Place, number: int, ending: str = "json") -> str:
    return f"{place.root}/_delta_log/{number:020d}.{ending}"


def test_a_commit_that_is_missing_among_others_is_a_gap(place: Place, table: Delta) -> None:
    table.change(3, "d")
    finding = place.the(Kind.GAP)
    assert finding.names == (log(place, 2),)
    assert finding.severity is Severity.DAMAGE


@pytest.mark.parametrize(
    ("beside", "written", "missing"),
    [
        (f"{3:020d}.crc", "{}", (2, 3)),
        (f"{2:020d}.crc", "{}", (2,)),
        (f"{1:020d}.crc", "{}", ()),
        ("_last_checkpoint", '{"version": 3}', (2, 3)),
        ("_last_checkpoint", '{"version": 1}', ()),
        ("_last_checkpoint", '{"version"', ()),
        ("_last_checkpoint", '{"version": 1e400}', ()),
    ],
)
def test_the_newest_commit_that_something_beside_the_log_shows_is_missed(
    place: Place, table: Delta, beside: str, written: str, missing: tuple[int, ...]
) -> None:
    path = table.write(f"_delta_log/{beside}", written)
    found = [(each.kind, each.severity, each.names) for each in place.findings()]
    names = (*(log(place, each) for each in missing), path)
    assert found == ([(Kind.GAP, Severity.DAMAGE, names)] if missing else [])


def test_a_commit_that_a_catalog_may_have_is_not_missed(place: Place, table: Delta) -> None:
    table.write(f"_delta_log/{2:020d}.crc", "{}")
    table.write(f"_delta_log/_staged_commits/{2:020d}.{UUID}.json", "{}")
    assert place.findings() == []


def test_a_checkpoint_without_a_commit_from_its_version_on_is_not_read(tmp_path: Path) -> None:
    root = packed("raced_delta", tmp_path)
    local = fsspec.filesystem("file")
    newest = max(local.glob(f"{root}/_delta_log/*.checkpoint.parquet")).rpartition("/")[2]
    for path in local.glob(f"{root}/_delta_log/*[0-9].*"):
        if path.endswith(("json", "crc")) and path.rpartition("/")[2] >= newest[:20]:
            local.rm_file(path)
    (gap,) = inspect(root).findings
    assert (gap.kind, gap.severity) == (Kind.GAP, Severity.DAMAGE)
    assert "holds what it did, which is not read without a commit beside it" in gap.detail


@pytest.mark.parametrize("torn", [False, True])
def test_a_log_that_has_nothing_but_a_checkpoint_left_is_a_table_whose_commits_are_missing(
    tmp_path: Path, torn: bool
) -> None:
    root = packed("raced_delta", tmp_path)
    local = fsspec.filesystem("file")
    newest = max(local.glob(f"{root}/_delta_log/*.checkpoint.parquet"))
    for path in local.glob(f"{root}/_delta_log/*"):
        if path != newest:
            local.rm(path, recursive=True)
    if torn:
        local.pipe_file(newest, b"PAR1")
    report = inspect(root)
    (gap,) = [each for each in report.findings if each.kind is Kind.GAP]
    assert gap.severity is Severity.DAMAGE  # Delta refuses it: "Could not find any delta files for version"
    assert ("holds what it did, which is not read without a commit beside it" in gap.detail) is not torn
    assert [each.kind for each in report.findings] == [Kind.GAP] + [Kind.UNREADABLE] * torn
    assert report.verdict.startswith("delta, protocol unknown, 0 records")


@pytest.mark.parametrize("folder", ["_staged_commits", "_commits"])
def test_what_a_commit_that_only_a_catalog_has_may_have_removed_proves_no_damage(
    place: Place, table: Delta, folder: str
) -> None:
    place.fs.rm_file(f"{place.root}/a")
    assert place.damage() == [Kind.DANGLING_REFERENCE]
    table.write(f"_delta_log/{folder}/{1:020d}.{UUID}.json", "{}")  # is in the log since
    assert place.damage() == [Kind.DANGLING_REFERENCE]
    table.write(f"_delta_log/{folder}/{2:020d}.{UUID}.json", '{"remove": {"path": "a"}}')
    assert place.the(Kind.DANGLING_REFERENCE).severity is Severity.NOTICE


def test_a_catalog_whose_commits_are_in_the_log_excuses_no_gap(place: Place, table: Delta) -> None:
    table.write(f"_delta_log/_staged_commits/{1:020d}.{UUID}.json", "{}")
    table.write(f"_delta_log/{2:020d}.crc", "{}")
    assert place.the(Kind.GAP).severity is Severity.DAMAGE


def test_an_empty_folder_of_staged_commits_shows_no_catalog(place: Place, table: Delta) -> None:
    place.fs.makedirs(f"{place.root}/_delta_log/_commits")
    table.write(f"_delta_log/{2:020d}.crc", "{}")
    assert place.the(Kind.GAP).severity is Severity.DAMAGE


def test_a_log_without_its_beginning_and_without_a_checkpoint_is_a_gap(place: Place, table: Delta) -> None:
    place.fs.rm_file(log(place, 0))
    assert place.the(Kind.GAP).names == (log(place, 0),)


def test_a_gap_that_a_checkpoint_holds_proves_no_damage(tmp_path: Path) -> None:
    root = packed("raced_delta", tmp_path)
    fsspec.filesystem("file").rm_file(f"{root}/_delta_log/{5:020d}.json")
    (finding,) = inspect(root).findings
    assert (finding.kind, finding.severity) == (Kind.GAP, Severity.NOTICE)


def test_a_gap_behind_the_newest_checkpoint_is_damage(tmp_path: Path) -> None:
    root = packed("raced_delta", tmp_path)
    fsspec.filesystem("file").rm_file(f"{root}/_delta_log/{35:020d}.json")
    (finding,) = inspect(root, data=False).findings
    assert (finding.kind, finding.severity) == (Kind.GAP, Severity.DAMAGE)


def test_one_transaction_under_two_numbers_is_found(place: Place, table: Delta) -> None:
    table.change(2, "d", transaction="t1")
    finding = place.the(Kind.REPEATED_COMMIT)
    assert finding.names == (log(place, 1), log(place, 2))
    assert finding.severity is Severity.DAMAGE


def test_a_commit_without_a_transaction_that_was_copied_is_called_a_copy(place: Place, table: Delta) -> None:
    info = {"commitInfo": {"operation": "WRITE", "timestamp": 1_700_000_000_000}}
    table.commit(2, info, {"add": {"path": "d", "size": 0, "dataChange": True}})
    table.write("d")
    assert place.findings() == []
    place.fs.cp_file(log(place, 2), log(place, 3))
    finding = place.the(Kind.COPIED_RECORD)
    assert finding.names == (log(place, 2), log(place, 3))
    assert finding.moments == ("2", "3")
    assert finding.severity is Severity.NOTICE


def test_commits_that_say_no_time_may_be_alike(place: Place, table: Delta) -> None:
    for number in (2, 3):
        table.commit(number, {"commitInfo": {"operation": "OPTIMIZE"}})
    assert place.findings() == []


def test_a_commit_that_was_written_over_is_found_by_its_checksum(place: Place, table: Delta) -> None:
    path = table.write(f"_delta_log/{1:020d}.crc", json.dumps({"txnId": "another's"}))
    finding = place.the(Kind.OVERWRITTEN_COMMIT)
    assert finding.names == (log(place, 1), path)
    assert finding.severity is Severity.DAMAGE


@pytest.mark.parametrize("written", ["{", "[]", '{"txnId": null}', '{"txnId": "t1"}'])
def test_a_checksum_that_tells_of_nobody_else_proves_nothing(
    place: Place, table: Delta, written: str
) -> None:
    table.write(f"_delta_log/{1:020d}.crc", written)
    assert place.findings() == []


def test_a_file_that_is_not_there_dangles(place: Place, table: Delta) -> None:
    place.fs.rm_file(f"{place.root}/b")
    finding = place.the(Kind.DANGLING_REFERENCE)
    assert finding.names == (f"{place.root}/b",)
    assert "commit 0" in finding.detail


@pytest.mark.parametrize("torn", ["", None], ids=["empty", "gone"])
def test_what_a_commit_that_can_t_be_read_may_have_removed_proves_no_damage(
    place: Place, table: Delta, torn: str | None
) -> None:
    table.change(3, "d")
    if torn is not None:
        table.write(f"_delta_log/{2:020d}.json", torn)
    place.fs.rm_file(f"{place.root}/b")
    assert Kind.DANGLING_REFERENCE in place.kinds(Severity.NOTICE)


def test_a_deletion_vector_that_is_not_there_dangles(place: Place, table: Delta) -> None:
    # The protocol's own example: "ab^-aqEH.-t@S}K{vb[*k^" is ab/deletion_vector_<uuid>.bin.
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}
    table.commit(2, {"remove": {"path": "a"}}, {"add": {"path": "a", "deletionVector": vector}})
    path = f"{place.root}/ab/deletion_vector_{UUID}.bin"
    finding = place.the(Kind.DANGLING_REFERENCE)
    assert (finding.names, finding.moments) == ((path,), ("2",))
    place.fs.mkdir(path.rpartition("/")[0])
    place.fs.touch(path)
    assert place.findings() == []
    place.fs.rm_file(path)
    table.change(3, removed=["a"])
    assert place.findings() == []


@pytest.mark.parametrize("ending", ["parquet", "json"])
def test_a_deletion_vector_that_only_a_checkpoint_names_dangles(place: Place, ending: str) -> None:
    table = Delta(place.fs, place.root)
    vector = {"storageType": "u", "pathOrInlineDv": "^-aqEH.-t@S}K{vb[*k^"}
    adds: list[dict[str, Any]] = [
        {"path": "a", "deletionVector": vector},
        {"path": "b", "deletionVector": None},
    ]
    for each in "ab":
        table.write(each)
    file = io.BytesIO()
    pq.write_table(pa.table({"add": adds}), file)
    lines = "".join(json.dumps({"add": each, "remove": None}) + "\n" for each in adds)
    last = f"{0:020d}.checkpoint.parquet" if ending == "parquet" else f"{0:020d}.checkpoint.{UUID}.json"
    table.write(f"_delta_log/{last}", file.getvalue() if ending == "parquet" else lines)
    table.change(1, "c")
    assert place.the(Kind.DANGLING_REFERENCE).names == (f"{place.root}/deletion_vector_{UUID}.bin",)


def test_a_file_whose_path_is_encoded_is_found(place: Place, table: Delta) -> None:
    table.change(2, "p=a%20b/x", files=False)
    assert place.the(Kind.DANGLING_REFERENCE).names == (f"{place.root}/p=a b/x",)
    table.write("p=a b/x")
    assert place.findings() == []


def test_a_file_that_only_a_checkpoint_names_dangles(tmp_path: Path) -> None:
    root = packed("raced_delta", tmp_path)
    local = fsspec.filesystem("file")
    first = json.loads(local.cat_file(f"{root}/_delta_log/{0:020d}.json").splitlines()[-1])["add"]["path"]
    for number in range(8):
        local.rm_file(f"{root}/_delta_log/{number:020d}.json")
    local.rm_file(f"{root}/{first}")
    (finding,) = inspect(root).findings
    assert finding.kind is Kind.DANGLING_REFERENCE
    assert finding.names == (f"{root}/{first}",)
    assert "checkpoint" in finding.detail


def test_a_checkpoint_of_which_a_part_is_missing_holds_nothing(tmp_path: Path) -> None:
    root = packed("raced_delta", tmp_path)
    local = fsspec.filesystem("file")
    for path in local.glob(f"{root}/_delta_log/*.checkpoint.parquet"):
        whole = f"{root}/_delta_log/{10:020d}.checkpoint.parquet"
        if path != whole:
            local.rm_file(path)
    local.rm_file(f"{root}/_delta_log/{0:020d}.json")
    assert inspect(root).findings == []
    local.mv(whole, whole.replace(".parquet", ".0000000001.0000000002.parquet"))
    assert [each.kind for each in inspect(root, data=False).damage] == [Kind.GAP]


def test_a_file_that_a_checkpoint_has_seen_go_is_gone(tmp_path: Path) -> None:
    root = packed("raced_delta", tmp_path)
    local = fsspec.filesystem("file")
    first = json.loads(local.cat_file(f"{root}/_delta_log/{8:020d}.json").splitlines()[-1])["add"]["path"]
    path = f"{root}/_delta_log/{10:020d}.checkpoint.parquet"
    table = pq.read_table(path)
    kept = [row for row in table.to_pylist() if not (row["add"] and row["add"]["path"] == first)]
    assert len(kept) == table.num_rows - 1
    pq.write_table(pa.Table.from_pylist(kept, table.schema), path)
    local.rm_file(f"{root}/_delta_log/{0:020d}.json")
    local.rm_file(f"{root}/{first}")
    assert inspect(root).findings == []


@pytest.mark.parametrize("torn", [b"PAR1", b"PAR1" + b"\xff" * 12 + bytes((12, 0, 0, 0)) + b"PAR1"])
def test_a_torn_checkpoint_is_unreadable(tmp_path: Path, torn: bytes) -> None:
    root = packed("raced_delta", tmp_path)
    local = fsspec.filesystem("file")
    local.rm_file(f"{root}/_delta_log/{0:020d}.json")
    path = f"{root}/_delta_log/{10:020d}.checkpoint.parquet"
    local.pipe_file(path, torn)
    assert [(each.kind, each.names) for each in inspect(root).findings] == [(Kind.UNREADABLE, (path,))]


def checkpoint(table: Delta, number: int, *paths: str, torn: bool = False) -> str:
    """Write a checkpoint of the files that the table has then."""
    lines = "".join(json.dumps({"add": {"path": each}}) + "\n" for each in paths)
    return table.write(f"_delta_log/{number:020d}.checkpoint.{UUID}.json", "{" if torn else lines)


@pytest.mark.parametrize("address", ["of%20it.json", "s3://original/t/_delta_log/_sidecars/of%20it.json"])
def test_a_sidecar_lies_in_its_own_table_whatever_address_a_checkpoint_says(
    place: Place, table: Delta, address: str
) -> None:
    said = json.dumps({"sidecar": {"path": address}})
    table.write(f"_delta_log/{1:020d}.checkpoint.{UUID}.json", said)
    table.write("_delta_log/_sidecars/of it.json", json.dumps({"add": {"path": "c"}}))
    place.fs.rm_file(f"{place.root}/_delta_log/{0:020d}.json")
    place.fs.rm_file(f"{place.root}/c")
    assert place.the(Kind.DANGLING_REFERENCE).names == (f"{place.root}/c",)


def test_of_a_log_whose_end_is_lost_behind_a_checkpoint_that_says_what_is_there(
    place: Place, table: Delta
) -> None:
    for each in "de":
        table.write(each)
    checkpoint(table, 3, "c", "d", "e")
    for each in "abe":  # a and b were removed by a commit that is lost, and vacuumed
        place.fs.rm_file(f"{place.root}/{each}")
    gap, dangling = place.findings()
    assert (dangling.kind, dangling.names) == (Kind.DANGLING_REFERENCE, (f"{place.root}/e",))
    assert dangling.severity is Severity.DAMAGE
    assert (gap.kind, gap.severity) == (Kind.GAP, Severity.DAMAGE)


@pytest.mark.parametrize(("torn", "kind"), [(None, Kind.GAP), ("{", Kind.UNREADABLE)], ids=["gone", "torn"])
def test_what_a_checkpoint_behind_a_lost_commit_says_is_proof(
    place: Place, table: Delta, torn: str | None, kind: Kind
) -> None:
    checkpoint(table, 2, "b", "c")
    table.change(3, "d")
    if torn is not None:
        table.write(f"_delta_log/{2:020d}.json", torn)
    for each in "ac":  # a was removed by the commit that is lost
        place.fs.rm_file(f"{place.root}/{each}")
    lost, dangling = sorted(place.findings(), key=lambda each: each.kind is not kind)
    assert (dangling.names, dangling.severity) == ((f"{place.root}/c",), Severity.DAMAGE)
    assert (lost.kind, lost.severity is Severity.NOTICE) == (kind, torn is None)


def test_the_newest_checkpoint_is_read_though_the_log_is_whole(place: Place, table: Delta) -> None:
    checkpoint(table, 0, "a", "b")
    path = checkpoint(table, 1, torn=True)
    finding = place.the(Kind.UNREADABLE)
    assert (finding.names, finding.severity) == ((path,), Severity.DAMAGE)
    checkpoint(table, 1, "a", "b", "c")
    assert place.findings() == []


def test_without_a_torn_checkpoint_the_one_before_says_what_is_there(place: Place, table: Delta) -> None:
    checkpoint(table, 0, "a", "b")
    path = checkpoint(table, 3, torn=True)
    for number, each in ((2, "d"), (3, "e")):
        table.change(number, each)
    place.fs.rm_file(log(place, 0))
    place.fs.rm_file(f"{place.root}/b")
    told = [(each.kind, each.names, each.severity) for each in place.findings()]
    assert told == [
        (Kind.UNREADABLE, (path,), Severity.DAMAGE),
        (Kind.DANGLING_REFERENCE, (f"{place.root}/b",), Severity.DAMAGE),
    ]


def test_an_action_of_a_later_protocol_may_be_anything(place: Place, table: Delta) -> None:
    table.commit(2, {"add": {"path": "a", "later": [1]}, "later": ["a", 1]}, {"latest": "x"})
    assert place.findings() == []


def test_a_torn_checkpoint_holds_nothing(place: Place, table: Delta) -> None:
    checkpoint(table, 0, "a", "b")
    checkpoint(table, 3, torn=True)
    table.change(3, "d")
    assert [(each.kind, each.severity) for each in place.findings()] == [
        (Kind.GAP, Severity.DAMAGE),
        (Kind.UNREADABLE, Severity.DAMAGE),
    ]


def test_two_commits_that_take_away_one_file_lose_an_update(place: Place, table: Delta) -> None:
    table.change(2, "a2", removed=("a",), read=1)
    table.change(3, "a3", removed=("a",), read=1)
    finding = place.the(Kind.LOST_UPDATE)
    assert finding.names == ("a",)
    assert finding.moments == ("2", "3")
    assert finding.severity is Severity.DAMAGE


def test_a_file_that_is_taken_away_once_more_by_who_knew_it_to_be_gone_loses_nothing(
    place: Place, table: Delta
) -> None:
    table.change(2, removed=("a",), read=1)
    table.change(3, removed=("a",), read=2)
    assert place.findings() == []


def test_actions_may_be_null(place: Place, table: Delta) -> None:
    table.write("d")
    table.commit(2, {"add": {"path": "d"}, "remove": None, "protocol": None, "commitInfo": None})
    assert place.findings() == []


def test_a_commit_that_has_read_its_own_future_goes_backwards(place: Place, table: Delta) -> None:
    table.change(2, "d", read=5)
    assert place.the(Kind.BACKWARDS).names == (log(place, 2),)


@pytest.mark.parametrize(("written", "kind"), [("", Kind.EMPTY), ('{"add": {', Kind.UNREADABLE)])
def test_a_commit_that_can_t_be_read_is_found_and_is_no_gap(
    place: Place, table: Delta, written: str, kind: Kind
) -> None:
    path = table.write(f"_delta_log/{2:020d}.json", written)
    table.change(3, "d")
    assert place.the(kind).names == (path,)
