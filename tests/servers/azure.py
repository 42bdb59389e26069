"""The Azure server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tests.servers.base import BucketServer, Kind
from tests.servers.installed import installed
from tests.servers.process import Process

if TYPE_CHECKING:
    from contextlib import ExitStack

ACCOUNT = "devstoreaccount1"
# The key that every Azurite has, published with it.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class Azurite(BucketServer):
    """Azurite's blob service: Put Blob, Put Block List and Copy decide, with 409 BlobAlreadyExists."""

    name: ClassVar[str] = "azurite"
    kind: ClassVar[Kind] = "azure"
    built: ClassVar[bool] = True
    scheme: ClassVar[str] = "abfs"
    protocol: ClassVar[str] = "piaaz"

    @property
    def connection_string(self) -> str:
        account = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY}"
        return f"{account};BlobEndpoint={self.endpoint};"

    @property
    def storage_options(self) -> dict[str, Any]:
        return {"account_name": ACCOUNT, "connection_string": self.connection_string}

    def _start(self, running: ExitStack) -> None:
        program = installed(self.name) / "node_modules" / ".bin" / "azurite-blob"
        process = Process(self.name, running)
        process.start(
            lambda port: [
                *("node", str(program), "--blobHost", "127.0.0.1", "--blobPort", str(port)),
                *("--location", str(process.folder), "--silent", "--disableTelemetry"),
                # A client is often newer than the server; what is asked of it here has not changed for years.
                "--skipApiVersionCheck",
                # At 5 s, the default, a connection may end just as a slow machine's next request is sent.
                *("--blobKeepAliveTimeout", "600"),
            ],
        )
        self.endpoint = f"http://127.0.0.1:{process.port}/{ACCOUNT}"
        self.pids = process.pids

    def _make(self, bucket: str) -> None:
        from azure.storage.blob import BlobServiceClient

        with BlobServiceClient.from_connection_string(self.connection_string) as client:
            client.create_container(bucket)
