"""GCS's dialect: the JSON API. What isn't JSON is the XML API, which is S3's with other header names.

Source: the JSON and XML API references of Cloud Storage. Resumable sessions are in gcs_sessions.py.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote, urlsplit

from tests.stub.faults import Op, Reply
from tests.stub.gcs_sessions import Sessions
from tests.stub.s3 import S3
from tests.stub.wire import Answer, Dialect, Request, content, json_answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.stub.faults import Conditions
    from tests.stub.state import State, StoredObject

_ERRORS = {
    Reply.INTERNAL: (HTTPStatus.INTERNAL_SERVER_ERROR, "backendError"),
    Reply.UNAVAILABLE: (HTTPStatus.SERVICE_UNAVAILABLE, "backendError"),
    Reply.CONFLICT: (HTTPStatus.CONFLICT, "conflict"),
    Reply.PRECONDITION: (HTTPStatus.PRECONDITION_FAILED, "conditionNotMet"),
    Reply.PRECONDITION_BARE: (HTTPStatus.PRECONDITION_FAILED, "conditionNotMet"),
    Reply.OK_WITH_ERROR: (HTTPStatus.OK, "backendError"),
    Reply.FORBIDDEN: (HTTPStatus.FORBIDDEN, "forbidden"),
    Reply.NO_SUCH_UPLOAD: (HTTPStatus.GONE, "gone"),
}
_JSON_PATHS = ("/storage/v1/", "/upload/storage/v1/", "/download/storage/v1/", "/batch/storage/v1")
_JSON_OBJECT = {"POST": Op.OTHER, "PUT": Op.OTHER, "DELETE": Op.DELETE, "PATCH": Op.OTHER}


class Xml(S3):
    """The XML API: no ``If-None-Match`` on writes, but a generation that must match."""

    prefix: ClassVar[str] = "x-goog-"

    def create_only(self, request: Request) -> bool:
        """Whether the name must not be there."""
        return request.headers.get("x-goog-if-generation-match") == "0"

    def shown(self, stored: StoredObject) -> dict[str, str]:
        """What an answer about an object says of it in headers."""
        return {
            "etag": f'"{stored.etag}"',
            "x-goog-generation": str(stored.generation),
            "x-goog-metageneration": "1",
            "x-goog-hash": f"crc32c={_crc32c(stored.data)}",
        }


class Gcs(Dialect):
    """Objects, buckets, listings, rewrites."""

    def __init__(self, state: State, conditions: Mapping[Op, Conditions]) -> None:
        super().__init__(state, conditions)
        self._xml = Xml(state, conditions, smallest_part=5 * 2**20)
        self._sessions = Sessions(self)
        self.does = {
            Op.HEAD: self._get,
            Op.GET: self._get,
            Op.DELETE: self._delete,
            Op.DELETE_MANY: self._batch,
            Op.LIST: self._list,
            Op.COPY: self._rewrite,
            Op.BUCKET: self._bucket,
            Op.CREATE_BUCKET: self._bucket,
            Op.LIST_BUCKETS: self._bucket,
            **self._sessions.does,
        }

    def read(self, request: Request) -> Request:
        """The path says which API, and the path of the JSON API says what is asked for."""
        if not request.path.startswith(_JSON_PATHS):
            return self._xml.read(request)
        if request.path.startswith("/batch/"):
            return request.asks(Op.DELETE_MANY)
        bucket, _, rest = request.path.partition("/storage/v1/b")[2].lstrip("/").partition("/")
        bucket, key = unquote(bucket), rest.removeprefix("o").removeprefix("/")
        if request.path.startswith("/upload/"):
            return self._sessions.read(request, bucket)
        if "/rewriteTo/b/" in key or "/copyTo/b/" in key:
            target = key.replace("/copyTo/b/", "/rewriteTo/b/").partition("/rewriteTo/b/")[2]
            bucket, _, key = target.partition("/o/")
            return request.asks(Op.COPY, unquote(bucket), unquote(key))
        if key:
            media = request.query.get("alt") == "media" or request.path.startswith("/download/")
            op = _JSON_OBJECT.get(request.method, Op.GET if media else Op.HEAD)
        elif rest == "o":
            op = Op.LIST
        elif bucket:
            op = Op.BUCKET
        else:
            op = Op.CREATE_BUCKET if request.method == "POST" else Op.LIST_BUCKETS
        return request.asks(op, bucket, unquote(key))

    def misled(self, request: Request) -> Answer | None:
        """The bucket must be there, the operation one of those above."""
        if not request.path.startswith(_JSON_PATHS):
            return self._xml.misled(request)
        if request.op not in self.does:
            return self.error(HTTPStatus.NOT_IMPLEMENTED, "notImplemented")
        if request.bucket and request.bucket not in self.state.buckets:
            return self.error(HTTPStatus.NOT_FOUND, "notFound", "The specified bucket does not exist.")
        return None

    async def apply(self, request: Request) -> Answer:
        """Do it, in the API that the request is for."""
        if not request.path.startswith(_JSON_PATHS):
            return await self._xml.apply(request)
        return await super().apply(request)

    def word(self, reply: Reply, request: Request) -> Answer:
        """An error in JSON; in XML where the request was."""
        if not request.path.startswith(_JSON_PATHS):
            return self._xml.word(reply, request)
        if reply is Reply.NO_SUCH_UPLOAD:
            self.state.uploads.pop(request.query.get("upload_id", ""), None)
        return self.error(*_ERRORS[reply])

    def error(self, status: int, reason: str, message: str = "") -> Answer:
        """An error with any reason."""
        message = message or reason
        told: dict[str, Any] = {"domain": "global", "reason": reason, "message": message}
        if reason == "conditionNotMet":
            told |= {"locationType": "header", "location": "If-Match"}
        return json_answer({"error": {"code": int(status), "message": message, "errors": [told]}}, status)

    async def refused(self, request: Request, wanted: str | None) -> Answer | None:
        """The answer to a write whose ``ifGenerationMatch`` does not hold."""
        if wanted is None:
            return None
        held = self.state.objects.get(request.name)
        fails = await self.taken(request) if wanted == "0" else not held or str(held.generation) != wanted
        return self.word(Reply.PRECONDITION, request) if fails else None

    def resource(self, bucket: str, key: str, stored: StoredObject) -> dict[str, Any]:
        """An object as JSON."""
        written = stored.last_modified.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        encoded = {"contentEncoding": stored.encoding} if stored.encoding else {}
        return encoded | {
            "kind": "storage#object",
            "id": f"{bucket}/{key}/{stored.generation}",
            "bucket": bucket,
            "name": key,
            "generation": str(stored.generation),
            "metageneration": "1",
            "size": str(len(stored.data)),
            "etag": stored.etag,
            "md5Hash": base64.b64encode(hashlib.md5(stored.data, usedforsecurity=False).digest()).decode(),
            "crc32c": _crc32c(stored.data),
            "contentType": stored.content_type,
            "storageClass": "STANDARD",
            "timeCreated": written,
            "updated": written,
            "metadata": stored.metadata,
        }

    def _get(self, request: Request) -> Answer:
        found = self.state.objects.get(request.name)
        generation = request.query.get("generation")
        if found is None or generation not in {None, str(found.generation)}:
            return self.error(HTTPStatus.NOT_FOUND, "notFound", f"No such object: {'/'.join(request.name)}")
        wanted = request.query.get("ifGenerationMatch", str(found.generation))
        if wanted != str(found.generation):
            return self.word(Reply.PRECONDITION, request)
        if request.op is Op.HEAD:
            return json_answer(self.resource(*request.name, found))
        is_unpacked = found.encoding == "gzip" and "gzip" not in request.headers.get("accept-encoding", "")
        if is_unpacked:
            body = content(gzip.decompress(found.data), None)
        else:
            body = content(found.data, request.headers.get("range"))
        if body is None:
            return self.error(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "requestedRangeNotSatisfiable")
        if found.encoding and not is_unpacked:
            body.headers["content-encoding"] = found.encoding
        digest = base64.b64encode(hashlib.md5(found.data, usedforsecurity=False).digest()).decode()
        body.headers |= {
            "content-type": found.content_type,
            "etag": found.etag,
            "x-goog-generation": str(found.generation),
            "x-goog-hash": f"crc32c={_crc32c(found.data)},md5={digest}",
        }
        return body

    def _delete(self, request: Request) -> Answer:
        found = self.state.objects.get(request.name)
        generation = request.query.get("generation")
        if found is None or generation not in {None, str(found.generation)}:
            return self.error(HTTPStatus.NOT_FOUND, "notFound", f"No such object: {'/'.join(request.name)}")
        if request.query.get("ifGenerationMatch", str(found.generation)) != str(found.generation):
            return self.word(Reply.PRECONDITION, request)
        self.state.delete(*request.name)
        return Answer(HTTPStatus.NO_CONTENT)

    def _batch(self, request: Request) -> Answer:
        """Deletions, the only requests that clients batch."""
        boundary = request.headers["content-type"].partition("boundary=")[2].strip('"').encode()
        answers: list[bytes] = []
        for part in request.body.split(b"--" + boundary)[1:-1]:
            line = next(line for line in part.splitlines() if line.startswith(b"DELETE "))
            target = urlsplit(line.split()[1].decode())
            inner = self.read(Request.received("DELETE", f"{target.path}?{target.query}", {}, b""))
            done = self._delete(inner)
            head = f"HTTP/1.1 {int(done.status)} {HTTPStatus(done.status).phrase}\r\n"
            head += "Content-Type: application/json\r\n"
            head += f"Content-Length: {len(done.body)}\r\n\r\n"
            number = len(answers) + 1
            begin = f"--batch\r\nContent-Type: application/http\r\nContent-ID: <response-{number}>\r\n\r\n"
            answers.append(begin.encode() + head.encode() + done.body + b"\r\n")
        kind = "multipart/mixed; boundary=batch"
        return Answer(HTTPStatus.OK, {"content-type": kind}, b"".join(answers) + b"--batch--\r\n")

    def _list(self, request: Request) -> Answer:
        query = request.query
        page = self.state.page(
            request.bucket,
            query.get("prefix", ""),
            query.get("delimiter", ""),
            query.get("pageToken", ""),
            int(query.get("maxResults", "1000")),
        )
        told: dict[str, Any] = {"kind": "storage#objects"}
        if page.objects:
            told["items"] = [self.resource(request.bucket, key, stored) for key, stored in page.objects]
        if page.prefixes:
            told["prefixes"] = page.prefixes
        if page.more:
            told["nextPageToken"] = page.more
        return json_answer(told)

    async def _rewrite(self, request: Request) -> Answer:
        path = request.path.replace("/copyTo/b/", "/rewriteTo/b/").partition("/rewriteTo/b/")[0]
        bucket, _, key = path.partition("/storage/v1/b/")[2].partition("/o/")
        source = self.state.objects.get((unquote(bucket), unquote(key)))
        generation = request.query.get("sourceGeneration")
        if source is None or generation not in {None, str(source.generation)}:
            return self.error(HTTPStatus.NOT_FOUND, "notFound", f"No such object: {bucket}/{key}")
        if request.query.get("ifSourceGenerationMatch", str(source.generation)) != str(source.generation):
            return self.word(Reply.PRECONDITION, request)
        refused = await self.refused(request, request.query.get("ifGenerationMatch"))
        if refused:
            return refused
        wanted = json.loads(request.body or b"{}")
        stored = self.state.put(
            *request.name,
            source.data,
            wanted.get("metadata", source.metadata),
            content_type=wanted.get("contentType", source.content_type),
            encoding=source.encoding,
        )
        resource = self.resource(*request.name, stored)
        if "/copyTo/b/" in request.path:
            return json_answer(resource)
        size = str(len(stored.data))
        told = {"kind": "storage#rewriteResponse", "totalBytesRewritten": size, "objectSize": size}
        return json_answer({**told, "done": True, "resource": resource})

    def _bucket(self, request: Request) -> Answer:
        if request.op is Op.LIST_BUCKETS:
            items = [_bucket(name) for name in sorted(self.state.buckets)]
            return json_answer({"kind": "storage#buckets", "items": items})
        name = request.bucket or json.loads(request.body)["name"]
        self.state.buckets.add(name)
        return json_answer(_bucket(name))


def _bucket(name: str) -> dict[str, str]:
    return {"kind": "storage#bucket", "id": name, "name": name, "location": "US", "storageClass": "STANDARD"}


def _crc32c(data: bytes) -> str:
    import google_crc32c

    digest: bytes = google_crc32c.value(data).to_bytes(4, "big")
    return base64.b64encode(digest).decode()
