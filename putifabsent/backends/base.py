"""What a store must promise, call by call, and what each answer means.

A store never decides what a failed call means for a *creation*; it says what it knows, in a closed type,
so that a protocol can't forget a case:

==============  ===========================================================================
:class:`Created`   this request wrote the bytes under the name
:class:`Exists`    the name was there; this request wrote nothing
:class:`TryAgain`  this request wrote nothing, for a reason that passes
:class:`Refused`   this request wrote nothing, for a reason that stays
:class:`Maybe`     the request may have been applied, or may still be
:class:`Gone`      the upload to complete is not there: completed before, or removed
==============  ===========================================================================

No store may send a request twice on its own: a client's retries are off, the hidden ones too. Only the
protocol knows whether a second send is harmless.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from putifabsent.backends.undone import in_thread, or_undone
from putifabsent.errors import Holder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from putifabsent.backends.ahead import Ahead
    from putifabsent.backends.body import Body

__all__ = [
    "STATE_FOLDER",
    "TOKEN_KEY",
    "WRITER_KEY",
    "Absent",
    "CompleteOutcome",
    "ConditionalCopy",
    "CreateOutcome",
    "Created",
    "Creation",
    "DeleteOutcome",
    "Deleted",
    "Entry",
    "Exists",
    "Found",
    "GetOutcome",
    "Gone",
    "Got",
    "HeadOutcome",
    "Holder",
    "ListOutcome",
    "Listed",
    "Maybe",
    "Refused",
    "StageOutcome",
    "Staged",
    "StagesAhead",
    "Store",
    "TryAgain",
]

TOKEN_KEY = "putifabsenttoken"
"""The user metadata key of the token. Letters only: Azure refuses hyphens, proxies drop underscores."""

WRITER_KEY = "putifabsentwriter"
"""The user metadata key of the writer."""

STATE_FOLDER = ".putifabsent"
"""Where the shim keeps what is its own; hidden from listings."""

_NOTHING: Mapping[str, Any] = {}


class Creation(NamedTuple):
    """One attempt to bring a name into being.

    Attributes
    ----------
    token
        Its UUID, kept with the object: "was it me?".
    writer
        The UUID of the application that makes it.
    state
        The folder in which the store may keep its own files for this name.
    extra
        What the caller adds to the put in the wrapped filesystem's words (``ACL=...``, ``metadata=...``).
    """

    token: str
    writer: str
    state: str
    extra: Mapping[str, Any] = _NOTHING


@dataclass(frozen=True, slots=True)
class Created:
    """The bytes are under the name, and this request wrote them."""

    version: str | None = None


@dataclass(frozen=True, slots=True)
class Exists:
    """The store said that the name is there. Nothing was written by *this* request.

    It may well be there by an earlier request of the same creation whose answer was lost, or not be
    there at all (S3 clients give a 409 conflict the same name): look whose it is.

    Attributes
    ----------
    holder
        Who holds it, where the answer itself said so; None wants a :meth:`Store.head`.
    """

    holder: Holder | None = None


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Nothing was written or read, for a reason that passes (S3's 409 ConditionalRequestConflict)."""

    cause: Exception


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was written or read, for a reason that stays: rights, a missing bucket, a full disk.

    Attributes
    ----------
    error
        What to raise: an OSError of the fitting kind, the client's own exception as its cause.
    """

    error: Exception


@dataclass(frozen=True, slots=True)
class Maybe:
    """The request may have been applied, or may still be: its answer was lost, or said "5xx"."""

    cause: Exception


@dataclass(frozen=True, slots=True)
class Found:
    """The name is there."""

    holder: Holder


@dataclass(frozen=True, slots=True)
class Absent:
    """The name is not there now. That never proves that a creation failed."""


@dataclass(frozen=True, slots=True)
class Got:
    """The bytes that were asked for."""

    data: bytes


class Entry(NamedTuple):
    """One line of a listing: a full name, and when the store says it was made."""

    name: str
    created: datetime


@dataclass(frozen=True, slots=True)
class Listed:
    """All names directly in a folder."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Deleted:
    """The name is not there any more, by this request or before it."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The upload to complete is not there: completed by a request whose answer was lost, or removed."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Bytes that the store has, and that nobody can read under the name yet.

    Attributes
    ----------
    name
        The name they are for.
    upload
        The store's own handle (an upload id and its parts, a session address, block ids).
    """

    name: str
    upload: Any = field(repr=False)


