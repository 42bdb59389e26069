"""A holder that is paused (SIGSTOP) for three times its lease does no harm when it goes on."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.backends.registries import Acquired, Free, Held
from putifabsent.backends.registry_urls import open_lock
from tests.faults.arbiters import PLACE, Arbiter, Table
from tests.faults.halted import HOLDING, Halted, heard_by

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from tests.faults.arbiters import Place
    from tests.servers import Valkey

LEASE = 0.5
FOR_LONG = 600.0
# A lease of half a second has ended before so many questions are answered, or it never will.
QUESTIONS = 1_000_000
SECONDS = 120

WHERES = ["disk", "ignoring", pytest.param("bucket", marks=pytest.mark.servers)]


@pytest.mark.parametrize("where", WHERES)
def test_a_holder_that_oversleeps_its_lease_neither_wins_twice_nor_releases_the_next_one(
    request: pytest.FixtureRequest, where: str, valkey: Valkey
) -> None:
    place: Place = request.getfixturevalue(where)
    arbiter = Arbiter("redis", valkey.endpoint, LEASE)
    lock = open_lock(valkey.endpoint)
    names = [f"step-{step}" for step in HOLDING]
    processes = multiprocessing.get_context("spawn")
    here, there = processes.Pipe()
    child = processes.Process(target=_holds_and_stops, args=(arbiter, place, there), daemon=True)
    child.start()
    try:
        there.close()
        assert here.poll(SECONDS), "the holder did not come to hold its locks"
        held: dict[str, str] = here.recv()
        os.kill(int(child.pid or 0), signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(int(child.pid or 0), os.WUNTRACED)[1])
        for owner in ("first", "second", "third"):
            _wait_for(lock, f"{PLACE}as long as three leases", owner)
        table = Table(arbiter, place)
        tokens = {name: str(uuid.uuid4()) for name in names}
        for name in names:
            _wait_for(lock, f"{PLACE}{place.name(name)}", tokens[name], FOR_LONG)
        heard = {name: heard_by(table, name, tokens[name]) for name in names}
        # As if the next one were still at it.
        for name in names:
            assert lock.acquire(f"{PLACE}{place.name(name)}", tokens[name], FOR_LONG) == Acquired()
        os.kill(int(child.pid or 0), signal.SIGCONT)
        here.send("go on")
        assert here.poll(SECONDS), "the holder does not end"
        woken: Any = here.recv()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(child.pid or 0), signal.SIGKILL)
        child.join()
    assert woken == heard, "both hear of the same winner, name by name"
    assert set(heard.values()) <= {*held.values(), *tokens.values()}
    assert set(heard.values()) & set(held.values())
    assert set(heard.values()) & set(tokens.values())
    for name in names:
        assert {table.holder(name), table.shown(name)} == {heard[name]}
        still = lock.acquire(f"{PLACE}{place.name(name)}", "whoever asks", FOR_LONG)
        assert isinstance(still, Held)
        assert still.by == tokens[name], "the sleeper has released another's lock"
    assert isinstance(lock.release(f"{PLACE}as long as three leases", "first"), (Free, Held))


def _holds_and_stops(arbiter: Arbiter, place: Place, connection: Connection) -> None:
    table = Table(arbiter, place)
    halted = [Halted(table, f"step-{step}", step) for step in HOLDING]
    for each in halted:
        each.start()
    for each in halted:
        each.wait()
    connection.send({each.name: each.token for each in halted})
    connection.recv()
    connection.send({each.name: each.end() for each in halted})


def _wait_for(lock: Any, key: str, owner: str, lease: float = LEASE) -> None:
    """Take a lock as soon as its holder's lease has ended."""
    assert any(lock.acquire(key, owner, lease) == Acquired() for _ in range(QUESTIONS))
