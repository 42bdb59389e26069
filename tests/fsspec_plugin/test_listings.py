"""A listing that is kept does not contradict what a writer is told; nor does anything that follows a win."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from fsspec.callbacks import Callback
from fsspec.dircache import DirCache

from putifabsent import NameTaken

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fsspec_plugin.grounds import Ground
    from tests.stub import FaultStub

LOG = f"bucket/t/_delta_log/{0:020d}.json"


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


class Raced(DirCache):
    """Another thread removes each entry just before this one does."""

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        super().__delitem__(key)


class Broken(DirCache):
    def pop(self, key: str, default: Any = None) -> Any:
        raise RuntimeError(key, default)


@pytest.fixture
def listed(stub: FaultStub, on_stub: Any) -> Any:
    """Give a filesystem that has listed a folder and the one above it."""
    stub.put("bucket", "t/_delta_log/x", b"")
    fs = on_stub(use_listings_cache=True, skip_instance_cache=True)
    for folder in ("bucket/t", "bucket/t/_delta_log"):
        fs.ls(folder)
    return fs


def test_a_winner_hears_nothing_of_another_thread_that_forgets_the_same_listings(listed: Any) -> None:
    raced = Raced()
    raced.update(listed.dircache)
    listed.dircache = raced
    listed.pipe_file(LOG, b"mine")
    assert [*raced] == [], "what lies above is forgotten, too"


def test_a_winner_hears_nothing_of_a_cache_that_is_broken(
    listed: Any, stub: FaultStub, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Broken()
    broken.update(listed.dircache)
    listed.dircache = broken
    listed.pipe_file(LOG, b"mine")
    assert "may be an old one" in caplog.text
    assert stub.objects["bucket", LOG.partition("/")[2]].data == b"mine"


class FailsAtTheEnd(Callback):
    def absolute_update(self, value: int) -> None:
        raise RuntimeError(value)


def test_a_callback_that_fails_when_a_name_is_there_is_logged(
    memory: Ground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "source").write_bytes(b"mine")
    memory.fs.put_file(str(tmp_path / "source"), memory.log(), callback=FailsAtTheEnd())
    assert "the callback failed" in caplog.text
    assert memory.read(memory.log()) == b"mine"
