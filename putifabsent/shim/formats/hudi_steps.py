"""Hudi's valid steps: how an instant may go from state to state, and what is wrong with one that doesn't.

::

    [] -> requested -> inflight -> completed
              ^           |  ^
              +-----------+  +-- inflight: another goes on with it

    []: it is not there: it has never been, was rolled back, or is archived

Whoever requests an instant need not be who performs it: a step is judged by its states alone. What is being
rolled back or restored may fall back from completed, one name after the other. A savepoint is requested by
nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from putifabsent.shim.formats.hudi import SAVEPOINT, completed_as, instant_in

_UNDOING = ("restore", "rollback")


class State(str, Enum):
    """How far an instant has come, by the newest of its names."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"

    @property
    def rank(self) -> int:
        return list(State).index(self)


STEPS: dict[State | None, tuple[State | None, ...]] = {
    None: (State.REQUESTED,),
    State.REQUESTED: (State.INFLIGHT, None),
    State.INFLIGHT: (State.COMPLETED, State.REQUESTED, State.INFLIGHT, None),
    State.COMPLETED: (None,),
}
"""Where every action may go from a state; None: ``[]``."""


class Fault(str, Enum):
    """What is wrong with a step."""

    UNREQUESTED = "unrequested"  # it begins in the middle: nobody has requested it
    SKIPPED = "skipped"  # it is completed, and was never inflight
    REPEATED = "repeated"  # requested or completed once more, as it was already
    REOPENED = "reopened"  # it was completed, and goes on, without a rollback or restore under way
    CHANGED = "changed"  # it has become another action's
    BACKWARDS = "backwards"  # it was completed before it was requested, by its own times


class Seen(NamedTuple):
    """An instant in a state, as somebody has seen it; in the order in which it was seen."""

    time: str  # ``T``
    action: str  # as the name calls it; empty where it doesn't say
    state: State | None  # None: it is gone
    salt: str = ""  # whose it is, where each session keeps its own
    completion: str | None = None  # ``C``; None where it isn't known
    by: str = ""  # who has taken the step, for reports; it may be anybody
    name: str = ""  # for reports


class Finding(NamedTuple):
    """A step that is not valid."""

    fault: Fault  # what is wrong with it
    # before, after: as the instant was seen before the step, if ever, and after it.
    before: Seen | None
    after: Seen

    def __str__(self) -> str:
        was = "[]" if self.before is None or self.before.state is None else _shown(self.before)
        return f"{self.after.time}: {was} -> {_shown(self.after)}: {self.fault.value}"


def fault_of(before: Seen | None, after: Seen, *, undoing: bool = False) -> Fault | None:
    """Return what is wrong with a step; None: it is valid.

    ``before`` is the instant as it was last seen. ``undoing``: a rollback or a restore is under way in the
    table.
    """
    was = None if before is None else before.state
    if before is not None and was is not None and after.state is not None and not _goes_on(before, after):
        return Fault.CHANGED
    if after.state in STEPS[was]:
        return None
    if was is None:
        begins = after.action == SAVEPOINT and after.state is State.INFLIGHT
        return None if begins or after.state is None else Fault.UNREQUESTED
    if was is after.state:
        return Fault.REPEATED
    if was is State.COMPLETED:
        return None if undoing else Fault.REOPENED
    return Fault.SKIPPED


def check(sequence: Iterable[Seen]) -> list[Finding]:
    """Return which steps of a sequence are not valid. The sequence may mix the steps of many instants.

    A savepoint of ``T`` goes its own way beside the commit that it saves. Steps come in the order in which
    they were seen. Somebody who looks now and then has to say what came between: a name that is there shows
    that the states before it were.
    """
    findings = []
    last: dict[tuple[str, str, bool], Seen] = {}
    undoing: set[str] = set()
    for seen in sequence:
        instant = _kind(seen)
        before = last.get(instant)
        fault = fault_of(before, seen, undoing=bool(undoing))
        # The metadata table appends digits of its own to T.
        ended = seen.completion
        if fault is None and ended is not None and ended < seen.time[: len(ended)]:
            fault = Fault.BACKWARDS
        if fault is not None:
            findings.append(Finding(fault, before, seen))
        last[instant] = seen
        if seen.action in _UNDOING:
            is_open = seen.state in (State.REQUESTED, State.INFLIGHT)
            (undoing.add if is_open else undoing.discard)(seen.time)
    return findings


def finding_beside(there: Iterable[str], last: str) -> Finding | None:
    """Return why an instant may not get a name, beside the names that are there; None: it may.

    Its times are not compared: writers' clocks differ, and a table's own zone may put them back in autumn.
    Names are last components in the timeline's folder. Those of other instants only tell whether a rollback
    or a restore is under way; one that is no instant's may always be.
    """
    after = _seen(last)
    if after is None:
        return None
    beside = [seen for seen in map(_seen, there) if seen is not None]
    kind = _kind(after)
    mine = [seen for seen in beside if _kind(seen) == kind]
    before = max(mine, key=lambda seen: -1 if seen.state is None else seen.state.rank, default=None)
    ended = {seen.time for seen in beside if seen.state is State.COMPLETED and seen.action in _UNDOING}
    undoing = {seen.time for seen in beside if seen.action in _UNDOING} - ended
    fault = fault_of(before, after, undoing=bool(undoing))
    return None if fault is None else Finding(fault, before, after)


def is_moved(elsewhere: Iterable[str], last: str) -> bool:
    """Whether an instant's name goes from one layout of its table to another, which is no step of it.

    An upgrade and a downgrade move all names, the completed ones perhaps first. ``elsewhere`` are the last
    components of what is in the other layout's folder.
    """
    after = _seen(last)
    beside = [seen for seen in map(_seen, elsewhere) if seen is not None]
    return after is not None and any(
        _kind(seen) == _kind(after) and seen.state is after.state for seen in beside
    )


def _seen(last: str) -> Seen | None:
    """Return what a name in a timeline's folder shows; None: no instant."""
    step = instant_in(last)
    if step is None:
        return None
    return Seen(step.instant, step.action, State(step.state), step.salt or "", step.completion, name=last)


def _kind(seen: Seen) -> tuple[str, str, bool]:
    return seen.time, seen.salt, seen.action == SAVEPOINT


def _goes_on(before: Seen, after: Seen) -> bool:
    """Whether one action has both; what is completed has another name, and is called by that from then on."""
    if before.state is State.COMPLETED or after.state is State.COMPLETED:
        return completed_as(before.action) == completed_as(after.action)
    return (before.action or "commit") == (after.action or "commit")


def _shown(seen: Seen) -> str:
    return f"{seen.action or 'commit'}.{'gone' if seen.state is None else seen.state.value}"
