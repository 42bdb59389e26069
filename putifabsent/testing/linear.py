"""Is what the processes were told possible at all? One name, as if its operations had happened one by one.

A creation takes effect only where the name is not there; a deletion frees it; a read says who holds it. Each
takes effect at one instant between its beginning and its end. One whose outcome is unknown, or whose process
has stopped, takes effect at some instant after its beginning, or never. What was told is right if there is an
order of these instants that explains all of it (Herlihy and Wing, "Linearizability", 1990). Two winners, a
winner who is told that it lost, and a loser beaten by nobody have no such order.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.backends.base import Found, Holder
from putifabsent.errors import NameTaken, OutcomeUnknown
from putifabsent.shim.requests import Pause

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from putifabsent.testing.graph import Told, World

__all__ = ["LinearName", "Operation", "is_linear"]


# So often a reader whom nobody disturbs may back off.
_PATIENCE = 5
_ROLES = ("create", "delete", "read")


class Operation(NamedTuple):
    """What one process did, and was told.

    Attributes
    ----------
    role
        ``"create"``, ``"delete"`` or ``"read"``.
    token
        Of the creation.
    told
        ``"done"``, ``"taken"``, ``"absent"``, ``"found"``; None: unknown, or still under way.
    seen
        The token that it was shown.
    after
        A bit for each operation that had ended when it began.
    """

    role: str
    token: str
    told: str | None
    seen: str | None
    after: int


@cache
def is_linear(operations: tuple[Operation, ...], final: str | None, *, revives: bool = False) -> bool:
    """Whether an order explains what was told, and leaves the name with ``final`` (None: absent).

    With ``revives`` a creation may take effect again, where the name is free: its protocol sends a create
    twice when the answer is lost, and nothing but the store's own expiry of requests keeps the first one from
    landing after a deletion.
    """
    seen: set[tuple[int, str | None]] = set()

    def explains(happened: int, held: str | None) -> bool:
        if (happened, held) in seen:
            return False
        seen.add((happened, held))
        if held == final and all(
            happened >> i & 1 or operation.told is None for i, operation in enumerate(operations)
        ):
            return True
        for i, operation in enumerate(operations):
            if happened >> i & 1 or not _may_be_next(operations, happened, i):
                continue
            possible, after = _effect(operation, held)
            if possible and explains(happened | 1 << i, after):
                return True
        if revives and held is None:
            return any(
                operation.role == "create"
                and _may_be_next(operations, happened, i)
                and explains(happened, operation.token)
                for i, operation in enumerate(operations)
            )
        return False

    return explains(0, None)


def _may_be_next(operations: tuple[Operation, ...], happened: int, i: int) -> bool:
    # Whatever had ended before it began has happened, unless it never did: nobody was told that it had.
    return all(
        happened >> j & 1 or operations[j].told is None
        for j in range(len(operations))
        if operations[i].after >> j & 1
    )


def _effect(operation: Operation, held: str | None) -> tuple[bool, str | None]:
    """Return whether this may happen now with what was told, and who holds the name then."""
    if operation.role == "create":
        if operation.told == "taken":
            other = held is not None and held != operation.token
            return other and operation.seen in (None, held), held
        return held is None, operation.token
    if operation.role == "delete":
        return True, None
    if operation.told == "found":
        return held == operation.seen, held
    return operation.told is None or held is None, held


class LinearName:
    """Judges one name.

    Parameters
    ----------
    reader
        Makes the protocol that says who holds the name at last, as every later reader would.
    plain
        The plain name: after that reader it must hold what it said.
    bodies
        The bytes of each creation, by token.
    revives
        As for :func:`is_linear`.
    """

    def __init__(
        self,
        reader: Callable[[], Generator[Any, Any, Any]],
        plain: str,
        bodies: Mapping[str, bytes],
        *,
        revives: bool = False,
    ) -> None:
        self._revives = revives
        self._reader = reader
        self._plain = plain
        self._bodies = bodies
        self._final: dict[Any, tuple[str | None, str | None, str | None]] = {}

    def judge(self, world: World, state: Any, told: tuple[Told, ...]) -> str | None:
        """Return which promise is broken, or None."""
        if state not in self._final:
            self._final[state] = self._read(world, state)
        final, shown, broken = self._final[state]
        if broken is not None:
            return broken
        if final is None and shown is not None and all(map(_is_clear, told)):
            return f"nobody holds the name, all deletions have ended, and the plain name shows {shown}"
        for each in told:
            if each.ended is not None and _is_wrong(each.ended):
                return f"{each.actor.name} ended with {each.ended[1]!r}"
        operations = _operations(told)
        if not is_linear(operations, final, revives=self._revives):
            lines = "\n".join(f"  {operation}" for operation in operations)
            return f"no order of these explains that {final} holds the name at last:\n{lines}"
        return None

    def _read(self, world: World, state: Any) -> tuple[str | None, str | None, str | None]:
        """Return who holds the name, whose the plain name is, and what is wrong with that."""
        protocol = self._reader()
        pauses = 0
        try:
            request = next(protocol)
            while True:
                if isinstance(request, Pause):
                    pauses += 1
                    outcome: Any = pauses < _PATIENCE
                else:
                    state, outcome = world.apply(state, request)
                request = protocol.send(outcome)
        except StopIteration as end:
            holder = _holder_in(end.value)
        except Exception as error:  # noqa: BLE001 - a reader that can't read is a finding
            return None, None, f"a reader without any trouble fails: {error!r}"
        there = dict(state).get(self._plain)
        shown = None if there is None else there.token
        if holder is None:
            return None, shown, None
        if there is None or shown != holder.token:
            return None, shown, f"{holder.token} holds the name, and the plain name shows {there}"
        if there.data != self._bodies.get(there.token, there.data):
            wrong = f"the plain name shows other bytes than {shown} created: {there.data!r}"
            return None, shown, wrong
        return holder.token, shown, None


def _is_clear(told: Told) -> bool:
    """Whether a process deletes nothing, or has ended without trouble."""
    return told.actor.role != "delete" or (told.ended is not None and told.ended[0] != "raised")


def _operations(told: tuple[Told, ...]) -> tuple[Operation, ...]:
    """Return what was begun on the name, where ``after`` speaks of these operations alone."""
    begun = [i for i, each in enumerate(told) if each.after is not None and each.actor.role in _ROLES]
    operations: list[Operation] = []
    for i in begun:
        actor, before, ended = told[i]
        after = sum(1 << new for new, old in enumerate(begun) if (before or 0) >> old & 1)
        operations.append(Operation(actor.role, actor.token, *_told(ended), after))
    return tuple(operations)


def _told(ended: tuple[str, Any] | None) -> tuple[str | None, str | None]:
    if ended is None:
        return None, None
    how, value = ended
    if how == "raised":
        if isinstance(value, NameTaken):
            return "taken", value.holder.token if value.holder else None
        return None, None
    if isinstance(value, (Found, Holder)):
        holder = _holder_in(value)
        return "found", holder.token if holder else None
    return "done", None


def _is_wrong(ended: tuple[str, Any]) -> bool:
    return ended[0] == "raised" and not isinstance(ended[1], (NameTaken, OutcomeUnknown))


def _holder_in(value: Any) -> Holder | None:
    if isinstance(value, Found):
        return value.holder
    return value if isinstance(value, Holder) else None
