"""What a protocol may ask for: one small class a request.

A protocol is a generator that yields these and is sent their outcomes. It never performs them itself, so
one text of it runs synchronously, asynchronously, and under the schedule explorer. Where nothing else is
said, an outcome is what the method of the store, the registry, the lock or the counter returns.

Reading twice is harmless, so a protocol reads until the store answers: only a refusal and the deadline end
that (:func:`read`).
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from putifabsent.backends.base import Absent, Found, Maybe, Refused, TryAgain
from putifabsent.errors import OutcomeUnknown

if TYPE_CHECKING:
    from putifabsent.backends.base import Body, Creation, Staged, Store
    from putifabsent.backends.registries import Claim, Claims, Counter, Lock


class Create(NamedTuple):
    """Write the body under the name, only if it is not there."""

    name: str
    body: Body
    creation: Creation


class Stage(NamedTuple):
    """Give the store a large body; nothing is readable under the name yet."""

    name: str
    body: Body
    creation: Creation


class StageCopy(NamedTuple):
    """Stage another object's bytes."""

    source: str
    size: int
    version: str | None
    name: str
    creation: Creation


class Complete(NamedTuple):
    """Publish what was staged, only if the name is not there."""

    staged: Staged


class Discard(NamedTuple):
    """Remove what was staged."""

    staged: Staged


class Head(NamedTuple):
    """Look who holds the name."""

    name: str


class Get(NamedTuple):
    """Read a small object whole."""

    name: str


class List(NamedTuple):
    """List the files directly in a folder."""

    folder: str


class Walk(NamedTuple):
    """List all files below a folder."""

    folder: str


class Delete(NamedTuple):
    """Remove the name; with a version, only while it is still that object."""

    name: str
    version: str | None = None


class Put(NamedTuple):
    """Write the body under a name of the shim's own, whatever is there."""

    name: str
    body: Body
    creation: Creation


class Publish(NamedTuple):
    """Copy what was put to the plain name, by the store itself."""

    source: str
    name: str
    creation: Creation


NOT_OURS = "another tool has written the name, or copied it without its attributes: move that file away"
"""Why something can't be published, where a store can't write over what is there."""


class ReadClaim(NamedTuple):
    """Read an identity's claim."""

    claims: Claims
    identity: str


class WriteClaim(NamedTuple):
    """Write an identity's claim, only if what is there is what is expected."""

    claims: Claims
    identity: str
    claim: Claim
    expected: Claim | None


class ForgetClaim(NamedTuple):
    """Remove an identity's claim, only if it is what is expected."""

    claims: Claims
    identity: str
    expected: Claim


class ListClaims(NamedTuple):
    """Read a page of the claims of the names directly in a folder."""

    claims: Claims
    folder: str
    start: tuple[str, ...] | None = None


class SweepClaims(NamedTuple):
    """Read a page of the claims of all names in a place and below it."""

    claims: Claims
    place: str
    start: tuple[str, ...] | None = None


class Acquire(NamedTuple):
    """Take a lock, if nobody holds it."""

    lock: Lock
    key: str
    owner: str
    lease: float


class Release(NamedTuple):
    """End the owner's lock."""

    lock: Lock
    key: str
    owner: str


class Advance(NamedTuple):
    """Move a counter."""

    counter: Counter
    name: str
    floor: int
    wanted: int


class Both(NamedTuple):
    """Two requests of which neither waits for the other. The outcome: both of theirs.

    The second only looks: whoever is interrupted may leave it behind.
    """

    first: Put | Head
    second: Head


class Now(NamedTuple):
    """Look at the caller's own clock, which only goes on. The outcome: seconds."""

    clock: Callable[[], float]


class StoreTime(NamedTuple):
    """Ask for the store's own time. The outcome: that, or None where the store does not say it."""

    name: str


class Since(NamedTuple):
    """How long ago the first request that decides was sent. The outcome: seconds, not too few."""


class Pause(NamedTuple):
    """Back off before the attempt after ``attempt`` (from 1). The outcome: True, or False at the deadline.

    With a ``share`` below 1, False as soon as that share of the time until the deadline is over. With ``cut``
    it is no longer than until then, for one more attempt.
    """

    attempt: int
    share: float = 1.0
    cut: bool = False


class Sleep(NamedTuple):
    """Wait for so many seconds. The outcome: True; or, at once, False where the deadline comes first."""

    seconds: float


