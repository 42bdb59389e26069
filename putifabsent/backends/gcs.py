"""Google Cloud Storage: ``ifGenerationMatch=0``, in the JSON API.

Small bodies go in one multipart request, large ones through a resumable session whose last chunk creates the
object. The requests use the wrapped gcsfs instance's endpoint and credentials, and are sent once.

Source: the reference of the JSON API, and "Request preconditions" in the Cloud Storage documentation.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import json
import re
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timezone
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar

import requests

from putifabsent.backends import base
from putifabsent.backends import gcs_client as client
from putifabsent.backends.concurrency import stop_here
from putifabsent.backends.object_store import (
    SourceGoneError,
    StoredBody,
    again,
    bad_key,
    deleting,
    is_unpacked,
    reading,
    repeated_page,
    unconditional,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gcsfs import GCSFileSystem

    from putifabsent.backends.concurrency import Stop

_ABSENT = {"ifGenerationMatch": "0"}
_LISTED = "items(name,timeCreated,generation),nextPageToken"


class GCSStore(base.Store):
    """The store behind a ``gcsfs.GCSFileSystem``.

    No single request is waited for longer than ``deadline`` seconds, unless ``requests_timeout`` says so.
    """

    kind: ClassVar[str] = "gcs"
    # What a lost answer sends again, and what is held in memory (twice: once in the request's frame).
    largest_put = 16 * 2**20

    def __init__(self, fs: GCSFileSystem, options: Mapping[str, Any], deadline: float) -> None:
        del options  # gcsfs keeps all of them as attributes, with the environment's word for what is left out
        self._fs = fs
        self._sender = client.Sender(fs, deadline)

    def endpoint(self) -> str:
        return self._sender.endpoint

    def create(self, name: str, body: base.Body, creation: base.Creation) -> base.CreateOutcome:
        """Insert the object with ``ifGenerationMatch=0``."""
        try:
            return self._insert(name, body, creation, _ABSENT)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return client.outcome_of(error, name)

    def head(self, name: str) -> base.HeadOutcome:
        """Get the object's resource."""
        try:
            fields = {"fields": ",".join(("name,generation,metadata,size,timeCreated", *client.PROPERTIES))}
            found = self._sender.resource(self._sender.url(*self._split(name)), fields, "object")
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return reading(client.outcome_of(error, name), error)
        metadata, created = found.get("metadata") or {}, _time(found["timeCreated"])
        marks = metadata.get(base.TOKEN_KEY), metadata.get(base.WRITER_KEY)
        holder = base.Holder(*marks, created, int(found["size"]), str(found["generation"]))
        unpacked = is_unpacked(found.get("contentEncoding"))
        return base.Found(holder, properties=client.properties_of(found), is_unpacked=unpacked)

    def time(self, name: str) -> datetime | None:
        """The ``Date`` of an answer about the object's resource."""
        try:
            answer = self._sender.raw("GET", self._sender.url(*self._split(name)), params={"fields": "name"})
        except Exception:  # noqa: BLE001 - without a time nothing is claimed
            return None
        return base.http_date(answer.headers.get("Date"))

    def get(self, name: str) -> base.GetOutcome:
        """Get the object's media."""
        try:
            url = self._sender.url(*self._split(name), of="download")
            return base.Got(self._sender.media(url, {}))
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return reading(client.outcome_of(error, name), error)

    def list(self, folder: str) -> base.ListOutcome:
        """List the bucket's objects that begin with the folder, page by page."""
        return self._listed(folder, {"delimiter": "/"})

    def walk(self, folder: str) -> base.ListOutcome:
        """List them with no delimiter, page by page."""
        return self._listed(folder, {})

    def _listed(self, folder: str, where: dict[str, str]) -> base.ListOutcome:
        bucket, _, prefix = (folder.rstrip("/") + "/").partition("/")
        wanted = {"prefix": prefix, "fields": _LISTED, **where}
        entries: list[base.Entry] = []
        token: str | None = None
        while True:
            more = {"pageToken": token} if token else {}
            try:
                page = self._sender.resource(self._sender.url(bucket), {**wanted, **more}, "objects")
            except Exception as error:  # noqa: BLE001 - what it means is decided in one place
                outcome = reading(client.outcome_of(error, folder), error)
                return base.Listed(()) if isinstance(outcome, base.Absent) else outcome
            entries += (
                base.Entry(f"{bucket}/{o['name']}", _time(o["timeCreated"]), o.get("generation"))
                for o in page.get("items", ())
            )
            before, token = token, page.get("nextPageToken")
            if not token:
                return base.Listed(tuple(entries))
            if token == before:
                return repeated_page(folder)

    def delete(self, name: str, version: str | None = None) -> base.DeleteOutcome:
        """Delete the object; with ``version``, only while that is its generation."""
        try:
            condition = {"ifGenerationMatch": version} if version else {}
            self._sender.delete(self._sender.url(*self._split(name)), condition)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            outcome = client.outcome_of(error, name)
            # The condition means that another generation is there by now.
            return base.Deleted() if isinstance(outcome, base.Exists) else deleting(outcome, error)
        return base.Deleted()

    def put(self, name: str, body: base.Body, creation: base.Creation) -> base.PutOutcome:
        """Insert the object with no condition; a large one through a resumable session."""
        if body.size > self.largest_put:
            return self._put_in_chunks(name, body, creation)
        try:
            return unconditional(self._insert(name, body, creation, {}), name)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return unconditional(client.outcome_of(error, name), name, error)

    def publish(self, source: str, name: str, creation: base.Creation) -> base.PublishOutcome:
        """Rewrite the source to the name, with no resource: its own metadata and type go with it.

        Within a bucket that is one request, as a rule. Where GCS wants several, the source is pinned by its
        generation, which each of them checks.
        """
        query: dict[str, str] = {}
        try:
            query = self._params(creation).copy_query
            answer = self._rewrite(source, name, query)
            if answer.json().get("rewriteToken"):
                seen = self.head(source)
                if not isinstance(seen, base.Found):
                    return seen
                generation = str(seen.holder.version)
                query |= {"sourceGeneration": generation, "ifSourceGenerationMatch": generation}
                answer = self._rewrite(source, name, query)
            while token := answer.json().get("rewriteToken"):
                answer = self._rewrite(source, name, {**query, "rewriteToken": token})
            return unconditional(_made(answer, "resource"), name)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            outcome = client.outcome_of(error, name)
            if isinstance(outcome, base.Refused) and isinstance(outcome.error, FileNotFoundError):
                # It is the source that is not there, or the name's bucket.
                seen = self.head(source)
                return outcome if isinstance(seen, base.Found) else seen
            # The request has no condition on the name: it is the source that is another one by now.
            pinned = "ifSourceGenerationMatch" in query
            is_replaced = pinned and isinstance(outcome, base.Exists)
            return base.Absent() if is_replaced else unconditional(outcome, name, error)

    def stage(self, name: str, body: base.Body, creation: base.Creation) -> base.StageOutcome:
        """Open a resumable session with ``ifGenerationMatch=0``, and send all chunks but the last."""
        return self._stage(name, body, creation, _ABSENT)

    def stage_copy(
        self, source: str, size: int, version: str | None, name: str, creation: base.Creation
    ) -> base.StageOutcome:
        """As :meth:`stage`, with bytes read from the source in ranges, all of the same generation."""
        if version is None:
            seen = self.head(source)
            if not isinstance(seen, base.Found):
                return seen
            size, version = seen.holder.size, str(seen.holder.version)
        try:
            body = _object_body(self._sender, *self._split(source), version, size)
        except OSError as error:
            return base.Refused(error)
        return self.stage(name, body, creation)

    def complete(self, staged: base.Staged) -> base.CompleteOutcome:
        """Send the last chunk of the session."""
        upload: Upload = staged.upload
        if upload.over:
            return base.Gone()
        outcome: base.CompleteOutcome
        try:
            answer = _publish(self._sender, upload)
            outcome = base.Gone() if answer.status_code in _NO_SESSION else _made(answer)
        except _SessionGoneError:
            outcome = base.Gone()
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            outcome = client.outcome_of(error, staged.name)
        # A session that has ended goes on giving its last answer, whatever becomes of the name.
        upload.over = isinstance(outcome, (base.Created, base.Exists))
        return outcome

    def discard(self, staged: base.Staged) -> None:
        """Remove the session."""
        upload: Upload = staged.upload
        upload.over = True
        if upload.session:
            _remove(self._sender, upload.session)

    def _stage(
        self, name: str, body: base.Body, creation: base.Creation, condition: Mapping[str, str]
    ) -> base.StageOutcome:
        session = None
        try:
            params = self._params(creation)
            session = self._open_session(name, body.size, params, condition)
            upload = _send_chunks(self._sender, session, body, _Checksum(params.checksum))
        except BaseException as error:
            if session is not None:
                _remove(self._sender, session)
            if not isinstance(error, Exception):
                raise
            return _staging(error, name)
        return base.Staged(name, upload)

    def _put_in_chunks(self, name: str, body: base.Body, creation: base.Creation) -> base.PutOutcome:
        staged = self._stage(name, body, creation, {})
        if not isinstance(staged, base.Staged):
            return unconditional(staged, name)
        try:
            outcome = self.complete(staged)
        except BaseException:
            self.discard(staged)
            raise
        if not isinstance(outcome, base.Created):
            # Nobody completes it again: what is in doubt is put under another name.
            self.discard(staged)
        return unconditional(outcome, name)

    def _rewrite(self, source: str, name: str, query: dict[str, str]) -> requests.Response:
        url = f"{self._sender.url(*self._split(source))}/rewriteTo/{client.place(*self._split(name))}"
        return self._sender.call("POST", url, query)

    def _params(self, creation: base.Creation) -> client.Params:
        return client.params_of(creation, self._fs.consistency)

    def _insert(
        self, name: str, body: base.Body, creation: base.Creation, condition: dict[str, str]
    ) -> base.Created:
        params, (bucket, key), data = self._params(creation), self._split(name), body.whole()
        checksum = _Checksum(params.checksum)
        checksum.update(data)
        resource = json.dumps({"name": key, **params.resource, **checksum.resource()})
        boundary = uuid.uuid4().hex
        head = (
            f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{resource}\r\n"
            f"--{boundary}\r\nContent-Type: {params.resource['contentType']}\r\n\r\n"
        )
        answer = self._sender.call(
            "POST",
            self._sender.url(bucket, of="upload"),
            {"uploadType": "multipart", **params.query, **condition},
            data=b"".join((head.encode(), data, f"\r\n--{boundary}--\r\n".encode())),
            headers={"Content-Type": f"multipart/related; boundary={boundary}"},
        )
        return _made(answer)

    def _open_session(self, name: str, size: int, params: client.Params, condition: Mapping[str, str]) -> str:
        bucket, key = self._split(name)
        answer = self._sender.call(
            "POST",
            self._sender.url(bucket, of="upload"),
            # The name stands in the address for the sake of emulators that look for it there.
            {"uploadType": "resumable", "name": key, **params.query, **condition},
            json={"name": key, **params.resource},
            headers={
                "X-Upload-Content-Type": params.resource["contentType"],
                "X-Upload-Content-Length": str(size),
            },
        )
        session: str | None = answer.headers.get("Location")
        if session is None:
            raise client.unexpected(answer)
        return session

    def _split(self, name: str) -> tuple[str, str]:
        bucket, key, generation = self._fs.split_path(name)
        if refused := bad_key(name, key):
            raise refused.error
        # Such keys are no object's; as the last step of an address, dots would make it another one.
        if generation or key in {".", ".."}:
            raise OSError(errno.EINVAL, "GCS lets no object be created under this name", name)
        return bucket, key


