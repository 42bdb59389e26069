"""An exception that leaves a block discards, also when the very object was met before."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

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
