"""The native protocol: the store decides who creates a name, and no lost answer is guessed at.

Put; on "exists", look whose it is; on no answer, put the same bytes with the same token again. All that a
paused, killed or misinformed writer can still do is to offer the same bytes once more.
"""

from __future__ import annotations

import contextlib
import errno
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

from putifabsent.backends.base import (
    Absent,
    Body,
    Created,
    Exists,
    Found,
    Gone,
    Got,
    InMemory,
    Maybe,
    Refused,
    Staged,
    TryAgain,
)
from putifabsent.errors import NameTaken, OutcomeUnknown, PutIfAbsentError, unknown_from
from putifabsent.shim.expiry import Made, check_win
from putifabsent.shim.requests import (
    Complete,
    Create,
    Delete,
    Discard,
    Get,
    Head,
    Pause,
    Since,
    Stage,
    StageCopy,
    StoreTime,
    look,
    read,
    unanswered,
)
from putifabsent.shim.state_keys import creation_of
from putifabsent.shim.whole import check_whole

if TYPE_CHECKING:
    from collections.abc import Generator

    from putifabsent.backends.base import CompleteOutcome, Creation, Holder
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol, Request

T = TypeVar("T")
_Source: TypeAlias = Create | Stage | StageCopy

_MARGIN = timedelta(seconds=2)
"""Of the store's time as its answers say it, in whole seconds, and as its objects do."""


def create(name: Name, body: Body, creation: Creation, *, largest_put: int) -> Protocol[Created]:
    """Bring ``name`` into being with these bytes, at most once; they must stay readable until it ends.

    The creation's token decides "was it me?", now and in :func:`resolve`. Bodies above ``largest_put`` bytes
    are staged first and published by a conditional completion.

    ``NameTaken``: another creation provably holds the name; ``NameExpired``: its number was used before, and
    has expired. ``OutcomeUnknown``: an answer was lost, and none that proves anything came until the
    deadline. ``OSError``: the store refused, or took nothing until the deadline; nothing was written.
    """
    send = Stage if body.size > largest_put else Create
    return _create(name, send(name.path, body, creation), creation)


def copy(
    source: str,
    name: Name,
    creation: Creation,
    *,
    largest_put: int,
    seen: Found | Absent | None = None,
    keep: bool = True,
) -> Protocol[None]:
    """Create ``name`` from the bytes of ``source``, which nobody changes meanwhile; else as :func:`create`.

    Without ``keep``, ``source`` goes after a proven win.

    The source's user metadata and type go with its bytes, but for what ``creation`` adds.

    ``Damaging``: its bytes are not whole. ``seen`` is what a look at the source has shown; None: it is looked
    at first. A source of more than ``largest_put`` bytes is not judged here: it is copied by the store.
    ``FileNotFoundError``: ``source`` is not there.
    """
    if seen is None:
        seen = yield from read(Head(source))
    if not isinstance(seen, Found):
        raise no_source(source)
    size, version = seen.holder.size, seen.holder.version
    creation = creation._replace(extra={**seen.properties, **creation.extra})
    if size > largest_put:
        send: _Source = StageCopy(source, size, version, name.path, creation)
    else:
        got: Got | Absent = yield from read(Get(source))
        if isinstance(got, Absent):
            raise FileNotFoundError(errno.ENOENT, "the source was removed while it was being read", source)
        if len(got.data) != size:
            reason = f"{len(got.data)} bytes were read of the {size} that the store says it has"
            raise OSError(errno.EIO, reason, source)
        body = InMemory(got.data)
        check_whole(name, body)
        send = Create(name.path, body, creation)
    yield from _create(name, send, creation)
    if not keep:
        yield from cleaning_up(name, creation.token, _removed(source))


def no_source(source: str) -> FileNotFoundError:
    """Return what to raise where what is to be copied is not there."""
    return FileNotFoundError(errno.ENOENT, "the source is not there", source)


