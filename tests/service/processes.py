"""Services of their own processes."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["answers", "arguments_of_all", "metrics_of", "serving"]

MAIN = "from putifabsent.cli import main; main()"


def arguments_of_all() -> str:
    """Return what every process here was started with, as any of them may read it."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            found.append(process.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return "\n".join(found)


def answers(address: str) -> bool:
    """Whether a service says that calls are welcome."""
    try:
        with urllib.request.urlopen(f"{address}/v1/health", timeout=10) as answer:  # noqa: S310 - on loopback
            return int(answer.status) == 200
    except OSError:
        return False


def metrics_of(address: str, secret: str) -> str:
    """Return what a service has counted."""
    request = urllib.request.Request(  # noqa: S310 - HTTP, on loopback
        f"{address}/v1/metrics", headers={"Authorization": f"Bearer {secret}"}
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - the same
        return str(answer.read().decode())


@contextmanager
def serving(
    settings: dict[str, Any], *, log: int | IO[bytes] = subprocess.PIPE
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a service, which logs to a file or a pipe; return its process, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "serve", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(settings))
        process.stdin.close()
        try:
            line = process.stdout.readline()
            yield process, json.loads(line)["address"] if '"address"' in line else ""
        finally:
            process.kill()
