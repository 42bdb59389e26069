"""An imagined store for the schedule explorer: each request is one atomic step from one state to the next."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from datetime import datetime, timezone
from itertools import count
from typing import Any, NamedTuple, TypeAlias

from putifabsent.backends import base
from putifabsent.shim import requests

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
