"""Inspects a Hudi table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from putifabsent.inspection.findings import Kind
from putifabsent.inspection.hudi_files import wrong_files
from putifabsent.inspection.hudi_instants import wrong_instants
from putifabsent.inspection.hudi_told import told_by
from putifabsent.inspection.hudi_updates import lost_updates
from putifabsent.inspection.judged import Judged
from putifabsent.inspection.troubles import findings_of

if TYPE_CHECKING:
    from putifabsent.inspection.findings import Finding
    from putifabsent.inspection.judged import Look
    from putifabsent.timeline import HudiTimeline, Problems

__all__ = ["judge"]

_METADATA_TABLE = "/.hoodie/metadata"


def judge(timeline: HudiTimeline, look: Look | None) -> Judged:
    """Return what is wrong with a Hudi table.

    Parameters
    ----------
    timeline
        The table's.
    look
        Lists its data files; None: they are not looked at.
    """
    problems: Problems = []
    told = told_by(timeline, problems)
    is_metadata_table = timeline.root.endswith(_METADATA_TABLE)
    findings: list[Finding] = findings_of(problems, Kind.MISSING_HISTORY)
    findings += wrong_instants(told, is_metadata_table=is_metadata_table)
    findings += lost_updates(told)
    if look is not None:
        # The timeline was read before: what is written meanwhile is no instant's yet.
        findings += wrong_files(
            told,
            look(timeline.root, (".hoodie",)),
            timeline.root,
            first_version=timeline.layout.first,
            is_whole=not problems,
            is_metadata_table=is_metadata_table,
        )
    return Judged(f"table version {timeline.layout.version}", [each.instant for each in told], findings)
