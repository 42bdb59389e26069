"""The commands that mend a table: none that takes more back than it mends, and each names its table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from putifabsent.inspection import Kind, Severity, inspect
from putifabsent.inspection.findings import found, mended
from tests.inspection.tables import Delta, Hudi, Iceberg, Paimon, stat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.inspection.conftest import Place

T = [f"2026010112000000{n}" for n in range(10)]
C = [f"2026010112010000{n}" for n in range(10)]


def iceberg(
    place: Place, *added: str, current: int | None = None, refs: Mapping[str, object] | None = None
) -> Iceberg:
    table = Iceberg(place.fs, place.root)
    for number, name in enumerate(added, 1):
        is_last = number == len(added)
        table.version(number, name, current=current if is_last else None, refs=refs if is_last else None)
    return table


def test_a_notice_has_no_command(place: Place) -> None:
    table = Paimon(place.fs, place.root)
    table.write("schema/schema-0", json.dumps({"primaryKeys": ["k"], "fields": [], "options": {}}))
    table.commit(1, "a:0-9")
    table.commit(2, "b:5-12", upon=["a:0-9"])
    finding = place.the(Kind.LOST_UPDATE)
    assert (finding.severity, finding.commands) == (Severity.NOTICE, ())


def test_of_a_file_of_the_newest_commit_there_is_a_way_back(place: Place) -> None:
    table = Delta(place.fs, place.root)
    for number in range(3):
        table.change(number, f"f{number}")
    place.fs.rm_file(f"{place.root}/f2")
    command = f"RESTORE TABLE delta.`memory://{place.root}` TO VERSION AS OF 1"
    assert place.the(Kind.DANGLING_REFERENCE).commands == (command,)


@pytest.mark.parametrize("later", [1, 2])
@pytest.mark.parametrize("kind", ["delta", "paimon", "iceberg"])
def test_for_an_old_file_nothing_is_taken_back_and_it_is_said_what_would_be(
    place: Place, kind: str, later: int
) -> None:
    names = [f"f{number}" for number in range(1, 3 + later)]
    if kind == "delta":
        for number, name in enumerate(names):
            Delta(place.fs, place.root).change(number, name)
    elif kind == "paimon":
        for number, name in enumerate(names):
            Paimon(place.fs, place.root).commit(number + 1, name, upon=names[:number])
    else:
        iceberg(place, *names)
    folder = {"delta": "", "paimon": "bucket-0/", "iceberg": "data/"}[kind]
    place.fs.rm_file(f"{place.root}/{folder}f2")
    finding = place.the(Kind.DANGLING_REFERENCE)
    commits = "a later commit" if later == 1 else "2 later commits"
    assert finding.detail.endswith(f"; going back to before it takes back {commits}, too")
    assert finding.commands == ()


def test_of_a_commit_that_is_there_twice_the_first_one_stays(place: Place) -> None:
    table = Delta(place.fs, place.root)
    for number in range(4):
        table.change(number, f"f{number}", transaction="t1" if number in (1, 3) else "")
    finding = place.the(Kind.REPEATED_COMMIT)
    assert finding.commands == (f"RESTORE TABLE delta.`memory://{place.root}` TO VERSION AS OF 2",)


def test_a_file_that_is_there_twice_is_so_since_a_snapshot(place: Place) -> None:
    iceberg(place, "a", "b", "b", "c")
    finding = place.the(Kind.REPEATED_COMMIT)
    assert finding.moments == ("3",)
    assert finding.detail.startswith("snapshot 4 has the same files twice, since snapshot 3; going back")
    assert finding.commands == ("CALL <catalog>.system.rollback_to_snapshot('<database>.<table>', 2)",)


def test_what_a_branch_lacks_takes_nothing_back(place: Place) -> None:
    refs = {"b": {"type": "branch", "snapshot-id": 3}}
    iceberg(place, "a", "b", "c", current=2, refs=refs)
    place.fs.rm_file(f"{place.root}/data/c")
    finding = place.the(Kind.DANGLING_REFERENCE)
    told = (finding.detail, finding.severity, finding.commands)
    assert told == ("snapshot 3 has a file that is not there", Severity.DAMAGE, ())


def test_what_was_rolled_back_is_a_notice(place: Place) -> None:
    iceberg(place, "a", "b", "c", current=2)
    place.fs.rm_file(f"{place.root}/data/c")
    finding = place.the(Kind.DANGLING_REFERENCE)
    assert (finding.severity, finding.commands) == (Severity.NOTICE, ())
    assert finding.detail == "snapshot 3, which no branch or tag has, has a file that is not there"


def test_what_a_branch_has_too_is_damage_though_it_was_first_in_what_was_rolled_back(place: Place) -> None:
    table = iceberg(place, "a", "b")
    table.version(3, "c", current=3)
    metadata = f"{place.root}/metadata/v3.metadata.json"
    said = json.loads(place.fs.cat_file(metadata))
    said["snapshots"][2]["parent-snapshot-id"] = 1  # 2 was rolled back; 3 took its files over
    place.fs.pipe_file(metadata, json.dumps(said).encode())
    place.fs.rm_file(f"{place.root}/data/b")
    finding = place.the(Kind.DANGLING_REFERENCE)
    assert (finding.moments, finding.severity) == (("3",), Severity.DAMAGE)


def test_a_table_whose_own_snapshot_is_not_listed_dangles(place: Place) -> None:
    iceberg(place, "a", "b", current=7)
    finding = place.the(Kind.DANGLING_REFERENCE)
    assert finding.names == ("main",)
    assert finding.detail == "branch main is snapshot 7, which is not listed"


def test_a_branch_of_paimon_s_does_not_take_back_its_table(place: Place) -> None:
    table, branch = Paimon(place.fs, place.root), f"{place.root}/branch/branch-dev"
    for number in (1, 2):
        table.commit(number, f"f{number}", upon=["f1"][: number - 1])
    for kind in ("schema/schema-0", "snapshot/snapshot-1", "snapshot/snapshot-2"):
        place.fs.makedirs(f"{branch}/{kind}".rpartition("/")[0], exist_ok=True)
        place.fs.copy(f"{place.root}/{kind}", f"{branch}/{kind}")
    place.fs.rm_file(f"{place.root}/bucket-0/f2")
    commands = [inspect(root, fs=place.fs).findings[0].commands for root in (place.root, branch)]
    assert commands == [
        ("CALL <catalog>.sys.rollback(table => '<database>.<table>', version => '1')",),
        (),
    ]


@pytest.mark.parametrize(
    ("identifier", "version"), [(7, 2), (8, None)], ids=["of one commit", "of a job that compacts"]
)
def test_a_compaction_of_paimon_s_is_taken_back_with_what_it_may_have_moved(
    place: Place, identifier: int, version: int | None
) -> None:
    """Paimon's rollback removes a file that was moved to another level, though older snapshots have it."""
    table = Paimon(place.fs, place.root)
    table.commit(1, "a")
    table.commit(2, "b", upon=["a"])
    table.commit(3, "c", upon=["a", "b"], commitIdentifier=7, commitUser="u")
    vectors = {"v": {"a": [1]}}
    table.commit(
        4,
        removed=["a"],
        upon=["a", "b", "c"],
        vectors=vectors,
        commitKind="COMPACT",
        commitIdentifier=identifier,
        commitUser="u",
    )
    command = f"CALL <catalog>.sys.rollback(table => '<database>.<table>', version => '{version}')"
    assert place.the(Kind.DANGLING_VECTOR).commands == ((command,) if version else ())


