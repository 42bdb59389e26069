"""The suite for a store behind a network: what an answer that never came may be called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from putifabsent.backends.base import Maybe, Staged, TryAgain
from putifabsent.backends.body import InMemory
from putifabsent.errors import OutcomeUnknown
from putifabsent.shim.create import create, resolve
from putifabsent.shim.drive import run
from putifabsent.shim.names import ordinary
from putifabsent.shim.requests import Complete, Create, Delete, Get, Head, List, Publish, Put, Stage
from putifabsent.testing.asking import LosesAnswers, held
from putifabsent.testing.races import creation_of

if TYPE_CHECKING:
    from putifabsent.backends.base import Store
    from putifabsent.testing.asking import Around, Ask

__all__ = ["LostAnswerTests"]


class LostAnswerTests(LosesAnswers):
    """A lost answer is never called a win, a loss or a failure; goes with ``StoreTests``."""

    def test_an_applied_creation_without_an_answer_may_have_happened(
        self, ask: Ask, unanswered: Store, around: Around, folder: str
    ) -> None:
        """Not "created", not "exists" by a second send in secret; the token tells later."""
        name = f"{folder}/name"
        creation = creation_of(name)
        assert isinstance(ask.of(unanswered)(Create(name, InMemory(b"mine"), creation)), Maybe)
        assert around.read(name) == b"mine"
        assert held(ask, name).token == creation.token

    def test_a_creation_that_never_arrived_may_have_happened(
        self, ask: Ask, unheard: Store, around: Around, folder: str
    ) -> None:
        """Its sender can't tell it from one that did."""
        name = f"{folder}/name"
        assert isinstance(ask.of(unheard)(Create(name, InMemory(b"mine"), creation_of(name))), Maybe)
        assert around.read(name) is None

    def test_an_applied_completion_without_an_answer_may_have_happened(
        self, ask: Ask, unanswered: Store, around: Around, folder: str
    ) -> None:
        """The same of an upload."""
        name = f"{folder}/name"
        creation = creation_of(name)
        staged = ask(Stage(name, InMemory(b"mine"), creation))
        assert isinstance(ask.of(unanswered)(Complete(staged)), Maybe)
        assert around.read(name) == b"mine"
        assert held(ask, name).token == creation.token

    def test_a_completion_that_never_arrived_may_have_happened(
        self, ask: Ask, unheard: Store, around: Around, folder: str
    ) -> None:
        """Nothing is readable, and the upload is still good."""
        name = f"{folder}/name"
        staged = ask(Stage(name, InMemory(b"mine"), creation_of(name)))
        assert isinstance(ask.of(unheard)(Complete(staged)), Maybe)
        assert around.read(name) is None
        ask(Complete(staged))
        assert around.read(name) == b"mine"

    def test_staging_without_answers_publishes_nothing(
        self, ask: Ask, unanswered: Store, around: Around, folder: str
    ) -> None:
        """It is "try again": nobody can read staged bytes, so nothing is in doubt."""
        name = f"{folder}/name"
        staged = ask.of(unanswered)(Stage(name, InMemory(b"mine"), creation_of(name)))
        assert isinstance(staged, (TryAgain, Staged))
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

    def test_an_applied_put_without_an_answer_may_have_happened(
        self, ask: Ask, unanswered: Store, around: Around, folder: str
    ) -> None:
        """It is not sent again in secret, so its sender knows no more than that."""
        name = f"{folder}/name~salt"
        creation = creation_of(name)
        assert isinstance(ask.of(unanswered)(Put(name, InMemory(b"mine"), creation)), Maybe)
        assert around.read(name) == b"mine"
        assert held(ask, name).token == creation.token

    def test_a_put_that_never_arrived_may_have_happened(
        self, ask: Ask, unheard: Store, around: Around, folder: str
    ) -> None:
        """Its sender can't tell it from one that did."""
        name = f"{folder}/name~salt"
        assert isinstance(ask.of(unheard)(Put(name, InMemory(b"mine"), creation_of(name))), Maybe)
        assert around.read(name) is None

    def test_a_publication_without_an_answer_may_have_happened(
        self, ask: Ask, unanswered: Store, unheard: Store, around: Around, folder: str
    ) -> None:
        """Lost on its way, or on the way back; never "absent", for that stops a publisher."""
        source, name = f"{folder}/name~salt", f"{folder}/name"
        creation = creation_of(name)
        ask(Put(source, InMemory(b"mine"), creation))
        assert isinstance(ask.of(unheard)(Publish(source, name, creation)), Maybe)
        assert around.read(name) is None
        assert isinstance(ask.of(unanswered)(Publish(source, name, creation)), Maybe)
        assert around.read(name) == b"mine"
        assert held(ask, name).token == creation.token

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
