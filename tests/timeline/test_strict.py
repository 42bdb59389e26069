"""Timelines that unmodified Hudi has written, written again through a strict mount: nothing is refused."""

from __future__ import annotations

import tarfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import fsspec
import pytest

from putifabsent import InvalidTransition
from putifabsent.shim.formats.hudi import instant_in
from putifabsent.shim.formats.hudi_steps import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsspec.spec import AbstractFileSystem

TESTS = Path(__file__).parents[1]
# When each file was written is kept of the first ones; the others were packed from a copy.
WRITTEN = ["hudi_cow", "hudi_mor", "hudi_upgraded", "hudi_v6"]
COPIED = ["raced_hudi", "raced_hudi_mor", "killed_hudi"]

File = tuple[str, bytes]


@pytest.fixture
def folder() -> Iterator[str]:
    folder = f"/{uuid.uuid4().hex}"
    yield folder
    fsspec.filesystem("memory").rm(folder, recursive=True)


def files_of(name: str) -> list[File]:
    """Return the files of a table's timeline with its properties, in the order in which they came to be."""
    fixtures = "timeline" if name in WRITTEN else "inspection"
    found: list[tuple[tuple[float | str, int], File]] = []
    with tarfile.open(TESTS / fixtures / "fixtures" / f"{name}.tar.xz") as packed:
        for member in packed:
            opened = packed.extractfile(member)
            written = b"" if opened is None else opened.read()
            step = instant_in(member.name.rpartition("/")[2])
            if member.name.endswith("/hoodie.properties"):
                found.append(((0.0 if name in WRITTEN else "", 0), (member.name, written)))
            elif step is not None:
                rank = State(step.state).rank
                moment = member.mtime if name in WRITTEN else step.completion or step.instant
                found.append(((moment, rank), (member.name, written)))
    return [file for _, file in sorted(found)]


def replay(fs: AbstractFileSystem, folder: str, files: list[File]) -> None:
    for name, written in files:
        fs.makedirs(f"{folder}/{name}".rpartition("/")[0], exist_ok=True)
        fs.pipe_file(f"{folder}/{name}", written)


@pytest.mark.parametrize("name", [*WRITTEN, *COPIED])
def test_no_step_of_a_real_hudi_is_refused(name: str, folder: str) -> None:
    files = files_of(name)
    assert {instant_in(each.rpartition("/")[2]) is not None for each, _ in files} == {True, False}
    fs = fsspec.filesystem("piamemory", strict=True)
    replay(fs, folder, files)
    assert set(fs.find(folder)) == {f"{folder}/{each}" for each, _ in files}


@pytest.mark.parametrize("name", [*WRITTEN, *COPIED])
def test_in_the_wrong_order_it_would_be(name: str, folder: str) -> None:
    with pytest.raises(InvalidTransition):
        replay(fsspec.filesystem("piamemory", strict=True), folder, files_of(name)[::-1])


@pytest.mark.parametrize("name", WRITTEN)
def test_what_goes_over_to_the_other_layout_is_not(name: str, folder: str) -> None:
    """Names alone: what an upgrade does to what is in them is its own affair."""
    fs, files = fsspec.filesystem("piamemory", strict=True), files_of(name)
    replay(fsspec.filesystem("memory"), folder, files)
    for path, _ in reversed(files):
        before, _, last = path.rpartition("/.hoodie/")
        if instant_in(last.rpartition("/")[2]) is None:
            continue
        moved = last.removeprefix("timeline/") if last.startswith("timeline/") else f"timeline/{last}"
        fs.cp_file(f"{folder}/{path}", f"{folder}/{before}/.hoodie/{moved}")
        fs.rm_file(f"{folder}/{path}")
