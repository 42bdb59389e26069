"""Whether a table was hurt: what is wrong with it, found in what its timeline says and in what is there.

::

    report = inspect("s3://bucket/table")
    for finding in report.findings:
        print(finding.severity.value, finding.kind.value, finding.detail)
"""

from __future__ import annotations

from putifabsent.inspection.findings import MEANINGS, Finding, Kind, Meaning, Severity
from putifabsent.inspection.inspecting import Report, inspect

__all__ = ["MEANINGS", "Finding", "Kind", "Meaning", "Report", "Severity", "inspect"]
