"""A service of its own process: where it listens, how it ends, and that killing it loses nothing."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import uuid
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from putifabsent.service.settings import SECRET as VARIABLE
from tests.certificates import self_signed
from tests.service.callers import SECRET, Caller, answering
from tests.service.processes import serving
from tests.service.test_connections import connected, request, status_of
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    import subprocess

NAME = "bucket/t/_delta_log/00000000000000000000.json"


def settings_of(stub: FaultStub, **more: Any) -> dict[str, Any]:
    options = {**stub.storage_options("s3"), "arbiter": "native", "deadline": 20.0}
    return {"secret": SECRET, "mounts": [{"prefix": "s3a://", "options": options}], **more}


async def created(caller: Caller, token: str, name: str = NAME) -> Any:
    return await caller.post("create", params={"path": f"s3a://{name}", "token": token}, data=b"mine")


async def test_neither_the_secret_nor_a_credential_is_among_its_arguments() -> None:
    with FaultStub() as stub, serving(settings_of(stub)) as (process, url):
        arguments = arguments_of(process)
        assert "serve" in arguments
        assert SECRET not in arguments
        async with Caller.at(url) as caller:
            assert (await created(caller, str(uuid.uuid4()))).status == 200
        process.terminate()
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


async def test_the_secret_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)
    with FaultStub() as stub:
        settings = {name: value for name, value in settings_of(stub).items() if name != "secret"}
        with serving(settings) as (_, url):
            async with Caller.at(url) as caller:
                assert (await created(caller, str(uuid.uuid4()))).status == 200


async def test_a_service_that_is_told_to_end_finishes_what_it_has_begun() -> None:
    with FaultStub() as stub, serving(settings_of(stub)) as (process, url):
        stub.script(Op.PUT, Fault.TIMEOUT_AFTER_APPLY)
        async with Caller.at(url) as caller:
            creating = asyncio.create_task(created(caller, str(uuid.uuid4())))
            await asyncio.to_thread(stub.wait_for, Op.PUT)
            process.terminate()
            stub.release()
            assert (await creating).status == 200
        assert await asyncio.to_thread(process.wait, 30) == 0


async def test_a_call_on_an_open_connection_hears_that_the_service_is_about_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("putifabsent.service.app._LEAVING_SECONDS", 60.0)
    with FaultStub() as stub:
        async with AsyncExitStack() as service:
            url = await service.enter_async_context(answering(settings_of(stub)))
            async with Caller.at(url) as caller:
                assert (await created(caller, str(uuid.uuid4()))).status == 200
                ending = asyncio.create_task(service.aclose())
                await is_refused(url)
                answer = await created(caller, str(uuid.uuid4()))
                assert (answer.status, answer.body["error"]) == (503, "busy")
                assert answer.headers["Connection"] == "close"
                # It was the last connection.
                await asyncio.wait_for(ending, 30)


async def test_a_call_that_comes_just_as_an_idle_connection_is_closed_hears_that_nothing_was_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("putifabsent.service.app._LEAVING_SECONDS", 0.0)
    monkeypatch.setattr("putifabsent.service.app._CROSSING_SECONDS", 60.0)
    with FaultStub() as stub:
        async with AsyncExitStack() as service:
            url = await service.enter_async_context(answering(settings_of(stub)))
            async with Caller.at(url) as caller, connected(url) as (reader, writer):
                writer.write(request(caller, path="s3a://bucket"))
                assert await status_of(reader) == 200
                ending = asyncio.create_task(service.aclose())
                await is_refused(url)
                writer.write(request(caller, f"create?path=s3a://{NAME}&token={uuid.uuid4()}"))
                assert await status_of(reader) == 503
                writer.close()
                # It was the last connection.
                await asyncio.wait_for(ending, 30)
                assert stub.objects == {}


async def is_refused(url: str) -> None:
    """Return when nobody listens there any more."""
    at = urlsplit(url)
    with suppress(ConnectionError):
        while True:
            _, writer = await asyncio.open_connection(at.hostname, at.port)
            writer.close()
            await asyncio.sleep(0.01)


async def test_whoever_called_a_service_that_was_killed_asks_another_one() -> None:
    token = str(uuid.uuid4())
    with FaultStub() as stub:
        stub.script(Op.PUT, Fault.TIMEOUT_AFTER_APPLY)
        with serving(settings_of(stub)) as (process, url):
            async with Caller.at(url) as caller:
                creating = asyncio.create_task(created(caller, token))
                await asyncio.to_thread(stub.wait_for, Op.PUT)
                process.send_signal(signal.SIGKILL)
                with pytest.raises(aiohttp.ClientError):
                    await creating
        with serving(settings_of(stub)) as (_, url):
            async with Caller.at(url) as caller:
                answer = await caller.post("resolve", json={"path": f"s3a://{NAME}", "token": token})
                assert (answer.status, answer.body["holder"]["token"]) == (200, token)


async def test_an_unknown_outcome_is_told_with_its_token() -> None:
    token = str(uuid.uuid4())
    with FaultStub() as stub:
        settings = settings_of(stub)
        settings["mounts"][0]["options"]["deadline"] = 0.5
        with serving(settings) as (_, url):
            async with Caller.at(url) as caller:
                for _ in range(20):
                    stub.script(Op.PUT, Fault.DROP_BEFORE_APPLY)
                answer = await created(caller, token)
        assert (answer.status, answer.body["error"], answer.body["token"]) == (504, "unknown", token)


async def test_by_tls_it_presents_its_certificate(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    with FaultStub() as stub:
        settings = settings_of(stub, certificate=str(certificate), key=str(key))
        with serving(settings) as (_, url):
            assert url.startswith("https://127.0.0.1:")
            trusted = ssl.create_default_context(cafile=str(certificate))
            async with aiohttp.ClientSession() as http:
                async with http.get(f"{url}/v1/health", ssl=trusted) as answer:
                    assert answer.status == 200
                with pytest.raises(aiohttp.ClientSSLError):
                    await http.get(f"{url}/v1/health")


async def test_who_begins_no_tls_makes_way_as_soon_as_who_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("putifabsent.service.app.SECONDS", 0.2)
    certificate, key = self_signed(tmp_path)
    with FaultStub() as stub:
        async with answering(settings_of(stub, certificate=str(certificate), key=str(key))) as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            assert await reader.read() == b""  # the pytest time-out ends it
            writer.close()


def test_a_port_that_is_taken_is_named() -> None:
    with FaultStub() as stub, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with serving(settings_of(stub, port=port)) as (process, url):
            assert url == ""
            assert process.wait(30) == 4
            assert process.stderr is not None
            assert str(port) in process.stderr.read()


@pytest.mark.parametrize(
    ("settings", "why"),
    [({"secret": SECRET, "mounts": []}, "mounts"), ({"mounts": [{"prefix": "memory://"}]}, "secret")],
)
def test_wrong_settings_are_usage(settings: dict[str, Any], why: str) -> None:
    with serving(settings) as (process, _):
        assert process.wait(30) == 2
        assert process.stderr is not None
        assert why in process.stderr.read()


async def test_a_certificate_that_is_renewed_is_shown_to_who_connects_then(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "new").mkdir()
    certificate, key = self_signed(tmp_path)
    new = self_signed(tmp_path / "new")
    old_shown, new_shown = (ssl.PEM_cert_to_DER_cert(each.read_text()) for each in (certificate, new[0]))
    with FaultStub() as stub:
        async with answering(settings_of(stub, certificate=str(certificate), key=str(key))) as url:
            assert await shown_by(url) == old_shown
            new[0].replace(certificate)
            assert await shown_by(url) == old_shown, "its key is not there yet"
            assert "stays as it was" in caplog.text
            new[1].replace(key)
            assert await shown_by(url) == new_shown


async def shown_by(url: str) -> bytes | None:
    """Return the certificate that a service shows to who connects now."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port, ssl=trusting)
    shown: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return shown


async def test_a_stranger_who_sends_no_end_of_a_request_holds_nobody_up() -> None:
    with FaultStub() as stub, serving(settings_of(stub, concurrency=1)) as (_, url):
        host, _, port = url.removeprefix("http://").partition(":")
        strangers = [socket.create_connection((host, int(port))) for _ in range(20)]
        for stranger in strangers:
            stranger.sendall(b"POST /v1/admit HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n")
        async with Caller.at(url) as caller:
            assert (await created(caller, str(uuid.uuid4()))).status == 200
        for stranger in strangers:
            stranger.close()


def arguments_of(process: subprocess.Popen[str]) -> str:
    """Return what everybody on this machine may see of a process."""
    return Path(f"/proc/{process.pid}/cmdline").read_bytes().decode()
