"""What has happened to a table: Hudi's instants, Paimon's snapshots, Delta's commits, read from any store.

::

    timeline = read("s3://bucket/table")
    for instant in timeline.records(order="completed"):
        print(instant.time, instant.action, instant.state)
"""

from __future__ import annotations

from putifabsent.timeline.delta import DeltaTimeline
from putifabsent.timeline.hudi import HudiTimeline
from putifabsent.timeline.hudi_history import HistoryFile, Manifest
from putifabsent.timeline.opening import READERS, read
from putifabsent.timeline.paimon import PaimonTimeline
from putifabsent.timeline.parts import Part
from putifabsent.timeline.problems import Problem, Problems, Trouble
from putifabsent.timeline.reading import Record, Timeline
from putifabsent.timeline.records import (
    Commit,
    Content,
    Details,
    Instant,
    Order,
    Raw,
    Snapshot,
    State,
    StateFile,
)
from putifabsent.timeline.steps import Fault, Finding, check_steps

__all__ = [
    "READERS",
    "Commit",
    "Content",
    "DeltaTimeline",
    "Details",
    "Fault",
    "Finding",
    "HistoryFile",
    "HudiTimeline",
    "Instant",
    "Manifest",
    "Order",
    "PaimonTimeline",
    "Part",
    "Problem",
    "Problems",
    "Raw",
    "Record",
    "Snapshot",
    "State",
    "StateFile",
    "Timeline",
    "Trouble",
    "check_steps",
    "read",
]
