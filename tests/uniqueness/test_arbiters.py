"""One acknowledged winner a name, its bytes for every later reader, whoever decides beside the store."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import fsspec
import pytest

from putifabsent.testing.races import race
from tests.backends.dynamodb_servers import registry_at
from tests.servers import server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.stub import FaultStub

PATIENCE = 120.0
HOUR = 3600


class Size(NamedTuple):
    """Of a race."""

    processes: int
    threads: int
    names: int

    @property
    def is_long(self) -> bool:
        """Whether it takes minutes."""
        return self.names > SHORT.names

    def __str__(self) -> str:
        return f"{self.processes * self.threads} x {self.names}"


SHORT = Size(2, 4, 4)
# 64 ballots that meet over a network take seconds a name: for `make test-servers` without SHORT.
LONG = Size(4, 4, 10) if os.environ.get("SHORT") else Size(8, 8, 200)
SIZES = [
    pytest.param(SHORT, id=str(SHORT)),
    pytest.param(LONG, id=str(LONG), marks=[pytest.mark.servers, pytest.mark.timeout(HOUR)]),
]


class Place(NamedTuple):
    """A folder of a store; it pickles."""

    scheme: str
    options: dict[str, Any]
    folder: str

    def guarded(self, arbiter: str) -> Any:
        """Return a filesystem where this one decides."""
        return fsspec.filesystem(f"pia{self.scheme}", arbiter=arbiter, deadline=PATIENCE, **self.options)

    @property
    def around(self) -> Any:
        """The plain filesystem, for readers without the shim."""
        return fsspec.filesystem(self.scheme, use_listings_cache=False, **self.options)


@pytest.fixture(params=["disk", "ignoring"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A disk; and an S3 server that ignores conditions."""
    if request.param == "disk":
        return Place("file", {}, str(tmp_path))
    liar: FaultStub = request.getfixturevalue("liar")
    return Place("s3", liar.storage_options("s3"), f"bucket/{tmp_path.name}")


@pytest.fixture
def decider(request: pytest.FixtureRequest, arbiter: str, size: Size) -> Iterator[str]:
    """The arbiter; in a long race, claims are AWS's own server's."""
    if not (size.is_long and arbiter.startswith("dynamodb")):
        yield arbiter
        return
    with server("dynamodb-local") as running:
        yield registry_at(running.endpoint)


@pytest.mark.parametrize("size", SIZES)
def test_one_writer_wins_each_name(place: Place, decider: str, size: Size) -> None:
    names = [f"{place.folder}/{number:03}" for number in range(size.names)]
    first = f"{place.folder}/first"
    place.guarded(decider).pipe_file(first, b"", mode="create")
    make = partial(place.guarded, decider)
    came = race(make, names, threads=size.threads, processes=size.processes, seconds=HOUR / 2)

    # Nobody may be told anything else. At its deadline a writer may not know, and so may all of a name's.
    assert [error for error in came.errors if "OutcomeUnknown" not in error] == []
    assert size.is_long or came.errors == ()
    told = replace(came, names=tuple(each for each in came.names if each.winners or not each.errors))
    assert told.names
    fs = place.guarded(decider)
    for read in (fs.cat_file, place.around.cat_file):
        assert told.problems(read) == []
    decided = [each.name for each in told.names]
    for each in (fs, place.around):
        assert set(decided) <= set(each.find(place.folder)) <= {first, *names, *state(each, place.folder)}
    for name in decided[:3]:
        fs.rm_file(name)
        assert [each.exists(name) for each in (fs, place.around)] == [False, False]
        fs.pipe_file(name, b"again", mode="create")
        assert fs.cat_file(name) == place.around.cat_file(name) == b"again"


def state(fs: Any, folder: str) -> list[str]:
    """Return what lies where the shim keeps its own."""
    found: list[str] = fs.find(f"{folder}/.putifabsent")
    return found
