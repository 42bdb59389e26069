"""Where a table lives: memory, or an S3 server behind the wire; who decides; and what that keeps.

All that a mount sends is counted: in memory by the package's own metrics, on S3 by what comes over the wire.
A fake that holds claims in this process stands for DynamoDB where a life is too long for a server's answers.
"""

from __future__ import annotations

import os
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import MutableMapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from unittest.mock import patch
from urllib.parse import urlsplit

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

from bench.arbiter_servers import ARBITERS, KEYS, REGION
from bench.wire import READING, Wire
from putifabsent.backends.registry_urls import open_claims
from putifabsent.fsspec_plugin import GuardedFileSystem
from tests.fault_proxy import FaultProxy
from tests.golden.worlds import FakeClaims
from tests.servers import Valkey, server
from tests.vouching import vouch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.wire import Speech
    from tests.servers import S3Server

__all__ = ["ARBITERS", "FAKE", "PLACES", "Ground", "Kept", "ground"]

PLACES = ("memory", "s3")
_STATE = "/.putifabsent/"
_RECORD = re.compile(r"(/|%2F)ledger/")
_CLAIMS = "claims"
FAKE = "fake"
"""The DynamoDB that is none, for a life in memory."""


class Kept(NamedTuple):
    """What there is of a table.

    Attributes
    ----------
    state, records
        Objects of the shim's, and those of them that keep records of the ledger.
    items
        In the registry, of all tables.
    live
        All other objects.
    """

    state: int
    records: int
    items: int
    live: int


class Ground(ABC):
    """A store, and who decides there.

    Attributes
    ----------
    registry
        What the arbiter asks.
    refuses
        Whether the store itself refuses who may only read; else nothing of that kind may be tried.
    """

    registry: _Registry
    refuses: ClassVar[bool]

    @abstractmethod
    def mount(self, *, reads_only: bool = False) -> Any:
        """Return a mount of its own, as of a process that has just started."""

    @property
    @abstractmethod
    def around(self) -> Any:
        """The plain filesystem, for programs that go round the shim."""

    @abstractmethod
    def new_table(self) -> str:
        """Return the folder of a table that is not there yet."""

    @abstractmethod
    def requests(self) -> int:
        """Return how many requests were sent since this was called last."""

    def kept(self, root: str) -> Kept:
        """Return what is kept of a table."""
        names = [f"/{each}" for each in self.around.find(root)]
        state = [each for each in names if _STATE in each]
        records = sum(_RECORD.search(each) is not None for each in state)
        return Kept(len(state), records, self.registry.items(), len(names) - len(state))


class _Registry:
    """What an arbiter asks; nothing, where it is the store or the bucket."""

    def __init__(self, arbiter: str, address: str = "", endpoint: str = "") -> None:
        self.arbiter = address or arbiter
        self._kind = arbiter
        self._endpoint = endpoint

    def items(self) -> int:
        """Return how many it keeps."""
        if self._kind == "dynamodb":
            import boto3

            scan = boto3.client("dynamodb", region_name=REGION, endpoint_url=self._endpoint).get_paginator(
                "scan"
            )
            return sum(page["Count"] for page in scan.paginate(TableName=_CLAIMS, Select="COUNT"))
        if self._kind == "redis":
            import redis

            with redis.Redis.from_url(self._endpoint) as client:
                return int(client.dbsize())
        return 0


class _FakeRegistry(_Registry):
    """Claims in this process."""

    def __init__(self, claims: FakeClaims) -> None:
        super().__init__("dynamodb", f"dynamodb://{_CLAIMS}?region={REGION}")
        self._claims = claims

    def items(self) -> int:
        return len(self._claims.held)


class _Memory(Ground):
    """The process's memory; each has objects of its own."""

    refuses = False

    def __init__(self, registry: _Registry) -> None:
        self.registry = registry
        self._fs = _memory({})
        self._reading = _memory(_ReadOnly(self._fs.store))
        self._metrics = _requests_by_metrics()
        self._counted = 0

    def mount(self, *, reads_only: bool = False) -> Any:
        return GuardedFileSystem(
            fs=self._reading if reads_only else self._fs,
            arbiter=self.registry.arbiter,
            writer_session=str(uuid.uuid4()),
            deadline=3.0,
            skip_instance_cache=True,
        )

    @property
    def around(self) -> Any:
        return self._fs

    def new_table(self) -> str:
        return f"/lake/{uuid.uuid4()}"

    def requests(self) -> int:
        before, self._counted = self._counted, self._metrics()
        return self._counted - before


def _memory(store: Any) -> Any:
    """Return a memory filesystem with objects of its own."""
    made: Any = type("Memory", (MemoryFileSystem,), {"store": store, "pseudo_dirs": [""], "cachable": False})
    return made()


