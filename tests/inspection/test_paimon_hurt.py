"""Hurt Paimon tables: each kind of damage is found, and named with what it is about."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import fsspec
import pytest

from putifabsent.inspection import Kind, Severity, inspect
from putifabsent.inspection import paimon as rules
from putifabsent.inspection.findings import Files
from putifabsent.timeline import PaimonTimeline
from tests.inspection.tables import Paimon, Remembering, packed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.inspection.conftest import Place


@pytest.fixture
def table(place: Place) -> Paimon:
    """Return a table with two snapshots."""
    table = Paimon(place.fs, place.root)
    table.commit(1, "a")
    table.commit(2, "b", upon=("a",))
    return table


def test_a_snapshot_that_is_missing_among_others_is_a_gap(place: Place, table: Paimon) -> None:
    table.write("bucket-0/c")
    table.commit(4, "d", upon=("a", "b", "c"))
    finding = place.the(Kind.GAP)
    assert finding.names == (f"{place.root}/snapshot/snapshot-3",)
    assert finding.severity is Severity.DAMAGE


def test_the_newest_snapshot_that_the_hint_says_is_missed(place: Place, table: Paimon) -> None:
    table.write("snapshot/LATEST", "2")
    assert place.findings() == []
    table.write("snapshot/LATEST", "3")
    finding = place.the(Kind.GAP)
    assert finding.names == (f"{place.root}/snapshot/snapshot-3",)
    assert finding.severity is Severity.DAMAGE
    assert finding.detail == "snapshot 3 is missing: 2 is there, and LATEST says 3"


@pytest.mark.parametrize(("earliest", "severity"), [("3", Severity.DAMAGE), ("4", Severity.NOTICE)])
def test_a_snapshot_that_an_expiry_has_left_behind_proves_no_gap(
    place: Place, table: Paimon, earliest: str, severity: Severity
) -> None:
    table.write("bucket-0/c")
    table.commit(4, "d", upon=("a", "b", "c"))
    table.write("snapshot/EARLIEST", earliest)
    assert place.the(Kind.GAP).severity is severity


def test_a_gap_among_expired_snapshots_proves_no_damage(place: Place, table: Paimon) -> None:
    place.fs.rm_file(f"{place.root}/snapshot/snapshot-1")
    table.commit(4, "d", upon=("a", "b"))
    place.fs.mv(f"{place.root}/snapshot/snapshot-2", f"{place.root}/changelog/changelog-2")
    assert place.the(Kind.GAP).severity is Severity.NOTICE


def test_a_snapshot_that_was_not_committed_upon_the_one_before_has_lost_an_update(
    place: Place, table: Paimon
) -> None:
    table.commit(3, "c", upon=("a",))
    finding = place.the(Kind.LOST_UPDATE)
    assert finding.names == ("b",)
    assert finding.moments == ("3",)
    assert finding.severity is Severity.DAMAGE


def test_a_commit_that_is_there_twice_is_found(place: Place, table: Paimon) -> None:
    table.commit(3, "b", upon=("a", "b"))
    finding = place.the(Kind.REPEATED_COMMIT)
    assert finding.names == ("b",)


def test_a_snapshot_that_was_copied_is_called_a_copy(place: Place, table: Paimon) -> None:
    place.fs.cp_file(f"{place.root}/snapshot/snapshot-2", f"{place.root}/snapshot/snapshot-3")
    finding = place.the(Kind.COPIED_RECORD)
    assert finding.names == (f"{place.root}/snapshot/snapshot-3",)
    assert "it says that it is snapshot 2: it is a copy" in finding.detail
    assert finding.severity is Severity.DAMAGE
    assert "remove the copy" in finding.do


def test_a_data_file_that_is_not_there_dangles(place: Place, table: Paimon) -> None:
    place.fs.rm_file(f"{place.root}/bucket-0/a")
    finding = place.the(Kind.DANGLING_REFERENCE)
    assert finding.names == ("a",)
    assert finding.severity is Severity.DAMAGE


@pytest.mark.parametrize("last", ["manifest-list-baseManifestList-2", "manifest-deltaManifestList-2"])
def test_a_manifest_that_is_not_there_dangles(place: Place, table: Paimon, last: str) -> None:
    path = f"{place.root}/manifest/{last}"
    place.fs.rm_file(path)
    assert place.the(Kind.DANGLING_REFERENCE).names == (path,)


def test_a_manifest_of_real_writers_that_is_not_there_dangles(tmp_path: Path) -> None:
    root = packed("raced_paimon", tmp_path)
    local = fsspec.filesystem("file")
    newest = max(local.glob(f"{root}/snapshot/snapshot-*"), key=lambda path: int(path.rpartition("-")[2]))
    path = f"{root}/manifest/{json.loads(local.cat_file(newest))['baseManifestList']}"
    local.rm_file(path)
    assert (Kind.DANGLING_REFERENCE, (path,)) in [(each.kind, each.names) for each in inspect(root).findings]


def test_a_data_file_of_real_writers_that_is_not_there_dangles(tmp_path: Path) -> None:
    root = packed("raced_paimon", tmp_path)
    local = fsspec.filesystem("file")
    path = local.glob(f"{root}/bucket-0/*.parquet")[0]
    local.rm_file(path)
    (finding,) = inspect(root).findings
    assert finding.kind is Kind.DANGLING_REFERENCE
    assert finding.names == (path.rpartition("/")[2],)


@pytest.mark.parametrize("gone", ["bucket-0/a", "manifest/manifest-list-deltaManifestList-1"])
def test_what_an_expiry_has_removed_so_far_is_no_damage(place: Place, table: Paimon, gone: str) -> None:
    table.commit(3, "ab", removed=("a", "b"), upon=("a", "b"), commitKind="COMPACT")
    place.fs.rm_file(f"{place.root}/{gone}")
    assert place.the(Kind.EXPIRING).severity is Severity.NOTICE


def test_what_a_tag_keeps_has_no_expiry_removed(place: Place, table: Paimon) -> None:
    table.commit(3, "ab", removed=("a", "b"), upon=("a", "b"), commitKind="COMPACT")
    place.fs.copy(f"{place.root}/snapshot/snapshot-2", f"{place.root}/tag/tag-two")
    place.fs.rm_file(f"{place.root}/bucket-0/a")
    assert place.the(Kind.DANGLING_REFERENCE).names == ("a",)


def test_a_schema_that_is_not_there_dangles(place: Place, table: Paimon) -> None:
    table.commit(3, "c", upon=("a", "b"), schemaId=4)
    assert place.the(Kind.DANGLING_REFERENCE).names == (f"{place.root}/schema/schema-4",)


@pytest.mark.parametrize(
    "schema",
    [
        b"[]",
        b"{",
        b'{"options": ["bucket"]}',
        b'{"options": {}, "primaryKeys": 1}',
        b'{"partitionKeys": [1]}',
        b'{"fields": ["k"]}',
    ],
)
def test_a_schema_that_is_none_is_unreadable(place: Place, table: Paimon, schema: bytes) -> None:
    path = table.write("schema/schema-0", schema)
    assert place.the(Kind.UNREADABLE).names == (path,)


def test_an_index_file_that_is_not_there_dangles(place: Place, table: Paimon) -> None:
    table.commit(3, upon=("a", "b"), vectors={"index-1": {"a": [1]}})
    place.fs.rm_file(f"{place.root}/index/index-1")
    assert place.the(Kind.DANGLING_REFERENCE).names == ("index-1",)


def test_a_deletion_vector_for_a_file_that_was_compacted_away_dangles(place: Place, table: Paimon) -> None:
    table.commit(3, "ab", removed=("a", "b"), upon=("a", "b"), vectors={"index-1": {"a": [1], "ab": [1]}})
    finding = place.the(Kind.DANGLING_VECTOR)
    assert finding.names == ("index-1", "a")
    assert finding.severity is Severity.DAMAGE


def test_a_finding_is_told_once_and_not_of_every_snapshot_after_it(place: Place, table: Paimon) -> None:
    table.commit(3, "c", upon=("a", "b"), vectors={"index-1": {"gone": [1]}})
    table.commit(4, "d", upon=("a", "b", "c"), vectors={"index-1": {"gone": [1]}})
    place.fs.rm_file(f"{place.root}/bucket-0/a")
    assert place.kinds() == [Kind.DANGLING_REFERENCE, Kind.DANGLING_VECTOR]


@pytest.mark.parametrize(
    ("written", "kind"), [(b"", Kind.EMPTY), (b'{"id": 3', Kind.UNREADABLE), (b'{"id": 2}', Kind.UNREADABLE)]
)
def test_a_snapshot_that_can_t_be_read_is_found_and_is_no_gap(
    place: Place, table: Paimon, written: bytes, kind: Kind
) -> None:
    path = table.write("snapshot/snapshot-3", written)
    table.commit(4, "d", upon=("a", "b"))
    assert place.the(kind).names == (path,)


@pytest.mark.parametrize(
    ("whole", "torn"), [(b'"name"', b'"namf"'), (b'"type"', b'"typf"'), (b'"record"', b'"recorf"')]
)
def test_a_manifest_whose_schema_is_torn_is_unreadable(
    place: Place, table: Paimon, whole: bytes, torn: bytes
) -> None:
    path = f"{place.root}/manifest/manifest-deltaManifestList-2"
    place.fs.pipe_file(path, place.fs.cat_file(path).replace(whole, torn))
    assert place.the(Kind.UNREADABLE).names == (path,)


@pytest.mark.parametrize(("kept", "kind"), [(0, Kind.EMPTY), (40, Kind.UNREADABLE)])
def test_a_torn_manifest_is_found(place: Place, table: Paimon, kept: int, kind: Kind) -> None:
    path = f"{place.root}/manifest/manifest-deltaManifestList-2"
    place.fs.pipe_file(path, place.fs.cat_file(path)[:kept])
    assert place.the(kind).names == (path,)


def test_a_torn_manifest_that_is_compressed_is_unreadable(tmp_path: Path) -> None:
    root = packed("raced_paimon", tmp_path)
    local = fsspec.filesystem("file")
    path = local.glob(f"{root}/manifest/manifest-list-*-1")[0]
    for kept in (-1, -30):
        local.pipe_file(path, local.cat_file(path)[:kept])
        assert Kind.UNREADABLE in [each.kind for each in inspect(root).findings]


def test_the_snapshots_of_a_branch_lead_to_the_table_s_files(place: Place) -> None:
    table = Paimon(place.fs, place.root)
    table.commit(1, "a")
    branch = f"{place.root}/branch/branch-dev"
    for kind in ("schema/schema-0", "snapshot/snapshot-1"):
        place.fs.makedirs(f"{branch}/{kind}".rpartition("/")[0], exist_ok=True)
        place.fs.copy(f"{place.root}/{kind}", f"{branch}/{kind}")
    assert inspect(branch, fs=place.fs).findings == []
    place.fs.rm_file(f"{place.root}/bucket-0/a")
    assert [each.kind for each in inspect(branch, fs=place.fs).findings] == [Kind.DANGLING_REFERENCE]


# Snapshots that share their manifests


def test_of_snapshots_that_share_manifests_each_has_what_came_before_it(place: Place, table: Paimon) -> None:
    table.commit(3, "c", removed=["a"], upon=None)
    place.fs.rm_file(f"{place.root}/bucket-0/a")
    assert place.kinds() == [Kind.EXPIRING]  # of the snapshots before
    table.commit(4, "d", upon=None, vectors={"v": {"a": [1], "c": [1]}})
    table.commit(5, "e", upon=("a", "b", "c", "d"), vectors={"v": {"a": [1], "c": [1]}})
    table.commit(6, "c", upon=None, vectors={"w": {"a": [1], "c": [1]}})
    assert [(each.kind, each.names, each.moments) for each in place.findings()][1:] == [
        (Kind.DANGLING_VECTOR, ("v", "a"), ("4",)),
        (Kind.LOST_UPDATE, ("a",), ("5",)),
        (Kind.REPEATED_COMMIT, ("c",), ("6",)),
    ]


class Asked(dict[str, str]):
    """Files that are there, and how often it was asked whether one is."""

    times = 0

    def __contains__(self, name: object) -> bool:
        self.times += 1
        return super().__contains__(name)


def test_a_file_is_looked_for_once_however_many_snapshots_have_it(place: Place) -> None:
    table = Paimon(place.fs, place.root)
    for number in range(1, 21):
        table.commit(number, f"f{number}", upon=None)
    there = Asked({f"f{number}": "" for number in range(1, 21)})
    findings = rules.judge(PaimonTimeline(place.fs, place.root), lambda *_: Files({}, there)).findings
    assert (findings, there.times) == ([], 20)


def test_what_no_snapshot_has_any_more_is_forgotten(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Remembering, "most", 0)
    monkeypatch.setattr("putifabsent.timeline.paimon.AvroFiles", Remembering)
    table = Paimon(place.fs, place.root)
    for number in range(1, 21):
        table.commit(number, f"f{number}", upon=[f"f{each}" for each in range(1, number)])
    assert place.findings() == []
    assert Remembering.most <= 8  # of two snapshots: two lists, and a manifest of each


# Tags


@pytest.fixture
def expired(place: Place, table: Paimon) -> Paimon:
    """Return a table of which only a tag needs the file that was the first one."""
    table.commit(3, "ab", removed=("a", "b"), upon=("a", "b"), commitKind="COMPACT")
    place.fs.rm_file(f"{place.root}/snapshot/snapshot-2")
    place.fs.makedirs(f"{place.root}/tag")
    place.fs.mv(f"{place.root}/snapshot/snapshot-1", f"{place.root}/tag/tag-v1")
    return table


def test_what_only_a_tag_keeps_may_be_there(place: Place, expired: Paimon) -> None:
    assert place.findings() == []


def test_a_data_file_that_only_a_tag_needs_dangles(place: Place, expired: Paimon) -> None:
    place.fs.rm_file(f"{place.root}/bucket-0/a")
    finding = place.the(Kind.DANGLING_REFERENCE)
    assert (finding.names, finding.severity, finding.commands) == (("a",), Severity.DAMAGE, ())
    assert finding.detail == "tag v1: snapshot 1 has a data file that is not there"


def test_a_manifest_that_only_a_tag_needs_dangles(place: Place, expired: Paimon) -> None:
    path = f"{place.root}/manifest/manifest-deltaManifestList-1"
    place.fs.rm_file(path)
    finding = place.the(Kind.DANGLING_REFERENCE)
    assert finding.names == (path,)
    assert finding.detail.startswith("tag v1: ")


def test_what_a_tagged_snapshot_lacks_is_told_once_while_that_is_there(place: Place, table: Paimon) -> None:
    place.fs.makedirs(f"{place.root}/tag")
    place.fs.cp_file(f"{place.root}/snapshot/snapshot-1", f"{place.root}/tag/tag-v1")
    place.fs.rm_file(f"{place.root}/bucket-0/a")
    assert place.the(Kind.DANGLING_REFERENCE).moments == ("1",)


def test_a_torn_tag_is_unreadable(place: Place, expired: Paimon) -> None:
    path = expired.write("tag/tag-v2", '{"id"')
    assert place.the(Kind.UNREADABLE).names == (path,)


def test_a_branch_has_tags_of_its_own(place: Place, expired: Paimon) -> None:
    branch = f"{place.root}/branch/branch-dev"
    for kind in ("schema/schema-0", "tag/tag-v1"):
        place.fs.makedirs(f"{branch}/{kind}".rpartition("/")[0], exist_ok=True)
        place.fs.copy(f"{place.root}/{kind}", f"{branch}/{kind}")
    place.fs.makedirs(f"{branch}/snapshot")
    place.fs.copy(f"{place.root}/snapshot/snapshot-3", f"{branch}/snapshot/snapshot-3")
    place.fs.rm_file(f"{place.root}/tag/tag-v1")
    place.fs.rm_file(f"{place.root}/bucket-0/a")
    assert place.findings() == []
    (finding,) = inspect(branch, fs=place.fs).findings
    assert finding.detail.startswith("tag v1: ")


def test_a_tag_that_is_deleted_meanwhile_lacks_nothing(place: Place, expired: Paimon) -> None:
    def delete(*_: object) -> None:
        for each in ("tag/tag-v1", "bucket-0/a"):
            if place.fs.exists(f"{place.root}/{each}"):
                place.fs.rm_file(f"{place.root}/{each}")

    assert place.findings(progress=delete) == []
