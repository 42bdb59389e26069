"""The suite for a store that processes share: races of processes, and writers killed at every step."""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

import pytest

from putifabsent.backends.base import Created, Deleted, Exists, Found
from putifabsent.backends.body import InMemory
from putifabsent.shim.requests import Create, Delete, Head, List
from putifabsent.testing.asking import Ask, held
from putifabsent.testing.contenders import creation_of, through_made_store
from putifabsent.testing.deaths import Will, doomed
from putifabsent.testing.races import race
from putifabsent.testing.stores import StoreTests

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.base import Store
    from putifabsent.testing.asking import Around

__all__ = ["SharedStoreTests"]

_NOT_STEPS = {"abc", "builtins", "putifabsent.backends.base"}


class SharedStoreTests(StoreTests):
    """What a store promises to processes that share it. Give it ``make_store`` and ``folder``.

    Fixtures
    --------
    make_store
        Makes the store, here or in another process: a function of a module, or a
        :func:`functools.partial` of one. Required; ``store`` is then what it makes.
    folder, around
        As for :class:`StoreTests`.

    Attributes
    ----------
    steps_in
        What does the store's work: a writer is killed before each line of it. Full names of modules, or
        ``"module:function"``. Empty: the modules of its class and of its bases.
    """

    steps_in: ClassVar[tuple[str, ...]] = ()

    @pytest.fixture
    def make_store(self) -> Callable[[], Store]:
        """Return what makes the store, in any process."""
        raise NotImplementedError("a subclass of SharedStoreTests must have a fixture `make_store`")

    @pytest.fixture
    def store(self, make_store: Callable[[], Store]) -> Store:
        """Return the store under test."""
        return make_store()

    def test_another_store_on_the_same_data_knows_the_creation(
        self, ask: Ask, make_store: Callable[[], Store], folder: str
    ) -> None:
        """What is promised lies with the object, not in the process that made it."""
        name = f"{folder}/name"
        creation = creation_of(name)
        ask(Create(name, InMemory(b"mine"), creation))
        other = ask.of(make_store())
        assert held(other, name).token == creation.token
        assert isinstance(other(Create(name, InMemory(b"other"), creation_of(name))), Exists)

    def test_of_many_processes_one_creates_each_name(
        self, make_store: Callable[[], Store], around: Around, folder: str
    ) -> None:
        """8 of them with 4 threads each, released together at each name; half of them complete uploads."""
        names = [f"{folder}/{number}" for number in range(10)]
        done = race(partial(through_made_store, make_store, "mixed"), names, processes=8, threads=4)
        assert done.problems(around.read) == []
        assert done.errors == ()

    @pytest.mark.parametrize("how", ["create", "complete"])
    def test_a_writer_killed_at_any_step_leaves_all_or_nothing(
        self,
        make_store: Callable[[], Store],
        store: Store,
        around: Around,
        folder: str,
        how: Literal["create", "complete"],
    ) -> None:
        """And nothing that blocks: the name can be created, or is the dead writer's, for good."""
        ask = Ask(store, "sync")
        left = set()
        with doomed(make_store, self.steps_in or _modules(store)) as writers:
            for step in range(1, 1 + writers.steps(_will(how, f"{folder}/alive"))):
                will = _will(how, f"{folder}/step-{step}")
                code = writers.die(will, step)
                assert code == -signal.SIGKILL, f"step {step}: it was not killed, but ended with {code}"
                left.add(_check_what_is_left(ask, around, will))
        # A kill that always comes too early, or too late, would have tested nothing.
        assert left == {True, False}
        listed = ask(List(folder))
        assert {entry.name for entry in listed.entries} == {f"{folder}/alive"}


def _modules(store: Store) -> tuple[str, ...]:
    return tuple({kind.__module__ for kind in type(store).__mro__} - _NOT_STEPS)


def _will(how: str, name: str) -> Will:
    return Will(how, name, f"all of {name}".encode() * 100, creation_of(name))


def _check_what_is_left(ask: Ask, around: Around, will: Will) -> bool:
    """Say whether the name is there; then have both creations end as they must, and free the name."""
    name, body, mine = will.name, will.body, will.creation
    bytes_there, seen = around.read(name), ask(Head(name))
    there = isinstance(seen, Found)
    assert bytes_there == (body if there else None), "half a file"
    other = creation_of(name)
    if there:
        assert (seen.holder.token, seen.holder.size) == (mine.token, len(body))
        assert isinstance(ask(Create(name, InMemory(b"other"), other)), Exists)
        assert isinstance(ask(Create(name, InMemory(body), mine)), Exists)
        assert around.read(name) == body
    else:
        assert isinstance(ask(Create(name, InMemory(b"other"), other)), Created)
        assert isinstance(ask(Create(name, InMemory(body), mine)), Exists)
        assert held(ask, name).token == other.token
        assert around.read(name) == b"other"
    assert ask(Delete(name)) == Deleted()
    assert isinstance(ask(Create(name, InMemory(body), mine)), Created)
    assert ask(Delete(name)) == Deleted()
    return there
