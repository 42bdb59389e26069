"""An abstract store in which answers are lost and requests land late, and which remembers everything."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

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
    Refused,
    Staged,
    TryAgain,
)
from putifabsent.errors import NameExpired, NameTaken, OutcomeUnknown
from putifabsent.shim.requests import (
    Complete,
    Create,
    Delete,
    Discard,
    Get,
    Head,
    List,
    Pause,
    Since,
    Stage,
    StageCopy,
    StoreTime,
)
from tests.shim.scripted import BUSY, LOST, NOON

if TYPE_CHECKING:
    from putifabsent.backends.base import Creation
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol, Request

NO_RIGHTS = PermissionError("403")
MISHAPS = (
    "lost",  # on its way
    "applied",  # and the answer is lost
    "late",  # and it may land at any time
    "busy",
    "refused",
    "conflict",  # called "exists" by some clients, whoever holds the name
    "interrupted",
    "interrupted after it was applied",
)
"""What can become of one request, beside being answered."""


class Thing(NamedTuple):
    """What was once under a name; what came in parts shows, as on S3, only when its upload was begun."""

    name: str
    token: str | None
    data: bytes
    created: datetime
    version: str
    begun: datetime | None = None

    @property
    def shown(self) -> datetime:
        return self.begun or self.created

    @property
    def holder(self) -> Holder:
        created = None if self.begun else self.created
        return Holder(self.token, None, created, len(self.data), self.version, self.begun)


class Upload(NamedTuple):
    data: bytes
    creation: Creation
    name: str
    begun: datetime


class Late(NamedTuple):
    """A request that is still under way."""

    token: str
    request: Request


@dataclass
class World:
    """Objects under names, open uploads, requests under way, and all that ever was.

    Attributes
    ----------
    resends
        Whether its clients send a request once more by themselves, where its answer was lost.
    tells
        Whether "exists" says who holds the name.
    """

    now: datetime = NOON
    objects: dict[str, Thing] = field(default_factory=dict)
    born: list[Thing] = field(default_factory=list)
    uploads: dict[int, Upload] = field(default_factory=dict)
    late: list[Late] = field(default_factory=list)
    opened: int = 0
    resends: bool = False
    tells: bool = False

    def place(self, name: str, data: bytes, token: str | None, begun: datetime | None = None) -> Thing:
        thing = Thing(name, token, data, self.now, f"v{len(self.born)}", begun)
        self.objects[name] = thing
        self.born.append(thing)
        return thing

    def was_born(self, name: str, token: str) -> bool:
        return any((thing.name, thing.token) == (name, token) for thing in self.born)

    def land(self, number: int) -> None:
        self.apply(self.late.pop(number).request)

    def apply(self, request: Request) -> Any:
        """Do what an honest store does, and return its answer."""
        outcome: Any = getattr(self, f"_{type(request).__name__.lower()}")(request)
        return outcome

    def _create(self, request: Create) -> Any:
        return self._decide(request.name, request.body.whole(), request.creation)

    def _complete(self, request: Complete) -> Any:
        number = request.staged.upload
        if number not in self.uploads:
            return Gone()
        upload = self.uploads[number]
        outcome = self._decide(upload.name, upload.data, upload.creation, upload.begun)
        if isinstance(outcome, Created):
            del self.uploads[number]
        return outcome

    def _decide(self, name: str, data: bytes, creation: Creation, begun: datetime | None = None) -> Any:
        if name in self.objects:
            return Exists(self.objects[name].holder if self.tells else None)
        return Created(self.place(name, data, creation.token, begun).version, self.now)

    def _stage(self, request: Stage) -> Any:
        return self._open(request.name, request.body.whole(), request.creation)

    def _stagecopy(self, request: StageCopy) -> Any:
        source = self.objects.get(request.source)
        if source is None or source.version != request.version:
            return Absent()
        return self._open(request.name, source.data, request.creation)

    def _open(self, name: str, data: bytes, creation: Creation) -> Staged:
        self.opened += 1
        self.uploads[self.opened] = Upload(data, creation, name, self.now)
        return Staged(name, self.opened)

    def _discard(self, request: Discard) -> None:
        self.uploads.pop(request.staged.upload, None)

    def _head(self, request: Head) -> Any:
        thing = self.objects.get(request.name)
        return Absent() if thing is None else Found(thing.holder)

    def _get(self, request: Get) -> Any:
        thing = self.objects.get(request.name)
        return Absent() if thing is None else Got(thing.data)

    def _list(self, request: List) -> Any:
        return Listed(
            tuple(
                Entry(name, thing.shown)
                for name, thing in self.objects.items()
                if name.rpartition("/")[0] == request.folder
            )
        )

    def _delete(self, request: Delete) -> Any:
        thing = self.objects.get(request.name)
        if thing is not None and request.version in (None, thing.version):
            del self.objects[request.name]
        return Deleted()

    def _storetime(self, _: StoreTime) -> datetime:
        return self.now

    def perform(self, request: Request, fate: str, token: str) -> Any:
        """Return what becomes of a request by its fate; an exception is thrown at its sender."""
        if isinstance(request, StoreTime) and "interrupted" not in fate:
            return self.apply(request) if fate == "answered" else None
        if isinstance(request, Pause):
            return KeyboardInterrupt() if "interrupted" in fate else fate != "refused"
        if isinstance(request, Discard):
            return self.apply(request)
        if "interrupted" in fate:
            # A store that is interrupted while it stages removes what it has staged.
            if "applied" in fate and not isinstance(request, (Stage, StageCopy)):
                self.apply(request)
            return KeyboardInterrupt()
        if fate == "refused":
            return Refused(NO_RIGHTS)
        if isinstance(request, (Create, Complete)):
            return {"conflict": Exists(), "busy": TryAgain(BUSY)}.get(fate) or self._change(
                request, fate, token
            )
        if isinstance(request, Delete):
            return self._change(request, fate, token)
        return self.apply(request) if fate in ("answered", "conflict") else TryAgain(BUSY)

    def _change(self, request: Request, fate: str, token: str) -> Any:
        if fate in ("answered", "applied"):
            outcome = self.apply(request)
            if fate == "applied" and self.resends:
                return self.apply(request)
            return outcome if fate == "answered" else Maybe(LOST)
        if fate == "late":
            self.late.append(Late(token, request))
        return Maybe(LOST)


@dataclass
class Writer:
    """One creation on its way through the world, and whether what it is told is true.

    Attributes
    ----------
    ended
        None, or how: ``won``, ``taken``, ``unknown``, ``refused``, ``interrupted``.
    """

    world: World
    name: Name
    token: str
    data: bytes
    protocol: Protocol[Any]
    source: str | None = None
    ended: str | None = None
    request: Any = None
    evidence: Holder | None = None
    born_and_absent: bool = False
    has_sent: bool = False
    sent: datetime | None = None
    expired: bool = False
    born_before: bool = False
    has_removed: bool = False
    doubtful: set[int] = field(default_factory=set)
    discarded: set[int] = field(default_factory=set)

    def begin(self) -> None:
        self.request = next(self.protocol)

    def step(self, fate: str) -> None:
        """Have the request under way meet its fate, and the protocol hear of it."""
        request = self.request
        self._check_before(request)
        if isinstance(request, (Create, Complete)) and self.sent is None:
            self.sent = self.world.now
        if isinstance(request, Since):
            assert self.sent is not None
            outcome: Any = (self.world.now - self.sent).total_seconds()
        else:
            outcome = self.world.perform(request, fate, self.token)
        self._note(request, outcome)
        try:
            if isinstance(outcome, BaseException):
                self.request = self.protocol.throw(outcome)
            else:
                self.request = self.protocol.send(outcome)
        except StopIteration:
            self.ended = "won"
            self._check_win()
        except NameTaken as error:
            self.ended = "taken"
            self.expired = isinstance(error, NameExpired)
            self._check_loss(error)
        except OutcomeUnknown as error:
            self.ended = "unknown"
            self._check_unknown(error)
        except KeyboardInterrupt as error:
            self.ended = "interrupted"
            if error.__cause__ is None:
                self._check_nothing_happened()
            else:
                self._check_unknown(error.__cause__)
        except OSError:
            self.ended = "refused"
            self._check_nothing_happened()

    def is_born(self) -> bool:
        return self.world.was_born(self.name.path, self.token)

    def _check_before(self, request: Any) -> None:
        if isinstance(request, (Create, Stage, StageCopy)):
            assert (request.name, request.creation.token) == (self.name.path, self.token)
            assert not self.born_and_absent, "a name that was created, and then deleted, is created again"
        if isinstance(request, (Create, Stage)):
            assert request.body.whole() == self.data
        if isinstance(request, Discard):
            self.discarded.add(request.staged.upload)
        if isinstance(request, Delete):
            if request.name == self.source:
                assert self.is_born(), "the source goes before the win"
            else:
                meant = [t for t in self.world.born if (t.name, t.version) == (request.name, request.version)]
                assert [thing.token for thing in meant] == [self.token], "somebody else's creation is removed"

    def _note(self, request: Any, outcome: Any) -> None:
        if isinstance(request, Head) and request.name == self.name.path:
            self.evidence = outcome.holder if isinstance(outcome, Found) else None
            self.born_and_absent = isinstance(outcome, Absent) and self.is_born()
        elif not isinstance(request, (Pause, Discard, StoreTime, Since)):
            self.born_and_absent = False
        if isinstance(request, Head) and request.name in self.name.aliases and not self.has_sent:
            self.evidence = outcome.holder if isinstance(outcome, Found) else None
        self.has_sent = self.has_sent or isinstance(request, (Create, Stage, StageCopy))
        if isinstance(request, Delete) and request.name == self.name.path:
            self.has_removed = True
        if isinstance(outcome, Exists):
            self.evidence = outcome.holder
        if isinstance(outcome, (Exists, Found)):
            self.born_before = self.is_born()
        if isinstance(request, Complete) and isinstance(outcome, (Maybe, KeyboardInterrupt)):
            self.doubtful.add(request.staged.upload)

    def _check_win(self) -> None:
        mine = [
            thing for thing in self.world.born if (thing.name, thing.token) == (self.name.path, self.token)
        ]
        assert mine, "a false win"
        assert all(thing.data == self.data for thing in mine)
        self._check_no_upload()

    def _check_loss(self, error: NameTaken) -> None:
        assert error.name == self.name.path
        assert self.withdrew or not self.expired, "an expired number is told to one who never created it"
        if not self.withdrew:
            assert self.evidence is not None, "a false loss: nobody was seen to hold the name"
            assert self.evidence.token != self.token, "a false loss: the name was mine"
            # What lands later, after the other was deleted, only the store could have kept out.
            assert not self.born_before, "a false loss: it had been created, and may have been read"
        self._check_no_upload()

    @property
    def withdrew(self) -> bool:
        """Whether it was told so after it had created the name, and removed it again."""
        can_withdraw = bool(self.name.aliases or self.name.series)
        return can_withdraw and self.has_removed and self.is_born()

    def _check_unknown(self, error: BaseException) -> None:
        assert isinstance(error, OutcomeUnknown)
        assert (error.name, error.token) == (self.name.path, self.token)
        assert not self.discarded & self.doubtful, "an upload that may be completed is discarded"

    def _check_nothing_happened(self) -> None:
        assert not self.is_born(), "a creation is called failed that has happened"
        under_way = [late for late in self.world.late if late.token == self.token]
        assert not under_way, "a creation is called failed that may still happen"
        self._check_no_upload()

    def _check_no_upload(self) -> None:
        mine = [upload for upload in self.world.uploads.values() if upload.creation.token == self.token]
        assert not mine, "an upload is left that nobody can be in doubt about"


def passed(world: World, minutes: int) -> None:
    world.now += timedelta(minutes=minutes)
