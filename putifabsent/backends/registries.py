"""What a registry must promise, call by call.

:class:`Claims` decides who creates a name, where a store can't; :class:`Lock` says who goes first;
:class:`Counter` gives numbers, once each, that grow. As in :mod:`putifabsent.backends.base`, every answer is
of a closed type.

One call is one request. No registry may send one twice on its own: a client's retries are off, the hidden
ones too.
"""

from __future__ import annotations

import errno
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, TypeAlias

from putifabsent.backends import base
from putifabsent.backends.base import Absent as Absent
from putifabsent.backends.base import Maybe as Maybe
from putifabsent.backends.base import Refused as Refused
from putifabsent.backends.base import TryAgain as TryAgain
from putifabsent.backends.base import http_date
from putifabsent.backends.concurrency import twin

if TYPE_CHECKING:
    from collections.abc import Callable

LARGEST = 2**53 - 1  # the largest number of a counter: the largest that every registry can calculate with


@dataclass(frozen=True, slots=True)
class Claim:
    """The decided fact: this identity belongs to that object."""

    incarnation: int  # which life of the name it is about, from 1
    live: bool  # whether that life goes on; a dead claim stays, as the end mark
    key: str  # the salted object's full name
    token: str  # the creation's
    writer: str  # the UUID of the application that made it

    def __post_init__(self) -> None:
        """Refuse what can't be meant."""
        if self.incarnation < 1:
            raise ValueError(f"incarnations count from 1, not from {self.incarnation}")

    @property
    def mark(self) -> tuple[int, bool, str]:
        """What tells it from any other claim of its identity: incarnation, live, token."""
        return self.incarnation, self.live, self.token


class ClaimEntry(NamedTuple):
    """One line of a listing of claims."""

    identity: str
    claim: Claim


@dataclass(frozen=True, slots=True)
class FoundClaim:
    """The identity has this claim now."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class Claimed:
    """The claim is written, by this request, and durable."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The claim is removed, by this request, for ever."""


@dataclass(frozen=True, slots=True)
class NotAsExpected:
    """What was there was not what the caller expected. This request wrote nothing and never will."""

    current: Claim | None
    """The claim that was there at that moment; None: there was none. It may be the caller's own, by an
    earlier request whose answer was lost: look at the token."""


@dataclass(frozen=True, slots=True)
class ClaimPage:
    """A part of a listing."""

    entries: tuple[ClaimEntry, ...]  # claims, live and dead; it may be empty though more follow
    more: tuple[str, ...] | None = None  # where the next page starts; None: this is the last one


@dataclass(frozen=True, slots=True)
class Acquired:
    """The owner holds the lock, for a lease that began when the request was answered or before."""


@dataclass(frozen=True, slots=True)
class Held:
    """Somebody holds the lock, perhaps the owner who asks. This request changed nothing."""

    by: str  # who


@dataclass(frozen=True, slots=True)
class Free:
    """Nobody holds the lock: it has run out, or was released. This request changed nothing."""


@dataclass(frozen=True, slots=True)
class Released:
    """The owner held the lock, and this request ended that."""


@dataclass(frozen=True, slots=True)
class Advanced:
    """As many numbers as were requested are the caller's, and nobody else's."""

    last: int  # the last of them; the others are those right before it
    now: int | None = field(default=None, compare=False)
    """The registry's own time when it moved the counter, or a little before: milliseconds since 1970, by no
    clock of the caller's. None: it tells none. Of two answers that give the same numbers it may differ."""


ReadOutcome: TypeAlias = FoundClaim | Absent | TryAgain | Refused
ClaimOutcome: TypeAlias = Claimed | NotAsExpected | TryAgain | Refused | Maybe
ForgetOutcome: TypeAlias = Forgotten | NotAsExpected | TryAgain | Refused | Maybe
PageOutcome: TypeAlias = ClaimPage | TryAgain | Refused
AcquireOutcome: TypeAlias = Acquired | Held | TryAgain | Refused | Maybe
ReleaseOutcome: TypeAlias = Released | Held | Free | TryAgain | Refused | Maybe
AdvanceOutcome: TypeAlias = Advanced | TryAgain | Refused | Maybe


