"""The ballot over real stores: one winner a name, and every reader finds its bytes, conditions or not."""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING

import fsspec
import pytest

from putifabsent.backends.base import Creation, Got
from putifabsent.backends.body import InMemory
from putifabsent.fsspec_plugin.stores import store_of
from putifabsent.shim import ballot
from putifabsent.shim.drive import run
from putifabsent.shim.names import ordinary
from putifabsent.shim.reading import Located
from putifabsent.testing.races import race
from tests.servers import SERVERS, BucketServer
from tests.stub import FaultStub

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    from putifabsent.backends.base import Store
    from putifabsent.testing.races import Attempt, Contender

pytestmark = pytest.mark.timeout(300)

THREADS = 4
NAMES = 10
PATIENCE = 120.0


def store(protocol: str, options: dict[str, Any]) -> Store:
    return store_of(fsspec.filesystem(protocol, **options), options, PATIENCE)


def creation_for(name: str) -> Creation:
    return Creation(str(uuid.uuid4()), "writer", ordinary(name).state)


def contender(protocol: str, options: dict[str, Any]) -> Contender:
    """Create through a store of this process's own."""
    asked = store(protocol, options)

    def prepare(name: str, data: bytes) -> Attempt:
        body, creation = InMemory(data), creation_for(name)

        def attempt() -> None:
            run(ballot.create(ordinary(name), body, creation), asked, PATIENCE)

        return attempt

    return prepare


def through_the_shim(asked: Store) -> Callable[[str], bytes | None]:
    def read(name: str) -> bytes | None:
        found = run(ballot.find(ordinary(name), creation_for(name)), asked, PATIENCE)
        return bytes_of(asked, found.path) if isinstance(found, Located) else None

    return read


def bytes_of(asked: Store, path: str) -> bytes:
    got = asked.get(path)
    assert isinstance(got, Got), got
    return got.data


def check(protocol: str, options: dict[str, Any], folder: str, *, processes: int) -> None:
    names = [f"{folder}/{number:03}" for number in range(NAMES)]
    make = partial(contender, protocol, options)
    result = race(make, names, threads=THREADS, processes=processes, seconds=280)
    asked = store(protocol, options)
    assert result.problems(through_the_shim(asked)) == []
    assert result.problems(partial(bytes_of, asked)) == [], "nor for readers without the shim"
    assert result.errors == ()
    for name in names[:3]:
        run(ballot.delete(ordinary(name), creation_for(name)), asked, PATIENCE)
        assert through_the_shim(asked)(name) is None
        contender(protocol, options)(name, b"again")()
        assert through_the_shim(asked)(name) == b"again"


def test_on_local_disk(tmp_path: Path) -> None:
    check("file", {}, str(tmp_path), processes=2)


def test_in_memory() -> None:
    check("memory", {}, f"/{uuid.uuid4().hex}", processes=0)


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    started = SERVERS["localbucket"]()
    assert isinstance(started, BucketServer)
    with started:
        yield started


def test_on_a_server(server: BucketServer) -> None:
    check("s3", server.storage_options, server.new_bucket(), processes=2)


@pytest.fixture
def liar() -> Iterator[FaultStub]:
    with FaultStub(conditions="ignored") as stub:
        yield stub


def test_on_a_store_that_ignores_conditions(liar: FaultStub) -> None:
    check("s3", liar.storage_options("s3"), "bucket/t", processes=0)