CreateOutcome: TypeAlias = Created | Exists | TryAgain | Refused | Maybe
CompleteOutcome: TypeAlias = Created | Exists | TryAgain | Refused | Maybe | Gone
HeadOutcome: TypeAlias = Found | Absent | TryAgain | Refused
GetOutcome: TypeAlias = Got | Absent | TryAgain | Refused
ListOutcome: TypeAlias = Listed | TryAgain | Refused
DeleteOutcome: TypeAlias = Deleted | Refused | Maybe
StageOutcome: TypeAlias = Staged | Absent | TryAgain | Refused


class ConditionalCopy(ABC):
    """A store that can also copy within itself, only if the target is not there. Few servers honour it."""

    @abstractmethod
    def copy(self, source: str, name: str, creation: Creation) -> CreateOutcome:
        """Create ``name`` from the bytes of ``source`` in one request; as for :meth:`Store.create`."""

    async def copy_async(self, source: str, name: str, creation: Creation) -> CreateOutcome:
        """:meth:`copy`, asynchronously."""
        return await asyncio.to_thread(self.copy, source, name, creation)


class StagesAhead(ABC):
    """A store that can also be given a large file while it is still being written."""

    @abstractmethod
    def ahead(self, name: str, file: IO[bytes], creation: Creation) -> Ahead | None:
        """Begin to stage what is written at the end of ``file``.

        The body of the finished file takes it along (:class:`~putifabsent.backends.body.FileBody`), and
        :meth:`Store.stage` makes use of it. Returns None where nobody could run it meanwhile.
        """


