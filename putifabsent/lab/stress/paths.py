"""The ways to a store that are raced: through putifabsent, and as writers have them without it.

The others do what table formats do with that client: where it has no conditional write, they look whether the
name is there, and write.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

_LEASE = 2.0  # seconds: paused writers are to lose their turns in a run of minutes
_WAIT = 20.0


class Path(Protocol):
    """What a writer has."""

    def create(self, name: str, data: bytes) -> None:
        """Create a name; ``FileExistsError`` if it is there."""

    def read(self, name: str) -> bytes:
        """Return what is there; ``FileNotFoundError`` if nothing is."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, which need not be there."""

    def turn(self, folder: str) -> AbstractContextManager[object]:  # noqa: ARG002 - for those that have one
        """Have a table for oneself, where the path knows how."""
        return nullcontext()


class Contender(NamedTuple):
    """A path as other processes have it, too: what makes it from the options."""

    label: str
    opens: Callable[..., Path]  # that a module has by its name
    options: Mapping[str, Any]
    is_ours: bool = False

    @property
    def imports(self) -> tuple[str, ...]:
        """What opening it imports, as far as that takes long."""
        store = str(self.options.get("protocol", "pias3")).removeprefix("pia")
        clients = {"s3": ("boto3", "obstore", "s3fs"), "gs": ("gcsfs",), "az": ("adlfs",), "abfs": ("adlfs",)}
        backend = {"gs": "gcs", "az": "azure", "abfs": "azure", "file": "local"}.get(store, store)
        ours = ("putifabsent.fsspec_plugin", f"putifabsent.backends.{backend}") if self.is_ours else ()
        return (*ours, *clients.get(store, ()))

    def path(self) -> Path:
        """Open it."""
        return self.opens(**self.options)

    def at(self, endpoint: str) -> Contender:
        """Return it with its store at another address."""
        where = {"endpoint_url": endpoint}
        if "endpoint_url" in self.options:
            return self._replace(options={**self.options, **where})
        kwargs = {**self.options.get("client_kwargs", {}), **where}
        return self._replace(options={**self.options, "client_kwargs": kwargs})


def guarded(protocol: str, label: str, options: Mapping[str, Any]) -> Contender:
    """Return the path through putifabsent, with fsspec's options and the mount's."""
    return Contender(label, Guarded, {**options, "protocol": protocol}, is_ours=True)


def stock_of(protocol: str, options: Mapping[str, Any]) -> list[Contender]:
    """Return the paths to a store that have nothing of putifabsent."""
    known: dict[str, Callable[..., Path]] = {"fsspec": Fsspec}
    if protocol == "pias3":
        known = {
            "s3fs": Fsspec,
            "boto3": Boto,
            "boto3, conditional": ConditionalBoto,
            "pyarrow": Arrow,
            "obstore": Obstore,
        }
    elif protocol == "piafile":
        known = {"fsspec, local": Fsspec, "pyarrow, local": Arrow}
    stock = protocol.removeprefix("pia")
    return [
        Contender(label, opens, {**options, "protocol": {"az": "abfs"}.get(stock, stock)})
        for label, opens in known.items()
    ]


def endpoint_of(options: Mapping[str, Any]) -> str | None:
    """Return the address of a store, where its options say one."""
    found = options.get("endpoint_url") or (options.get("client_kwargs") or {}).get("endpoint_url")
    return None if found is None else str(found)


class Fsspec(Path):
    """fsspec's own filesystem of the store."""

    def __init__(self, protocol: str, **options: Any) -> None:
        import fsspec

        own = {"auto_mkdir": True} if protocol.endswith("file") else {"use_listings_cache": False}
        self.fs = fsspec.filesystem(protocol, **own, **options)

    def create(self, name: str, data: bytes) -> None:
        if self.fs.exists(name):
            raise FileExistsError(name)
        self.fs.pipe_file(name, data)

    def read(self, name: str) -> bytes:
        data: bytes = self.fs.cat_file(name)
        return data

    def names(self, folder: str) -> list[str]:
        try:
            found: list[str] = self.fs.ls(folder, detail=False)
        except FileNotFoundError:
            return []
        return found


