"""The conformance suite can fail: each store here breaks one promise, and a test of the suite says so."""

from __future__ import annotations

import os
import threading
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from putifabsent.backends.base import (
    Absent,
    Created,
    Deleted,
    Entry,
    Exists,
    Found,
    Got,
    InMemory,
    Listed,
    Refused,
    Staged,
)
from putifabsent.backends.local import LocalStore
from putifabsent.backends.memory import MemoryStore
from putifabsent.shim.requests import perform
from putifabsent.testing import Ask, LostAnswerTests, SharedStoreTests, StoreTests
from putifabsent.testing.asking import ThroughTheStore
from putifabsent.testing.stores import WRITES
from tests.backends.memory_stores import Dictionary, call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from putifabsent.backends.base import Body, Creation


class Liar(MemoryStore):
    """Memory that breaks one promise.

    Attributes
    ----------
    caught_by
        The test that must say so.
    arguments
        What that test takes beside the fixtures.
    """

    caught_by: ClassVar[str]
    arguments: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        fs = MemoryFileSystem(skip_instance_cache=True)
        fs.store, fs.pseudo_dirs = {}, [""]
        super().__init__(fs)


class Overwrites(Liar):
    caught_by = "test_a_taken_name_is_not_written"

    def create(self, name: str, body: Body, creation: Creation) -> Any:
        self.delete(name)
        return super().create(name, body, creation)


class OverwritesWhatHasNoToken(Liar):
    caught_by = "test_a_name_made_by_others_is_not_written"

    def create(self, name: str, body: Body, creation: Creation) -> Any:
        seen = self.head(name)
        if isinstance(seen, Found) and seen.holder.token is None:
            self.delete(name)
        return super().create(name, body, creation)


class LooksFirst(Liar):
    """Right one at a time; in a race, all look before anyone writes."""

    caught_by = "test_of_many_threads_one_creates_each_name"

    def __init__(self) -> None:
        super().__init__()
        self._looked = threading.Barrier(16)

    def create(self, name: str, body: Body, creation: Creation) -> Any:
        if name in self.fs.store:
            return Exists()
        if name.startswith("/f/"):
            with _broken_is_fine():
                self._looked.wait(1)
        self.delete(name)
        return super().create(name, body, creation)


class SucceedsTwice(Liar):
    caught_by = "test_a_creation_sent_again_finds_itself"

    def create(self, name: str, body: Body, creation: Creation) -> Any:
        seen = self.head(name)
        if isinstance(seen, Found) and seen.holder.token == creation.token:
            return Created(seen.holder.version)
        return super().create(name, body, creation)


class ForgetsTheToken(Liar):
    caught_by = "test_a_creation_is_kept_with_its_name"

    def create(self, name: str, body: Body, creation: Creation) -> Any:
        return super().create(name, body, creation._replace(token=None))  # type: ignore[arg-type]


class LosesTheEnd(Liar):
    caught_by = "test_a_large_body_is_created_whole"

    def create(self, name: str, body: Body, creation: Creation) -> Any:
        return super().create(name, InMemory(body.read(0, 2**16)), creation)


class EmptyIsNothing(Liar):
    caught_by = "test_a_created_name_holds_its_bytes"
    arguments: ClassVar[dict[str, Any]] = {"body": b""}

    def create(self, name: str, body: Body, creation: Creation) -> Any:
        return super().create(name, body, creation) if body.size else Created()


class DropsParameters(Liar):
    caught_by = "test_what_it_cannot_carry_is_refused"

    def create(self, name: str, body: Body, creation: Creation) -> Any:
        return super().create(name, body, creation._replace(extra={}))


class Aliases(Liar):
    caught_by = "test_no_name_is_taken_for_another"

    def create(self, name: str, body: Body, creation: Creation) -> Any:
        return super().create(name.rstrip("/"), body, creation)


class AbsentIsRefused(Liar):
    caught_by = "test_an_absent_name_is_absent"

    def head(self, name: str) -> Any:
        seen = super().head(name)
        return Refused(FileNotFoundError(name)) if seen == Absent() else seen


class ListsDeeper(Liar):
    caught_by = "test_a_listing_has_the_files_of_its_folder_alone"

    def list(self, folder: str) -> Any:
        found = [super(ListsDeeper, self).list(f) for f in (folder, f"{folder}/deeper")]
        return Listed(
            tuple(entry for listed in found if isinstance(listed, Listed) for entry in listed.entries)
        )


