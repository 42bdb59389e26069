"""The active instants of a Hudi table, from the names in its timeline's folder: a function of these alone."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.shim.formats.hudi import completed_as, instant_in
from putifabsent.timeline.records import Instant, State, StateFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from putifabsent.timeline.files import Listed

__all__ = ["instants"]


class _Key(NamedTuple):
    """What has files in common: a savepoint of T is another instant than the commit that it saves."""

    time: str
    salt: str
    action: str


class _File(NamedTuple):
    """A file of an instant, with what only a completed one says."""

    state: StateFile
    completion: str | None


def instants(found: Iterable[Listed]) -> Iterator[Instant]:
    """Return the instants that files are of, each in its newest state, in no order.

    Files of other names are none's. A time under which two instants were completed gives two; each has the
    files of the states before.
    """
    files: dict[_Key, list[_File]] = defaultdict(list)
    for each in found:
        step = instant_in(each.last)
        if step is not None:
            key = _Key(step.instant, step.salt or each.salt, completed_as(step.action))
            state = StateFile(State(step.state), step.action or "commit", each.path, each.size)
            files[key].append(_File(state, step.completion))
    for key, there in files.items():
        there.sort(key=lambda file: (file.state.state.rank, file.state.path))
        pending = [file for file in there if file.state.state is not State.COMPLETED]
        completed = there[len(pending) :]
        newest = completed or pending[-1:]
        before = pending if completed else pending[:-1]
        for file in newest:
            states = tuple(each.state for each in (*before, file))
            began = states[0].action if len(states) > 1 or not completed else ""
            yield Instant(
                key.time, file.state.action, file.state.state, file.completion, key.salt, began, files=states
            )
