"""A file is created whole, when it is closed, or not at all."""

from __future__ import annotations

import array
import contextlib
import io
import pickle
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa
import pytest
from fsspec.core import OpenFile

from putifabsent import NameTaken
from putifabsent.fsspec_plugin import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.fsspec_plugin.grounds import Ground

    Opening = Callable[[Ground, str], Any]

MIB = 2**20


class OnTheWayError(Exception):
    """Whatever goes wrong while a file is being written."""


def opened(ground: Ground, name: str) -> Any:
    return ground.fs.open(name, "wb")


def opened_for_reading_back(ground: Ground, name: str) -> Any:
    return ground.fs.open(name, "w+b")


def opened_for_text(ground: Ground, name: str) -> Any:
    return ground.fs.open(name, "w")


def opened_compressed(ground: Ground, name: str) -> Any:
    return ground.fs.open(name, "wb", compression="gzip")


def opened_compressed_text(ground: Ground, name: str) -> Any:
    return ground.fs.open(name, "w", compression="gzip")


def addressed(ground: Ground, name: str) -> Any:
    return open_file(ground, name, "wb")


def addressed_for_text(ground: Ground, name: str) -> Any:
    return open_file(ground, name, "w")


def addressed_compressed(ground: Ground, name: str) -> Any:
    return open_file(ground, name, "wb", compression="gzip")


def addressed_compressed_text(ground: Ground, name: str) -> Any:
    return open_file(ground, name, "w", compression="gzip")


def open_file(ground: Ground, name: str, mode: str, **options: Any) -> Any:
    return fsspec.open(ground.url(name), mode, arbiter="native", **ground.options, **options)


FILES: list[Opening] = [
    opened, opened_for_reading_back, opened_for_text, opened_compressed, opened_compressed_text,
]  # fmt: skip
ADDRESSES: list[Opening] = [
    addressed, addressed_for_text, addressed_compressed, addressed_compressed_text,
]  # fmt: skip


def fail() -> None:
    raise OnTheWayError


def write(file: Any, text: str) -> None:
    file.write(text if isinstance(file, io.TextIOBase) else text.encode())


@pytest.fixture(autouse=True)
def nothing_is_lost_in_a_destructor(collect: Callable[[], int]) -> Iterator[None]:
    """Fail a test whose dropped objects raise where nobody hears it."""
    heard: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, heard.append
    yield
    collect()
    sys.unraisablehook = before
    assert not heard


# --- an exception on the way --------------------------------------------------------------------------------


@pytest.mark.parametrize("opening", FILES + ADDRESSES)
def test_an_exception_in_the_block_discards(
    ground: Ground, opening: Opening, collect: Callable[[], int]
) -> None:
    def writes() -> None:
        with opening(ground, ground.log()) as file:
            write(file, "half")
            raise OnTheWayError

    with pytest.raises(OnTheWayError):
        writes()
    collect()
    assert ground.files() == []


@pytest.mark.parametrize("opening", FILES + ADDRESSES)
def test_leaving_the_block_creates(memory: Ground, opening: Opening) -> None:
    with opening(memory, memory.log()) as file:
        write(file, "whole")
        assert memory.files() == []
    compression = "gzip" if "compressed" in opening.__name__ else None
    with memory.fs.open(memory.log(), "rb", compression=compression) as file:
        assert file.read() == b"whole"


@pytest.mark.parametrize("opening", FILES + ADDRESSES)
def test_an_exception_in_an_outer_block_discards(memory: Ground, opening: Opening) -> None:
    def writes() -> None:
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(opening(memory, memory.log()))
            write(file, "half")
            with open_file(memory, memory.log(1), "wb") as inner:
                inner.write(b"whole")
            raise OnTheWayError

    with pytest.raises(OnTheWayError):
        writes()
    assert memory.files() == [memory.log(1).removeprefix(memory.folder + "/")]


@pytest.mark.parametrize("opening", FILES + ADDRESSES)
def test_closing_in_somebody_elses_block_discards(memory: Ground, opening: Opening) -> None:
    class Holder:
        """Like pandas' handles and pyarrow's writers: closes what it was given, and says nothing."""

        def __init__(self, file: Any) -> None:
            self.file = file

        def __enter__(self) -> Any:
            return self.file

        def __exit__(self, *error: object) -> None:
            self.file.close()

    @contextlib.contextmanager
    def held(file: Any) -> Iterator[Any]:
        try:
            yield file
        finally:
            file.close()

    def entered(name: str) -> Any:
        file = opening(memory, name)
        return file.open() if isinstance(file, OpenFile) else file

    def writes(block: Callable[[Any], Any], name: str) -> None:
        with block(entered(name)) as file:
            write(file, "half")
            raise OnTheWayError

    for block in (Holder, held, contextlib.closing):
        with pytest.raises(OnTheWayError):
            writes(block, memory.log())
    assert memory.files() == []


