"""Each cloud's own rules, as the stub keeps them, seen on the wire."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.stub import Fault, FaultStub, Op
from tests.stub.raw import ask, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.stub import Cloud
    from tests.stub.raw import Told

NAME = ("bucket", "name")


@pytest.fixture
def stub() -> Iterator[FaultStub]:
    with FaultStub(smallest_part=1) as running:
        yield running


# --- S3 -----------------------------------------------------------------------------------------------------


def _upload(stub: FaultStub, *parts: bytes) -> tuple[str, bytes]:
    """An upload with its parts: its query, and the document that completes it."""
    begun = told(stub, "s3", "POST", "/bucket/name?uploads", x_amz_meta_key="value").body.decode()
    query = "?uploadId=" + begun.partition("<UploadId>")[2].partition("<")[0]
    listed = ""
    for number, part in enumerate(parts, start=1):
        etag = told(stub, "s3", "PUT", f"/bucket/name{query}&partNumber={number}", part).headers["etag"]
        listed += f"<Part><ETag>{etag}</ETag><PartNumber>{number}</PartNumber></Part>"
    return f"/bucket/name{query}", f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()


def test_s3_completes_an_upload_only_if_the_name_is_free(stub: FaultStub) -> None:
    path, document = _upload(stub, b"one", b"two")
    stub.put(*NAME, b"another's")
    assert told(stub, "s3", "POST", path, document, if_none_match="*").status == 412
    assert len(stub.uploads) == 1
    stub.delete(*NAME)
    assert told(stub, "s3", "POST", path, document, if_none_match="*").status == 200
    assert stub.objects[NAME].data == b"onetwo"
    assert stub.objects[NAME].metadata == {"key": "value"}
    assert stub.uploads == {}
    assert told(stub, "s3", "POST", path, document, if_none_match="*").status == 404


def test_s3_wants_a_new_upload_after_a_conflict_and_the_old_one_aborted(stub: FaultStub) -> None:
    stub.script(Op.COMPLETE, Fault.CONFLICT_409)
    path, document = _upload(stub, b"one")
    assert told(stub, "s3", "POST", path, document, if_none_match="*").status == 409
    again = told(stub, "s3", "POST", path, document, if_none_match="*")
    assert b"NoSuchUpload" in again.body
    assert len(stub.uploads) == 1
    assert told(stub, "s3", "DELETE", path).status == 204
    assert stub.uploads == {}


def test_s3_answers_a_completion_with_200_and_an_error(stub: FaultStub) -> None:
    stub.script(Op.COMPLETE, Fault.OK_WITH_ERROR_BODY, Fault.NO_SUCH_UPLOAD)
    path, document = _upload(stub, b"one")
    lie = told(stub, "s3", "POST", path, document)
    assert lie.status == 200
    assert b"<Error><Code>InternalError</Code>" in lie.body
    lost = told(stub, "s3", "POST", path, document)
    assert (lost.status, stub.uploads, stub.objects) == (404, {}, {})
    assert b"<Code>NoSuchUpload</Code>" in lost.body


def test_s3_refuses_small_parts_but_the_last() -> None:
    with FaultStub(smallest_part=4) as stub:
        path, document = _upload(stub, b"one", b"two")
        assert b"EntityTooSmall" in told(stub, "s3", "POST", path, document).body
        path, document = _upload(stub, b"four", b"two")
        assert told(stub, "s3", "POST", path, document).status == 200


def test_s3_copies_parts_and_whole_objects_on_conditions(stub: FaultStub) -> None:
    source = stub.put("bucket", "source", b"0123456789", {"from": "source"})
    path, _ = _upload(stub)
    copy = {"x_amz_copy_source": "/bucket/source", "x_amz_copy_source_range": "bytes=2-4"}
    assert b"CopyPartResult" in told(stub, "s3", "PUT", f"{path}&partNumber=1", **copy).body
    assert [upload.parts for upload in stub.uploads.values()] == [{"1": b"234"}]
    stale = {"x_amz_copy_source": "/bucket/source", "x_amz_copy_source_if_match": '"stale"'}
    assert told(stub, "s3", "PUT", "/bucket/name", **stale).status >= 400
    fresh = {"x_amz_copy_source": "bucket/source", "x_amz_copy_source_if_match": source.etag}
    assert told(stub, "s3", "PUT", "/bucket/name", if_none_match="*", **fresh).status == 200
    assert told(stub, "s3", "PUT", "/bucket/name", if_none_match="*", **fresh).status == 412
    assert stub.objects[NAME].metadata == {"from": "source"}


def test_s3_keeps_versions_and_deletes_by_version() -> None:
    with FaultStub(versioned=True) as stub:
        first, second = (told(stub, "s3", "PUT", "/bucket/name", body) for body in (b"1", b"2"))
        versions = [answer.headers["x-amz-version-id"] for answer in (first, second)]
        assert told(stub, "s3", "HEAD", "/bucket/name").headers["x-amz-version-id"] == versions[1]
        assert told(stub, "s3", "GET", f"/bucket/name?versionId={versions[0]}").body == b"1"
        told(stub, "s3", "DELETE", f"/bucket/name?versionId={versions[1]}")
        assert stub.objects[NAME].data == b"1"
        assert told(stub, "s3", "DELETE", "/bucket/name").headers["x-amz-delete-marker"] == "true"
        assert told(stub, "s3", "GET", "/bucket/name").status == 404
        assert told(stub, "s3", "GET", f"/bucket/name?versionId={versions[0]}").body == b"1"


def test_s3_takes_a_body_in_aws_chunks_with_a_trailing_checksum(stub: FaultStub) -> None:
    framed = b"4;chunk-signature=0\r\nabcd\r\n2\r\nef\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n"
    told(stub, "s3", "PUT", "/bucket/name", framed, x_amz_content_sha256="STREAMING-UNSIGNED-PAYLOAD-TRAILER")
    assert stub.objects[NAME].data == b"abcdef"


def test_s3_knows_missing_buckets_long_keys_and_what_it_does_not_do(stub: FaultStub) -> None:
    assert b"NoSuchBucket" in told(stub, "s3", "PUT", "/other/name").body
    assert b"KeyTooLongError" in told(stub, "s3", "PUT", "/bucket/" + "a" * 1025).body
    assert b"NotImplemented" in told(stub, "s3", "PUT", "/bucket/name?acl").body
    assert told(stub, "s3", "GET", "/bucket/name", range="bytes=0-1").status == 404


@pytest.mark.parametrize("cloud", ["s3", "azure"])
def test_the_head_of_an_empty_object_says_its_length(stub: FaultStub, cloud: Cloud) -> None:
    stub.put(*NAME, b"")
    assert told(stub, cloud, "HEAD", "/bucket/name").headers["content-length"] == "0"


def test_s3_says_when_an_object_was_written(stub: FaultStub) -> None:
    long_ago = datetime(2020, 2, 29, 12, tzinfo=timezone.utc)
    stub.put(*NAME, b"old", last_modified=long_ago)
    assert (
        told(stub, "s3", "HEAD", "/bucket/name").headers["last-modified"] == "Sat, 29 Feb 2020 12:00:00 GMT"
    )
    assert b"2020-02-29T12:00:00.000Z" in told(stub, "s3", "GET", "/bucket?list-type=2").body


# --- GCS ----------------------------------------------------------------------------------------------------

_CHUNK = bytes(256 * 2**10)


def _session(stub: FaultStub, query: str = "&ifGenerationMatch=0") -> str:
    begun = told(
        stub,
        "gcs",
        "POST",
        f"/upload/storage/v1/b/bucket/o?uploadType=resumable{query}",
        json.dumps({"name": "name", "metadata": {"key": "value"}}).encode(),
    )
    address = urlsplit(begun.headers["location"])
    return f"{address.path}?{address.query}"


def test_gcs_resumes_a_session_and_repeats_its_last_answer(stub: FaultStub) -> None:
    stub.script(Op.COMPLETE, Fault.DROP_AFTER_APPLY)
    session = _session(stub)
    size = len(_CHUNK)
    first = told(stub, "gcs", "PUT", session, _CHUNK, content_range=f"bytes 0-{size - 1}/{size + 3}")
    assert (first.status, first.headers["range"]) == (308, f"bytes=0-{size - 1}")
    assert stub.objects == {}
    assert (
        ask(stub, "gcs", "PUT", session, b"end", content_range=f"bytes {size}-{size + 2}/{size + 3}") is None
    )
    again = told(stub, "gcs", "PUT", session, content_range=f"bytes */{size + 3}")
    assert json.loads(again.body)["generation"] == str(stub.objects[NAME].generation)
    assert stub.objects[NAME].data == _CHUNK + b"end"
    assert stub.objects[NAME].metadata == {"key": "value"}
    assert stub.ops == [Op.CREATE_UPLOAD, Op.PART, Op.COMPLETE, Op.UPLOAD_STATUS]


def test_gcs_checks_a_sessions_condition_when_it_ends(stub: FaultStub) -> None:
    stub.put(*NAME, b"another's")
    session = _session(stub)
    assert told(stub, "gcs", "PUT", session, b"mine", content_range="bytes 0-3/4").status == 412
    assert stub.uploads == {}
    assert stub.objects[NAME].data == b"another's"


def test_gcs_says_what_a_session_has_and_cancels_it(stub: FaultStub) -> None:
    session = _session(stub)
    assert "range" not in told(stub, "gcs", "PUT", session, content_range="bytes */9").headers
    assert told(stub, "gcs", "DELETE", session).status == 499
    assert stub.uploads == {}
    assert told(stub, "gcs", "PUT", session, b"mine").status == 404


def test_gcs_deletes_and_rewrites_by_generation(stub: FaultStub) -> None:
    held = stub.put(*NAME, b"held")
    path = "/storage/v1/b/bucket/o/name"
    rewrite = f"{path}/rewriteTo/b/bucket/o/folder%2Fcopy?ifGenerationMatch=0"
    assert json.loads(told(stub, "gcs", "POST", rewrite).body)["done"] is True
    assert told(stub, "gcs", "POST", rewrite).status == 412
    assert told(stub, "gcs", "DELETE", f"{path}?ifGenerationMatch={held.generation + 1}").status == 412
    assert told(stub, "gcs", "DELETE", f"{path}?ifGenerationMatch={held.generation}").status == 204
    assert list(stub.objects) == [("bucket", "folder/copy")]


def test_gcs_takes_creates_by_its_xml_api(stub: FaultStub) -> None:
    headers = {"x_goog_if_generation_match": "0", "x_goog_meta_key": "value"}
    answers = [told(stub, "gcs", "PUT", "/bucket/name", b"mine", **headers) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 412]
    assert answers[0].headers["x-goog-generation"] == str(stub.objects[NAME].generation)
    assert stub.objects[NAME].metadata == {"key": "value"}


# --- Azure --------------------------------------------------------------------------------------------------


def _block(stub: FaultStub, name: str, data: bytes) -> str:
    block = base64.b64encode(name.encode()).decode()
    path = f"/bucket/name?comp=block&blockid={block.replace('=', '%3D')}"
    assert told(stub, "azure", "PUT", path, data).status == 201
    return block


def _commit(stub: FaultStub, *blocks: str, **headers: str) -> Told:
    listed = "".join(f"<Latest>{block}</Latest>" for block in blocks)
    document = f"<BlockList>{listed}</BlockList>".encode()
    return told(stub, "azure", "PUT", "/bucket/name?comp=blocklist", document, **headers)


def test_azure_writers_share_a_names_loose_blocks_and_a_commit_discards_them(stub: FaultStub) -> None:
    mine, others = _block(stub, "1", b"mine"), _block(stub, "2", b"another's")
    assert _commit(stub, others, if_none_match="*").status == 201
    assert stub.objects[NAME].data == b"another's"
    assert stub.uploads == {}
    assert _commit(stub, mine).headers["x-ms-error-code"] == "InvalidBlockList"
    # The condition is looked at before the list, as Azurite does.
    for blocks in (mine, others):
        late = _commit(stub, blocks, if_none_match="*")
        assert (late.status, late.headers["x-ms-error-code"]) == (409, "BlobAlreadyExists")


def test_azure_wants_block_ids_of_one_length(stub: FaultStub) -> None:
    _block(stub, "1", b"mine")
    answer = told(stub, "azure", "PUT", "/bucket/name?comp=block&blockid=bG9uZ2Vy", b"another's")
    assert answer.headers["x-ms-error-code"] == "InvalidBlobOrBlock"


def test_azure_copies_and_deletes_on_conditions(stub: FaultStub) -> None:
    stub.put("bucket", "source", b"copied", {"key": "value"})
    source = {"x_ms_copy_source": stub.url("azure") + "/bucket/source", "if_none_match": "*"}
    copied = told(stub, "azure", "PUT", "/bucket/name", **source)
    assert (copied.status, copied.headers["x-ms-copy-status"]) == (202, "success")
    assert told(stub, "azure", "PUT", "/bucket/name", **source).status == 409
    assert told(stub, "azure", "DELETE", "/bucket/name", if_match='"0x0"').status == 412
    assert told(stub, "azure", "DELETE", "/bucket/name", if_match=copied.headers["etag"]).status == 202
    assert list(stub.objects) == [("bucket", "source")]


def test_azure_refuses_metadata_names_that_are_no_identifiers(stub: FaultStub) -> None:
    refused = told(stub, "azure", "PUT", "/bucket/name", b"mine", x_ms_meta_a_b="value")
    assert refused.headers["x-ms-error-code"] == "InvalidMetadata"
    assert told(stub, "azure", "PUT", "/bucket/name", b"mine", x_ms_meta_ab="value").status == 201
    assert told(stub, "azure", "HEAD", "/bucket/name").headers["x-ms-meta-ab"] == "value"
