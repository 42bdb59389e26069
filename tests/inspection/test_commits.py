"""Commits that would hurt their tables are refused, by the rules of each format; others are not."""

from __future__ import annotations

import json
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.errors import Damaging
from putifabsent.inspection import delta as rules
from putifabsent.inspection import hudi as hudi_rules
from putifabsent.inspection import paimon as paimon_rules
from putifabsent.inspection.findings import Base
from putifabsent.inspection.inspecting import Commits
from putifabsent.shim.policy import Policy
from tests.inspection.tables import Delta, Hudi, Iceberg, Late, Paimon, delta_log, stat

if TYPE_CHECKING:
    from tests.inspection.conftest import Place

A, B = "aaaaaaaa-0", "bbbbbbbb-0"
T = [f"2026010112000000{n}" for n in range(10)]
C = [f"2026010112010000{n}" for n in range(10)]


def base(group: str, time: str, write: str = "0-1-1") -> str:
    return f"{group}_{write}_{time}.parquet"


# Delta


def test_a_delta_commit_is_created_whose_files_are_there(place: Place, delta: Delta) -> None:
    delta.change(2, "d/x%20y", removed=["a"], files=False)
    delta.write("d/x y")
    Late(place, delta_log(2)).check()


def test_a_delta_commit_is_refused_one_of_whose_files_is_gone(place: Place, delta: Delta) -> None:
    delta.change(2, "d", "e")
    reason = Late(place, delta_log(2), "e").refused()
    assert reason.startswith(
        "the table has a file that is not there, added by commit 2. Read the table again"
    )


def test_a_delta_commit_is_refused_that_removes_what_another_has_removed(place: Place, delta: Delta) -> None:
    delta.change(2, "d", removed=["a"])
    delta.change(3, "e", removed=["a"], read=1)
    assert "commits 2 and 3 have both taken away the same files" in Late(place, delta_log(3)).refused()


def test_a_delta_commit_may_remove_what_was_added_again_since(place: Place, delta: Delta) -> None:
    delta.change(2, "d", removed=["a"])
    delta.change(3, "a")
    delta.change(4, "e", removed=["a"], read=1)
    Late(place, delta_log(4)).check()


def test_a_delta_commit_is_refused_that_has_read_what_is_not_there(place: Place, delta: Delta) -> None:
    delta.change(2, "d", read=5)
    assert "says that it has read version 5" in Late(place, delta_log(2)).refused()


def test_a_delta_commit_is_refused_whose_vector_is_gone(place: Place, delta: Delta) -> None:
    # The protocol's own example: "ab^-aqEH.-t@S}K{vb[*k^" is ab/deletion_vector_<uuid>.bin.
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}
    delta.commit(2, {"add": {"path": "a", "deletionVector": vector}})
    late = Late(place, delta_log(2))
    late.refused()
    delta.write("ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin")
    late.check()


def test_a_delta_commit_is_refused_that_is_empty(place: Place, delta: Delta) -> None:
    place.fs.pipe_file(f"{place.root}/{delta_log(2)}", b"")
    assert "it has no actions" in Late(place, delta_log(2)).refused()


def test_a_delta_commit_that_is_not_understood_is_created(place: Place, delta: Delta) -> None:
    place.fs.pipe_file(f"{place.root}/{delta_log(2)}", b"not of this world")
    Late(place, delta_log(2)).check()


def test_a_file_elsewhere_is_not_asked_for(place: Place, delta: Delta) -> None:
    delta.change(2, "s3://other/table/x.parquet", files=False)
    Late(place, delta_log(2)).check()


# Paimon


def test_a_snapshot_is_created_upon_the_one_before(place: Place, paimon: Paimon) -> None:
    paimon.commit(3, "c", removed=["a"], upon=("a", "b"), vectors={"v": {"b": [1]}})
    Late(place, "snapshot/snapshot-3").check()


def test_a_snapshot_is_refused_that_was_not_committed_upon_the_one_before(
    place: Place, paimon: Paimon
) -> None:
    paimon.commit(3, "c", upon=("a",))
    assert "was not committed upon snapshot 2" in Late(place, "snapshot/snapshot-3").refused()