class Claims(ABC):
    """Decides which object an identity belongs to. What it has decided it keeps until it is to forget it.

    An *identity* is the store's canonical address and the name: ``s3://bucket/folder/name``. One registry
    serves many stores. What stands before the last ``/`` is its folder.

    What a request asks for has an asynchronous twin; the default one runs it in a thread. All must be safe
    for any number of threads, on any loop, and after a fork.
    """

    kind: ClassVar[str]  # what it is, for people: ``"dynamodb"``

    @abstractmethod
    def read(self, identity: str) -> ReadOutcome:
        """Return the claim of ``identity``, by a strongly consistent read.

        A lost answer is ``TryAgain``: reading twice is harmless. ``Absent`` only where the registry says
        so itself: a missing table or a missing right is ``Refused``.
        """

    @abstractmethod
    def write(self, identity: str, claim: Claim, expected: Claim | None) -> ClaimOutcome:
        """Write ``claim`` in one atomic step, only if what is there is exactly what is ``expected``.

        Parameters
        ----------
        identity
            Valid Unicode without NUL, with a ``/`` in it, of any length; two spellings are two identities.
            What can't be kept is ``Refused``, and never kept as something else.
        claim
            What it becomes. Nothing but another ``write``, or ``forget``, may ever change or remove it.
        expected
            None: no claim. A claim: one with the same :attr:`Claim.mark`.

        Returns
        -------
        ClaimOutcome
            ``Claimed`` promises that the claim is durable, that every read that begins from now on sees it
            or a later one, and that of all writes that expected the same, no other was or will be answered
            so. ``NotAsExpected``, ``TryAgain`` and ``Refused`` promise that this request wrote nothing
            *and never will*. Whatever can't be promised is ``Maybe``: read, and look at the token.
        """

    @abstractmethod
    def forget(self, identity: str, expected: Claim) -> ForgetOutcome:
        """Remove the claim of ``identity`` in one atomic step, only if it is exactly what is ``expected``.

        Its next claim may be any first one, a request that comes late included. ``Forgotten`` promises that
        every read that begins from now on sees no claim, or one that was written since. All else as for
        :meth:`write`.
        """

    @abstractmethod
    def list(self, folder: str, start: tuple[str, ...] | None = None) -> PageOutcome:
        """Return a page of the claims directly in ``folder``, in few requests, strongly consistent.

        Each claim that was there before the first page was requested, and is there after the last, is in
        exactly one page; in whatever order. ``folder`` is what stands before the last ``/`` of the
        identities, ``start`` the :attr:`ClaimPage.more` of the page before.
        """

    @abstractmethod
    def sweep(self, place: str, start: tuple[str, ...] | None = None) -> PageOutcome:
        """Return a page of all claims in ``place`` and below it; otherwise as :meth:`list`.

        It may read the whole registry: for repairs and for leaving, not for a writer's day.
        """

    @abstractmethod
    def identity(self) -> str:
        """Return what tells this registry from any other, for the record on which mounts agree.

        Without credentials. A registry that was removed and made anew has another identity, where that
        is known. It may query the registry, once. ``ConfigError``: it is not there, or not what it must be;
        the message says what to do. ``OSError``: it can't be reached, or there is no right to use it.
        """

    read_async = twin(read)
    write_async = twin(write)
    forget_async = twin(forget)
    list_async = twin(list)  # noqa: A003 - the method, not the type
    sweep_async = twin(sweep)


class Lock(ABC):
    """Decides who goes first, and nothing else.

    A lock can be lost at any time, unnoticed: its lease ends, its server fails over or forgets. Then two
    owners go at the same time, which costs them time, never a commit: who wins is decided elsewhere.

    Twins, threads and forks as for :class:`Claims`.
    """

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.identity()}>"

    @abstractmethod
    def acquire(self, key: str, owner: str, lease: float) -> AcquireOutcome:
        """Take the lock, if nobody holds it.

        Parameters
        ----------
        key
            What is locked.
        owner
            Who asks: one UUID an attempt. An owner who holds it already gets ``Held`` by itself: so
            is a lost answer resolved.
        lease
            Seconds, a thousandth or more, after which it is free again by itself.
        """

    @abstractmethod
    def release(self, key: str, owner: str) -> ReleaseOutcome:
        """End the owner's lock; another's is left as it is."""

    @abstractmethod
    def identity(self) -> str:
        """Return where it is, for people, without credentials. No network."""

    acquire_async = twin(acquire)
    release_async = twin(release)


