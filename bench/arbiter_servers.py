"""The servers of a run: a store that honours conditions, DynamoDB, Valkey, each behind the wire."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from urllib.parse import urlsplit

import fsspec

from bench.apart import Apart
from bench.wire import Wire
from putifabsent.backends.probe import BESIDE, NEEDED
from putifabsent.backends.registry_urls import open_claims
from tests.servers import Valkey
from tests.stub import FaultStub

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

    from bench.wire import Speech

__all__ = ["ARBITERS", "BUCKET", "KEYS", "REGION", "Far", "far"]

ARBITERS = ("native", "dynamodb", "ballot", "redis")
BUCKET = "bucket"
REGION = "us-east-1"
KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench-secret", "AWS_CONFIG_FILE": os.devnull}
CLAIMS = "claims"
# Seconds. On a loaded machine an answer that is late would be asked for again, and counted twice.
PATIENCE = 60
_WRITERS = 64


@dataclass(frozen=True)
class Far:
    """Where everything is, as the clients of a run see it.

    Attributes
    ----------
    wire
        Counts what they send.
    store
        The store, seen from behind.
    storage_options
        s3fs's options.
    registry
        DynamoDB's address.
    arbiters
        By name: what a mount is told.
    """

    wire: Wire
    store: StoreServer
    storage_options: dict[str, Any]
    registry: str
    arbiters: dict[str, str]

    def mount(self, arbiter: str, **options: Any) -> Any:
        """Return a guarded filesystem of its own, which knows nothing yet but what the store can do."""
        fs = fsspec.filesystem(
            "pias3",
            arbiter=self.arbiters[arbiter],
            use_listings_cache=False,
            skip_instance_cache=True,
            config_kwargs={"max_pool_connections": 2 * _WRITERS},
            **self.storage_options,
            **options,
        )
        # No probe: it would be counted, and what the stub can do is known.
        fs.mount.relied[BUCKET] = {*NEEDED, *BESIDE}
        return fs

    def sent(self, act: Callable[[], object]) -> Counter[str]:
        """Return what is sent while ``act`` runs."""
        self.wire.counted()
        act()
        return self.wire.counted()


@contextmanager
def far(dynamodb: str, *, delay: float = 0.0, largest_page: int = 1000) -> Iterator[Far]:
    """Run store and lock, and put the wire before them.

    Parameters
    ----------
    dynamodb
        The address of a DynamoDB that runs.
    delay
        Seconds that each request takes longer than on loopback.
    largest_page
        The store lists no more names at once.
    """
    with patch.dict(os.environ, KEYS), StoreServer(largest_page) as store, Valkey() as lock:
        servers: dict[str, tuple[str, Speech]] = {
            "store": (urlsplit(store.endpoint).netloc, "http"),
            "dynamodb": (urlsplit(dynamodb).netloc, "http"),
            "redis": (lock.address, "redis"),
        }
        with Wire(servers, delay=delay) as wire:
            registry = f"http://{wire.at['dynamodb']}"
            asked = f"dynamodb://{CLAIMS}?region={REGION}&endpoint_url={registry}&timeout={PATIENCE}"
            open_claims(asked).init()
            yield Far(
                wire,
                store,
                {
                    "key": "bench",
                    "secret": "bench-secret",
                    "client_kwargs": {
                        "endpoint_url": f"http://{wire.at['store']}",
                        "region_name": REGION,
                    },
                },
                registry,
                {
                    "native": "native",
                    "dynamodb": asked,
                    "ballot": "ballot",
                    "redis": f"redis://{wire.at['redis']}?timeout={PATIENCE}",
                },
            )


class StoreServer(Apart):
    """The fault stub, where nothing goes wrong."""

    def __init__(self, largest_page: int) -> None:
        super().__init__(_serve, largest_page)

    @property
    def endpoint(self) -> str:
        """Its address."""
        return str(self.said)

    def call(self, change: Callable[[FaultStub], object]) -> None:
        """Have something done to the stub, round the wire; it pickles."""
        self.ask(change)


def _serve(largest_page: int, pipe: Connection) -> None:
    with FaultStub(buckets=[BUCKET], largest_page=largest_page) as stub:
        pipe.send(stub.url("s3"))
        # The pipe closes with the process that started this one.
        while True:
            try:
                change = pipe.recv()
            except (EOFError, OSError):
                return
            change(stub)
            pipe.send(None)
