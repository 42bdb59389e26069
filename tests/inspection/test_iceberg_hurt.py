"""Hurt Iceberg tables: each kind of damage is found, and named; in healthy ones nothing is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from putifabsent.errors import ConfigError
from putifabsent.inspection import Kind, Severity, inspect, inspect_all
from putifabsent.inspection import iceberg as rules
from putifabsent.inspection.findings import Files
from putifabsent.shim.formats.iceberg import content_of
from putifabsent.timeline import IcebergTimeline, read
from tests.inspection.tables import Iceberg, Late, Remembering

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.inspection.conftest import Place


@pytest.fixture
def table(place: Place) -> Iceberg:
    """Return a table with three versions, and data files and deleted rows in two."""
    table = Iceberg(place.fs, place.root)
    table.version(1)
    table.version(2, "a", "b")
    table.version(3, "c", deletes=["a"])
    return table


def test_nothing_is_found_in_a_healthy_table(place: Place, table: Iceberg) -> None:
    report = inspect(place.root, fs=place.fs)
    assert report.findings == []
    assert [each.number for each in report.records] == [2, 3]
    assert [each.current for each in report.records] == [False, True]
    assert report.verdict == "iceberg, format version 2, 2 records, 4 data files: no damage was found."


def test_a_version_that_was_not_committed_upon_the_one_before_has_lost_an_update(
    place: Place, table: Iceberg
) -> None:
    table.version(4, "d", parent=2)
    finding = place.the(Kind.LOST_UPDATE)
    assert finding.names == (f"{place.root}/metadata/v4.metadata.json",)
    assert "upon version 3, but upon 2" in finding.detail


@pytest.mark.parametrize(("hint", "severity"), [(b"3", Severity.DAMAGE), (b"5", Severity.NOTICE)])
def test_a_version_that_is_missing_hides_those_above_from_who_begins_below(
    place: Place, table: Iceberg, hint: bytes, severity: Severity
) -> None:
    table.version(4, "d")
    table.version(5, "e")
    place.fs.rm_file(f"{place.root}/metadata/v4.metadata.json")
    table.write("metadata/version-hint.text", hint)
    finding = place.the(Kind.GAP)
    assert (finding.names, finding.severity) == ((f"{place.root}/metadata/v4.metadata.json",), severity)


def test_the_newest_version_that_the_hint_says_is_missed(place: Place, table: Iceberg) -> None:
    table.write("metadata/version-hint.text", "3")
    assert place.findings() == []
    table.write("metadata/version-hint.text", "4")
    finding = place.the(Kind.GAP)
    assert finding.names == (f"{place.root}/metadata/v4.metadata.json",)
    assert finding.severity is Severity.DAMAGE
    assert "the hint says that readers begin at 4" in finding.detail


@pytest.mark.parametrize("name", ["snap-3.avro", "m-3.avro"])
def test_what_is_encrypted_is_not_torn(place: Place, table: Iceberg, name: str) -> None:
    table.write(f"metadata/{name}", b"AGS1" + bytes(60))
    assert place.the(Kind.UNKNOWN_RECORD).severity is Severity.NOTICE


@pytest.mark.parametrize("gone", ["data/b", "data/c"])
def test_a_data_file_that_is_not_there_dangles(place: Place, table: Iceberg, gone: str) -> None:
    place.fs.rm_file(f"{place.root}/{gone}")
    assert place.the(Kind.DANGLING_REFERENCE).names == (f"{table.location}/{gone}",)


@pytest.mark.parametrize("gone", ["snap-3.avro", "m-3.avro", "d-3.avro"])
def test_a_manifest_that_is_not_there_dangles(place: Place, table: Iceberg, gone: str) -> None:
    place.fs.rm_file(f"{place.root}/metadata/{gone}")
    assert place.the(Kind.DANGLING_REFERENCE).names == (f"{place.root}/metadata/{gone}",)


def test_what_is_deleted_of_a_file_that_is_not_in_the_snapshot_is_back(place: Place, table: Iceberg) -> None:
    table.version(4, "d", deletes=["x"])
    finding = place.the(Kind.DANGLING_VECTOR)
    assert finding.names == (f"{table.location}/data/del-x", f"{table.location}/data/x")


def test_deletes_that_are_rewritten_while_their_file_is_compacted_away_bring_nothing_back(
    place: Place, table: Iceberg
) -> None:
    table.version(4, deletes=["x"], summary={"operation": "replace"})
    assert place.findings() == []
    Late(place, "metadata/v4.metadata.json").check()


def test_what_can_not_be_read_of_one_snapshot_hides_nothing_of_another(place: Place, table: Iceberg) -> None:
    table.version(4, "d", deletes=["x"])
    place.fs.rm_file(f"{place.root}/metadata/snap-2.avro")
    assert sorted(place.kinds()) == [Kind.DANGLING_REFERENCE, Kind.DANGLING_VECTOR]
    place.fs.rm_file(f"{place.root}/metadata/m-2.avro")  # of which the other has data files, too
    assert place.kinds() == [Kind.DANGLING_REFERENCE] * 2


def test_a_file_that_is_there_twice_counts_twice(place: Place, table: Iceberg) -> None:
    table.version(4, "c")
    assert place.the(Kind.REPEATED_COMMIT).names == (f"{table.location}/data/c",)


def test_one_file_may_have_the_deletion_vectors_of_many_data_files(place: Place, table: Iceberg) -> None:
    table.version(4, "d", deletes=["b", "c"], vectors="dv.puffin")
    assert place.findings() == []


def test_what_one_file_deletes_of_files_that_are_not_in_the_snapshot_names_it_once(
    place: Place, table: Iceberg
) -> None:
    table.version(4, "d", deletes=["x", "y"], vectors="dv.puffin")
    names = tuple(f"{table.location}/data/{each}" for each in ("dv.puffin", "x", "y"))
    assert place.the(Kind.DANGLING_VECTOR).names == names


@pytest.mark.parametrize("old", [0, 2, 5])
def test_a_table_is_rolled_back_to_before_the_damage_whenever_its_snapshots_were_first_numbered(
    place: Place, old: int
) -> None:
    table = Iceberg(place.fs, place.root)
    for number in range(1, 6):
        table.version(number, f"f{number}", sequence=max(number - old, 0))
    place.fs.rm_file(f"{place.root}/data/f5")
    report = inspect(place.root, fs=place.fs)
    assert [(each.number, each.id) for each in report.records] == [(each, each) for each in range(1, 6)]
    (finding,) = report.findings
    assert finding.commands == ("CALL <catalog>.system.rollback_to_snapshot('<database>.<table>', 4)",)


@pytest.mark.parametrize(("written", "kind"), [(b"", Kind.EMPTY), (b'{"location', Kind.UNREADABLE)])
def test_metadata_that_can_not_be_read_are_found(
    place: Place, table: Iceberg, written: bytes, kind: Kind
) -> None:
    table.write("metadata/v2.metadata.json", written)
    assert place.the(kind).names == (f"{place.root}/metadata/v2.metadata.json",)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("location", 7),
        ("current-snapshot-id", "2"),
        ("snapshots", {"snapshot-id": 2}),
        ("snapshots", [[2]]),
        ("snapshots", [{"snapshot-id": "2", "timestamp-ms": 1}]),
        ("snapshots", [{"snapshot-id": 2}]),
        ("snapshots", [{"snapshot-id": 2, "timestamp-ms": 1, "summary": []}]),
        ("refs", ["main"]),
        ("refs", {"main": {"type": "branch"}}),
        ("metadata-log", {"metadata-file": "a"}),
        ("metadata-log", [{"timestamp-ms": 1}]),
        ("", []),
    ],
)
@pytest.mark.parametrize("number", [2, 3])
def test_metadata_of_another_shape_are_unreadable(
    place: Place, table: Iceberg, number: int, key: str, value: object
) -> None:
    path = f"{place.root}/metadata/v{number}.metadata.json"
    metadata = {**json.loads(place.fs.cat_file(path)), key: value} if key else value
    place.fs.pipe_file(path, json.dumps(metadata).encode())
    assert place.the(Kind.UNREADABLE).names == (path,)


def test_what_expires_while_files_are_listed_is_not_missed(place: Place, table: Iceberg) -> None:
    def expire(done: int, total: int, what: str) -> None:
        if f"{place.root}/metadata/v4.metadata.json" not in place.fs.find(place.root):
            table.expired(2)
            table.version(4, "d")

    assert place.findings(progress=expire) == []
    assert not place.fs.exists(f"{place.root}/metadata/snap-2.avro")


def test_a_timeline_that_is_kept_goes_on_with_its_table(place: Place, table: Iceberg) -> None:
    timeline = read(place.root, fs=place.fs)
    table.version(4, "d")
    assert [each.number for each in timeline.active()] == [2, 3, 4]


def test_a_branch_whose_snapshot_is_not_listed_dangles(place: Place, table: Iceberg) -> None:
    path = f"{place.root}/metadata/v3.metadata.json"
    said = json.loads(place.fs.cat_file(path))
    place.fs.pipe_file(
        path, json.dumps({**said, "refs": {"b": {"snapshot-id": 9, "type": "branch"}}}).encode()
    )
    assert place.the(Kind.DANGLING_REFERENCE).detail == "branch b is snapshot 9, which is not listed"


def changed(place: Place, last: str, **said: Any) -> dict[str, Any]:
    """Have metadata say something else; return all that they say then."""
    path = f"{place.root}/metadata/{last}"
    now: dict[str, Any] = {**json.loads(place.fs.cat_file(path)), **said}
    place.fs.pipe_file(path, json.dumps(now).encode())
    return now


@pytest.mark.parametrize(
    ("location", "spelled"),
    [
        ("s3://b/t", "s3a://b/t"),
        ("s3n://b/t", "s3://b/t"),
        ("gs://b/t", "gcs://b/t"),
        ("abfs://c@a.dfs.core.windows.net/t", "abfss://c@a.dfs.core.windows.net/t"),
        ("file:/lake/t", "file:///lake/t"),
        ("/lake/t", "file:/lake/t"),
    ],
)
def test_files_are_the_table_s_however_their_addresses_are_spelled(
    place: Place, location: str, spelled: str
) -> None:
    table = Iceberg(place.fs, place.root)
    table.location = spelled
    table.version(1, "a")
    table.location = location
    table.version(2, "a", "b", deletes=["a"])
    table.location = spelled
    table.version(3, "c", deletes=["b", "x"])
    changed(place, "v3.metadata.json", location=location)
    place.fs.rm_file(f"{place.root}/data/c")
    assert [(each.kind, each.names) for each in place.findings()] == [
        (Kind.DANGLING_REFERENCE, (f"{spelled}/data/c",)),
        (Kind.DANGLING_VECTOR, (f"{spelled}/data/del-x", f"{spelled}/data/x")),
        (Kind.REPEATED_COMMIT, (f"{spelled}/data/a", f"{location}/data/a")),
    ]


def test_what_lies_in_another_store_is_not_the_table_s(place: Place, table: Iceberg) -> None:
    changed(place, "v3.metadata.json", location=table.location.replace("s3a:", "gs:"))
    place.fs.rm_file(f"{place.root}/data/c")
    assert place.findings() == []


ZIPPED = "v3.gz.metadata.json"


def rival(place: Place) -> None:
    """Commit another version 3, whose metadata are compressed."""
    said = json.loads(place.fs.cat_file(f"{place.root}/metadata/v3.metadata.json"))
    body = json.dumps({**said, "properties": {"by": "another"}}).encode()
    place.fs.pipe_file(f"{place.root}/metadata/{ZIPPED}", gzip.compress(body))


def test_of_two_metadata_of_one_number_those_that_readers_do_not_take_are_lost(
    place: Place, table: Iceberg
) -> None:
    rival(place)
    finding = place.the(Kind.LOST_UPDATE)
    assert finding.severity is Severity.DAMAGE
    assert finding.names == tuple(f"{place.root}/metadata/{each}" for each in (ZIPPED, "v3.metadata.json"))
    said = f"version 3 is there as v3.metadata.json and {ZIPPED}: readers take v3.metadata.json"
    assert finding.detail.startswith(said)


def test_of_two_metadata_of_one_number_those_that_nobody_went_on_from_are_lost(
    place: Place, table: Iceberg
) -> None:
    rival(place)
    table.version(4, "d")
    changed(place, "v4.metadata.json", **{"metadata-log": [{"metadata-file": f"s3a://x/{ZIPPED}"}]})
    finding = place.the(Kind.LOST_UPDATE)
    assert finding.names == tuple(f"{place.root}/metadata/{each}" for each in ("v3.metadata.json", ZIPPED))
    assert f"version 4 came upon {ZIPPED}" in finding.detail


def test_metadata_that_were_compressed_once_more_lose_nothing(place: Place, table: Iceberg) -> None:
    body = place.fs.cat_file(f"{place.root}/metadata/v3.metadata.json")
    table.write(f"metadata/{ZIPPED}", gzip.compress(body))
    assert place.findings() == []


class Asked(dict[str, int | None]):
    """Files that are there, and how often it was asked whether one is."""

    times = 0

    def __contains__(self, path: object) -> bool:
        self.times += 1
        return super().__contains__(path)


def test_a_file_is_looked_for_once_however_many_snapshots_have_it(place: Place) -> None:
    table = Iceberg(place.fs, place.root)
    for number in range(1, 21):
        table.version(number, f"f{number}")
    there = Asked(dict.fromkeys(place.fs.find(place.root), 0))
    findings = rules.judge(IcebergTimeline(place.fs, place.root), lambda *_: Files(there, {})).findings
    assert (findings, there.times) == ([], 20)


def test_what_no_snapshot_has_any_more_is_forgotten(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Remembering, "most", 0)
    monkeypatch.setattr(rules, "AvroFiles", Remembering)
    table = Iceberg(place.fs, place.root)
    for number in range(1, 21):
        table.version(number, f"f{number}", deletes=[f"f{number}"])
        table.rolled_back_to(0)
    assert place.findings() == []
    assert Remembering.most <= 9  # of two snapshots and the current one: lists, and manifests of two kinds


# Tables of pyiceberg's, in a catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    return catalog


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


def test_a_table_of_a_catalog_is_inspected_by_its_metadata(catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("db.t", rows(1).schema)
    for number in range(4):
        table.append(rows(number, number + 10))
    table.delete("id = 2")
    report = inspect(table.metadata_location)
    assert report.findings == []
    assert [each.id for each in report.records] == [each.snapshot_id for each in table.history()]
    assert report.files == 5
    with pytest.raises(ConfigError, match="if a catalog keeps the table, it knows which"):
        inspect(table.location())


@pytest.mark.parametrize("inside", ["", "meta", "metadata/of/mine"])
def test_a_catalog_may_keep_metadata_in_another_folder_of_the_table(
    catalog: Any, tmp_path: Path, inside: str
) -> None:
    table = catalog.create_table("db.t", rows(1).schema)
    table.append(rows(1))
    with table.transaction() as changing:
        changing.set_properties(**{"write.metadata.path": f"{table.location()}/{inside}/"})
    table.append(rows(2))
    assert inspect(table.metadata_location).findings == []
    gone, _ = tmp_path.glob("warehouse/**/*.parquet")
    gone.unlink()
    (finding,) = inspect(table.metadata_location).findings
    assert finding.names == (f"file://{gone}",)


def test_metadata_that_are_not_there_are_no_healthy_table(catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("db.t", rows(1).schema)
    (gone,) = tmp_path.glob("warehouse/**/*.metadata.json")
    gone.unlink()
    with pytest.raises(ConfigError, match="says the same, they are lost"):
        inspect(table.metadata_location)


def test_metadata_apart_from_their_table_tell_nothing_of_its_files(catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("db.t", rows(1).schema)
    table.append(rows(1))
    with table.transaction() as changing:
        changing.set_properties(**{"write.metadata.path": f"file://{tmp_path}/apart/metadata"})
    table.append(rows(2))
    with pytest.raises(ConfigError, match="lie apart from their table"):
        inspect(table.metadata_location)
    assert inspect(table.metadata_location, data=False).findings == []


def test_a_data_file_that_a_table_of_a_catalog_lacks_is_found(catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("db.t", rows(1).schema)
    table.append(rows(1))
    (gone,) = tmp_path.glob("warehouse/**/*.parquet")
    gone.unlink()
    (finding,) = inspect(table.metadata_location).findings
    assert finding.kind is Kind.DANGLING_REFERENCE
    assert finding.names == (f"file://{gone}",)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda body: b"", Kind.EMPTY),
        (lambda body: body[:-1], Kind.UNREADABLE),
        (lambda body: body[8:], Kind.RESIZED),  # is whole, as what Iceberg before 0.11 took for larger
        (lambda body: body + b"more", Kind.RESIZED),
    ],
    ids=["empty", "cut off", "smaller", "larger"],
)
def test_a_data_file_of_another_size_is_found(
    catalog: Any, tmp_path: Path, change: Callable[[bytes], bytes], kind: Kind
) -> None:
    table = catalog.create_table("db.t", rows(1).schema)
    for number in range(3):
        table.append(rows(number))
    path, *_ = tmp_path.glob("warehouse/**/*.parquet")
    path.write_bytes(change(path.read_bytes()))
    (finding,) = inspect(table.metadata_location).findings
    assert (finding.kind, finding.names, len(finding.moments)) == (kind, (str(path),), 1)
    assert finding.severity is (Severity.NOTICE if kind is Kind.RESIZED else Severity.DAMAGE)


def test_what_a_catalog_has_expired_since_is_not_missed(catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("db.t", rows(1).schema)
    table.append(rows(1))
    before, first = table.metadata_location, table.current_snapshot()
    table.overwrite(rows(2))
    table.maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    Path(first.manifest_list.removeprefix("file://")).unlink()
    kinds = [(each.kind, each.severity) for each in inspect(before).findings]
    assert kinds == [(Kind.DANGLING_REFERENCE, Severity.NOTICE)]
    assert inspect(table.metadata_location).findings == []


def test_what_a_catalog_still_lists_is_missed_though_it_has_gone_on(catalog: Any) -> None:
    table = catalog.create_table("db.t", rows(1).schema)
    table.append(rows(1))
    before, first = table.metadata_location, table.current_snapshot()
    table.append(rows(2))
    Path(first.manifest_list.removeprefix("file://")).unlink()
    kinds = [(each.kind, each.severity) for each in inspect(before).findings]
    assert kinds == [(Kind.DANGLING_REFERENCE, Severity.DAMAGE)]


def test_what_is_encrypted_is_larger_than_what_its_commit_says() -> None:
    file = {"file_path": "f", "file_size_in_bytes": 5}
    assert content_of({"status": 1, "data_file": file}).size == 5
    assert content_of({"status": 1, "data_file": {**file, "key_metadata": b"k"}}).size == 0


def test_tables_are_found_below_a_folder(place: Place, table: Iceberg) -> None:
    reports = inspect_all(place.root.rpartition("/")[0], fs=place.fs)
    assert [each.url for each in reports] == [place.root]