def test_what_a_savepoint_keeps_is_not_taken_back(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    slices = [f"{group}_0-1-1_{T[number]}.parquet" for number, group in enumerate("ab")]
    for number, group in enumerate("ab"):
        table.wrote(T[number], C[number], stat(group, slices[number]))
    place.fs.rm_file(f"{place.root}/{slices[0]}")
    saved = {"partitionMetadata": {"": {"savepointDataFile": slices}}}
    table.complete(T[1], C[3], "savepoint", saved)
    (finding,) = [each for each in place.findings() if each.detail.startswith("savepoint")]
    assert (finding.moments, finding.commands) == ((T[1],), ())


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("s3://bucket/t", "s3a://bucket/t"),
        ("putifabsent::s3://bucket/t", "s3a://bucket/t"),
        ("pias3://bucket/t", "s3a://bucket/t"),
        ("gcs://bucket/t", "gs://bucket/t"),
        ("az://container/t", "abfss://container@<account>.dfs.core.windows.net/t"),
        ("abfss://container@mine.dfs.core.windows.net/t", "abfss://container@mine.dfs.core.windows.net/t"),
        ("piafile:///lake/t", "file:///lake/t"),
        ("/lake/t", "/lake/t"),
    ],
)
def test_an_address_is_said_as_spark_calls_it(url: str, address: str) -> None:
    finding = found(Kind.DANGLING_REFERENCE, ("f",), "it is gone", moments=("3",))
    (command,) = mended("delta", url, finding, []).commands
    assert command == f"RESTORE TABLE delta.`{address}` TO VERSION AS OF 2"
