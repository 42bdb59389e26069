"""Local disk that several users share: the shim's own folders are as open as the folder that they are in."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.backends import local
from putifabsent.backends.base import Created, InMemory, Refused, Written
from putifabsent.backends.local import LocalStore
from putifabsent.testing.races import creation_of
from tests.fsspec_plugin.children import in_a_child

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STORE = LocalStore()
ANNE, BERT, GROUP = 54_001, 54_002, 54_003
IS_ROOT = os.geteuid() == 0


@pytest.fixture
def shared() -> Iterator[Path]:
    """Make a folder that every user can come to, unlike ``tmp_path``."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def belongs_to(folder: Path, user: int, group: int) -> None:
    """Give a folder away, where that can be done: to who is not root, all users are itself."""
    if IS_ROOT:
        os.chown(folder, user, group)


def acting(user: int, groups: tuple[int, ...], act: Callable[[str], Any], name: str) -> Any:
    if IS_ROOT and user:
        os.setgroups(groups)
        os.setgid(user)
        os.setuid(user)
    os.umask(0o022)
    return act(name)


def by(user: int, act: Callable[[str], Any], name: str, *groups: int) -> Any:
    """Act as a user, in a process of its own."""
    return in_a_child("fork", acting, user, groups, act, name)


def creates(name: str) -> str:
    outcome = STORE.create(name, InMemory(b"mine"), creation_of(name))
    return str(outcome.error) if isinstance(outcome, Refused) else type(outcome).__name__


def leaves_a_temporary_file(name: str) -> None:
    """End as one who is killed does, before the name is there."""
    made = local._temporary(InMemory(b"half"), creation_of(name), name)
    made.__enter__()
    _kept.append(made)  # until the process ends, without a word


_kept: list[Any] = []


def is_killed_in(call: str, name: str) -> None:
    """End before a system call; what is left is as after a kill."""

    def ends(*arguments: Any) -> None:
        raise KeyboardInterrupt

    setattr(os, call, ends)
    with pytest.raises(KeyboardInterrupt):
        local._make_own(str(Path(name).parent / ".putifabsent"))


@pytest.mark.parametrize("mode", [0o755, 0o775, 0o2775, 0o777, 0o1777, 0o3777, 0o700])
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_own_folders_are_as_open_as_the_one_that_they_are_in(tmp_path: Path, mode: int, mask: int) -> None:
    tmp_path.chmod(mode)
    before = os.umask(mask)
    try:
        name = f"{tmp_path}/.putifabsent/identity/name"
        written = STORE.put(name, InMemory(b"x"), creation_of(f"{tmp_path}/name"))
    finally:
        os.umask(before)
    assert isinstance(written, Written)
    for folder in (tmp_path / ".putifabsent", tmp_path / ".putifabsent/identity"):
        assert oct(stat.S_IMODE(folder.stat().st_mode)) == oct(mode)
        assert folder.stat().st_gid == tmp_path.stat().st_gid
    assert stat.S_IMODE(Path(name).stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_what_a_killed_user_leaves_blocks_nobody(shared: Path, mode: int) -> None:
    shared.chmod(mode)
    by(ANNE, leaves_a_temporary_file, f"{shared}/name")
    left = list((shared / ".putifabsent").iterdir())
    assert len(left) == 1
    assert left[0].stat().st_uid == (ANNE if IS_ROOT else os.geteuid())
    assert by(BERT, creates, f"{shared}/name") == Created.__name__


def test_users_of_a_group_share_a_folder_of_the_groups(shared: Path) -> None:
    belongs_to(shared, ANNE, GROUP)
    shared.chmod(0o775)
    by(ANNE, leaves_a_temporary_file, f"{shared}/name", GROUP)
    assert by(BERT, creates, f"{shared}/name", GROUP) == Created.__name__


def test_what_root_leaves_does_not_block_the_owner(shared: Path) -> None:
    belongs_to(shared, ANNE, ANNE)
    shared.chmod(0o755)
    by(0, leaves_a_temporary_file, f"{shared}/name")
    assert by(ANNE, creates, f"{shared}/name") == Created.__name__


@pytest.mark.parametrize("call", ["fchown", "fchmod"])
def test_a_kill_before_a_folder_is_opened_to_others_blocks_nobody(shared: Path, call: str) -> None:
    if call == "fchown":
        belongs_to(shared, 0, GROUP)
    by(ANNE, partial(is_killed_in, call), f"{shared}/name", GROUP)
    assert stat.S_IMODE((shared / ".putifabsent").stat().st_mode) == 0o755
    assert by(BERT, creates, f"{shared}/name") == Created.__name__


def test_who_made_a_narrow_folder_opens_it_with_the_next_creation(shared: Path) -> None:
    """As 0.1.0 left them."""
    state = shared / ".putifabsent"
    state.mkdir()
    state.chmod(0o755)
    (state / "left").touch()
    assert creates(f"{shared}/name") == Created.__name__
    assert by(BERT, creates, f"{shared}/other") == Created.__name__


def test_who_may_not_write_there_is_refused(shared: Path) -> None:
    belongs_to(shared, BERT, BERT)
    shared.chmod(0o755 if IS_ROOT else 0o555)
    assert "Permission denied" in by(ANNE, creates, f"{shared}/name")
    shared.chmod(0o777)


def test_a_folder_that_goes_while_its_rights_are_looked_at_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    real, refusals = os.open, [PermissionError(errno.EACCES, "not yet")]

    def opens(path: str, flags: int, *mode: int) -> int:
        if flags & os.O_CREAT and refusals:
            Path(path).parent.rmdir()
            raise refusals.pop()
        return real(path, flags, *mode)

    monkeypatch.setattr(os, "open", opens)
    assert creates(f"{tmp_path}/name") == Created.__name__


def test_a_folder_whose_mode_can_not_be_changed_is_used_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*arguments: object) -> None:
        raise PermissionError(errno.EPERM, "not on this filesystem")

    tmp_path.chmod(0o777)
    for call in ("fchmod", "fchown"):
        monkeypatch.setattr(os, call, refuses)
    assert creates(f"{tmp_path}/name") == Created.__name__


def test_a_link_in_the_place_of_an_own_folder_opens_nothing_else(tmp_path: Path) -> None:
    elsewhere, table = tmp_path / "elsewhere", tmp_path / "table"
    elsewhere.mkdir()
    elsewhere.chmod(0o700)
    table.mkdir()
    table.chmod(0o777)
    (table / ".putifabsent").symlink_to(elsewhere)
    assert creates(f"{table}/name") == Created.__name__
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o700
