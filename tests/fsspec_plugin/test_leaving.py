"""An exception that leaves a block discards, also when the very object was met before."""

from __future__ import annotations

import io
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent.fsspec_plugin.files import GuardedFile

if TYPE_CHECKING:
    from tests.fsspec_plugin.grounds import Ground


class OnTheWayError(Exception):
    pass


@pytest.fixture
def failed() -> Future[bytes]:
    """Raises one exception object as often as it is asked."""
    future: Future[bytes] = Future()
    future.set_exception(OnTheWayError("the part failed"))
    return future


def in_a_block(name: str, future: Future[bytes]) -> None:
    with fsspec.open(f"piamemory://{name}", "wb") as file:
        file.write(b"half")
        file.write(future.result())


def in_finally(name: str, future: Future[bytes]) -> None:
    file: Any = fsspec.open(f"piamemory://{name}", "wb").open()
    try:
        file.write(b"half")
        file.write(future.result())
    finally:
        file.close()


@pytest.mark.parametrize("writes", [in_a_block, in_finally])
def test_an_exception_that_is_raised_again_discards(
    memory: Ground, failed: Future[bytes], writes: Any
) -> None:
    """A handler writes what it can of a failed task, and meets its exception once more."""

    def handles() -> None:
        try:
            failed.result()
        except OnTheWayError:
            writes(memory.log(), failed)

    with pytest.raises((OnTheWayError, OSError), match="the part failed"):
        handles()
    assert memory.files() == []


def test_a_handler_that_meets_nothing_else_creates(memory: Ground, failed: Future[bytes]) -> None:
    def handles() -> None:
        try:
            failed.result()
        except OnTheWayError:
            with fsspec.open(f"piamemory://{memory.log()}", "wb") as file:
                file.write(b"whole")
            raise

    with pytest.raises(OnTheWayError):
        handles()
    assert memory.read(memory.log()) == b"whole"


def by_its_block(file: Any) -> None:
    with file:
        pass


@pytest.fixture
def interruption(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """What is put into it is raised when bytes are about to be kept."""
    keep = GuardedFile._keep
    coming: list[BaseException] = []

    def interrupted(file: GuardedFile, view: memoryview) -> None:
        if coming:
            raise coming.pop()
        keep(file, view)

    monkeypatch.setattr(GuardedFile, "_keep", interrupted)
    return coming


@pytest.mark.parametrize("end", [by_its_block, lambda file: file.close()], ids=["block", "close"])
@pytest.mark.parametrize("compression", [None, "gzip", "bz2", "xz"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interruption_of_the_last_bytes_discards(
    memory: Ground, interruption: list[BaseException], compression: Any, end: Any, error: Any
) -> None:
    """Text and compressors have them until the file is closed."""
    file = memory.fs.open(memory.log(), "w", compression=compression)
    file.write("half")
    interruption.append(error())
    with pytest.raises(error):
        end(file)
    assert interruption == []
    file.close()
    assert memory.files() == []


def test_a_text_layer_of_the_caller_s_does_not_create_what_it_could_not_hand_down(
    memory: Ground, interruption: list[BaseException]
) -> None:
    file = io.TextIOWrapper(memory.fs.open(memory.log(), "wb"))
    file.write("half")
    interruption.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt, match="half a file"):
        file.close()
    assert memory.files() == []


def test_an_interruption_just_before_the_last_bytes_are_kept_discards(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line of the file's own has run yet."""

    def before(*_: object) -> int:
        raise KeyboardInterrupt

    file = memory.fs.open(memory.log(), "w")
    file.write("half")
    monkeypatch.setattr(GuardedFile, "write", before)
    with pytest.raises(KeyboardInterrupt):
        by_its_block(file)
    assert memory.files() == []
