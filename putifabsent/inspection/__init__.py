"""Whether a table was hurt: what is wrong with it, found in what its timeline says and in what is there.

::

    report = inspect("s3://bucket/table")
    for finding in report.findings:
        print(finding.severity.value, finding.kind.value, finding.detail)

``inspect_all("s3://bucket/warehouse")`` does so for each table below a folder.
"""

from __future__ import annotations

from putifabsent.inspection.findings import MEANINGS, Finding, Kind, Meaning, Severity
from putifabsent.inspection.inspecting import Failed, Report, inspect, inspect_all

__all__ = [
    "MEANINGS",
    "Failed",
    "Finding",
    "Kind",
    "Meaning",
    "Report",
    "Severity",
    "inspect",
    "inspect_all",
]
