"""The suites for any store, for one that processes share, and for one behind a network.

They test what ``putifabsent.backends.base`` promises.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import ClassVar, Literal, TypeAlias

import pytest
from fsspec.asyn import get_loop, sync

from putifabsent.backends.base import (
    Absent,
    Created,
    Creation,
    Deleted,
    Exists,
    Found,
    Gone,
    Got,
    InMemory,
    Listed,
    Maybe,
    Refused,
    Staged,
    Store,
    TryAgain,
)
from putifabsent.errors import OutcomeUnknown
from putifabsent.shim.create import create, resolve
from putifabsent.shim.drive import run
from putifabsent.shim.names import ordinary
from putifabsent.shim.requests import (
    Complete,
    Create,
    Delete,
    Discard,
    Get,
    Head,
    List,
    Publish,
    Put,
    Request,
    Stage,
    StageCopy,
    Walk,
    perform,
)
from putifabsent.testing.asking import (
    COLOURS,
    Around,
    Ask,
    InBothColours,
    ThroughTheStore,
    cancelled,
    created,
    created_and_held,
    forked,
    held,
    staged,
)
from putifabsent.testing.deaths import Will, doomed
from putifabsent.testing.races import Contender, creation_of, race, through_requests

BODIES = {"empty": b"", "text": "täxt\r\n".encode(), "binary": bytes(range(256))}
_NOT_STEPS = {"abc", "builtins", "putifabsent.backends.base"}


class StoreTests:
    """What every store promises. Subclass it; its fixtures are ``store`` and ``folder``, perhaps ``around``.

    ``store`` is the one under test, fresh or not; ``folder`` a full name under which nothing is: an existing
    folder, where the store has folders.

    Every test runs in both colours, by the methods and by their asynchronous twins. Whether a deletion by
    version is atomic is not tested: only luck would find it out.
    """

    large: ClassVar[int] = 2**20  # bytes of a large body: more than one part of the store's uploads
    several_pages: ClassVar[int] = 1001  # names in one folder: more than a page of the store's listings
    # What a careless client changes on the way. Each must be created as it is, or refused.
    odd_names: ClassVar[tuple[str, ...]] = (
        "plain", "with space", " leading", "trailing ", "a+b", "a b", "%41", "A", "a", "%2e", "50%", "#1",
        "?x=1", "q&a=1;b", "*.json", "[x]", "{x}", "~", "back\\slash", "'quoted\"", "<&>", "tab\there",
        "new\nline", "\x7f", ".hidden", "..two", "ends.", "caf\u00e9", "cafe\u0301", "\u65e5\u672c",
        "\U0001f600", "\u200bzero", "=", "a:b", "@", "plain/", "/plain", "//plain", "./plain",
        "sub/../plain", "plain/.", "alone-1/", "/alone-2", "//alone-3", "./alone-4", "sub/../alone-5",
    )  # fmt: skip

    @pytest.fixture
    def name(self, folder: str) -> str:
        """Return a name that is not there."""
        return f"{folder}/name"

    @pytest.fixture
    def around(self, store: Store) -> Around:
        """Return a way to the bytes round the store: without one it vouches for itself."""
        return ThroughTheStore(store)

    colour = InBothColours.colour

    @pytest.fixture
    def ask(self, store: Store, colour: Literal["sync", "async"]) -> Ask:
        return Ask(store, colour)

    # --- creating

    @pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
    def test_a_created_name_holds_its_bytes(self, ask: Ask, around: Around, name: str, body: bytes) -> None:
        assert isinstance(ask(Create(name, InMemory(body), creation_of(name))), Created)
        assert around.read(name) == body

    def test_a_creation_is_kept_with_its_name(self, ask: Ask, name: str) -> None:
        creation = creation_of(name)
        outcome = ask(Create(name, InMemory(b"12345"), creation))
        holder = held(ask, name)
        assert (holder.token, holder.writer, holder.size) == (creation.token, creation.writer, 5)
        assert holder.created is None or holder.created.utcoffset() is not None
        assert outcome.version in (None, holder.version)

    def test_a_taken_name_is_not_written(self, ask: Ask, around: Around, name: str) -> None:
        """The loser learns who holds it, by the answer itself or by a look."""
        first = created(ask, name, b"the first")
        outcome = ask(Create(name, InMemory(b"the second"), creation_of(name)))
        assert isinstance(outcome, Exists)
        assert outcome.holder is None or outcome.holder.token == first.token
        assert held(ask, name).token == first.token
        assert around.read(name) == b"the first"

    def test_a_name_made_by_others_is_not_written(self, ask: Ask, around: Around, name: str) -> None:
        """An object that has no token holds its name like any other."""
        creation = creation_of(name)
        around.write(name, b"from elsewhere")
        assert isinstance(ask(Create(name, InMemory(b"mine"), creation)), Exists)
        assert around.read(name) == b"from elsewhere"
        # None, unless the store itself had to write it.
        assert held(ask, name).token != creation.token

    def test_a_creation_sent_again_finds_itself(self, ask: Ask, around: Around, name: str) -> None:
        """So is a lost answer resolved: "exists", and the token says that it was me."""
        creation = created(ask, name, b"mine")
        assert isinstance(ask(Create(name, InMemory(b"mine"), creation)), Exists)
        assert held(ask, name).token == creation.token
        assert around.read(name) == b"mine"

    def test_what_it_cannot_carry_is_refused(self, ask: Ask, around: Around, name: str) -> None:
        """A parameter that the store does not know is not dropped in silence."""
        creation = creation_of(name, no_such_parameter="x")
        assert isinstance(ask(Create(name, InMemory(b"mine"), creation)), Refused)
        upload = ask(Stage(name, InMemory(b"mine"), creation))
        outcome = ask(Complete(upload)) if isinstance(upload, Staged) else upload
        assert isinstance(outcome, Refused)
        assert around.read(name) is None

    def test_no_name_is_taken_for_another(self, ask: Ask, around: Around, folder: str) -> None:
        """Created as it is, or refused; and a look sees the name itself, and no other."""
        there: dict[str, tuple[bytes, Creation]] = {}
        for number, odd in enumerate(self.odd_names):
            name, body = f"{folder}/{odd}", f"number {number}".encode()
            creation = creation_of(f"{folder}/plain")
            outcome = ask(Create(name, InMemory(body), creation))
            assert isinstance(outcome, (Created, Exists, Refused)), f"{name!r}: {outcome}"
            if isinstance(outcome, Created):
                there[name] = body, creation
            elif isinstance(outcome, Exists):
                # The answer may be about a name that is not there; then a look must say so.
                assert isinstance(ask(Head(name)), Found) == (around.read(name) is not None), repr(name)
            else:
                assert around.read(name) != body, f"{name!r} was refused, and written"
        assert f"{folder}/plain" in there
        for name, (body, creation) in there.items():
            assert around.read(name) == body, repr(name)
            assert held(ask, name).token == creation.token, repr(name)

    # --- reading

    def test_an_absent_name_is_absent(self, ask: Ask, folder: str) -> None:
        """Neither refused nor "try again"; a folder that is not there makes no difference."""
        for name in (f"{folder}/name", f"{folder}/no-folder/name"):
            assert ask(Head(name)) == Absent()
            assert ask(Get(name)) == Absent()

    @pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
    def test_get_returns_what_is_there(self, ask: Ask, around: Around, folder: str, body: bytes) -> None:
        around.write(f"{folder}/name", body)
        assert ask(Get(f"{folder}/name")) == Got(body)

    def test_a_listing_has_the_files_of_its_folder_alone(self, ask: Ask, around: Around, folder: str) -> None:
        """By their full names, at once, with the times that a look has; nothing deeper, nothing beside."""
        here = {f"{folder}/here/{number}" for number in range(3)}
        for name in (*here, f"{folder}/here/deeper/4", f"{folder}/here-too/5", f"{folder}/6"):
            around.write(name, b"x")
        name = f"{folder}/here/created"
        created(ask, name)
        listed = ask(List(f"{folder}/here"))
        assert {entry.name for entry in listed.entries} == {*here, name}
        assert all(entry.created.utcoffset() is not None for entry in listed.entries)
        again = ask(List(f"{folder}/here"))
        assert set(again.entries) == set(listed.entries), "times are the objects', not the listing's"
        seen = held(ask, name).created
        [shown] = [entry.created for entry in listed.entries if entry.name == name]
        # A server may have whole seconds in the one, and more in the other.
        assert seen is None or abs(shown - seen) < timedelta(seconds=1)

    def test_a_walk_has_all_files_below_its_folder(self, ask: Ask, around: Around, folder: str) -> None:
        """By their full names, at whatever depth; nothing beside."""
        below = {f"{folder}/here/1", f"{folder}/here/deeper/2", f"{folder}/here/deeper/still/3"}
        for name in (*below, f"{folder}/here-too/4", f"{folder}/5"):
            around.write(name, b"x")
        assert {entry.name for entry in ask(Walk(f"{folder}/here")).entries} == below

    def test_a_listing_and_a_walk_of_several_pages_are_whole(
        self, store: Store, around: Around, folder: str
    ) -> None:
        """In each colour; the names are written once."""
        names = {f"{folder}/many/{number}" for number in range(self.several_pages)}
        for name in names:
            around.write(name, b"x")
        for colour in COLOURS:
            ask = Ask(store, colour)
            for request in (List(f"{folder}/many"), Walk(f"{folder}/many"), Walk(folder)):
                shown = [entry.name for entry in ask(request).entries]
                assert (len(shown), set(shown)) == (len(names), names), f"{colour}: {request}"

    def test_a_folder_that_is_not_there_lists_nothing(self, ask: Ask, folder: str) -> None:
        """It is no error: a table's first entry has no siblings."""
        assert ask(List(f"{folder}/nowhere")) == Listed(())
        assert ask(Walk(f"{folder}/nowhere")) == Listed(())

    # --- deleting

    def test_a_deleted_name_is_free_again(self, ask: Ask, around: Around, name: str) -> None:
        created(ask, name, b"the first")
        assert ask(Delete(name)) == Deleted()
        assert ask(Head(name)) == Absent()
        assert around.read(name) is None
        second = created(ask, name, b"the second")
        assert held(ask, name).token == second.token
        assert around.read(name) == b"the second"

    def test_deleting_an_absent_name_is_done(self, ask: Ask, folder: str) -> None:
        """An earlier request may have done it."""
        assert ask(Delete(f"{folder}/name")) == Deleted()

    def test_a_deletion_by_version_spares_a_later_object(self, ask: Ask, around: Around, name: str) -> None:
        """Where the store tells versions at all."""
        created(ask, name, b"the first")
        version = held(ask, name).version
        ask(Delete(name, version))
        assert around.read(name) is None
        created(ask, name, b"the second")
        assert ask(Delete(name, version)) == Deleted()
        assert (around.read(name) == b"the second") == (version is not None)

    # --- staging

    @pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
    def test_staged_bytes_cannot_be_read(self, ask: Ask, around: Around, folder: str, body: bytes) -> None:
        """Before the completion there is nothing under the name; after it, all of the body."""
        name = f"{folder}/name"
        creation = creation_of(name)
        upload = staged(ask, name, body, creation)
        assert ask(Head(name)) == Absent()
        assert ask(List(folder)) == Listed(())
        assert around.read(name) is None
        assert isinstance(ask(Complete(upload)), Created)
        assert around.read(name) == body
        holder = held(ask, name)
        assert (holder.token, holder.writer, holder.size) == (creation.token, creation.writer, len(body))

    def test_a_large_body_is_created_whole(self, ask: Ask, around: Around, folder: str) -> None:
        name, body = f"{folder}/name", random.Random(0).randbytes(self.large)  # noqa: S311 - no secret
        assert isinstance(ask(Complete(staged(ask, name, body))), Created)
        assert around.read(name) == body

    def test_of_two_uploads_for_a_name_one_is_published(self, ask: Ask, around: Around, name: str) -> None:
        """The other gets the answer that the name exists, and its removal removes nothing else."""
        first, second = creation_of(name), creation_of(name)
        one = staged(ask, name, b"the first", first)
        other = staged(ask, name, b"the second", second)
        assert isinstance(ask(Complete(other)), Created)
        outcome = ask(Complete(one))
        assert isinstance(outcome, Exists)
        assert outcome.holder is None or outcome.holder.token == second.token
        ask(Discard(one))
        assert held(ask, name).token == second.token
        assert around.read(name) == b"the second"

    def test_a_discarded_upload_cannot_be_completed(self, ask: Ask, around: Around, name: str) -> None:
        upload = staged(ask, name, b"staged")
        ask(Discard(upload))
        ask(Discard(upload))
        assert isinstance(ask(Complete(upload)), (Gone, Refused))
        assert around.read(name) is None

    def test_an_upload_is_published_once(self, ask: Ask, around: Around, name: str) -> None:
        """Completed again, it changes nothing; discarded, nothing either; a deleted name stays so."""
        creation = creation_of(name)
        upload = staged(ask, name, b"staged", creation)
        ask(Complete(upload))
        # Some servers remember their answer, and give it again.
        assert isinstance(ask(Complete(upload)), (Created, Exists, Gone))
        ask(Discard(upload))
        assert held(ask, name).token == creation.token
        assert around.read(name) == b"staged"
        ask(Delete(name))
        again = staged(ask, name, b"again")
        assert isinstance(ask(Complete(again)), Created)
        ask(Delete(name))
        assert isinstance(ask(Complete(again)), (Gone, Refused))
        assert around.read(name) is None

    # --- copying

    @pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
    def test_a_copy_is_staged_whole(self, ask: Ask, around: Around, folder: str, body: bytes) -> None:
        name, source = f"{folder}/name", f"{folder}/source"
        created(ask, source, body)
        seen, creation = held(ask, source), creation_of(name)
        copy = ask(StageCopy(source, seen.size, seen.version, name, creation))
        assert isinstance(copy, Staged)
        assert around.read(name) is None
        assert isinstance(ask(Complete(copy)), Created)
        assert (around.read(name), around.read(source)) == (body, body)
        assert (held(ask, name).token, held(ask, source).token) == (creation.token, seen.token)

    def test_an_absent_source_is_absent(self, ask: Ask, folder: str) -> None:
        name, source = f"{folder}/name", f"{folder}/source"
        assert ask(StageCopy(source, 5, None, name, creation_of(name))) == Absent()

    def test_another_object_is_not_copied_for_the_requested_one(
        self, ask: Ask, around: Around, folder: str
    ) -> None:
        """Where the store tells versions at all: the right bytes, if it still has them, or none."""
        name, source = f"{folder}/name", f"{folder}/source"
        created(ask, source, b"the first")
        version = held(ask, source).version
        ask(Delete(source))
        created(ask, source, b"the 2nd !")
        copy = ask(StageCopy(source, 9, version, name, creation_of(name)))
        if isinstance(copy, Staged):
            ask(Complete(copy))
            assert around.read(name) == (b"the 2nd !" if version is None else b"the first")
        else:
            assert copy == Absent()
            assert version is not None

    # --- racing

    def test_of_many_threads_one_creates_each_name(self, ask: Ask, around: Around, folder: str) -> None:
        """32 of them, released together at each name; half of them complete uploads."""
        names = [f"{folder}/{number}" for number in range(5)]
        done = race(partial(through_requests, ask, mixed=True), names, threads=32)
        assert done.problems(around.read) == []
        assert done.errors == ()

    def test_a_cancelled_creation_is_whole_or_absent(self, store: Store, around: Around, folder: str) -> None:
        """It can be sent again, and is created once, whenever the cancellation came."""
        ask = Ask(store, "async")
        for turns in range(8):
            name = f"{folder}/{turns}"
            creation = creation_of(name)
            sync(get_loop(), cancelled, store.create_async(name, InMemory(b"mine"), creation), turns)
            assert isinstance(ask(Create(name, InMemory(b"mine"), creation)), (Created, Exists))
            assert held(ask, name).token == creation.token
            assert around.read(name) == b"mine"

    def test_a_forked_child_can_create_and_so_can_its_parent(self, store: Store, folder: str) -> None:
        """With one store, which the parent has used before: workers of many engines fork."""
        for colour in COLOURS:
            ask = Ask(store, colour)
            assert created_and_held(ask, f"{folder}/{colour}-before")
            assert forked(partial(created_and_held, ask, f"{folder}/{colour}-child")) == 0
            assert created_and_held(ask, f"{folder}/{colour}-after")


