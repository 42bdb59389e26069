"""What answers in a store's place while a guarded name is about to be created: it is no word of the store's.

A proxy that does not find its store gives a page of its own, with any status, to requests that only read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from putifabsent import NameTaken
from tests import fault_proxy
from tests.stub import Fault, Op

if TYPE_CHECKING:
    from tests.stub import FaultStub

LOG = f"bucket/t/_delta_log/{0:020d}.json"
HEAD = b'HTTP/1.1 200 OK\r\nETag: "5f1-264"\r\nContent-Type: text/html\r\nContent-Length: 7\r\n\r\n'
PAGES = {"HEAD": HEAD, "GET": HEAD + b"<html/>"}
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


@pytest.mark.parametrize("asked", [Op.HEAD, Op.LIST])
def test_a_refused_look_at_what_lies_beside_a_name_is_no_loss(
    stub: FaultStub, on_stub: Any, asked: Op
) -> None:
    fs = on_stub(skip_instance_cache=True)
    stub.script(asked, Fault.PRECONDITION_412)
    fs.pipe_file(ICEBERG, b"{}")
    assert fs.cat_file(ICEBERG) == b"{}"


def test_what_answers_for_a_commit_that_is_to_be_judged_is_no_loss(stub: FaultStub, on_stub: Any) -> None:
    fs = on_stub(inspect="commits", skip_instance_cache=True)
    stub.put("bucket", "t/source", b'{"commitInfo":{}}')
    stub.script(Op.GET, Fault.PRECONDITION_412)
    fs.mv("bucket/t/source", LOG)
    assert fs.cat_file(LOG) == b'{"commitInfo":{}}'


def test_a_timeline_that_can_not_be_listed_is_no_loss(stub: FaultStub, on_stub: Any) -> None:
    fs = on_stub(strict=True, skip_instance_cache=True)
    stub.put("bucket", "t/.hoodie/hoodie.properties", b"hoodie.table.version=6\n")
    completed = "bucket/t/.hoodie/20260101000000000.commit"
    fs.pipe_file(f"{completed}.requested", b"")
    fs.pipe_file("bucket/t/.hoodie/20260101000000000.inflight", b"")
    stub.script(Op.LIST, Fault.PRECONDITION_412)
    with pytest.raises(OSError, match="hoodie") as caught:
        fs.pipe_file(completed, b"{}")
    assert not isinstance(caught.value, FileExistsError)


@pytest.mark.parametrize(
    ("name", "asked"),
    [(ICEBERG, "HEAD"), ("bucket/t/commits/0", "GET"), ("bucket/t/schema/schema-0", "GET")],
    ids=["a file that speaks against it", "a folder that speaks for it", "another folder"],
)
def test_a_page_says_nothing_of_what_lies_beside_a_name(
    stub: FaultStub, on_stub: Any, name: str, asked: str
) -> None:
    """Who took it for that would put over a name that nobody writes over."""
    for beside in ("offsets/0", "snapshot/snapshot-1"):
        stub.put("bucket", f"t/{beside}", b"{}")
    stub.put("bucket", name.partition("/")[2], b"the winner's")
    with fault_proxy.FaultProxy(stub.storage_options("s3")["endpoint_url"]) as proxy:
        fs = on_stub(endpoint_url=proxy.endpoint, skip_instance_cache=True)
        proxy.script(asked, fault_proxy.Fault(applies=False, says=PAGES[asked]))
        with pytest.raises(NameTaken):
            fs.pipe_file(name, b"{}")
    assert stub.objects["bucket", name.partition("/")[2]].data == b"the winner's"
