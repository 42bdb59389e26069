"""What the door asks, and what it answers, is what the golden files say."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from fsspec.spec import AbstractFileSystem

from tests.golden.cases import FILES, text_of
from tests.golden.verbs import CREATING, FOLDERS, LEFT_OUT, MANY, READING, REMOVING

_AGAIN = "If each difference is meant, write the file again: python -m tests.golden"


@pytest.mark.clouds
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # fsspec drops what had not begun
@pytest.mark.parametrize("file", FILES)
def test_the_door_asks_and_answers_as_it_did(file: str) -> None:
    before = (Path(__file__).parent / "files" / f"{file}.txt").read_text()
    now = text_of(file)
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), "frozen", "now", n=8, lineterm="")
    assert before == now, "\n".join([f"{_AGAIN} {file}", *lines])


def test_every_public_verb_of_fsspec_is_frozen_or_left_out_with_a_reason() -> None:
    public = {name for name in dir(AbstractFileSystem) if not name.startswith("_")}
    verbs = {name for name in public if callable(getattr(AbstractFileSystem, name))}
    tables = (CREATING, MANY, REMOVING, READING, FOLDERS)
    frozen = {label.replace(",", " ").split()[0] for table in tables for label in table}
    assert verbs - frozen == set(" ".join(LEFT_OUT).split())
