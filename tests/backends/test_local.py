"""Local disk keeps the promises of a store, among processes and through their deaths."""

from __future__ import annotations

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from putifabsent.backends.base import (
    Absent,
    Created,
    Creation,
    Deleted,
    Exists,
    Found,
    Got,
    InMemory,
    Maybe,
    Refused,
    Staged,
    TryAgain,
    Written,
)
from putifabsent.backends.local import LocalStore
from putifabsent.testing import Around, PublishTests, SharedStoreTests
from putifabsent.testing.races import creation_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.base import Store


class Disk(Around):
    """The files themselves."""

    def read(self, name: str) -> bytes | None:
        try:
            with open(name, "rb") as file:  # noqa: PTH123 - a Path would leave out what is odd about a name
                return file.read()
        except OSError:
            return None

    def write(self, name: str, data: bytes) -> None:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(data)


class TestLocalStore(PublishTests, SharedStoreTests):
    republishes: ClassVar[bool] = False
    steps_in: ClassVar[tuple[str, ...]] = (
        "putifabsent.backends.local",
        "putifabsent.backends.base:stage",
        "putifabsent.backends.base:complete",
    )

    @pytest.fixture
    def make_store(self) -> Callable[[], Store]:
        return LocalStore

    @pytest.fixture
    def folder(self, tmp_path: Path) -> str:
        return str(tmp_path)

    @pytest.fixture
    def around(self) -> Disk:
        return Disk()


# --- names that may not be read


