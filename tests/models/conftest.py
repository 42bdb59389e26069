"""Where a schedule is played once more: in memory and on local disk, guarded and not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fsspec
import pytest

from tests.models.storage import Place, guarded, own_memory, stock

if TYPE_CHECKING:
    from pathlib import Path

    from tests.models.replay import Grounds


@pytest.fixture(params=["memory", "local disk"])
def grounds(request: pytest.FixtureRequest, tmp_path: Path) -> Grounds:
    """Return what makes an empty place, guarded or not."""

    def ground(*, shim: bool) -> Place:
        if request.param == "memory":
            return Place((guarded if shim else stock)(own_memory()))
        root = tmp_path / ("guarded" if shim else "stock")
        root.mkdir()
        return Place(fsspec.filesystem("piafile" if shim else "file", auto_mkdir=True), str(root))

    return ground
