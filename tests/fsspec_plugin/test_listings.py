"""A listing that is kept does not contradict what a writer has just been told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from putifabsent import NameTaken

if TYPE_CHECKING:
    from tests.stub import FaultStub


@pytest.mark.parametrize("way", ["open", "pipe_file"])
def test_a_name_that_is_taken_is_there(stub: FaultStub, on_stub: Any, way: str) -> None:
    folder = f"bucket/{way}/_delta_log"
    name = f"{folder}/{0:020d}.json"
    fs = on_stub(use_listings_cache=True, skip_instance_cache=True)
    stub.put("bucket", f"{way}/_delta_log/x", b"")
    assert fs.ls(folder, detail=False) == [f"{folder}/x"]
    stub.put("bucket", name.partition("/")[2], b"another's")
    with pytest.raises(NameTaken):
        fs.open(name, "wb") if way == "open" else fs.pipe_file(name, b"mine")
    assert fs.exists(name)
    assert name in fs.ls(folder, detail=False)
