"""Every client of the three clouds works against the stub as against the real thing."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Protocol

import obstore
import pytest

from tests.stub import FaultStub, Op
from tests.stub.clients import azure_client, boto3_client, filesystem, google_client, obstore_bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.stub import Cloud

KEY = "folder/a file+ü%"
LARGE = bytes(range(256)) * 2**15 * 2  # 16 MiB: more than any client puts at once


@pytest.fixture
def stub() -> Iterator[FaultStub]:
    with FaultStub(largest_page=10) as running:
        yield running


class Client(Protocol):
    def put(self, key: str, data: bytes) -> None: ...
    def size(self, key: str) -> int: ...
    def get(self, key: str) -> bytes: ...
    def list(self) -> list[str]: ...
    def delete(self, key: str) -> None: ...


class Fsspec:
    def __init__(self, stub: FaultStub, cloud: Cloud) -> None:
        self.fs = filesystem(stub, cloud)

    def put(self, key: str, data: bytes) -> None:
        with self.fs.open(f"bucket/{key}", "wb", block_size=6 * 2**20) as file:
            file.write(data)

    def size(self, key: str) -> int:
        size: int = self.fs.info(f"bucket/{key}")["size"]
        return size

    def get(self, key: str) -> bytes:
        data: bytes = self.fs.cat_file(f"bucket/{key}")
        assert self.fs.cat_file(f"bucket/{key}", start=1, end=3) == data[1:3]
        return data

    def list(self) -> list[str]:
        return [name.removeprefix("bucket/") for name in self.fs.find("bucket")]

    def delete(self, key: str) -> None:
        self.fs.rm(f"bucket/{key}")


class Boto3:
    def __init__(self, stub: FaultStub) -> None:
        self.client = boto3_client(stub)

    def put(self, key: str, data: bytes) -> None:
        self.client.upload_fileobj(io.BytesIO(data), "bucket", key)

    def size(self, key: str) -> int:
        size: int = self.client.head_object(Bucket="bucket", Key=key)["ContentLength"]
        return size

    def get(self, key: str) -> bytes:
        data: bytes = self.client.get_object(Bucket="bucket", Key=key)["Body"].read()
        return data

    def list(self) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="bucket")
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]

    def delete(self, key: str) -> None:
        self.client.delete_object(Bucket="bucket", Key=key)


class Obstore:
    def __init__(self, stub: FaultStub, cloud: Cloud) -> None:
        self.store = obstore_bucket(stub, cloud)

    def put(self, key: str, data: bytes) -> None:
        obstore.put(self.store, key, data)

    def size(self, key: str) -> int:
        return obstore.head(self.store, key)["size"]

    def get(self, key: str) -> bytes:
        assert (
            obstore.get_range(self.store, key, start=1, end=3).to_bytes()
            == obstore.get(self.store, key).bytes().to_bytes()[1:3]
        )
        return obstore.get(self.store, key).bytes().to_bytes()

    def list(self) -> list[str]:
        return [entry["path"] for page in obstore.list(self.store) for entry in page]

    def delete(self, key: str) -> None:
        obstore.delete(self.store, key)


class Google:
    def __init__(self, stub: FaultStub) -> None:
        self.bucket = google_client(stub).bucket("bucket")

    def put(self, key: str, data: bytes) -> None:
        self.bucket.blob(key, chunk_size=5 * 2**20).upload_from_file(io.BytesIO(data), size=len(data))

    def size(self, key: str) -> int:
        size: int = self.bucket.get_blob(key).size
        return size

    def get(self, key: str) -> bytes:
        data: bytes = self.bucket.blob(key).download_as_bytes()
        return data

    def list(self) -> list[str]:
        return [blob.name for blob in self.bucket.list_blobs()]

    def delete(self, key: str) -> None:
        self.bucket.blob(key).delete()


class AzureSDK:
    def __init__(self, stub: FaultStub) -> None:
        client = azure_client(stub, max_single_put_size=2**20, max_block_size=4 * 2**20)
        self.container = client.get_container_client("bucket")

    def put(self, key: str, data: bytes) -> None:
        self.container.upload_blob(key, data)

    def size(self, key: str) -> int:
        size: int = self.container.get_blob_client(key).get_blob_properties().size
        return size

    def get(self, key: str) -> bytes:
        data: bytes = self.container.download_blob(key).readall()
        return data

    def list(self) -> list[str]:
        return [blob.name for blob in self.container.list_blobs()]

    def delete(self, key: str) -> None:
        self.container.delete_blob(key)


CLIENTS: dict[str, Callable[[FaultStub], Client]] = {
    "s3fs": lambda stub: Fsspec(stub, "s3"),
    "boto3": Boto3,
    "obstore-s3": lambda stub: Obstore(stub, "s3"),
    "gcsfs": lambda stub: Fsspec(stub, "gcs"),
    "google-cloud-storage": Google,
    "obstore-gcs": lambda stub: Obstore(stub, "gcs"),
    "adlfs": lambda stub: Fsspec(stub, "azure"),
    "azure-storage-blob": AzureSDK,
    "obstore-azure": lambda stub: Obstore(stub, "azure"),
}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, stub: FaultStub) -> Client:
    return CLIENTS[request.param](stub)


def test_a_client_puts_heads_gets_lists_and_deletes(client: Client, stub: FaultStub) -> None:
    client.put(KEY, b"hello")
    assert stub.objects["bucket", KEY].data == b"hello"
    assert client.size(KEY) == 5
    assert client.get(KEY) == b"hello"
    assert client.list() == [KEY]
    client.delete(KEY)
    assert stub.objects == {}
    assert client.list() == []
    assert Op.OTHER not in stub.ops


def test_a_client_uploads_in_parts(client: Client, stub: FaultStub) -> None:
    client.put("large", LARGE)
    assert stub.objects["bucket", "large"].data == LARGE
    assert client.get("large") == LARGE
    assert Op.PART in stub.ops
    assert stub.ops.count(Op.COMPLETE) == 1
    assert stub.uploads == {}


def test_a_client_lists_page_by_page(client: Client, stub: FaultStub) -> None:
    keys = [f"{number:02}" for number in range(25)]
    stub.call(lambda state: [state.put("bucket", key, b"") for key in keys])
    assert sorted(client.list()) == keys
    assert stub.ops.count(Op.LIST) >= 3


@pytest.mark.parametrize("cloud", ["s3", "gcs", "azure"])
def test_a_filesystem_copies_makes_buckets_and_lists_folders(stub: FaultStub, cloud: Cloud) -> None:
    fs = filesystem(stub, cloud)
    stub.put("bucket", "a/b/c", b"1", {"key": "value"})
    fs.cp_file("bucket/a/b/c", "bucket/a/d")
    assert stub.objects["bucket", "a/d"].data == b"1"
    assert stub.objects["bucket", "a/d"].metadata == {"key": "value"}
    assert [name.rstrip("/") for name in fs.ls("bucket/a", detail=False)] == ["bucket/a/b", "bucket/a/d"]
    fs.mkdir("another")
    fs.pipe_file("another/name", b"2")
    assert stub.objects["another", "name"].data == b"2"
    fs.rm("bucket/a", recursive=True)
    assert list(stub.objects) == [("another", "name")]


@pytest.mark.parametrize("cloud", ["s3", "gcs", "azure"])
def test_a_filesystem_creates_a_name_once(stub: FaultStub, cloud: Cloud) -> None:
    fs = filesystem(stub, cloud)
    fs.pipe_file("bucket/name", b"first", mode="create")
    with pytest.raises(FileExistsError):
        fs.pipe_file("bucket/name", b"second", mode="create")
    assert stub.objects["bucket", "name"].data == b"first"


@pytest.mark.parametrize("cloud", ["s3", "gcs", "azure"])
def test_obstore_creates_a_name_once_with_its_metadata(stub: FaultStub, cloud: Cloud) -> None:
    store = obstore_bucket(stub, cloud)
    attributes: Any = {"putifabsenttoken": "mine"}
    obstore.put(store, "name", b"first", mode="create", attributes=attributes)
    with pytest.raises(obstore.exceptions.AlreadyExistsError):
        obstore.put(store, "name", b"second", mode="create")
    assert stub.objects["bucket", "name"].data == b"first"
    held = obstore.get(store, "name", options={"head": True}).attributes
    assert held["putifabsenttoken"] == "mine"
