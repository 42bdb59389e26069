"""Google Cloud Storage: ``ifGenerationMatch=0``, in the JSON API.

Small bodies go in one multipart request, large ones through a resumable session whose last chunk creates the
object. The requests use the wrapped gcsfs instance's endpoint and credentials, and are sent once.

Source: the reference of the JSON API, and "Request preconditions" in the Cloud Storage documentation.
"""

from __future__ import annotations

import errno
import json
import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, ClassVar

from putifabsent.backends.base import (
    TOKEN_KEY,
    WRITER_KEY,
    Absent,
    ConditionalCopy,
    Created,
    Deleted,
    Entry,
    Exists,
    Found,
    Got,
    Holder,
    Listed,
    Maybe,
    Refused,
    Staged,
    Store,
    TryAgain,
)
from putifabsent.backends.gcs_client import (
    PROPERTIES,
    Params,
    Sender,
    outcome_of,
    params_of,
    place,
    properties_of,
    unexpected,
)
from putifabsent.backends.gcs_upload import (
    Checksum,
    SessionGoneError,
    Upload,
    finish,
    made,
    object_body,
    remove,
    send_chunks,
)
from putifabsent.backends.object_store import SourceGoneError, bad_key, deleting, reading, unconditional
from putifabsent.backends.server_time import http_date

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gcsfs import GCSFileSystem
    from requests import Response

    from putifabsent.backends.base import (
        CompleteOutcome,
        CreateOutcome,
        Creation,
        DeleteOutcome,
        GetOutcome,
        HeadOutcome,
        ListOutcome,
        PublishOutcome,
        PutOutcome,
        StageOutcome,
    )
    from putifabsent.backends.body import Body

_ABSENT = {"ifGenerationMatch": "0"}
_LISTED = "items(name,timeCreated,generation),nextPageToken"


