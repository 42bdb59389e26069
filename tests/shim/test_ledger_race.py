"""Threads of many sessions at one ledger, on real stores, decided by the store or by ballots."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from putifabsent.backends.base import Absent, Creation, Got, InMemory
from putifabsent.backends.local import LocalStore
from putifabsent.backends.memory import MemoryStore
from putifabsent.errors import Fenced
from putifabsent.shim.arbiter import Balloting
from putifabsent.shim.drive import run, run_async
from putifabsent.shim.formats import hudi
from putifabsent.shim.ledger import book, completion, turns
from putifabsent.shim.ledger.appending import append
from putifabsent.shim.ledger.book import Lane, Ledger, Native
from putifabsent.shim.ledger.facts import State
from putifabsent.shim.ledger.records import Open
from putifabsent.shim.policy import Policy
from putifabsent.testing.asking import together
from tests.shim.ledger_judges import Story
from tests.shim.ledger_tables import AT_ONCE

if TYPE_CHECKING:
    from pathlib import Path

    from putifabsent.backends.base import Store
    from putifabsent.shim.requests import Protocol

SESSIONS = 6
COMMITS = 3
DEADLINE = 120.0

POLICY = Policy()


class Table:
    """A table of real files, or of objects in memory."""

    def __init__(self, store: Store, root: str, arbiter: Any, every: int) -> None:
        self.store, self.root, self.arbiter, self.every = store, root, arbiter, every
        timeline = f"{root}/.hoodie/timeline"
        name = hudi.classify(f"{timeline}/1.commit.requested", timeline, "1.commit.requested")
        assert name is not None
        self.name = name

    def ledger(self, session: str) -> Ledger:
        lane = Lane(str(uuid.uuid4()))
        return Ledger(self.name, session, self.arbiter, lane, state=State(every=self.every))

    def run(self, protocol: Protocol[Any]) -> Any:
        return run(protocol, self.store, DEADLINE)

    def creation(self) -> Creation:
        return Creation(str(uuid.uuid4()), "writer", self.name.state)

    def records(self) -> list[dict[str, Any]]:
        """Return what was ever written, as any reader finds it."""
        ledger, number = self.ledger("reader"), 1
        self.run(ledger.current(self.creation()))
        found: list[dict[str, Any]] = []
        while True:
            name = ledger.record(number)
            located = self.run(self.arbiter.find(name, self.creation()))
            got = None if isinstance(located, Absent) else self.store.get(located.path)
            if not isinstance(got, Got):
                return found
            found.append(json.loads(got.data))
            number += 1


@pytest.fixture(params=["native, in memory", "native, on disk", "ballots, in memory"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    decided, _, where = request.param.partition(", ")
    if where == "on disk":
        (tmp_path / "t/.hoodie/timeline").mkdir(parents=True)
        store: Store = LocalStore()
        root = str(tmp_path / "t")
    else:
        store, root = MemoryStore(MemoryFileSystem()), f"/{uuid.uuid4()}/t"
    arbiter = Native(store.largest_put) if decided == "native" else Balloting(2**20)
    return Table(store, root, arbiter, every=8)


def commits(table: Table, lease: float, number: int) -> list[str]:
    """Commit in turns, as one session; return the tokens that were acknowledged. No answer is unknown."""
    ledger, acknowledged = table.ledger(f"session-{number}"), []
    broken = () if lease > 0 else (Fenced,)  # before it is known to be taken: another one is asked for
    for which in range(COMMITS):
        instant = f"{which}{number:03}"
        opening = table.creation()
        table.run(append(ledger, partial(_open, instant, ledger.session, opening.token), opening))
        held = None
        while held is None:
            with contextlib.suppress(*broken):
                held = table.run(turns.take(ledger, "main", lease, table.creation(), clock=time.monotonic))
        creation = table.creation()
        path = f"{table.root}/.hoodie/timeline/{instant}_{instant}9.commit"
        protocol = completion.complete(
            ledger,
            path,
            instant,
            InMemory(creation.token.encode()),
            creation,
            turn=held,
            largest_publish=2**20,
        )
        with contextlib.suppress(Fenced):
            table.run(protocol)
            acknowledged.append(creation.token)
        table.run(turns.release(ledger, held, table.creation()))
    return acknowledged


def _open(instant: str, session: str, token: str, state: State) -> Open | None:
    return None if state.knows(instant) else Open(instant, session, token)


@pytest.mark.parametrize("lease", [60.0, AT_ONCE], ids=["nobody is broken", "everybody is broken at once"])
def test_turns_exclude_one_another_and_no_commit_is_lost(table: Table, lease: float) -> None:
    made = together(SESSIONS, partial(commits, table, lease))
    acknowledged = {token for each in made for token in each}
    story = Story()
    for number, said in enumerate(table.records(), 1):
        story.tell(number, said)
        assert story.wrong is None
    assert acknowledged == set(story.made)
    if lease > 0:
        assert len(acknowledged) == SESSIONS * COMMITS
    assert story.turn is None
    state = table.run(table.ledger("another").current(table.creation()))
    assert set(state.completions) == set(story.made)
    for each in state.completions.values():
        got = table.store.get(f"{table.root}/.hoodie/{each.name}")
        assert got == Got(each.token.encode())


async def test_a_turn_is_taken_and_given_back_asynchronously(table: Table) -> None:
    ledger = table.ledger("a")
    take = turns.take(ledger, "main", AT_ONCE, table.creation(), clock=time.monotonic)
    held = await run_async(take, table.store, DEADLINE)
    assert held is not None
    waiting = turns.take(table.ledger("b"), "main", 9.0, table.creation(), clock=time.monotonic)
    broken_and_taken = await run_async(waiting, table.store, DEADLINE)
    assert broken_and_taken is not None
    release = turns.release(ledger, held, table.creation())
    assert not await run_async(release, table.store, DEADLINE)


def test_who_reads_after_pruning_comes_to_the_same(table: Table) -> None:
    together(SESSIONS, partial(commits, table, 60.0))
    before = table.run(table.ledger("a").current(table.creation()))
    pruned = table.run(book.prune(table.ledger("pruner"), table.creation()))
    assert pruned >= table.every - 1
    assert table.records() == []
    after = table.run(table.ledger("b").current(table.creation()))
    assert replace(after, tokens={}) == replace(before, tokens={})
