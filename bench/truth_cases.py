"""The matrix of bench/truth.py: what goes wrong with one creation, in which world, and the verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Literal, TypeAlias

from tests.stub import Fault, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.stub import Cloud, State

__all__ = [
    "MINE",
    "NAME",
    "OTHERS",
    "WORLDS",
    "Case",
    "Outcome",
    "Told",
    "Verdict",
    "cases",
    "judge",
    "truth",
]

World: TypeAlias = Literal["I won", "another won", "another came", "nobody did", "deleted meanwhile"]
Told: TypeAlias = Literal["won", "exists", "refused", "error"]
Verdict: TypeAlias = Literal["ok", "unknown", "FALSE EXISTS", "FALSE WON"]

NAME = ("bucket", "table/commit")
MINE, OTHERS = b"mine", b"another's"

WORLDS = """
Each fault was tried in five situations:

- I won: no other writer. The first request fails; each retry gets an honest response.
- another won: another writer created the name an hour earlier.
- another came: another writer creates the name before the first request is applied, or after it failed.
- nobody did: every request fails, and none is applied.
- deleted meanwhile: the name is deleted just before the client could see who holds it.

"Unknown" is an error that leaves open who won. FALSE EXISTS is "exists", where no other created the name:
formats then delete their data. FALSE WON is success, where nothing was written.

After "another came" the own object may have been created, read and deleted first. So putifabsent reports
`OutcomeUnknown`; the others are right by luck.

A 409 is S3's `ConditionalRequestConflict`, GCS's conflict, Azure's `PendingCopyOperation`. A 412 after a win
comes from a proxy that sent the request twice. A 200 with an error in its body comes from proxies and some S3
servers.
"""


@dataclass(frozen=True)
class Case:
    """A fault in a world: what happens to the requests of one creation."""

    fault: str
    world: World
    puts: tuple[Step | Fault, ...]
    forever: bool = False
    heads: Fault | None = None


@dataclass(frozen=True)
class Outcome:
    """What one client made of one case."""

    cloud: Cloud
    client: str
    fault: str
    world: World
    told: Told
    truth: str
    verdict: Verdict
    requests: int
    error: str = field(default="", compare=False)


def judge(told: Told, past: Sequence[bytes | None]) -> Verdict:
    """Whether what the writer was told is true of what was ever written under the name."""
    if told == "won":
        return "ok" if MINE in past else "FALSE WON"
    if told == "exists":
        return "ok" if OTHERS in past else "FALSE EXISTS"
    return "ok" if told == "refused" and MINE not in past else "unknown"


def truth(past: Sequence[bytes | None]) -> str:
    """What happened to the name, in words."""
    words = {MINE: "mine", OTHERS: "another's", None: "deleted"}
    return ", then ".join(words[held] for held in past) or "nobody's"


def cases(cloud: Cloud) -> Iterator[Case]:
    """Every fault in every world in which it can happen."""
    yield from _applied()
    yield from _not_applied()
    yield from _told_412(cloud)
    name, fault = "200 with an error body", Fault.OK_WITH_ERROR_BODY
    yield Case(name, "I won", (Step(fault, applies=True),))
    yield Case(name, "another won", (Step(fault, before=_another_earlier),))
    yield Case(name, "another came", (Step(fault, before=_another),))
    yield Case(name, "nobody did", (fault,), forever=True)
    yield Case(name, "deleted meanwhile", (Step(fault, applies=True), Step(after=_gone)))
    yield from _looking()


def _another(state: State) -> None:
    state.put(*NAME, OTHERS)


def _another_earlier(state: State) -> None:
    earlier = datetime.now(timezone.utc) - timedelta(hours=1)
    state.put(*NAME, OTHERS, last_modified=earlier)


def _gone(state: State) -> None:
    state.delete(*NAME)


def _applied() -> Iterator[Case]:
    faults = {
        "answer dropped, applied": Fault.DROP_AFTER_APPLY,
        "500, applied": Fault.ERROR_500_AFTER,
        "503, applied": Fault.ERROR_503_AFTER,
        "time-out, applied": Fault.TIMEOUT_AFTER_APPLY,
    }
    for name, fault in faults.items():
        yield Case(name, "I won", (fault,))
        yield Case(name, "another won", (Step(fault, before=_another_earlier),))
        yield Case(name, "another came", (Step(fault, before=_another),))
        yield Case(name, "deleted meanwhile", (fault, Step(after=_gone)))


def _not_applied() -> Iterator[Case]:
    faults = {
        "dropped, not applied": Fault.DROP_BEFORE_APPLY,
        "500, not applied": Fault.ERROR_500_BEFORE,
        "503, not applied": Fault.ERROR_503_BEFORE,
        "409 conflict, not applied": Fault.CONFLICT_409,
        "403, not applied": Fault.FORBIDDEN_403,
    }
    for name, fault in faults.items():
        yield Case(name, "I won", (fault,))
        yield Case(name, "another won", (Step(fault, before=_another_earlier),))
        yield Case(name, "another came", (Step(fault, after=_another),))
        yield Case(name, "nobody did", (fault,), forever=True)
        yield Case(name, "deleted meanwhile", (Step(fault, after=_another), Step(after=_gone)))


def _told_412(cloud: Cloud) -> Iterator[Case]:
    """A 412, even to what was applied: something on the way has sent the request twice."""
    faults = {"412": Fault.PRECONDITION_412}
    if cloud == "s3":
        faults["412, no <Condition>"] = Fault.PRECONDITION_412_BARE
    for name, fault in faults.items():
        yield Case(name, "I won", (Step(fault, applies=True),))
        yield Case(name, "another won", (Step(fault, before=_another_earlier),))
        yield Case(name, "deleted meanwhile", (Step(fault, applies=True, after=_gone),))


def _looking() -> Iterator[Case]:
    lost = Fault.DROP_AFTER_APPLY
    faults = {
        "answer dropped, and HEAD answers 500": Fault.ERROR_500_BEFORE,
        "answer dropped, and HEAD answers 403": Fault.FORBIDDEN_403,
    }
    for name, fault in faults.items():
        yield Case(name, "I won", (lost,), heads=fault)
        yield Case(name, "another won", (Step(lost, before=_another_earlier),), heads=fault)
        yield Case(name, "deleted meanwhile", (lost, Step(after=_gone)), heads=fault)
