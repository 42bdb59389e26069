"""Memory keeps the promises of a store, among threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from putifabsent.backends import memory
from putifabsent.backends.base import Created, Deleted, InMemory, Refused
from putifabsent.backends.memory import MemoryStore
from putifabsent.testing import PublishTests, StoreTests
from putifabsent.testing.asking import forked
from putifabsent.testing.races import creation_of
from tests.backends.memory_stores import Dictionary, OwnMemory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsspec.implementations.memory import MemoryFileSystem


@pytest.fixture
def fs() -> MemoryFileSystem:
    return OwnMemory()


class TestMemoryStore(PublishTests, StoreTests):
    @pytest.fixture
    def store(self, fs: MemoryFileSystem) -> MemoryStore:
        return MemoryStore(fs)

    @pytest.fixture
    def folder(self) -> str:
        return "/folder"

    @pytest.fixture
    def around(self, fs: MemoryFileSystem) -> Dictionary:
        return Dictionary(fs)


@pytest.fixture
def lock_held_by_another_thread() -> Iterator[None]:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with memory._lock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    yield
    done.set()
    thread.join()


@pytest.mark.usefixtures("lock_held_by_another_thread")
def test_a_fork_in_the_middle_of_another_thread_s_creation_does_not_hang(fs: MemoryFileSystem) -> None:
    store = MemoryStore(fs)

    def create_and_delete() -> bool:
        created = store.create("/f/name", InMemory(b"x"), creation_of("/f/name"))
        return isinstance(created, Created) and store.delete("/f/name") == Deleted()

    assert forked(create_and_delete) == 0


def test_a_created_file_is_the_filesystem_s_own(fs: MemoryFileSystem) -> None:
    MemoryStore(fs).create("/f/name", InMemory(b"text"), creation_of("/f/name"))
    assert fs.cat_file("/f/name") == b"text"
    assert fs.ls("/f", detail=False) == ["/f/name"]
    assert fs.info("/f/name")["size"] == 4
    with fs.open("/f/name", "rb") as file:
        assert file.read() == b"text"


def test_a_name_below_a_file_is_refused(fs: MemoryFileSystem) -> None:
    fs.pipe_file("/f/file", b"x")
    outcome = MemoryStore(fs).create("/f/file/name", InMemory(b"y"), creation_of("/f/file/name"))
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, NotADirectoryError)


def test_a_body_that_cannot_be_read_is_refused(fs: MemoryFileSystem) -> None:
    class Unreadable(InMemory):
        def whole(self) -> bytes:
            raise OSError("it became shorter")

    outcome = MemoryStore(fs).create("/f/name", Unreadable(b"y"), creation_of("/f/name"))
    assert isinstance(outcome, Refused)
    assert "shorter" in str(outcome.error)


def test_a_name_that_is_a_folder_is_refused(fs: MemoryFileSystem) -> None:
    fs.mkdir("/f/name")
    outcome = MemoryStore(fs).create("/f/name", InMemory(b"y"), creation_of("/f/name"))
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, IsADirectoryError)
