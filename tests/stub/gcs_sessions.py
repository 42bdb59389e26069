"""GCS's uploads through the JSON API: in one request, or in a resumable session."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tests.stub.faults import Op
from tests.stub.wire import Answer, Request, json_answer

if TYPE_CHECKING:
    from tests.stub.gcs import Gcs
    from tests.stub.state import Upload
    from tests.stub.wire import Doing

_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)$")
_CHUNK = 256 * 2**10
_CANCELLED = 499


class Sessions:
    """The part of the dialect that is about uploads.

    A session that has ended gives the same answer for ever, so a lost one can be asked for again.

    Attributes
    ----------
    does
        What does each operation.
    """

    def __init__(self, objects: Gcs) -> None:
        self._objects = objects
        self._state = objects.state
        self._ended: dict[str, Answer] = {}
        self.does: dict[Op, Doing] = {
            Op.PUT: self._put,
            Op.CREATE_UPLOAD: self._initiate,
            Op.PART: self._receive,
            Op.COMPLETE: self._receive,
            Op.UPLOAD_STATUS: self._receive,
            Op.ABORT: self._abort,
        }

    def read(self, request: Request, bucket: str) -> Request:
        """Say what a request to an upload address asks for."""
        if "upload_id" not in request.query:
            op = Op.CREATE_UPLOAD if request.query.get("uploadType") == "resumable" else Op.PUT
            return request.asks(op, bucket, self._wanted(request)["name"])
        upload = self._state.uploads.get(request.query["upload_id"])
        key = upload.key if upload else request.query.get("name", "")
        if request.method == "DELETE":
            return request.asks(Op.ABORT, bucket, key)
        first, last, total = _range(request)
        if first is None:
            have = _received(upload) if upload else None
            return request.asks(Op.COMPLETE if have == total else Op.UPLOAD_STATUS, bucket, key)
        return request.asks(Op.COMPLETE if last + 1 == total else Op.PART, bucket, key)

    async def _put(self, request: Request) -> Answer:
        refused = await self._objects.refused(request, request.query.get("ifGenerationMatch"))
        if refused:
            return refused
        wanted, kind, data = self._wanted(request), request.headers.get("content-type", ""), request.body
        if request.query["uploadType"] == "multipart":
            _, kind, data = _related(request)
        return self._write(request, wanted, kind, data)

    def _initiate(self, request: Request) -> Answer:
        wanted = self._wanted(request)
        kind = request.headers.get("x-upload-content-type", "application/octet-stream")
        kind = wanted.get("contentType", kind)
        upload = self._state.new_upload(*request.name, wanted.get("metadata", {}), kind)
        upload.generation_match = request.query.get("ifGenerationMatch")
        address = f"http://{request.headers['host']}{request.path}?uploadType=resumable"
        address += f"&name={quote(request.key, safe='')}&upload_id={upload.id}"
        return Answer(HTTPStatus.OK, {"location": address, "x-guploader-uploadid": upload.id})

    def _abort(self, request: Request) -> Answer:
        if self._state.uploads.pop(request.query["upload_id"], None) is None:
            return self._objects.error(HTTPStatus.NOT_FOUND, "notFound", "no such session")
        return Answer(_CANCELLED)

    async def _receive(self, request: Request) -> Answer:
        session = request.query["upload_id"]
        if session in self._ended:
            return self._ended[session]
        upload = self._state.uploads.get(session)
        if upload is None:
            return self._objects.error(HTTPStatus.NOT_FOUND, "notFound", "no such session")
        first, last, total = _range(request)
        have = _received(upload)
        if first is not None:
            if first > have:
                return self._objects.error(HTTPStatus.SERVICE_UNAVAILABLE, "backendError", "a gap")
            if request.op is Op.PART and len(request.body) % _CHUNK:
                return self._objects.error(HTTPStatus.BAD_REQUEST, "badRequest", "not a multiple of 256 KiB")
            fresh = request.body[have - first :]
            if fresh:
                upload.parts[str(have)] = fresh
            have = max(have, last + 1)
        if have != total:
            headers = {"range": f"bytes=0-{have - 1}"} if have else {}
            return Answer(HTTPStatus.PERMANENT_REDIRECT, headers)
        answer = await self._objects.refused(request, upload.generation_match)
        if answer is None:
            wanted = {"metadata": upload.metadata}
            answer = self._write(request, wanted, upload.content_type, b"".join(upload.parts.values()))
        self._state.uploads.pop(upload.id, None)
        self._ended[upload.id] = answer
        return answer

    def _wanted(self, request: Request) -> dict[str, Any]:
        """The object resource that the request carries, its name at least."""
        if request.query.get("uploadType") == "multipart":
            wanted: dict[str, Any] = _related(request)[0]
        elif request.query.get("uploadType") == "resumable" and request.body:
            wanted = json.loads(request.body)
        else:
            wanted = {}
        return {"name": request.query.get("name", ""), **wanted}

    def _write(self, request: Request, wanted: dict[str, Any], kind: str, data: bytes) -> Answer:
        kind = wanted.get("contentType", kind)
        metadata, encoding = wanted.get("metadata", {}), wanted.get("contentEncoding", "")
        stored = self._state.put(*request.name, data, metadata, content_type=kind, encoding=encoding)
        return json_answer(self._objects.resource(*request.name, stored))


def _received(upload: Upload) -> int:
    return sum(map(len, upload.parts.values()))


def _range(request: Request) -> tuple[int | None, int, int]:
    """First, last and total of what a request to a session carries; total is -1 where it isn't known yet."""
    match = _CONTENT_RANGE.match(request.headers.get("content-range", ""))
    if match is None:
        return 0, len(request.body) - 1, len(request.body)
    first, last, total = match.groups()
    if first is None:
        return None, -1, -1 if total == "*" else int(total)
    return int(first), int(last), -1 if total == "*" else int(total)


def _related(request: Request) -> tuple[dict[str, Any], str, bytes]:
    """The resource, the content type and the bytes of a ``multipart/related`` body.

    Clients end lines by CRLF or, as gcsfs does, by LF.
    """
    boundary = request.headers["content-type"].partition("boundary=")[2].strip("\"'").encode()
    newline = b"\r\n" if b"--" + boundary + b"\r\n" in request.body[:200] else b"\n"
    body = request.body.split(b"--" + boundary + newline, 2)
    blank = newline * 2
    resource = body[1].partition(blank)[2]
    head, _, data = body[2].partition(blank)
    kind = next(
        (
            line.partition(b":")[2].strip().decode()
            for line in head.split(newline)
            if line.lower().startswith(b"content-type:")
        ),
        "application/octet-stream",
    )
    return json.loads(resource), kind, data[: data.rindex(newline + b"--" + boundary)]
