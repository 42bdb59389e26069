"""A large file goes out while it is being written; what is published, and when, stays the same."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent import NameTaken
from putifabsent.fsspec_plugin import files
from tests.stub import FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = f"bucket/t/_delta_log/{0:020d}.json"
OBJECT = ("bucket", NAME.partition("/")[2])
PIECE = 2**20
PIECES = 40


@pytest.fixture
def fs(on_stub: Any) -> Any:
    return on_stub(skip_instance_cache=True)


@pytest.fixture(scope="module")
def data() -> bytes:
    return os.urandom(PIECES * PIECE + 1)


def pieces(data: bytes) -> Iterator[bytes]:
    return (data[start : start + PIECE] for start in range(0, len(data), PIECE))


def write(file: Any, data: bytes) -> None:
    for piece in pieces(data):
        file.write(piece)


def test_parts_go_out_while_the_file_is_written_and_its_end_publishes_them(
    fs: Any, stub: FaultStub, data: bytes
) -> None:
    with fs.open(NAME, "wb") as file:
        write(file, data)
        stub.wait_for(Op.PART, 3)
        assert OBJECT not in stub.objects
        assert Op.COMPLETE not in stub.ops
    assert stub.objects[OBJECT].data == data
    assert stub.uploads == {}
    assert stub.ops.count(Op.PART) == -(-len(data) // (8 * 2**20)), "each byte goes out once"


def test_a_name_that_is_taken_meanwhile_is_lost_at_the_end(fs: Any, stub: FaultStub, data: bytes) -> None:
    file = fs.open(NAME, "wb")
    write(file, data)
    stub.put(*OBJECT, b"another's")
    with pytest.raises(NameTaken):
        file.close()
    assert stub.objects[OBJECT].data == b"another's"
    assert stub.uploads == {}


@pytest.mark.parametrize("way", ["an exception", "discard", "a dropped handle"])
def test_what_is_discarded_leaves_no_upload(fs: Any, stub: FaultStub, data: bytes, way: str) -> None:
    def break_off() -> None:
        with fs.open(NAME, "wb") as file:
            write(file, data)
            stub.wait_for(Op.PART)
            raise ZeroDivisionError

    if way == "an exception":
        with pytest.raises(ZeroDivisionError):
            break_off()
    else:
        file = fs.open(NAME, "wb")
        write(file, data)
        stub.wait_for(Op.PART)
        if way == "discard":
            file.discard()
        del file
    stub.wait_for(Op.ABORT)
    assert stub.uploads == {}
    assert OBJECT not in stub.objects


@pytest.mark.parametrize("way", ["seek", "truncate"])
def test_what_has_gone_out_may_still_be_changed(fs: Any, stub: FaultStub, data: bytes, way: str) -> None:
    with fs.open(NAME, "wb") as file:
        write(file, data)
        stub.wait_for(Op.PART)
        if way == "seek":
            file.seek(5)
            file.write(b"changed")
            expected = data[:5] + b"changed" + data[12:]
        else:
            file.truncate(17 * PIECE)
            expected = data[: 17 * PIECE]
    assert stub.objects[OBJECT].data == expected
    assert stub.uploads == {}


def test_more_files_than_threads_are_written_at_once(fs: Any, stub: FaultStub) -> None:
    """None of them waits in a thread that another one wants."""
    body = b"x" * (files.IN_MEMORY + PIECE)
    names = [f"bucket/t{number}/_delta_log/{0:020d}.json" for number in range(12)]
    opened = [fs.open(name, "wb") for name in names]
    for file in opened:
        file.write(body)
    for file in reversed(opened):
        file.close()
    assert {name for _, name in stub.objects} == {name.partition("/")[2] for name in names}
    assert {stored.data == body for stored in stub.objects.values()} == {True}


def test_a_fork_in_the_middle_leaves_the_file_to_its_writer(fs: Any, stub: FaultStub, data: bytes) -> None:
    file = fs.open(NAME, "wb")
    write(file, data[: 20 * PIECE])
    stub.wait_for(Op.CREATE_UPLOAD)
    child = os.fork()
    if child == 0:
        file.discard()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0
    write(file, data[20 * PIECE :])
    file.close()
    assert stub.objects[OBJECT].data == data


def test_a_transaction_sends_nothing_before_its_end(fs: Any, stub: FaultStub, data: bytes) -> None:
    with fs.transaction:
        with fs.open(NAME, "wb") as file:
            write(file, data)
        assert Op.CREATE_UPLOAD not in stub.ops
    assert stub.objects[OBJECT].data == data
