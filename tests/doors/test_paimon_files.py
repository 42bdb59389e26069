"""File access by pypaimon's door: what is created once, what is a loss, and what is not."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest
from pypaimon.common.options import Options
from pypaimon.filesystem.local_file_io import LocalFileIO

from putifabsent.errors import ConfigError, Damaging, NameExpired, NameTaken, OutcomeUnknown
from putifabsent.paimon import GuardedFileIO

if TYPE_CHECKING:
    from collections.abc import Iterator

from tests.doors.paimon_tables import (
    Meddled,
    lost_answer,
)

# The file access itself


@pytest.fixture
def files(anywhere: dict[str, Any]) -> GuardedFileIO:
    return GuardedFileIO(anywhere["warehouse"], Options(anywhere))


def test_a_file_in_the_way_of_a_folder_is_no_loss(tmp_path: Path) -> None:
    files = GuardedFileIO(str(tmp_path), Options({}))
    (tmp_path / "snapshot").write_bytes(b"")
    (tmp_path / "temporary").write_bytes(b"{}")
    name = f"{tmp_path}/snapshot/snapshot-1"
    with pytest.raises(OSError, match="snapshot"):
        files.try_to_write_atomic(name, "{}")
    with pytest.raises(OSError, match="snapshot"):
        files.rename(f"{tmp_path}/temporary", name)
    assert (tmp_path / "temporary").exists()


def test_no_name_is_a_pattern(files: GuardedFileIO, anywhere: dict[str, Any]) -> None:
    base = f"{anywhere['warehouse']}/odd"
    for name in ("p[1]/f", "p1/f"):
        files.write_file(f"{base}/{name}", "x")
    with pytest.raises(ValueError, match="one by one"):
        files.delete(f"{base}/p[1]", True)
    with pytest.raises(ValueError, match="one by one"):
        files.rename(f"{base}/p[1]", f"{base}/n")
    assert files.rename(f"{base}/p[1]/f", f"{base}/p[1]/g") is True
    assert files.delete(f"{base}/p[1]/g") is True
    assert files.exists(f"{base}/p1/f")
    assert files.rename(f"{base}/missing", f"{base}/n") is False


def test_what_is_no_json_is_not_repeated() -> None:
    with pytest.raises(ConfigError) as failed:
        GuardedFileIO("memory://w", Options({"putifabsent.deadline": "{secret"}))
    assert "secret" not in str(failed.value)


def test_a_proven_loss_is_false(files: GuardedFileIO, anywhere: dict[str, Any]) -> None:
    name = f"{anywhere['warehouse']}/t/snapshot/snapshot-1"
    assert files.try_to_write_atomic(name, "first") is True
    assert files.try_to_write_atomic(name, "second") is False
    files.write_file(f"{name}.tmp", "third")
    assert files.rename(f"{name}.tmp", name) is False
    assert files.read_file_utf8(name) == "first"
    assert files.read_file_utf8(f"{name}.tmp") == "third"


def test_half_a_snapshot_is_a_failure_and_no_loss(files: GuardedFileIO, anywhere: dict[str, Any]) -> None:
    name, half = f"{anywhere['warehouse']}/t/snapshot/snapshot-1", '{"id": 1, "schemaId"'
    with pytest.raises(Damaging):
        files.try_to_write_atomic(name, half)
    assert files.exists(name) is False
    assert files.try_to_write_atomic(name, f"{half}: 0}}") is True


def test_half_a_snapshot_that_is_renamed_is_a_failure_and_no_loss(tmp_path: Path) -> None:
    files = GuardedFileIO(str(tmp_path), Options({}))
    (tmp_path / "temporary").write_bytes(b'{"id": 1, "schemaId"')
    with pytest.raises(Damaging):
        files.rename(f"{tmp_path}/temporary", f"{tmp_path}/snapshot/snapshot-1")
    assert (tmp_path / "temporary").exists()


def test_a_plain_write_to_a_guarded_name_is_a_creation(
    files: GuardedFileIO, anywhere: dict[str, Any]
) -> None:
    name = f"{anywhere['warehouse']}/t/snapshot/snapshot-1"
    files.write_file(name, "first", overwrite=True)
    with pytest.raises(NameTaken):
        files.write_file(name, "second", overwrite=True)
    with pytest.raises(FileExistsError):
        files.write_file(name, "second")
    assert files.read_file_utf8(name) == "first"


def test_a_rename_that_stays_unknown_keeps_its_source(here: dict[str, Any]) -> None:
    files: Any = GuardedFileIO(here["warehouse"], Options(here))
    name = f"{here['warehouse']}/t/snapshot/snapshot-1"
    files.write_file(f"{name}.tmp", "bytes")

    class Deaf(Meddled):
        def mv(self, *_: Any, **__: Any) -> None:
            raise lost_answer()

    files.fs = Deaf(files.fs, "", lambda _, create: create())
    with pytest.raises(OutcomeUnknown):
        files.rename(f"{name}.tmp", name)
    assert files.exists(f"{name}.tmp")


def test_an_error_half_way_publishes_nothing(files: GuardedFileIO, anywhere: dict[str, Any]) -> None:
    name = f"{anywhere['warehouse']}/t/snapshot/snapshot-1"

    def half() -> Iterator[bytes]:
        yield b"half"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), files.new_output_stream(name) as stream:
        stream.writelines(half())
    assert not files.exists(name)


def test_a_folder_on_disk_has_the_time_of_its_last_change(here: dict[str, Any]) -> None:
    """Which Paimon takes for the time when a branch was made."""
    files = GuardedFileIO(here["warehouse"], Options(here))
    folder = Path(here["warehouse"], "t", "branch", "branch-one")
    files.mkdirs(str(folder))
    assert files.get_file_status(str(folder)).mtime == folder.stat().st_mtime


def test_files_and_folders_are_told_apart(files: GuardedFileIO, anywhere: dict[str, Any]) -> None:
    root = anywhere["warehouse"]
    files.write_file(f"{root}/f/a", "abc")
    files.mkdirs(f"{root}/f/empty")
    with pytest.raises(FileExistsError):
        files.mkdirs(f"{root}/f/a")
    assert [(s.base_name, s.size) for s in files.list_status(f"{root}/f")] == [("a", 3), ("empty", None)]
    assert (files.is_dir(f"{root}/f"), files.is_dir(f"{root}/f/a")) == (True, False)
    assert files.get_file_status(f"{root}/f/a").mtime
    assert files.list_status(f"{root}/f/empty") == files.list_status(f"{root}/nothing") == []
    assert files.get_file_size(f"{root}/f/a") == 3
    with pytest.raises(FileNotFoundError):
        files.get_file_status(f"{root}/nothing")
    with pytest.raises(OSError, match="not empty"):
        files.delete(f"{root}/f")
    assert files.delete(f"{root}/f/a") is True
    assert files.delete(f"{root}/f/a") is False


def test_below_a_file_nothing_is_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    files = GuardedFileIO(str(tmp_path), Options({}))
    below = f"{tmp_path}/file/below"
    assert not files.exists(below)
    assert files.list_status(below) == []
    assert not files.delete(below)
    assert not files.rename(below, f"{tmp_path}/elsewhere")


def test_a_link_to_a_folder_is_there(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    with pytest.raises(NotADirectoryError):
        GuardedFileIO(str(tmp_path), Options({})).delete(f"{tmp_path}/link")


def test_a_folder_in_which_only_the_shims_own_is_left_is_empty(tmp_path: Path) -> None:
    (tmp_path / "folder" / ".putifabsent").mkdir(parents=True)
    assert GuardedFileIO(str(tmp_path), Options({})).delete(f"{tmp_path}/folder")
    assert not (tmp_path / "folder").exists()


def test_folders_are_deleted(here: dict[str, Any]) -> None:
    files = GuardedFileIO(here["warehouse"], Options(here))
    root = here["warehouse"]
    files.write_file(f"{root}/f/a", "abc")
    files.mkdirs(f"{root}/f/empty")
    assert files.delete(f"{root}/f/empty") is True
    assert files.delete(f"{root}/f", recursive=True) is True
    assert files.exists(f"{root}/f") is False


def test_a_file_is_not_copied_over_another_unasked(files: GuardedFileIO, anywhere: dict[str, Any]) -> None:
    root = anywhere["warehouse"]
    files.write_file(f"{root}/a", "a")
    files.write_file(f"{root}/b", "b")
    with pytest.raises(FileExistsError):
        files.copy_file(f"{root}/a", f"{root}/b")
    files.copy_file(f"{root}/a", f"{root}/b", overwrite=True)
    assert files.read_file_utf8(f"{root}/b") == "a"


def test_a_copy_that_comes_too_late_for_its_number_is_told(tmp_path: Path) -> None:
    files = GuardedFileIO(str(tmp_path), Options({}))
    for number in (5, 6, 7):
        files.write_file(f"{tmp_path}/snapshot/snapshot-{number}", "{}")
    files.write_file(f"{tmp_path}/old", "{}")
    with pytest.raises(NameExpired):
        files.copy_file(f"{tmp_path}/old", f"{tmp_path}/snapshot/snapshot-2", overwrite=True)


def test_a_folder_that_others_write_into_meanwhile_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = GuardedFileIO(str(tmp_path), Options({}))
    files.mkdirs(f"{tmp_path}/f")

    def seen_before(_: str) -> list[Any]:
        (tmp_path / "f" / "a").write_bytes(b"theirs")
        return []

    monkeypatch.setattr(files, "list_status", seen_before)
    with pytest.raises(OSError, match="not empty"):
        files.delete(f"{tmp_path}/f")
    assert (tmp_path / "f" / "a").read_bytes() == b"theirs"


def test_an_empty_component_of_a_path_is_none(files: GuardedFileIO, anywhere: dict[str, Any]) -> None:
    """So Paimon's own files have it, in Java and in Python."""
    root = anywhere["warehouse"]
    files.write_file(f"{root}//f///a", "abc")
    assert [status.base_name for status in files.list_status(f"{root}/f")] == ["a"]
    assert files.read_file_utf8(f"{root}/f//a") == "abc"


