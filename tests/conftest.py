"""What tests of several rooms share."""

from __future__ import annotations

import asyncio
import gc
import signal
import time
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import botocore.hooks
import botocore.session
import certifi
import hypothesis
import pytest

from putifabsent.lab.servers import LocalBucket
from putifabsent.shim import drive
from tests.backends.dynamodb_servers import credentials_of_the_lab, one_at_a_time, registry_at
from tests.servers import Moto, server
from tests.stub import FaultStub
from tests.vouching import vouch

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    Note = Callable[[object], None]


# A busy machine is no failure.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

# A shell that runs tests in the background has them, and what they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_teststatus(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
    """Say behind ``PASSED`` what the test has noted, with ``-v``."""
    if not isinstance(report, pytest.TestReport) or not report.passed or report.when != "call":
        return None
    noted = dict(report.user_properties).get("noted")
    if not noted:
        return None
    return "passed", ".", f"PASSED ({noted})"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Have no garbage looked for among what is imported and collected, all of which stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Have the garbage collector pass seldom, and over the tests: it took a sixth of the explorations."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def botocore_reads_itself_once() -> Iterator[None]:
    """A session of botocore's reads megabytes of JSON, and looks at each of its own hundred handlers.

    Thousands of tests have sessions of their own.
    """
    aliases = botocore.hooks.EventAliaser(None)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(botocore.session, "create_loader", cache(botocore.session.create_loader))
        patched.setattr(botocore.hooks.EventAliaser, "_alias_event_name", aliases._alias_event_name)
        patched.setattr(botocore.hooks.BaseEventHooks, "_verify_accept_kwargs", lambda *_: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_authority_is_trusted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each client of aiobotocore's and obstore's reads all authorities anew, which outlasts most requests."""
    end = "-----END CERTIFICATE-----\n"
    bundle = tmp_path_factory.mktemp("authorities") / "one.pem"
    bundle.write_text(Path(certifi.where()).read_text().partition(end)[0] + end)
    with pytest.MonkeyPatch.context() as patched:
        for client in ("AWS_CA_BUNDLE", "SSL_CERT_FILE"):
            patched.setenv(client, str(bundle))
        patched.delenv("SSL_CERT_DIR", raising=False)
        yield


@pytest.fixture
def collect() -> Callable[[], int]:
    """Collect what a test has dropped; to go through what others have left takes seconds."""
    gc.freeze()
    return gc.collect


@pytest.fixture
def note(record_property: Callable[[str, object], None]) -> Note:
    """Take what is worth reading beside a test that passed: how many states it saw."""
    return lambda what: record_property("noted", str(what))


@pytest.fixture(scope="session")
def localbucket() -> Iterator[LocalBucket]:
    """Run a real S3 server, once a test process."""
    with LocalBucket() as server:
        vouch(server.endpoint, bucket=server.bucket)
        yield server


@pytest.fixture(scope="session")
def liar() -> Iterator[FaultStub]:
    """Run a store that ignores conditions, once a test process."""
    with FaultStub(conditions="ignored") as stub:
        vouch(stub.url("s3"))
        yield stub


@pytest.fixture(scope="session")
def credentials() -> Iterator[None]:
    """Let AWS's own chain find credentials."""
    with credentials_of_the_lab():
        yield


@pytest.fixture(scope="session")
def moto() -> Iterator[Moto]:
    """Run moto, once a test process: it takes two seconds to begin."""
    with Moto() as running:
        yield running


@pytest.fixture(scope="session")
def registry(credentials: None, moto: Moto) -> Iterator[str]:
    """Give the address of a registry of claims, whose table is made."""
    with one_at_a_time(moto) as proxy:
        yield registry_at(proxy.endpoint)


@pytest.fixture(scope="session")
def lock() -> Iterator[str]:
    """Give the address of a real Valkey."""
    with server("valkey") as running:
        yield running.endpoint


@pytest.fixture(params=["ballot", "redis", "dynamodb"])
def arbiter(request: pytest.FixtureRequest) -> str:
    """Give each arbiter that is not the store, as a mount's option says it."""
    address = {"redis": "lock", "dynamodb": "registry"}.get(request.param)
    said: str = request.getfixturevalue(address) if address else request.param
    return said


@pytest.fixture
def pauses_pass_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the driver's clock ahead by each pause, instead of waiting for its end."""
    ahead = 0.0

    def pause(seconds: float) -> None:
        nonlocal ahead
        ahead += seconds

    async def pause_async(seconds: float) -> None:
        pause(seconds)
        await asyncio.sleep(0)

    clock = SimpleNamespace(sleep=pause, monotonic=lambda: time.monotonic() + ahead)
    loop = SimpleNamespace(sleep=pause_async, ensure_future=asyncio.ensure_future)
    monkeypatch.setattr(drive, "time", clock)
    monkeypatch.setattr(drive, "asyncio", loop)


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have this machine's zone be UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()
