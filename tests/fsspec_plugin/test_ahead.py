"""A large file goes out while it is being written; what is published, and when, stays the same."""

from __future__ import annotations

import _thread
import contextlib
import errno
import os
import subprocess
import sys
import tempfile
import threading
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent import NameTaken
from putifabsent.backends import s3, s3_client
from putifabsent.backends.base import Written, write_all
from putifabsent.backends.streaming_upload import FileBody
from putifabsent.fsspec_plugin import files
from putifabsent.testing.races import creation_of
from tests.stub import Fault, FaultStub, Op
from tests.vouching import vouch

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = f"bucket/t/_delta_log/{0:020d}.json"
OBJECT = ("bucket", NAME.partition("/")[2])
# All sizes are this part of what they are.
SMALLER = 64
PIECE = 2**20 // SMALLER
PIECES = 40
PART = s3_client.PART // SMALLER


@pytest.fixture(scope="module")
def shared_stub() -> Iterator[FaultStub]:
    with FaultStub(smallest_part=PART) as running:
        vouch(running.url("s3"), bucket="bucket")
        yield running


@pytest.fixture(autouse=True)
def large_files_are_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "IN_MEMORY", files.IN_MEMORY // SMALLER)
    monkeypatch.setattr(s3.S3Store, "largest_put", files.IN_MEMORY)
    monkeypatch.setattr(s3_client, "PART", PART)


@pytest.fixture
def fs(on_stub: Any) -> Any:
    return on_stub(skip_instance_cache=True)


