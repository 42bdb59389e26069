"""What writers under stress did and were told: one flat record each, which any SQL engine can judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Action", "Operation", "Outcome", "Purpose"]

Action: TypeAlias = Literal["create", "read", "kill", "pause"]
Purpose: TypeAlias = Literal["commit", "request", "slice"]
Outcome: TypeAlias = Literal["created", "taken", "unknown", "fenced", "failed", "found", "absent"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One creation or read of a name, or one fault.

    Attributes
    ----------
    action
        ``"create"`` or ``"read"``; ``"kill"`` or ``"pause"``: what was done to the writer.
    host
        The machine's boot, by its id. Times of one host can be compared, those of two can't.
    writer
        Its number.
    purpose
        What the name is to its table: a ``"commit"``, what announces one (a ``"request"``), or a ``"slice"``
        of data. Of a fault empty.
    folder
        The table's.
    name
        The name.
    identity
        What must be unique; mostly the name.
    offered
        Of a creation: what tells its bytes from all others'.
    saw
        Of a creation: the commit that its writer took for the table's last one, where the format's rule
        rests on that; else None.
    begun, ended
        Nanoseconds of the host's monotonic clock; ``ended`` is None where the writer did not live to see it.
    outcome
        Of a creation ``"created"``, ``"taken"`` (another provably has it), ``"unknown"``, ``"fenced"`` (the
        step came too late), or ``"failed"``: any other error, which promises nothing. Of a read ``"found"``,
        ``"absent"`` or ``"failed"``. None: it had none.
    seen
        Of a read that found: what was offered by whoever created it; ``"torn"`` for bytes that nobody did.
    closing
        Whether it is one of the reads after all else has ended.
    error
        What was said.
    """

    action: Action
    host: str
    writer: int
    purpose: Purpose | Literal[""]
    folder: str
    name: str
    identity: str
    offered: str | None = None
    saw: str | None = None
    begun: int = 0
    ended: int | None = None
    outcome: Outcome | None = None
    seen: str | None = None
    closing: bool = False
    error: str | None = None
