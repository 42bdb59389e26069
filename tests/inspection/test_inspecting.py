"""Inspecting as a whole: while writers write, what can't be inspected, and what a report says."""

from __future__ import annotations

import errno
import pickle
from threading import Lock
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from putifabsent.errors import ConfigError
from putifabsent.inspection import (
    MEANINGS,
    Failed,
    Kind,
    Report,
    Severity,
    delta,
    inspect,
    inspect_all,
    inspecting,
    paimon,
)
from putifabsent.inspection.inspecting import Folder
from putifabsent.spark import tables
from tests.inspection.tables import Delta, Hudi, Paimon, stat
from tests.stub import FaultStub

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.inspection.conftest import Place

T = [f"2026010112000000{n}" for n in range(10)]
C = [f"2026010112010000{n}" for n in range(10)]
FIRST, SECOND = f"a_0-1-1_{T[1]}.parquet", f"b_0-1-1_{T[1]}.parquet"


def two_files(place: Place) -> Hudi:
    table = Hudi(place.fs, place.root)
    stats = (stat("a", FIRST, partition="p=1"), stat("b", SECOND, partition="p=1"))
    table.wrote(T[1], C[1], *stats)
    return table


def test_what_a_cleaner_takes_while_files_are_listed_is_not_missed(place: Place) -> None:
    table = two_files(place)
    cleaned: list[str] = []

    def clean(done: int, total: int, what: str) -> None:
        if not cleaned:
            cleaned.append(FIRST)
            table.cleaned(T[2], C[2], FIRST, partition="p=1")

    assert place.findings(progress=clean) == []
    assert cleaned


def test_what_a_cleaner_takes_of_one_commit_each_time_is_not_missed(place: Place) -> None:
    table = two_files(place)
    cleans = iter([(T[2], C[2], FIRST), (T[3], C[3], SECOND)])

    def clean(done: int, total: int, what: str) -> None:
        if done == 0:
            table.cleaned(*next(cleans), partition="p=1")

    assert place.findings(progress=clean) == []
    assert list(cleans) == []


def test_what_is_missing_stays_missing_while_writers_write(place: Place) -> None:
    table = two_files(place)
    place.fs.rm_file(f"{place.root}/p=1/{SECOND}")
    numbers = iter(range(2, 9))

    def commit(done: int, total: int, what: str) -> None:
        number = next(numbers)
        last = f"c{number}_0-1-1_{T[number]}.parquet"
        table.wrote(T[number], C[number], stat(f"c{number}", last))

    (finding,) = place.findings(progress=commit)
    assert finding.names == (f"{place.root}/p=1/{SECOND}",)


def test_what_is_left_of_damage_when_a_cleaner_has_taken_the_rest_is_found(place: Place) -> None:
    table = two_files(place)
    for last in (FIRST, SECOND):
        place.fs.rm_file(f"{place.root}/p=1/{last}")
    cleaned: list[str] = []

    def clean(done: int, total: int, what: str) -> None:
        if not cleaned:
            cleaned.append(FIRST)
            partition = {"deletePathPatterns": [FIRST], "successDeleteFiles": []}
            said = {"startCleanTime": T[2], "partitionMetadata": {"p=1": partition}}
            table.complete(T[2], C[2], "clean", said)

    (finding,) = place.findings(progress=clean)
    assert finding.names == (f"{place.root}/p=1/{SECOND}",)
    assert cleaned


def test_files_are_listed_folder_by_folder_with_progress(place: Place) -> None:
    table = Delta(place.fs, place.root)
    table.change(0, "a", "p=1/b", "p=2/c")
    told: list[tuple[int, int, str]] = []
    report = inspect(place.root, fs=place.fs, progress=lambda *said: told.append(said))
    assert told == [(0, 2, "1 files"), (1, 2, "2 files"), (2, 2, "3 files")]
    assert report.files == 3


def test_damage_comes_before_notices(place: Place) -> None:
    table = two_files(place)
    table.put(f"{T[0]}.rollback.requested", b"{}")
    place.fs.rm_file(f"{place.root}/p=1/{SECOND}")
    assert [each.severity for each in place.findings()] == [Severity.DAMAGE, Severity.NOTICE]


def test_a_report_says_what_was_looked_at(place: Place) -> None:
    two_files(place)
    report = inspect(place.root, fs=place.fs)
    assert (report.format, report.version, len(report.records), report.files) == (
        "hudi",
        "table version 9",
        1,
        2,
    )
    assert report.verdict == "hudi, table version 9, 1 records, 2 data files: no damage was found."


@pytest.mark.parametrize(("table", "version"), [(Paimon, "snapshot version 3"), (Delta, "protocol 1, 2")])
def test_a_report_says_the_format_s_version(place: Place, table: type[Paimon | Delta], version: str) -> None:
    made = table(place.fs, place.root)
    if isinstance(made, Paimon):
        made.commit(1, "a")
    else:
        made.commit(0, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}})
    assert inspect(place.root, fs=place.fs).version == version


def test_no_table_is_an_error(place: Place) -> None:
    with pytest.raises(ConfigError, match="there is no table"):
        inspect(place.root, fs=place.fs)