def test_a_snapshot_is_refused_whose_base_was_rolled_back_meanwhile(place: Place, paimon: Paimon) -> None:
    paimon.commit(3, "c", upon=("a", "b"))
    late = Late(place, "snapshot/snapshot-3", "snapshot/snapshot-2")
    assert late.refused().startswith("snapshot 3 comes upon 2, which is gone: 1 is the newest. ")


@pytest.mark.parametrize("higher", [False, True], ids=["none is there", "its number was taken"])
def test_a_snapshot_without_the_one_before_is_left_to_who_creates_it(
    place: Place, paimon: Paimon, higher: bool
) -> None:
    paimon.commit(3, "c", upon=("a", "b"))
    if higher:
        paimon.commit(4, "d", upon=("a", "b", "c"))
    Late(place, "snapshot/snapshot-3", "snapshot/snapshot-2", "snapshot/snapshot-1").check()


def test_a_snapshot_is_refused_one_of_whose_files_is_gone(place: Place, paimon: Paimon) -> None:
    paimon.commit(3, "c", upon=("a", "b"))
    assert "has a data file that is not there" in Late(place, "snapshot/snapshot-3", "bucket-0/c").refused()


@pytest.mark.parametrize("gone", ["manifest-list-baseManifestList-3", "manifest-deltaManifestList-3"])
def test_a_snapshot_is_refused_whose_manifests_are_gone(place: Place, paimon: Paimon, gone: str) -> None:
    paimon.commit(3, "c", upon=("a", "b"))
    assert "a snapshot leads to it" in Late(place, "snapshot/snapshot-3", f"manifest/{gone}").refused()


def test_a_snapshot_is_refused_that_adds_what_is_there(place: Place, paimon: Paimon) -> None:
    paimon.commit(3, "b", upon=("a", "b"))
    assert "adds files that the table had already" in Late(place, "snapshot/snapshot-3").refused()


def test_a_snapshot_is_refused_with_a_vector_of_a_file_that_is_removed(place: Place, paimon: Paimon) -> None:
    paimon.commit(3, "c", removed=["a"], upon=("a", "b"), vectors={"v": {"a": [1]}})
    assert "has deletion vectors for a data file" in Late(place, "snapshot/snapshot-3").refused()


@pytest.mark.parametrize(
    ("rows", "is_refused"),
    [
        ({"a": [1, 2, 70_000], "b": [3]}, False),
        ({"a": range(100_000), "b": [3]}, False),
        ({"a": [1, 2, 5], "b": [3]}, True),
        ({"a": [1], "b": [3]}, True),
        ({"b": [3]}, True),
    ],
)
def test_a_snapshot_is_refused_that_brings_back_what_was_deleted(
    place: Place, paimon: Paimon, rows: dict[str, list[int]], is_refused: bool
) -> None:
    paimon.commit(3, upon=("a", "b"), vectors={"v": {"a": [1, 70_000]}})
    paimon.commit(4, upon=("a", "b"), vectors={"w": rows})
    late = Late(place, "snapshot/snapshot-4")
    if is_refused:
        assert "brings back rows of a data file that 3 has deleted" in late.refused()
    else:
        late.check()


def test_what_is_deleted_of_a_file_goes_with_it(place: Place, paimon: Paimon) -> None:
    paimon.commit(3, upon=("a", "b"), vectors={"v": {"a": [1]}})
    paimon.commit(4, "c", removed=["a"], upon=("a", "b"))
    Late(place, "snapshot/snapshot-4").check()


KEYED = {"fields": [], "partitionKeys": [], "primaryKeys": ["id"]}


