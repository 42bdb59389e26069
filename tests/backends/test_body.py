"""A body has all the bytes that its file gives, whatever size the file says it has."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from putifabsent.backends.streaming_upload import FileBody

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=[0, 1, 7, 100_000])
def data(request: pytest.FixtureRequest) -> bytes:
    return os.urandom(request.param)


@pytest.fixture
def pipe(tmp_path: Path, data: bytes) -> Iterator[Path]:
    """Give its bytes once, a few at a time."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    giver = threading.Thread(target=path.write_bytes, args=[data])
    giver.start()
    yield path
    giver.join()


def test_a_pipe_is_read_to_its_end(pipe: Path, data: bytes) -> None:
    with pipe.open("rb") as file:
        body = FileBody(file)
    assert body.size == len(data)
    assert (body.whole(), body.whole()) == (data, data)
    assert b"".join(body.read(*each) for each in body.ranges(1000)) == data


def test_a_file_that_says_it_is_empty_is_read_to_its_end() -> None:
    path = Path("/proc/version")
    with path.open("rb") as file:
        body = FileBody(file)
    assert body.whole() == path.read_bytes() != b""


def test_a_file_is_read_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"some bytes")
    with path.open("rb") as file:
        file.seek(3)
        body = FileBody(file)
        assert (body.size, body.whole(), file.tell()) == (10, b"some bytes", 3)


def test_a_file_that_is_closed_and_whose_number_is_another_s_is_read_all_the_same(tmp_path: Path) -> None:
    """So it is closed where a call is cancelled, while a thread goes on."""
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_bytes(b"some bytes")
    other.write_bytes(b"other byte")
    with path.open("rb") as file, other.open("rb") as another:
        body = FileBody(file)
        os.dup2(another.fileno(), file.fileno())
    assert body.whole() == b"some bytes"


def test_a_body_that_nobody_has_leaves_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"some bytes")
    before = len([*Path("/proc/self/fd").iterdir()])
    for path in (tmp_path / "file", Path("/proc/version")):
        with path.open("rb") as file:
            body = FileBody(file)
        del body
    assert len([*Path("/proc/self/fd").iterdir()]) == before
