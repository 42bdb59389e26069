"""Resumable sessions: all of a body but its last chunk is staged, and the last chunk creates the object.

A session takes its bytes in order, makes at most one object, and ignores bytes at an offset that it already
has. So a chunk whose answer was lost is sent again as it was. Asking the session first how much of it has
arrived would do as well on GCS, but fake-gcs-server takes that question for the end of the body.

Source: "Perform resumable uploads" and "Resumable uploads" in the Cloud Storage documentation.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import re
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import requests

from putifabsent.backends.base import Created, Exists, Gone
from putifabsent.backends.cancellation import stop_here
from putifabsent.backends.gcs_client import outcome_of, unexpected
from putifabsent.backends.object_store import SourceGoneError, StoredBody, again
from putifabsent.backends.server_time import http_date

if TYPE_CHECKING:
    from putifabsent.backends.base import CompleteOutcome
    from putifabsent.backends.body import Body
    from putifabsent.backends.cancellation import Stop
    from putifabsent.backends.gcs_client import Sender

_CHUNK = 16 * 2**20  # a multiple of 256 KiB, as GCS wants; what one staging keeps in memory
_NO_SESSION = {404, 410, 499}
_RESUME = HTTPStatus.PERMANENT_REDIRECT
_RANGE = re.compile(r"bytes=0-(\d+)$")


class _ShortError(requests.RequestException):
    """The session has taken less than it was offered."""


class SessionGoneError(Exception):
    """The session is not there any more, or has lost bytes that it had: they must be sent to another."""


class Checksum:
    """A running checksum that the store is to compare before it creates the object; "" for none."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._sum: Any = hashlib.md5(usedforsecurity=False) if kind == "md5" else None
        if kind == "crc32c":
            import google_crc32c

            make: Any = google_crc32c.Checksum
            self._sum = make()

    def update(self, data: bytes) -> None:
        """Go on with these bytes."""
        if self._sum is not None:
            self._sum.update(data)

    def resource(self) -> dict[str, str]:
        """Say it in an object resource."""
        name = {"md5": "md5Hash", "crc32c": "crc32c"}
        return {name[self._kind]: self._text()} if self._kind else {}

    def header(self) -> dict[str, str]:
        """Say it in a header of the last request of a session."""
        return {"X-Goog-Hash": f"{self._kind}={self._text()}"} if self._kind else {}

    def _text(self) -> str:
        return base64.b64encode(self._sum.digest()).decode()


@dataclass
class Upload:
    """An open session: where it is, and the chunk that it still needs."""

    session: str = field(repr=False)  # its address, which is also the right to write to it
    size: int
    start: int = 0  # where the last chunk begins
    last: bytes = field(default=b"", repr=False)
    headers: dict[str, str] = field(default_factory=dict)  # what goes with the last chunk
    over: bool = False
    """Nothing more can come of it: it has made its object, heard that the name is there, or was discarded."""


def object_body(sender: Sender, bucket: str, key: str, generation: str, size: int) -> Body:
    """Return the bytes of an object as it was found, all of the same generation."""
    url = sender.url(bucket, key, of="download")
    params = {"alt": "media", "generation": generation}

    def fetch(start: int, stop: int) -> bytes:
        span = {"Range": f"bytes={start}-{stop - 1}"}
        try:
            return bytes(sender.call("GET", url, params, headers=span).content)
        except requests.HTTPError as error:
            if error.response is not None and error.response.status_code == HTTPStatus.NOT_FOUND:
                raise SourceGoneError(errno.ENOENT, "it was removed or replaced", url) from error
            raise

    return StoredBody(url, size, lambda *span: again(outcome_of, lambda: fetch(*span)))


def send_chunks(sender: Sender, session: str, body: Body, checksum: Checksum) -> Upload:
    """Send all chunks but the last, which is returned with the upload."""
    stop = stop_here()
    start = max(body.size - 1, 0) // _CHUNK * _CHUNK
    for begin in range(0, start, _CHUNK):
        data = body.read(begin, begin + _CHUNK)
        checksum.update(data)
        _send_chunk(sender, session, data, begin, stop)
    stop.heed()
    last = body.read(start, body.size)
    checksum.update(last)
    return Upload(session, body.size, start, last, checksum.header())


def finish(sender: Sender, upload: Upload, name: str) -> CompleteOutcome:
    """Send the last chunk, which makes the object; as for ``Store.complete``."""
    if upload.over:
        return Gone()
    outcome: CompleteOutcome
    try:
        answer = _publish(sender, upload)
        outcome = Gone() if answer.status_code in _NO_SESSION else made(answer)
    except SessionGoneError:
        outcome = Gone()
    except Exception as error:  # noqa: BLE001 - what it means is decided in one place
        outcome = outcome_of(error, name)
    # A session that has ended goes on giving its last answer, whatever becomes of the name.
    upload.over = isinstance(outcome, (Created, Exists))
    return outcome


def remove(sender: Sender, session: str) -> None:
    """Remove a session, as well as that can be done."""
    with contextlib.suppress(Exception):
        again(outcome_of, lambda: _gone(sender.raw("DELETE", session)), sends=2)


def made(answer: requests.Response, *within: str) -> Created:
    """Return the creation that ``answer`` tells of; one that tells of none is an error."""
    try:
        resource = answer.json()
        for key in within:
            resource = resource[key]
        return Created(str(resource["generation"]), http_date(answer.headers.get("Date")))
    except (ValueError, KeyError, TypeError):
        # Also what is no success at all.
        raise unexpected(answer) from None


def _send_chunk(sender: Sender, session: str, data: bytes, start: int, stop: Stop) -> None:
    kept, end = start, start + len(data)

    def send() -> None:
        nonlocal kept
        stop.heed()
        headers = {"Content-Range": f"bytes {kept}-{end - 1}/*"}
        kept = _kept(sender.raw("PUT", session, data=data[kept - start :], headers=headers))
        if kept < start:
            raise SessionGoneError(f"a session that had {start} bytes now has {kept}")
        if kept < end:
            raise _ShortError(f"a session took {kept - start} bytes of {len(data)}")

    again(outcome_of, send)


def _publish(sender: Sender, upload: Upload) -> requests.Response:
    """Send the last chunk until the session has ended, and return what it says then."""
    kept = upload.start
    while True:
        span = f"{kept}-{upload.size - 1}" if kept < upload.size else "*"
        headers = {**upload.headers, "Content-Range": f"bytes {span}/{upload.size}"}
        answer = sender.raw("PUT", upload.session, data=upload.last[kept - upload.start :], headers=headers)
        if answer.status_code != _RESUME:
            return answer
        before, kept = kept, _kept(answer)
        if kept <= before:
            raise SessionGoneError(f"a session that had {before} bytes now has {kept}")


def _kept(answer: requests.Response) -> int:
    """Return how many bytes the session says it has."""
    if answer.status_code in _NO_SESSION:
        raise SessionGoneError(str(unexpected(answer)))
    if answer.status_code != _RESUME:
        raise unexpected(answer)
    match = _RANGE.match(answer.headers.get("Range", ""))
    return int(match[1]) + 1 if match else 0


def _gone(answer: requests.Response) -> None:
    if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise unexpected(answer)