@pytest.mark.parametrize(
    ("added", "options", "kind", "is_refused"),
    [
        ("c:6-9", {}, "APPEND", False),
        ("c:5-9", {}, "APPEND", True),
        ("c:3-4", {}, "APPEND", True),
        ("c:3-4", {}, "COMPACT", False),
        ("c:3-4", {"sequence.field": "n"}, "APPEND", False),
        ("c:3-4", {"merge-engine": "aggregation"}, "APPEND", False),
        ("c:3-4", {"merge-engine": "partial-update"}, "APPEND", True),
        ("c:3-4", {"merge-engine": "partial-update", "fields.n.sequence-group": "x"}, "APPEND", False),
    ],
)
def test_a_snapshot_is_refused_whose_rows_are_numbered_as_if_others_were_not_there(
    place: Place, paimon: Paimon, added: str, options: dict[str, str], kind: str, is_refused: bool
) -> None:
    paimon.write("schema/schema-1", json.dumps({**KEYED, "options": options}))
    paimon.commit(3, "d:3-5", upon=("a", "b"))
    paimon.commit(4, added, upon=("a", "b", "d:3-5"), commitKind=kind, schemaId=1)
    late = Late(place, "snapshot/snapshot-4")
    if is_refused:
        assert "numbers its rows in bucket 0 as if others had committed none there" in late.refused()
    else:
        late.check()


def test_a_copied_snapshot_is_refused(place: Place, paimon: Paimon) -> None:
    place.fs.cp_file(f"{place.root}/snapshot/snapshot-2", f"{place.root}/snapshot/snapshot-3")
    assert "it says that it is snapshot 2" in Late(place, "snapshot/snapshot-3").refused()


def test_what_was_wrong_before_keeps_nobody_from_committing(place: Place, paimon: Paimon) -> None:
    paimon.commit(3, "c", removed=["a"], upon=("a", "b"), vectors={"v": {"a": [1]}})
    paimon.commit(4, "d", upon=("b", "c"), vectors={"w": {"a": [1], "b": [1]}})
    place.fs.rm_file(f"{place.root}/manifest/manifest-deltaManifestList-3")
    place.fs.rm_file(f"{place.root}/bucket-0/b")
    Late(place, "snapshot/snapshot-4").check()


@pytest.mark.parametrize("gone", ["index/v", "manifest/index-manifest-3"])
def test_a_snapshot_is_refused_whose_index_files_are_gone(place: Place, paimon: Paimon, gone: str) -> None:
    paimon.commit(3, "c", upon=("a", "b"), vectors={"v": {"b": [1]}})
    assert "not there" in Late(place, "snapshot/snapshot-3", gone).refused()


@pytest.mark.parametrize(("written", "is_known"), [(b"ORC...", False), (b"Obj", True), (b"", True)])
def test_a_manifest_in_another_format_passes_and_a_torn_one_does_not(
    place: Place, paimon: Paimon, written: bytes, is_known: bool
) -> None:
    paimon.commit(3, "c", upon=("a", "b"))
    paimon.write("manifest/manifest-deltaManifestList-3", written)
    late = Late(place, "snapshot/snapshot-3")
    if is_known:
        late.refused()
    else:
        late.check()


def test_a_snapshot_of_a_branch_that_has_no_schema_yet_is_created(place: Place, paimon: Paimon) -> None:
    branch = f"{place.root}/branch/branch-b/snapshot/snapshot-2"
    written = place.fs.cat_file(f"{place.root}/snapshot/snapshot-2")
    Commits(lambda: place.fs).check(Policy("auto").classify(branch), written)


def test_a_snapshot_of_a_newer_paimon_is_created(place: Place, paimon: Paimon) -> None:
    paimon.write("snapshot/snapshot-3", json.dumps({"version": 99, "number": 3}))
    Late(place, "snapshot/snapshot-3").check()


# Hudi


@pytest.fixture
def hudi(place: Place) -> Hudi:
    """Return a table with one commit to one file group."""
    table = Hudi(place.fs, place.root)
    table.wrote(T[0], C[0], stat(A, base(A, T[0])))
    return table


def completed(time: str, completion: str) -> str:
    return f".hoodie/timeline/{time}_{completion}.commit"


def test_an_instant_is_completed_whose_slices_are_there(place: Place, hudi: Hudi) -> None:
    hudi.wrote(T[1], C[1], stat(A, base(A, T[1]), T[0]), stat(B, f".{B}_{T[1]}.log.1_0-1-1"))
    Late(place, completed(T[1], C[1])).check()


def test_an_instant_is_refused_one_of_whose_slices_is_gone(place: Place, hudi: Hudi) -> None:
    hudi.wrote(T[1], C[1], stat(A, base(A, T[1]), T[0], partition="p"))
    late = Late(place, completed(T[1], C[1]), f"p/{base(A, T[1])}")
    assert f"commit {T[1]} names a file that is not there" in late.refused()


