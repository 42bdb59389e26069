"""A failover loses locks that were granted and acknowledged. No name has two winners by that."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

import pytest

from putifabsent.backends.registries import Acquired, Held
from putifabsent.backends.registry_urls import open_lock
from tests.faults.arbiters import PLACE, Arbiter, Table
from tests.faults.failover import Forgetful
from tests.faults.halted import HOLDING, Halted, heard_by

if TYPE_CHECKING:
    from tests.faults.arbiters import Place

pytestmark = pytest.mark.timeout(300)

# Longer than the test: whoever is granted a lock holds it to the end, as far as its Redis knows.
LEASE = 600.0
LONG = bool(os.environ.get("LONG"))
RUNS = [0, *(pytest.param(run, marks=pytest.mark.servers) for run in range(1, 10 if LONG else 1))]


@pytest.mark.parametrize("run", RUNS)
def test_a_lock_that_a_failover_forgets_costs_no_name_its_only_winner(
    run: int, disk: Place, bucket: Place, ignoring: Place
) -> None:
    with Forgetful() as redis:
        before = Arbiter("redis", redis.url, LEASE)
        # A process of its own would have its own connections, too.
        after = Arbiter("redis", f"{redis.url}?timeout=4", LEASE)
        redis.cut()
        # Each holds its lock, and stops at another step of its ballot.
        places = (disk, bucket, ignoring)
        others = {place.folder: Table(after, place) for place in places}
        halted = [
            Halted(table, f"step-{step}", step)
            for table in [Table(before, place) for place in places]
            for step in (HOLDING if LONG else HOLDING[::2])
        ]
        for each in halted:
            each.start()
        for each in halted:
            each.wait()
        intruder = open_lock(redis.url)
        keys = [f"{PLACE}{each.path}" for each in halted]
        tokens = [str(uuid.uuid4()) for _ in halted]
        asked = [intruder.acquire(key, token, LEASE) for key, token in zip(keys, tokens, strict=True)]
        assert [held.by for held in asked if isinstance(held, Held)] == [each.token for each in halted]

        redis.fail_over()

        granted = [intruder.acquire(key, token, LEASE) for key, token in zip(keys, tokens, strict=True)]
        assert granted == [Acquired()] * len(halted), "each lock has two holders now"
        heard = [
            heard_by(others[each.table.place.folder], each.name, token)
            for each, token in zip(halted, tokens, strict=True)
        ]
        winners = [each.end() for each in halted]
    assert winners == heard, "the two writers of a name hear of the same winner"
    first, second = {each.token for each in halted}, set(tokens)
    assert set(winners) & first, "somebody had put it to the vote before"
    assert set(winners) & second, "somebody had not"
    assert set(winners) <= first | second
    for each, winner in zip(halted, winners, strict=True):
        reader = others[each.table.place.folder]
        assert {reader.holder(each.name), reader.shown(each.name)} == {winner}
