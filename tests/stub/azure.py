"""Azure's dialect: block blobs, containers, listings. Blocks are in azure_blocks.py.

Source: the Blob service REST API reference. No signature is checked.
"""

from __future__ import annotations

import re
from email.utils import format_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit
from xml.sax.saxutils import escape

from tests.stub.azure_blocks import Blocks
from tests.stub.faults import Op, Reply
from tests.stub.wire import Answer, Dialect, Request, content, document, mismatch, xml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.stub.faults import Conditions
    from tests.stub.state import State, StoredObject

ACCOUNT = "devstoreaccount1"
_META = "x-ms-meta-"
_VERSION = "2021-12-02"
# https://learn.microsoft.com/rest/api/storageservices/list-blobs
_INCLUDED = {
    *("", "snapshots", "metadata", "uncommittedblobs", "copy", "deleted", "tags", "versions"),
    *("deletedwithversions", "immutabilitypolicy", "legalhold", "permissions"),
}
_METADATA_NAME = re.compile(r"[A-Za-z_]\w*$", re.ASCII)
_ERRORS = {
    Reply.INTERNAL: (HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError"),
    Reply.UNAVAILABLE: (HTTPStatus.SERVICE_UNAVAILABLE, "ServerBusy"),
    Reply.CONFLICT: (HTTPStatus.CONFLICT, "PendingCopyOperation"),
    Reply.PRECONDITION: (HTTPStatus.PRECONDITION_FAILED, "ConditionNotMet"),
    Reply.PRECONDITION_BARE: (HTTPStatus.PRECONDITION_FAILED, "ConditionNotMet"),
    Reply.OK_WITH_ERROR: (HTTPStatus.OK, "InternalError"),
    Reply.FORBIDDEN: (HTTPStatus.FORBIDDEN, "AuthorizationFailure"),
    Reply.NO_SUCH_UPLOAD: (HTTPStatus.BAD_REQUEST, "InvalidBlockList"),
}
_METHODS = {"HEAD": Op.HEAD, "GET": Op.GET, "DELETE": Op.DELETE, "PUT": Op.PUT}
_BLOB = {
    ("PUT", "block"): Op.PART,
    ("PUT", "blocklist"): Op.COMPLETE,
    ("GET", "blocklist"): Op.LIST_PARTS,
    ("GET", "metadata"): Op.HEAD,
    ("HEAD", "metadata"): Op.HEAD,
}


class Azure(Dialect):
    """Blobs, containers and listings."""

    def __init__(self, state: State, conditions: Mapping[Op, Conditions]) -> None:
        super().__init__(state, conditions)
        self.does = {
            Op.PUT: self._put,
            Op.COPY: self._copy,
            Op.HEAD: self._get,
            Op.GET: self._get,
            Op.DELETE: self._delete,
            Op.DELETE_MANY: self._batch,
            Op.LIST: self._list,
            Op.BUCKET: self._bucket,
            Op.CREATE_BUCKET: self._bucket,
            Op.LIST_BUCKETS: self._bucket,
            **Blocks(self).does,
        }

    def read(self, request: Request) -> Request:
        """Method, ``comp`` and copy source say what is asked for."""
        _, _, path = request.path[1:].partition("/")
        bucket, _, key = path.partition("/")
        bucket, key = unquote(bucket), unquote(key)
        comp = request.query.get("comp", "")
        copies = "x-ms-copy-source" in request.headers
        if comp == "batch":
            op = Op.DELETE_MANY
        elif not bucket:
            op = Op.LIST_BUCKETS if comp == "list" else Op.BUCKET
        elif not key:
            listing = Op.LIST if comp == "list" else Op.BUCKET
            op = Op.CREATE_BUCKET if request.method == "PUT" and not comp else listing
        elif comp:
            op = _BLOB.get((request.method, comp), Op.OTHER)
            op = Op.PART_COPY if op is Op.PART and copies else op
        else:
            op = Op.COPY if copies else _METHODS.get(request.method, Op.OTHER)
        return request.asks(op, bucket, key)

    def misled(self, request: Request) -> Answer | None:
        """The container must be there, metadata names be identifiers, what is asked for be known."""
        if request.op not in self.does:
            return self.error(HTTPStatus.NOT_IMPLEMENTED, "NotImplemented")
        known = not request.bucket or request.bucket in self.state.buckets or request.op is Op.CREATE_BUCKET
        if not known:
            return self.error(HTTPStatus.NOT_FOUND, "ContainerNotFound")
        if not all(_METADATA_NAME.match(name) for name in self.metadata(request)):
            return self.error(HTTPStatus.BAD_REQUEST, "InvalidMetadata")
        if not _INCLUDED.issuperset(request.query.get("include", "").split(",")):
            return self.error(HTTPStatus.BAD_REQUEST, "InvalidQueryParameterValue")
        return None

    def word(self, reply: Reply, request: Request) -> Answer:
        """An error, its code in a header too."""
        if reply is Reply.NO_SUCH_UPLOAD:
            self.state.uploads.pop("/".join(request.name), None)
        return self.error(*_ERRORS[reply])

    def error(self, status: int, code: str) -> Answer:
        """An error with any code."""
        headers = {"x-ms-error-code": code, "x-ms-version": _VERSION, "content-type": "application/xml"}
        return Answer(status, headers, document(xml("Error", Code=code, Message=code)))

    def metadata(self, request: Request) -> dict[str, str]:
        """The user metadata that the request carries."""
        return {name[len(_META) :]: text for name, text in request.headers.items() if name.startswith(_META)}

    async def refused(self, request: Request) -> Answer | None:
        """The answer to a write whose condition does not hold."""
        if request.headers.get("if-none-match") == "*":
            taken = await self.taken(request)
            return self.error(HTTPStatus.CONFLICT, "BlobAlreadyExists") if taken else None
        held = self.state.objects.get(request.name)
        fails = mismatch(_etag(held) if held else None, request.headers)
        return self.word(Reply.PRECONDITION, request) if fails else None

    def written(self, stored: StoredObject) -> dict[str, str]:
        """What every answer about a blob says of it."""
        return {
            "etag": f'"{_etag(stored)}"',
            "last-modified": format_datetime(stored.last_modified, usegmt=True),
            "x-ms-version": _VERSION,
            "x-ms-request-server-encrypted": "true",
        }

    def write(self, request: Request, data: bytes, metadata: Mapping[str, str], kind: str) -> Answer:
        """Replace the blob; whatever loose blocks its name had are gone."""
        self.state.uploads.pop("/".join(request.name), None)
        encoding = request.headers.get("x-ms-blob-content-encoding", "")
        stored = self.state.put(*request.name, data, metadata, content_type=kind, encoding=encoding)
        return Answer(HTTPStatus.CREATED, self.written(stored))

    async def _put(self, request: Request) -> Answer:
        refused = await self.refused(request)
        if refused:
            return refused
        return self.write(request, request.body, self.metadata(request), content_type(request))

    async def _copy(self, request: Request) -> Answer:
        path = urlsplit(request.headers["x-ms-copy-source"]).path
        bucket, _, key = unquote(path[1:].partition("/")[2]).partition("/")
        source = self.state.objects.get((bucket, key))
        if source is None:
            return self.error(HTTPStatus.NOT_FOUND, "BlobNotFound")
        refused = await self.refused(request)
        if refused:
            return refused
        metadata = self.metadata(request) or source.metadata
        answer = self.write(request, source.data, metadata, source.content_type)
        if "x-ms-blob-type" not in request.headers:
            answer.status = HTTPStatus.ACCEPTED
        answer.headers |= {"x-ms-copy-id": "copied-at-once", "x-ms-copy-status": "success"}
        return answer

    def _get(self, request: Request) -> Answer:
        found = self.state.objects.get(request.name)
        if found is None:
            return self.error(HTTPStatus.NOT_FOUND, "BlobNotFound")
        if mismatch(_etag(found), request.headers):
            return self.word(Reply.PRECONDITION, request)
        answer = content(found.data, request.headers.get("x-ms-range") or request.headers.get("range"))
        if answer is None:
            error = self.error(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "InvalidRange")
            error.headers["content-range"] = f"bytes */{len(found.data)}"
            return error
        answer.headers |= self.written(found) | {
            "content-type": found.content_type,
            "x-ms-blob-type": "BlockBlob",
            "x-ms-creation-time": format_datetime(found.last_modified, usegmt=True),
            "x-ms-server-encrypted": "true",
            **({"content-encoding": found.encoding} if found.encoding else {}),
            **{_META + name: value for name, value in found.metadata.items()},
        }
        return answer

    def _delete(self, request: Request) -> Answer:
        found = self.state.objects.get(request.name)
        if found is None:
            return self.error(HTTPStatus.NOT_FOUND, "BlobNotFound")
        if mismatch(_etag(found), request.headers):
            return self.word(Reply.PRECONDITION, request)
        self.state.delete(*request.name)
        return Answer(HTTPStatus.ACCEPTED, {"x-ms-delete-type-permanent": "true", "x-ms-version": _VERSION})

    def _batch(self, request: Request) -> Answer:
        """Deletions, the only requests that clients batch here."""
        boundary = request.headers["content-type"].partition("boundary=")[2].strip('"').encode()
        answers = []
        for number, part in enumerate(request.body.split(b"--" + boundary)[1:-1]):
            lines = part.splitlines()
            line = next(line for line in lines if line.startswith(b"DELETE "))
            inner = self.read(Request.received("DELETE", _in_batch(line.split()[1].decode()), {}, b""))
            done = self._delete(inner)
            head = f"--batch\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n"
            head += f"HTTP/1.1 {int(done.status)} {HTTPStatus(done.status).phrase}\r\n"
            head += "".join(f"{name}: {value}\r\n" for name, value in done.headers.items())
            answers.append(head.encode() + b"\r\n" + done.body + b"\r\n")
        headers = {"content-type": "multipart/mixed; boundary=batch", "x-ms-version": _VERSION}
        return Answer(HTTPStatus.ACCEPTED, headers, b"".join(answers) + b"--batch--\r\n")

    def _list(self, request: Request) -> Answer:
        query = request.query
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        page = self.state.page(
            request.bucket, prefix, delimiter, query.get("marker", ""), int(query.get("maxresults", "5000"))
        )
        blobs = [_listed(key, stored) for key, stored in page.objects]
        blobs += [xml("BlobPrefix", Name=folder) for folder in page.prefixes]
        results = f'EnumerationResults ContainerName="{request.bucket}"'
        root = xml(results, xml("Blobs", *blobs), xml("NextMarker", escape(page.more)), Prefix=prefix)
        return Answer(
            HTTPStatus.OK, {"content-type": "application/xml", "x-ms-version": _VERSION}, document(root)
        )

    def _bucket(self, request: Request) -> Answer:
        told = {"x-ms-version": _VERSION, "etag": '"0x8D0"', "last-modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        if request.op is Op.CREATE_BUCKET:
            if request.bucket in self.state.buckets:
                return self.error(HTTPStatus.CONFLICT, "ContainerAlreadyExists")
            self.state.buckets.add(request.bucket)
            return Answer(HTTPStatus.CREATED, told)
        if request.op is Op.LIST_BUCKETS:
            names = [
                xml(
                    "Container",
                    xml("Properties", **{"Last-Modified": told["last-modified"], "Etag": "0x8D0"}),
                    Name=name,
                )
                for name in sorted(self.state.buckets)
            ]
            root = xml("EnumerationResults", xml("Containers", *names), xml("NextMarker"))
            return Answer(HTTPStatus.OK, {"content-type": "application/xml"}, document(root))
        kind = {
            "x-ms-account-kind": "StorageV2",
            "x-ms-sku-name": "Standard_LRS",
            "x-ms-is-hns-enabled": "false",
        }
        return Answer(HTTPStatus.OK, told | kind)


def content_type(request: Request) -> str:
    """What the blob is to be served as."""
    return request.headers.get("x-ms-blob-content-type", "application/octet-stream")


def _etag(stored: StoredObject) -> str:
    return f"0x8D{stored.generation:012X}"


def _listed(key: str, stored: StoredObject) -> str:
    written = format_datetime(stored.last_modified, usegmt=True)
    properties = xml(
        "Properties",
        **{
            "Creation-Time": written,
            "Last-Modified": written,
            "Etag": _etag(stored),
            "Content-Length": len(stored.data),
            "Content-Type": stored.content_type,
            "BlobType": "BlockBlob",
            "AccessTier": "Hot",
            "ServerEncrypted": "true",
        },
    )
    return xml("Blob", properties, xml("Metadata", **stored.metadata), Name=key)


def _in_batch(target: str) -> str:
    """The address of a request within a batch; some clients leave the account out."""
    path = "/" + urlsplit(target).path.lstrip("/")
    return path if path.startswith(f"/{ACCOUNT}/") else f"/{ACCOUNT}{path}"