class Store(ABC):
    """Holds bytes under names, and decides who creates a name.

    Names are full paths as the wrapped filesystem says them (``bucket/folder/file``, ``/folder/file``).
    Every method has an asynchronous twin; the default one runs it in a thread. All must be safe for
    any number of threads, and after a fork.

    Attributes
    ----------
    kind
        What it is, for people: ``"s3"``, ``"local"``.
    largest_put
        Bodies of more bytes than this are created by :meth:`stage` and :meth:`complete`.
    """

    kind: ClassVar[str]
    largest_put: int

    def endpoint(self) -> str | None:
        """Return the address that requests go to; None where there is none: disk, memory. No network."""
        return None

    @abstractmethod
    def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
        """Write ``body`` under ``name`` in one atomic step, only if the name is not there.

        Parameters
        ----------
        name
            The full name. Its folder must exist where the store has folders.
        body
            At most ``largest_put`` bytes.
        creation
            Its token and writer are kept with the object, for ever, and :meth:`head` gives them back.
            ``extra`` goes with the put; a store that can't honour a key refuses the creation.

        Returns
        -------
        CreateOutcome
            ``Created`` promises that the bytes are durable and that no other request for this name
            was or will be answered ``Created`` while it exists. ``Exists``, ``TryAgain`` and
            ``Refused`` promise that this request wrote nothing *and never will*. Whatever can't be
            promised is ``Maybe``.
        """

    @abstractmethod
    def head(self, name: str) -> HeadOutcome:
        """Say who holds ``name``, by a strongly consistent read.

        A lost answer is ``TryAgain``: reading twice is harmless. ``Absent`` only where the store says
        so itself; a refusal (403) is ``Refused``, for it says nothing about the name.
        """

    @abstractmethod
    def get(self, name: str) -> GetOutcome:
        """Read a whole small object."""

    @abstractmethod
    def list(self, folder: str) -> ListOutcome:
        """List the files directly in ``folder``, by a strongly consistent read. No folder: no entries."""

    @abstractmethod
    def delete(self, name: str, version: str | None = None) -> DeleteOutcome:
        """Remove ``name``; with ``version``, only while it is still that object.

        A store that can't tell versions apart at deletion removes whatever is there, and says so in
        its own docstring.
        """

    @abstractmethod
    def put(self, name: str, body: Body) -> None:
        """Overwrite ``name``, whatever was there. Raises OSError. Never used on a guarded name."""

    @abstractmethod
    def stage(self, name: str, body: Body, creation: Creation) -> StageOutcome:
        """Give the store a body of any size, in parts, unreadable until :meth:`complete`.

        A failure leaves no open upload where the store could still be asked to remove it.
        """

    @abstractmethod
    def stage_copy(
        self, source: str, size: int, version: str | None, name: str, creation: Creation
    ) -> StageOutcome:
        """Stage the bytes of another object, by the store itself where it can.

        Parameters
        ----------
        source, size, version
            The object to copy, as :meth:`head` found it; another one there now is ``Absent``.
        name, creation
            As for :meth:`stage`.
        """

    @abstractmethod
    def complete(self, staged: Staged) -> CompleteOutcome:
        """Publish staged bytes under their name in one atomic step, only if the name is not there.

        As for :meth:`create`; and ``Gone`` where the upload isn't there (any more), and ``TryAgain``
        where the store wants the bytes staged anew.
        """

    @abstractmethod
    def discard(self, staged: Staged) -> None:
        """Remove staged bytes, as well as that can be done. Never raises."""

    async def create_async(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
        """:meth:`create`, asynchronously. Cancelled, its outcome is unknown."""
        return await asyncio.to_thread(self.create, name, body, creation)

    async def head_async(self, name: str) -> HeadOutcome:
        """:meth:`head`, asynchronously."""
        return await asyncio.to_thread(self.head, name)

    async def get_async(self, name: str) -> GetOutcome:
        """:meth:`get`, asynchronously."""
        return await asyncio.to_thread(self.get, name)

    async def list_async(self, folder: str) -> ListOutcome:
        """:meth:`list`, asynchronously."""
        return await asyncio.to_thread(self.list, folder)

    async def delete_async(self, name: str, version: str | None = None) -> DeleteOutcome:
        """:meth:`delete`, asynchronously."""
        return await asyncio.to_thread(self.delete, name, version)

    async def put_async(self, name: str, body: Body) -> None:
        """:meth:`put`, asynchronously."""
        await asyncio.to_thread(self.put, name, body)

    async def stage_async(self, name: str, body: Body, creation: Creation) -> StageOutcome:
        """:meth:`stage`, asynchronously. Cancelled, it leaves no open upload either."""
        return await or_undone(in_thread(lambda: self.stage(name, body, creation)), self._drop)

    async def stage_copy_async(
        self, source: str, size: int, version: str | None, name: str, creation: Creation
    ) -> StageOutcome:
        """:meth:`stage_copy`, asynchronously. Cancelled, it leaves no open upload either."""
        staging = in_thread(lambda: self.stage_copy(source, size, version, name, creation))
        return await or_undone(staging, self._drop)

    async def complete_async(self, staged: Staged) -> CompleteOutcome:
        """:meth:`complete`, asynchronously. Cancelled, its outcome is unknown."""
        return await asyncio.to_thread(self.complete, staged)

    async def discard_async(self, staged: Staged) -> None:
        """:meth:`discard`, asynchronously."""
        await asyncio.to_thread(self.discard, staged)

    async def _drop(self, outcome: StageOutcome) -> None:
        if isinstance(outcome, Staged):
            await self.discard_async(outcome)
