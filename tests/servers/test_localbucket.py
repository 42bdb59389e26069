"""The S3 server of the demo and the default tests: published code that decides, and what is added to it."""

from __future__ import annotations

import importlib.util
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import s3fs
from botocore.exceptions import ClientError
from localbucket import S3Handler

from putifabsent.errors import ConfigError
from putifabsent.lab.localbucket_child import Handler
from putifabsent.lab.servers import LocalBucket
from tests.faults.failover import until
from tests.servers import LocalBucketServer, PublishedLocalBucketServer

if TYPE_CHECKING:
    from collections.abc import Iterator

_WRITERS = 64
_NAMES = 5
_WAITING = 200  # more than the published server's 5, and fewer than any system's limit of open files


@pytest.fixture(scope="module")
def running() -> Iterator[LocalBucketServer]:
    with LocalBucketServer() as server:
        yield server


@pytest.fixture
def bucket(running: LocalBucketServer) -> str:
    return running.new_bucket()


@pytest.fixture(scope="module")
def client(running: LocalBucketServer) -> Any:
    return running.client(connections=_WRITERS)


def test_of_simultaneous_creates_one_is_acknowledged_and_its_bytes_are_there(
    client: Any, bucket: str
) -> None:
    together = threading.Barrier(_WRITERS)
    winners: list[list[int]] = [[] for _ in range(_NAMES)]
    losers: list[list[int]] = [[] for _ in range(_NAMES)]

    def write(writer: int) -> None:
        for name in range(_NAMES):
            together.wait(60)
            try:
                client.put_object(Bucket=bucket, Key=f"n/{name}", Body=b"%d" % writer, IfNoneMatch="*")
            except ClientError as error:
                losers[name].append(_status(error))
            else:
                winners[name].append(writer)

    threads = [threading.Thread(target=write, args=[writer]) for writer in range(_WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [len(won) for won in winners] == [1] * _NAMES
    assert losers == [[412] * (_WRITERS - 1)] * _NAMES
    assert [[int(_read(client, bucket, f"n/{name}"))] for name in range(_NAMES)] == winners


def test_connections_wait_for_a_busy_server_and_are_not_dropped() -> None:
    with LocalBucket() as server, ExitStack() as connections:
        port = int(server.endpoint.rpartition(":")[2])
        os.kill(server.pid, signal.SIGSTOP)
        try:
            waiting = [
                connections.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
                for _ in range(_WAITING)
            ]
        finally:
            os.kill(server.pid, signal.SIGCONT)
        for connection in waiting:
            connection.sendall(b"HEAD /lab HTTP/1.0\r\n\r\n")
        assert {connection.recv(12) for connection in waiting} == {b"HTTP/1.1 200"}


def test_metadata_is_kept_with_an_object_however_it_is_made(client: Any, bucket: str) -> None:
    token = {"putifabsenttoken": "one"}
    client.put_object(Bucket=bucket, Key="put", Body=b"bytes", Metadata=token)
    client.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "put"})
    upload = client.create_multipart_upload(Bucket=bucket, Key="parts", Metadata=token)["UploadId"]
    where = {"Bucket": bucket, "Key": "parts", "UploadId": upload}
    part = client.upload_part(**where, PartNumber=1, Body=b"bytes")["ETag"]
    client.complete_multipart_upload(**where, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part}]})
    assert [_metadata(client, bucket, key) for key in ("put", "copy", "parts")] == [token] * 3


def test_metadata_goes_with_the_object_it_was_given_with(client: Any, bucket: str) -> None:
    client.put_object(Bucket=bucket, Key="k", Body=b"first", Metadata={"putifabsenttoken": "first"})
    with pytest.raises(ClientError):
        client.put_object(
            Bucket=bucket, Key="k", Body=b"late", IfNoneMatch="*", Metadata={"putifabsenttoken": "late"}
        )
    assert _metadata(client, bucket, "k") == {"putifabsenttoken": "first"}
    client.copy_object(
        Bucket=bucket,
        Key="k2",
        CopySource={"Bucket": bucket, "Key": "k"},
        Metadata={"putifabsenttoken": "second"},
        MetadataDirective="REPLACE",
    )
    assert _metadata(client, bucket, "k2") == {"putifabsenttoken": "second"}
    client.put_object(Bucket=bucket, Key="k", Body=b"second")
    assert _metadata(client, bucket, "k") == {}


def test_a_taken_key_is_kept_from_a_conditional_complete(client: Any, bucket: str) -> None:
    client.put_object(Bucket=bucket, Key="taken", Body=b"first")
    upload = client.create_multipart_upload(Bucket=bucket, Key="taken")["UploadId"]
    where = {"Bucket": bucket, "Key": "taken", "UploadId": upload}
    part = client.upload_part(**where, PartNumber=1, Body=b"second")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": part}]}
    with pytest.raises(ClientError) as refused:
        client.complete_multipart_upload(**where, MultipartUpload=parts, IfNoneMatch="*")
    assert _status(refused.value) == 412
    assert _read(client, bucket, "taken") == b"first"


def test_a_taken_key_is_kept_from_a_conditional_copy(client: Any, bucket: str) -> None:
    client.put_object(Bucket=bucket, Key="taken", Body=b"first")
    client.put_object(Bucket=bucket, Key="source", Body=b"second")
    source = {"Bucket": bucket, "Key": "source"}
    with pytest.raises(ClientError) as refused:
        client.copy_object(Bucket=bucket, Key="taken", CopySource=source, IfNoneMatch="*")
    assert _status(refused.value) == 412
    assert _read(client, bucket, "taken") == b"first"


