"""Who may call, about what, and how much: everything else is refused, and the service lives on."""

from __future__ import annotations

import asyncio
import logging
import uuid
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.service.callers import SECRET, Caller, manifest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.fsspec_plugin.grounds import Ground


async def answers(caller: Caller, ground: Ground) -> bool:
    return (await caller.create(manifest(ground, uuid.uuid4().int), b"alive")).status == 200


@pytest.mark.parametrize("secret", ["", "wrong", SECRET[:-1], f"{SECRET}x", "é"])
async def test_without_the_secret_nothing_is_done(secret: str, caller: Caller, ground: Ground) -> None:
    stranger = Caller(caller.url, caller.http, secret=secret)
    answer = await stranger.create(ground.log(), b"theirs")
    assert (answer.status, answer.body["error"]) == (401, "secret")
    unheard = await caller.post("create", headers={}, data=b"")
    assert unheard.status == 401
    assert ground.files() == []
    assert await answers(caller, ground)


@pytest.mark.parametrize("more", [{"secret": ["a new secret of enough characters", SECRET]}])
async def test_while_a_secret_is_changed_the_old_one_and_the_new_one_are_right(
    caller: Caller, ground: Ground
) -> None:
    statuses = [
        (await Caller(caller.url, caller.http, secret=secret).create(manifest(ground, number), b"x")).status
        for number, secret in enumerate((SECRET, "a new secret of enough characters", "an older secret"))
    ]
    assert statuses == [200, 200, 401]


@pytest.mark.parametrize("secret", [b"\xff\xfe", b"Bearer \xff", b"x" * 5000])
async def test_a_secret_that_is_no_text_is_a_wrong_one(secret: bytes, caller: Caller, ground: Ground) -> None:
    host, _, port = caller.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        b"POST /v1/admit HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nAuthorization: %b\r\n\r\n" % secret
    )
    assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
    writer.close()
    assert await answers(caller, ground)


async def test_health_is_told_to_anybody(caller: Caller) -> None:
    async with caller.http.get(f"{caller.url}/v1/health") as answer:
        assert (answer.status, (await answer.json())["status"]) == (200, "ok")


@pytest.mark.parametrize(
    "path", ["file:{above}/x", "file:{here}x/y", "file:{here}/../x", "file:{here}/./x", "s3a://bucket/x", "x"]
)
async def test_what_lies_outside_the_mounts_is_refused(
    path: str, caller: Caller, ground: Ground, tmp_path: Path
) -> None:
    address = path.format(above=tmp_path.parent, here=ground.folder)
    for call in ("admit", "delete"):
        answer = await caller.post(call, json={"path": address})
        assert (answer.status, answer.body["error"]) == (403, "denied"), answer.body
    token = str(uuid.uuid4())
    assert (await caller.call("rename", ground.log(), source=address, token=token)).status == 403
    assert ground.files() == []


@pytest.mark.parametrize(
    ("path", "is_apart"),
    [
        ("file:{above}/x", True),
        ("file:{here}x/y", True),
        ("file:{above}", False),
        ("file:/", False),
        ("file:{here}/../x", False),
        ("file:{here}/.putifabsent", False),
        ("s3a://bucket/x", False),
    ],
)
async def test_a_folder_beside_the_mounts_is_removed_by_its_owner(
    path: str, is_apart: bool, caller: Caller, ground: Ground, tmp_path: Path
) -> None:
    """A job writes beside them what nothing guards, and then removes its temporary folder."""
    address = path.format(above=tmp_path.parent, here=ground.folder)
    answer = await caller.post("delete", json={"path": address, "recursive": True})
    assert (answer.status, answer.body.get("guarded")) == ((200, False) if is_apart else (403, None))


@pytest.mark.parametrize("more", [{"largest_body": 1000}])
async def test_a_body_over_the_limit_is_refused(caller: Caller, ground: Ground) -> None:
    answer = await caller.create(ground.log(), b"x" * 1001)
    assert answer.status == 413
    assert ground.files() == []
    assert (await caller.create(ground.log(), b"x" * 1000)).status == 200


@pytest.mark.parametrize(
    ("call", "request_"),
    [
        ("admit", {"data": b"not JSON"}),
        ("admit", {"json": ["a list"]}),
        ("admit", {"json": {}}),
        ("admit", {"json": {"path": ""}}),
        ("admit", {"json": {"path": "file:/x", "unknown": 1}}),
        ("resolve", {"json": {"path": "file:/x", "token": "no UUID"}}),
        ("create", {"params": {"path": "file:/x"}}),
        ("turns/take", {"json": {"path": "file:/x"}}),
        ("turns/take", {"json": {"path": "file:/x", "token": str(uuid.UUID(int=0)), "lease": 0}}),
        ("turns/beat", {"json": {"path": "file:/x", "turn": "7"}}),
    ],
)
async def test_what_is_no_call_is_refused(
    call: str, request_: dict[str, Any], caller: Caller, ground: Ground
) -> None:
    answer = await caller.post(call, **request_)
    assert (answer.status, answer.body["error"]) == (400, "request"), answer.body
    assert await answers(caller, ground)