class GCSStore(Store, ConditionalCopy):
    """The store behind a ``gcsfs.GCSFileSystem``.

    No single request is waited for longer than ``deadline`` seconds, unless ``requests_timeout`` says so.
    """

    kind: ClassVar[str] = "gcs"
    # What a lost answer sends again, and what is held in memory (twice: once in the request's frame).
    largest_put = 16 * 2**20

    def __init__(self, fs: GCSFileSystem, options: Mapping[str, Any], deadline: float) -> None:
        del options  # gcsfs keeps all of them as attributes, with the environment's word for what is left out
        self._fs = fs
        self._sender = Sender(fs, deadline)

    def endpoint(self) -> str:
        """Return the address that requests go to."""
        return self._sender.endpoint

    def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
        """Insert the object with ``ifGenerationMatch=0``."""
        try:
            return self._insert(name, body, creation, _ABSENT)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return outcome_of(error, name)

    def head(self, name: str) -> HeadOutcome:
        """Get the object's resource."""
        try:
            fields = {"fields": ",".join(("name,generation,metadata,size,timeCreated", *PROPERTIES))}
            found = self._sender.call("GET", self._sender.url(*self._split(name)), fields).json()
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return reading(outcome_of(error, name), error)
        metadata, created = found.get("metadata") or {}, _time(found["timeCreated"])
        marks = metadata.get(TOKEN_KEY), metadata.get(WRITER_KEY)
        holder = Holder(*marks, created, int(found["size"]), str(found["generation"]))
        return Found(holder, properties=properties_of(found))

    def time(self, name: str) -> datetime | None:
        """The ``Date`` of an answer about the object's resource."""
        try:
            answer = self._sender.raw("GET", self._sender.url(*self._split(name)), params={"fields": "name"})
        except Exception:  # noqa: BLE001 - without a time nothing is claimed
            return None
        return http_date(answer.headers.get("Date"))

    def get(self, name: str) -> GetOutcome:
        """Get the object's media."""
        try:
            url = self._sender.url(*self._split(name), of="download")
            return Got(self._sender.call("GET", url, {"alt": "media"}).content)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return reading(outcome_of(error, name), error)

    def list(self, folder: str) -> ListOutcome:
        """List the bucket's objects that begin with the folder, page by page."""
        return self._listed(folder, {"delimiter": "/"})

    def walk(self, folder: str) -> ListOutcome:
        """List them with no delimiter, page by page."""
        return self._listed(folder, {})

    def _listed(self, folder: str, where: dict[str, str]) -> ListOutcome:
        bucket, _, prefix = (folder.rstrip("/") + "/").partition("/")
        wanted = {"prefix": prefix, "fields": _LISTED, **where}
        entries: list[Entry] = []
        more: dict[str, str] | None = {}
        while more is not None:
            try:
                page = self._sender.call("GET", self._sender.url(bucket), {**wanted, **more}).json()
            except Exception as error:  # noqa: BLE001 - what it means is decided in one place
                outcome = reading(outcome_of(error, folder), error)
                return Listed(()) if isinstance(outcome, Absent) else outcome
            entries += (
                Entry(f"{bucket}/{o['name']}", _time(o["timeCreated"]), o.get("generation"))
                for o in page.get("items", ())
            )
            following = page.get("nextPageToken")
            more = {"pageToken": following} if following else None
        return Listed(tuple(entries))

    def delete(self, name: str, version: str | None = None) -> DeleteOutcome:
        """Delete the object; with ``version``, only while that is its generation."""
        try:
            condition = {"ifGenerationMatch": version} if version else {}
            self._sender.call("DELETE", self._sender.url(*self._split(name)), condition)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            outcome = outcome_of(error, name)
            # The condition means that another generation is there by now.
            return Deleted() if isinstance(outcome, Exists) else deleting(outcome, error)
        return Deleted()

    def put(self, name: str, body: Body, creation: Creation) -> PutOutcome:
        """Insert the object with no condition; a large one through a resumable session."""
        if body.size > self.largest_put:
            return self._put_in_chunks(name, body, creation)
        try:
            return unconditional(self._insert(name, body, creation, {}), name)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return unconditional(outcome_of(error, name), name, error)

    def publish(self, source: str, name: str, creation: Creation) -> PublishOutcome:
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
                if not isinstance(seen, Found):
                    return seen
                generation = str(seen.holder.version)
                query |= {"sourceGeneration": generation, "ifSourceGenerationMatch": generation}
                answer = self._rewrite(source, name, query)
            while token := answer.json().get("rewriteToken"):
                answer = self._rewrite(source, name, {**query, "rewriteToken": token})
            return unconditional(made(answer, "resource"), name)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            outcome = outcome_of(error, name)
            if isinstance(outcome, Refused) and isinstance(outcome.error, FileNotFoundError):
                return self._missing(source, outcome)
            # The request has no condition on the name: it is the source that is another one by now.
            pinned = "ifSourceGenerationMatch" in query
            is_replaced = pinned and isinstance(outcome, Exists)
            return Absent() if is_replaced else unconditional(outcome, name, error)

    def copy(self, source: str, name: str, creation: Creation) -> CreateOutcome:
        """Rewrite the source to the name with ``ifGenerationMatch=0``; only the last step makes anything."""
        try:
            params = self._params(creation)
            query = {**params.copy_query, **_ABSENT}
            while True:
                answer = self._rewrite(source, name, query, json=params.resource)
                token = answer.json().get("rewriteToken")
                if not token:
                    return made(answer, "resource")
                query["rewriteToken"] = token
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return outcome_of(error, name)

    def stage(self, name: str, body: Body, creation: Creation) -> StageOutcome:
        """Open a resumable session with ``ifGenerationMatch=0``, and send all chunks but the last."""
        return self._stage(name, body, creation, _ABSENT)

    def stage_copy(
        self, source: str, size: int, version: str | None, name: str, creation: Creation
    ) -> StageOutcome:
        """As :meth:`stage`, with bytes read from the source in ranges, all of the same generation."""
        if version is None:
            seen = self.head(source)
            if not isinstance(seen, Found):
                return seen
            size, version = seen.holder.size, str(seen.holder.version)
        try:
            body = object_body(self._sender, *self._split(source), version, size)
        except OSError as error:
            return Refused(error)
        return self.stage(name, body, creation)

    def complete(self, staged: Staged) -> CompleteOutcome:
        """Send the last chunk of the session."""
        return finish(self._sender, staged.upload, staged.name)

    def discard(self, staged: Staged) -> None:
        """Remove the session."""
        upload: Upload = staged.upload
        upload.over = True
        if upload.session:
            remove(self._sender, upload.session)

    def _stage(self, name: str, body: Body, creation: Creation, condition: Mapping[str, str]) -> StageOutcome:
        session = None
        try:
            params = self._params(creation)
            session = self._open_session(name, body.size, params, condition)
            upload = send_chunks(self._sender, session, body, Checksum(params.checksum))
        except BaseException as error:
            if session is not None:
                remove(self._sender, session)
            if not isinstance(error, Exception):
                raise
            return _staging(error, name)
        return Staged(name, upload)

    def _put_in_chunks(self, name: str, body: Body, creation: Creation) -> PutOutcome:
        staged = self._stage(name, body, creation, {})
        if not isinstance(staged, Staged):
            return unconditional(staged, name)
        try:
            outcome = self.complete(staged)
        except BaseException:
            self.discard(staged)
            raise
        if not isinstance(outcome, Created):
            # Nobody completes it again: what is in doubt is put under another name.
            self.discard(staged)
        return unconditional(outcome, name)

    def _rewrite(self, source: str, name: str, query: dict[str, str], **resource: Any) -> Response:
        url = f"{self._sender.url(*self._split(source))}/rewriteTo/{place(*self._split(name))}"
        return self._sender.call("POST", url, query, **resource)

    def _missing(self, source: str, refused: Refused) -> Absent | TryAgain | Refused:
        """Say what a "404" to a copy means: it is the source that is not there, or a bucket."""
        try:
            bucket, key = self._split(source)
            wanted = {"prefix": key, "maxResults": "1", "fields": "items(name)"}
            found = self._sender.call("GET", self._sender.url(bucket), wanted).json().get("items", ())
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            outcome = reading(outcome_of(error, source), error)
            return refused if isinstance(outcome, Absent) else outcome
        # Of all names that begin so, the shortest comes first.
        return refused if key in {each["name"] for each in found} else Absent()

    def _params(self, creation: Creation) -> Params:
        return params_of(creation, self._fs.consistency)

    def _insert(self, name: str, body: Body, creation: Creation, condition: dict[str, str]) -> Created:
        params, (bucket, key), data = self._params(creation), self._split(name), body.whole()
        checksum = Checksum(params.checksum)
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
        return made(answer)

    def _open_session(self, name: str, size: int, params: Params, condition: Mapping[str, str]) -> str:
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
            raise unexpected(answer)
        return session

    def _split(self, name: str) -> tuple[str, str]:
        bucket, key, generation = self._fs.split_path(name)
        if refused := bad_key(name, key):
            raise refused.error
        # Such keys are no object's; as the last step of an address, dots would make it another one.
        if generation or key in {".", ".."}:
            raise OSError(errno.EINVAL, "GCS lets no object be created under this name", name)
        return bucket, key


def _staging(error: Exception, name: str) -> StageOutcome:
    """Say what a failure means for bytes that are not staged."""
    if isinstance(error, SourceGoneError):
        return Absent()
    if isinstance(error, SessionGoneError):
        return TryAgain(error)
    outcome = outcome_of(error, name)
    if isinstance(outcome, Exists):
        # Said before the last chunk: whoever completes will look who holds the name.
        return Staged(name, Upload("", 0, over=True))
    return TryAgain(outcome.cause) if isinstance(outcome, Maybe) else outcome


def _time(text: str) -> datetime:
    """Read RFC 3339 in UTC, with as many digits as there are."""
    whole, _, rest = text.rstrip("Zz").partition(".")
    return datetime.fromisoformat(whole).replace(microsecond=int(f"{rest:0<6}"[:6]), tzinfo=timezone.utc)
