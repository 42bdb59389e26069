"""The matrix: each fault on the request that decides, times how it really ended, times the way of writing.

For each case: what the writer must be told, and exactly which requests must have gone out (design of the
native protocol: put; on no answer the same again; on "exists" look whose it is).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Literal, TypeAlias

from tests.stub import Fault, Op, Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.stub import State

__all__ = ["BUCKET", "KEY", "NAME", "OTHER", "SOURCE", "Case", "Ending", "Shape", "Told", "cases", "on"]

Shape: TypeAlias = Literal["small", "large", "rename", "large rename"]
Ending: TypeAlias = Literal["I won", "another won", "another came", "nobody did", "deleted meanwhile"]
Told: TypeAlias = Literal["won", "taken", "unknown", "failed"]

BUCKET, KEY = "bucket", "t/_delta_log/00000000000000000000.json"
NAME = f"{BUCKET}/{KEY}"
SOURCE = f"{BUCKET}/t/_tmp"
OTHER = "the other writer's token"

AFTER = (
    Fault.DROP_AFTER_APPLY,
    Fault.RESET_AFTER_APPLY,
    Fault.ERROR_500_AFTER,
    Fault.ERROR_503_AFTER,
    Fault.TIMEOUT_AFTER_APPLY,
)
BEFORE = (Fault.DROP_BEFORE_APPLY, Fault.ERROR_500_BEFORE, Fault.ERROR_503_BEFORE)
EXISTS = (Fault.PRECONDITION_412, Fault.PRECONDITION_412_BARE)
PUTS = ("small", "rename")


@dataclass(frozen=True)
class Case:
    """One cell.

    Attributes
    ----------
    steps, forever
        What happens to the deciding requests, in order; ``forever`` repeats the last.
    told
        What the writer must hear.
    sent
        The deciding requests and the looks after them, in order; a trailing ``...`` is any number more
        of the same kinds.
    heads
        What happens to the looks.
    """

    shape: Shape
    fault: Fault
    ending: Ending
    steps: tuple[Step, ...]
    told: Told
    sent: str
    forever: bool = False
    heads: tuple[Step, ...] = ()
    heads_forever: bool = False
    note: str = ""

    @property
    def decides(self) -> Op:
        """The operation that decides."""
        return Op.PUT if self.shape in PUTS else Op.COMPLETE

    def __str__(self) -> str:
        return "-".join(word for word in (self.shape, self.fault.name, self.ending, self.note) if word)


def on(case: Case, cloud: str) -> Case:
    """Return the case as one cloud answers it.

    A resumable session of GCS that has been completed says so when it is asked again, even after its object
    is gone; an upload of S3, and Azure's blocks, are forgotten. So there the winner can be told.
    """
    if cloud == "gcs" and case.told == "unknown" and case.sent == "COMPLETE HEAD COMPLETE HEAD":
        return replace(case, told="won", sent="COMPLETE HEAD COMPLETE")
    return case


def another_creates(state: State) -> None:
    """Have another writer create the name."""
    state.put(BUCKET, KEY, b"another's", {"putifabsenttoken": OTHER})


def another_was_there(state: State) -> None:
    """Have another writer have created the name, an hour ago."""
    earlier = datetime.now(timezone.utc) - timedelta(hours=1)
    state.put(BUCKET, KEY, b"another's", {"putifabsenttoken": OTHER}, last_modified=earlier)


def somebody_deletes(state: State) -> None:
    """Have somebody delete the name."""
    state.delete(BUCKET, KEY)


def cases(shape: Shape) -> Iterator[Case]:
    """Go through all cells of one way of writing."""
    yield from (_put_cases(shape) if shape in PUTS else _complete_cases(shape))
    yield from _looking_cases(shape)


def _put_cases(shape: Shape) -> Iterator[Case]:
    for fault in (*AFTER, Fault.OK_WITH_ERROR_BODY):
        applied = Step(fault, applies=True)
        yield Case(shape, fault, "I won", (applied,), "won", "PUT PUT HEAD")
        gone = Step(fault, applies=True, after=somebody_deletes)
        yield Case(shape, fault, "deleted meanwhile", (gone,), "won", "PUT PUT")
        yield Case(
            shape, fault, "deleted meanwhile", (applied,), "unknown", "PUT PUT HEAD",
            heads=(Step(before=somebody_deletes),), note="after the second put",
        )  # fmt: skip
    for fault in (*BEFORE, Fault.CONFLICT_409):
        yield Case(shape, fault, "I won", (Step(fault),), "won", "PUT PUT")
    for fault in (*AFTER, *BEFORE, Fault.OK_WITH_ERROR_BODY, Fault.CONFLICT_409):
        yield from _lost_to_another(shape, fault, "PUT PUT HEAD")
        never = Step(fault, applies=False)
        told: Told = "failed" if fault is Fault.CONFLICT_409 else "unknown"
        yield Case(shape, fault, "nobody did", (never,), told, "PUT ...", forever=True)
    for fault in EXISTS:
        mine = Step(fault, applies=True)
        yield Case(shape, fault, "I won", (mine,), "won", "PUT HEAD", note="sent twice on the way")
        yield Case(shape, fault, "another won", (Step(fault, before=another_creates),), "taken", "PUT HEAD")
        yield Case(shape, fault, "nobody did", (Step(fault),), "unknown", "PUT HEAD ...", forever=True)
        gone = Step(fault, applies=True, after=somebody_deletes)
        yield Case(shape, fault, "deleted meanwhile", (gone,), "won", "PUT HEAD PUT")


def _lost_to_another(shape: Shape, fault: Fault, sent: str) -> Iterator[Case]:
    """Yield the cases in which an answer is lost and another holds the name: a loss only if it was there.

    One that came meanwhile may have come after mine was created, read, and deleted. A look more asks the
    store's time; a 409 is an answer, and wants none.
    """
    if fault is Fault.CONFLICT_409:
        met = Step(fault, applies=False, before=another_creates)
        yield Case(shape, fault, "another won", (met,), "taken", sent)
        return
    there = Step(fault, applies=False, before=another_was_there)
    yield Case(shape, fault, "another won", (there,), "taken", f"{sent} HEAD")
    came = Step(fault, applies=False, before=another_creates)
    yield Case(shape, fault, "another came", (came,), "unknown", f"{sent} HEAD")


def _complete_cases(shape: Shape) -> Iterator[Case]:
    for fault in (*AFTER, Fault.OK_WITH_ERROR_BODY):
        yield Case(shape, fault, "I won", (Step(fault, applies=True),), "won", "COMPLETE HEAD")
        gone = Step(fault, applies=True, after=somebody_deletes)
        yield Case(shape, fault, "deleted meanwhile", (gone,), "unknown", "COMPLETE HEAD COMPLETE HEAD")
    for fault in BEFORE:
        yield Case(shape, fault, "I won", (Step(fault),), "won", "COMPLETE HEAD COMPLETE")
    for fault in (*AFTER, *BEFORE, Fault.OK_WITH_ERROR_BODY):
        yield from _lost_to_another(shape, fault, "COMPLETE HEAD")
        never = Step(fault, applies=False)
        yield Case(shape, fault, "nobody did", (never,), "unknown", "COMPLETE HEAD ...", forever=True)
    conflict = Fault.CONFLICT_409
    yield Case(shape, conflict, "I won", (Step(conflict),), "won", "COMPLETE COMPLETE")
    met = Step(conflict, before=another_creates)
    yield Case(shape, conflict, "another won", (met,), "taken", "COMPLETE COMPLETE HEAD")
    yield Case(shape, conflict, "nobody did", (Step(conflict),), "failed", "COMPLETE ...", forever=True)
    gone_upload = Fault.NO_SUCH_UPLOAD
    yield Case(shape, gone_upload, "I won", (Step(gone_upload),), "won", "COMPLETE HEAD COMPLETE")
    mine = Step(gone_upload, applies=True)
    yield Case(shape, gone_upload, "I won", (mine,), "won", "COMPLETE HEAD", note="sent twice on the way")
    another = Step(gone_upload, before=another_creates)
    yield Case(shape, gone_upload, "another won", (another,), "taken", "COMPLETE HEAD")
    for fault in EXISTS:
        mine = Step(fault, applies=True)
        yield Case(shape, fault, "I won", (mine,), "won", "COMPLETE HEAD", note="sent twice on the way")
        another = Step(fault, before=another_creates)
        yield Case(shape, fault, "another won", (another,), "taken", "COMPLETE HEAD")
        yield Case(shape, fault, "nobody did", (Step(fault),), "unknown", "COMPLETE HEAD ...", forever=True)


def _looking_cases(shape: Shape) -> Iterator[Case]:
    fault = Fault.PRECONDITION_412
    first = "PUT" if shape in PUTS else "COMPLETE"
    mine, another = Step(fault, applies=True), Step(fault, before=another_creates)
    refused, failing = Step(Fault.FORBIDDEN_403), Step(Fault.ERROR_503_BEFORE)
    for ending, step in (("I won", mine), ("another won", another)):
        yield Case(
            shape, fault, ending, (step,), "unknown", f"{first} HEAD",  # type: ignore[arg-type]
            heads=(refused,), heads_forever=True, note="the look is refused",
        )  # fmt: skip
        yield Case(
            shape, fault, ending, (step,), "won" if ending == "I won" else "taken",  # type: ignore[arg-type]
            f"{first} HEAD HEAD HEAD", heads=(failing, failing), note="the look fails twice",
        )  # fmt: skip
        yield Case(
            shape, fault, ending, (step,), "unknown", f"{first} HEAD ...",  # type: ignore[arg-type]
            heads=(failing,), heads_forever=True, note="the look fails for ever",
        )  # fmt: skip
