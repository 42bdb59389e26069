"""What each answer of a store means, in closed types, so that a protocol can't forget a case.

They are imported from :mod:`putifabsent.backends.base`, with the calls that return them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime

    from putifabsent.errors import Holder

__all__ = [
    "Absent",
    "CompleteOutcome",
    "CreateOutcome",
    "Created",
    "DeleteOutcome",
    "Deleted",
    "Entry",
    "Exists",
    "Found",
    "GetOutcome",
    "Gone",
    "Got",
    "HeadOutcome",
    "ListOutcome",
    "Listed",
    "Maybe",
    "PublishOutcome",
    "PutOutcome",
    "Refused",
    "StageOutcome",
    "Staged",
    "TryAgain",
    "Written",
]


@dataclass(frozen=True, slots=True)
class Created:
    """The bytes are under the name, and this request wrote them.

    Attributes
    ----------
    version
        Which object it is.
    at
        The store's own time of its answer, or None where that does not say it. A store that shows a time
        before that for what came in parts must say it.
    """

    version: str | None = None
    at: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Written:
    """The bytes are under the name, whatever was there before."""

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
    """One line of a listing.

    Attributes
    ----------
    name
        The full name.
    created
        When the store says it was made.
    tag
        Tells these bytes from others that were under the name before or after; None where the listing does
        not. Two tags are compared, nothing else: S3's ETag, GCS's generation, Azure's ETag, a file's inode.
    """

    name: str
    created: datetime
    tag: str | None = None


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
PutOutcome: TypeAlias = Written | TryAgain | Refused | Maybe
PublishOutcome: TypeAlias = Written | Exists | Absent | TryAgain | Refused | Maybe
StageOutcome: TypeAlias = Staged | Absent | TryAgain | Refused
