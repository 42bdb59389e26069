"""The GCS server."""

from __future__ import annotations

import http.client
import json
import os
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from tests.servers.base import BucketServer, Kind
from tests.servers.installed import installed
from tests.servers.process import Process

if TYPE_CHECKING:
    from contextlib import ExitStack

PROJECT = "test"

# Else gcsfs asks by gRPC with TLS what kind of bucket each one is, and waits a minute for an answer that this
# server can't give. It looks once, when it is imported.
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")


class FakeGCS(BucketServer):
    """fake-gcs-server in memory: every kind of upload decides; rewrite and copy ignore the condition."""

    name: ClassVar[str] = "fake-gcs-server"
    kind: ClassVar[Kind] = "gcs"
    built: ClassVar[bool] = True
    scheme: ClassVar[str] = "gs"
    protocol: ClassVar[str] = "piags"

    @property
    def storage_options(self) -> dict[str, Any]:
        return {"token": "anon", "project": PROJECT, "endpoint_url": self.endpoint}

    def _start(self, running: ExitStack) -> None:
        program = installed(self.name) / "bin" / "fake-gcs-server"
        process = Process(self.name, running)
        process.start(
            lambda port: [
                str(program),
                *("-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"),
                *("-external-url", f"http://127.0.0.1:{port}", "-public-host", f"127.0.0.1:{port}"),
                *("-log-level", "warn"),
            ],
        )
        self.endpoint = f"http://127.0.0.1:{process.port}"
        self.pids = process.pids

    def _make(self, bucket: str) -> None:
        connection = http.client.HTTPConnection(urlsplit(self.endpoint).netloc, timeout=30)
        try:
            connection.request(
                "POST",
                f"/storage/v1/b?project={PROJECT}",
                json.dumps({"name": bucket}),
                {"Content-Type": "application/json"},
            )
            assert connection.getresponse().status == http.client.OK
        finally:
            connection.close()
