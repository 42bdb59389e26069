"""The suite for putting and publishing can fail: each store here breaks one promise, and a test says so."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from putifabsent.backends.base import TOKEN_KEY, Absent, Created, Exists, InMemory, Listed, Refused, Written
from putifabsent.backends.memory import MemoryStore
from putifabsent.testing import Ask, LostAnswerTests, PublishTests
from putifabsent.testing.stores import WRITES
from tests.backends.memory_stores import Dictionary, OwnMemory, call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from putifabsent.backends.base import Body, Creation


class Liar(MemoryStore):
    """Memory that breaks one promise.

    Attributes
    ----------
    caught_by
        The tests that must say so.
    """

    caught_by: ClassVar[str]

    def __init__(self) -> None:
        super().__init__(OwnMemory())


# --- putting


class ForgetsWhoPut(Liar):
    caught_by = "test_what_is_put_is_there_with_its_creation"

    def put(self, name: str, body: Body, creation: Creation) -> Any:
        return super().put(name, body, creation._replace(writer="somebody"))


class KeepsWhatIsThere(Liar):
    caught_by = "test_a_put_overwrites"

    def put(self, name: str, body: Body, creation: Creation) -> Any:
        return Written() if name in self.fs.store else super().put(name, body, creation)


class PutsOnce(Liar):
    caught_by = "test_putting_twice_is_harmless"

    def put(self, name: str, body: Body, creation: Creation) -> Any:
        outcome = super().create(name, body, creation)
        return Written() if isinstance(outcome, Created) else Refused(FileExistsError(name))


class LeavesATemporary(Liar):
    caught_by = "test_a_put_beside_the_names_needs_no_state_folder"

    def put(self, name: str, body: Body, creation: Creation) -> Any:
        super().put(f"{name}.tmp", body, creation)
        return super().put(name, body, creation)


class ListsLate(Liar):
    caught_by = "test_what_is_put_is_listed_at_once"

    def list(self, folder: str) -> Any:
        listed = super().list(folder)
        return Listed(listed.entries[:-1]) if isinstance(listed, Listed) else listed


class PutsTheBeginning(Liar):
    caught_by = "test_a_large_body_is_put_whole"

    def put(self, name: str, body: Body, creation: Creation) -> Any:
        return super().put(name, InMemory(body.read(0, 2**16)), creation)


class DropsParameters(Liar):
    caught_by = "test_what_a_put_cannot_carry_is_refused"

    def put(self, name: str, body: Body, creation: Creation) -> Any:
        return super().put(name, body, creation._replace(extra={}))


class LosesUpdates(Liar):
    """Reads all there is, and writes it again with one thing more."""

    caught_by = "test_many_threads_put_different_keys"

    def __init__(self) -> None:
        super().__init__()
        self._read = threading.Barrier(32)

    def put(self, name: str, body: Body, creation: Creation) -> Any:
        copy = MemoryStore(OwnMemory())
        copy.fs.store = dict(self.fs.store)
        self._read.wait(30)
        copy.put(name, body, creation)
        self.fs.store = copy.fs.store
        return Written()


# --- publishing


class SignsAsThePublisher(Liar):
    caught_by = "test_what_is_published_is_the_source_s"

    def publish(self, source: str, name: str, creation: Creation) -> Any:
        outcome = super().publish(source, name, creation)
        if name in self.fs.store:
            setattr(self.fs.store[name], TOKEN_KEY, creation.token)
        return outcome


class MovesTheSource(Liar):
    caught_by = "test_publishing_twice_is_harmless"

    def publish(self, source: str, name: str, creation: Creation) -> Any:
        outcome = super().publish(source, name, creation)
        self.fs.store.pop(source, None)
        return outcome


class SaysExistsAndOverwrites(Liar):
    caught_by = "test_publishing_over_another_object"

    def publish(self, source: str, name: str, creation: Creation) -> Any:
        was_there = name in self.fs.store
        outcome = super().publish(source, name, creation)
        return Exists() if was_there else outcome


class PublishesNothing(Liar):
    """Of a missing source it makes an empty object."""

    caught_by = "test_a_missing_source_is_absent_and_nothing_is_written"

    def publish(self, source: str, name: str, creation: Creation) -> Any:
        outcome = super().publish(source, name, creation)
        if outcome == Absent():
            self.put(name, InMemory(b""), creation)
        return outcome


class Links(Liar):
    """What is published is only another name of the source."""

    caught_by = "test_a_published_name_outlives_its_source"

    def __init__(self) -> None:
        super().__init__()
        self._links: dict[str, str] = {}

    def publish(self, source: str, name: str, creation: Creation) -> Any:
        self._links[source] = name
        return super().publish(source, name, creation)

    def delete(self, name: str, version: str | None = None) -> Any:
        if name in self._links:
            self.fs.store.pop(self._links[name], None)
        return super().delete(name, version)


class PublishesTheBeginning(Liar):
    caught_by = "test_a_large_body_is_published_whole"

    def publish(self, source: str, name: str, creation: Creation) -> Any:
        outcome = super().publish(source, name, creation)
        self.fs.store[name].truncate(2**16)
        return outcome


class CreatesOverWhatIsPublished(Liar):
    caught_by = "test_a_creation_meets_what_is_published"

    def create(self, name: str, body: Body, creation: Creation) -> Any:
        self.fs.store.pop(name, None)
        return super().create(name, body, creation)


class CopiesWhatIsBeingDeleted(Liar):
    """Reads the source first, and writes the name then; a deletion may come in between."""

    caught_by = "test_a_slow_publisher_does_not_bring_back_what_was_deleted"

    def __init__(self) -> None:
        super().__init__()
        self._deleted: dict[str, threading.Event] = {}

    def publish(self, source: str, name: str, creation: Creation) -> Any:
        got = self.get(source)
        if got == Absent():
            return got
        self._deleted.setdefault(name, threading.Event()).wait(1)
        return self.put(name, InMemory(got.data), creation)  # type: ignore[union-attr]

    def delete(self, name: str, version: str | None = None) -> Any:
        outcome = super().delete(name, version)
        self._deleted.setdefault(name, threading.Event()).set()
        return outcome


def every_liar() -> Iterator[type[Liar]]:
    yield from Liar.__subclasses__()


@pytest.mark.parametrize("liar", list(every_liar()))
def test_the_suite_finds_out_a_store_that_breaks_a_promise(liar: type[Liar]) -> None:
    store = liar()
    fixtures = {"ask": Ask(store, "sync"), "around": Dictionary(store.fs), "folder": "/f", "body": b"body"}
    with pytest.raises(AssertionError):
        call(getattr(PublishTests(), liar.caught_by), fixtures)


def test_each_promise_has_a_store_that_breaks_it() -> None:
    tests = {name for name in vars(PublishTests) if name.startswith("test_")}
    assert {liar.caught_by for liar in every_liar()} == tests


@pytest.mark.parametrize("lie", [Written(), Refused(OSError()), Absent()], ids=repr)
def test_the_suite_finds_out_a_store_that_guesses_what_was_lost(lie: Any) -> None:
    class Guesses(Liar):
        caught_by = ""

        def put(self, name: str, body: Body, creation: Creation) -> Any:
            super().put(name, body, creation)
            return lie

        def publish(self, source: str, name: str, creation: Creation) -> Any:
            super().publish(source, name, creation)
            return lie

    honest, guessing = MemoryStore(OwnMemory()), Guesses()
    guessing.fs = honest.fs
    for write in ("put", "publication"):
        with pytest.raises(AssertionError):
            LostAnswerTests().test_an_applied_write_without_an_answer_may_have_happened(
                Ask(honest, "sync"), guessing, Dictionary(honest.fs), "/f/name", WRITES[write]
            )