class ListsOnePage(Liar):
    caught_by = "test_a_listing_and_a_walk_of_several_pages_are_whole"

    def list(self, folder: str) -> Any:
        return _first_page(super().list(folder))


class WalksOnePage(Liar):
    caught_by = "test_a_listing_and_a_walk_of_several_pages_are_whole"

    def walk(self, folder: str) -> Any:
        return _first_page(super().walk(folder))


class ListsThePresentTime(Liar):
    caught_by = "test_a_listing_has_the_files_of_its_folder_alone"

    def list(self, folder: str) -> Any:
        now = datetime.now(timezone.utc)
        listed = super().list(folder)
        return Listed(tuple(Entry(each.name, now) for each in listed.entries))  # type: ignore[union-attr]


class ListsLocalTime(Liar):
    caught_by = "test_a_listing_has_the_files_of_its_folder_alone"

    def list(self, folder: str) -> Any:
        shift = timedelta(hours=2)
        listed = super().list(folder)
        return Listed(
            tuple(Entry(each.name, each.created + shift) for each in listed.entries)  # type: ignore[union-attr]
        )


class WalksOneFolder(Liar):
    caught_by = "test_a_walk_has_all_files_below_its_folder"

    def walk(self, folder: str) -> Any:
        return super().list(folder)


class MustHaveFolders(Liar):
    caught_by = "test_a_folder_that_is_not_there_lists_nothing"

    def list(self, folder: str) -> Any:
        listed = super().list(folder)
        return listed if listed != Listed(()) else Refused(FileNotFoundError(folder))


class DeletesAnyVersion(Liar):
    caught_by = "test_a_deletion_by_version_spares_a_later_object"

    def delete(self, name: str, version: str | None = None) -> Any:
        return super().delete(name)


class KeepsTheDead(Liar):
    caught_by = "test_a_deleted_name_is_free_again"

    def delete(self, name: str, version: str | None = None) -> Any:
        return Deleted()


class ShowsWhatIsStaged(Liar):
    caught_by = "test_staged_bytes_cannot_be_read"
    arguments: ClassVar[dict[str, Any]] = {"body": b"x"}

    def stage(self, name: str, body: Body, creation: Creation) -> Any:
        self.put(name, body, creation)
        return super().stage(name, body, creation)


class CompletesOverOthers(Liar):
    caught_by = "test_of_two_uploads_for_a_name_one_is_published"

    def complete(self, staged: Staged) -> Any:
        self.delete(staged.name)
        return super().complete(staged)


class DiscardsNothing(Liar):
    caught_by = "test_a_discarded_upload_cannot_be_completed"

    def discard(self, staged: Staged) -> None:
        pass


class DiscardsWhatIsPublished(Liar):
    caught_by = "test_an_upload_is_published_once"

    def discard(self, staged: Staged) -> None:
        self.delete(staged.name)


class BringsBack(Liar):
    caught_by = "test_an_upload_is_published_once"

    def complete(self, staged: Staged) -> Any:
        return super().complete(Staged(staged.name, list(staged.upload)))


class CopiesTheToken(Liar):
    caught_by = "test_a_copy_is_staged_whole"
    arguments: ClassVar[dict[str, Any]] = {"body": b"x"}

    def stage_copy(self, source: str, size: int, version: str | None, name: str, creation: Creation) -> Any:
        seen = self.head(source)
        token = seen.holder.token if isinstance(seen, Found) else None
        return super().stage_copy(source, size, version, name, creation._replace(token=token or ""))


class CopiesWhatIsThereNow(Liar):
    caught_by = "test_another_object_is_not_copied_for_the_requested_one"

    def stage_copy(self, source: str, size: int, version: str | None, name: str, creation: Creation) -> Any:
        return super().stage_copy(source, size, None, name, creation)


class StagesNothingForAnAbsentSource(Liar):
    caught_by = "test_an_absent_source_is_absent"

    def stage_copy(self, source: str, size: int, version: str | None, name: str, creation: Creation) -> Any:
        staged = super().stage_copy(source, size, version, name, creation)
        return self.stage(name, InMemory(b""), creation) if staged == Absent() else staged


class ReadsTooMuch(Liar):
    caught_by = "test_get_returns_what_is_there"
    arguments: ClassVar[dict[str, Any]] = {"body": b"x"}

    def get(self, name: str) -> Any:
        got = super().get(name)
        return Got(got.data + b"\n") if isinstance(got, Got) else got


