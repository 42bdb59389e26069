"""A listing of a folder on disk shows one moment, though the system gives its entries one by one."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from putifabsent.backends.base import Listed, TryAgain
from putifabsent.backends.local import LocalStore

STORE = LocalStore()


def listed(folder: Path) -> Any:
    found = STORE.list(str(folder))
    return {Path(each.name).name for each in found.entries} if isinstance(found, Listed) else found


def meanwhile(monkeypatch: pytest.MonkeyPatch, happens: Any) -> None:
    """Let something happen after each first scan."""
    real = os.listdir

    def listdir(folder: str) -> list[str]:
        happens()
        return real(folder)

    monkeypatch.setattr(os, "listdir", listdir)


def test_what_came_meanwhile_is_shown_with_all_that_came_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coming = ["prepare", "accept"]

    def come() -> None:
        if coming:
            (tmp_path / coming.pop()).touch()

    meanwhile(monkeypatch, come)
    assert listed(tmp_path) == {"accept", "prepare"}


def test_what_went_meanwhile_is_no_reason_to_look_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "going").touch()
    meanwhile(monkeypatch, (tmp_path / "going").unlink)
    assert listed(tmp_path) == set()


def test_a_folder_that_never_stands_still_is_asked_another_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = count()

    def come() -> None:
        (tmp_path / str(next(numbers))).touch()

    meanwhile(monkeypatch, come)
    assert isinstance(listed(tmp_path), TryAgain)


def test_a_folder_in_the_folder_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    assert listed(tmp_path) == {"file"}


@pytest.mark.parametrize("target", ["itself", "nothing", "file/nothing"])
def test_a_link_that_leads_to_nothing_hides_no_other_file(tmp_path: Path, target: str) -> None:
    (tmp_path / "itself").symlink_to(target)
    (tmp_path / "file").touch()
    assert listed(tmp_path) == {"file"}
    walked = STORE.walk(str(tmp_path))
    assert isinstance(walked, Listed)
    assert [Path(each.name).name for each in walked.entries] == ["file"]
