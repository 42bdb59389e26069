"""The steps of a timeline's instants, by what is left of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from putifabsent.timeline import Fault, check_steps, read
from tests.timeline.tables import Hudi

if TYPE_CHECKING:
    from tests.timeline.conftest import Place

T1, T2 = "20260101120000001", "20260101120000002"
C1, C2 = "20260101120100001", "20260101120100002"


def faults(place: Place, *names: str, version: int = 9) -> list[Fault]:
    table = Hudi(place.fs, place.root, version)
    for last in names:
        table.put(last, b"x")
    return [each.fault for each in check_steps(read(table.root, fs=table.fs).active())]


@pytest.mark.parametrize(
    "names",
    [
        (f"{T1}.commit.requested", f"{T1}.inflight", f"{T1}_{C1}.commit"),
        (f"{T1}.compaction.requested", f"{T1}.compaction.inflight", f"{T1}_{C1}.commit"),
        (f"{T1}.clustering.requested", f"{T1}.clustering.inflight"),
        (f"{T1}.deltacommit.requested",),
        (f"{T1}_{C1}.commit", f"{T1}.savepoint.inflight", f"{T1}_{C2}.savepoint"),
        (f"{T1}_{C1}.commit", f"{T1}.savepoint.inflight"),
        # What an archiver leaves that has died, or is at it.
        (f"{T1}_{C1}.commit",),
        (f"{T1}.commit.requested", f"{T1}_{C1}.commit"),
        (f"{T1}.inflight", f"{T1}_{C1}.commit"),
    ],
)
def test_what_hudi_leaves_is_valid(memory: Place, names: tuple[str, ...]) -> None:
    assert faults(memory, *names) == []


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        ((f"{T1}.inflight",), Fault.UNREQUESTED),
        ((f"{T1}.clean.inflight",), Fault.UNREQUESTED),
        ((f"{T1}_{C1}.commit", f"{T1}_{C2}.commit"), Fault.REPEATED),
        ((f"{T1}.commit.requested", f"{T1}.clean.requested"), Fault.CHANGED),
        ((f"{T1}.commit.requested", f"{T1}_{C1}.deltacommit"), Fault.CHANGED),
        ((f"{T1}.compaction.requested", f"{T1}.clustering.inflight"), Fault.CHANGED),
        ((f"{T2}_{T1}.commit",), Fault.BACKWARDS),
    ],
)
def test_what_hudi_never_leaves_is_found(memory: Place, names: tuple[str, ...], fault: Fault) -> None:
    assert fault in faults(memory, *names)


def test_in_version_6_the_store_s_times_prove_nothing(memory: Place) -> None:
    future = "29990101120000001"
    assert faults(memory, f"{future}.commit.requested", f"{future}.commit", version=6) == []


def test_a_finding_names_the_file(memory: Place) -> None:
    table = Hudi(memory.fs, memory.root)
    path = table.put(f"{T1}.inflight")
    (finding,) = check_steps(read(table.root, fs=table.fs).active())
    assert finding.after.name == path