def test_an_address_of_this_host_is_a_path(tmp_path: Path) -> None:
    files = GuardedFileIO(f"file://localhost{tmp_path}/w", Options({}))
    files.write_file(f"file://localhost{tmp_path}/w/f", "abc")
    assert (tmp_path / "w" / "f").read_text() == "abc"


@pytest.mark.parametrize("path", ["s3://bucket/data/f", "s3a://bucket/data/f", "oss://bucket/data/f"])
def test_a_path_in_another_store_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """The door to a disk would write it below the folder where the process happens to run."""
    monkeypatch.chdir(tmp_path)
    files = GuardedFileIO(str(tmp_path), Options({}))
    with pytest.raises(ConfigError, match="another store"):
        files.write_file(path, "abc")
    assert list(tmp_path.iterdir()) == []


def test_nested_times_are_written_as_pypaimon_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the host's time zone is."""
    instant = datetime(2024, 1, 1)  # noqa: DTZ001 - naive, as Paimon's are
    time_of = pa.timestamp("us")
    rows = pa.table({
        "top": pa.array([instant], time_of),
        "list": pa.array([[instant]], pa.list_(time_of)),
        "row": pa.array([{"at": instant, "x": 1}], pa.struct([("at", time_of), ("x", pa.int32())])),
    })  # fmt: skip
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "America/New_York")
        time.tzset()
        for files, last in ((LocalFileIO(), "stock"), (GuardedFileIO(str(tmp_path), Options({})), "guarded")):
            files.write_avro(f"{tmp_path}/{last}", rows)
    time.tzset()
    stock, guarded = (
        list[Any](fastavro.reader((tmp_path / last).open("rb"))) for last in ("stock", "guarded")
    )
    assert guarded == stock
    assert guarded[0]["row"]["at"] == instant.replace(tzinfo=timezone.utc)
