"""The suite for a store behind a network: what an answer that never came may be called."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from putifabsent.backends.base import Creation, Maybe, Staged, Store, TryAgain
from putifabsent.backends.body import InMemory
from putifabsent.errors import OutcomeUnknown
from putifabsent.shim.create import create, resolve
from putifabsent.shim.drive import run
from putifabsent.shim.names import ordinary
from putifabsent.shim.requests import Complete, Create, Delete, Get, Head, List, Publish, Put, Request, Stage
from putifabsent.testing.asking import Around, Ask, LosesAnswers, held, staged
from putifabsent.testing.races import creation_of

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


class LostAnswerTests(LosesAnswers):
    """A lost answer is never called a win, a loss or a failure; goes with ``StoreTests``."""

    @pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
    def test_an_applied_write_without_an_answer_may_have_happened(
        self, ask: Ask, unanswered: Store, around: Around, folder: str, write: Write
    ) -> None:
        """Not "created", not "exists" by a second send in secret; the token tells later."""
        name = f"{folder}/name"
        creation = creation_of(name)
        assert isinstance(ask.of(unanswered)(write(ask, name, creation)), Maybe)
        assert around.read(name) == b"mine"
        assert held(ask, name).token == creation.token

    @pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
    def test_a_write_that_never_arrived_may_have_happened(
        self, ask: Ask, unheard: Store, around: Around, folder: str, write: Write
    ) -> None:
        """Its sender can't tell it from one that did; it is never "absent", for that stops a publisher."""
        name = f"{folder}/name"
        request = write(ask, name, creation_of(name))
        assert isinstance(ask.of(unheard)(request), Maybe)
        assert around.read(name) is None
        # What was staged or put for it is still good.
        ask(request)
        assert around.read(name) == b"mine"

    def test_staging_without_answers_publishes_nothing(
        self, ask: Ask, unanswered: Store, around: Around, folder: str
    ) -> None:
        """It is "try again": nobody can read staged bytes, so nothing is in doubt."""
        name = f"{folder}/name"
        outcome = ask.of(unanswered)(Stage(name, InMemory(b"mine"), creation_of(name)))
        assert isinstance(outcome, (TryAgain, Staged))
        assert around.read(name) is None

    def test_reading_without_an_answer_is_to_be_tried_again(
        self, ask: Ask, unanswered: Store, unheard: Store, around: Around, folder: str
    ) -> None:
        """Never "absent"."""
        around.write(f"{folder}/name", b"x")
        for store in (unanswered, unheard):
            for request in (Head(f"{folder}/name"), Get(f"{folder}/name"), List(folder)):
                assert isinstance(ask.of(store)(request), TryAgain), request

    def test_a_deletion_without_an_answer_may_have_happened(
        self, ask: Ask, unanswered: Store, unheard: Store, around: Around, folder: str
    ) -> None:
        """Lost on its way, or on the way back."""
        name = f"{folder}/name"
        around.write(name, b"x")
        assert isinstance(ask.of(unheard)(Delete(name)), Maybe)
        assert around.read(name) == b"x"
        assert isinstance(ask.of(unanswered)(Delete(name)), Maybe)
        assert around.read(name) is None

    def test_an_unknown_outcome_is_resolved_later(self, store: Store, unanswered: Store, folder: str) -> None:
        """By the token that the error carries."""
        name = f"{folder}/name"
        creation = creation_of(name)
        protocol = create(ordinary(name), InMemory(b"mine"), creation, largest_put=store.largest_put)
        with pytest.raises(OutcomeUnknown) as unknown:
            run(protocol, unanswered, deadline=0)
        holder = run(resolve(ordinary(name), unknown.value.token), store, deadline=30)
        assert holder is not None
        assert holder.token == creation.token