def test_an_instant_is_refused_that_names_the_slice_of_another(place: Place, hudi: Hudi) -> None:
    hudi.wrote(T[1], C[1], stat(B, base(B, T[2])))
    assert f"names a slice of instant {T[2]}" in Late(place, completed(T[1], C[1])).refused()


def test_an_instant_is_refused_that_names_two_slices_of_a_file_group(place: Place, hudi: Hudi) -> None:
    hudi.wrote(T[1], C[1], stat(B, base(B, T[1])), stat(B, base(B, T[1], "1-2-3")))
    assert "names two slices of file group" in Late(place, completed(T[1], C[1])).refused()


def test_an_instant_is_refused_whose_base_another_has_gone_on_with(place: Place, hudi: Hudi) -> None:
    hudi.wrote(T[2], C[1], stat(A, base(A, T[2]), T[0]))
    hudi.wrote(T[1], C[2], stat(A, base(A, T[1]), T[0]))
    late = Late(place, completed(T[1], C[2]))
    assert "both went on with the slice of" in late.refused()


def test_an_instant_is_refused_whose_file_group_was_replaced_meanwhile(place: Place, hudi: Hudi) -> None:
    hudi.wrote(
        T[2], C[1], stat(B, base(B, T[2])), action="replacecommit", partitionToReplaceFileIds={"": [A]}
    )
    hudi.wrote(T[1], C[2], stat(A, base(A, T[1]), T[0]))
    assert "has replaced without it" in Late(place, completed(T[1], C[2])).refused()


def test_an_instant_is_completed_beside_others_of_other_file_groups(place: Place, hudi: Hudi) -> None:
    hudi.wrote(T[2], C[1], stat(B, base(B, T[2])))
    hudi.wrote(T[1], C[2], stat(A, base(A, T[1]), T[0]))
    Late(place, completed(T[1], C[2])).check()


