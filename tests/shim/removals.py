"""What goes round the shim, and who may do less than it: a removal of a table, a reader without rights."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.backends.base import Deleted, Listed, Refused
from putifabsent.errors import NameTaken, OutcomeUnknown
from putifabsent.shim.requests import Delete, List, Located, Publish, Put, WriteClaim
from putifabsent.testing.imagined import ImaginedStore

if TYPE_CHECKING:
    from putifabsent.shim.requests import Protocol
    from putifabsent.testing.explore import ActorRun

NO_RIGHTS = PermissionError("403")
"""One for all: outcomes must compare equal where they are."""


class RemoveAll(NamedTuple):
    """Remove all that is below a folder, at once."""

    folder: str


class RemovableStore(ImaginedStore):
    """An imagined store that can also remove a folder at once."""

    def apply(self, state: Any, request: Any) -> tuple[Any, Any]:
        if isinstance(request, RemoveAll):
            return frozenset(each for each in state if not each[0].startswith(request.folder)), Deleted()
        return super().apply(state, request)

    def changes(self, request: Any) -> bool:
        return isinstance(request, RemoveAll) or super().changes(request)


def removing_at_once(folder: str) -> Protocol[None]:
    while not isinstance((yield RemoveAll(folder)), Deleted):  # type: ignore[misc]
        pass


def removing(folder: str, plain: str, *, plain_first: bool = False) -> Protocol[None]:
    """Remove what lies there one by one, as any tool does that lists first."""
    listed: Any = None
    while not isinstance(listed, Listed):
        listed = yield List(folder)
    left = [entry.name for entry in listed.entries]
    left.insert(0 if plain_first else len(left), plain)
    while left:
        if isinstance((yield Delete(left[0])), Deleted):
            left.pop(0)


def without_rights(protocol: Protocol[Any]) -> Protocol[Any]:
    """Play a protocol of who may only read."""
    outcome: Any = None
    while True:
        try:
            request = protocol.send(outcome)
        except StopIteration as end:
            return end.value
        writes = isinstance(request, (Put, Publish, Delete, WriteClaim))
        outcome = Refused(NO_RIGHTS) if writes else (yield request)


def often(runs: tuple[ActorRun, ...]) -> tuple[ActorRun, ...]:
    """Return what was told, with each removal once more for each creator: it may hit them all.

    One that removes the plain name first may also miss a creator who is about to publish. A creator who does
    not know what became of it may have been seen, and have withdrawn. Who reads while half of all is removed
    sees what is left; and whose creation is refused may be told of another than the plain name shows then.
    """
    creators = sum(each.actor.role == "create" for each in runs)
    if any(each.actor.name[0] == "v" for each in runs):
        runs = tuple(each._replace(ended=_unnamed(each.ended)) for each in runs)
    found = [each._replace(ended=None) if _overlaps(runs, i) else each for i, each in enumerate(runs)]
    found += [_withdrawal(each) for each in runs if each.actor.role == "create" and _is_unknown(each)]
    for i, each in enumerate(runs):
        if each.actor.name[0] not in "wva":
            continue
        if each.actor.name[0] == "v":
            found[i] = each = each._replace(ended=None)  # noqa: PLW2901 - it may have had no effect
        for _ in range(creators):
            bit = 1 << len(found)
            found = [
                other._replace(after=other.after | bit) if other.after and other.after >> i & 1 else other
                for other in found
            ]
            found.append(each)
    return tuple(found)


def _overlaps(runs: tuple[ActorRun, ...], read: int) -> bool:
    """Whether a read went on while something was removed one by one."""
    after = runs[read].after
    if runs[read].actor.role != "read" or after is None:
        return False
    removals = (each for each in enumerate(runs) if each[1].actor.name[0] in "wv")
    return any(
        not after >> i & 1 and not (removal.after or 0) >> read & 1
        for i, removal in removals
        if removal.after is not None
    )


def _unnamed(ended: tuple[str, Any] | None) -> tuple[str, Any] | None:
    if ended is not None and isinstance(ended[1], NameTaken):
        return ended[0], NameTaken(ended[1].name)
    return ended


def _is_unknown(run: ActorRun) -> bool:
    return run.ended is not None and run.ended[0] == "raised" and isinstance(run.ended[1], OutcomeUnknown)


def _withdrawal(run: ActorRun) -> ActorRun:
    return run._replace(actor=replace(run.actor, role="delete"), ended=None)


def unread(_: Any, __: Any, runs: tuple[ActorRun, ...]) -> str | None:
    """Whoever may only read finds what was acknowledged before it began, where nobody deletes."""
    if any(each.actor.role == "delete" for each in runs):
        return None
    for each in runs:
        if each.actor.name[0] not in "oq" or each.ended is None or each.after is None:
            continue
        how, value = each.ended
        before = [other for i, other in enumerate(runs) if each.after >> i & 1]
        won = [other for other in before if other.actor.role == "create" and _returned(other)]
        if won and not (how == "returned" and isinstance(value, Located)):
            return f"{won[0].actor.token} was acknowledged, and {each.actor.name} {how} {value!r}"
    return None


def _returned(run: ActorRun) -> bool:
    return run.ended is not None and run.ended[0] == "returned"
