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
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from putifabsent.backends.base import (
    TOKEN_KEY,
    WRITER_KEY,
    Absent,
    ConditionalCopy,
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
from putifabsent.backends.gcs_sender import Sender, outcome_of, place, unexpected
from putifabsent.backends.gcs_upload import (
    Checksum,
    ObjectBody,
    SessionGoneError,
    SourceGoneError,
    Upload,
    finish,
    made,
    remove,
    send_chunks,
)
from putifabsent.backends.refusals import bad_key, unsupported
from putifabsent.backends.single_send import are_texts
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gcsfs import GCSFileSystem

    from putifabsent.backends.base import (
        CompleteOutcome,
        Created,
        CreateOutcome,
        Creation,
        DeleteOutcome,
        GetOutcome,
        HeadOutcome,
        ListOutcome,
        StageOutcome,
    )
    from putifabsent.backends.body import Body

__all__ = ["GCSStore"]

_ABSENT = {"ifGenerationMatch": "0"}
_TYPE = "application/octet-stream"
_FIXED_KEYS = {
    "cache_control": "cacheControl",
    "content_disposition": "contentDisposition",
    "content_encoding": "contentEncoding",
    "content_language": "contentLanguage",
    "custom_time": "customTime",
}
# gcsfs writes them in small letters.
_ACLS = {
    acl.lower(): acl
    for acl in (
        "authenticatedRead",
        "bucketOwnerFullControl",
        "bucketOwnerRead",
        "private",
        "projectPrivate",
        "publicRead",
    )
}
_CARRIED = {"acl", "consistency", "content_type", "fixed_key_metadata", "kms_key_name", "metadata"}
_FOR_THE_CLIENT = {
    "autocommit",
    "block_size",
    "cache_options",
    "cache_type",
    "callback",
    "chunksize",
    "concurrency",
    "finalize_on_close",
    "mode",
    "timeout",
}


class _Words(NamedTuple):
    """What a creation says beside its bytes: of the object, in the address, and the checksum to send."""

    resource: dict[str, Any]
    params: dict[str, str]
    checksum: str


class GCSStore(Store, ConditionalCopy):
    """The store behind a ``gcsfs.GCSFileSystem``.

    Parameters
    ----------
    fs
        The wrapped filesystem.
    options
        What it was made with.
    deadline
        Seconds; no single request is waited for longer, unless ``requests_timeout`` says so.
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
        words = self._words(creation)
        if isinstance(words, Refused):
            return words
        try:
            bucket, key = self._split(name)
            return self._insert(bucket, key, body.whole(), words, _ABSENT)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return outcome_of(error, name)

    def head(self, name: str) -> HeadOutcome:
        """Get the object's resource."""
        try:
            bucket, key = self._split(name)
            fields = {"fields": "name,generation,metadata,size,timeCreated"}
            found = self._sender.call("GET", self._sender.url(bucket, key), fields).json()
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return _reading(error, name)
        metadata = found.get("metadata") or {}
        return Found(
            Holder(
                metadata.get(TOKEN_KEY),
                metadata.get(WRITER_KEY),
                _time(found["timeCreated"]),
                int(found["size"]),
                str(found["generation"]),
            )
        )

    def get(self, name: str) -> GetOutcome:
        """Get the object's media."""
        try:
            bucket, key = self._split(name)
            url = self._sender.url(bucket, key, of="download")
            return Got(self._sender.call("GET", url, {"alt": "media"}).content)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return _reading(error, name)

    def list(self, folder: str) -> ListOutcome:
        """List the bucket's objects that begin with the folder, page by page."""
        bucket, _, prefix = (folder.rstrip("/") + "/").partition("/")
        wanted = {"prefix": prefix, "delimiter": "/", "fields": "items(name,timeCreated),nextPageToken"}
        entries: list[Entry] = []
        more: dict[str, str] | None = {}
        while more is not None:
            try:
                page = self._sender.call("GET", self._sender.url(bucket), {**wanted, **more}).json()
            except Exception as error:  # noqa: BLE001 - what it means is decided in one place
                outcome = _reading(error, folder)
                return Listed(()) if isinstance(outcome, Absent) else outcome
            entries += (
                Entry(f"{bucket}/{o['name']}", _time(o["timeCreated"])) for o in page.get("items", ())
            )
            following = page.get("nextPageToken")
            more = {"pageToken": following} if following else None
        return Listed(tuple(entries))

    def delete(self, name: str, version: str | None = None) -> DeleteOutcome:
        """Delete the object; with ``version``, only while that is its generation."""
        try:
            bucket, key = self._split(name)
            condition = {"ifGenerationMatch": version} if version else {}
            self._sender.call("DELETE", self._sender.url(bucket, key), condition)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            outcome = outcome_of(error, name)
            if isinstance(outcome, Refused):
                return Deleted() if isinstance(outcome.error, FileNotFoundError) else outcome
            return Deleted() if isinstance(outcome, Exists) else Maybe(outcome.cause)
        return Deleted()

    def put(self, name: str, body: Body) -> None:
        """Insert the object with no condition."""
        try:
            bucket, key = self._split(name)
            self._insert(bucket, key, body.whole(), _Words({"contentType": _TYPE}, {}, ""), {})
        except Exception as error:
            outcome = outcome_of(error, name)
            if isinstance(outcome, Refused):
                raise outcome.error from error
            raise OSError(errno.EIO, str(error), name) from error

    def copy(self, source: str, name: str, creation: Creation) -> CreateOutcome:
        """Rewrite the source to the name with ``ifGenerationMatch=0``; only the last step makes anything."""
        words = self._words(creation)
        if isinstance(words, Refused):
            return words
        changed = {"predefinedAcl": "destinationPredefinedAcl", "kmsKeyName": "destinationKmsKeyName"}
        params = {**{changed[key]: value for key, value in words.params.items()}, **_ABSENT}
        try:
            url = f"{self._sender.url(*self._split(source))}/rewriteTo/{place(*self._split(name))}"
            while True:
                answer = self._sender.call("POST", url, params, json=words.resource)
                token = answer.json().get("rewriteToken")
                if not token:
                    return made(answer, "resource")
                params["rewriteToken"] = token
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return outcome_of(error, name)

    def stage(self, name: str, body: Body, creation: Creation) -> StageOutcome:
        """Open a resumable session with ``ifGenerationMatch=0``, and send all chunks but the last."""
        words = self._words(creation)
        if isinstance(words, Refused):
            return words
        session = None
        try:
            session = self._open_session(*self._split(name), body.size, words)
            upload = send_chunks(self._sender, session, body, Checksum(words.checksum))
        except BaseException as error:
            if session is not None:
                remove(self._sender, session)
            if not isinstance(error, Exception):
                raise
            return _staging(error, name)
        return Staged(name, upload)

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
            body = ObjectBody(self._sender, *self._split(source), version, size)
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

    def _insert(
        self, bucket: str, key: str, data: bytes, words: _Words, condition: dict[str, str]
    ) -> Created:
        checksum = Checksum(words.checksum)
        checksum.update(data)
        resource = json.dumps({"name": key, **words.resource, **checksum.resource()})
        boundary = uuid.uuid4().hex
        head = (
            f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{resource}\r\n"
            f"--{boundary}\r\nContent-Type: {words.resource['contentType']}\r\n\r\n"
        )
        answer = self._sender.call(
            "POST",
            self._sender.url(bucket, of="upload"),
            {"uploadType": "multipart", **words.params, **condition},
            data=b"".join((head.encode(), data, f"\r\n--{boundary}--\r\n".encode())),
            headers={"Content-Type": f"multipart/related; boundary={boundary}"},
        )
        return made(answer)

    def _open_session(self, bucket: str, key: str, size: int, words: _Words) -> str:
        answer = self._sender.call(
            "POST",
            self._sender.url(bucket, of="upload"),
            # The name stands in the address for the sake of emulators that look for it there.
            {"uploadType": "resumable", "name": key, **words.params, **_ABSENT},
            json={"name": key, **words.resource},
            headers={
                "X-Upload-Content-Type": words.resource["contentType"],
                "X-Upload-Content-Length": str(size),
            },
        )
        session: str | None = answer.headers.get("Location")
        if session is None:
            raise unexpected(answer)
        return session

    def _words(self, creation: Creation) -> _Words | Refused:
        extra = {key: value for key, value in creation.extra.items() if key not in _FOR_THE_CLIENT}
        unknown = extra.keys() - _CARRIED
        if unknown:
            return Refused(unsupported(self.kind, unknown))
        metadata, fixed = (extra.get(key) or {} for key in ("metadata", "fixed_key_metadata"))
        if not (are_texts(metadata) and are_texts(fixed)):
            return Refused(ConfigError("metadata and fixed_key_metadata must map strings to strings"))
        unknown = fixed.keys() - _FIXED_KEYS.keys()
        if unknown:
            return Refused(unsupported(self.kind, (f"fixed_key_metadata[{key!r}]" for key in unknown)))
        params = {}
        if extra.get("acl"):
            acl = _ACLS.get(str(extra["acl"]).lower())
            if acl is None:
                known = ", ".join(_ACLS.values())
                return Refused(ConfigError(f"there is no acl {extra['acl']!r}: there are {known}"))
            params["predefinedAcl"] = acl
        if extra.get("kms_key_name"):
            params["kmsKeyName"] = str(extra["kms_key_name"])
        marks = {TOKEN_KEY: creation.token, WRITER_KEY: creation.writer}
        resource = {
            "contentType": str(extra.get("content_type") or _TYPE),
            "metadata": {**metadata, **marks},
            **{_FIXED_KEYS[key]: value for key, value in fixed.items()},
        }
        wanted = extra.get("consistency") or self._fs.consistency
        return _Words(resource, params, wanted if wanted in {"md5", "crc32c"} else "")

    def _split(self, name: str) -> tuple[str, str]:
        bucket, key, generation = self._fs.split_path(name)
        if refused := bad_key(name, key):
            raise refused.error
        # Such keys are no object's; as the last step of an address, dots would make it another one.
        if generation or key in {".", ".."}:
            raise OSError(errno.EINVAL, "GCS lets no object be created under this name", name)
        return bucket, key


def _reading(error: Exception, name: str) -> Absent | TryAgain | Refused:
    outcome = outcome_of(error, name)
    if isinstance(outcome, Refused):
        return Absent() if isinstance(outcome.error, FileNotFoundError) else outcome
    return TryAgain(error if isinstance(outcome, Exists) else outcome.cause)


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