class _ReadOnly(MutableMapping[str, Any]):
    """Objects that are there for reading alone: whoever writes while it reads is found out."""

    def __init__(self, objects: dict[str, Any]) -> None:
        self._objects = objects

    def __getitem__(self, name: str) -> Any:
        return self._objects[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def copy(self) -> dict[str, Any]:
        return self._objects.copy()

    def setdefault(self, name: str, default: Any = None) -> Any:
        self[name] = default

    def __setitem__(self, name: str, value: Any) -> None:
        raise PermissionError(f"{name} is for reading alone, and not to become {value!r}")

    def __delitem__(self, name: str) -> None:
        raise PermissionError(f"{name} is for reading alone")


def _requests_by_metrics() -> Any:
    """Return what says how many requests all mounts of this process have sent to stores and registries."""
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    if not _READERS:
        _READERS.append(InMemoryMetricReader())
        metrics.set_meter_provider(MeterProvider(metric_readers=_READERS))

    def counted() -> int:
        data = _READERS[0].get_metrics_data()
        scopes = [scope for each in (data.resource_metrics if data else ()) for scope in each.scope_metrics]
        return sum(
            point.value
            for scope in scopes
            for metric in scope.metrics
            if metric.name == "putifabsent.requests"
            for point in metric.data.data_points
        )

    return counted


_READERS: list[Any] = []


class _S3(Ground):
    """A real S3 server."""

    refuses = True

    def __init__(self, running: S3Server, wire: Wire, registry: _Registry) -> None:
        self.registry = registry
        self._running = running
        self._wire = wire
        self._bucket = running.new_bucket()
        # A server without accounts would take anybody's writes: then the wire refuses them.
        self._reader = running.reader(self._bucket) or {"token": READING}

    def _options(self, endpoint: str, **more: str) -> Mapping[str, Any]:
        options = {**self._running.storage_options, **more}
        client = {**options["client_kwargs"], "endpoint_url": endpoint}
        return {**options, "client_kwargs": client, "use_listings_cache": False, "skip_instance_cache": True}

    def mount(self, *, reads_only: bool = False) -> Any:
        return fsspec.filesystem(
            "pias3",
            arbiter=self.registry.arbiter,
            writer_session=str(uuid.uuid4()),
            deadline=5.0,
            **self._options(f"http://{self._wire.at['store']}", **(self._reader if reads_only else {})),
        )

    @property
    def around(self) -> Any:
        return fsspec.filesystem("s3", **self._options(self._running.endpoint))

    def new_table(self) -> str:
        return f"{self._bucket}/{uuid.uuid4()}"

    def requests(self) -> int:
        return self._wire.counted().total()


@contextmanager
def ground(place: str, arbiter: str, s3: str = "localbucket", dynamodb: str = "moto") -> Iterator[Ground]:
    """Start what is needed, all of it on loopback.

    Parameters
    ----------
    place
        Of :data:`PLACES`.
    arbiter
        Of :data:`ARBITERS`.
    s3, dynamodb
        Which servers, of ``tests.servers``; Valkey stands for Redis. In memory :data:`FAKE` may be DynamoDB.
    """
    with ExitStack() as running:
        running.enter_context(patch.dict(os.environ, KEYS))
        behind: dict[str, tuple[str, Speech]] = {}
        if arbiter == "dynamodb" and dynamodb == FAKE:
            claims = FakeClaims()
            running.enter_context(patch("putifabsent.fsspec_plugin.stores.open_claims", lambda _: claims))
            yield _Memory(_FakeRegistry(claims))
            return
        if arbiter == "redis":
            valkey = running.enter_context(Valkey())
            behind["redis"] = (valkey.address, "redis")
        elif arbiter == "dynamodb":
            there: Any = running.enter_context(server(dynamodb))
            if dynamodb == "moto":
                # It decides nothing when two requests meet.
                proxy = running.enter_context(
                    FaultProxy(there.endpoint, one_at_a_time=True, speech="dynamodb")
                )
                behind["dynamodb"] = (urlsplit(proxy.endpoint).netloc, "http")
            else:
                behind["dynamodb"] = (urlsplit(there.endpoint).netloc, "http")
        if place == "s3":
            store: Any = running.enter_context(server(s3))
            behind["store"] = (urlsplit(store.endpoint).netloc, "http")
        wire: Any = running.enter_context(Wire(behind)) if place == "s3" else None
        at_of = wire.at if wire else {name: address for name, (address, _) in behind.items()}
        registry = _registry(arbiter, at_of, behind)
        if place == "memory":
            yield _Memory(registry)
            return
        vouch(f"http://{wire.at['store']}")
        yield _S3(store, wire, registry)


def _registry(arbiter: str, at: Mapping[str, str], behind: Mapping[str, tuple[str, str]]) -> _Registry:
    if arbiter == "redis":
        return _Registry(arbiter, f"redis://{at['redis']}", f"redis://{behind['redis'][0]}")
    if arbiter != "dynamodb":
        return _Registry(arbiter)
    address = f"dynamodb://{_CLAIMS}?region={REGION}&endpoint_url=http://{at['dynamodb']}"
    open_claims(address).init()
    return _Registry(arbiter, address, f"http://{behind['dynamodb'][0]}")
