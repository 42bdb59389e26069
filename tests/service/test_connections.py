"""Floods: who has not shown the secret takes nothing from who has, and is in no log and no answer."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import uuid
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest

from putifabsent.service import connections
from putifabsent.service.app import Memory
from tests.service.callers import SECRET, Caller, answering, manifest
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.fsspec_plugin.grounds import Ground

FEW = 8


CROWD = 400


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be few strangers in a service that is started after this."""
    monkeypatch.setattr(connections, "STRANGERS", FEW)


@asynccontextmanager
async def connected(
    url: str, peer: str = "127.0.0.1"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(peer, 0))
    try:
        yield reader, writer
    finally:
        writer.close()


def request(caller: Caller, call: str = "names", path: str = "file:/") -> bytes:
    body = json.dumps({"path": path}).encode()
    fields = {**caller.headers, "Host": "x", "Content-Length": str(len(body))}
    lines = [f"POST /v1/{call} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode() + body


async def status_of(reader: asyncio.StreamReader) -> int:
    """Read one answer to its end."""
    head = await reader.readuntil(b"\r\n\r\n")
    (length,) = (line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    await reader.readexactly(int(length.partition(b":")[2]))
    return int(head.split()[1])


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


@pytest.mark.usefixtures("few")
async def test_the_oldest_of_too_many_silent_connections_makes_way(caller: Caller, ground: Ground) -> None:
    async with AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(connected(caller.url)) for _ in range(3 * FEW)]
        assert (await caller.create(manifest(ground, 1), b"x")).status == 200
        assert all([await is_closed(reader) for reader, _ in silent[: 2 * FEW]])


@pytest.mark.usefixtures("few")
async def test_a_flood_from_one_place_pushes_out_nobody_else(caller: Caller, ground: Ground) -> None:
    call = request(caller, path=f"file:{ground.folder}")
    async with connected(caller.url) as (reader, writer), AsyncExitStack() as stack:
        writer.write(call[:20])
        await writer.drain()
        for _ in range(3 * FEW):
            await stack.enter_async_context(connected(caller.url, "127.0.0.2"))
        writer.write(call[20:])
        assert await status_of(reader) == 200


async def test_callers_who_come_all_at_once_are_all_answered(caller: Caller, ground: Ground) -> None:
    call = request(caller, path=f"file:{ground.folder}")
    host, _, port = caller.url.removeprefix("http://").partition(":")
    with ExitStack() as stack:
        # The service runs in this thread: it accepts none of them before all have sent their requests.
        crowd = [stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(CROWD)]
        for each in crowd:
            each.sendall(call)
        answers = [await asyncio.open_connection(sock=each.dup()) for each in crowd]
        assert [await status_of(reader) for reader, _ in answers] == [200] * CROWD
        for _, writer in answers:
            writer.close()


async def test_who_goes_away_while_its_body_is_read_is_in_no_log(
    caller: Caller, ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(caller.url) as (_, writer):
        writer.write(request(caller, path=f"file:{ground.folder}")[:-1])
        while "putifabsent_calls_inside 1" not in await caller.counts():
            pass
        writer.transport.abort()
    while 'putifabsent_calls_total{call="names"' not in await caller.counts() and not caplog.text:
        pass
    assert caplog.text == ""


@pytest.mark.usefixtures("few")
async def test_a_connection_that_has_shown_the_secret_stays(caller: Caller, ground: Ground) -> None:
    call = request(caller, path=f"file:{ground.folder}")
    async with connected(caller.url) as (reader, writer), AsyncExitStack() as stack:
        writer.write(call)
        assert await status_of(reader) == 200
        for _ in range(3 * FEW):
            await stack.enter_async_context(connected(caller.url))
        writer.write(call)
        assert await status_of(reader) == 200


@pytest.mark.parametrize(
    "sent", [b"", b"POST /v1/names HTTP/1.1\r\nHost: x\r\n", b"GET /v1/health HTTP/1.1\r\n\r\n"]
)
async def test_who_does_not_show_the_secret_has_only_so_long(
    sent: bytes, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "SECONDS", 0.01)
    async with connected(caller.url) as (reader, writer):
        writer.write(sent)
        try:
            while await reader.read(1000):
                pass  # what is answered before
        except ConnectionResetError:
            pass


@pytest.mark.parametrize("after", [b"\r", b"\x00", b"\x01", b"\r\x00x"])
@pytest.mark.parametrize(
    "before", [b"POST /v1/admit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ", b"", b"\x16\x03\x01"]
)
async def test_what_is_no_request_is_in_no_answer_and_no_log(
    before: bytes, after: bytes, caller: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with connected(caller.url) as (reader, writer):
        writer.write(before + SECRET.encode() + after + b"\r\n\r\n")
        answer = await reader.read()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split()[1] == b"400"
    assert json.loads(body) == {"error": "request", "message": "this is no request of HTTP/1.1"}
    assert SECRET not in caplog.text
    assert SECRET.encode().hex() not in caplog.text


async def test_a_head_that_does_not_end_is_refused(caller: Caller) -> None:
    async with connected(caller.url) as (reader, writer):
        writer.write(b"GET /" + b"x" * connections._LONGEST_HEAD)
        assert await status_of(reader) == 400
        assert await is_closed(reader)


def test_the_heads_of_all_strangers_take_less_than_100_mib() -> None:
    assert connections.STRANGERS * connections._LONGEST_HEAD < 100 * 2**20


async def test_what_was_refused_is_not_kept_while_its_connection_ends() -> None:
    class Transport(asyncio.Transport):
        def write(self, data: Any) -> None:
            assert b" 400 " in data

        def close(self) -> None:
            pass  # by TLS, the other side is waited for

    strangers = connections.Strangers()
    stranger = connections.Stranger(cast("Any", None), strangers)
    stranger.connection_made(Transport())
    stranger.data_received(b"\0" * 2**18)
    assert stranger._head == b""
    stranger.connection_lost(None)
    assert len(strangers) == 0


@pytest.mark.parametrize(
    ("sent", "status"), [(b"GET /v1/health", 200), (b"POST /v1/health", 405), (b"GET /v1/metrics", 401)]
)
async def test_who_does_not_show_the_secret_sends_one_request(
    sent: bytes, status: int, caller: Caller
) -> None:
    async with connected(caller.url) as (reader, writer):
        writer.write(sent + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await status_of(reader) == status
        assert await is_closed(reader)


@pytest.mark.parametrize("more", [{"concurrency": 1}])
async def test_a_body_that_comes_slowly_keeps_nobody_from_working(caller: Caller, ground: Ground) -> None:
    begun, over = asyncio.Event(), asyncio.Event()

    async def slowly() -> Any:
        yield b"x"
        begun.set()
        await over.wait()

    query = {"path": f"file:{manifest(ground, 1)}", "token": str(uuid.uuid4())}
    slow = asyncio.create_task(caller.post("create", params=query, data=slowly()))
    await begun.wait()
    assert (await caller.create(manifest(ground, 2), b"x")).status == 200
    over.set()
    assert (await slow).status == 200


async def test_a_sign_of_life_does_not_wait_for_creations() -> None:
    with FaultStub() as stub:
        options = {**stub.storage_options("s3"), "arbiter": "native", "deadline": 20.0}
        settings = {"secret": SECRET, "mounts": [{"prefix": "s3a://", "options": options}], "concurrency": 1}
        async with answering(settings) as url, Caller.at(url) as caller:
            taking = {"path": "s3a://bucket/t/x", "token": str(uuid.uuid4()), "lease": 60}
            turn = (await caller.post("turns/take", json=taking)).body["turn"]
            stub.script(Op.PUT, Fault.TIMEOUT_AFTER_APPLY)
            query = {
                "path": "s3a://bucket/t/_delta_log/00000000000000000000.json",
                "token": str(uuid.uuid4()),
            }
            creating = asyncio.create_task(caller.post("create", params=query, data=b"mine"))
            await asyncio.to_thread(stub.wait_for, Op.PUT, key="t/_delta_log/00000000000000000000.json")
            for call in ("turns/beat", "turns/release"):
                answer = await caller.post(call, json={"path": "s3a://bucket/t/x", "turn": turn})
                assert answer.body == {"held": True}
            stub.release()
            assert (await creating).status == 200


async def test_bodies_have_only_so_much_memory_and_who_comes_first_has_it_first() -> None:
    memory, order = Memory(10), []

    async def have(name: str, size: int, until: asyncio.Event) -> None:
        async with memory.of(size):
            order.append(name)
            await until.wait()

    ends = [asyncio.Event() for _ in range(3)]
    having = [
        asyncio.create_task(have(name, size, end))
        for name, size, end in zip("abc", (6, 8, 1), ends, strict=True)
    ]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert order == ["a"]
    for end in ends:
        end.set()
    await asyncio.gather(*having)
    assert order == ["a", "b", "c"]
