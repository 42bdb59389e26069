"""Instants over HTTP: each given once, to whoever may write the table, by the clock of the settings."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.errors import ConfigError
from putifabsent.service import Mounts, Settings, listening
from tests.service.callers import SECRET, Caller, answering

if TYPE_CHECKING:
    from tests.fsspec_plugin.grounds import Ground


@pytest.fixture
def more() -> dict[str, Any]:
    return {"clock": {"source": "local"}}


async def test_instants_are_given_once(caller: Caller, other: Caller, root: str) -> None:
    answers = await asyncio.gather(
        *(each.call("instants", root, count=3) for each in (caller, other) for _ in range(8))
    )
    assert {answer.status for answer in answers} == {200}
    given = [instant for answer in answers for instant in answer.said["instants"]]
    assert len(set(given)) == 48
    assert all(answer.said["instants"] == sorted(answer.said["instants"]) for answer in answers)


async def test_whoever_says_no_number_gets_one(caller: Caller, root: str) -> None:
    first = await caller.call("instants", root)
    second = await caller.call("instants", root)
    assert len(first.said["instants"]) == len(second.said["instants"]) == 1
    assert first.said["instants"] < second.said["instants"]


async def test_instants_are_for_tables_that_it_answers_for(caller: Caller) -> None:
    answer = await caller.call("instants", "/somewhere/else")
    assert (answer.status, answer.said["error"]) == (403, "denied")


@pytest.mark.parametrize("count", [0, 1001, "many"])
async def test_an_odd_number_is_refused(caller: Caller, root: str, count: object) -> None:
    answer = await caller.call("instants", root, count=count)
    assert (answer.status, answer.said["error"]) == (400, "request")
    assert "count" in answer.said["message"]


async def test_a_service_without_a_clock_says_so(unguarding: Caller, root: str) -> None:
    answer = await unguarding.call("instants", root)
    assert (answer.status, answer.said["error"]) == (400, "config")
    assert "has no clock" in answer.said["message"]


async def test_a_source_that_does_not_answer_is_said(ground: Ground) -> None:
    told = {
        "secret": SECRET,
        "mounts": [{"prefix": f"file:{ground.folder}"}],
        "clock": {"source": "redis://:hush@127.0.0.1:1", "timeout": 0.01},
    }
    async with answering(told) as url, Caller.at(url) as caller:
        answer = await caller.call("instants", ground.folder)
    assert (answer.status, answer.said["error"]) == (503, "slow")
    assert "no instant was given" in answer.said["message"]
    assert "hush" not in json.dumps(answer.said)


async def test_a_clock_that_is_none_is_refused_before_it_serves(ground: Ground) -> None:
    said = {"secret": SECRET, "mounts": [{"prefix": f"file:{ground.folder}"}], "clock": {"source": "sundial"}}
    told = Settings.model_validate(said)
    with pytest.raises(ConfigError, match="this names no clock"):
        async with listening(told, Mounts(told.mounts)):
            pass


def test_settings_show_no_credentials_of_the_clock() -> None:
    said = {"secret": SECRET, "mounts": [{"prefix": "memory:"}], "clock": {"source": "redis://:hush@host"}}
    assert "hush" not in repr(Settings.model_validate(said))