def test_s3fs_moves_and_removes_whole_folders(running: LocalBucketServer, bucket: str) -> None:
    files = s3fs.S3FileSystem(skip_instance_cache=True, **running.storage_options)
    files.pipe({f"{bucket}/a/b/{name}": b"bytes" for name in range(3)})
    files.mv(f"{bucket}/a/b/0", f"{bucket}/c/0")
    files.rm(f"{bucket}/a", recursive=True)
    assert files.find(bucket) == [f"{bucket}/c/0"]
    # A folder that is empty is no folder: its name is free for an object.
    files.pipe_file(f"{bucket}/a", b"bytes")
    assert files.cat_file(f"{bucket}/a") == b"bytes"


def test_a_key_that_ends_in_a_slash_is_one_of_its_own(client: Any, bucket: str) -> None:
    client.put_object(Bucket=bucket, Key="folder/", Body=b"", Metadata={"a": "b"})
    client.put_object(Bucket=bucket, Key="folder/file", Body=b"bytes")
    assert _keys(client, bucket) == ["folder/", "folder/file"]
    assert _metadata(client, bucket, "folder/") == {"a": "b"}
    client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "folder/"}]})
    assert _keys(client, bucket) == ["folder/file"]


@pytest.mark.parametrize("delimiter", ["", "/"])
@pytest.mark.parametrize("prefix", ["", "a", "a/", "b", "b/", "b/c", "b/c/", "b/c/d", "b//", "b/../", "z/"])
def test_a_listing_reads_one_folder_and_finds_what_the_published_server_finds_in_all(
    tmp_path: Path, prefix: str, delimiter: str
) -> None:
    for key in ("a", "b/a", "b/c/d", "b/c/e", "b/c-", "b/cc/d", "c/a"):
        file = tmp_path / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"bytes")
    ours, published = Handler.__new__(Handler), S3Handler.__new__(S3Handler)
    markers = ["", "a", "b/", "b/a", "b/c/", "b/c/d", "b/z", "z"]
    for marker, is_folder, most in itertools.product(markers, [True, False], [0, 1, 2, 1000]):
        page = tmp_path, prefix, delimiter, marker, is_folder, most
        assert ours._list_entries(*page) == published._list_entries(*page), page


@pytest.mark.parametrize("key", ["file/below", "file/below/further", "folder"])
def test_a_key_that_a_folder_can_not_hold_is_refused_with_an_answer(
    client: Any, bucket: str, key: str
) -> None:
    client.put_object(Bucket=bucket, Key="file", Body=b"bytes")
    client.put_object(Bucket=bucket, Key="folder/file", Body=b"bytes")
    with pytest.raises(ClientError) as refused:
        client.put_object(Bucket=bucket, Key=key, Body=b"bytes", IfNoneMatch="*")
    assert _status(refused.value) == 400
    assert _keys(client, bucket) == ["file", "folder/file"]


def test_as_published_it_keeps_no_metadata_and_refuses_what_is_added_here() -> None:
    with PublishedLocalBucketServer() as server:
        client, bucket = server.client(), server.new_bucket()
        client.put_object(Bucket=bucket, Key="k", Body=b"bytes", Metadata={"putifabsenttoken": "one"})
        assert _metadata(client, bucket, "k") == {}
        with pytest.raises(ClientError, match="NotImplemented"):
            client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k"}]})
        with pytest.raises(ClientError, match="InvalidArgument"):
            client.put_object(Bucket=bucket, Key="folder/", Body=b"")


def test_its_folder_goes_with_it() -> None:
    with LocalBucket() as server:
        folder = server.folder
        assert (folder / server.bucket).is_dir()
    assert not folder.exists()
    assert not folder.parent.exists()


def test_its_folder_goes_with_whoever_started_it(tmp_path: Path) -> None:
    starter = (
        f"import os; from {LocalBucket.__module__} import LocalBucket\n"
        "with LocalBucket() as server: print(server.folder.parent, flush=True); os._exit(9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", starter],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    folder = Path(done.stdout.strip())
    assert folder.parent == tmp_path
    until(lambda: not folder.exists(), otherwise="the folder was left")


def test_a_server_that_does_not_come_up_shows_what_it_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "localbucket.py").write_text("raise SystemExit('a broken package')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RuntimeError, match="a broken package"), LocalBucket():
        pass


def test_without_the_package_it_says_which_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"putifabsent\[demo\]"), LocalBucket():
        pass


def _read(client: Any, bucket: str, key: str) -> bytes:
    body: bytes = client.get_object(Bucket=bucket, Key=key)["Body"].read()
    return body


def _metadata(client: Any, bucket: str, key: str) -> dict[str, str]:
    metadata: dict[str, str] = client.head_object(Bucket=bucket, Key=key)["Metadata"]
    return metadata


def _keys(client: Any, bucket: str) -> list[str]:
    return [entry["Key"] for entry in client.list_objects_v2(Bucket=bucket)["Contents"]]


def _status(error: ClientError) -> int:
    status: int = error.response["ResponseMetadata"]["HTTPStatusCode"]
    return status
