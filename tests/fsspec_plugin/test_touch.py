"""A guarded name that is touched is created empty, and never emptied or written again."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pytest

from putifabsent import NameExpired, NameTaken
from putifabsent.fsspec_plugin import GuardedFileSystem
from tests.stub import Op, Step
from tests.stub.clients import filesystem

if TYPE_CHECKING:
    from tests.fsspec_plugin.grounds import Ground
    from tests.stub import Cloud, FaultStub

WINNER = b"the winner's"


def test_touch_creates_an_empty_file_and_never_empties_a_full_one(ground: Ground) -> None:
    ground.fs.touch(ground.log())
    assert ground.read(ground.log()) == b""
    ground.write(ground.log(1), WINNER)
    with pytest.raises(NameTaken):
        ground.fs.touch(ground.log(1))
    assert ground.read(ground.log(1)) == WINNER


def test_touch_that_need_not_truncate_spares_a_taken_name(ground: Ground) -> None:
    ground.fs.touch(ground.log(), truncate=False)
    assert ground.read(ground.log()) == b""
    ground.fs.pipe_file(ground.log(1), WINNER)
    with pytest.raises(io.UnsupportedOperation, match="it can't be marked"):
        ground.fs.touch(ground.log(1), truncate=False)
    assert ground.read(ground.log(1)) == WINNER


def test_a_stale_number_is_not_acknowledged_though_the_next_one_is_touched(local: Ground) -> None:
    """On disk the time of a file says which creation came first."""
    names = [local.name(f"t/metadata/v{each}.metadata.json") for each in range(1, 4)]
    local.around.makedirs(local.name("t/metadata"))
    for name in names:
        local.fs.pipe_file(name, b"{}")
        os.utime(name, (1, 1))
    local.fs.rm(names[0])
    with pytest.raises(io.UnsupportedOperation):
        local.fs.touch(names[1], truncate=False)
    with pytest.raises(NameExpired):
        local.fs.pipe_file(names[0], b"{}")


@pytest.mark.parametrize("looks", [0, 1])
@pytest.mark.parametrize("cloud", ["s3", "gcs", "azure"])
def test_touch_never_overwrites_what_appears_after_a_look(stub: FaultStub, cloud: Cloud, looks: int) -> None:
    fs = GuardedFileSystem(fs=filesystem(stub, cloud), arbiter="native", skip_instance_cache=True)
    name = f"t/_delta_log/{0:020d}.json"
    fs.pipe_file(f"bucket/{name}", b"first")
    # It is removed before the first look or the next one, and created by another before what is sent then.
    stub.script(Op.HEAD, *[None] * looks, Step(before=lambda state: state.delete("bucket", name)))
    stub.script(Op.PUT, Step(before=lambda state: state.put("bucket", name, WINNER, {})))
    with pytest.raises(io.UnsupportedOperation if looks else NameTaken):
        fs.touch(f"bucket/{name}", truncate=False)
    assert stub.objects["bucket", name].data == (b"first" if looks else WINNER)