def _staging(error: Exception, name: str) -> base.StageOutcome:
    """Say what a failure means for bytes that are not staged."""
    if isinstance(error, SourceGoneError):
        return base.Absent()
    if isinstance(error, _SessionGoneError):
        return base.TryAgain(error)
    outcome = client.outcome_of(error, name)
    if isinstance(outcome, base.Exists):
        # Said before the last chunk: whoever completes will look who holds the name.
        return base.Staged(name, Upload("", 0, over=True))
    return base.TryAgain(outcome.cause) if isinstance(outcome, base.Maybe) else outcome


def _time(text: str) -> datetime:
    """Read RFC 3339 in UTC, with as many digits as there are."""
    whole, _, rest = text.rstrip("Zz").partition(".")
    return datetime.fromisoformat(whole).replace(microsecond=int(f"{rest:0<6}"[:6]), tzinfo=timezone.utc)


# --- resumable sessions
#
# All of a body but its last chunk is staged, and the last chunk creates the object. A session takes its bytes
# in order, makes at most one object, and ignores bytes at an offset that it already has. So a chunk whose
# answer was lost is sent again as it was. Asking the session first how much of it has arrived would do, too,
# on GCS, but fake-gcs-server takes that question for the end of the body.
#
# Source: "Perform resumable uploads" and "Resumable uploads" in the Cloud Storage documentation.