@pytest.mark.parametrize("look", [inspect, inspect_all], ids=["a table", "a folder"])
def test_a_bucket_that_is_not_there_is_an_error_that_says_so(look: Callable[..., object]) -> None:
    with FaultStub() as stub:
        stub.put("bucket", "other/f", b"")
        options = stub.storage_options("s3")
        with pytest.raises(ConfigError, match="none/t: its bucket 'none' is not there"):
            look("s3://none/t", **options)
        with pytest.raises(ConfigError, match=r"bucket/t', and none below it|bucket/t': none of"):
            look("s3://bucket/t", **options)


def test_an_unknown_table_version_is_an_error(place: Place) -> None:
    Hudi(place.fs, place.root, version=77)
    with pytest.raises(ConfigError, match="table version 77"):
        inspect(place.root, fs=place.fs)


def test_no_table_keeps_others_from_being_inspected(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(timeline: Any, look: Any) -> Any:
        raise ZeroDivisionError("odd")

    monkeypatch.setitem(inspecting._RULES, "paimon", (judge, paimon.hurts))
    Paimon(place.fs, f"{place.root}/odd").commit(1, "a")
    Delta(place.fs, f"{place.root}/whole").change(0, "a")
    odd, whole = inspect_all(place.root, fs=place.fs)
    assert (odd.url, odd.verdict) == (f"{place.root}/odd", "could not be inspected: odd")
    assert isinstance(whole, Report)


def test_a_mount_by_another_arbiter_than_the_table_s_is_refused(place: Place) -> None:
    theirs, others = (fsspec.filesystem("piamemory", arbiter=each) for each in ("ballot", "native"))
    table = Delta(theirs, f"{place.root}/t")
    table.change(0, "a")
    table.change(1, "b")
    table.change(2, "c")
    place.fs.rm_file(f"{place.root}/t/_delta_log/{1:020}.json")  # decided, and not published yet
    assert inspect(f"{place.root}/t", fs=theirs).findings == []
    with pytest.raises(ConfigError, match="Mount the table as the others do"):
        inspect(f"{place.root}/t", fs=others)
    (failed,) = inspect_all(place.root, fs=others)
    assert "could not be inspected: this mount lets the store itself decide" in failed.verdict


@pytest.mark.parametrize("salt", ["slices", "keep-both"])
def test_a_salted_table_wants_a_salted_mount_as_no_instant_names_its_files_as_they_are(
    place: Place, salt: str
) -> None:
    salted = fsspec.filesystem("piamemory", salt=salt)
    table = Hudi(salted, place.root)
    table.wrote(T[1], C[1], stat("a", FIRST))
    assert inspect(place.root, fs=salted).findings == []
    with pytest.raises(ConfigError, match='salt="slices"'):
        inspect(place.root, fs=place.fs)
    assert inspect(place.root, fs=place.fs, data=False).damage == []


@pytest.mark.parametrize(
    "options", [{}, {"protocol": "piafile"}, {"protocol": "piafile", "arbiter": "ballot"}]
)
def test_a_folder_that_can_not_be_listed_is_an_error_and_no_damage(
    tmp_path: Path, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = fsspec.filesystem(**{"protocol": "file", **options})
    table = Delta(fs, f"{tmp_path}/t")
    table.change(0, "p=1/q=1/a")
    monkeypatch.setattr(LocalFileSystem, "ls", _refusing(LocalFileSystem.ls, "q=1"))
    with pytest.raises(PermissionError):
        inspect(table.root, fs=fs)


def test_a_folder_that_can_not_be_listed_keeps_the_tables_beside_it_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = fsspec.filesystem("file")
    (tmp_path / "lost+found").mkdir()
    Delta(fs, f"{tmp_path}/t").change(0, "p=1/a")
    monkeypatch.setattr(LocalFileSystem, "ls", _refusing(LocalFileSystem.ls, "lost+found"))
    unread, table = inspect_all(str(tmp_path), fs=fs)
    assert isinstance(unread, Failed)
    assert "it may not be listed" in unread.verdict
    assert (table.url, table.verdict) == (f"{tmp_path}/t", inspect(f"{tmp_path}/t", fs=fs).verdict)
    monkeypatch.setattr(LocalFileSystem, "ls", _refusing(LocalFileSystem.ls, tmp_path.name))
    with pytest.raises(PermissionError):
        inspect_all(str(tmp_path), fs=fs)


def _refusing(ls: Callable[..., Any], last: str) -> Callable[..., Any]:
    def refusing(fs: Any, path: str, *args: Any, **kwargs: Any) -> Any:
        if path.endswith(f"/{last}"):
            raise PermissionError(errno.EACCES, "it may not be listed", path)
        return ls(fs, path, *args, **kwargs)

    return refusing


def test_a_task_hands_on_the_error_of_a_table_whatever_that_holds(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(timeline: Any, look: Any) -> Any:
        error = OSError("the store refuses")
        error.response = Lock()  # type: ignore[attr-defined]
        raise error

    monkeypatch.setitem(inspecting._RULES, "delta", (judge, delta.hurts))
    Delta(place.fs, place.root).change(0, "a")
    folder = Folder(place.root, place.fs, {})
    (failed,) = pickle.loads(pickle.dumps(list(tables._inspected(folder, True, folder.tables()))))
    assert (failed.url, failed.verdict) == (place.root, "could not be inspected: the store refuses")


def test_every_kind_says_what_it_means_and_what_to_do() -> None:
    assert set(MEANINGS) == set(Kind)
    assert all(each.means and each.do and each.formats for each in MEANINGS.values())
