"""The PostgreSQL server."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from putifabsent.backends.postgres import TABLE
from tests.servers.base import Kind, LastingServer
from tests.servers.installed import installed
from tests.servers.process import NotStartedError, Process

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

USER = "lab"
PASSWORD = "lab-secret"

_MAKING_SECONDS = 120


class PostgreSQL(LastingServer):
    """PostgreSQL, as Zonky packs it: on disk, with a password, and with the table that counters want.

    Its endpoint is what `putifabsent.clock` takes.
    """

    name: ClassVar[str] = "postgresql"
    kind: ClassVar[Kind] = "postgresql"
    built: ClassVar[bool] = True

    def _start(self, running: ExitStack) -> None:
        programs = installed(self.name) / "bin"
        process = self.process = Process(self.name, running)
        data = process.folder / "data"
        _make(programs, process.folder, data)
        process.start(
            lambda port: [
                *(*_not_as_root(), str(programs / "postgres"), "-D", str(data), "-p", str(port)),
                *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="),
            ],
            answers=_answers,
        )
        running.callback(self._end_without_waiting)
        self.endpoint = f"postgresql://{USER}:{PASSWORD}@{self.address}/postgres"
        self.pids = process.pids
        self.tell(f"CREATE TABLE {TABLE} (name text PRIMARY KEY, last bigint NOT NULL)")

    def tell(self, statement: str) -> None:
        """Carry out a statement, as the superuser that made it."""
        with _connected(self.process.port) as connection:
            connection.execute(statement)

    def _end_without_waiting(self) -> None:
        # What the leash sends has it wait until the last client has gone.
        with suppress(ProcessLookupError):
            os.kill(self.pids[-1], signal.SIGINT)


def _make(programs: Path, folder: Path, data: Path) -> None:
    password = folder / "password"
    password.write_text(PASSWORD)
    made = subprocess.run(
        [
            *(*_not_as_root(), str(programs / "initdb"), "-D", str(data), "-U", USER),
            *("--auth=scram-sha-256", f"--pwfile={password}", "--no-sync", "--encoding=UTF8", "--locale=C"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_MAKING_SECONDS,
    )
    if made.returncode:
        raise NotStartedError(f"initdb failed; it printed:\n{made.stdout}")


def _not_as_root() -> tuple[str, ...]:
    """Return what a command begins with: PostgreSQL refuses root.

    In a user namespace of its own, root is somebody else, whose files are root's: the programs may lie where
    nobody else can read.
    """
    return () if os.geteuid() else ("unshare", "--user", "--map-user=65534", "--map-group=65534", "--")


def _connected(port: int) -> Any:
    import psycopg

    said: dict[str, Any] = {"user": USER, "password": PASSWORD, "dbname": "postgres", "sslmode": "disable"}
    return psycopg.connect(host="127.0.0.1", port=port, autocommit=True, connect_timeout=5, **said)


def _answers(port: int) -> bool:
    import psycopg

    try:
        _connected(port).close()
    except psycopg.OperationalError:
        return False
    return True
