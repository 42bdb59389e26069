"""What the lab's writers write to: a real S3 server, in a child process, and a proxy that loses answers.

The server never outlives its parent. What is behind the proxy is real, and so are the
connections that it closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from typing_extensions import Self

_BACKLOG = 1024
_STOP_SECONDS = 5
_TAIL = 2000


class LocalBucket:
    """PyPI's ``localbucket``, an S3 server on a folder, with one bucket made. ``with`` starts and ends it.

    It listens on a free loopback port, checks no credentials, and keeps everything in a temporary folder that
    goes when it ends: in :attr:`folder` a folder for each bucket, with a file for each object. Its
    ``If-None-Match: *`` is ``link(2)``, so it holds for PUT, CompleteMultipartUpload and CopyObject. The
    process also ends by itself when the process that started it is gone.

    The published server keeps no user metadata, knows no DeleteObjects and refuses keys that end in ``/``, so
    nobody could tell a creation by its token, s3fs could delete nothing and pyarrow make no folder. These are
    added.
    """

    name = "localbucket"
    bucket = "lab"

    def __init__(self) -> None:
        self._running = ExitStack()
        self.folder = Path()
        self.endpoint = ""
        self.pid = 0

    @property
    def storage_options(self) -> dict[str, Any]:
        """What ``fsspec.filesystem("s3" or "pias3", ...)`` wants to hear to find it."""
        return {
            "key": "lab",
            "secret": "lab-secret",
            "client_kwargs": {"endpoint_url": self.endpoint, "region_name": "us-east-1"},
        }

    def __enter__(self) -> Self:
        if importlib.util.find_spec("localbucket") is None:
            raise ConfigError("the S3 server for this is not installed: pip install 'putifabsent[demo]'")
        with ExitStack() as running:
            folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="putifabsent-lab-")))
            self.folder = folder / "data"
            (self.folder / self.bucket).mkdir(parents=True)
            process = self._spawn(folder)
            running.callback(_end, process)
            self.pid = process.pid
            assert process.stdout is not None  # noqa: S101 - for the type alone
            port = process.stdout.readline().decode().strip()
            if not port:
                printed = (folder / "output").read_text(errors="replace")[-_TAIL:]
                raise RuntimeError(f"localbucket did not start; it printed:\n{printed}")
            self.endpoint = f"http://127.0.0.1:{port}"
            self._running = running.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def new_bucket(self) -> str:
        """Make a bucket with a name of its own, and return the name."""
        name = f"lab-{uuid.uuid4().hex[:12]}"
        (self.folder / name).mkdir()
        return name

    def _spawn(self, folder: Path) -> subprocess.Popen[bytes]:
        # It finds the same modules in the same order, wherever this process found them.
        path = os.pathsep.join(each or str(Path.cwd()) for each in sys.path)
        with (folder / "output").open("wb") as output:
            return subprocess.Popen(  # noqa: S603 - our own module, by the interpreter that runs this
                [sys.executable, "-m", "putifabsent.lab.localbucket_child", str(folder)],
                # The child reads its standard input and ends at its end: when this process is gone.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": path},
                # Ctrl-C in a terminal is for the writers first: the server outlives them.
                start_new_session=True,
            )


def _end(process: subprocess.Popen[bytes]) -> None:
    with process:  # which closes its input, and waits
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


# --- lost answers

CHUNK = 2**16


class LossyProxy:
    """Passes HTTP on, but for a ``share`` of the answers, from 0 to 1. ``with`` starts it, and ends it.

    In place of a lost answer the connection is closed: the server has got the request, and has answered.
    ``upstream`` is where it is: ``http://HOST:PORT/PATH``; ``host`` is where the proxy listens. The share may
    be set while it runs.

    ``address`` is the proxy's own host and port, ``endpoint`` what clients take, with the same path;
    ``received`` says how many requests have come, and ``lost`` how many answers were lost.
    """

    def __init__(
        self, upstream: str, *, share: float = 1.0, seed: int | None = None, host: str = "127.0.0.1"
    ) -> None:
        at = urlsplit(upstream)
        if at.scheme != "http" or at.hostname is None:
            raise ConfigError(
                f"answers can be lost on the way from a plain http:// endpoint, not from {upstream}"
            )
        self._upstream = (at.hostname, at.port or 80)
        self._path = at.path.rstrip("/")
        self._host = host
        self._random = random.Random(seed)  # noqa: S311 - which answers are lost is no secret
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="lossy-proxy", daemon=True)
        self._over = asyncio.Event()
        self.share = share
        self.address = ""
        self.endpoint = ""
        self.received = 0
        self.lost = 0

    def __enter__(self) -> Self:
        self._listening = socket.create_server((self._host, 0), backlog=_BACKLOG)
        self.address = f"{self._host}:{self._listening.getsockname()[1]}"
        self.endpoint = f"http://{self.address}{self._path}"
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(
            self._connected, sock=self._listening, limit=CHUNK, backlog=_BACKLOG
        )
        await self._over.wait()
        server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for each in connections:
            each.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _connected(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError), contextlib.closing(to_client):
            server, to_server = await asyncio.open_connection(*self._upstream)
            with contextlib.closing(to_server):
                both = list(map(asyncio.create_task, self._pumps(client, to_client, server, to_server)))
                # A connection has ended when one of its directions has.
                try:
                    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                except asyncio.CancelledError:
                    # The proxy ends: whoever does not read must not keep the connection open.
                    to_client.transport.abort()
                    to_server.transport.abort()
                    raise
                finally:
                    for each in both:
                        each.cancel()
                    await asyncio.gather(*both, return_exceptions=True)

    def _pumps(
        self,
        client: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> tuple[Coroutine[Any, Any, None], Coroutine[Any, Any, None]]:
        """Return what passes on the requests of a connection, and what passes on its answers."""
        answered, is_lost = asyncio.Event(), False
        answered.set()

        async def ask() -> None:
            nonlocal is_lost
            while data := await client.read(CHUNK):
                # Whatever comes before an answer is more of the same request.
                if answered.is_set():
                    answered.clear()
                    is_lost = self._random.random() < self.share
                    self.received += 1
                    self.lost += is_lost
                to_server.write(data)
                await to_server.drain()
            # What the server has is answered, although its client is gone.
            await answered.wait()

        async def answer() -> None:
            while data := await server.read(CHUNK):
                if not (answered.is_set() or is_interim(data)):
                    if is_lost:
                        return
                    answered.set()
                to_client.write(data)
                await to_client.drain()

        return ask(), answer()


def is_interim(data: bytes) -> bool:
    """Whether what an HTTP server has sent is "100 Continue", and no answer behind it."""
    head, _, behind = data.partition(b"\r\n\r\n")
    return head.startswith(b"HTTP/1.1 100") and not behind
