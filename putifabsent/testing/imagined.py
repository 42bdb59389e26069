"""An imagined store for the schedule explorer: each request is one atomic step from one state to the next."""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from putifabsent.backends.base import (
    Absent,
    Created,
    Deleted,
    Entry,
    Exists,
    Found,
    Gone,
    Got,
    Holder,
    Listed,
    Maybe,
    Staged,
    TryAgain,
    Written,
)
from putifabsent.shim.requests import (
    Complete,
    Create,
    Delete,
    Discard,
    Get,
    Head,
    List,
    Publish,
    Put,
    Stage,
    StoreTime,
    Walk,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

__all__ = ["ImaginedStore", "Thing", "Things"]

LOST = ConnectionError("the answer was lost")
"""One for all: outcomes must compare equal where they are."""

# No name of anybody's begins like this.
_UPLOADS = "/uploads"
_THEN = datetime(2026, 1, 1, tzinfo=timezone.utc)


class Thing(NamedTuple):
    """An object."""

    token: str
    data: bytes


class _Landing(NamedTuple):
    """The second half of a copy."""

    name: str
    thing: Thing


Things: TypeAlias = "frozenset[tuple[str, Thing]]"


class ImaginedStore:
    """A store without a clock, strongly consistent.

    Parameters
    ----------
    conditions
        Whether it honours "only if the name is not there"; else it says that it does, and overwrites.
    republishes
        Whether it publishes over another object; else it says that the name exists, as local disk does.
    versions
        Whether it deletes by version; else it removes whatever is there.
    slow_copies
        Whether a publication that is late has read its source when it was sent: it lands though the source
        is removed meanwhile.
    things
        What is there at first.
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
        outcome = self._does[type(request)](self, things, request)
        return frozenset(things.items()), outcome

    def unanswered(self, request: Any) -> Any:
        """Return what a lost answer means: reading twice is harmless, staging too, writing may not be."""
        if isinstance(request, (Discard, StoreTime)):
            return None  # they promise nothing
        return Maybe(LOST) if self.changes(request) else TryAgain(LOST)

    def changes(self, request: Any) -> bool:
        """Whether it writes."""
        return isinstance(request, (Create, Complete, Delete, Put, Publish))

    def begun(self, state: Things, request: Any) -> Hashable | None:
        """Return what is left of a copy that has read its source."""
        if not (self.slow_copies and isinstance(request, Publish)):
            return None
        source = dict(state).get(request.source)
        return None if source is None else _Landing(request.name, source)

    def _land(self, things: dict[str, Thing], request: _Landing) -> Any:
        things[request.name] = request.thing
        return Written(request.thing.token)

    def _create(self, things: dict[str, Thing], request: Create) -> Any:
        if self.conditions and request.name in things:
            return Exists()
        things[request.name] = Thing(request.creation.token, request.body.whole())
        return Created(request.creation.token)

    def _put(self, things: dict[str, Thing], request: Put) -> Any:
        things[request.name] = Thing(request.creation.token, request.body.whole())
        return Written(request.creation.token)

    def _publish(self, things: dict[str, Thing], request: Publish) -> Any:
        source = things.get(request.source)
        if source is None:
            return Absent()
        # On a disk, the same object is the same file: published before.
        if not self.republishes and things.get(request.name, source) != source:
            return Exists()
        things[request.name] = source
        return Written(source.token)

    def _stage(self, things: dict[str, Thing], request: Stage) -> Any:
        token = request.creation.token
        uploads = (f"{_UPLOADS}/{token}.{number}" for number in count())
        upload = next(name for name in uploads if name not in things)
        things[upload] = Thing(token, request.body.whole())
        return Staged(request.name, upload)

    def _complete(self, things: dict[str, Thing], request: Complete) -> Any:
        name, upload = request.staged.name, request.staged.upload
        if upload not in things:
            return Gone()
        if self.conditions and name in things:
            return Exists()
        things[name] = things.pop(upload)
        return Created(things[name].token)

    def _discard(self, things: dict[str, Thing], request: Discard) -> Any:
        things.pop(request.staged.upload, None)

    def _head(self, things: dict[str, Thing], request: Head) -> Any:
        thing = things.get(request.name)
        return Absent() if thing is None else Found(_holder(thing))

    def _get(self, things: dict[str, Thing], request: Get) -> Any:
        thing = things.get(request.name)
        return Absent() if thing is None else Got(thing.data)

    def _list(self, things: dict[str, Thing], request: List) -> Any:
        inside = f"{request.folder}/"
        names = sorted(name for name in things if name.rpartition("/")[0] + "/" == inside)
        return Listed(tuple(Entry(name, _THEN, things[name].token) for name in names))

    def _walk(self, things: dict[str, Thing], request: Walk) -> Any:
        names = sorted(name for name in things if name.startswith(f"{request.folder}/"))
        return Listed(tuple(Entry(name, _THEN, things[name].token) for name in names))

    def _time(self, _: dict[str, Thing], __: StoreTime) -> None:
        """It has no clock."""

    def _delete(self, things: dict[str, Thing], request: Delete) -> Any:
        thing = things.get(request.name)
        if thing is not None and (not self.versions or request.version in (None, thing.token)):
            del things[request.name]
        return Deleted()

    _does: ClassVar[dict[type, Callable[[Any, dict[str, Thing], Any], Any]]] = {
        Create: _create,
        Put: _put,
        Publish: _publish,
        _Landing: _land,
        Stage: _stage,
        Complete: _complete,
        Discard: _discard,
        Head: _head,
        Get: _get,
        List: _list,
        Walk: _walk,
        Delete: _delete,
        StoreTime: _time,
    }


def _holder(thing: Thing) -> Holder:
    return Holder(thing.token, None, _THEN, len(thing.data), thing.token)
