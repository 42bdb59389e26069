"""S3's dialect, path style: objects and buckets. Uploads are in s3_uploads.py.

Source: the S3 API reference. No signature is checked. The XML API of GCS is this one with other header
names, so it is this class with another ``prefix``.
"""

from __future__ import annotations

from email.utils import format_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote, unquote

from tests.stub.faults import Op, Reply
from tests.stub.s3_uploads import Uploads, unchunked
from tests.stub.wire import Answer, Dialect, Request, content, document, mismatch, parsed, timestamp, xml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.stub.faults import Conditions
    from tests.stub.state import State, StoredObject

_LONGEST_KEY = 1024
_ERRORS = {
    Reply.INTERNAL: (HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError"),
    Reply.UNAVAILABLE: (HTTPStatus.SERVICE_UNAVAILABLE, "SlowDown"),
    Reply.CONFLICT: (HTTPStatus.CONFLICT, "ConditionalRequestConflict"),
    Reply.PRECONDITION: (HTTPStatus.PRECONDITION_FAILED, "PreconditionFailed"),
    Reply.PRECONDITION_BARE: (HTTPStatus.PRECONDITION_FAILED, "PreconditionFailed"),
    Reply.OK_WITH_ERROR: (HTTPStatus.OK, "InternalError"),
    Reply.FORBIDDEN: (HTTPStatus.FORBIDDEN, "AccessDenied"),
    Reply.NO_SUCH_UPLOAD: (HTTPStatus.NOT_FOUND, "NoSuchUpload"),
}
_MESSAGES = {
    "InternalError": "We encountered an internal error. Please try again.",
    "SlowDown": "Please reduce your request rate.",
    "ConditionalRequestConflict": "The conditional request cannot succeed due to a conflicting operation "
    "against this resource.",
    "PreconditionFailed": "At least one of the pre-conditions you specified did not hold",
    "AccessDenied": "Access Denied",
    "NoSuchUpload": "The specified multipart upload does not exist. The upload ID may be invalid, or the "
    "upload may have been aborted or completed.",
    "NoSuchKey": "The specified key does not exist.",
    "NoSuchBucket": "The specified bucket does not exist",
}
_WITH_KEY = {
    ("HEAD", False): Op.HEAD,
    ("GET", False): Op.GET,
    ("DELETE", False): Op.DELETE,
    ("GET", True): Op.LIST_PARTS,
    ("DELETE", True): Op.ABORT,
    ("POST", True): Op.COMPLETE,
}


class S3(Dialect):
    """Objects, buckets and listings.

    Attributes
    ----------
    prefix
        What the cloud's own headers begin with.
    """

    prefix: ClassVar[str] = "x-amz-"

    def __init__(self, state: State, conditions: Mapping[Op, Conditions], smallest_part: int) -> None:
        super().__init__(state, conditions)
        self.does = {
            Op.PUT: self._put,
            Op.COPY: self._copy,
            Op.HEAD: self._get,
            Op.GET: self._get,
            Op.DELETE: self._delete,
            Op.DELETE_MANY: self._delete_many,
            Op.LIST: self._list,
            Op.BUCKET: self._bucket,
            Op.CREATE_BUCKET: self._bucket,
            Op.LIST_BUCKETS: self._bucket,
            **Uploads(self, smallest_part).does,
        }

    def read(self, request: Request) -> Request:
        """Method, sub-resource and copy source say what is asked for."""
        bucket, _, key = unquote(request.path[1:]).partition("/")
        query = request.query
        if not bucket:
            op = Op.LIST_BUCKETS if request.method == "GET" else Op.OTHER
        elif not key:
            op = _of_bucket(request.method, query)
        elif request.method == "PUT":
            op = self._of_put(request)
        elif request.method == "POST" and "uploads" in query:
            op = Op.CREATE_UPLOAD
        else:
            op = _WITH_KEY.get((request.method, "uploadId" in query), Op.OTHER)
        return request.asks(op, bucket, key)

    def misled(self, request: Request) -> Answer | None:
        """The bucket must be there, the key short enough, the operation one of those above."""
        if request.op not in self.does:
            return self.error(HTTPStatus.NOT_IMPLEMENTED, "NotImplemented", request)
        known = not request.bucket or request.bucket in self.state.buckets or request.op is Op.CREATE_BUCKET
        if not known:
            return self.error(HTTPStatus.NOT_FOUND, "NoSuchBucket", request)
        if len(request.key.encode(errors="surrogateescape")) > _LONGEST_KEY:
            return self.error(HTTPStatus.BAD_REQUEST, "KeyTooLongError", request)
        return None

    def word(self, reply: Reply, request: Request) -> Answer:
        """An Error document."""
        upload = self.state.uploads.get(request.query.get("uploadId", ""))
        if upload is not None and reply is Reply.CONFLICT:
            upload.spent = True
        if upload is not None and reply is Reply.NO_SUCH_UPLOAD:
            del self.state.uploads[upload.id]
        status, code = _ERRORS[reply]
        return self.error(status, code, request, "If-None-Match" if reply is Reply.PRECONDITION else "")

    def error(self, status: int, code: str, request: Request, condition: str = "") -> Answer:
        """An Error document with any code."""
        told = {"Condition": condition} if condition else {}
        root = xml("Error", Code=code, Message=_MESSAGES.get(code, code), **told, Resource=request.path)
        return Answer(status, {"content-type": "application/xml"}, document(root))

    def create_only(self, request: Request) -> bool:
        """Whether the name must not be there."""
        return request.headers.get("if-none-match") == "*"

    def metadata(self, request: Request) -> dict[str, str]:
        """The user metadata that the request carries."""
        begin = self.prefix + "meta-"
        return {
            name.removeprefix(begin): value
            for name, value in request.headers.items()
            if name.startswith(begin)
        }

    async def refused(self, request: Request) -> Answer | None:
        """The answer to a write whose condition does not hold."""
        if self.create_only(request):
            if self.conditions.get(request.op) == "unimplemented":
                return self.error(HTTPStatus.NOT_IMPLEMENTED, "NotImplemented", request)
            return self.word(Reply.PRECONDITION, request) if await self.taken(request) else None
        held = self.state.objects.get(request.name)
        if "if-match" in request.headers and held is None:
            return self.error(HTTPStatus.NOT_FOUND, "NoSuchKey", request)
        if "if-match" in request.headers and mismatch(held.etag if held else None, request.headers):
            return self.error(HTTPStatus.PRECONDITION_FAILED, "PreconditionFailed", request, "If-Match")
        return None

    def source(self, request: Request) -> StoredObject | None:
        """The object that a copy reads."""
        path, _, query = request.headers[self.prefix + "copy-source"].partition("?")
        bucket, _, key = unquote(path).lstrip("/").partition("/")
        if query.startswith("versionId="):
            return self.state.versions.get((bucket, key), {}).get(query.removeprefix("versionId="))
        found = self.state.objects.get((bucket, key))
        wanted = request.headers.get(self.prefix + "copy-source-if-match")
        return found if found and wanted in {None, f'"{found.etag}"', found.etag} else None

    def shown(self, stored: StoredObject) -> dict[str, str]:
        """What an answer about an object says of it in headers."""
        headers = {"etag": f'"{stored.etag}"'}
        if stored.version_id:
            headers[self.prefix + "version-id"] = stored.version_id
        return headers

    def _of_put(self, request: Request) -> Op:
        copies = self.prefix + "copy-source" in request.headers
        if "uploadId" in request.query:
            return Op.PART_COPY if copies else Op.PART
        if request.query.keys() & {"acl", "tagging", "retention", "legal-hold"}:
            return Op.OTHER
        return Op.COPY if copies else Op.PUT

    async def _put(self, request: Request) -> Answer:
        refused = await self.refused(request)
        if refused:
            return refused
        kind = content_type(request)
        stored = self.state.put(*request.name, unchunked(request), self.metadata(request), content_type=kind)
        return Answer(HTTPStatus.OK, self.shown(stored))

    async def _copy(self, request: Request) -> Answer:
        source = self.source(request)
        if source is None:
            return self.error(HTTPStatus.NOT_FOUND, "NoSuchKey", request)
        refused = await self.refused(request)
        if refused:
            return refused
        replaces = request.headers.get(self.prefix + "metadata-directive") == "REPLACE"
        stored = self.state.put(
            *request.name,
            source.data,
            self.metadata(request) if replaces else source.metadata,
            content_type=content_type(request) if replaces else source.content_type,
        )
        root = xml("CopyObjectResult", LastModified=timestamp(stored), ETag=f'"{stored.etag}"')
        return Answer(HTTPStatus.OK, self.shown(stored), document(root))

    def _get(self, request: Request) -> Answer:
        version = request.query.get("versionId")
        if version in {None, "null"}:
            found = self.state.objects.get(request.name)
        else:
            found = self.state.versions.get(request.name, {}).get(version)
        if found is None:
            return self.error(HTTPStatus.NOT_FOUND, "NoSuchKey", request)
        refused = mismatch(found.etag, request.headers)
        if refused:
            return Answer(refused, self.shown(found))
        answer = content(found.data, request.headers.get("range"))
        if answer is None:
            return self.error(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "InvalidRange", request)
        answer.headers |= self.shown(found) | {
            "content-type": found.content_type,
            "last-modified": format_datetime(found.last_modified, usegmt=True),
            **{f"{self.prefix}meta-{name}": value for name, value in found.metadata.items()},
        }
        return answer

    def _delete(self, request: Request) -> Answer:
        held = self.state.objects.get(request.name)
        if "if-match" in request.headers and mismatch(held.etag if held else None, request.headers):
            return self.error(HTTPStatus.PRECONDITION_FAILED, "PreconditionFailed", request, "If-Match")
        version = request.query.get("versionId")
        marker = self.state.delete(*request.name, version)
        headers = {"version-id": marker, "delete-marker": "true"} if marker else {}
        return Answer(HTTPStatus.NO_CONTENT, {self.prefix + name: value for name, value in headers.items()})

    def _delete_many(self, request: Request) -> Answer:
        deleted = []
        for wanted in parsed(request).findall(".//{*}Object"):
            key, version = wanted.findtext("{*}Key", ""), wanted.findtext("{*}VersionId")
            self.state.delete(request.bucket, key, version)
            deleted.append(xml("Deleted", Key=key))
        return Answer(HTTPStatus.OK, {}, document(xml("DeleteResult", *deleted)))

    def _list(self, request: Request) -> Answer:
        query = request.query
        encode = quote if query.get("encoding-type") == "url" else str
        page = self.state.page(
            request.bucket,
            query.get("prefix", ""),
            query.get("delimiter", ""),
            query.get("continuation-token") or query.get("start-after", ""),
            int(query.get("max-keys", "1000")),
        )
        entries = [
            xml(
                "Contents",
                Key=encode(key),
                LastModified=timestamp(stored),
                ETag=f'"{stored.etag}"',
                Size=len(stored.data),
                StorageClass="STANDARD",
            )
            for key, stored in page.objects
        ]
        entries += [xml("CommonPrefixes", Prefix=encode(prefix)) for prefix in page.prefixes]
        texts: dict[str, object] = {
            "Name": request.bucket,
            "Prefix": encode(query.get("prefix", "")),
            "KeyCount": len(entries),
            "MaxKeys": query.get("max-keys", "1000"),
            "IsTruncated": str(bool(page.more)).lower(),
        }
        if encode is quote:
            texts["EncodingType"] = "url"
        if page.more:
            texts["NextContinuationToken"] = page.more
        return Answer(HTTPStatus.OK, {}, document(xml("ListBucketResult", *entries, **texts)))

    def _bucket(self, request: Request) -> Answer:
        if request.op is Op.CREATE_BUCKET:
            self.state.buckets.add(request.bucket)
            return Answer(HTTPStatus.OK, {"location": f"/{request.bucket}"})
        if request.op is Op.LIST_BUCKETS:
            made = "2026-01-01T00:00:00.000Z"
            names = [xml("Bucket", Name=name, CreationDate=made) for name in sorted(self.state.buckets)]
            return Answer(HTTPStatus.OK, {}, document(xml("ListAllMyBucketsResult", xml("Buckets", *names))))
        if "versioning" in request.query:
            told = {"Status": "Enabled"} if self.state.versioned else {}
            return Answer(HTTPStatus.OK, {}, document(xml("VersioningConfiguration", **told)))
        if "session" in request.query:
            until = "2126-01-01T00:00:00Z"
            told = {"AccessKeyId": "key", "SecretAccessKey": "secret", "SessionToken": "token"}
            credentials = xml("Credentials", **told, Expiration=until)
            return Answer(HTTPStatus.OK, {}, document(xml("CreateSessionResult", credentials)))
        body = document(xml("LocationConstraint")) if "location" in request.query else b""
        return Answer(HTTPStatus.OK, {self.prefix + "bucket-region": "us-east-1"}, body)


def _of_bucket(method: str, query: Mapping[str, str]) -> Op:
    if method == "GET" and "uploads" in query:
        return Op.LIST_UPLOADS
    if method == "HEAD" or (method == "GET" and query.keys() & {"location", "session", "versioning"}):
        return Op.BUCKET
    if method == "POST" and "delete" in query:
        return Op.DELETE_MANY
    return {"GET": Op.LIST, "PUT": Op.CREATE_BUCKET}.get(method, Op.OTHER)


def content_type(request: Request) -> str:
    """What the object is to be served as."""
    return request.headers.get("content-type", "binary/octet-stream")
