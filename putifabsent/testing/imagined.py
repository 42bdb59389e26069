"""An imagined store for the schedule explorer, and a judge of one name there.

In the store each request is one atomic step from one state to the next. The judge says whether one name is
linearizable: whether its operations could have happened one by one.

A creation takes effect only where the name is absent; a deletion frees it; a read returns who holds it. Each
takes effect at one instant between its beginning and its end. One whose outcome is unknown, or whose process
has stopped, takes effect at some instant after its beginning, or never. The responses are right if some order
of these instants explains all of them (Herlihy and Wing, "Linearizability", 1990). Two winners, a winner with
the response "taken", and a loser beaten by nobody have no such order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from putifabsent.backends import base
from putifabsent.backends.base import Found, Holder
from putifabsent.errors import NameTaken, OutcomeUnknown
from putifabsent.shim import requests
from putifabsent.shim.drive import walk
from putifabsent.shim.requests import Both, Pause

if TYPE_CHECKING:
    from putifabsent.testing.explore import ActorRun, World

_WRITES = (requests.Create, requests.Complete, requests.Delete, requests.Put, requests.Publish)
LOST = ConnectionError("the answer was lost")  # one for all: outcomes must compare equal where they are

# No name of anybody's begins like this.
_UPLOADS = "/uploads"
_THEN = datetime(2026, 1, 1, tzinfo=timezone.utc)


class Thing(NamedTuple):
    """An object."""

    token: str
    data: bytes


class Landing(NamedTuple):
    """The second half of a copy."""

    name: str
    thing: Thing


Things: TypeAlias = "frozenset[tuple[str, Thing]]"


class ImaginedStore:
    """A store without a clock, strongly consistent.

    Without ``conditions`` it says that it honours "only if the name is not there", and overwrites. If it
    ``republishes``, it publishes over another object; else it says that the name exists, as local disk does.
    Without ``versions`` it removes whatever is there. With ``slow_copies`` a late publication has read its
    source when it was sent: it lands though that is removed meanwhile.
    """

    def __init__(
        self,
        *,
        conditions: bool = True,
        republishes: bool = True,
        versions: bool = True,
        slow_copies: bool = False,
        things: Iterable[tuple[str, Thing]] = (),
    ) -> None:
        self.conditions = conditions
        self.republishes = republishes
        self.versions = versions
        self.slow_copies = slow_copies
        self.initial: Things = frozenset(things)

    def apply(self, state: Things, request: Any) -> tuple[Things, Any]:
        """Return the state after a request, and its outcome."""
        things = dict(state)
        # Each has its method below, which is called after its kind.
        outcome = getattr(self, f"_{requests.kind_of(type(request).__name__)}")(things, request)
        return frozenset(things.items()), outcome

    def unanswered(self, request: Any) -> Any:
        """Return what a lost answer means: reading twice is harmless, staging too, writing may not be."""
        if isinstance(request, (requests.Discard, requests.StoreTime)):
            return None  # they promise nothing
        return base.Maybe(LOST) if self.changes(request) else base.TryAgain(LOST)

    def changes(self, request: Any) -> bool:
        """Whether it writes."""
        return isinstance(request, _WRITES)

    def begun(self, state: Things, request: Any) -> Hashable | None:
        """Return what is left of a copy that has read its source."""
        if not (self.slow_copies and isinstance(request, requests.Publish)):
            return None
        source = dict(state).get(request.source)
        return None if source is None else Landing(request.name, source)

    def _landing(self, things: dict[str, Thing], request: Landing) -> Any:
        things[request.name] = request.thing
        return base.Written(request.thing.token)

    def _create(self, things: dict[str, Thing], request: requests.Create) -> Any:
        if self.conditions and request.name in things:
            return base.Exists()
        things[request.name] = Thing(request.creation.token, request.body.whole())
        return base.Created(request.creation.token)

    def _put(self, things: dict[str, Thing], request: requests.Put) -> Any:
        things[request.name] = Thing(request.creation.token, request.body.whole())
        return base.Written(request.creation.token)

    def _publish(self, things: dict[str, Thing], request: requests.Publish) -> Any:
        source = things.get(request.source)
        if source is None:
            return base.Absent()
        # On a disk, the same object is the same file: published before.
        if not self.republishes and things.get(request.name, source) != source:
            return base.Exists()
        things[request.name] = source
        return base.Written(source.token)

    def _stage(self, things: dict[str, Thing], request: requests.Stage) -> Any:
        token = request.creation.token
        uploads = (f"{_UPLOADS}/{token}.{number}" for number in count())
        upload = next(name for name in uploads if name not in things)
        things[upload] = Thing(token, request.body.whole())
        return base.Staged(request.name, upload)

    def _complete(self, things: dict[str, Thing], request: requests.Complete) -> Any:
        name, upload = request.staged.name, request.staged.upload
        if upload not in things:
            return base.Gone()
        if self.conditions and name in things:
            return base.Exists()
        things[name] = things.pop(upload)
        return base.Created(things[name].token)

    def _discard(self, things: dict[str, Thing], request: requests.Discard) -> Any:
        things.pop(request.staged.upload, None)

    def _head(self, things: dict[str, Thing], request: requests.Head) -> Any:
        thing = things.get(request.name)
        if thing is None:
            return base.Absent()
        return base.Found(base.Holder(thing.token, None, _THEN, len(thing.data), thing.token))

    def _get(self, things: dict[str, Thing], request: requests.Get) -> Any:
        thing = things.get(request.name)
        return base.Absent() if thing is None else base.Got(thing.data)

    def _list(self, things: dict[str, Thing], request: requests.List) -> Any:
        return self._listed(things, (name for name in things if name.rpartition("/")[0] == request.folder))

    def _walk(self, things: dict[str, Thing], request: requests.Walk) -> Any:
        return self._listed(things, (name for name in things if name.startswith(f"{request.folder}/")))

    def _listed(self, things: dict[str, Thing], names: Iterable[str]) -> base.Listed:
        return base.Listed(tuple(base.Entry(name, _THEN, things[name].token) for name in sorted(names)))

    def _store_time(self, _: dict[str, Thing], __: requests.StoreTime) -> None:
        """It has no clock."""

    def _delete(self, things: dict[str, Thing], request: requests.Delete) -> Any:
        thing = things.get(request.name)
        if thing is not None and (not self.versions or request.version in (None, thing.token)):
            del things[request.name]
        return base.Deleted()


# --- the judge

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