def test_an_exception_that_ended_before_a_file_was_opened_does_not_discard(memory: Ground) -> None:
    try:
        fail()
    except OnTheWayError:
        with memory.fs.open(memory.log(0), "wb") as file:
            file.write(b"whole")
        file = memory.fs.open(memory.log(1), "wb")
        file.write(b"whole")
        file.close()
        with open_file(memory, memory.log(2), "w") as file:
            file.write("whole")
    assert [memory.read(memory.log(number)) for number in range(3)] == [b"whole"] * 3


def test_an_exception_that_was_handled_on_the_way_does_not_discard(memory: Ground) -> None:
    with memory.fs.open(memory.log(), "wb") as file:
        with contextlib.suppress(OnTheWayError):
            raise OnTheWayError
        file.write(b"whole")
    assert memory.read(memory.log()) == b"whole"


@pytest.mark.parametrize("opening", FILES)
def test_a_file_that_is_closed_while_an_exception_is_handled_is_discarded_and_the_exception_goes_on(
    memory: Ground, opening: Opening, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether the bytes are complete can't be known: a half file under a guarded name would stay."""

    def writes(file: Any) -> None:
        try:
            raise OnTheWayError("broken pipe")
        finally:
            file.close()

    def goes_on(file: Any) -> None:
        try:
            fail()
        except OnTheWayError:
            file.close()

    def journals(file: Any) -> None:
        with Journal(file):
            raise OnTheWayError

    def calls_back(file: Any) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(file.close)
            raise OnTheWayError

    for act in (writes, goes_on, journals, calls_back):
        file = opening(memory, memory.log())
        write(file, "half")
        with pytest.raises(OnTheWayError):
            act(file)
        [told] = caplog.records
        caplog.clear()
        assert told.levelname == "WARNING"
        assert told.getMessage().startswith(f"{memory.log()}: closed while OnTheWayError was being handled")
        assert file.closed
        assert memory.files() == []


class Journal:
    """Goes on after an exception, whose end it has written down."""

    def __init__(self, file: Any, *, by_a_block: bool = False) -> None:
        self._file = file
        self._by_a_block = by_a_block

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, *error: object) -> bool:
        if self._by_a_block:
            with self._file:
                write(self._file, "aborted")
        else:
            write(self._file, "aborted")
            self._file.close()
        return True


@pytest.mark.parametrize("opening", FILES)
def test_a_block_that_ends_well_creates_whatever_is_being_handled(memory: Ground, opening: Opening) -> None:
    file = opening(memory, memory.log())
    write(file, "work, ")
    with Journal(file, by_a_block=True):
        raise OnTheWayError
    compression = "gzip" if "compressed" in opening.__name__ else None
    with memory.fs.open(memory.log(), "rb", compression=compression) as written:
        assert written.read() == b"work, aborted"


@pytest.mark.parametrize("ending", [StopIteration(), GeneratorExit(), SystemExit(0), FileExistsError("x")])
def test_an_ending_that_nobody_hears_does_not_hide_that_a_file_was_discarded(
    memory: Ground, ending: BaseException
) -> None:
    file = memory.fs.open(memory.log(), "wb")
    try:
        raise ending
    except type(ending):
        with pytest.raises(OSError, match="discarded") as caught:
            file.close()
    assert caught.value.__cause__ is ending
    assert not isinstance(caught.value, FileExistsError)
    assert memory.files() == []


@pytest.mark.parametrize("opening", FILES)
def test_an_explicit_close_creates_wherever_it_is_called(memory: Ground, opening: Opening) -> None:
    class Closing:
        """Whatever it is called by, it closes a complete file."""

        def __init__(self, name: str) -> None:
            self.file = opening(memory, name)
            write(self.file, "whole")

        def __enter__(self) -> None:
            pass

        def __exit__(self, *error: object) -> None:
            self.file.close()

        def __del__(self) -> None:
            self.file.close()

    names = [memory.log(number) for number in range(3)]
    with Closing(names[0]):
        pass
    dropped = Closing(names[1])
    del dropped
    with contextlib.ExitStack() as stack:
        stack.callback(Closing(names[2]).file.close)
    assert [memory.is_there(name) for name in names] == [True] * 3