def cleaning_up(name: Name, token: str, removing: Generator[T, Any, object]) -> Generator[T, Any, None]:
    """Remove what a creation that has won leaves behind: that it stays is litter, for the name is decided.

    An interruption carries the token.
    """
    try:
        with contextlib.suppress(Exception):
            yield from removing
    except GeneratorExit:
        raise
    except BaseException as error:
        unknown = OutcomeUnknown(name.path, token, "it was created, and interrupted while it cleaned up")
        raise error from unknown


def _removed(source: str) -> Protocol[None]:
    yield Delete(source)


def resolve(name: Name, token: str) -> Protocol[Holder | None]:
    """Answer an unknown outcome later. It changes nothing: the creation may have been acknowledged before.

    Returns the creation itself: it won, and the name is its. None: the name is not there *now*; the creation
    may never have happened, may have been deleted since, or may still land.

    ``NameTaken``: another creation holds the name *now*. It is no word on whether this one had held it
    before: what was deleted leaves no trace in a store. Only who knows that the other was there before this
    one was sent may call it a loss. ``OutcomeUnknown``: the store can't be read; or the creation is there,
    and it is not known whether it stands.
    """
    seen = yield from look(name.path, name.path, token, "the name's holder was requested")
    if isinstance(seen, Absent):
        return None
    holder: Holder = seen.holder
    # An arbiter that the table has left marked it.
    if creation_of(holder.token or "") != token:
        raise NameTaken(name.path, holder)
    made = Made(holder.created or holder.begun, holder.created)
    yield from check_win(name, token, lost=True, made=made, may_withdraw=False)
    return holder


def age_of(holder: Holder, path: str) -> Protocol[float | None]:
    """Return for how many seconds a holder has had its name at least, by the store's own time.

    Older than a creation, counted from its first request until now, means: there before it. None: the store
    does not say it.
    """
    if holder.created is None:
        return None
    now: datetime | None = yield StoreTime(path)
    return None if now is None else (now - holder.created - _MARGIN).total_seconds()


@dataclass(slots=True)
class _Sendings:
    """What one creation has sent so far, and whether the store may hold more of it than it has acknowledged.

    An answer once lost stays lost: from then on "the name is not there" proves nothing.
    """

    path: str
    token: str
    upload: Staged | None = None
    lost: Exception | None = None
    busy: Exception | None = None
    denied: bool = False
    uncertain: bool = False
    """Whether a name of this creation may be there, so that an interruption must say its token."""

    def keep_cause(self, outcome: CompleteOutcome) -> None:
        if isinstance(outcome, Maybe):
            self.lost = outcome.cause
        elif isinstance(outcome, TryAgain):
            self.busy = outcome.cause
        else:
            self.denied = True

    def made(self, created: Created) -> Made | None:
        """Say when the name was created; None where a listing says it, as of what came in one put."""
        if created.at is None and self.upload is None:
            return None
        # Of what came in parts, S3's listings and looks show when its upload was begun.
        return Made(created.at, created.at)

    def unknown(self, reason: str) -> OutcomeUnknown:
        self.uncertain = True
        error = OutcomeUnknown(self.path, self.token, reason)
        error.__cause__ = self.lost or self.busy
        return error

    def late(self, reason: str) -> OSError:
        """Return what to raise at the deadline, certain if each answer said that nothing was written.

        "It exists", where nothing is, may be said of this very creation, if it was sent twice on the way.
        """
        if self.lost is not None or self.denied or self.busy is None:
            return self.unknown(reason)
        return unanswered(self.busy)

    def refuse(self, error: Exception) -> NoReturn:
        if self.lost is not None:
            raise self.unknown(f"an answer was lost, and now the store refuses: {error}") from error
        raise error