class Counting:
    """A filesystem that counts what is read in a timeline."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs
        self.read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def cat(self, paths: list[str], **how: Any) -> Any:
        self.read += len(paths)
        return self._fs.cat(paths, **how)


def test_what_others_have_completed_is_read_once_and_as_far_as_time_allows(place: Place, hudi: Hudi) -> None:
    for number in range(2, 8):
        hudi.wrote(T[number], C[number], stat(B, base(B, T[number])))
    hudi.wrote(T[1], C[9], stat(A, base(A, T[1]), T[0]))
    late, fs = Late(place, completed(T[1], C[9])), Counting(place.fs)
    table = Base(fs, place.root)
    name = Policy("auto").classify(late.path)
    read = []
    for until in (0, inf, inf):
        table.until = until
        assert hudi_rules.hurts(table, name, late.body) == []
        read.append(fs.read)
    assert read == [0, 7, 7]


def test_files_that_others_have_written_are_called_otherwise(place: Place, hudi: Hudi) -> None:
    hudi.wrote(T[1], C[1], stat(B, f"x.parquet_{T[1]}_hudiext"), files=False)
    Late(place, completed(T[1], C[1])).check()


# Iceberg


@pytest.fixture
def iceberg(place: Place) -> Iceberg:
    """Return a table with two versions."""
    table = Iceberg(place.fs, place.root)
    table.version(1)
    table.version(2, "a", "b")
    return table


def test_a_version_is_created_upon_the_one_before(place: Place, iceberg: Iceberg) -> None:
    iceberg.version(3, "c", deletes=["a"])
    Late(place, "metadata/v3.metadata.json").check()


def test_a_version_is_created_whose_deletion_vectors_are_in_one_file(place: Place, iceberg: Iceberg) -> None:
    iceberg.version(3, deletes=["a", "b"], vectors="dv.puffin")
    Late(place, "metadata/v3.metadata.json").check()


def test_a_version_is_refused_upon_another_than_the_one_before(place: Place, iceberg: Iceberg) -> None:
    iceberg.version(3, "c", parent=1)
    reason = Late(place, "metadata/v3.metadata.json").refused()
    assert "version 3 was not committed upon version 2, but upon 1" in reason


@pytest.mark.parametrize("gone", ["data/c", "metadata/snap-3.avro", "metadata/m-3.avro", "metadata/m-2.avro"])
def test_a_version_is_refused_one_of_whose_files_is_gone(place: Place, iceberg: Iceberg, gone: str) -> None:
    iceberg.version(3, "c")
    assert "not there" in Late(place, "metadata/v3.metadata.json", gone).refused()


def test_a_version_is_refused_that_deletes_rows_of_a_file_it_does_not_have(
    place: Place, iceberg: Iceberg
) -> None:
    iceberg.version(3, "c", deletes=["x"])
    reason = Late(place, "metadata/v3.metadata.json").refused()
    assert "deletes rows of a data file that it does not have" in reason


def test_a_version_is_refused_whose_file_is_gone_however_its_address_is_spelled(
    place: Place, iceberg: Iceberg
) -> None:
    iceberg.version(3, "c")
    path = f"{place.root}/metadata/v3.metadata.json"
    said = json.loads(place.fs.cat_file(path))
    place.fs.pipe_file(path, json.dumps({**said, "location": "s3://anywhere/t"}).encode())
    assert "not there" in Late(place, "metadata/v3.metadata.json", "data/c").refused()


def test_a_version_without_a_snapshot_of_its_own_is_created(place: Place, iceberg: Iceberg) -> None:
    place.fs.rm_file(f"{place.root}/data/a")
    iceberg.version(3)
    Late(place, "metadata/v3.metadata.json").check()


def test_a_version_is_refused_whose_branch_lacks_a_file(place: Place, iceberg: Iceberg) -> None:
    iceberg.version(3, "c", current=2)
    reason = Late(place, "metadata/v3.metadata.json", "data/c").refused()
    assert "snapshot 3 of version 3 has a file that is not there" in reason


@pytest.mark.parametrize("name", ["snap-3.avro", "m-3.avro"])
def test_a_version_whose_manifests_are_encrypted_is_created(
    place: Place, iceberg: Iceberg, name: str
) -> None:
    iceberg.version(3, "c")
    iceberg.write(f"metadata/{name}", b"AGS1" + bytes(60))
    Late(place, "metadata/v3.metadata.json").check()


def test_rows_of_a_file_elsewhere_may_be_deleted(place: Place, iceberg: Iceberg) -> None:
    iceberg.elsewhere()
    iceberg.version(3, "c", deletes=["x"])
    Late(place, "metadata/v3.metadata.json").check()


def of_flink(checkpoint: int, job: str = "j", operator: str = "o") -> dict[str, str]:
    """Return what a sink of Flink's says of a snapshot."""
    return {
        "flink.job-id": job,
        "flink.operator-id": operator,
        "flink.max-committed-checkpoint-id": str(checkpoint),
    }


@pytest.mark.parametrize("meanwhile", [False, True], ids=["at once", "after the next checkpoint"])
def test_a_checkpoint_of_flink_s_is_committed_once_by_all_its_attempts(
    place: Place, iceberg: Iceberg, meanwhile: bool
) -> None:
    number = 4
    iceberg.version(3, "c", summary=of_flink(7))
    if meanwhile:
        iceberg.version(4, "d", summary=of_flink(8))
        number = 5
    iceberg.version(number, "c", summary=of_flink(7))
    reason = Late(place, f"metadata/v{number}.metadata.json").refused()
    said = f"of version {number} adds again what its Flink job has added by snapshot {number - 1}"
    assert said in reason


@pytest.mark.parametrize(
    "other",
    [of_flink(8), of_flink(7, job="k"), of_flink(7, operator="p"), {}, {"flink.job-id": "j"}],
    ids=["later", "another job", "another operator", "none of Flink's", "of no checkpoint"],
)
def test_what_another_checkpoint_has_written_is_committed(
    place: Place, iceberg: Iceberg, other: dict[str, str]
) -> None:
    iceberg.version(3, "c", summary=of_flink(7))
    iceberg.version(4, "d", summary=other)
    Late(place, "metadata/v4.metadata.json").check()