@pytest.fixture(scope="module")
def data() -> bytes:
    # What begins with a brace is taken for a document, and is not whole.
    return b"." + os.urandom(PIECES * PIECE)


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
    assert stub.ops.count(Op.PART) == -(-len(data) // PART), "each byte goes out once"
    assert stub.ops.count(Op.CREATE_UPLOAD) == 1


def test_a_file_of_whole_parts_has_no_empty_last_one(fs: Any, stub: FaultStub, data: bytes) -> None:
    with fs.open(NAME, "wb") as file:
        write(file, data[: 3 * PART])
    assert stub.ops.count(Op.PART) == 3
    assert stub.objects[OBJECT].data == data[: 3 * PART]


def test_a_name_that_is_taken_meanwhile_is_lost_at_the_end(fs: Any, stub: FaultStub, data: bytes) -> None:
    file = fs.open(NAME, "wb")
    write(file, data)
    stub.put(*OBJECT, b"another's")
    with pytest.raises(NameTaken):
        file.close()
    assert stub.objects[OBJECT].data == b"another's"
    assert stub.uploads == {}


@pytest.mark.parametrize("op", [Op.CREATE_UPLOAD, Op.PART])
def test_what_could_not_be_sent_ahead_is_sent_at_the_end(
    fs: Any, stub: FaultStub, data: bytes, op: Op
) -> None:
    stub.script(op, Fault.FORBIDDEN_403)
    with fs.open(NAME, "wb") as file:
        write(file, data)
        stub.wait_for(op)
        assert Op.COMPLETE not in stub.ops
    assert stub.objects[OBJECT].data == data
    assert stub.uploads == {}
    assert stub.ops.count(Op.CREATE_UPLOAD) == 2


def test_a_completion_that_wants_a_new_upload_gets_one(fs: Any, stub: FaultStub, data: bytes) -> None:
    stub.script(Op.COMPLETE, Fault.CONFLICT_409)
    with fs.open(NAME, "wb") as file:
        write(file, data)
    assert stub.objects[OBJECT].data == data
    assert stub.uploads == {}
    assert stub.ops.count(Op.CREATE_UPLOAD) == 2


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


def test_what_is_interrupted_while_its_last_part_is_sent_leaves_no_upload(
    fs: Any, stub: FaultStub, data: bytes
) -> None:
    last = -(-len(data) // PART)
    stub.script(Op.PART, *[None] * (last - 1), Fault.TIMEOUT_AFTER_APPLY)
    file = fs.open(NAME, "wb")
    write(file, data)

    def interrupt() -> None:
        stub.wait_for(Op.PART, last)
        _thread.interrupt_main()

    watching = threading.Thread(target=interrupt)
    watching.start()
    with pytest.raises(KeyboardInterrupt):
        file.close()
    watching.join()
    assert stub.uploads == {}
    assert OBJECT not in stub.objects


ENDING = """
import sys, fsspec
from putifabsent.backends import s3, s3_client
from putifabsent.fsspec_plugin import files
files.IN_MEMORY, s3.S3Store.largest_put, s3_client.PART, piece = map(int, sys.argv[4:])
fs = fsspec.filesystem("pias3", arbiter="native", endpoint_url=sys.argv[1], key="key", secret="secret")
file = fs.open(sys.argv[2], "wb")
for _ in range(int(sys.argv[3])):
    file.write(b"x" * piece)
"""
FAILING = (
    ENDING
    + """
with file:
    raise ZeroDivisionError
"""
)


@pytest.mark.parametrize(("program", "code"), [(ENDING, 0), (FAILING, 1)], ids=["open", "failing"])
def test_a_process_that_ends_leaves_no_upload(stub: FaultStub, program: str, code: int) -> None:
    for _ in range(1 if program is ENDING else 2):
        sizes = map(str, (PIECES, files.IN_MEMORY, files.IN_MEMORY, PART, PIECE))
        command = [sys.executable, "-c", program, stub.url("s3"), NAME, *sizes]
        ended = subprocess.run(command, check=False, capture_output=True, timeout=60)
        assert ended.returncode == code, ended.stderr
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
    stub.wait_for(Op.ABORT)
    assert stub.objects[OBJECT].data == expected
    assert stub.uploads == {}


def test_what_is_written_into_the_middle_at_once_is_not_sent_ahead(
    fs: Any, stub: FaultStub, data: bytes
) -> None:
    with fs.open(NAME, "wb") as file:
        file.write(data[: files.IN_MEMORY])
        file.seek(PIECE)
        file.write(data)
        assert stub.ops.count(Op.CREATE_UPLOAD) == 0
    assert stub.objects[OBJECT].data == data[:PIECE] + data


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


@pytest.mark.parametrize("child", ["discard", "close"])
def test_a_forked_child_has_no_part_in_what_is_sent_ahead(
    fs: Any, stub: FaultStub, data: bytes, child: str
) -> None:
    """The parent's upload is not the child's to end, and its token not the child's to win by."""
    file = fs.open(NAME, "wb")
    write(file, data)
    stub.wait_for(Op.CREATE_UPLOAD)
    if (pid := os.fork()) == 0:
        status = 1
        try:
            with contextlib.suppress(OSError):
                getattr(file, child)()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    file.close()
    assert stub.objects[OBJECT].data == data
    assert stub.uploads == {}


def test_a_transaction_sends_nothing_before_its_end(fs: Any, stub: FaultStub, data: bytes) -> None:
    with fs.transaction:
        with fs.open(NAME, "wb") as file:
            write(file, data)
        assert Op.CREATE_UPLOAD not in stub.ops
    assert stub.objects[OBJECT].data == data


def test_what_was_sent_ahead_is_for_that_name_alone(fs: Any, stub: FaultStub, data: bytes) -> None:
    """Another name is put without a condition: it must not publish this one on the way."""
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(data)
        mine = creation_of(NAME)
        ahead = fs.backend.ahead(NAME, file, mine)
        ahead.grown(len(data))
        salted = f"{NAME}~salt"
        assert isinstance(fs.backend.put(salted, FileBody(file, ahead), mine), Written)
        ahead.give_up()
    assert set(stub.objects) == {("bucket", salted.partition("/")[2])}
    stub.wait_for(Op.ABORT)


def test_what_was_interrupted_on_the_way_to_disk_is_not_created(
    fs: Any, stub: FaultStub, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted: list[int] = []

    def once(file: Any, view: memoryview) -> None:
        if not interrupted:
            interrupted.append(1)
            raise KeyboardInterrupt
        write_all(file, view)

    file = fs.open(NAME, "wb")
    file.write(data[: files.IN_MEMORY])
    with monkeypatch.context() as patch:
        patch.setattr("putifabsent.fsspec_plugin.files.write_all", once)
        with pytest.raises(KeyboardInterrupt):
            file.write(data[files.IN_MEMORY :])
    file.write(data[files.IN_MEMORY :])
    stub.wait_for(Op.CREATE_UPLOAD)
    with pytest.raises(KeyboardInterrupt, match="half a file"):
        file.close()
    stub.wait_for(Op.ABORT)
    assert OBJECT not in stub.objects


def test_what_can_not_go_out_early_is_written_once(
    fs: Any, stub: FaultStub, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more(_: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with fs.open(NAME, "wb") as file:
        with monkeypatch.context() as patch:
            patch.setattr(os, "dup", no_more)
            write(file, data)
        assert stub.ops.count(Op.CREATE_UPLOAD) == 0
    assert stub.objects[OBJECT].data == data


def test_threads_that_share_a_handle_write_one_after_the_other(fs: Any, stub: FaultStub) -> None:
    letters = [bytes([65 + number]) * PIECE for number in range(PIECES)]
    with fs.open(NAME, "wb") as file:
        threads = [threading.Thread(target=file.write, args=(piece,)) for piece in letters]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(pieces(stub.objects[OBJECT].data)) == letters