def _completes(request: Create, store: Store) -> None:
    staged = store.stage(*request)
    assert isinstance(staged, Staged)
    store.complete(staged)


class SharedStoreTests(StoreTests):
    """What a store promises to processes that share it. Give it the fixtures ``make_store`` and ``folder``.

    ``make_store`` makes the store, in any process: a function of a module, or a partial of one.
    """

    steps_in: ClassVar[tuple[str, ...]] = ()
    """What does the store's work: a writer is killed before each line of it. Full names of modules, or
    ``"module:function"``. Empty: the modules of its class and of its bases."""

    @pytest.fixture
    def store(self, make_store: Callable[[], Store]) -> Store:
        """Return the store under test."""
        return make_store()

    def test_another_store_on_the_same_data_knows_the_creation(
        self, ask: Ask, make_store: Callable[[], Store], name: str
    ) -> None:
        """What is promised lies with the object, not in the process that made it."""
        creation = created(ask, name, b"mine")
        other = ask.of(make_store())
        assert held(other, name).token == creation.token
        assert isinstance(other(Create(name, InMemory(b"other"), creation_of(name))), Exists)

    def test_of_many_processes_one_creates_each_name(
        self, make_store: Callable[[], Store], around: Around, folder: str
    ) -> None:
        """8 of them with 4 threads each, released together at each name; half of them complete uploads."""
        names = [f"{folder}/{number}" for number in range(10)]
        done = race(partial(_mixed, make_store), names, processes=8, threads=4)
        assert done.problems(around.read) == []
        assert done.errors == ()

    @pytest.mark.parametrize("work", [perform, _completes], ids=["create", "complete"])
    def test_a_writer_killed_at_any_step_leaves_all_or_nothing(
        self,
        make_store: Callable[[], Store],
        store: Store,
        around: Around,
        folder: str,
        work: Callable[[Create, Store], object],
    ) -> None:
        """And nothing that blocks: the name can be created, or is the dead writer's, for good."""
        ask = Ask(store, "sync")
        left = set()
        modules = {kind.__module__ for kind in type(store).__mro__} - _NOT_STEPS
        with doomed(make_store, self.steps_in or tuple(modules)) as writers:
            steps = writers.steps(Will(partial(work, _creation(f"{folder}/alive"))))
            for step in range(1, 1 + steps):
                mine = _creation(f"{folder}/step-{step}")
                code = writers.die(Will(partial(work, mine)), step)
                assert code == -signal.SIGKILL, f"step {step}: it was not killed, but ended with {code}"
                left.add(_check_what_is_left(ask, around, mine))
        # A kill that always comes too early, or too late, would have tested nothing.
        assert left == {True, False}
        listed = ask(List(folder))
        assert {entry.name for entry in listed.entries} == {f"{folder}/alive"}