class Counter(ABC):
    """Gives numbers, each once, each higher than all before it.

    Twins, threads and forks as for :class:`Claims`.
    """

    forgets: ClassVar[bool]
    """Whether numbers that were given can be given again to those who live: its server may lose what it has
    acknowledged. A floor that has passed them keeps them from coming again."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.identity()}>"

    @abstractmethod
    def advance(self, name: str, floor: int, count: int = 1) -> AdvanceOutcome:
        """Move the counter in one atomic step to ``count`` beyond where it is, or beyond ``floor``.

        Parameters
        ----------
        name
            Which counter: valid Unicode without NUL, not empty, of any length. One that nobody has moved is
            at 0.
        floor
            All numbers given are above it, 0 or more: a clock's milliseconds, say.
        count
            How many numbers, 1 or more. ``ValueError``: one of the two is out of range, or they make more
            than :data:`LARGEST` together.

        Returns
        -------
        AdvanceOutcome
            ``Advanced(last)``: the counter is at ``last``, and ``last - count + 1`` up to ``last`` are the
            caller's. No two calls that are answered so share a number, and one that begins after another was
            answered has higher ones. ``TryAgain`` and ``Refused`` promise that this request moved nothing and
            never will. A registry that had to learn first on which side of the floor the counter is says
            ``TryAgain``, too: the next call with this floor knows. ``Maybe``: numbers may have been skipped,
            which harms nobody: call again.
        """

    @abstractmethod
    def identity(self) -> str:
        """Return where it is, for people, without credentials. No network."""

    advance_async = twin(advance)


def bad_identity(
    identity: str, what: Literal["identity", "folder", "key", "name"] = "identity"
) -> Refused | None:
    """Return why ``identity`` can't be kept in any registry, or None."""
    if "\0" in identity:
        return base.refused(errno.EINVAL, f"the {what} has a NUL in it", identity)
    if not identity or (what == "identity" and "/" not in identity):
        return base.refused(errno.EINVAL, f"the {what} names no folder of a store", identity)
    try:
        identity.encode()
    except UnicodeEncodeError as error:
        why = f"the {what} is not valid Unicode, so it has no UTF-8 form"
        return base.refused(errno.EILSEQ, why, identity, error)
    return None


def bad_step(name: str, floor: int, count: int) -> Refused | None:
    """Return why no registry can move this counter, or None; ``ValueError``: no counter can be moved so."""
    if floor < 0 or count < 1 or floor + count > LARGEST:
        raise ValueError(
            f"a counter moves by 1 or more, from 0 or more, to 2**53 - 1: not {count} from {floor}"
        )
    return bad_identity(name, "name")


def at_its_end(name: str) -> OSError:
    """Return the error of a counter that has no such numbers left."""
    return OSError(errno.EOVERFLOW, "the counter is at its end", name)


# --- the time that a counter tells

_SECOND = 1000


class WholeSeconds:
    """The time in milliseconds of a server that says it in whole seconds, as HTTP's ``Date`` does.

    It says which second it is, so that has begun: a bound from below. From there on a steady clock goes on,
    and each answer can only show that it is later. After some answers, of which one came soon after a second
    began, little is missing. For any number of threads.
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        # From the steady clock to the server's, in milliseconds. Of two threads one may lose what it learnt.
        self._distance: int | None = None

    def at_date(self, date: str | None) -> int | None:
        """Return the time of an answer that has just come, or a little before, by its ``Date``.

        Milliseconds since 1970, within the second that it says; None: it says none.
        """
        second = http_date(date)
        return None if second is None else self.seen(int(second.timestamp()) * _SECOND)

    def seen(self, second: int) -> int:
        """Return the time in a second that has just been seen, by its first millisecond."""
        steady = int(self._steady() * _SECOND)
        known = second if self._distance is None else steady + self._distance
        # Who answers may be another server, whose clock is not quite the same.
        now = min(max(known, second), second + _SECOND - 1)
        self._distance = now - steady
        return now
