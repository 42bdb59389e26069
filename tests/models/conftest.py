"""Where a schedule is played once more: in memory and on local disk, guarded and not."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from tests.models.storage import Place, own_memory, stock, whole

if TYPE_CHECKING:
    from pathlib import Path

    from tests.models.replay import Grounds


@pytest.fixture(params=["memory", "local disk"])
def grounds(request: pytest.FixtureRequest, tmp_path: Path) -> Grounds:
    """Return what makes an empty place, guarded or not."""

    def ground(*, shim: bool) -> Place:
        memory, root = own_memory(), tmp_path / ("guarded" if shim else "stock")
        root.mkdir(exist_ok=True)

        def mount(writer: str) -> Any:
            if request.param == "memory":
                return whole(memory, writer)
            return fsspec.filesystem("piafile", auto_mkdir=True, writer_session=writer)

        at = "" if request.param == "memory" else str(root)
        if shim:
            place = Place(mount("nobody"), at, mount=lru_cache(mount))
        else:
            place = Place(stock(memory) if not at else fsspec.filesystem("file", auto_mkdir=True), at)
        place.fs.pipe_file(f"{at}/t/.hoodie/hoodie.properties", b"hoodie.table.version=6\n")
        return place

    return ground
