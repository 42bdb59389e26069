"""A real S3 server for the demo, in a child process that never outlives its parent."""

from __future__ import annotations

import http.client
import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import Self

_BACKLOG = 1024
_START_SECONDS = 30
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
    added unless it is to run ``as_published``.
    """

    name = "localbucket"
    bucket = "lab"

    def __init__(self, *, as_published: bool = False) -> None:
        self._as_published = as_published
        self._running = ExitStack()
        self._output = Path()
        self.folder = Path()
        self._port = 0
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
            self._output = folder / "output"
            self.folder = folder / "data"
            self.folder.mkdir()
            # The parent listens and the child inherits: no port can be lost between choosing and using it.
            with socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG) as listening:
                self._port = listening.getsockname()[1]
                process = self._spawn(folder, listening.fileno())
            running.callback(_end, process)
            self.pid = process.pid
            self.endpoint = f"http://127.0.0.1:{self._port}"
            self._make(self.bucket)
            self._running = running.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def new_bucket(self) -> str:
        """Make a bucket with a name of its own, and return the name."""
        name = f"lab-{uuid.uuid4().hex[:12]}"
        self._make(name)
        return name

    def tail(self) -> str:
        """The end of what the server has printed, while it runs."""
        return self._output.read_text(errors="replace")[-_TAIL:] if self._output.exists() else ""

    def _spawn(self, folder: Path, listening: int) -> subprocess.Popen[bytes]:
        flags = ["--as-published"] if self._as_published else []
        # It finds the same modules in the same order, wherever this process found them.
        path = os.pathsep.join(each or str(Path.cwd()) for each in sys.path)
        with self._output.open("wb") as output:
            child = [sys.executable, "-m", "putifabsent.lab.localbucket_child"]
            return subprocess.Popen(  # noqa: S603 - our own module, by the interpreter that runs this
                [*child, str(listening), str(folder), *flags],
                # The child reads its standard input and ends at its end: when this process is gone.
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": path},
                pass_fds=[listening],
                # Ctrl-C in a terminal is for the writers first: the server outlives them.
                start_new_session=True,
            )

    def _make(self, bucket: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_START_SECONDS)
        try:
            connection.request("PUT", f"/{bucket}")
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            raise RuntimeError(f"localbucket did not answer; it printed:\n{self.tail()}") from error
        finally:
            connection.close()
        if status != http.client.OK:
            raise RuntimeError(f"localbucket made no bucket ({status}); it printed:\n{self.tail()}")


def _end(process: subprocess.Popen[bytes]) -> None:
    with process:  # which closes its input, and waits
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
