"""What is wrong with a Hudi table's instants, by their names and times, and by what took them back."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from putifabsent.inspection.findings import Finding, Kind, found
from putifabsent.timeline import Fault, State, check_steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from putifabsent.inspection.hudi_told import Told
    from putifabsent.timeline import Instant

__all__ = ["undone_by_whom", "wrong_instants"]

_UNDOING = ("rollback", "restore")
_SAVEPOINT = "savepoint"


def wrong_instants(told: Sequence[Told], *, is_metadata_table: bool) -> Iterator[Finding]:
    """Return what is wrong with instants.

    Parameters
    ----------
    told
        What all instants say, by when they were requested.
    is_metadata_table
        Whether they are those of a metadata table, which takes instants back and writes them again.
    """
    instants = [each.instant for each in told]
    collided = _collided(instants)
    yield from map(_collision, collided.values())
    yield from _steps(instants, {time for time, _ in collided})
    if not is_metadata_table:
        yield from _undone(told)
    yield from _pending(instants)


def undone_by_whom(told: Sequence[Told]) -> dict[str, Instant]:
    """Return the instants that completed rollbacks and restores say that they took back, and which did so."""
    return {
        time: each.instant for each in told if each.instant.state is State.COMPLETED for time in each.undone
    }


def path_of(instant: Instant) -> str:
    """Return the file that shows an instant in its state."""
    return instant.source or instant.files[-1].path


def _collided(instants: Sequence[Instant]) -> dict[tuple[str, str], list[Instant]]:
    """Return instants that were completed under one T; a savepoint of T is another's."""
    completed: dict[tuple[str, str], list[Instant]] = defaultdict(list)
    for each in instants:
        if each.state is State.COMPLETED and each.action != _SAVEPOINT:
            completed[each.time, each.salt].append(each)
    return {key: found for key, found in completed.items() if len(found) > 1}


def _collision(instants: list[Instant]) -> Finding:
    time = instants[0].time
    said = " and ".join(
        f"as {each.action}" + (f" at {each.completion}" if each.completion else "") for each in instants
    )
    detail = f"instant {time} was completed {said}"
    return found(Kind.COLLIDING_INSTANTS, [path_of(each) for each in instants], detail, moments=(time,))


def _steps(instants: Sequence[Instant], collided: set[str]) -> Iterator[Finding]:
    for each in check_steps(instants):
        time, after = each.after.time, each.after
        moments = (time,)
        if each.fault is Fault.BACKWARDS:
            detail = f"instant {time} was completed at {after.completion}, before it was requested"
            yield found(Kind.BACKWARDS, (after.name,), detail, moments=moments)
        elif time in collided:
            continue
        elif each.fault is Fault.CHANGED and each.before is not None:
            before = each.before
            names = [name for name in (before.name, after.name) if name]
            detail = (
                f"instant {time} is {before.action or 'commit'}'s and {after.action or 'commit'}'s at once"
            )
            yield found(Kind.CONTESTED_INSTANT, names, detail, moments=moments)
        else:
            yield found(Kind.INVALID_STEP, (after.name,), f"instant {each}", moments=moments)


def _undone(told: Sequence[Told]) -> Iterator[Finding]:
    undone = undone_by_whom(told)
    for each in told:
        by = undone.get(each.instant.time)
        if by is None or not each.has_written or each.is_service:
            continue
        time = each.instant.time
        detail = f"instant {time} is completed, and {by.action} {by.time} has taken it back"
        names = (path_of(each.instant), path_of(by))
        yield found(Kind.UNDONE_INSTANT, names, detail, moments=(time, by.time))


def _pending(instants: Sequence[Instant]) -> Iterator[Finding]:
    for each in instants:
        if each.state is not State.COMPLETED and each.action in _UNDOING:
            detail = f"{each.action} {each.time} is {each.state.value}, and not completed"
            yield found(Kind.PENDING_UNDO, (path_of(each),), detail, moments=(each.time,))