_CHUNK = 16 * 2**20  # a multiple of 256 KiB, as GCS wants; what one staging keeps in memory
_NO_SESSION = {404, 410, 499}
_RESUME = HTTPStatus.PERMANENT_REDIRECT
_RANGE = re.compile(r"bytes=0-(\d+)$")


class _ShortError(requests.RequestException):
    """The session has taken less than it was offered."""


class _SessionGoneError(Exception):
    """The session is not there any more, or has lost bytes that it had: they must be sent to another."""


class _Checksum:
    """A running checksum that the store is to compare before it creates the object; "" for none."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._sum: Any = hashlib.md5(usedforsecurity=False) if kind == "md5" else None
        if kind == "crc32c":
            import google_crc32c

            make: Any = google_crc32c.Checksum
            self._sum = make()

    def update(self, data: bytes) -> None:
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


def _object_body(sender: client.Sender, bucket: str, key: str, generation: str, size: int) -> base.Body:
    """Return the bytes of an object as it was found, all of the same generation."""
    url = sender.url(bucket, key, of="download")

    def fetch(start: int, stop: int) -> bytes:
        span = {"Range": f"bytes={start}-{stop - 1}"}
        try:
            return sender.media(url, {"generation": generation}, headers=span)
        except requests.HTTPError as error:
            if error.response is not None and error.response.status_code == HTTPStatus.NOT_FOUND:
                raise SourceGoneError(errno.ENOENT, "it was removed or replaced", url) from error
            raise

    return StoredBody(url, size, lambda *span: again(client.outcome_of, lambda: fetch(*span)))


def _send_chunks(sender: client.Sender, session: str, body: base.Body, checksum: _Checksum) -> Upload:
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


def _remove(sender: client.Sender, session: str) -> None:
    """Remove a session, as well as that can be done."""
    with contextlib.suppress(Exception):
        again(client.outcome_of, lambda: _gone(sender.raw("DELETE", session)), sends=2)


def _made(answer: requests.Response, *within: str) -> base.Created:
    """Return the creation that ``answer`` tells of; one that tells of none is an error."""
    try:
        resource = answer.json()
        for key in within:
            resource = resource[key]
        return base.Created(str(resource["generation"]), base.http_date(answer.headers.get("Date")))
    except (ValueError, KeyError, TypeError):
        # Also what is no success at all.
        raise client.unexpected(answer) from None


def _send_chunk(sender: client.Sender, session: str, data: bytes, start: int, stop: Stop) -> None:
    kept, end = start, start + len(data)

    def send() -> None:
        nonlocal kept
        stop.heed()
        headers = {"Content-Range": f"bytes {kept}-{end - 1}/*"}
        kept = _kept(sender.raw("PUT", session, data=data[kept - start :], headers=headers))
        if kept < start:
            raise _SessionGoneError(f"a session that had {start} bytes now has {kept}")
        if kept < end:
            raise _ShortError(f"a session took {kept - start} bytes of {len(data)}")

    again(client.outcome_of, send)


def _publish(sender: client.Sender, upload: Upload) -> requests.Response:
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
            raise _SessionGoneError(f"a session that had {before} bytes now has {kept}")


def _kept(answer: requests.Response) -> int:
    """Return how many bytes the session says it has."""
    if answer.status_code in _NO_SESSION:
        raise _SessionGoneError(str(client.unexpected(answer)))
    if answer.status_code != _RESUME:
        raise client.unexpected(answer)
    match = _RANGE.match(answer.headers.get("Range", ""))
    return int(match[1]) + 1 if match else 0


def _gone(answer: requests.Response) -> None:
    if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise client.unexpected(answer)