def _create(name: Name, send: _Source, creation: Creation) -> Protocol[Created]:
    sendings = _Sendings(name.path, creation.token)
    for alias in name.aliases:
        # One that is there may have been acknowledged, and mine would hide it.
        seen: Found | Absent = yield from read(Head(alias))
        if isinstance(seen, Found):
            raise NameTaken(name.path, seen.holder)
    try:
        created = yield from _decide(send, sendings)
        if name.aliases or name.series is not None:
            lost, made = sendings.lost is not None, sendings.made(created)
            yield from check_win(name, creation.token, lost=lost, made=made)
    except GeneratorExit:
        raise
    except BaseException as error:
        proven = not (sendings.uncertain or isinstance(error, OutcomeUnknown))
        if sendings.upload is not None and proven:
            yield Discard(sendings.upload)
        if not sendings.uncertain or isinstance(error, PutIfAbsentError):
            raise
        reason = f"a request had gone out, and then there was {type(error).__name__}: {error}"
        unknown_from(error, sendings.unknown(reason))
    return created


def _decide(send: _Source, sendings: _Sendings) -> Protocol[Created]:
    for attempt in count(1):
        request: Request = send
        if isinstance(send, (Stage, StageCopy)):
            if sendings.upload is None:
                sendings.upload = yield from _stage(send, sendings)
            request = Complete(sendings.upload)
        sendings.uncertain = True
        outcome = yield request
        sendings.uncertain = sendings.lost is not None or isinstance(outcome, (Created, Maybe))
        if isinstance(outcome, Created):
            return outcome
        if isinstance(outcome, Refused):
            sendings.refuse(outcome.error)
        sendings.keep_cause(outcome)
        mine = yield from _whose(outcome, sendings)
        if mine is not None:
            return mine
        if sendings.upload is not None and sendings.lost is None and isinstance(outcome, (TryAgain, Gone)):
            # S3 wants a new upload after a 409 to the completion of one.
            yield Discard(sendings.upload)
            sendings.upload = None
        if not (yield Pause(attempt)):
            raise sendings.late("the store gave no certain answer in time")
    raise AssertionError


def _stage(send: Stage | StageCopy, sendings: _Sendings) -> Protocol[Staged]:
    for attempt in count(1):
        staged = yield send
        if isinstance(staged, Staged):
            return staged
        if isinstance(staged, Absent):
            source = send.source if isinstance(send, StageCopy) else send.name
            sendings.refuse(FileNotFoundError(errno.ENOENT, "the source was removed or replaced", source))
        if isinstance(staged, Refused):
            sendings.refuse(staged.error)
        if not (yield Pause(attempt)):
            sendings.busy = staged.cause
            raise sendings.late("the store did not take the bytes in time")
    raise AssertionError


def _whose(outcome: CompleteOutcome, sendings: _Sendings) -> Protocol[Created | None]:
    """Return my own creation, or None where nobody holds the name; another's is NameTaken.

    A single put whose answer was lost is sent again at once; a completion is looked at first, for the
    store forgets an upload that it has completed.
    """
    if isinstance(outcome, TryAgain) or (isinstance(outcome, Maybe) and sendings.upload is None):
        return None
    holder = outcome.holder if isinstance(outcome, Exists) else None
    if holder is None:
        seen = yield from look(sendings.path, sendings.path, sendings.token, "a request had gone out")
        if isinstance(seen, Absent):
            if sendings.lost is not None and not isinstance(outcome, Maybe):
                raise sendings.unknown("it may have been created, and deleted since")
            return None
        holder = seen.holder
    sendings.uncertain = holder.token == sendings.token
    if sendings.uncertain:
        return Created(holder.version, again=True)
    if sendings.lost is not None and not (yield from _was_there_before(holder, sendings)):
        raise sendings.unknown(
            "an answer was lost, and another is there that may have come later: what was created first may "
            "have been read, and deleted since"
        )
    raise NameTaken(sendings.path, holder)


def _was_there_before(holder: Holder, sendings: _Sendings) -> Protocol[bool]:
    """Whether the holder had the name, by the store's own time, before the first request for it was sent."""
    sendings.uncertain = True
    age = yield from age_of(holder, sendings.path)
    sendings.uncertain = age is None or age <= (yield Since())
    return not sendings.uncertain