class Guarded(Fsspec):
    """putifabsent's. A plain write to a guarded name is a create.

    Each is a writer of its own, and a session: a process has them from its parent's import otherwise.
    """

    def __init__(self, protocol: str, **options: Any) -> None:
        own = {"writer": str(uuid.uuid4()), "writer_session": str(uuid.uuid4())}
        super().__init__(protocol, **own, **options)

    def create(self, name: str, data: bytes) -> None:
        self.fs.pipe_file(name, data)

    def plain(self, name: str) -> bytes | None:
        """Return what the wrapped filesystem finds; None: nothing, or not yet."""
        try:
            data: bytes = self.fs.fs.cat_file(name)
        except FileNotFoundError:
            return None
        return data

    def turn(self, folder: str) -> AbstractContextManager[object]:
        turn: AbstractContextManager[object] = self.fs.turn(folder, lease=_LEASE, timeout=_WAIT)
        return turn


class Boto(Path):
    """boto3's client, as it is configured when nobody says anything."""

    def __init__(self, **options: Any) -> None:
        import boto3

        self._place = _place(options)
        self._client = boto3.client("s3", **self._place)

    def create(self, name: str, data: bytes) -> None:
        bucket, key = _parted(name)
        try:
            self._client.head_object(Bucket=bucket, Key=key)
        except self._client.exceptions.ClientError as error:
            if _status(error) != 404:  # noqa: PLR2004 - HTTP's own
                raise
        else:
            raise FileExistsError(name)
        self._client.put_object(Bucket=bucket, Key=key, Body=data)

    def read(self, name: str) -> bytes:
        bucket, key = _parted(name)
        try:
            data: bytes = self._client.get_object(Bucket=bucket, Key=key)["Body"].read()
        except self._client.exceptions.NoSuchKey as error:
            raise FileNotFoundError(name) from error
        return data

    def names(self, folder: str) -> list[str]:
        bucket, prefix = _parted(folder)
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=f"{prefix}/", Delimiter="/"
        )
        return [f"{bucket}/{each['Key']}" for page in pages for each in page.get("Contents", ())]


class ConditionalBoto(Boto):
    """boto3's client with ``If-None-Match``, which is what its documentation tells to use."""

    def create(self, name: str, data: bytes) -> None:
        bucket, key = _parted(name)
        try:
            self._client.put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
        except self._client.exceptions.ClientError as error:
            if _status(error) != 412:  # noqa: PLR2004 - HTTP's own
                raise
            raise FileExistsError(name) from error


class Arrow(Fsspec):
    """pyarrow's own filesystem, of S3 or of the local disk."""

    def __init__(self, protocol: str, **options: Any) -> None:
        from fsspec.implementations.arrow import ArrowFSWrapper
        from pyarrow.fs import LocalFileSystem, S3FileSystem

        place = _place(options)
        own = (
            LocalFileSystem()
            if protocol == "file"
            else S3FileSystem(
                access_key=place["aws_access_key_id"],
                secret_key=place["aws_secret_access_key"],
                session_token=place["aws_session_token"],
                region=place["region_name"],
                endpoint_override=place["endpoint_url"],
            )
        )
        self.fs = ArrowFSWrapper(own)

    def create(self, name: str, data: bytes) -> None:
        self.fs.makedirs(name.rpartition("/")[0], exist_ok=True)
        super().create(name, data)


class Obstore(Boto):
    """obstore with its ``mode="create"``; it lists by boto3."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._stores: dict[str, Any] = {}

    def create(self, name: str, data: bytes) -> None:
        import obstore

        store, key = self._store(name)
        try:
            obstore.put(store, key, data, mode="create", use_multipart=False)
        except obstore.exceptions.AlreadyExistsError as error:
            raise FileExistsError(name) from error

    def read(self, name: str) -> bytes:
        import obstore

        store, key = self._store(name)
        return bytes(obstore.get(store, key).bytes())

    def _store(self, name: str) -> tuple[Any, str]:
        from obstore.store import S3Store

        bucket, key = _parted(name)
        if bucket not in self._stores:
            # It takes boto3's names, but for the region's.
            known = {key: value for key, value in self._place.items() if value is not None}
            config: Any = {key.removesuffix("_name"): value for key, value in known.items()}
            http = str(self._place["endpoint_url"]).startswith("http:")
            self._stores[bucket] = S3Store(bucket, config=config, client_options={"allow_http": http})
        return self._stores[bucket], key


def _place(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what boto3 calls s3fs's options of where, and by whom."""
    kwargs = options.get("client_kwargs") or {}
    return {
        "endpoint_url": endpoint_of(options),
        "region_name": kwargs.get("region_name"),
        "aws_access_key_id": options.get("key"),
        "aws_secret_access_key": options.get("secret"),
        "aws_session_token": options.get("token"),
    }


def _parted(name: str) -> tuple[str, str]:
    bucket, _, key = name.partition("/")
    return bucket, key


def _status(error: Any) -> int:
    return int(error.response["ResponseMetadata"]["HTTPStatusCode"])
