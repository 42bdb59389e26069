"""Calls that nobody waits for any more: whoever made one may have made it anew, and gone on."""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.service import app
from tests.service.callers import SECRET, Answer, Caller, answering
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KEY = "t/_delta_log/00000000000000000000.json"


@pytest.fixture
async def caller(stub: FaultStub) -> AsyncIterator[Caller]:
    """Return a session of a service that does one call after the other."""
    options = {**stub.storage_options("s3"), "arbiter": "native", "deadline": 20.0}
    settings = {"secret": SECRET, "mounts": [{"prefix": "s3a://", "options": options}], "concurrency": 1}
    async with answering(settings) as url, Caller.at(url) as caller:
        yield caller


def creation(key: str) -> dict[str, str]:
    return {"path": f"s3a://bucket/{key}", "token": str(uuid.uuid4())}


@asynccontextmanager
async def busy(caller: Caller, stub: FaultStub) -> AsyncIterator[None]:
    """Have the service wait for its store until the block is left; that call is done then."""
    stub.script(Op.PUT, Fault.TIMEOUT_AFTER_APPLY)
    first = asyncio.create_task(caller.post("create", params=creation(f"u/{KEY}"), data=b"{}"))
    await asyncio.to_thread(stub.wait_for, Op.PUT)
    yield
    stub.release()
    assert (await first).status == 200


async def waiting(caller: Caller) -> None:
    while "calls_inside 2" not in await caller.counts():
        pass


async def refused(caller: Caller) -> None:
    while 'calls_total{call="rename"' not in await caller.counts():
        pass
    assert 'calls_total{call="rename",status="503"} 1' in await caller.counts()


async def test_nothing_is_done_for_a_caller_who_has_gone(caller: Caller, stub: FaultStub) -> None:
    host, _, port = caller.url.removeprefix("http://").partition(":")
    stub.put("bucket", "source", b"{}")
    body = json.dumps({**creation(KEY), "source": "s3a://bucket/source"}).encode()
    fields = {**caller.headers, "Host": "x", "Content-Length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    async with busy(caller, stub):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"POST /v1/rename HTTP/1.1\r\n{head}\r\n".encode() + body)
        await waiting(caller)
        writer.close()
        await writer.wait_closed()
    await refused(caller)
    assert ("bucket", KEY) not in stub.objects


@pytest.mark.parametrize(("seconds", "status"), [(59.0, 200), (61.0, 503)])
async def test_a_call_that_has_waited_for_longer_than_callers_do_is_not_begun(
    seconds: float, status: int, caller: Caller, stub: FaultStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(app, "asleep_too", lambda: now[0])
    async with busy(caller, stub):
        late: asyncio.Task[Answer] = asyncio.create_task(
            caller.post("create", params=creation(KEY), data=b"{}")
        )
        await waiting(caller)
        now[0] += seconds
    answer: Any = await late
    assert answer.status == status
    assert (status == 200) is (("bucket", KEY) in stub.objects)
    if status != 200:
        assert answer.body["error"] == "busy"
        assert answer.body["message"] == "nothing was done: the call came more than 60 s ago"
        assert answer.headers["Retry-After"] == "1"
