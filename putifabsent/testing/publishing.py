"""Suites for puts and publications, which arbiters beside the store build on."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import pytest

from putifabsent.backends.base import (
    STATE_FOLDER,
    Absent,
    Creation,
    Deleted,
    Exists,
    Holder,
    InMemory,
    Listed,
    Maybe,
    Refused,
    TryAgain,
    Written,
)
from putifabsent.shim.requests import Create, Delete, Get, Head, List, Publish, Put
from putifabsent.testing.asking import Around, Ask, created, held, together
from putifabsent.testing.races import creation_of
from putifabsent.testing.stores import BODIES


class PublishTests:
    """What ``put`` and ``publish`` promise; goes with ``StoreTests``."""

    republishes: ClassVar[bool] = True
    """Whether the store publishes over another object; else it must say that the name exists."""
    large: ClassVar[int] = 2**20
    """Bytes, as for ``StoreTests``. One byte more than the store's ``largest_put`` is tested as well, if that
    is no more than this."""
    deletions: ClassVar[int] = 100  # how often a publication is raced with the deletion of its source

    # --- putting

    @pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
    def test_what_is_put_is_there_with_its_creation(
        self, ask: Ask, around: Around, folder: str, body: bytes
    ) -> None:
        name, creation = _own(folder)
        outcome = ask(Put(name, InMemory(body), creation))
        assert isinstance(outcome, Written)
        assert around.read(name) == body
        holder = held(ask, name)
        assert _marks(holder) == (creation.token, creation.writer)
        assert holder.size == len(body)
        assert outcome.version in (None, holder.version)

    def test_a_put_overwrites(self, ask: Ask, around: Around, folder: str) -> None:
        for number, request in enumerate((Create, Put, None)):
            name, first = _own(folder, f"{number}")
            if request is None:
                around.write(name, b"the first, and the longer one")
            else:
                # Only a put makes the folder, where the store has folders.
                ask(Put(f"{name}-beside", InMemory(b""), first))
                ask(request(name, InMemory(b"the first, and the longer one"), first))
            second = creation_of(folder)
            assert isinstance(ask(Put(name, InMemory(b"the second"), second)), Written)
            assert around.read(name) == b"the second"
            assert _marks(held(ask, name)) == (second.token, second.writer)

    def test_putting_twice_is_harmless(self, ask: Ask, around: Around, folder: str) -> None:
        """An accept of a ballot may be sent again."""
        name, creation = _own(folder)
        for _ in range(2):
            assert isinstance(ask(Put(name, InMemory(b"x"), creation)), Written)
        assert around.read(name) == b"x"
        assert held(ask, name).token == creation.token

    def test_a_put_beside_the_names_needs_no_state_folder(
        self, ask: Ask, around: Around, folder: str
    ) -> None:
        name, creation = f"{folder}/name~1~salt", creation_of(f"{folder}/name")
        assert isinstance(ask(Put(name, InMemory(b"x"), creation)), Written)
        assert around.read(name) == b"x"
        assert [entry.name for entry in ask(List(folder)).entries] == [name]
        assert ask(List(creation.state)) == Listed(())

    def test_what_is_put_is_listed_at_once(self, ask: Ask, folder: str) -> None:
        """All of it, each time, and nothing else: neither parts nor temporary files."""
        names = set()
        for number in range(10):
            names.add(_put(ask, folder, word=f"{number}")[0])
            assert {entry.name for entry in ask(List(_state(folder))).entries} == names

    def test_a_large_body_is_put_whole(self, ask: Ask, around: Around, folder: str) -> None:
        for size in {self.large, min(self.large, ask.store.largest_put + 1)}:
            body = random.Random(size).randbytes(size)  # noqa: S311 - no secret
            name, creation = _put(ask, folder, body, f"{size}")
            assert around.read(name) == body
            assert _marks(held(ask, name)) == (creation.token, creation.writer)

    def test_what_a_put_cannot_carry_is_refused(self, ask: Ask, around: Around, folder: str) -> None:
        """A parameter that the store does not know is not dropped in silence, by a publication neither."""
        (source, _), name = _put(ask, folder), f"{folder}/name"
        odd = creation_of(name, no_such_parameter="x")
        assert isinstance(ask(Put(f"{source}-odd", InMemory(b"x"), odd)), Refused)
        assert isinstance(ask(Publish(source, name, odd)), Refused)
        assert (around.read(f"{source}-odd"), around.read(name)) == (None, None)

    def test_many_threads_put_different_keys(self, ask: Ask, around: Around, folder: str) -> None:
        """32 of them into one new folder; whoever has put sees what it put in its next listing."""

        def put(number: int) -> tuple[str, bytes]:
            body = f"{number} put this".encode()
            name, _ = _put(ask, folder, body, f"{number}")
            listed = ask(List(_state(folder)))
            assert name in {entry.name for entry in listed.entries}
            return name, body

        put_by_all = dict(together(32, put))
        assert {name: around.read(name) for name in put_by_all} == put_by_all

    # --- publishing

    @pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
    def test_what_is_published_is_the_source_s(
        self, ask: Ask, around: Around, folder: str, body: bytes
    ) -> None:
        """Bytes, token and writer: whoever publishes, the object says whose it is."""
        (source, creation), name = _put(ask, folder, body), f"{folder}/name"
        outcome = ask(Publish(source, name, creation_of(name)))
        assert isinstance(outcome, Written)
        assert (around.read(name), around.read(source)) == (body, body)
        holder = held(ask, name)
        assert (*_marks(holder), holder.size) == (creation.token, creation.writer, len(body))
        assert outcome.version in (None, holder.version)
        assert _marks(held(ask, source)) == _marks(holder)

    def test_publishing_twice_is_harmless(self, ask: Ask, around: Around, folder: str) -> None:
        """Every helper may do it."""
        (source, creation), name = _put(ask, folder), f"{folder}/name"
        for _ in range(3):
            assert isinstance(ask(Publish(source, name, creation_of(name))), Written)
        assert around.read(name) == b"x"
        assert _marks(held(ask, name)) == (creation.token, creation.writer)

    def test_publishing_over_another_object(self, ask: Ask, around: Around, folder: str) -> None:
        """It is replaced whole, or stays, and the answer says that it is there."""
        (source, creation), name = _put(ask, folder, b"published"), f"{folder}/name"
        first = created(ask, name, b"the first, and the longer one")
        outcome = ask(Publish(source, name, creation))
        assert isinstance(outcome, Written if self.republishes else Exists)
        winner = creation if self.republishes else first
        assert around.read(name) == (b"published" if self.republishes else b"the first, and the longer one")
        assert _marks(held(ask, name)) == (winner.token, winner.writer)

    def test_a_missing_source_is_absent_and_nothing_is_written(
        self, ask: Ask, around: Around, folder: str
    ) -> None:
        """Whether it was there before or never; and the object under the name stays."""
        (never, creation), name = _own(folder, "never"), f"{folder}/name"
        assert ask(Publish(never, name, creation)) == Absent()
        assert (ask(Head(name)), around.read(name)) == (Absent(), None)
        removed, creation = _put(ask, folder, word="removed")
        ask(Delete(removed))
        assert ask(Publish(removed, name, creation)) == Absent()
        assert (ask(Head(name)), around.read(name)) == (Absent(), None)
        first = created(ask, name, b"the first")
        assert ask(Publish(removed, name, creation)) == Absent()
        assert (held(ask, name).token, around.read(name)) == (first.token, b"the first")

    def test_a_published_name_outlives_its_source(self, ask: Ask, around: Around, folder: str) -> None:
        """Clean-up removes what is published; a deletion of the name, published twice, leaves the source."""
        (source, creation), name = _put(ask, folder), f"{folder}/name"
        ask(Publish(source, name, creation))
        ask(Publish(source, name, creation))
        assert ask(Delete(name, held(ask, name).version)) == Deleted()
        assert (around.read(name), around.read(source)) == (None, b"x")
        ask(Publish(source, name, creation))
        assert ask(Delete(source, held(ask, source).version)) == Deleted()
        assert (around.read(name), around.read(source)) == (b"x", None)
        assert held(ask, name).token == creation.token
        assert ask(Get(name)).data == b"x"

    def test_a_large_body_is_published_whole(self, ask: Ask, around: Around, folder: str) -> None:
        for size in {self.large, min(self.large, ask.store.largest_put + 1)}:
            body, name = random.Random(size).randbytes(size), f"{folder}/{size}"  # noqa: S311 - no secret
            source, creation = _put(ask, folder, body, f"{size}")
            assert isinstance(ask(Publish(source, name, creation)), Written)
            assert around.read(name) == body
            assert _marks(held(ask, name)) == (creation.token, creation.writer)

    def test_a_creation_meets_what_is_published(self, ask: Ask, folder: str) -> None:
        """Where the store decides as well, the name is taken."""
        (source, creation), name = _put(ask, folder), f"{folder}/name"
        ask(Publish(source, name, creation))
        assert isinstance(ask(Create(name, InMemory(b"late"), creation_of(name))), Exists)
        assert held(ask, name).token == creation.token
        ask(Delete(name))
        created(ask, name, b"late")

    def test_a_slow_publisher_does_not_bring_back_what_was_deleted(
        self, ask: Ask, around: Around, folder: str
    ) -> None:
        """The source goes first, then the name: once both have ended, nobody's copy shows it again."""
        came = {number: self._publish_while_deleting(ask, folder, number) for number in range(self.deletions)}
        # A server may stumble over the deletion, as long as it says so.
        assert {type(outcome) for outcome in came.values()} <= {Written, Absent, TryAgain, Maybe}
        assert [number for number in came if around.read(f"{folder}/{number}") is not None] == []

    def _publish_while_deleting(self, ask: Ask, folder: str, number: int) -> Any:
        (source, creation), name = _put(ask, folder, b"x" * 1000, f"{number}"), f"{folder}/{number}"

        def publish() -> Any:
            return ask(Publish(source, name, creation))

        def delete() -> None:
            # Each time, the copy has come a little further.
            for _ in range(number // 2 % 4):
                ask(Head(source))
            for each in (source, name):
                assert ask(Delete(each)) == Deleted()

        # Whoever comes last is the first to go on.
        steps = (publish, delete) if number % 2 else (delete, publish)
        return together(2, lambda place: steps[place]())[steps.index(publish)]


def _state(folder: str) -> str:
    return f"{folder}/{STATE_FOLDER}/identity"


def _own(folder: str, word: str = "name") -> tuple[str, Creation]:
    """Return a key of the shim's own, and a creation to put there."""
    return f"{_state(folder)}/{word}~salt", creation_of(f"{folder}/name")


def _put(ask: Ask, folder: str, body: bytes = b"x", word: str = "name") -> tuple[str, Creation]:
    """Put such a key; return it, and by what creation."""
    key, creation = _own(folder, word)
    outcome = ask(Put(key, InMemory(body), creation))
    assert isinstance(outcome, Written), outcome
    return key, creation


def _marks(holder: Holder) -> tuple[str | None, str | None]:
    return holder.token, holder.writer
