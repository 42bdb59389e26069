"""Bytes that wait for the end of their file are nobody else's; those that are only read can't be changed."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.fsspec_plugin import files

if TYPE_CHECKING:
    from tests.fsspec_plugin.grounds import Ground


FORKING = """
import os, sys, fsspec
with fsspec.open(f"piafile://{sys.argv[1]}", "wb") as file:
    file.write(b"a" * int(sys.argv[2]))
    file.write(b"b" * 1000)
    if not (child := os.fork()):
        sys.exit()
    os.waitpid(child, 0)
    file.write(b"c" * 1000)
"""


def test_a_child_that_is_forked_meanwhile_adds_nothing(local: Ground) -> None:
    """It never touches the file; but it has a copy of all buffers, and empties them when it exits."""
    command = [sys.executable, "-c", FORKING, local.log(), str(files.IN_MEMORY)]
    subprocess.run(command, check=True, timeout=60)
    assert local.read(local.log()) == b"a" * files.IN_MEMORY + b"b" * 1000 + b"c" * 1000


def test_a_disk_that_takes_less_than_it_is_given_gets_the_rest(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(io.FileIO):
        def write(self, data: Any, /) -> int:
            return super().write(memoryview(data)[: 2**20 + 1])

    def temporary(**_: Any) -> io.FileIO:
        return Slow(os.memfd_create("slow"), "w+b")

    monkeypatch.setattr(tempfile, "TemporaryFile", temporary)
    body = bytes(range(251)) * (20 * 2**20 // 251)
    with memory.fs.open(memory.log(), "wb") as file:
        assert file.write(body[: 9 * 2**20]) == 9 * 2**20
        assert file.write(body[9 * 2**20 :]) == len(body) - 9 * 2**20
    assert memory.read(memory.log()) == body


@pytest.mark.parametrize("mode", ["wb", "w"])
def test_who_passes_over_that_there_is_no_room_hears_of_it_when_the_file_is_closed(
    memory: Ground, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    def full(**_: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    body = b"x" * (files.IN_MEMORY + 1)
    file = memory.fs.open(memory.log(), mode)
    for _ in range(2):
        with pytest.raises(OSError, match="No space left") as caught:
            file.write(body if mode == "wb" else body.decode())
        assert caught.value.errno == errno.ENOSPC
    with pytest.raises(OSError, match="No space left"):
        file.close()
    assert file.closed
    file.close()
    assert not memory.is_there(memory.log())


# --- what memory hands out ----------------------------------------------------------------------------------


def test_what_is_open_for_reading_can_not_be_written(memory: Ground) -> None:
    memory.fs.pipe_file(memory.log(), b"the winner's")
    for opened in (memory.fs.open(memory.log()), memory.fs._open(memory.log(), "rb")):
        with opened as file:
            assert (file.readable(), file.writable(), file.size) == (True, False, 12)
            for change, value in (("write", b"x"), ("writelines", [b"x"]), ("truncate", 0)):
                with pytest.raises(io.UnsupportedOperation, match=change):
                    getattr(file, change)(value)
            file.getbuffer()[:3] = b"THE"
    assert memory.read(memory.log()) == b"the winner's"


def test_text_that_is_open_for_reading_can_not_be_written(memory: Ground) -> None:
    memory.fs.pipe_file(memory.log(), b"the winner's")
    with memory.fs.open(memory.log(), "r", encoding="utf-8") as file:
        assert file.read() == "the winner's"
        with pytest.raises(io.UnsupportedOperation):
            file.write("x")
        with pytest.raises(io.UnsupportedOperation):
            file.buffer.write(b"x")
    assert memory.read(memory.log()) == b"the winner's"


def test_readers_have_a_place_of_their_own(memory: Ground) -> None:
    memory.fs.pipe_file(memory.log(), b"the winner's")
    one, other = memory.fs.open(memory.log()), memory.fs.open(memory.log())
    assert (one.read(3), other.read(3), one.read(1)) == (b"the", b"the", b" ")


def test_a_name_that_is_not_there_is_not_opened(memory: Ground) -> None:
    with pytest.raises(FileNotFoundError):
        memory.fs.open(memory.log())


def test_names_that_nobody_guards_are_handed_out_as_ever(memory: Ground) -> None:
    memory.write(memory.name("data"), b"old")
    with memory.fs.open(memory.name("data"), "rb") as file:
        file.write(b"new")
    assert memory.read(memory.name("data")) == b"new"
