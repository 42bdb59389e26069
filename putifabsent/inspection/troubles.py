"""What can't be read, as findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from putifabsent.inspection.findings import Finding, Kind, found
from putifabsent.timeline import Trouble

if TYPE_CHECKING:
    from collections.abc import Iterable

    from putifabsent.timeline import Problem

__all__ = ["findings_of"]

_KINDS = {
    Trouble.EMPTY: Kind.EMPTY,
    Trouble.UNREADABLE: Kind.UNREADABLE,
    Trouble.UNKNOWN: Kind.UNKNOWN_RECORD,
}


def findings_of(problems: Iterable[Problem], missing: Kind) -> list[Finding]:
    """Return a finding for each problem; ``missing`` is what it means that a file is not there."""
    return [
        found(_KINDS.get(each.trouble, missing), (each.path,), f"{each.path}: {each.reason}")
        for each in problems
    ]
