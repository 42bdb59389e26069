"""What a registry must promise, call by call: :class:`Claims` decides, :class:`Lock` says who goes first.

Where a store can't decide who creates a name, a registry beside it does. As in
:mod:`putifabsent.backends.base`, every answer is of a closed type.

One call is one request. No registry may send one twice on its own: a client's retries are off, the hidden
ones too.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, TypeAlias

from putifabsent.backends.base import Absent as Absent
from putifabsent.backends.base import Maybe as Maybe
from putifabsent.backends.base import Refused as Refused
from putifabsent.backends.base import TryAgain as TryAgain
from putifabsent.backends.base import caused
from putifabsent.backends.concurrency import twin


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
    remaining: float  # seconds left of the lease, by the registry's own clock; infinity: it has no lease


@dataclass(frozen=True, slots=True)
class Free:
    """Nobody holds the lock: it has run out, or was released. This request changed nothing."""


@dataclass(frozen=True, slots=True)
class Released:
    """The owner held the lock, and this request ended that."""


ReadOutcome: TypeAlias = FoundClaim | Absent | TryAgain | Refused
ClaimOutcome: TypeAlias = Claimed | NotAsExpected | TryAgain | Refused | Maybe
ForgetOutcome: TypeAlias = Forgotten | NotAsExpected | TryAgain | Refused | Maybe
PageOutcome: TypeAlias = ClaimPage | TryAgain | Refused
AcquireOutcome: TypeAlias = Acquired | Held | TryAgain | Refused | Maybe
ReleaseOutcome: TypeAlias = Released | Held | Free | TryAgain | Refused | Maybe


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
        is known. It may query the registry, once; then it raises as :meth:`check` does.
        """

    @abstractmethod
    def check(self) -> None:
        """Ask whether this registry is there, can be relied on, and may be read and written.

        ``ConfigError``: it is not there, or not what it must be; the message says what to do. ``OSError``: it
        can't be reached, or there is no right to use it.
        """

    @abstractmethod
    def init(self) -> bool:
        """Make this registry, wait until it can be used, and :meth:`check` it. Calling it again is harmless.

        True: made; False: it was there.
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

    @abstractmethod
    def check(self) -> None:
        """Ask whether it is there, and may be used: take a lock of its own, and end it.

        ``ConfigError``: it can't be what was meant; the message says what to do. ``OSError``: it can't be
        reached, or there is no right to use it.
        """

    acquire_async = twin(acquire)
    release_async = twin(release)


def bad_identity(
    identity: str, what: Literal["identity", "folder", "key", "name"] = "identity"
) -> Refused | None:
    """Return why ``identity`` can't be kept in any registry, or None."""
    if "\0" in identity:
        return Refused(OSError(errno.EINVAL, f"the {what} has a NUL in it", identity))
    if not identity or (what == "identity" and "/" not in identity):
        return Refused(OSError(errno.EINVAL, f"the {what} names no folder of a store", identity))
    try:
        identity.encode()
    except UnicodeEncodeError as error:
        why = OSError(errno.EILSEQ, f"the {what} is not valid Unicode, so it has no UTF-8 form", identity)
        return Refused(caused(why, error))
    return None


def require_answer(outcome: object, who: str, where: str) -> None:
    """Pass if a registry has answered, and refused nothing; else raise what a check raises."""
    if isinstance(outcome, Refused):
        raise outcome.error
    if isinstance(outcome, (TryAgain, Maybe)):
        why = f"{who} did not answer, or not now: {outcome.cause}"
        raise ConnectionError(errno.EIO, why, where) from outcome.cause
