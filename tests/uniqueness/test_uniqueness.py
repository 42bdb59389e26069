"""One acknowledged winner a name, its bytes the readable ones: 64 writers, processes and threads mixed."""

from __future__ import annotations

import os
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import fsspec
import pytest

from putifabsent.testing.races import race
from tests.servers import SERVERS, BucketServer, chosen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from putifabsent.testing.races import Attempt


pytestmark = pytest.mark.timeout(480)

How = Literal["small", "multipart", "rename"]
HOWS: tuple[How, ...] = ("small", "multipart", "rename")
THREADS = 16
PROCESSES = 4
# 64 multipart uploads or renames a name are many requests: on servers they are for `make test-servers`, and
# 200 names for its long run.
NAMES = 200 if os.environ.get("LONG") else 12
SECONDS = 420.0


def contender(protocol: str, options: dict[str, Any], how: How) -> Any:
    """Write through a mount of this process's own."""
    # A plain rename is a create on guarded names only.
    fs = fsspec.filesystem(protocol, arbiter="native", guard="**/[0-9][0-9][0-9]", **options)
    if how == "multipart":
        fs.backend.largest_put = 0
    return partial(_renames, fs) if how == "rename" else fs


def _renames(fs: Any, name: str, data: bytes) -> Attempt:
    source = f"{name}.{uuid.uuid4()}"
    fs.pipe_file(source, data)

    def attempt() -> None:
        try:
            fs.mv(source, name)
        except FileExistsError:
            fs.rm_file(source)
            raise

    return attempt


def reader(fs: Any) -> Callable[[str], bytes | None]:
    """Read round the code under test: by the plain filesystem."""

    def read(name: str) -> bytes | None:
        return bytes(fs.cat_file(name)) if fs.exists(name) else None

    return read


def names(folder: str) -> list[str]:
    return [f"{folder}/{number:03}" for number in range(NAMES)]


HONEST = ("localbucket", "versitygw", "minio", "fake-gcs-server", "azurite")
STORES = [
    pytest.param(name, marks=pytest.mark.servers if SERVERS[name].built else ())
    for name in chosen()
    if name in HONEST
]


@pytest.fixture(scope="module", params=STORES)
def store(request: pytest.FixtureRequest) -> Iterator[BucketServer]:
    server = SERVERS[request.param]()
    assert isinstance(server, BucketServer)
    with server:
        yield server


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=() if how == "small" else pytest.mark.servers) for how in HOWS]
)
def test_one_of_64_writers_wins_each_name_on_a_server(store: BucketServer, how: How) -> None:
    bucket = store.new_bucket()
    plain = fsspec.filesystem(store.scheme, **store.storage_options, use_listings_cache=False)
    make = partial(contender, store.protocol, store.storage_options, how)
    result = race(make, names(f"{bucket}/{how}"), threads=THREADS, processes=PROCESSES, seconds=SECONDS)
    assert result.problems(reader(plain)) == []
    assert result.errors == ()


@pytest.mark.parametrize("how", ["small", "rename"])
def test_one_of_64_writers_wins_each_name_on_local_disk(tmp_path: Path, how: How) -> None:
    plain = fsspec.filesystem("file")
    make = partial(contender, "piafile", {}, how)
    result = race(make, names(str(tmp_path)), threads=THREADS, processes=PROCESSES, seconds=SECONDS)
    assert result.problems(reader(plain)) == []
    assert result.errors == ()
    assert sorted(plain.ls(str(tmp_path), detail=False)) == names(str(tmp_path)), "nothing else is left"


@pytest.mark.parametrize("how", ["small", "rename"])
def test_one_of_64_threads_wins_each_name_in_memory(how: How) -> None:
    plain = fsspec.filesystem("memory")
    folder = f"/{uuid.uuid4().hex}"
    result = race(
        partial(contender, "piamemory", {}, how), names(folder), threads=THREADS * PROCESSES, seconds=SECONDS
    )
    assert result.problems(reader(plain)) == []
    assert result.errors == ()
