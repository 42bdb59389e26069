"""The DynamoDB server."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tests.servers.base import Kind, Server
from tests.servers.installed import installed
from tests.servers.process import Process

if TYPE_CHECKING:
    from contextlib import ExitStack


class DynamoDBLocal(Server):
    """DynamoDB Local, AWS's own: in memory. It throttles nobody, and gives its tables no id.

    It has no option for the address it listens on; OnLoopback sets it.
    """

    name: ClassVar[str] = "dynamodb-local"
    kind: ClassVar[Kind] = "dynamodb"
    built: ClassVar[bool] = True

    def _start(self, running: ExitStack) -> None:
        folder = installed(self.name)
        process = Process(self.name, running)
        process.start(
            lambda port: [
                "java",
                *("-Xmx512m", f"-Dsqlite4java.library.path={folder / 'lib'}"),
                *("-cp", f"{folder / 'classes'}:{folder / 'lib'}/*", "OnLoopback"),
                *("-inMemory", "-disableTelemetry", "-port", str(port)),
            ],
            environment={
                "AWS_ACCESS_KEY_ID": "lab",
                "AWS_SECRET_ACCESS_KEY": "lab",
                "AWS_REGION": "us-east-1",
            },
        )
        self.endpoint = f"http://127.0.0.1:{process.port}"
        self.pids = process.pids
