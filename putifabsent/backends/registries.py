"""What a registry must promise, call by call.

:class:`Claims` decides, :class:`Lock` says who goes first, :class:`Counter` gives numbers that nobody else
has.

Where a store can't decide who creates a name, a registry beside it does. As in
:mod:`putifabsent.backends.base`, every answer is of a closed type:

=======================  ==================================================================
:class:`FoundClaim`      the identity has this claim now
:class:`Claimed`         this request wrote the claim
:class:`NotAsExpected`   another claim was there, or none; this request wrote nothing
:class:`ClaimPage`       a part of a listing
:class:`Acquired`        the owner holds the lock, for a lease from now
:class:`Held`            somebody holds the lock; this request changed nothing
:class:`Free`            nobody holds the lock; this request changed nothing
:class:`Released`        this request ended the owner's lock
:class:`Advanced`        the numbers up to this one are the caller's
:class:`Absent`, :class:`TryAgain`, :class:`Refused`, :class:`Maybe`   as for a store
=======================  ==================================================================

One call is one request. No registry may send one twice on its own: a client's retries are off, the hidden
ones too.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from putifabsent.backends.base import Absent, Maybe, Refused, TryAgain

__all__ = [
    "LARGEST",
    "Absent",
    "AcquireOutcome",
    "Acquired",
    "AdvanceOutcome",
    "Advanced",
    "Claim",
    "ClaimEntry",
    "ClaimOutcome",
    "ClaimPage",
    "Claimed",
    "Claims",
    "Counter",
    "ExtendOutcome",
    "FoundClaim",
    "Free",
    "Held",
    "Lock",
    "Maybe",
    "NotAsExpected",
    "PageOutcome",
    "ReadOutcome",
    "Refused",
    "ReleaseOutcome",
    "Released",
    "TryAgain",
]

LARGEST = 2**53 - 1
"""The largest number of a counter: the largest that every registry can calculate with."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The decided fact: this identity belongs to that object.

    Attributes
    ----------
    incarnation
        Which life of the name it is about, from 1.
    live
        Whether that life goes on; a dead claim stays for ever, as the end mark.
    key
        The salted object's full name.
    token
        The creation's token.
    writer
        The UUID of the application that made it.
    """

    incarnation: int
    live: bool
    key: str
    token: str
    writer: str

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
class NotAsExpected:
    """What was there was not what the caller expected. This request wrote nothing and never will.

    Attributes
    ----------
    current
        The claim that was there at that moment; None: there was none. It may be the caller's own, by an
        earlier request whose answer was lost: look at the token.
    """

    current: Claim | None


@dataclass(frozen=True, slots=True)
class ClaimPage:
    """A part of a listing.

    Attributes
    ----------
    entries
        Claims, live and dead; it may be empty though more follow.
    more
        Where the next page starts; None: this is the last one.
    """

    entries: tuple[ClaimEntry, ...]
    more: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Acquired:
    """The owner holds the lock, for a lease that began when the request was answered or before."""


@dataclass(frozen=True, slots=True)
class Held:
    """Somebody holds the lock, perhaps the owner who asks. This request changed nothing.

    Attributes
    ----------
    by
        Who.
    remaining
        Seconds that are left of the lease, by the registry's own clock; infinity for a lock with no lease.
    """

    by: str
    remaining: float


@dataclass(frozen=True, slots=True)
class Free:
    """Nobody holds the lock: it has run out, or was released. This request changed nothing."""


@dataclass(frozen=True, slots=True)
class Released:
    """The owner held the lock, and this request ended that."""


@dataclass(frozen=True, slots=True)
class Advanced:
    """As many numbers as were asked for are the caller's, and nobody else's.

    Attributes
    ----------
    last
        The last of them; the others are those right before it.
    """

    last: int


ReadOutcome: TypeAlias = FoundClaim | Absent | TryAgain | Refused
ClaimOutcome: TypeAlias = Claimed | NotAsExpected | TryAgain | Refused | Maybe
PageOutcome: TypeAlias = ClaimPage | TryAgain | Refused
AcquireOutcome: TypeAlias = Acquired | Held | TryAgain | Refused | Maybe
ExtendOutcome: TypeAlias = Acquired | Held | Free | TryAgain | Refused | Maybe
ReleaseOutcome: TypeAlias = Released | Held | Free | TryAgain | Refused | Maybe
AdvanceOutcome: TypeAlias = Advanced | TryAgain | Refused | Maybe


class Claims(ABC):
    """Decides which object an identity belongs to. What it has decided it keeps for ever.

    An *identity* is the store's canonical address and the name: ``s3://bucket/folder/name``. One registry
    serves many stores. What stands before the last ``/`` is its folder.

    Every method has an asynchronous twin; the default one runs it in a thread. All must be safe for any
    number of threads, on any loop, and after a fork.

    Attributes
    ----------
    kind
        What it is, for people: ``"dynamodb"``.
    """

    kind: ClassVar[str]

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
            What it becomes. Nothing but another ``write`` may ever change or remove it.
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
    def list(self, folder: str, start: tuple[str, ...] | None = None) -> PageOutcome:
        """Return a page of the claims directly in ``folder``, in few requests, strongly consistent.

        Each claim that was there before the first page was asked for, and is there after the last, is in
        exactly one page; in whatever order.

        Parameters
        ----------
        folder
            What stands before the last ``/`` of the identities.
        start
            :attr:`ClaimPage.more` of the page before.
        """

    @abstractmethod
    def sweep(self, place: str, start: tuple[str, ...] | None = None) -> PageOutcome:
        """Return a page of all claims in ``place`` and below it; otherwise as :meth:`list`.

        It may read the whole registry: for repairs and for leaving, not for a writer's day.
        """

    @abstractmethod
    def identity(self) -> str:
        """Return what tells this registry from any other, for the record on which mounts agree.

        Without credentials. A registry that was removed and made anew has another identity, where it can
        be told. It may ask the registry, once; then it raises as :meth:`check` does.
        """

    @abstractmethod
    def check(self) -> None:
        """Ask whether this registry is there, can be relied on, and may be read and written.

        Raises
        ------
        ConfigError
            It is not there, or not what it must be; the message says what to do.
        OSError
            It can't be reached, or there is no right to use it.
        """

    @abstractmethod
    def init(self) -> bool:
        """Make this registry, wait until it can be used, and check it. True: made; False: it was there.

        Raises
        ------
        ConfigError, OSError
            As :meth:`check`. Calling it again is harmless.
        """

    async def read_async(self, identity: str) -> ReadOutcome:
        """:meth:`read`, asynchronously."""
        return await asyncio.to_thread(self.read, identity)

    async def write_async(self, identity: str, claim: Claim, expected: Claim | None) -> ClaimOutcome:
        """:meth:`write`, asynchronously. Cancelled, its outcome is unknown."""
        return await asyncio.to_thread(self.write, identity, claim, expected)

    async def list_async(self, folder: str, start: tuple[str, ...] | None = None) -> PageOutcome:
        """:meth:`list`, asynchronously."""
        return await asyncio.to_thread(self.list, folder, start)

    async def sweep_async(self, place: str, start: tuple[str, ...] | None = None) -> PageOutcome:
        """:meth:`sweep`, asynchronously."""
        return await asyncio.to_thread(self.sweep, place, start)

    async def identity_async(self) -> str:
        """:meth:`identity`, asynchronously."""
        return await asyncio.to_thread(self.identity)

    async def check_async(self) -> None:
        """:meth:`check`, asynchronously."""
        await asyncio.to_thread(self.check)


class Lock(ABC):
    """Decides who goes first, and nothing else.

    A lock can be lost at any time, unnoticed: its lease ends, its server fails over or forgets. Then two
    owners go at the same time, which costs them time, never a commit: who wins is decided elsewhere.

    Twins, threads and forks as for :class:`Claims`.

    Attributes
    ----------
    kind
        What it is, for people: ``"redis"``.
    """

    kind: ClassVar[str]

    @abstractmethod
    def acquire(self, key: str, owner: str, lease: float) -> AcquireOutcome:
        """Take the lock, if nobody holds it.

        Parameters
        ----------
        key
            What is locked.
        owner
            Who asks: one UUID an attempt. An owner who holds it already is told ``Held`` by itself: so
            is a lost answer resolved.
        lease
            Seconds, a thousandth or more, after which it is free again by itself.
        """

    @abstractmethod
    def extend(self, key: str, owner: str, lease: float) -> ExtendOutcome:
        """Have the owner's lock last for a new lease from now; another's, or none, is left as it is."""

    @abstractmethod
    def release(self, key: str, owner: str) -> ReleaseOutcome:
        """End the owner's lock; another's is left as it is."""

    @abstractmethod
    def identity(self) -> str:
        """Return where it is, for people, without credentials. No network."""

    @abstractmethod
    def check(self) -> None:
        """Ask whether it is there, and may be used: take a lock of its own, and end it.

        Raises
        ------
        ConfigError
            It can't be what was meant; the message says what to do.
        OSError
            It can't be reached, or there is no right to use it.
        """

    async def acquire_async(self, key: str, owner: str, lease: float) -> AcquireOutcome:
        """:meth:`acquire`, asynchronously. Cancelled, its outcome is unknown."""
        return await asyncio.to_thread(self.acquire, key, owner, lease)

    async def extend_async(self, key: str, owner: str, lease: float) -> ExtendOutcome:
        """:meth:`extend`, asynchronously."""
        return await asyncio.to_thread(self.extend, key, owner, lease)

    async def release_async(self, key: str, owner: str) -> ReleaseOutcome:
        """:meth:`release`, asynchronously."""
        return await asyncio.to_thread(self.release, key, owner)

    async def check_async(self) -> None:
        """:meth:`check`, asynchronously."""
        await asyncio.to_thread(self.check)


class Counter(ABC):
    """Gives numbers, each once, each higher than all before it.

    Twins, threads and forks as for :class:`Claims`.

    Attributes
    ----------
    kind
        What it is, for people: ``"dynamodb"``.
    forgets
        Whether numbers that were given can be given again: its server may lose what it has acknowledged.
        A floor that has passed them keeps them from coming again. Who needs certainty refuses such a one.
    """

    kind: ClassVar[str]
    forgets: ClassVar[bool]

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
            How many numbers, 1 or more.

        Returns
        -------
        AdvanceOutcome
            ``Advanced(last)``: the counter is at ``last``, and ``last - count + 1`` up to ``last`` are the
            caller's. No two calls that are answered so share a number, and one that begins after another was
            answered has higher ones. ``TryAgain`` and ``Refused`` promise that this request moved nothing and
            never will. A registry that had to learn first on which side of the floor the counter is says
            ``TryAgain``, too: the next call with this floor knows. ``Maybe``: numbers may have been skipped,
            which harms nobody: call again.

        Raises
        ------
        ValueError
            ``floor`` or ``count`` is out of range, or they make more than :data:`LARGEST` together.
        """

    @abstractmethod
    def identity(self) -> str:
        """Return where it is, for people, without credentials. No network."""

    @abstractmethod
    def check(self) -> None:
        """Ask whether it is there, can be relied on, and may be used.

        Raises
        ------
        ConfigError, OSError
            As :meth:`Claims.check`.
        """

    async def advance_async(self, name: str, floor: int, count: int = 1) -> AdvanceOutcome:
        """:meth:`advance`, asynchronously. Cancelled, its outcome is unknown."""
        return await asyncio.to_thread(self.advance, name, floor, count)

    async def check_async(self) -> None:
        """:meth:`check`, asynchronously."""
        await asyncio.to_thread(self.check)
