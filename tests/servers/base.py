"""What a test may ask of a server."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from tests.vouching import forget

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from tests.servers.process import Process

Kind: TypeAlias = Literal["s3", "gcs", "azure", "redis", "dynamodb", "postgresql", "zookeeper"]


class Server(ABC):
    """A server in processes of its own, on loopback only, gone after :meth:`stop`.

    Attributes
    ----------
    name
        What it is called in ``PUTIFABSENT_SERVERS`` and by ``tools/servers/install.sh``.
    kind
        Which protocol it speaks.
    built
        Whether install.sh has to put it there; the others come from PyPI.
    endpoint
        Its address, once started.
    pids
        Its processes, once started.
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]
    built: ClassVar[bool]

    def __init__(self) -> None:
        self.endpoint = ""
        self.pids: tuple[int, ...] = ()
        self._running = ExitStack()

    @abstractmethod
    def _start(self, running: ExitStack) -> None:
        """Start it, answering; what ends it goes on ``running``."""

    def start(self) -> Self:
        """Start it, and return when it has answered."""
        with ExitStack() as running:
            self._start(running)
            self._running = running.pop_all()
        forget(self.endpoint, self.kind)
        return self

    def stop(self) -> None:
        """End its processes and remove its files. Stopping twice is harmless."""
        self._running.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class BucketServer(Server):
    """A server that holds objects.

    Attributes
    ----------
    scheme
        fsspec's own filesystem for it: ``"s3"``, ``"gs"``, ``"abfs"``.
    protocol
        The guarded one: ``"pias3"``, ``"piags"``, ``"piaaz"``.
    """

    scheme: ClassVar[str]
    protocol: ClassVar[str]

    @property
    @abstractmethod
    def storage_options(self) -> dict[str, Any]:
        """What ``fsspec.filesystem`` wants to hear to find it, by either name."""

    @abstractmethod
    def _make(self, bucket: str) -> None:
        """Make a bucket (Azure: a container)."""

    def new_bucket(self) -> str:
        """Make an empty bucket with a name of its own, and return the name."""
        bucket = f"test-{uuid.uuid4().hex[:12]}"
        self._make(bucket)
        return bucket


class LastingServer(Server):
    """A server that has on disk what it has acknowledged.

    Attributes
    ----------
    process
        Its command, once started.
    """

    process: Process

    @property
    def address(self) -> str:
        """Its host and port."""
        return f"127.0.0.1:{self.process.port}"

    def kill(self) -> None:
        """Kill it, in the middle of whatever it does; return when all of it is gone."""
        self.process.kill()

    def start_again(self) -> None:
        """Start it at the same address, with what it had on disk."""
        self.process.start_again()
        self.pids = self.process.pids
