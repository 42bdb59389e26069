"""What tests of the clouds' stores look with: a way round to what the stub holds, and a body that counts."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from putifabsent.backends.body import Body
from putifabsent.testing import Around

if TYPE_CHECKING:
    from putifabsent.backends.base import Store
    from tests.stub import FaultStub


class Objects(Around):
    """What the stub holds."""

    def __init__(self, stub: FaultStub) -> None:
        self._stub = stub

    def read(self, name: str) -> bytes | None:
        bucket, _, key = name.partition("/")
        there = self._stub.objects.get((bucket, key))
        return None if there is None else there.data

    def write(self, name: str, data: bytes) -> None:
        bucket, _, key = name.partition("/")
        self._stub.put(bucket, key, data)


class Watched(Body):
    """Keeps the sizes of what is read of it."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self.sizes: list[int] = []
        self._data = data

    def read(self, start: int, stop: int) -> bytes:
        self.sizes.append(stop - start)
        return self._data[start:stop]


def look_by_32_threads(store: Store, name: str) -> None:
    """Look at a name three times in each of them, begun together."""
    together = threading.Barrier(32)

    def look() -> None:
        together.wait()
        for _ in range(3):
            store.head(name)

    threads = [threading.Thread(target=look) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
