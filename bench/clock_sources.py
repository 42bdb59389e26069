"""What clocks are measured on, each on loopback, and the library that makes wall clocks wrong."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NAMES", "libfaketime", "source"]

NAMES = ("local", "truetime", "disk", "valkey", "postgresql", "zookeeper", "dynamodb-local")


@contextmanager
def source(name: str) -> Iterator[str]:
    """Run what a clock of that name asks, and give what `putifabsent.clock` takes.

    Parameters
    ----------
    name
        Of :data:`NAMES`; ``"disk"`` is local disk in the place of a bucket.

    Raises
    ------
    NotInstalledError
        The server is not on this machine.
    """
    # Not by each of many processes that take instants.
    from bench.arbiter_servers import KEYS, REGION
    from putifabsent.backends.registry_urls import open_claims
    from tests.servers import server

    if name == "local":
        yield name
    elif name == "disk":
        with tempfile.TemporaryDirectory() as folder:
            yield f"piafile://{folder}"
    elif name == "truetime":
        with server("valkey") as running:
            yield f"truetime+{running.endpoint}"
    elif name == "dynamodb-local":
        with server(name) as running, patch.dict(os.environ, KEYS):
            url = f"dynamodb://clocks?region={REGION}&endpoint_url={running.endpoint}"
            open_claims(url).init()
            yield url
    else:
        with server(name) as running:
            yield running.endpoint


def libfaketime() -> str | None:
    """Return where libfaketime is, as the package of that name brings it; None: it is not installed."""
    found = importlib.util.find_spec("libfaketime")
    if found is None or found.origin is None:
        return None
    return str(next(Path(found.origin).parent.rglob("libfaketime.so.1")))
