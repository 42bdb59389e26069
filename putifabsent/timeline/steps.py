"""Whether the instants of a Hudi timeline have come to their states by valid steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from putifabsent.shim.formats.hudi_steps import Fault, Finding, Seen, State, check

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from putifabsent.timeline.records import Instant

__all__ = ["Fault", "Finding", "check_steps", "seen_in"]


def check_steps(instants: Iterable[Instant]) -> list[Finding]:
    """Return what is wrong with the steps of instants, by what is left of them.

    A listing shows that a state was reached, not how often. What is completed may have lost its earlier
    states, to an archiver that is at work or has died; so only what is pending is asked for them.

    Parameters
    ----------
    instants
        Of one table, in any order.
    """
    sequence: list[Seen] = []
    completed = set()
    for each in sorted(instants, key=lambda each: each.key("requested")):
        steps = list(seen_in(each))
        if each.state is State.COMPLETED:
            once = each.identity[:-1]
            # The same T was completed once more: it has not gone all the way again.
            sequence += steps[-1:] if once in completed else steps
            completed.add(once)
        else:
            sequence += steps
    return check(sequence)


def seen_in(instant: Instant) -> Iterator[Seen]:
    """Return the states that an instant must have gone through, in their order."""
    files = {file.state: file for file in instant.files}
    completion = None if instant.stamped else instant.completion
    if instant.state is not State.COMPLETED:
        for state in State:
            if state in files:
                file = files[state]
                yield Seen(instant.time, file.action, state, instant.salt, name=file.path)
        return
    for state in (State.REQUESTED, State.INFLIGHT):
        if state is State.REQUESTED and instant.action == "savepoint":
            continue
        action = files[state].action if state in files else instant.began or instant.action
        name = files[state].path if state in files else ""
        yield Seen(instant.time, action, state, instant.salt, name=name)
    name = instant.files[-1].path if instant.files else instant.source
    yield Seen(instant.time, instant.action, State.COMPLETED, instant.salt, completion, name=name)
