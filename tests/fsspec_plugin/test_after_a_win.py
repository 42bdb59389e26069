"""What follows a win contradicts it by nothing: a failure there is no failure of the creation."""

from __future__ import annotations

import errno
import os
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from fsspec.callbacks import Callback

from putifabsent import OutcomeUnknown
from tests.fsspec_plugin.grounds import ground_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fsspec_plugin.grounds import Ground
    from tests.stub import FaultStub

BODY = b"mine"


@pytest.fixture(params=["memory-ballot", "local-ballot"])
def ground(request: pytest.FixtureRequest) -> Ground:
    return ground_of(request)


def test_an_interrupt_while_the_source_is_removed_carries_the_token(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs, source = ground.fs, ground.name("source")
    ground.write(source, BODY)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fs.fs, "rm_file", interrupted)
    monkeypatch.setattr(fs.fs, "rm", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        fs.mv(source, ground.log())
    unknown = caught.value.__cause__
    assert isinstance(unknown, OutcomeUnknown)
    assert fs.resolve(ground.log(), unknown.token).token == unknown.token


@pytest.mark.parametrize("ground", ["local-ballot"], indirect=True)
def test_a_source_whose_name_could_be_a_pattern_and_that_may_not_be_removed_stays(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs, source = ground.fs, ground.name("source[1]")  # which is one elsewhere
    ground.write(source, BODY)

    def refused(path: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(fs.fs, "rm_file", refused)
    fs.mv(source, ground.log())
    assert (ground.read(ground.log()), ground.read(source)) == (BODY, BODY)


def test_a_temporary_copy_that_can_not_be_removed_stays(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs, source = ground.fs, ground.name("source")
    ground.write(source, BODY)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    remove = os.rmdir

    def busy(path: str, **more: Any) -> None:
        if str(path).startswith(str(tmp_path / "tmp")):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
        remove(path, **more)

    with monkeypatch.context() as while_it_is_busy:
        while_it_is_busy.setattr(os, "rmdir", busy)
        fs.cp_file(source, ground.log())
    assert ground.read(ground.log()) == BODY


class FailsWhenCounting(Callback):
    def relative_update(self, inc: int = 1) -> None:
        raise BrokenPipeError(inc)


def test_a_callback_that_fails_when_one_of_several_is_there_is_logged(
    stub: FaultStub, on_stub: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "source").write_bytes(BODY)
    name = f"bucket/t/_delta_log/{0:020d}.json"
    on_stub().put([str(tmp_path / "source")], [name], callback=FailsWhenCounting())
    assert "the callback failed" in caplog.text
    assert stub.objects["bucket", name.partition("/")[2]].data == BODY
