"""A creation that is cancelled gives its lock back, and stays cancelled."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

import pytest

from putifabsent.backends.registries import Acquired
from putifabsent.backends.registry_urls import open_lock
from putifabsent.errors import OutcomeUnknown
from putifabsent.shim.drive import run_async
from tests.faults.arbiters import DEADLINE, PLACE, Arbiter, Table
from tests.faults.halted import STEPS, heard_by
from tests.stepped import stepped

if TYPE_CHECKING:
    from tests.faults.arbiters import Place
    from tests.servers import Valkey

LEASE = 600.0
# Sending the accept: before that nothing of it can be decided.
VOTES = 9


# Before the first answer nobody knows which of two requests comes first, the lock's or its release.
@pytest.mark.parametrize("step", STEPS[2:-1:2])
def test_a_cancelled_creation_releases_its_lock(disk: Place, valkey: Valkey, step: int) -> None:
    table = Table(Arbiter("redis", valkey.endpoint, LEASE), disk)
    token = str(uuid.uuid4())

    async def create() -> None:
        task = asyncio.current_task()
        assert task is not None

        def cancel(at: int) -> None:
            if at == step:
                task.cancel()

        made = table.arbiter.create(disk.name("name"), token, token.encode())
        await run_async(stepped(made, cancel), table.store, DEADLINE)

    with pytest.raises(asyncio.CancelledError) as cancelled:
        asyncio.run(create())
    cause = cancelled.value.__cause__
    assert isinstance(cause, OutcomeUnknown) == (step >= VOTES)
    if step != STEPS[-2]:  # the release itself was interrupted: its lease ends by itself
        assert open_lock(valkey.endpoint).acquire(f"{PLACE}{disk.name('name')}", "next", LEASE) == Acquired()
        open_lock(valkey.endpoint).release(f"{PLACE}{disk.name('name')}", "next")
    first = table.holder("name")
    assert first in {None, token}
    if first is not None:
        assert heard_by(Table(Arbiter("ballot"), disk), "name", str(uuid.uuid4())) == token
