"""GCS stores for these tests, and the shortest way to ask them."""

from __future__ import annotations

import socket
from typing import Any

from gcsfs.core import GCSFileSystem

from putifabsent.backends.base import InMemory
from putifabsent.backends.gcs import GCSStore
from putifabsent.testing.races import creation_of
from tests.backends.scripted import Reply

CHUNK = 2**18
NAME = "bucket/t/name"
MADE = Reply(200, body=b'{"generation": "7"}')


def store_at(url: str, deadline: float = 30.0, **options: Any) -> GCSStore:
    options = {"token": "anon", "endpoint_url": url, **options}
    return GCSStore(GCSFileSystem(skip_instance_cache=True, **options), options, deadline)


def create(store: GCSStore, data: bytes = b"mine", name: str = NAME, **extra: Any) -> Any:
    return store.create(name, InMemory(data), creation_of(name, **extra))


def stage(store: GCSStore, data: bytes, name: str = NAME, **extra: Any) -> Any:
    return store.stage(name, InMemory(data), creation_of(name, **extra))


def nowhere() -> str:
    """An address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"
