"""What the inspection of each format is given, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from putifabsent.inspection.listing import Files

if TYPE_CHECKING:
    from putifabsent.inspection.findings import Finding

__all__ = ["Judged", "Look"]

Look: TypeAlias = Callable[[str, Collection[str]], Files]
"""Lists the files in a folder, but those in some folders of it."""


class Judged(NamedTuple):
    """A table, as it was seen once.

    Attributes
    ----------
    version
        Of its format.
    records
        Its timeline.
    findings
        What is wrong with it.
    """

    version: str
    records: Sequence[Any]
    findings: Sequence[Finding]
