"""What S3, GCS and Azure share: keys, what a failed request means, and when a harmless one is sent again.

An HTTP status means the same everywhere; a client adds what its service's own error codes mean. From the
outcome of a conditional create follows what the same failure means for any other request.

======================  ==============  ===========  =============  ======================
status                  create          read         deletion       write, no condition
======================  ==============  ===========  =============  ======================
412                     Exists          TryAgain     the store's    Refused
409, 429                TryAgain        TryAgain     Maybe          TryAgain
below 300, 408, 5xx     Maybe           TryAgain     Maybe          Maybe
404                     Refused         Absent       Deleted        Refused
501, and any other      Refused         Refused      Refused        Refused
======================  ==============  ===========  =============  ======================

A proxy that does not find its store answers 404, too, for as long as it is being set up, or leads to a page
of its own. S3 says what it misses, but to a look; GCS, but to a download; Azure always. What says nothing is
"lost", and so is a redirect from S3.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from putifabsent.backends import base

if TYPE_CHECKING:
    from collections.abc import Callable


T = TypeVar("T")
Outcome: TypeAlias = base.Exists | base.Gone | base.TryAgain | base.Refused | base.Maybe

Meaning: TypeAlias = Literal["taken", "passes", "lost", "refused"]
"""The name is there; nothing was written, for a reason that passes; nobody knows; for a reason that stays."""

# Neither a 409 nor a 429 was applied: one met another change of the object, one too many of them. A 408 may
# come after the last byte. A success that is none is some proxy's, or an error that came after its status.
# Who answers 501 has no such function (RFC 9110, 15.6.2): Backblaze B2 and Alibaba OSS, to a conditional put.
_STATUSES: dict[int, Meaning] = {408: "lost", 409: "passes", 412: "taken", 429: "passes", 501: "refused"}

FOR_FSSPEC = {"autocommit", "block_size", "cache_options", "cache_type", "callback", "mode"}
"""What fsspec's own methods are told, beside what goes with a put."""

NUMBERS = {401: errno.EACCES, 403: errno.EACCES, 404: errno.ENOENT, 413: errno.EFBIG}
"""By which errno a status refuses: so it is a PermissionError, a FileNotFoundError or a plain OSError."""

LONGEST_KEY = 1024  # bytes of UTF-8: the limit of S3, GCS and Azure alike


class SourceGoneError(FileNotFoundError):
    """The object to copy was removed or replaced."""


def bad_key(name: str, key: str) -> base.Refused | None:
    """Return why ``key`` can't be a key of an object store, or None."""
    try:
        length = len(key.encode())
    except UnicodeEncodeError as error:
        return base.refused(
            errno.EILSEQ, "the key is not valid Unicode, so it has no UTF-8 form", name, error
        )
    if not key:
        return base.refused(errno.EINVAL, "it names a bucket, and no object in it", name)
    if length > LONGEST_KEY:
        return base.refused(errno.ENAMETOOLONG, f"the key has {length} bytes, more than {LONGEST_KEY}", name)
    return None


def by_status(
    error: Exception, status: int, code: Meaning | None
) -> base.Exists | base.TryAgain | base.Maybe | None:
    """Say what an answer that is no success means for a conditional create; None: it is refused.

    The service's own error ``code`` counts for more than the status.
    """
    meaning = code or _STATUSES.get(status) or ("refused" if 300 <= status < 500 else "lost")
    if meaning == "taken":
        return base.Exists()
    if meaning == "passes":
        return base.TryAgain(error)
    return base.Maybe(error) if meaning == "lost" else None


def reading(outcome: Outcome, error: Exception) -> base.Absent | base.TryAgain | base.Refused:
    """Say what a failure with this ``outcome`` means for a read, which may be sent again."""
    if isinstance(outcome, base.Refused):
        return base.Absent() if isinstance(outcome.error, FileNotFoundError) else outcome
    return base.TryAgain(error)


def repeated_page(folder: str) -> base.Refused:
    """Refuse a listing that says that more follows, and leads to where it is: it has no end."""
    return base.refused(
        errno.EPROTO, "the store says that there is more, and names the same page again", folder
    )


def unimplemented(error: Exception, name: str) -> base.Refused:
    """Say what a 501 means."""
    why = (
        "the store answers 501, it does not implement this. If that is the condition of a create, let "
        'another arbiter decide: arbiter="ballot", "dynamodb://TABLE?region=..." or "redis://HOST"'
    )
    return base.refused(errno.EOPNOTSUPP, why, name, error)


def deleting(outcome: Outcome, error: Exception) -> base.DeleteOutcome:
    """Say what a failure with this ``outcome`` means for a deletion: what is not there is deleted."""
    if isinstance(outcome, base.Refused):
        return base.Deleted() if isinstance(outcome.error, FileNotFoundError) else outcome
    return base.Maybe(error)


def unconditional(
    outcome: base.Created | base.Absent | Outcome,
    name: str,
    cause: BaseException | None = None,
) -> base.PutOutcome:
    """Say what the outcome of a create, or of a step of it, means where the request had no condition."""
    if isinstance(outcome, base.Created):
        return base.Written(outcome.version)
    if isinstance(outcome, (base.TryAgain, base.Refused, base.Maybe)):
        return outcome
    if isinstance(outcome, base.Exists):
        return base.refused(errno.EPERM, "the store keeps what is there", name, cause)
    gone = OSError(errno.EIO, "what was to be written is not with the store any more", name)
    return base.Maybe(base.caused(gone, cause))


class StoredBody(base.Body):
    """The bytes of an object as it was found, read in ranges by ``fetch``, all of the same version."""

    __slots__ = ("_fetch", "_name")

    def __init__(self, name: str, size: int, fetch: Callable[[int, int], bytes]) -> None:
        self._name = name
        self._fetch = fetch
        self.size = size

    def read(self, start: int, stop: int) -> bytes:
        if start >= stop:
            return b""
        data = self._fetch(start, stop)
        if len(data) != stop - start:
            raise OSError(f"{self._name}: {len(data)} bytes came where {stop - start} were requested")
        return data


SENDS = 5


def schedule(outcome_of: Callable[[Exception, str], object], sends: int = SENDS) -> dict[str, Any]:
    """Return tenacity's options: so many sends, while an error means "lost" or "try again"."""

    def passes(error: BaseException) -> bool:
        return isinstance(error, Exception) and isinstance(outcome_of(error, ""), (base.Maybe, base.TryAgain))

    return {
        "retry": retry_if_exception(passes),
        "stop": stop_after_attempt(sends),
        "wait": wait_random_exponential(multiplier=0.05, max=2),
        "reraise": True,
    }


def again(outcome_of: Callable[[Exception, str], object], send: Callable[[], T], sends: int = SENDS) -> T:
    """Send what publishes nothing, a few times at most."""
    return Retrying(**schedule(outcome_of, sends))(send)


def is_unpacked(encoding: str | None) -> bool:
    """Whether whoever reads an object of this ``Content-Encoding`` gets it unpacked, as HTTP clients do."""
    return (encoding or "").lower() in {"deflate", "gzip"}


def own_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return user metadata without the marks of its creation."""
    return {
        key: value for key, value in metadata.items() if key.lower() not in (base.TOKEN_KEY, base.WRITER_KEY)
    }


def are_texts(value: object) -> bool:
    """Whether ``value`` maps strings to strings, as all that goes into headers must."""
    if not isinstance(value, Mapping):
        return False
    return all(isinstance(text, str) for pair in value.items() for text in pair)
