"""S3's multipart uploads: parts that nobody can read until their upload is completed."""

from __future__ import annotations

import base64
import hashlib
import zlib
from http import HTTPStatus
from typing import TYPE_CHECKING

from tests.stub.faults import Op
from tests.stub.wire import Answer, Request, content, document, parsed, timestamp, xml

if TYPE_CHECKING:
    from tests.stub.s3 import S3
    from tests.stub.state import Upload
    from tests.stub.wire import Doing


def unchunked(request: Request) -> bytes:
    """The body without ``aws-chunked`` framing: sizes, signatures and trailing checksums."""
    if not request.headers.get("x-amz-content-sha256", "").startswith("STREAMING-"):
        return request.body
    data, rest = bytearray(), request.body
    while True:
        line, _, rest = rest.partition(b"\r\n")
        size = int(line.split(b";")[0], 16)
        if not size:
            return bytes(data)
        data += rest[:size]
        rest = rest[size + 2 :]


def _etag(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _checksum(algorithm: str, data: bytes) -> str:
    if algorithm == "CRC32":
        digest = zlib.crc32(data).to_bytes(4, "big")
    else:
        digest = hashlib.new(algorithm, data).digest()
    return base64.b64encode(digest).decode()


class Uploads:
    """The part of the dialect that is about uploads.

    Parameters
    ----------
    objects
        The dialect itself.
    smallest_part
        S3 refuses smaller parts, but for the last one.

    Attributes
    ----------
    does
        What does each operation.
    """

    def __init__(self, objects: S3, smallest_part: int) -> None:
        self._objects = objects
        self._state = objects.state
        self._smallest = smallest_part
        self.does: dict[Op, Doing] = {
            Op.CREATE_UPLOAD: self._create,
            Op.PART: self._part,
            Op.PART_COPY: self._part_copy,
            Op.COMPLETE: self._complete,
            Op.ABORT: self._abort,
            Op.LIST_PARTS: self._parts,
            Op.LIST_UPLOADS: self._list,
        }

    def _create(self, request: Request) -> Answer:
        kind = request.headers.get("content-type", "binary/octet-stream")
        upload = self._state.new_upload(*request.name, self._objects.metadata(request), kind)
        prefix = self._objects.prefix
        of_key = prefix + "server-side-encryption-customer-"
        upload.customer_key = {
            name: value for name, value in request.headers.items() if name.startswith(of_key)
        }
        chosen = request.headers.get(f"{prefix}checksum-algorithm", "")
        upload.checksum = chosen if chosen in {"CRC32", "SHA1", "SHA256"} else ""  # what is calculated here
        root = xml(
            "InitiateMultipartUploadResult", Bucket=request.bucket, Key=request.key, UploadId=upload.id
        )
        return Answer(HTTPStatus.OK, {}, document(root))

    def _open(self, request: Request) -> Upload | None:
        upload = self._state.uploads.get(request.query["uploadId"])
        if upload is None or (upload.bucket, upload.key) != request.name:
            return None
        return upload if request.op is Op.ABORT or not upload.spent else None

    def _gone(self, request: Request) -> Answer:
        return self._objects.error(HTTPStatus.NOT_FOUND, "NoSuchUpload", request)

    def _abort(self, request: Request) -> Answer:
        upload = self._open(request)
        if upload is None:
            return self._gone(request)
        del self._state.uploads[upload.id]
        return Answer(HTTPStatus.NO_CONTENT)

    def _part(self, request: Request) -> Answer:
        upload = self._open(request)
        if upload is None:
            return self._gone(request)
        data = unchunked(request)
        headers = {"etag": f'"{_etag(data)}"'}
        wanted = dict(upload.customer_key)
        if upload.checksum:
            sent = f"{self._objects.prefix}checksum-{upload.checksum.lower()}"
            headers[sent] = _checksum(upload.checksum, data)
            if request.headers.get(f"{self._objects.prefix}trailer") != sent:
                wanted[sent] = headers[sent]
        if not wanted.items() <= request.headers.items():
            return self._objects.error(HTTPStatus.BAD_REQUEST, "InvalidRequest", request)
        upload.parts[request.query["partNumber"]] = data
        return Answer(HTTPStatus.OK, headers)

    def _part_copy(self, request: Request) -> Answer:
        upload = self._open(request)
        if upload is None:
            return self._gone(request)
        if not upload.customer_key.items() <= request.headers.items():
            return self._objects.error(HTTPStatus.BAD_REQUEST, "InvalidRequest", request)
        source = self._objects.source(request)
        if source is None:
            return self._objects.error(HTTPStatus.NOT_FOUND, "NoSuchKey", request)
        copied = content(source.data, request.headers.get(self._objects.prefix + "copy-source-range"))
        if copied is None:
            return self._objects.error(HTTPStatus.BAD_REQUEST, "InvalidArgument", request)
        upload.parts[request.query["partNumber"]] = copied.body
        told = {"ETag": f'"{_etag(copied.body)}"'}
        if upload.checksum:
            told[f"Checksum{upload.checksum}"] = _checksum(upload.checksum, copied.body)
        root = xml("CopyPartResult", LastModified=timestamp(source), **told)
        return Answer(HTTPStatus.OK, {}, document(root))

    async def _complete(self, request: Request) -> Answer:
        upload = self._open(request)
        if upload is None:
            return self._gone(request)
        numbers, parts = [], []
        for wanted in parsed(request).findall(".//{*}Part"):
            number, etag = wanted.findtext("{*}PartNumber", ""), wanted.findtext("{*}ETag", "").strip('"')
            data = upload.parts.get(number)
            if data is None or etag != _etag(data):
                return self._objects.error(HTTPStatus.BAD_REQUEST, "InvalidPart", request)
            said = wanted.findtext(f"{{*}}Checksum{upload.checksum}")
            if upload.checksum and said != _checksum(upload.checksum, data):
                return self._objects.error(HTTPStatus.BAD_REQUEST, "InvalidRequest", request)
            numbers.append(int(number))
            parts.append(data)
        if not numbers or numbers != sorted(set(numbers)):
            return self._objects.error(HTTPStatus.BAD_REQUEST, "InvalidPartOrder", request)
        if any(len(part) < self._smallest for part in parts[:-1]):
            return self._objects.error(HTTPStatus.BAD_REQUEST, "EntityTooSmall", request)
        refused = await self._objects.refused(request)
        if refused:
            return refused
        digests = b"".join(hashlib.md5(part, usedforsecurity=False).digest() for part in parts)
        stored = self._state.put(
            *request.name,
            b"".join(parts),
            upload.metadata,
            content_type=upload.content_type,
            etag=f"{_etag(digests)}-{len(parts)}",
            last_modified=upload.begun,
        )
        self._state.uploads.pop(upload.id, None)
        root = xml(
            "CompleteMultipartUploadResult",
            Location=request.path,
            Bucket=request.bucket,
            Key=request.key,
            ETag=f'"{stored.etag}"',
        )
        return Answer(HTTPStatus.OK, self._objects.shown(stored), document(root))

    def _list(self, request: Request) -> Answer:
        prefix = request.query.get("prefix", "")
        found = [
            xml("Upload", Key=upload.key, UploadId=upload.id, Initiated=upload.begun.isoformat())
            for upload in self._state.uploads.values()
            if upload.bucket == request.bucket and upload.key.startswith(prefix)
        ]
        root = xml("ListMultipartUploadsResult", *found, Bucket=request.bucket, IsTruncated="false")
        return Answer(HTTPStatus.OK, {}, document(root))

    def _parts(self, request: Request) -> Answer:
        upload = self._open(request)
        if upload is None:
            return self._gone(request)
        found = [
            xml("Part", PartNumber=number, ETag=f'"{_etag(data)}"', Size=len(data))
            for number, data in sorted(upload.parts.items(), key=lambda part: int(part[0]))
        ]
        root = xml("ListPartsResult", *found, Bucket=request.bucket, Key=upload.key, UploadId=upload.id)
        return Answer(HTTPStatus.OK, {}, document(root))
