"""Stale numbers and lost answers against the clouds' own times, as the stub says them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent import NameExpired, NameTaken, OutcomeUnknown
from putifabsent.fsspec_plugin import GuardedFileSystem
from tests.stub import Fault, Op, Step
from tests.stub.clients import filesystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stub import FaultStub
    from tests.stub.server import Cloud
    from tests.stub.state import State

CLOUDS = pytest.mark.parametrize(
    "cloud",
    ["s3", pytest.param("gcs", marks=pytest.mark.clouds), pytest.param("azure", marks=pytest.mark.clouds)],
)


def mount(stub: FaultStub, cloud: Cloud) -> Any:
    return GuardedFileSystem(fs=filesystem(stub, cloud), arbiter="native", skip_instance_cache=True)


def ago(**time: float) -> datetime:
    return datetime.now(timezone.utc) - timedelta(**time)


def begun_long_ago(state: State) -> None:
    for upload in state.uploads.values():
        upload.begun = ago(hours=2)


def others_went_on(number: int, hours: float) -> Callable[[State], None]:
    def hook(state: State) -> None:
        begun_long_ago(state)
        for each in range(number, number + 3):
            state.put("bucket", f"t/metadata/v{each}.metadata.json", b"x", last_modified=ago(hours=hours))

    return hook


@pytest.mark.parametrize("parts", [False, True], ids=["one put", "in parts"])
@pytest.mark.parametrize(("number", "first"), [(5, 6), (5, 24), (1, 2), (1, 24)])
@CLOUDS
def test_a_stale_number_is_never_acknowledged(
    stub: FaultStub, cloud: Cloud, number: int, first: int, parts: bool
) -> None:
    """A writer is paused before its last request; the next ones are there by then, or v24 and later alone."""
    fs = mount(stub, cloud)
    if parts:
        fs.backend.largest_put = 0
    stub.call(others_went_on(first, hours=1))
    if parts and cloud == "s3":
        stub.script(Op.COMPLETE, Step(before=others_went_on(first, hours=1)))
    with pytest.raises(NameExpired):
        fs.pipe_file(f"bucket/t/metadata/v{number}.metadata.json", b"stale")
    assert ("bucket", f"t/metadata/v{number}.metadata.json") not in stub.objects


def replaced(state: State) -> None:
    """Mine is read and deleted, and another comes."""
    state.delete("bucket", "t/metadata/v1.metadata.json")
    state.put("bucket", "t/metadata/v1.metadata.json", b"another's")


@CLOUDS
def test_after_a_lost_answer_another_who_came_later_is_no_loss(stub: FaultStub, cloud: Cloud) -> None:
    stub.script(Op.PUT, Step(Fault.DROP_AFTER_APPLY, after=replaced))
    with pytest.raises(OutcomeUnknown):
        mount(stub, cloud).pipe_file("bucket/t/metadata/v1.metadata.json", b"mine")


@CLOUDS
def test_after_a_lost_answer_another_who_was_there_before_is_a_loss(stub: FaultStub, cloud: Cloud) -> None:
    key = f"t/_delta_log/{0:020d}.json"
    stub.call(lambda state: state.put("bucket", key, b"another's", last_modified=ago(minutes=1)))
    stub.script(Op.PUT, Fault.DROP_BEFORE_APPLY)
    with pytest.raises(NameTaken):
        mount(stub, cloud).pipe_file(f"bucket/{key}", b"mine")


def test_of_what_came_in_parts_s3_shows_only_when_it_was_begun(stub: FaultStub) -> None:
    fs = mount(stub, "s3")
    fs.backend.largest_put = 0
    stub.script(Op.COMPLETE, Step(before=begun_long_ago))
    fs.pipe_file("bucket/t/metadata/v1.metadata.json", b"mine")
    holder = fs.backend.head("bucket/t/metadata/v1.metadata.json").holder
    assert holder.created is None
    assert holder.begun < ago(hours=1.9)
    assert "begun" in str(holder)
