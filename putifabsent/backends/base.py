"""What a store must promise, call by call, and what each answer means.

A store never decides what a failed call means for a *creation*; it says what it knows, in a closed type,
so that a protocol can't forget a case.

No store may send a request twice on its own: a client's retries are off, the hidden ones too. Only the
protocol knows whether a second send is harmless.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import IO, TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

from putifabsent.backends.concurrency import stopped_or_undone, twin
from putifabsent.errors import ConfigError
from putifabsent.errors import Holder as Holder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

TOKEN_KEY = "putifabsenttoken"
"""The user metadata key of the token. Letters only: Azure refuses hyphens, proxies drop underscores."""

WRITER_KEY = "putifabsentwriter"  # that of the writer
STATE_FOLDER = ".putifabsent"  # where the shim keeps what is its own; hidden from listings

E = TypeVar("E", bound=Exception)

_NOTHING: Mapping[str, Any] = {}


class Creation(NamedTuple):
    """One attempt to bring a name into being."""

    token: str  # its UUID, kept with the object: "was it me?"
    writer: str  # the UUID of the application that makes it
    state: str  # the folder in which the store may keep its own files for this name
    extra: Mapping[str, Any] = _NOTHING
    """What the caller adds to the put in the wrapped filesystem's words (``ACL=...``, ``metadata=...``)."""
    first_try: int = 0
    """With which number the keys begin that an arbiter's protocol makes of the token: of several who may use
    one at the same time, each has another."""


@dataclass(frozen=True, slots=True)
class Created:
    """The bytes are under the name, and this request wrote them."""

    version: str | None = None  # which object it is
    at: datetime | None = field(default=None, compare=False)
    """The store's own time of its answer, or None where that does not say it. A store that shows a time
    before that for what came in parts must say it."""
    again: bool = field(default=False, compare=False)
    """Whether an earlier request has written them: of this creation, but maybe of another run of it."""


@dataclass(frozen=True, slots=True)
class Written:
    """The bytes are under the name, whatever was there before."""

    version: str | None = None


