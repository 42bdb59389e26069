"""Services of their own processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["serving"]

MAIN = "from putifabsent.cli import main; main()"


@contextmanager
def serving(told: dict[str, Any], **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a service; return its process, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "serve", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(told))
        process.stdin.close()
        try:
            said = process.stdout.readline()
            yield process, json.loads(said)["address"] if said else ""
        finally:
            process.kill()
