"""Local disk keeps the promises of a store, among processes and through their deaths."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from putifabsent.backends.local import LocalStore
from putifabsent.testing import Around, SharedStoreTests

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.base import Store


class Disk(Around):
    """The files themselves."""

    def read(self, name: str) -> bytes | None:
        try:
            with open(name, "rb") as file:  # noqa: PTH123 - a Path would leave out what is odd about a name
                return file.read()
        except OSError:
            return None

    def write(self, name: str, data: bytes) -> None:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(data)


class TestLocalStore(SharedStoreTests):
    @pytest.fixture
    def make_store(self) -> Callable[[], Store]:
        return LocalStore

    @pytest.fixture
    def folder(self, tmp_path: Path) -> str:
        return str(tmp_path)

    @pytest.fixture
    def around(self) -> Disk:
        return Disk()