@dataclass(frozen=True, slots=True)
class Exists:
    """The store answered that the name is there. Nothing was written by *this* request.

    It may well be there by an earlier request of the same creation whose answer was lost, or not be
    there at all (S3 clients give a 409 conflict the same name): look whose it is.
    """

    holder: Holder | None = None  # where the answer itself has it; None wants a :meth:`Store.head`


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Nothing was written or read, for a reason that passes (S3's 409 ConditionalRequestConflict)."""

    cause: Exception


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was written or read, for a reason that stays: rights, a missing bucket, a full disk."""

    error: Exception  # what to raise: an OSError of the fitting kind, the client's own exception as its cause


@dataclass(frozen=True, slots=True)
class Maybe:
    """The request may have been applied, or may still be: its answer was lost, or is "5xx"."""

    cause: Exception


@dataclass(frozen=True, slots=True)
class Found:
    """The name is there."""

    holder: Holder
    properties: Mapping[str, Any] = field(default_factory=dict, compare=False, kw_only=True)
    """Its user metadata, type and the like, as parameters of a put: what a copy keeps."""
    is_unpacked: bool = field(default=False, compare=False, kw_only=True)
    """Whether it is kept compressed, and unpacked for who reads it, who gets more bytes than its size."""


@dataclass(frozen=True, slots=True)
class Absent:
    """The name is not there now. That never proves that a creation failed."""


@dataclass(frozen=True, slots=True)
class Got:
    """The bytes that were requested."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Described:
    """What the wrapped filesystem says of an object: its ``info``."""

    info: dict[str, Any]


class Entry(NamedTuple):
    """One line of a listing."""

    name: str  # the full one
    created: datetime  # when the store says it was made
    tag: str | None = None
    """Tells these bytes from others that were under the name before or after; None where the listing does
    not. Two tags are compared, nothing else: S3's ETag, GCS's generation, Azure's ETag, a file's inode."""


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
    """Bytes that the store has, and that nobody can read under the name yet."""

    name: str  # which they are for
    upload: Any = field(repr=False)  # the store's handle: an upload id and its parts, an address, block ids


CreateOutcome: TypeAlias = Created | Exists | TryAgain | Refused | Maybe
CompleteOutcome: TypeAlias = Created | Exists | TryAgain | Refused | Maybe | Gone
HeadOutcome: TypeAlias = Found | Absent | TryAgain | Refused
GetOutcome: TypeAlias = Got | Absent | TryAgain | Refused
DescribeOutcome: TypeAlias = Described | Absent | TryAgain | Refused
ListOutcome: TypeAlias = Listed | TryAgain | Refused
DeleteOutcome: TypeAlias = Deleted | Refused | Maybe
PutOutcome: TypeAlias = Written | TryAgain | Refused | Maybe
PublishOutcome: TypeAlias = Written | Exists | Absent | TryAgain | Refused | Maybe
StageOutcome: TypeAlias = Staged | Absent | TryAgain | Refused


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a probe says of one operation of a store."""

    operation: str  # ``"put"``, ``"complete"``, ``"list"`` or ``"publish"``
    safe: bool  # whether no fault was found. No proof: a probe can prove a store unsafe, never safe.
    evidence: str  # what was seen, in a sentence with its figures


class Body(ABC):
    """The bytes of a creation: immutable, of known size, and readable any number of times, by any threads.

    A creation may have to be sent more than once, so its bytes must be there more than once: in memory, in a
    file, or in an object of the store itself.
    """

    __slots__ = ("size",)
    size: int  # bytes in all

    @abstractmethod
    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes ``[start, stop)``; a body that has changed underneath raises OSError."""

    def ranges(self, length: int) -> Iterator[tuple[int, int]]:
        """Cut the body into ``[start, stop)`` ranges of at most ``length`` bytes, one even if empty."""
        for start in range(0, max(self.size, 1), length):
            yield start, min(start + length, self.size)

    def whole(self) -> bytes:
        """Return all bytes at once."""
        return self.read(0, self.size)


class InMemory(Body):
    """A body in memory."""

    __slots__ = ("data",)

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        # A caller's buffer may change under a second send; bytes can't. And `bytes` takes numbers, too.
        self.data = data if type(data) is bytes else bytes(memoryview(data))
        self.size = len(self.data)

    def read(self, start: int, stop: int) -> bytes:
        return self.data[start:stop]

    def whole(self) -> bytes:
        """Return the bytes themselves, uncopied."""
        return self.data


class Describes(ABC):
    """A store whose reads answer for the wrapped filesystem, in one request where that sends two."""

    @abstractmethod
    def answers_for(self, name: str) -> bool:
        """Whether mount and name mean the same to its reads as to the wrapped filesystem."""

    @abstractmethod
    def describe(self, name: str) -> DescribeOutcome:
        """Say of an object what the wrapped filesystem says of it; as for :meth:`Store.head`."""

    describe_async = twin(describe)


class Store(ABC):
    """Holds bytes under names, and decides who creates a name.

    Names are full paths as the wrapped filesystem says them (``bucket/folder/file``, ``/folder/file``).
    Every method has an asynchronous twin; the default one runs it in a thread, 64 at the same time. All must
    be safe for any number of threads, and after a fork; a client has connections for so many.
    """

    kind: ClassVar[str]  # what it is, for people: ``"s3"``, ``"local"``
    largest_put: int  # bodies of more bytes are created by :meth:`stage` and :meth:`complete`
    largest_publish: int = sys.maxsize  # objects of more bytes can't be published

    def endpoint(self) -> str | None:
        """Return the address that requests go to; None where there is none: disk, memory. No network."""
        return None

    def lists_in_order(self, name: str) -> bool:
        """Return whether :meth:`list` keeps its promise of an order where ``name`` is. No network."""
        del name
        return True

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
        """List the files directly in ``folder``, by a strongly consistent read. No folder: no entries.

        It shows one moment; or, where it comes in parts, each name is looked for after all that sort before
        it. Whoever sees an entry knows then that nothing behind it was there at that time and is not shown.
        """

    @abstractmethod
    def walk(self, folder: str) -> ListOutcome:
        """List all files below ``folder``, at whatever depth. No folder: no entries.

        What is there all the while is among them; it need not show one moment.
        """

    @abstractmethod
    def delete(self, name: str, version: str | None = None) -> DeleteOutcome:
        """Remove ``name``; with ``version``, only while it is still that object.

        A store that can't tell versions apart at deletion removes whatever is there, and says so in
        its own docstring.
        """

    @abstractmethod
    def put(self, name: str, body: Body, creation: Creation) -> PutOutcome:
        """Write ``body`` under ``name`` in one atomic step, whatever was there.

        Parameters
        ----------
        name
            A name of the shim's own: salted, or below a state folder. Never a guarded one. Where the store
            has folders, those of the shim's own are made.
        body
            Of any size. One of more than ``largest_put`` bytes may go in parts; only what shows it to
            readers is sent once, and nothing is left open by a failure where the store can still be reached.
        creation
            As for :meth:`create`: kept with the object, and with it what mount and caller add to puts.

        Returns
        -------
        PutOutcome
            ``Written`` promises that the bytes are durable, and that every later read and listing, whoever's,
            shows them. ``TryAgain`` and ``Refused`` promise that this request wrote nothing *and never will*.
        """

    @abstractmethod
    def publish(self, source: str, name: str, creation: Creation) -> PublishOutcome:
        """Copy ``source`` to ``name`` in one atomic step, by the store itself.

        Parameters
        ----------
        source
            What :meth:`put` wrote. Its bytes go with its token, its writer and its other metadata.
        name
            The plain name. Its folder must exist where the store has folders.
        creation
            What mount and caller add to puts goes with the copy too, but for what ``source`` says of itself.
            Token and writer are ``source``'s, not these.

        Returns
        -------
        PublishOutcome
            ``Absent`` promises that ``source`` was not there, and that nothing was written. That is what
            makes deletion safe: what was deleted, its source first, nobody publishes again. (A copy that had
            begun before may still come off: its token tells that it has ended.) A store that overwrites never
            says ``Exists``; one that can't says it of another object than ``source``. Sent once; publishing
            twice is harmless.
        """

    @abstractmethod
    def stage(self, name: str, body: Body, creation: Creation) -> StageOutcome:
        """Give the store a body of any size, in parts, unreadable until :meth:`complete`.

        A failure leaves no open upload where the store could still be reached to remove it.
        """

    @abstractmethod
    def stage_copy(
        self, source: str, size: int, version: str | None, name: str, creation: Creation
    ) -> StageOutcome:
        """Stage the bytes of another object, as :meth:`head` found it, by the store itself where it can.

        Another one there now is ``Absent``. Name and creation are as for :meth:`stage`.
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

    def time(self, name: str) -> datetime | None:
        """Return the store's own time, by the clock that dates its objects; None where it can't be had.

        ``name``, there or not, says whose server is meant.
        """
        del name
        return None

    create_async = twin(create)
    head_async = twin(head)
    get_async = twin(get)
    list_async = twin(list)  # noqa: A003 - the method, not the type
    walk_async = twin(walk)
    delete_async = twin(delete)
    put_async = twin(put)
    publish_async = twin(publish)
    complete_async = twin(complete)
    discard_async = twin(discard)
    time_async = twin(time)

    async def stage_async(self, name: str, body: Body, creation: Creation) -> StageOutcome:
        """:meth:`stage`, asynchronously. Cancelled, it leaves no open upload either."""
        return await stopped_or_undone(lambda: self.stage(name, body, creation), self._drop)

    async def stage_copy_async(
        self, source: str, size: int, version: str | None, name: str, creation: Creation
    ) -> StageOutcome:
        """:meth:`stage_copy`, asynchronously. Cancelled, it leaves no open upload either."""
        copying = (source, size, version, name, creation)
        return await stopped_or_undone(lambda: self.stage_copy(*copying), self._drop)

    async def _drop(self, outcome: StageOutcome) -> None:
        if isinstance(outcome, Staged):
            await self.discard_async(outcome)


class WholeStore(Store):
    """A store whose :meth:`create` takes a body of any size."""

    largest_put = sys.maxsize

    def stage(self, name: str, body: Body, creation: Creation) -> StageOutcome:
        """Keep the body; nothing reaches the store yet."""
        # A list, for it can be emptied: what was published or discarded can't be published any more.
        return Staged(name, [(body, creation)])

    def stage_copy(
        self, source: str, size: int, version: str | None, name: str, creation: Creation
    ) -> StageOutcome:
        """Read the source, and keep its bytes."""
        del size
        seen = self.head(source)
        if not isinstance(seen, Found):
            return seen
        if version is not None and seen.holder.version != version:
            return Absent()
        got = self.get(source)
        return self.stage(name, InMemory(got.data), creation) if isinstance(got, Got) else got

    def complete(self, staged: Staged) -> CompleteOutcome:
        """Create the name from the kept body."""
        kept = tuple(staged.upload)
        if not kept:
            return Gone()
        outcome = self.create(staged.name, *kept[0])
        if isinstance(outcome, Created):
            staged.upload.clear()
        return outcome

    def discard(self, staged: Staged) -> None:
        """Forget the body; nothing was sent."""
        staged.upload.clear()


def http_date(text: str | None) -> datetime | None:
    """Read HTTP's ``Date``: the second that had begun; None for none."""
    try:
        return parsedate_to_datetime(text or "").astimezone(timezone.utc)
    except (TypeError, ValueError):
        return None


def caused(error: E, cause: BaseException | None) -> E:
    """Return ``error`` with what it is made of: a client library's own exception stays as the cause."""
    error.__cause__ = cause
    return error


def refused(number: int, why: str, name: str, cause: BaseException | None = None) -> Refused:
    """Refuse by an OSError of the number's kind: that of ``EACCES`` is a PermissionError."""
    return Refused(caused(OSError(number, why, name), cause))


def unsupported(kind: str, keys: Iterable[str]) -> ConfigError:
    """Return the error for parameters ``keys`` that a guarded put on a ``kind`` store can't carry."""
    names = ", ".join(sorted(keys))
    return ConfigError(f"a guarded put on {kind} can't carry {names}: leave it out of this call")


def read_at(file: int, start: int, stop: int, name: object) -> bytes:
    """Return ``[start, stop)`` by positioned reads, so that threads don't disturb each other."""
    pieces = []
    while start < stop:
        piece = os.pread(file, stop - start, start)
        if not piece:
            raise OSError(f"{name!s} became shorter while it was being sent")
        pieces.append(piece)
        start += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def write_all(file: IO[bytes], view: memoryview) -> None:
    """Write all of ``view``: a file without a buffer may take less than it is given."""
    while view:
        view = view[file.write(view) :]


def read_whole(body: Body) -> bytes | Refused:
    """Return all bytes of ``body``, or why they can't be read.

    Apart from the request that sends them: an OSError of the one is a lost answer, of the other it is not.
    """
    try:
        return body.whole()
    except OSError as error:
        return Refused(error)
