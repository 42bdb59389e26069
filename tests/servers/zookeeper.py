"""The ZooKeeper server."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, ClassVar

from tests.servers.base import Kind, LastingServer
from tests.servers.installed import installed
from tests.servers.process import Process

if TYPE_CHECKING:
    from contextlib import ExitStack


class ZooKeeper(LastingServer):
    """ZooKeeper, an ensemble of one: on disk. Its endpoint is what `putifabsent.clock` takes."""

    name: ClassVar[str] = "zookeeper"
    kind: ClassVar[Kind] = "zookeeper"
    built: ClassVar[bool] = True

    def _start(self, running: ExitStack) -> None:
        libraries = installed(self.name) / "lib"
        process = self.process = Process(self.name, running)
        data = process.folder / "data"
        data.mkdir()

        def command(port: int) -> list[str]:
            settings = process.folder / "zoo.cfg"
            lines = (
                f"dataDir={data}",
                f"clientPort={port}",
                "clientPortAddress=127.0.0.1",
                "maxClientCnxns=0",
                "admin.enableServer=false",
                "4lw.commands.whitelist=ruok",
            )
            settings.write_text("".join(f"{line}\n" for line in lines))
            return [
                *("java", "-Xmx256m", "-cp", f"{libraries}/*"),
                # It takes 64 MiB of disk for a log's first word.
                *("-Dzookeeper.preAllocSize=1024", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
                *("org.apache.zookeeper.server.ZooKeeperServerMain", str(settings)),
            ]

        process.start(command, answers=_answers)
        self.endpoint = f"zookeeper://{self.address}"
        self.pids = process.pids


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(b"ruok")
            return connection.recv(4) == b"imok"
    except OSError:
        return False