def test_a_zip_archive_that_breaks_is_discarded(memory: Ground) -> None:
    def writes() -> None:
        with memory.fs.open(memory.log(), "wb") as file, zipfile.ZipFile(file, "w") as archive:
            archive.writestr("member", "half")
            raise OnTheWayError

    with pytest.raises(OnTheWayError):
        writes()
    assert memory.files() == []
    with memory.fs.open(memory.log(), "wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("member", "whole")
    with memory.fs.open(memory.log()) as file, zipfile.ZipFile(file) as archive:
        assert archive.read("member") == b"whole"


def test_a_compressed_zip_archive_that_breaks_is_discarded_without_a_word(memory: Ground) -> None:
    def writes() -> None:
        with memory.fs.open(memory.log(), "wb", compression="zip") as file:
            file.write(b"half")
            raise OnTheWayError

    with pytest.raises(OnTheWayError):
        writes()
    assert memory.files() == []


# --- a dropped handle ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("opening", FILES)
def test_a_dropped_handle_discards(memory: Ground, opening: Opening, collect: Callable[[], int]) -> None:
    file = opening(memory, memory.log())
    write(file, "half")
    del file
    collect()
    assert memory.files() == []


@pytest.mark.parametrize("opening", ADDRESSES)
def test_a_dropped_open_file_discards(ground: Ground, opening: Opening, collect: Callable[[], int]) -> None:
    file = opening(ground, ground.log()).open()
    write(file, "half")
    del file
    collect()
    assert ground.files() == []


@pytest.mark.parametrize("opening", FILES)
def test_a_handle_dropped_in_a_cycle_discards(
    memory: Ground, opening: Opening, collect: Callable[[], int]
) -> None:
    file = opening(memory, memory.log())
    write(file, "half")
    cycle: list[Any] = [file]
    cycle.append(cycle)
    del file, cycle
    collect()
    assert memory.files() == []


def test_a_closed_handle_may_be_dropped(memory: Ground, collect: Callable[[], int]) -> None:
    for number, opening in enumerate(FILES):
        file = opening(memory, memory.log(number))
        write(file, "whole")
        file.close()
        del file
        collect()
        assert memory.is_there(memory.log(number))


# --- what a file can do -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, files.IN_MEMORY, files.IN_MEMORY + 1, files.IN_MEMORY + 3 * MIB])
def test_bytes_that_go_to_disk_on_the_way_arrive(memory: Ground, size: int) -> None:
    body = (bytes(range(251)) * (size // 251 + 1))[:size]
    with memory.fs.open(memory.log(), "wb") as file:
        for start in range(0, size, MIB):
            assert file.write(body[start : start + MIB]) == len(body[start : start + MIB])
        assert file.tell() == size
    assert memory.read(memory.log()) == body


def test_a_file_on_disk_is_still_a_file(memory: Ground) -> None:
    with memory.fs.open(memory.log(), "w+b") as file:
        file.write(b"x" * files.IN_MEMORY)
        file.seek(5)
        file.write(b"y" * files.IN_MEMORY)
        file.seek(3)
        assert file.read(4) == b"xxyy"
        file.truncate(6)
        assert file.seek(0, io.SEEK_END) == 6
    assert memory.read(memory.log()) == b"xxxxxy"


def test_a_file_grows_where_it_is_cut_behind_its_end(memory: Ground, tmp_path: Path) -> None:
    def write_to(file: Any) -> tuple[int, int, int]:
        with file:
            file.write(b"abc")
            grown = file.truncate(6), file.tell()
            file.seek(8)
            return *grown, file.truncate()

    plain = tmp_path / "plain"
    assert write_to(memory.fs.open(memory.log(), "wb")) == write_to(plain.open("wb")) == (6, 3, 8)
    assert memory.read(memory.log()) == plain.read_bytes()


def test_a_large_file_that_is_discarded_leaves_nothing(
    memory: Ground, tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def writes() -> None:
        with memory.fs.open(memory.log(), "wb") as file:
            file.write(b"x" * (files.IN_MEMORY + 1))
            raise OnTheWayError

    with pytest.raises(OnTheWayError):
        writes()
    assert memory.files() == []
    assert list(tmp_path.iterdir()) == []


def test_whatever_holds_bytes_can_be_written(ground: Ground) -> None:
    numbers = array.array("i", [1, 2, 3])
    pieces: list[Any] = [
        b"bytes", bytearray(b"array"), memoryview(b"a view")[2:], memoryview(numbers), numbers,
        pa.py_buffer(b"arrow"), memoryview(b"abcdef").cast("B", (2, 3)), b"", array.array("d"),
    ]  # fmt: skip
    expected = b"".join(bytes(memoryview(piece).tobytes()) for piece in pieces)
    with ground.fs.open(ground.log(), "wb") as file:
        assert [file.write(piece) for piece in pieces] == [memoryview(piece).nbytes for piece in pieces]
        file.writelines(pieces)
    assert ground.read(ground.log()) == expected * 2


def test_a_buffer_may_change_after_it_was_written(ground: Ground) -> None:
    buffer = bytearray(b"before")
    with ground.fs.open(ground.log(), "wb") as file:
        file.write(buffer)
        buffer[:] = b"after!"
    ground.fs.pipe_file(ground.log(1), buffer)
    buffer[:] = b"later!"
    assert (ground.read(ground.log()), ground.read(ground.log(1))) == (b"before", b"after!")


def test_text_is_not_taken_for_bytes(memory: Ground) -> None:
    with memory.fs.open(memory.log(), "wb") as file:
        with pytest.raises(TypeError):
            file.write("text")
        file.write(b"bytes")
    assert memory.read(memory.log()) == b"bytes"


def test_a_file_says_what_it_can_do(memory: Ground) -> None:
    with memory.fs.open(memory.log(), "wb") as file:
        assert (file.readable(), file.writable(), file.seekable(), file.closed) == (False, True, True, False)
        assert (file.name, file.mode) == (memory.log(), "wb")
        file.flush()
        for read in (file.read, file.readline, lambda: file.readinto(bytearray(1))):
            with pytest.raises(io.UnsupportedOperation):
                read()
    assert file.closed
    for act in (lambda: file.write(b"x"), file.tell, lambda: file.seek(0), file.truncate):
        with pytest.raises(ValueError, match="closed"):
            act()


def test_lines_can_be_read_back(memory: Ground) -> None:
    with memory.fs.open(memory.log(), "w+b") as file:
        file.write(b"one\ntwo\n")
        file.seek(0)
        assert file.readline() == b"one\n"
        assert list(file) == [b"two\n"]
        file.seek(0)
        into = bytearray(3)
        assert file.readinto(into) == 3
        assert into == b"one"


def test_text_can_be_read_back(memory: Ground) -> None:
    with memory.fs.open(memory.log(), "w+") as file:
        file.write("one\ntwo\n")
        file.seek(0)
        assert file.readline() == "one\n"
        assert file.read() == "two\n"


@pytest.mark.parametrize("opening", FILES)
def test_a_handle_that_is_closed_in_its_block_creates_once(memory: Ground, opening: Opening) -> None:
    with opening(memory, memory.log()) as file:
        write(file, "whole")
        file.close()
    assert memory.is_there(memory.log())


def test_closing_twice_creates_once(ground: Ground) -> None:
    file = ground.fs.open(ground.log(), "wb")
    file.close()
    ground.fs.rm(ground.log())
    file.close()
    file.commit()
    assert not ground.is_there(ground.log())


# --- commit and discard -------------------------------------------------------------------------------------


def test_a_file_that_does_not_commit_by_itself_waits_for_commit(ground: Ground) -> None:
    file = ground.fs.open(ground.log(), "wb", autocommit=False)
    file.write(b"whole")
    file.close()
    assert ground.files() == []
    file.commit()
    assert ground.read(ground.log()) == b"whole"
    file = ground.fs.open(ground.log(1), "wb", autocommit=False)
    file.close()
    file.discard()
    file.commit()
    assert not ground.is_there(ground.log(1))


def test_a_commit_of_a_taken_name_is_told(ground: Ground) -> None:
    file = ground.fs.open(ground.log(), "wb", autocommit=False)
    file.close()
    ground.write(ground.log(), b"the winner's")
    with pytest.raises(NameTaken):
        file.commit()
    assert ground.read(ground.log()) == b"the winner's"


def test_a_discarded_file_is_closed(memory: Ground) -> None:
    file = memory.fs.open(memory.log(), "wb")
    file.discard()
    file.discard()
    assert file.closed
    with pytest.raises(ValueError, match="closed"):
        file.write(b"x")
    assert memory.files() == []


def test_what_is_still_open_when_its_transaction_ends_is_not_created(memory: Ground) -> None:
    """Its last bytes may still be in a text layer above."""

    def writes() -> None:
        with memory.fs.transaction:
            file = memory.fs.open(memory.log(), "w")
            file.write("half")

    with pytest.raises(ValueError, match="before it was closed"):
        writes()
    assert memory.files() == []


# --- pickles ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opening", ADDRESSES)
def test_an_open_file_pickles(memory: Ground, opening: Opening) -> None:
    with pickle.loads(pickle.dumps(opening(memory, memory.log()))) as file:
        write(file, "whole")
    with pytest.raises(NameTaken), pickle.loads(pickle.dumps(opening(memory, memory.log()))) as file:
        write(file, "again")
    compression = "gzip" if "compressed" in opening.__name__ else None
    with memory.fs.open(memory.log(), "rb", compression=compression) as file:
        assert file.read() == b"whole"


def test_a_missing_folder_on_disk_is_told_when_the_file_is_opened(local: Ground) -> None:
    name = local.name("missing/_delta_log/00000000000000000000.json")
    with pytest.raises(FileNotFoundError):
        local.fs.open(name, "wb")
    with local.mount(auto_mkdir=True).open(name, "wb") as file:
        file.write(b"{}")
    assert local.read(name) == b"{}"
