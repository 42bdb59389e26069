"""What a service says of itself to who collects metrics."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from putifabsent.service.app import CONTENT_TYPE, Tally

if TYPE_CHECKING:
    from tests.fsspec_plugin.grounds import Ground
    from tests.service.callers import Caller


async def test_every_answer_is_counted(caller: Caller, ground: Ground) -> None:
    for _ in range(2):
        await caller.create(ground.log(), b"four")
    await caller.post("admit", data=b"not JSON")
    async with caller.http.get(f"{caller.url}/v1/metrics", headers=caller.headers) as answer:
        assert answer.headers["Content-Type"] == CONTENT_TYPE
        lines = (await answer.text()).splitlines()
    assert 'putifabsent_calls_total{call="create",status="200"} 1' in lines
    assert 'putifabsent_calls_total{call="create",status="409"} 1' in lines
    assert 'putifabsent_calls_total{call="admit",status="400"} 1' in lines
    assert 'putifabsent_call_bytes_total{call="create"} 8' in lines
    assert "putifabsent_calls_inside 0" in lines


async def test_a_turn_that_was_broken_is_counted(caller: Caller, root: str) -> None:
    taking = {"thread": "main", "token": str(uuid.uuid4())}
    turn = (await caller.call("turns/take", root, **taking)).body["turn"]
    await caller.call("turns/beat", root, turn=turn)
    await caller.call("turns/release", root, turn=turn)
    for call in ("beat", "release"):
        assert not (await caller.call(f"turns/{call}", root, turn=turn)).body["held"]
    async with caller.http.get(f"{caller.url}/v1/metrics", headers=caller.headers) as answer:
        assert "putifabsent_turns_broken_total 1" in (await answer.text()).splitlines()


async def test_who_had_to_wait_for_a_turn_is_counted(caller: Caller, root: str) -> None:
    for thread in ("one", "another", "another"):
        await caller.call("turns/take", root, thread=thread, token=str(uuid.uuid4()))
    async with caller.http.get(f"{caller.url}/v1/metrics", headers=caller.headers) as answer:
        assert "putifabsent_turns_awaited_total 2" in (await answer.text()).splitlines()


async def test_strangers_are_told_nothing(caller: Caller) -> None:
    async with caller.http.get(f"{caller.url}/v1/metrics") as answer:
        assert answer.status == 401


def test_the_buckets_of_a_histogram_hold_those_below() -> None:
    tally = Tally()
    for seconds in (0.001, 0.02, 0.02, 60.0):
        tally.add("create", 200, seconds)
    counts = dict(line.rsplit(" ", 1) for line in tally.text().splitlines() if not line.startswith("#"))
    bucket = 'putifabsent_call_seconds_bucket{{call="create",le="{}"}}'
    assert [counts[bucket.format(bound)] for bound in ("0.005", "0.01", "0.025", "30.0", "+Inf")] == list(
        "11334"
    )
    assert counts['putifabsent_call_seconds_count{call="create"}'] == "4"
    assert float(counts['putifabsent_call_seconds_sum{call="create"}']) == sum((0.001, 0.02, 0.02, 60.0))