Request: TypeAlias = (
    Create | Stage | StageCopy | Complete | Discard | Head | Get | List | Walk | Delete | Put | Publish
    | StoreTime | ReadClaim | WriteClaim | ForgetClaim | ListClaims | SweepClaims
    | Acquire | Release | Advance | Both | Now | Since | Pause | Sleep
)  # fmt: skip

Harmless: TypeAlias = (
    Head | Get | List | Walk | ReadClaim | ListClaims | SweepClaims | ForgetClaim | Delete | Put
)
"""Those that do no harm twice: what is removed nobody makes again, and what is put says the same."""

T = TypeVar("T")
Protocol: TypeAlias = Generator[Request, Any, T]

_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


@cache
def kind_of(request: str) -> str:
    """Return what a class of requests is called where it is counted: ``stage_copy``, ``write_claim``."""
    return _WORDS.sub("_", request).lower()


_OF_THE_STORE: dict[type, str] = {
    each: kind_of(each.__name__)
    for each in (
        *(Create, Stage, StageCopy, Complete, Discard),
        *(Head, Get, List, Walk, Delete, Put, Publish),
    )
} | {StoreTime: "time"}
"""Which method of a store each calls, with all its fields; asynchronously, that method's twin."""

_OF_ITS_FIRST: dict[type, str] = {
    each: kind_of(each.__name__).partition("_")[0]
    for each in (ReadClaim, WriteClaim, ForgetClaim, ListClaims, SweepClaims, Acquire, Release, Advance)
}
"""The same of those that call their first field, with all others."""


def perform(request: Request, store: Store) -> Any:
    """Return the outcome of a request that one call answers; not :class:`Both`, :class:`Since` or a wait."""
    return request.clock() if isinstance(request, Now) else _call(request, store, "")


async def perform_async(request: Request, store: Store) -> Any:
    return request.clock() if isinstance(request, Now) else await _call(request, store, "_async")


def _call(request: Request, store: Store, colour: str) -> Any:
    values: tuple[Any, ...] = request
    method = _OF_THE_STORE.get(type(request))
    if method is not None:
        return getattr(store, f"{method}{colour}")(*values)
    return getattr(values[0], f"{_OF_ITS_FIRST[type(request)]}{colour}")(*values[1:])


# --- reading until it is answered


@dataclass(frozen=True, slots=True)
class Located(Found):
    """The name is there, by an arbiter that is not the store itself."""

    path: str  # the object that holds its bytes; the plain name, where that is all there is


def unanswered(cause: Exception) -> OSError:
    """Return what to raise where no answer has come in time: client libraries' own are not all OSErrors."""
    if isinstance(cause, OSError):
        return cause
    error = OSError(errno.EIO, f"no answer in time: {cause}")
    error.__cause__ = cause
    return error


def read(
    request: Harmless,
    failure: Callable[[Exception], Exception] = unanswered,
    late: Callable[[Exception], Exception] | None = None,
) -> Protocol[Any]:
    """Return the outcome of a ``request`` that does no harm twice, as :func:`tried` does."""
    answer, _ = yield from tried(request, failure, late)
    return answer


def tried(
    request: Harmless,
    failure: Callable[[Exception], Exception] = unanswered,
    late: Callable[[Exception], Exception] | None = None,
) -> Protocol[tuple[Any, int]]:
    """Return the outcome of a harmless request, neither a refusal nor a lost answer, and of which try it is.

    ``failure`` makes the exception to raise, from the store's own, when it refuses or the deadline comes; by
    default that is the store's own, as an OSError. ``late`` makes another one for the deadline.
    """
    for attempt in count(1):
        answer = yield request
        if not isinstance(answer, (Refused, TryAgain, Maybe)):
            return answer, attempt
        cause = answer.error if isinstance(answer, Refused) else answer.cause
        if isinstance(answer, Refused) or not (yield Pause(attempt)):
            make = failure if late is None or isinstance(answer, Refused) else late
            error = make(cause)
            if error is cause:
                raise error  # with a cause of its own
            raise error from cause
    raise AssertionError


def look(path: str, name: str, token: str, why: str) -> Protocol[Found | Absent]:
    """See who holds ``path`` for the sake of a creation of ``name``.

    ``OutcomeUnknown``: the store refuses to say (403), or does not answer until the deadline: that is not
    "absent".
    """
    seen: Found | Absent = yield from read(
        Head(path),
        lambda error: OutcomeUnknown(name, token, f"{why}, and {path} can't be looked at: {error}"),
    )
    return seen


def removed(path: str, version: str | None = None) -> Protocol[None]:
    """Remove an object, until that is certain; with ``version``, only while it is still that one."""
    yield from read(Delete(path, version))
