"""The commands of a format's own tools that mend what was found: Spark SQL, ready to be run.

All of them go back to the state before a commit, or take back the newest one. What was committed since is to
be written again. Sources: Delta's ``RESTORE``; the procedures of Iceberg, Paimon and Hudi for Spark.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from putifabsent.inspection.findings import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from putifabsent.inspection.findings import Finding

__all__ = ["commands_for"]

_GOING_BACK = frozenset(
    (Kind.LOST_UPDATE, Kind.DANGLING_REFERENCE, Kind.DANGLING_VECTOR, Kind.REPEATED_COMMIT, Kind.UNREADABLE)
)
_IN_DATABASE = re.compile(r".*?([^/]+)\.db/([^/]+)")


def commands_for(format: str, url: str, finding: Finding, records: Sequence[Any]) -> tuple[str, ...]:  # noqa: A002
    """Return what mends a finding.

    Parameters
    ----------
    format, url, records
        Of its table.
    """
    command = _COMMANDS.get(format)
    if command is None or finding.kind not in _GOING_BACK or not finding.moments:
        return ()
    return command(url, finding.moments, records)


def _delta(url: str, moments: Sequence[str], _: Sequence[Any]) -> tuple[str, ...]:
    before = min(map(int, moments)) - 1
    address = re.sub("^s3://", "s3a://", url)
    return () if before < 0 else (f"RESTORE TABLE delta.`{address}` TO VERSION AS OF {before}",)


def _paimon(url: str, moments: Sequence[str], records: Sequence[Any]) -> tuple[str, ...]:
    before = min(map(int, moments)) - 1
    if not any(each.number == before and not each.archived for each in records):
        return ()
    found = _IN_DATABASE.fullmatch(url.rstrip("/"))
    table = f"{found[1]}.{found[2]}" if found else "<database>.<table>"
    return (f"CALL <catalog>.sys.rollback(table => '{table}', version => '{before}')",)


def _iceberg(_: str, moments: Sequence[str], records: Sequence[Any]) -> tuple[str, ...]:
    first = next(each for each in records if str(each.number) == moments[0])
    hurt = [each for each in records if each.number >= first.number]
    back = f"CALL <catalog>.system.rollback_to_snapshot('<database>.<table>', {first.parent})"
    ids = ", ".join(str(each.id) for each in hurt)
    forget = (
        f"CALL <catalog>.system.expire_snapshots(table => '<database>.<table>', snapshot_ids => array({ids}))"
    )
    if not any(each.id == first.parent for each in records) or not hurt[-1].current:
        return ()
    return back, forget


def _hudi(_: str, moments: Sequence[str], records: Sequence[Any]) -> tuple[str, ...]:
    newest = max((each.time for each in records if each.ended_at is not None), default="")
    if newest not in moments:
        return ()  # only the newest can be taken back
    return (f"CALL rollback_to_instant(table => '<table>', instant_time => '{newest}')",)


_COMMANDS: dict[str, Callable[[str, Sequence[str], Sequence[Any]], tuple[str, ...]]] = {
    "delta": _delta,
    "hudi": _hudi,
    "iceberg": _iceberg,
    "paimon": _paimon,
}
