"""What answers in a store's place while a guarded name is about to be created: it is no word of the store's.

A proxy that does not find its store gives a page of its own, with any status, to requests that only read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.stub import Fault, Op

if TYPE_CHECKING:
    from tests.stub import FaultStub

LOG = f"bucket/t/_delta_log/{0:020d}.json"
ICEBERG = "bucket/t/metadata/v1.metadata.json"


@pytest.mark.parametrize("fault", [Fault.OK_WITH_ERROR_BODY, Fault.PRECONDITION_412])
@pytest.mark.parametrize("way", ["mv", "cp_file"])
def test_a_page_is_not_taken_for_the_source(stub: FaultStub, on_stub: Any, way: str, fault: Fault) -> None:
    fs = on_stub(arbiter="ballot", skip_instance_cache=True)
    stub.put("bucket", "t/source", b"{}")
    stub.script(Op.GET, fault)
    with pytest.raises(OSError, match="t/source") as caught:
        getattr(fs, way)("bucket/t/source", LOG)
    assert not isinstance(caught.value, FileExistsError)
    assert not fs.exists(LOG)
    getattr(fs, way)("bucket/t/source", LOG)
    assert fs.cat_file(LOG) == b"{}"


def test_a_refused_look_at_what_lies_beside_a_name_is_no_loss(stub: FaultStub, on_stub: Any) -> None:
    fs = on_stub(skip_instance_cache=True)
    stub.script(Op.LIST, Fault.PRECONDITION_412)
    with pytest.raises(OSError, match="can't be looked at") as caught:
        fs.pipe_file(ICEBERG, b"{}")
    assert not isinstance(caught.value, FileExistsError)
