"""Puts, publications and exact deletions on local disk: what a pause, a death or a lost answer leaves."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.backends import local
from putifabsent.backends.base import (
    Absent,
    Created,
    Deleted,
    Exists,
    Found,
    InMemory,
    Maybe,
    Refused,
    Written,
)
from putifabsent.backends.local import LocalStore
from putifabsent.errors import ConfigError, UnsafeStore
from putifabsent.shim.requests import Publish, Put, perform
from putifabsent.testing.deaths import Will, doomed
from putifabsent.testing.races import creation_of

if TYPE_CHECKING:
    from collections.abc import Callable

STORE = LocalStore()
HOLDER_OF = "putifabsent.backends.local._holder_of"


def names(folder: Path) -> tuple[str, str]:
    return f"{folder}/.putifabsent/identity/name~salt", f"{folder}/name"


def put(source: str, data: bytes = b"mine") -> Any:
    return STORE.put(source, InMemory(data), creation_of(source.partition("/.putifabsent")[0] + "/name"))


def publish(source: str, name: str) -> Any:
    return STORE.publish(source, name, creation_of(name))


def version_of(name: str) -> str:
    seen = STORE.head(name)
    assert isinstance(seen, Found)
    assert seen.holder.version is not None
    return seen.holder.version


def failing(real: Callable[..., Any], number: int, *, applied: bool = False) -> Callable[..., Any]:
    """Return a system call that fails, after it was applied or not."""

    def call(*arguments: Any, **options: Any) -> Any:
        if applied:
            real(*arguments, **options)
        raise OSError(number, os.strerror(number))

    return call


# --- put


def test_a_put_makes_the_folders_of_the_shim_s_own_and_makes_them_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = local._sync_folder

    def sync(folder: str) -> None:
        synced.append(folder)
        real(folder)

    monkeypatch.setattr(local, "_sync_folder", sync)
    source, _ = names(tmp_path)
    assert isinstance(put(source), Written)
    own = f"{tmp_path}/.putifabsent"
    assert synced == [f"{own}/identity", own, str(tmp_path)]


def test_a_put_makes_no_folder_of_anybody_else_s(tmp_path: Path) -> None:
    for name in (f"{tmp_path}/missing/.putifabsent/key", f"{tmp_path}/missing/name~salt"):
        outcome = STORE.put(name, InMemory(b"x"), creation_of(f"{tmp_path}/missing/name"))
        assert isinstance(outcome, Refused)
        assert isinstance(outcome.error, FileNotFoundError)
    assert list(tmp_path.iterdir()) == []


def test_a_put_beside_the_names_leaves_no_state_folder(tmp_path: Path) -> None:
    assert isinstance(STORE.put(f"{tmp_path}/n~salt", InMemory(b"x"), creation_of(f"{tmp_path}/n")), Written)
    assert [path.name for path in tmp_path.iterdir()] == ["n~salt"]


def test_a_clean_up_that_finds_the_new_folder_empty_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, _ = names(tmp_path)
    real = os.replace
    removed: list[str] = []

    def replace(temporary: str, name: str) -> None:
        if not removed:
            removed.append(name)
            os.rmdir(os.path.dirname(name))  # noqa: PTH106, PTH120 - as another process's clean-up does
        real(temporary, name)

    monkeypatch.setattr("os.replace", replace)
    assert isinstance(put(source), Written)
    assert removed == [source]
    assert Path(source).read_bytes() == b"mine"


def test_a_put_over_a_directory_is_refused(tmp_path: Path) -> None:
    source, _ = names(tmp_path)
    Path(source).mkdir(parents=True)
    outcome = put(source)
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, IsADirectoryError)
    assert [path.name for path in Path(source).parent.iterdir()] == ["name~salt"]


@pytest.mark.parametrize(("applied", "meaning"), [(True, Written), (False, Maybe)])
def test_a_rename_whose_answer_was_lost_is_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, applied: bool, meaning: type
) -> None:
    source, _ = names(tmp_path)
    monkeypatch.setattr("os.replace", failing(os.replace, errno.EIO, applied=applied))
    assert isinstance(put(source), meaning)


def test_a_put_that_may_not_last_may_have_happened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, _ = names(tmp_path)
    monkeypatch.setattr(local, "_sync_folder", failing(local._sync_folder, errno.EIO))
    assert isinstance(put(source), Maybe)


# --- publish


def test_what_is_published_is_the_file_itself(tmp_path: Path) -> None:
    source, name = names(tmp_path)
    put(source)
    assert isinstance(publish(source, name), Written)
    assert Path(name).samefile(source)
    # Whatever is published over it later has another inode.
    assert isinstance(publish(source, name), Written)
    other = f"{source}-other"
    put(other)
    assert publish(other, name) == Exists()


def test_a_published_file_is_as_old_as_its_name(tmp_path: Path) -> None:
    source, name = names(tmp_path)
    put(source)
    os.utime(source, (0, 0))
    publish(source, name)
    assert Path(name).stat().st_mtime > 0
    os.utime(name, (0, 0))
    publish(source, name)
    assert Path(name).stat().st_mtime == 0


def test_a_publisher_that_pauses_before_its_link_publishes_nothing_that_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, name = names(tmp_path)
    put(source)
    real = os.link

    def link(*arguments: Any) -> None:
        assert STORE.delete(source) == Deleted()
        assert STORE.delete(name) == Deleted()
        real(*arguments)

    monkeypatch.setattr("os.link", link)
    assert publish(source, name) == Absent()
    assert not Path(name).exists()


@pytest.mark.parametrize(
    ("number", "applied", "meaning"),
    [
        (errno.EIO, True, Written),
        (errno.EEXIST, True, Written),
        (errno.EIO, False, Maybe),
        (errno.EEXIST, False, Exists),
        (errno.ENOSPC, False, Refused),
        (errno.EPERM, False, Refused),
    ],
)
def test_a_link_whose_answer_was_lost_is_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, applied: bool, meaning: type
) -> None:
    source, name = names(tmp_path)
    put(source)
    monkeypatch.setattr("os.link", failing(os.link, number, applied=applied))
    outcome = publish(source, name)
    assert isinstance(outcome, meaning)
    if number == errno.EPERM:
        assert isinstance(outcome, Refused)
        assert isinstance(outcome.error, UnsafeStore)


def test_another_user_s_file_that_may_not_be_linked_is_no_fault_of_the_filesystem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, name = names(tmp_path)
    put(source)
    monkeypatch.setattr("os.link", failing(os.link, errno.EPERM))
    monkeypatch.setattr("os.geteuid", lambda: Path(source).stat().st_uid + 1)
    outcome = publish(source, name)
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, PermissionError)


def test_what_is_in_the_way_is_refused(tmp_path: Path) -> None:
    source, name = names(tmp_path)
    put(source)
    Path(name).mkdir()
    assert isinstance(publish(source, name).error, IsADirectoryError)
    Path(name).rmdir()
    Path(name).symlink_to(tmp_path / "nothing")
    assert isinstance(publish(source, name), Refused)
    missing = publish(source, f"{tmp_path}/missing/name")
    assert isinstance(missing.error, FileNotFoundError)


def test_a_disk_can_carry_no_parameters(tmp_path: Path) -> None:
    source, name = names(tmp_path)
    put(source)
    odd = creation_of(name, ACL="private")
    for outcome in (STORE.put(source, InMemory(b"x"), odd), STORE.publish(source, name, odd)):
        assert isinstance(outcome, Refused)
        assert isinstance(outcome.error, ConfigError)


# --- deaths


@pytest.mark.parametrize("how", ["put", "publish"])
def test_a_writer_killed_at_any_step_leaves_all_or_nothing(how: str, tmp_path: Path) -> None:
    folder = f"{tmp_path}/.putifabsent/identity" if how == "put" else str(tmp_path)
    places = ("putifabsent.backends.local",)
    left = set()

    def body_of(name: str) -> bytes:
        return f"all of {name}".encode() * 100

    def request(name: str) -> Put | Publish:
        creation = creation_of(f"{tmp_path}/name")
        if how == "put":
            return Put(name, InMemory(body_of(name)), creation)
        STORE.put(f"{name}~salt", InMemory(body_of(name)), creation)
        return Publish(f"{name}~salt", name, creation)

    with doomed(LocalStore, places) as writers:
        for step in range(1, 1 + writers.steps(Will(partial(perform, request(f"{folder}/alive"))))):
            mine = request(f"{folder}/{step}")
            assert writers.die(Will(partial(perform, mine)), step) == -signal.SIGKILL
            there = Path(mine.name).exists()
            left.add(there)
            if there:
                assert Path(mine.name).read_bytes() == body_of(mine.name)
                assert version_of(mine.name) == mine.creation.token
            perform(mine, STORE)
            assert Path(mine.name).read_bytes() == body_of(mine.name)
            assert version_of(mine.name) == mine.creation.token
    assert left == {True, False}
    listed = STORE.list(folder)
    shown = {Path(entry.name).name for entry in listed.entries}  # type: ignore[union-attr]
    assert {word for word in shown if "~" not in word} == {"alive", *map(str, range(1, step + 1))}


# --- deletion


def test_a_deletion_by_version_lets_nobody_between_its_look_and_its_unlink(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, name = names(tmp_path)
    STORE.create(name, InMemory(b"the first"), creation_of(name))
    version = version_of(name)
    real = local._holder_of
    tried: list[object] = []

    def holder_of(file: int) -> Any:
        found = real(file)
        if not tried:
            # What others do while this deletion pauses: by name, and by version.
            tried.append(STORE.delete(name))
            tried.append(STORE.delete(name, version))
            tried.append(STORE.create(name, InMemory(b"late"), creation_of(name)))
        return found

    monkeypatch.setattr(HOLDER_OF, holder_of)
    assert STORE.delete(name, version) == Deleted()
    assert [type(outcome) for outcome in tried] == [Maybe, Maybe, Exists]
    assert isinstance(STORE.create(name, InMemory(b"the second"), creation_of(name)), Created)
    assert STORE.delete(name, version) == Deleted()
    assert Path(name).read_bytes() == b"the second"


def test_a_file_that_was_replaced_before_it_was_locked_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, name = names(tmp_path)
    STORE.create(name, InMemory(b"the first"), creation_of(name))
    version = version_of(name)
    real = fcntl.flock
    replaced: list[str] = []

    def flock(file: int, operation: int) -> None:
        if not replaced:
            replaced.append(name)
            Path(name).unlink()
            STORE.create(name, InMemory(b"the second"), creation_of(name))
        real(file, operation)

    monkeypatch.setattr("fcntl.flock", flock)
    assert STORE.delete(name, version) == Deleted()
    assert Path(name).read_bytes() == b"the second"


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EBADF, errno.EOPNOTSUPP])
def test_a_filesystem_without_locks_can_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    _, name = names(tmp_path)
    STORE.create(name, InMemory(b"x"), creation_of(name))
    monkeypatch.setattr("fcntl.flock", failing(fcntl.flock, number))
    assert STORE.delete(name, "another") == Deleted()
    assert Path(name).exists()
    assert STORE.delete(name, version_of(name)) == Deleted()
    assert not Path(name).exists()


def test_a_symbolic_link_to_nothing_can_be_deleted(tmp_path: Path) -> None:
    _, name = names(tmp_path)
    Path(name).symlink_to(tmp_path / "nothing")
    assert STORE.delete(name, "any") == Deleted()
    assert Path(name).is_symlink()
    assert STORE.delete(name) == Deleted()
    assert not Path(name).is_symlink()


def test_a_deletion_whose_look_fails_removes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, name = names(tmp_path)
    STORE.create(name, InMemory(b"x"), creation_of(name))
    monkeypatch.setattr(HOLDER_OF, failing(local._holder_of, errno.EIO))
    assert isinstance(STORE.delete(name, "any"), Maybe)
    assert Path(name).exists()
