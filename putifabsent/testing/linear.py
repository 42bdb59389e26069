"""Checks that one name is linearizable: its operations could have happened one by one.

A creation takes effect only where the name is absent; a deletion frees it; a read returns who holds it. Each
takes effect at one instant between its beginning and its end. One whose outcome is unknown, or whose process
has stopped, takes effect at some instant after its beginning, or never. The responses are right if some order
of these instants explains all of them (Herlihy and Wing, "Linearizability", 1990). Two winners, a winner with
the response "taken", and a loser beaten by nobody have no such order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.backends.base import Found, Holder
from putifabsent.errors import NameTaken, OutcomeUnknown
from putifabsent.shim.drive import walk
from putifabsent.shim.requests import Both, Pause

if TYPE_CHECKING:
    from putifabsent.testing.explore import ActorRun, World

# So often a reader whom nobody disturbs may back off.
_PATIENCE = 5
_ROLES = ("create", "delete", "read")


class Operation(NamedTuple):
    """What one process did, and the response that it got."""

    role: str  # ``"create"``, ``"delete"`` or ``"read"``
    token: str
    response: str | None
    """``"done"``, ``"taken"``, ``"absent"``, ``"found"``; None: unknown, or still under way."""
    seen: str | None  # the token that it was shown
    after: int  # a bit for each operation that had ended when it began


@lru_cache(maxsize=1 << 16)
def is_linear(
    operations: tuple[Operation, ...], final: str | None, *, first: str | None = None, revives: bool = False
) -> bool:
    """Whether an order explains all responses, and leaves the name with ``final`` (None: absent).

    ``first`` is who held it before.

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
            happened >> i & 1 or operation.response is None for i, operation in enumerate(operations)
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

    return explains(0, first)


def _may_be_next(operations: tuple[Operation, ...], happened: int, i: int) -> bool:
    # Whatever had ended before it began has happened, unless it got no response: then it may never happen.
    return all(
        happened >> j & 1 or operations[j].response is None
        for j in range(len(operations))
        if operations[i].after >> j & 1
    )


def _effect(operation: Operation, held: str | None) -> tuple[bool, str | None]:
    """Return whether this may happen now with its response, and who holds the name then."""
    if operation.role == "create":
        if operation.response == "taken":
            other = held is not None and held != operation.token
            return other and operation.seen in (None, held), held
        return held is None, operation.token
    if operation.role == "delete":
        return True, None
    if operation.response == "found":
        return held == operation.seen, held
    return operation.response is None or held is None, held


@dataclass(eq=False)
class LinearName:
    """Judges one name."""

    reader: Callable[[], Generator[Any, Any, Any]]
    """Makes the protocol that says who holds the name at last, as every later reader would."""
    plain: str  # the plain name. Where the reader says of no other object, its bytes lie there.
    bodies: Mapping[str, bytes]  # the bytes of each creation, by token
    _: KW_ONLY
    first: str | None = None  # who holds the name before
    revives: bool = False  # as for :func:`is_linear`
    shown: bool = True
    """Whether the plain name shows who holds it as soon as every process has ended without trouble."""
    repairs: bool = False  # whether that reader has the plain name show who holds it, whatever had gone wrong
    hidden: bool = True  # whether it shows nothing where nobody does, as soon as the deletions have
    creation_of: Callable[[str], str] = str
    """Returns the creation's token of an object's, where that says more."""
    marks: bool = False  # whether what a process was shown may be such an object's
    _final: dict[Any, _Final] = field(default_factory=dict, init=False, repr=False)

    def judge(self, world: World, state: Any, runs: tuple[ActorRun, ...]) -> str | None:
        """Return which promise is broken, or None."""
        if state not in self._final:
            self._final[state] = self._read(world, state)
        final = self._final[state]
        if final.broken is not None:
            return final.broken
        for each in runs:
            error = _error(each.ended)
            if error is not None and not isinstance(error, OSError):
                return f"{each.actor.name} ended with {error!r}"
        operations = _operations(runs)
        if self.marks:
            operations = tuple(
                each._replace(seen=each.seen and self.creation_of(each.seen)) for each in operations
            )
        if not is_linear(operations, final.holder, first=self.first, revives=self.revives):
            lines = "\n".join(f"  {operation}" for operation in operations)
            return f"no order of these explains that {final.holder} holds the name at last:\n{lines}"
        if final.shown != final.holder and self._must_show(final, runs):
            return f"{final.holder} holds the name, and the plain name shows {final.shown}"
        return None

    def _must_show(self, final: _Final, runs: tuple[ActorRun, ...]) -> bool:
        if final.holder is not None and self.repairs:
            return True
        ended = [each for each in runs if final.holder is not None or each.actor.role == "delete"]
        clear = all(each.ended and isinstance(_error(each.ended), (NameTaken, type(None))) for each in ended)
        return clear and (self.hidden if final.holder is None else self.shown)

    def _read(self, world: World, state: Any) -> _Final:
        pauses = 0

        def perform(request: Any) -> Any:
            nonlocal state, pauses
            if isinstance(request, Pause):
                pauses += 1
                return pauses < _PATIENCE
            if isinstance(request, Both):
                return perform(request.first), perform(request.second)
            state, outcome = world.apply(state, request)
            return outcome

        try:
            result = walk(self.reader(), perform)
        except Exception as error:  # noqa: BLE001 - a reader that can't read is a finding
            return _Final(None, None, f"a reader without any trouble fails: {error!r}")
        things = dict(state)
        plain = things.get(self.plain)
        shown = None if plain is None else self.creation_of(plain.token)
        holder = _token_in(result)
        if holder is None:
            return _Final(None, shown, None)
        holder = self.creation_of(holder)
        there = things.get(getattr(result, "path", self.plain))
        if there is None or there.data != self.bodies.get(holder, there.data):
            return _Final(holder, shown, f"{holder} holds the name, and its bytes are {there}")
        return _Final(holder, shown, None)


class _Final(NamedTuple):
    """Who holds the name at last, whose the plain name is, and what is wrong with that."""

    holder: str | None
    shown: str | None
    broken: str | None


def _operations(runs: tuple[ActorRun, ...]) -> tuple[Operation, ...]:
    """Return the operations that were begun on the name; ``after`` counts these alone.

    An operation that has failed never takes effect.
    """
    begun = [
        i
        for i, each in enumerate(runs)
        if each.after is not None
        and each.actor.role in _ROLES
        and isinstance(_error(each.ended), (NameTaken, OutcomeUnknown, type(None)))
    ]
    operations: list[Operation] = []
    for i in begun:
        actor, before, ended = runs[i]
        after = sum(1 << new for new, old in enumerate(begun) if (before or 0) >> old & 1)
        operations.append(Operation(actor.role, actor.token, *_response_of(ended), after))
    return tuple(operations)


def _response_of(ended: tuple[str, Any] | None) -> tuple[str | None, str | None]:
    if isinstance(taken := _error(ended), NameTaken):
        return "taken", taken.holder.token if taken.holder else None
    if ended is None or taken is not None:
        return None, None
    return ("found", _token_in(ended[1])) if isinstance(ended[1], (Found, Holder)) else ("done", None)


def _error(ended: tuple[str, Any] | None) -> Any:
    return ended[1] if ended and ended[0] == "raised" else None


def _token_in(value: Any) -> str | None:
    holder = value.holder if isinstance(value, Found) else value
    return holder.token if isinstance(holder, Holder) else None