def test_a_checkpoint_is_not_committed_upon_a_later_one_of_its_job(place: Place, iceberg: Iceberg) -> None:
    iceberg.version(3, "c", summary=of_flink(8))
    iceberg.version(4, "d", summary=of_flink(7))
    assert "adds again" in Late(place, "metadata/v4.metadata.json").refused()


def test_a_checkpoint_may_be_committed_bit_by_bit(place: Place, iceberg: Iceberg) -> None:
    iceberg.version(3, "c", summary=of_flink(7))
    iceberg.version(4, "d", summary=of_flink(7))
    Late(place, "metadata/v4.metadata.json").check()


def test_a_checkpoint_that_was_rolled_back_may_be_committed(place: Place, iceberg: Iceberg) -> None:
    iceberg.version(3, "c", summary=of_flink(7))
    iceberg.rolled_back_to(2)
    iceberg.version(4, "c", summary=of_flink(7))
    Late(place, "metadata/v4.metadata.json").check()


# Of several formats


def test_a_folder_is_judged_as_the_table_of_each_of_its_formats(
    place: Place, hudi: Hudi, iceberg: Iceberg
) -> None:
    hudi.wrote(T[2], C[1], stat(A, base(A, T[2]), T[0]))
    hudi.wrote(T[1], C[2], stat(A, base(A, T[1]), T[0]))
    commits = Commits(lambda: place.fs)
    for late in (Late(place, "metadata/v2.metadata.json"), Late(place, completed(T[1], C[2]))):
        judged = Policy("auto").classify(late.path), late.body
        if judged[0].format == "iceberg":
            commits.check(*judged)
        else:
            with pytest.raises(Damaging, match="both went on with the slice of"):
                commits.check(*judged)


# How long it may take


def test_files_that_time_does_not_allow_to_ask_for_pass(place: Place, delta: Delta) -> None:
    delta.change(2, "d", files=False)
    late = Late(place, delta_log(2))
    name = Policy("auto").classify(late.path)
    with pytest.raises(TimeoutError, match="could not be looked at in 0 s, and nothing was created"):
        Commits(lambda: place.fs).check(name, late.body, seconds=0)
    base = Base(place.fs, place.root)
    base.until = 0
    assert rules.hurts(base, name, late.body) == []


def test_what_failed_once_is_looked_at_again(place: Place, paimon: Paimon) -> None:
    paimon.commit(3, "c", upon=("a", "b"))
    late = Late(place, "snapshot/snapshot-3", "manifest/manifest-deltaManifestList-3")
    commits = Commits(lambda: place.fs)
    for _ in range(2):
        with pytest.raises(Damaging, match="a snapshot leads to it"):
            commits.check(Policy("auto").classify(late.path), late.body)


# What is remembered


def test_of_tables_that_others_are_committed_to_only_so_much_is_remembered(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("putifabsent.inspection.inspecting._RECORDS", 20)
    commits = Commits(lambda: place.fs)
    for number in range(8):
        table = Paimon(place.fs, f"{place.root}/t{number}")
        table.write("schema/schema-0", json.dumps({"fields": [], "partitionKeys": [], "options": {}}))
        table.commit(1, "a", "b", "c")
        path = f"{place.root}/t{number}/snapshot/snapshot-1"
        commits.check(Policy("auto").classify(path), place.fs.cat_file(path))
        *others, (last, _) = commits._bases.values()
        assert last.root.endswith(f"/t{number}")
        assert last.remembered >= 3
        assert sum(each.remembered for each, _ in others) <= 20
    assert 2 < len(commits._bases) < 8


def test_what_is_remembered_of_a_table_does_not_grow_with_its_history(place: Place, paimon: Paimon) -> None:
    table = Base(place.fs, place.root)
    remembered = []
    for number in range(3, 20):
        before = (f"f{number - 1}",) if number > 3 else ("a", "b")
        paimon.commit(number, f"f{number}", removed=before, upon=before)
        path = f"{place.root}/snapshot/snapshot-{number}"
        paimon_rules.hurts(table, Policy("auto").classify(path), place.fs.cat_file(path))
        remembered.append(table.remembered)
    assert len(set(remembered[2:])) == 1
