"""The suite for a store that also copies within itself, only if the target is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from putifabsent.backends.base import ConditionalCopy, Created, Exists, Refused
from putifabsent.backends.body import InMemory
from putifabsent.shim.requests import Copy, Create
from putifabsent.testing.asking import held, won
from putifabsent.testing.contenders import creation_of
from putifabsent.testing.races import race

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.testing.asking import Around, Ask

__all__ = ["ConditionalCopyTests"]


class ConditionalCopyTests:
    """What :class:`~putifabsent.backends.base.ConditionalCopy` promises; goes with ``StoreTests``.

    Test it only where the server is known to honour the condition::

        class TestMyStore(ConditionalCopyTests, StoreTests): ...
    """

    def test_it_says_that_it_copies(self, ask: Ask) -> None:
        """By its type."""
        assert isinstance(ask.store, ConditionalCopy)

    def test_a_copied_name_is_its_own_creation(self, ask: Ask, around: Around, folder: str) -> None:
        """The bytes of the source, the token of the copy."""
        name, source = f"{folder}/name", f"{folder}/source"
        around.write(source, b"bytes")
        creation = creation_of(name)
        assert isinstance(ask(Copy(source, name, creation)), Created)
        assert (around.read(name), around.read(source)) == (b"bytes", b"bytes")
        assert held(ask, name).token == creation.token

    def test_a_copy_to_a_taken_name_writes_nothing(self, ask: Ask, around: Around, folder: str) -> None:
        """Its holder stays."""
        name, source = f"{folder}/name", f"{folder}/source"
        around.write(source, b"bytes")
        first = creation_of(name)
        ask(Create(name, InMemory(b"the first"), first))
        assert isinstance(ask(Copy(source, name, creation_of(name))), Exists)
        assert around.read(name) == b"the first"
        assert held(ask, name).token == first.token

    def test_an_absent_source_creates_nothing(self, ask: Ask, around: Around, folder: str) -> None:
        """It is refused as "not found"."""
        name = f"{folder}/name"
        outcome = ask(Copy(f"{folder}/source", name, creation_of(name)))
        assert isinstance(outcome, Refused)
        assert isinstance(outcome.error, FileNotFoundError)
        assert around.read(name) is None

    def test_of_many_threads_one_copies_to_each_name(self, ask: Ask, around: Around, folder: str) -> None:
        """32 of them, released together at each name."""
        names = [f"{folder}/{number}" for number in range(5)]

        def copying(name: str, body: bytes) -> Callable[[], None]:
            creation = creation_of(name)
            source = f"{folder}/sources/{creation.token}"
            around.write(source, body)
            return lambda: won(name, ask(Copy(source, name, creation)))

        done = race(lambda: copying, names, threads=32)
        assert done.problems(around.read) == []
        assert done.errors == ()
