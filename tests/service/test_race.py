"""Many callers of two services, one of which is killed again and again: each name has one winner."""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.fsspec_plugin.grounds import Ground
from tests.service.callers import MANIFESTS, SECRET, Caller, manifest
from tests.service.processes import serving

if TYPE_CHECKING:
    from putifabsent.lab.servers import LocalBucket

CALLERS, NAMES = 8, 12
PATIENCE = 60.0
LOOKS = 15  # what a killed service has sent has arrived by then
WON, LOST = "won", "lost"


@pytest.mark.parametrize("arbiter", ["native", pytest.param("ballot", marks=pytest.mark.servers)])
async def test_a_service_that_is_killed_costs_no_name_its_only_winner(
    arbiter: str, localbucket: LocalBucket
) -> None:
    ground = Ground("s3", localbucket.storage_options, f"{localbucket.bucket}/{uuid.uuid4()}", arbiter)
    options = {**ground.options, "arbiter": arbiter, "guard": [MANIFESTS], "deadline": PATIENCE}
    settings = {"secret": SECRET, "mounts": [{"prefix": "s3a://", "options": options}]}
    services: list[str] = ["", ""]
    up, over = asyncio.Event(), asyncio.Event()

    async def dying() -> None:
        while not over.is_set():
            service = serving(settings)
            process, services[0] = await asyncio.to_thread(service.__enter__)
            up.set()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(over.wait(), random.uniform(0.2, 1.5))
            process.kill()
            await asyncio.to_thread(service.__exit__, None, None, None)

    with serving(settings) as (_, services[1]):
        killing = asyncio.create_task(dying())
        try:
            await up.wait()
            answers = await asyncio.gather(*(_calls(ground, services, who) for who in range(CALLERS)))
        finally:
            over.set()
            await killing
    reader = ground.mount(guard=[MANIFESTS], skip_instance_cache=True)
    for number in range(NAMES):
        heard = {who: of[number] for who, of in enumerate(answers)}
        (winner,) = [who for who, outcome in heard.items() if outcome == WON]
        assert set(heard.values()) == {WON, LOST}
        assert reader.cat_file(manifest(ground, number)) == b"%d" % winner


async def _calls(ground: Ground, services: list[str], who: int) -> list[str]:
    """Try to create each name; return what was heard of each."""
    async with aiohttp.ClientSession() as http:
        caller = Caller("", http)
        return [await _created(caller, manifest(ground, number), services, who) for number in range(NAMES)]


async def _created(caller: Caller, name: str, services: list[str], who: int) -> str:
    mine: list[str] = []
    while True:
        mine.append(str(uuid.uuid4()))
        query = {"path": f"s3a://{name}", "token": mine[-1]}
        caller.url = random.choice(services)
        try:
            answer = await caller.post("create", params=query, data=b"%d" % who)
            status: int | None = answer.status
            if status == 409 and answer.body["holder"]["token"] in mine:
                status = 200  # an earlier one of this caller's has landed after all
        except aiohttp.ClientConnectorError:
            await asyncio.sleep(0.05)  # that was no call
            continue
        except aiohttp.ClientError:
            status = await _resolved(caller, query, services[1])
        if status is not None:
            assert status in (200, 409)
            return WON if status == 200 else LOST


async def _resolved(caller: Caller, query: dict[str, str], url: str) -> int | None:
    """Say what became of a call of a service that was killed; None: nothing, and nothing will."""
    caller.url = url
    for _ in range(LOOKS):
        answer = await caller.post("resolve", json=query)
        if answer.status != 200 or answer.body["holder"] is not None:
            return answer.status
        await asyncio.sleep(0.2)
    return None
