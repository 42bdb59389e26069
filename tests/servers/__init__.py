"""Real servers, one class each, started without containers on a free loopback port.

What comes from PyPI is there with the development environment; the rest is put there by
``tools/servers/install.sh``. ``with server("versitygw") as running:`` starts one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.servers.azure import Azurite
from tests.servers.base import BucketServer, LastingServer, Server
from tests.servers.dynamodb import DynamoDBLocal
from tests.servers.gcs import FakeGCS
from tests.servers.installed import NotInstalledError
from tests.servers.postgresql import PostgreSQL
from tests.servers.process import NotStartedError
from tests.servers.s3 import (
    GoFakeS3,
    LocalBucketServer,
    MinIO,
    Moto,
    PublishedLocalBucketServer,
    S3Server,
    S3sFS,
    VersityGW,
)
from tests.servers.valkey import Valkey
from tests.servers.zookeeper import ZooKeeper

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "SERVERS",
    "Azurite",
    "BucketServer",
    "DynamoDBLocal",
    "FakeGCS",
    "GoFakeS3",
    "LastingServer",
    "LocalBucketServer",
    "MinIO",
    "Moto",
    "NotInstalledError",
    "NotStartedError",
    "PostgreSQL",
    "PublishedLocalBucketServer",
    "S3Server",
    "S3sFS",
    "Server",
    "Valkey",
    "VersityGW",
    "ZooKeeper",
    "chosen",
    "server",
]

SERVERS: Mapping[str, type[Server]] = {
    each.name: each
    for each in (
        Azurite,
        DynamoDBLocal,
        FakeGCS,
        GoFakeS3,
        LocalBucketServer,
        MinIO,
        Moto,
        PostgreSQL,
        S3sFS,
        Valkey,
        VersityGW,
        ZooKeeper,
    )
}


def server(name: str) -> Server:
    """The server of that name, not started."""
    if name not in SERVERS:
        raise ValueError(f"no server named {name!r}: there are {', '.join(SERVERS)}")
    return SERVERS[name]()


def chosen() -> list[str]:
    """The names in ``PUTIFABSENT_SERVERS`` (commas or blanks between them), else ``localbucket``."""
    return os.environ.get("PUTIFABSENT_SERVERS", "").replace(",", " ").split() or ["localbucket"]
