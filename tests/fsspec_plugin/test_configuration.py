"""What the wrapped filesystem was made with, whoever said it, holds for guarded puts as well."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from s3fs import S3FileSystem

from putifabsent import UnsafeStore
from putifabsent.fsspec_plugin import GuardedFileSystem
from putifabsent.fsspec_plugin.options import made_with
from tests.stub import FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Callable

    Mount = Callable[[FaultStub], Any]

NAME = f"bucket/t/_delta_log/{0:020d}.json"
ENCRYPTED = {"s3_additional_kwargs": {"ServerSideEncryption": "aws:kms"}}


def by_protocol(_: FaultStub) -> Any:
    return fsspec.filesystem("pias3", arbiter="native", skip_instance_cache=True)


def by_chain(_: FaultStub) -> Any:
    return fsspec.filesystem("putifabsent", target_protocol="s3", arbiter="native", skip_instance_cache=True)


def by_a_given_filesystem(_: FaultStub) -> Any:
    wrapped = S3FileSystem(skip_instance_cache=True)
    return GuardedFileSystem(fs=wrapped, arbiter="native", skip_instance_cache=True)


def by_position(stub: FaultStub) -> Any:
    said = stub.storage_options("s3")
    wrapped = S3FileSystem(
        False, said["endpoint_url"], said["key"], said["secret"],
        client_kwargs=said["client_kwargs"], skip_instance_cache=True, **ENCRYPTED,
    )  # fmt: skip
    return GuardedFileSystem(fs=wrapped, arbiter="native", skip_instance_cache=True)


MOUNTS: list[Mount] = [by_protocol, by_chain, by_a_given_filesystem, by_position]


def configure(monkeypatch: pytest.MonkeyPatch, stub: FaultStub) -> None:
    """As a conf.json or FSSPEC_S3_... would."""
    monkeypatch.setitem(fsspec.config.conf, "s3", {**stub.storage_options("s3"), **ENCRYPTED})


@pytest.mark.parametrize("mount", MOUNTS)
def test_what_was_configured_goes_with_guarded_puts(
    stub: FaultStub, monkeypatch: pytest.MonkeyPatch, mount: Mount
) -> None:
    if mount is not by_position:
        configure(monkeypatch, stub)
    fs = mount(stub)
    assert made_with(fs.fs).items() >= {**stub.storage_options("s3"), **ENCRYPTED}.items()
    fs.pipe_file("bucket/plain", b"")
    fs.pipe_file(NAME, b"")
    assert fs.backend.endpoint() == stub.url("s3")
    puts = [
        request for request in stub.requests if request.op is Op.PUT and ".putifabsent" not in request.key
    ]
    assert [put.headers.get("x-amz-server-side-encryption") for put in puts] == ["aws:kms"] * 2
    assert len({put.headers["authorization"].partition("/")[0] for put in puts}) == 1


def test_a_configured_store_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultStub(conditions="ignored") as liar:
        configure(monkeypatch, liar)
        with pytest.raises(UnsafeStore):
            fsspec.filesystem("pias3", skip_instance_cache=True).pipe_file(NAME, b"")
        assert not any(key.endswith(".json") for _, key in liar.objects)


@pytest.mark.parametrize("mount", [by_protocol, by_chain, by_a_given_filesystem])
def test_what_was_configured_goes_with_a_pickle(
    stub: FaultStub, monkeypatch: pytest.MonkeyPatch, mount: Mount
) -> None:
    """A worker need not have the configuration: s3fs itself takes it along."""
    configure(monkeypatch, stub)
    pickled = pickle.dumps(mount(stub))
    monkeypatch.delitem(fsspec.config.conf, "s3")
    S3FileSystem.clear_instance_cache()
    fs = pickle.loads(pickled)
    fs.pipe_file(NAME, b"")
    (put,) = [each for each in stub.requests if each.op is Op.PUT and each.key.endswith(".json")]
    assert put.headers["x-amz-server-side-encryption"] == "aws:kms"