@pytest.fixture
def unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with mode 0600, as others than its owner meet it: root could read it all the same."""
    path = tmp_path / "name"
    path.write_bytes(b"theirs")
    real = os.open

    def refuse(file: Any, *arguments: Any, **options: Any) -> int:
        if file == str(path):
            raise PermissionError(13, "Permission denied", file)
        return real(file, *arguments, **options)

    monkeypatch.setattr("os.open", refuse)
    return path


def test_anothers_unreadable_file_holds_the_name(unreadable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = unreadable.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    store = LocalStore()
    assert store.create(str(unreadable), InMemory(b"late"), creation_of(str(unreadable))) == Exists()
    seen = store.head(str(unreadable))
    assert isinstance(seen, Found)
    holder = seen.holder
    assert (holder.token, holder.writer, holder.size) == (None, None, 6)
    assert holder.created is not None
    assert holder.created.timestamp() == pytest.approx(unreadable.stat().st_mtime)
    assert holder.version is not None


def test_an_unreadable_file_of_ones_own_may_be_ones_own_creation(unreadable: Path) -> None:
    assert unreadable.stat().st_uid == os.geteuid()
    seen = LocalStore().head(str(unreadable))
    assert isinstance(seen, Refused)
    assert isinstance(seen.error, PermissionError)


@pytest.mark.parametrize("what", ["directory", "nothing"])
def test_what_is_no_file_holds_no_name(unreadable: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = unreadable.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    unreadable.unlink()
    if what == "directory":
        unreadable.mkdir()
    assert isinstance(LocalStore().head(str(unreadable)), Refused)
    assert LocalStore().head(str(unreadable.with_name("absent"))) == Absent()


@pytest.mark.parametrize("change", ["rewritten", "replaced", "removed", "shorter"])
@pytest.mark.parametrize("before", ["it is staged", "it is completed"])
def test_a_source_that_changes_while_it_is_copied_is_never_half_copied(
    tmp_path: Path, change: str, before: str
) -> None:
    source, name = tmp_path / "source", f"{tmp_path}/name"
    source.write_bytes(b"first")
    os.utime(source, (0, 0))
    store = LocalStore()
    seen = store.head(str(source))
    assert isinstance(seen, Found)

    def changes() -> None:
        if change in ("replaced", "removed"):
            source.rename(tmp_path / "away")
        if change != "removed":
            source.write_bytes(b"other" if change != "shorter" else b"")

    if before == "it is staged":
        changes()
    staged = store.stage_copy(str(source), 5, seen.holder.version, name, creation_of(name))
    if before == "it is staged":
        assert isinstance(staged, Absent)
        return
    assert isinstance(staged, Staged)
    changes()
    assert isinstance(store.complete(staged), Refused)
    assert not Path(name).exists()


# --- folders of the shim's own


def test_deletions_leave_no_empty_folder_of_each_name(tmp_path: Path) -> None:
    state = tmp_path / ".putifabsent"
    names = [state / "ballot" / "log" / f"{number}.json" / key for number in range(3) for key in "PA"]
    store = LocalStore()
    for name in names:
        assert isinstance(store.put(str(name), InMemory(b""), creation_of(str(name))), Written)
    left = {each.parent for each in names}
    for name in names:
        assert store.delete(str(name)) == Deleted()
        left -= {name.parent} if name.name == "A" else set()
        assert {each for each in left if each.exists()} == left
        assert set((state / "ballot" / "log").glob("*")) == left
    assert [each.name for each in state.iterdir()] == ["ballot"], "what is directly in it is used again"
    assert not list((state / "ballot").iterdir())


def test_a_folder_that_goes_while_another_puts_into_it_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / ".putifabsent" / "ballot" / "log" / "1.json"

    def come_and_go(key: str) -> None:
        store, name = LocalStore(), str(folder / key)
        for _ in range(200):
            assert isinstance(store.put(name, InMemory(key.encode()), creation_of(name)), Written)
            assert store.get(name) == Got(key.encode())
            assert store.delete(name) == Deleted()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(come_and_go, key) for key in "PA"]:
            done.result()
    assert not folder.exists()


def test_deletions_leave_folders_of_others_alone(tmp_path: Path) -> None:
    (tmp_path / "year=2026" / "month=11").mkdir(parents=True)
    name = tmp_path / "year=2026" / "month=11" / "part"
    name.write_bytes(b"rows")
    assert LocalStore().delete(str(name)) == Deleted()
    assert name.parent.is_dir()


def test_in_a_folder_that_may_not_be_read_nothing_is_created_and_that_is_certain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    outcome = LocalStore().create(f"{tmp_path}/name", InMemory(b"mine"), Creation("t", "w", ""))
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, PermissionError)
    assert not (tmp_path / "name").exists()


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    mine = Creation("t", "w", f"{tmp_path}/.putifabsent")
    outcome = LocalStore().create(f"{tmp_path}/a\ud800b", InMemory(b"mine"), mine)
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, OSError)
    assert outcome.error.errno == errno.EILSEQ


@pytest.mark.parametrize("write", ["create", "put"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOTCONN, errno.ECONNABORTED, errno.ESHUTDOWN])
def test_a_write_that_a_file_server_may_still_apply_is_no_certain_failure(
    write: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GlusterFS says "not connected" of what a brick has taken, CephFS "shut down", FUSE "aborted"."""

    def loses(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.link", loses)
    monkeypatch.setattr("os.replace", loses)
    name = str(tmp_path / "name")
    outcome = getattr(LocalStore(), write)(name, InMemory(b"mine"), creation_of(name))
    assert isinstance(outcome, Maybe)
    assert getattr(outcome.cause, "errno", None) == number


@pytest.mark.parametrize("write", ["create", "put"])
def test_a_temporary_file_that_a_file_server_makes_twice_says_nothing_of_the_name(
    write: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes the file, and hears that again, for no answer came: then the file is there already."""
    make = os.open

    def made_twice(path: str, flags: int, *more: Any, **options: Any) -> int:
        if flags & os.O_CREAT:
            os.close(make(path, flags, *more, **options))
        return make(path, flags, *more, **options)

    name = str(tmp_path / "name")
    monkeypatch.setattr("os.open", made_twice)
    outcome = getattr(LocalStore(), write)(name, InMemory(b"mine"), creation_of(name))
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, OSError)
    assert (outcome.error.errno, outcome.error.filename) == (errno.EIO, name)


@pytest.mark.parametrize("number", [errno.EEXIST, errno.EIO])
def test_a_name_that_can_t_be_looked_at_once_it_is_linked_is_no_certain_failure(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS links, and sends that again, for no answer came; then the server is gone for good."""
    link, name = os.link, str(tmp_path / "name")

    def loses(*_: object, **__: object) -> Any:
        raise OSError(errno.ESTALE, "Stale file handle")

    with monkeypatch.context() as server:

        def linked(*where: str) -> None:
            link(*where)
            server.setattr("os.fstat", loses)
            server.setattr("os.fsync", loses)
            raise OSError(number, os.strerror(number))

        server.setattr("os.link", linked)
        outcome = LocalStore().create(name, InMemory(b"mine"), creation_of(name))
    assert isinstance(outcome, Maybe)


@pytest.mark.parametrize(
    ("read", "call"),
    [("get", "putifabsent.backends.local.open"), ("list", "os.scandir"), ("walk", "os.scandir")],
)
def test_a_read_whose_answer_a_file_server_lost_is_tried_again(
    read: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = OSError(errno.ESTALE, "Stale file handle")

    def loses(*_: object) -> object:
        raise lost

    monkeypatch.setattr(call, loses, raising=False)
    assert getattr(LocalStore(), read)(str(tmp_path)) == TryAgain(lost)


@pytest.mark.parametrize("write", ["create", "put"])
def test_a_file_server_that_loses_the_answer_to_a_close_unmakes_nothing(
    write: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = os.close

    def loses(file: int) -> None:
        is_file = stat.S_ISREG(os.fstat(file).st_mode)
        close(file)
        if is_file:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    name = str(tmp_path / "name")
    creation = creation_of(name)
    monkeypatch.setattr("putifabsent.backends.local.os.close", loses)
    outcome = getattr(LocalStore(), write)(name, InMemory(b"mine"), creation)
    monkeypatch.undo()
    assert Path(name).read_bytes() == b"mine"
    assert outcome == (Created if write == "create" else Written)(creation.token)