class NotAfterAFork(Liar):
    caught_by = "test_a_forked_child_can_create_and_so_can_its_parent"

    def __init__(self) -> None:
        super().__init__()
        self._pid = os.getpid()

    def create(self, name: str, body: Body, creation: Creation) -> Any:
        assert os.getpid() == self._pid, "this store is not fork-safe"
        return super().create(name, body, creation)


def _first_page(listed: Any) -> Any:
    return Listed(tuple(sorted(listed.entries)[:1000]))


class _broken_is_fine:  # noqa: N801 - a context manager is used like a function
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is threading.BrokenBarrierError


def every_liar() -> Iterator[type[Liar]]:
    yield from Liar.__subclasses__()


@pytest.mark.parametrize("liar", list(every_liar()))
def test_the_suite_finds_out_a_store_that_breaks_a_promise(
    liar: type[Liar], capfd: pytest.CaptureFixture[str]
) -> None:
    store = liar()
    fixtures = {"store": store, "ask": Ask(store, "sync"), "around": Dictionary(store.fs)}
    fixtures |= {"folder": "/f", "name": "/f/name"}
    with pytest.raises((AssertionError, AttributeError)):
        call(getattr(StoreTests(), liar.caught_by), {**fixtures, **liar.arguments})
    capfd.readouterr()  # what a forked child says of its failure is no news here


def test_each_promise_has_a_store_that_breaks_it() -> None:
    tests = {name for name in vars(StoreTests) if name.startswith("test_")}
    # It asks for cancellation in the middle of a step that memory takes at once; S3's own tests failed it.
    others = {"test_a_cancelled_creation_is_whole_or_absent", "test_deleting_an_absent_name_is_done"}
    assert {liar.caught_by for liar in every_liar()} == tests - others


# --- stores that processes share


class WritesInPlace(LocalStore):
    """Creates the name first, and writes its bytes then."""

    def create(self, name: str, body: Body, creation: Creation) -> Any:
        try:
            file = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return Exists()
        os.setxattr(file, "user.putifabsenttoken", creation.token.encode())
        os.write(file, body.whole())
        os.close(file)
        return Created()


class LeavesALock(LocalStore):
    """Takes a lock that nobody removes for the dead."""

    def create(self, name: str, body: Body, creation: Creation) -> Any:
        lock = f"{name}.lock"
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return Refused(BlockingIOError(name))
        outcome = super().create(name, body, creation)
        os.unlink(lock)  # noqa: PTH108 - as the store does
        return outcome


@pytest.mark.parametrize("liar", [WritesInPlace, LeavesALock])
def test_the_suite_finds_out_what_a_death_leaves_behind(liar: type[LocalStore], tmp_path: Path) -> None:
    store = liar()
    suite = SharedStoreTests()
    with pytest.raises(AssertionError):
        suite.test_a_writer_killed_at_any_step_leaves_all_or_nothing(
            liar, store, ThroughTheStore(store), str(tmp_path), perform
        )


# --- lost answers


@pytest.mark.parametrize("lie", [Created(), Exists(), Refused(OSError())], ids=repr)
def test_the_suite_finds_out_a_store_that_guesses_what_was_lost(lie: Any) -> None:
    class Guesses(Liar):
        def create(self, name: str, body: Body, creation: Creation) -> Any:
            super().create(name, body, creation)
            return lie

    honest, guessing = Liar(), Guesses()
    guessing.fs = honest.fs
    with pytest.raises(AssertionError):
        LostAnswerTests().test_an_applied_write_without_an_answer_may_have_happened(
            Ask(honest, "sync"), guessing, ThroughTheStore(honest), "/f/name", WRITES["creation"]
        )


@pytest.mark.parametrize("lie", [Created(), Exists(), Refused(OSError()), Absent()], ids=repr)
@pytest.mark.parametrize("write", WRITES)
def test_the_suite_finds_out_a_store_that_guesses_what_never_arrived(lie: Any, write: str) -> None:
    honest, deaf = Liar(), Liar()
    deaf.fs = honest.fs
    for method in ("create", "complete", "put", "publish"):
        setattr(deaf, method, lambda *_: lie)
    with pytest.raises(AssertionError):
        LostAnswerTests().test_a_write_that_never_arrived_may_have_happened(
            Ask(honest, "sync"), deaf, ThroughTheStore(honest), "/f/name", WRITES[write]
        )
