"""A guarded name that is touched is created empty, and never emptied or written again."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from putifabsent import NameTaken
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
    if ground.kind == "local":
        os.utime(ground.log(1), (1, 1))
        ground.fs.touch(ground.log(1), truncate=False)
        assert Path(ground.log(1)).stat().st_mtime > 1
    else:
        with pytest.raises(io.UnsupportedOperation, match="wants it written again"):
            ground.fs.touch(ground.log(1), truncate=False)
    assert ground.read(ground.log(1)) == WINNER


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
