"""Azure stores for these tests, and the shortest way to ask them."""

from __future__ import annotations

import base64
import socket
from typing import Any

from adlfs import AzureBlobFileSystem

from putifabsent.backends.azure import AzureStore
from putifabsent.backends.base import InMemory
from putifabsent.testing.races import creation_of
from tests.backends.scripted import Reply

BLOCK = 2**18
NAME = "bucket/t/name"
KEY = base64.b64encode(b"key").decode()
CREATED = Reply(201, {"ETag": '"0x1"'})


def connection(url: str) -> str:
    return f"DefaultEndpointsProtocol=http;AccountName=account;AccountKey={KEY};BlobEndpoint={url};"


def store_of(deadline: float = 30.0, **options: Any) -> AzureStore:
    return AzureStore(AzureBlobFileSystem(skip_instance_cache=True, **options), options, deadline)


def store_at(url: str, **options: Any) -> AzureStore:
    return store_of(connection_string=connection(url), **options)


def create(store: AzureStore, data: bytes = b"mine", name: str = NAME, **extra: Any) -> Any:
    return store.create(name, InMemory(data), creation_of(name, **extra))


def stage(store: AzureStore, data: bytes, name: str = NAME, **extra: Any) -> Any:
    return store.stage(name, InMemory(data), creation_of(name, **extra))


def nowhere() -> str:
    """An address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/account"


def error(status: int, code: str) -> Reply:
    """A refusal of the service, with its own word for it."""
    return Reply(status, {"x-ms-error-code": code})