async def test_an_unknown_call_is_not_found(caller: Caller) -> None:
    assert (await caller.post("unknown")).status == 404


@pytest.mark.parametrize("missing", ["putifabsent-session", "putifabsent-writer"])
async def test_a_call_for_nobody_is_refused(missing: str, caller: Caller, ground: Ground) -> None:
    headers = {name: value for name, value in caller.headers.items() if name != missing}
    answer = await caller.post("admit", headers=headers, json={"path": f"file:{ground.log()}"})
    assert (answer.status, missing in answer.body["message"]) == (400, True)


@pytest.mark.parametrize("session", ["the-session-of-spark-defaults", "0", f"{uuid.UUID(int=1)}x"])
async def test_a_session_is_a_uuid(session: str, caller: Caller, ground: Ground) -> None:
    headers = {**caller.headers, "putifabsent-session": session}
    answer = await caller.post("admit", headers=headers, json={"path": f"file:{ground.log()}"})
    assert (answer.status, "must say a UUID" in answer.body["message"]) == (400, True)


@pytest.mark.parametrize("more", [{"body_seconds": 0.3, "concurrency": 1}])
async def test_a_caller_who_sends_too_slowly_is_left(caller: Caller, ground: Ground) -> None:
    left = asyncio.Event()

    async def slowly() -> Any:
        yield b"x"
        await left.wait()

    query = {"path": f"file:{ground.log()}", "token": str(uuid.uuid4())}
    answer = await caller.post("create", params=query, data=slowly())
    left.set()
    assert answer.status == 408
    assert ground.files() == []
    assert await answers(caller, ground)


@asynccontextmanager
async def busy_with_one(caller: Caller, ground: Ground) -> AsyncIterator[None]:
    """Have the service work on a creation, whose bytes are all there when the block is left."""
    over = asyncio.Event()

    async def held() -> Any:
        yield b"x"
        await over.wait()

    query = {"path": f"file:{manifest(ground, 1)}", "token": str(uuid.uuid4())}
    first = asyncio.create_task(caller.post("create", params=query, data=held()))
    while "calls_inside 1" not in await caller.counts():
        pass
    yield
    over.set()
    assert (await first).status == 200


@pytest.mark.parametrize("more", [{"concurrency": 1, "waiting": 0}])
async def test_too_many_calls_are_told_to_come_again(caller: Caller, ground: Ground) -> None:
    async with busy_with_one(caller, ground):
        busy = await caller.create(manifest(ground, 2), b"")
        assert (busy.status, busy.body["error"], busy.headers["Retry-After"]) == (503, "busy", "1")


@pytest.mark.parametrize("more", [{"concurrency": 1, "waiting": 0}])
async def test_who_sends_for_long_hears_that_nothing_was_done(caller: Caller, ground: Ground) -> None:
    async with busy_with_one(caller, ground):
        host, _, port = caller.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        headers = "".join(f"{key}: {value}\r\n" for key, value in caller.headers.items())
        writer.write(f"POST /v1/create HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n{headers}\r\nx".encode())
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(reader.read(1), 1)
        writer.write(b"x")
        assert (await reader.readline()).startswith(b"HTTP/1.1 503 ")
        writer.close()


async def test_two_hundred_creations_at_once_are_all_done(caller: Caller, ground: Ground) -> None:
    done = await asyncio.gather(*(caller.create(manifest(ground, number), b"x") for number in range(200)))
    assert {answer.status for answer in done} == {200}
    assert len(ground.files()) == 200


async def test_no_secret_is_logged(caller: Caller, ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await caller.create(ground.log(), b"")
    await Caller(caller.url, caller.http, secret="a wrong one").create(ground.log(), b"")
    await caller.post("admit", data=b"not JSON")
    assert SECRET not in caplog.text


async def renames(caller: Caller, ground: Ground, number: int) -> int:
    """Commit a version of an Iceberg table, as Hadoop's catalog does; return the status."""
    source = ground.name(f"t/metadata/{uuid.uuid4()}.metadata.json")
    ground.write(source, b"{}")
    name = ground.name(f"t/metadata/v{number}.metadata.json")
    answer = await caller.call("rename", name, source=f"file:{source}", token=str(uuid.uuid4()))
    return answer.status


@pytest.mark.parametrize("more", [{"concurrency": 2}])
async def test_losers_of_many_sessions_who_wait_leave_threads_for_all_others(
    caller: Caller, ground: Ground
) -> None:
    ground.around.makedirs(ground.name("t/metadata"))
    sessions = [replace(caller, session=str(uuid.uuid4())) for _ in range(4)]
    assert await renames(caller, ground, 1) == 200
    assert await renames(sessions[0], ground, 1) == 409  # it is the next
    waiting = [asyncio.create_task(renames(each, ground, 1)) for each in sessions[1:]]
    while len(ground.around.find(ground.name("t/.putifabsent/slots"))) < 2:
        await caller.counts()
    assert await asyncio.wait_for(renames(sessions[0], ground, 2), 10) == 200
    assert await asyncio.gather(*waiting) == [409, 409, 409]