def _mixed(make: Callable[[], Store]) -> Contender:
    return through_requests(Ask(make(), "sync"), mixed=True)


# --- behind a network


Write: TypeAlias = "Callable[[Ask, str, Creation], Request]"


def _completion(ask: Ask, name: str, creation: Creation) -> Request:
    return Complete(staged(ask, name, b"mine", creation))


def _publication(ask: Ask, name: str, creation: Creation) -> Request:
    ask(Put(f"{name}~salt", InMemory(b"mine"), creation))
    return Publish(f"{name}~salt", name, creation)


WRITES: dict[str, Write] = {
    "creation": lambda _, name, creation: Create(name, InMemory(b"mine"), creation),
    "completion": _completion,
    "put": lambda _, name, creation: Put(name, InMemory(b"mine"), creation),
    "publication": _publication,
}
"""What makes ready a write of a name, and returns the request that decides."""


class LostAnswerTests:
    """A lost answer is never called a win, a loss or a failure; goes with ``StoreTests``."""

    @pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
    def test_an_applied_write_without_an_answer_may_have_happened(
        self, ask: Ask, unanswered: Store, around: Around, name: str, write: Write
    ) -> None:
        """Not "created", not "exists" by a second send in secret; the token tells later."""
        creation = creation_of(name)
        assert isinstance(ask.of(unanswered)(write(ask, name, creation)), Maybe)
        assert around.read(name) == b"mine"
        assert held(ask, name).token == creation.token

    @pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
    def test_a_write_that_never_arrived_may_have_happened(
        self, ask: Ask, unheard: Store, around: Around, name: str, write: Write
    ) -> None:
        """Its sender can't tell it from one that did; it is never "absent", for that stops a publisher."""
        request = write(ask, name, creation_of(name))
        assert isinstance(ask.of(unheard)(request), Maybe)
        assert around.read(name) is None
        # What was staged or put for it is still good.
        ask(request)
        assert around.read(name) == b"mine"

    def test_staging_without_answers_publishes_nothing(
        self, ask: Ask, unanswered: Store, around: Around, name: str
    ) -> None:
        """It is "try again": nobody can read staged bytes, so nothing is in doubt."""
        outcome = ask.of(unanswered)(Stage(name, InMemory(b"mine"), creation_of(name)))
        assert isinstance(outcome, (TryAgain, Staged))
        assert around.read(name) is None

    def test_reading_without_an_answer_is_to_be_tried_again(
        self, ask: Ask, unanswered: Store, unheard: Store, around: Around, folder: str
    ) -> None:
        around.write(f"{folder}/name", b"x")
        for store in (unanswered, unheard):
            for request in (Head(f"{folder}/name"), Get(f"{folder}/name"), List(folder)):
                assert isinstance(ask.of(store)(request), TryAgain), request

    def test_a_deletion_without_an_answer_may_have_happened(
        self, ask: Ask, unanswered: Store, unheard: Store, around: Around, name: str
    ) -> None:
        around.write(name, b"x")
        assert isinstance(ask.of(unheard)(Delete(name)), Maybe)
        assert around.read(name) == b"x"
        assert isinstance(ask.of(unanswered)(Delete(name)), Maybe)
        assert around.read(name) is None

    def test_an_unknown_outcome_is_resolved_later(self, store: Store, unanswered: Store, name: str) -> None:
        creation = creation_of(name)
        protocol = create(ordinary(name), InMemory(b"mine"), creation, largest_put=store.largest_put)
        with pytest.raises(OutcomeUnknown) as unknown:
            run(protocol, unanswered, deadline=0)
        holder = run(resolve(ordinary(name), unknown.value.token), store, deadline=30)
        assert holder is not None
        assert holder.token == creation.token


# --- killed writers


def _creation(name: str) -> Create:
    return Create(name, InMemory(f"all of {name}".encode() * 100), creation_of(name))


def _check_what_is_left(ask: Ask, around: Around, will: Create) -> bool:
    """Say whether the name is there; then have both creations end as they must, and free the name."""
    name, body, mine = will.name, will.body.whole(), will.creation
    bytes_there, seen = around.read(name), ask(Head(name))
    there = isinstance(seen, Found)
    assert bytes_there == (body if there else None), "half a file"
    if there:
        assert (seen.holder.token, seen.holder.size) == (mine.token, len(body))
        assert isinstance(ask(Create(name, InMemory(b"other"), creation_of(name))), Exists)
        assert isinstance(ask(Create(name, InMemory(body), mine)), Exists)
        assert around.read(name) == body
    else:
        other = created(ask, name, b"other")
        assert isinstance(ask(Create(name, InMemory(body), mine)), Exists)
        assert held(ask, name).token == other.token
        assert around.read(name) == b"other"
    assert ask(Delete(name)) == Deleted()
    assert isinstance(ask(Create(name, InMemory(body), mine)), Created)
    assert ask(Delete(name)) == Deleted()
    return there
