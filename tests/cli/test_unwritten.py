"""An answer that can't be written is not another one: no exit code says what is not true."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_signals import MAIN

if TYPE_CHECKING:
    from pathlib import Path

UNREAD = 141
FULL = "/dev/full"


def shell(redirected: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose streams are redirected as a shell does it."""
    command = ["sh", "-c", f'exec "$@" {redirected}', "sh", sys.executable, "-c", MAIN, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_name_that_was_created_is_neither_taken_nor_failed_where_the_disk_is_full(
    more: list[str], file: str, tmp_path: Path
) -> None:
    ended = shell(f">{FULL}", "put", file, f"{tmp_path}/name", *more)
    assert ended.returncode == UNREAD
    assert ended.stderr == "error: the answer can't be written: No space left on device\n"
    assert (tmp_path / "name").exists()


@pytest.mark.parametrize("redirected", [f"2>{FULL}", "2>&-", f">{FULL} 2>&1"])
def test_an_error_that_can_t_be_written_ends_as_it_would(redirected: str, tmp_path: Path) -> None:
    ended = shell(redirected, "fsck", f"{tmp_path}/nothing")
    assert ended.returncode == 2  # usage: there is no table


@pytest.mark.parametrize(("closed", "outcome"), [(">&-", ""), ("2>&-", "created"), ("<&- >&- 2>&-", "")])
def test_a_stream_that_is_closed_changes_nothing(
    closed: str, outcome: str, file: str, tmp_path: Path
) -> None:
    ended = shell(closed, "put", file, f"{tmp_path}/name", "--json")
    assert ended.returncode == 0
    assert (tmp_path / "name").read_bytes() == b"mine"
    assert outcome in ended.stdout
