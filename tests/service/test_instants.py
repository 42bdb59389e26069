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
    given = [instant for answer in answers for instant in answer.body["instants"]]
    assert len(set(given)) == 48
    assert all(answer.body["instants"] == sorted(answer.body["instants"]) for answer in answers)


async def test_whoever_says_no_number_gets_one(caller: Caller, root: str) -> None:
    first = await caller.call("instants", root)
    second = await caller.call("instants", root)
    assert len(first.body["instants"]) == len(second.body["instants"]) == 1
    assert first.body["instants"] < second.body["instants"]


async def test_instants_are_for_tables_that_it_answers_for(caller: Caller) -> None:
    answer = await caller.call("instants", "/somewhere/else")
    assert (answer.status, answer.body["error"]) == (403, "denied")


@pytest.mark.parametrize("count", [0, 1001, "many"])
async def test_an_odd_number_is_refused(caller: Caller, root: str, count: object) -> None:
    answer = await caller.call("instants", root, count=count)
    assert (answer.status, answer.body["error"]) == (400, "request")
    assert "count" in answer.body["message"]


async def test_a_service_without_a_clock_says_so(unguarding: Caller, root: str) -> None:
    answer = await unguarding.call("instants", root)
    assert (answer.status, answer.body["error"]) == (400, "config")
    assert "has no clock" in answer.body["message"]


async def test_a_source_that_does_not_answer_is_said(ground: Ground) -> None:
    settings = {
        "secret": SECRET,
        "mounts": [{"prefix": f"file:{ground.folder}"}],
        "clock": {"source": "redis://:hush@127.0.0.1:1", "timeout": 0.01},
    }
    async with answering(settings) as url, Caller.at(url) as caller:
        answer = await caller.call("instants", ground.folder)
    assert (answer.status, answer.body["error"]) == (503, "slow")
    assert "no instant was given" in answer.body["message"]
    assert "hush" not in json.dumps(answer.body)


async def test_a_clock_that_is_none_is_refused_before_it_serves(ground: Ground) -> None:
    fields = {
        "secret": SECRET,
        "mounts": [{"prefix": f"file:{ground.folder}"}],
        "clock": {"source": "sundial"},
    }
    settings = Settings.model_validate(fields)
    with pytest.raises(ConfigError, match="this names no clock"):
        async with listening(settings, Mounts(settings.mounts)):
            pass


def test_settings_show_no_credentials_of_the_clock() -> None:
    fields = {"secret": SECRET, "mounts": [{"prefix": "memory:"}], "clock": {"source": "redis://:hush@host"}}
    assert "hush" not in repr(Settings.model_validate(fields))
