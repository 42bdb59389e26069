"""Small guarded files on S3 come by the faster client: in one request, and as s3fs would have them."""

from __future__ import annotations

import contextlib
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from fsspec.asyn import sync

from tests.fsspec_plugin.test_async import closed
from tests.fsspec_plugin.test_costs import sent
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.lab.servers import LocalBucket

BODY = b"mine"
METHODS = ("cat_file", "exists", "info", "isfile")


@pytest.fixture
def table(stub: FaultStub) -> str:
    """Make a Delta log of one entry."""
    folder = uuid.uuid4().hex
    stub.put("bucket", f"{folder}/_delta_log/{0:020d}.json", BODY)
    stub.put("bucket", f"{folder}/_delta_log/{0:020d}.crc", BODY)
    return f"bucket/{folder}/_delta_log"


def mount(stub: FaultStub, **options: Any) -> Any:
    said = {**stub.storage_options("s3"), "skip_instance_cache": True, "use_listings_cache": False}
    fs = fsspec.filesystem("pias3", arbiter="native", **{**said, **options})
    fs.exists("bucket/warm/_delta_log/00000000000000000000.json")
    return fs


def outcome(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or what it raises."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - an error is an answer, too
        return type(error), error.args


def alike(fs: Any, name: str) -> None:
    """Compare each method that may come by the faster client, in both colours, with s3fs's own."""
    for method in METHODS:
        plain = outcome(partial(getattr(fs.fs, method), name))
        assert outcome(partial(getattr(fs, method), name)) == plain
        assert outcome(partial(sync, fs.loop, getattr(fs, f"_{method}"), name)) == plain


@pytest.mark.parametrize(
    ("method", "there", "missing"),
    [
        ("cat_file", "GET", "GET"),
        ("exists", "HEAD", "HEAD"),
        ("info", "HEAD", "HEAD"),
        ("isfile", "HEAD", "HEAD"),
    ],
)
def test_each_is_one_request_whether_it_is_there_or_not(
    stub: FaultStub, table: str, method: str, there: str, missing: str
) -> None:
    fs = mount(stub)
    for number, wanted in ((0, there), (1, missing)):
        name = f"{table}/{number:020d}.json"
        assert sent(stub, lambda name=name: outcome(lambda: getattr(fs, method)(name))) == [wanted]


async def test_it_is_so_asynchronously(stub: FaultStub, table: str) -> None:
    options = {**stub.storage_options("s3"), "asynchronous": True, "skip_instance_cache": True}
    fs = fsspec.filesystem("pias3", arbiter="native", **options)
    names = [f"{table}/{number:020d}.json" for number in (0, 1)]
    before = len(stub.requests)
    for name in names:
        for method in METHODS:
            with contextlib.suppress(FileNotFoundError):
                await getattr(fs, f"_{method}")(name)
    assert len(stub.requests) - before == len(names) * len(METHODS)
    await closed(fs)


@pytest.mark.parametrize("number", [0, 1], ids=["there", "missing"])
def test_the_answers_are_those_of_s3fs(localbucket: LocalBucket, number: int) -> None:
    options = {**localbucket.storage_options, "skip_instance_cache": True, "use_listings_cache": False}
    fs = fsspec.filesystem("pias3", arbiter="native", **options)
    folder = f"{localbucket.bucket}/{uuid.uuid4().hex}/_delta_log"
    fs.pipe_file(f"{folder}/{0:020d}.json", b'{"commitInfo":{}}\n')
    alike(fs, f"{folder}/{number:020d}.json")


def test_a_storage_class_a_type_and_a_version_are_those_of_s3fs(stub: FaultStub, table: str) -> None:
    fs = mount(stub)
    name = f"{table}/{1:020d}.json"
    fs.pipe_file(name, b'{"commitInfo":{}}\n', StorageClass="STANDARD_IA", ContentType="text/x")
    alike(fs, name)


def test_a_folder_that_a_pattern_matches_is_seen(stub: FaultStub) -> None:
    folder = uuid.uuid4().hex
    stub.put("bucket", f"{folder}/batch-1/part", BODY)
    fs = mount(stub, guard="**/batch-*")
    assert fs.explain(f"bucket/{folder}/batch-1").guarded
    for name in (f"bucket/{folder}/batch-1", f"bucket/{folder}/batch-2"):
        alike(fs, name)


def test_a_bucket_that_is_not_there_is_told_as_by_s3fs(stub: FaultStub) -> None:
    fs, name = mount(stub), f"nowhere/t/_delta_log/{0:020d}.json"
    assert outcome(lambda: fs.cat_file(name)) == outcome(lambda: fs.fs.cat_file(name))


def test_what_a_listing_is_remembered_of_says_what_is_there(stub: FaultStub, table: str) -> None:
    fs = mount(stub, use_listings_cache=True)
    fs.ls(table)
    later = f"{table}/{1:020d}.json"
    stub.put("bucket", later.partition("/")[2], BODY)  # another writer's, of whom the listing does not know
    for name in (f"{table}/{0:020d}.json", later):
        for method in METHODS:
            asked = sent(stub, lambda n=name, m=method: outcome(lambda: getattr(fs, m)(n)))
            assert asked == sent(stub, lambda n=name, m=method: outcome(lambda: getattr(fs.fs, m)(n)))
        alike(fs, name)


@pytest.mark.parametrize(
    ("options", "args", "kwargs"),
    [
        ({}, (), {"start": 1}),
        ({}, (None, 0, 2), {}),
        ({"requester_pays": True}, (), {}),
        ({"version_aware": True}, (), {}),
        ({"s3_additional_kwargs": {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "k" * 32}}, (), {}),
    ],
    ids=["a range", "a range by position", "who pays", "versions", "a customer's key"],
)
def test_what_is_asked_for_beside_the_file_is_left_to_s3fs(
    stub: FaultStub, table: str, options: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    fs, name = mount(stub, **options), f"{table}/{0:020d}.json"
    asked = sent(stub, lambda: outcome(lambda: fs.cat_file(name, *args, **kwargs)))
    assert asked == sent(stub, lambda: outcome(lambda: fs.fs.cat_file(name, *args, **kwargs)))


def test_names_that_nothing_guards_are_left_to_s3fs(stub: FaultStub, table: str) -> None:
    fs = mount(stub)
    for name in (f"{table}/{0:020d}.crc", f"{table}/{0:020d}.json?versionId=x", f"{table}/"):
        for method in METHODS:
            asked = sent(stub, lambda n=name, m=method: outcome(lambda: getattr(fs, m)(n)))
            assert asked == sent(stub, lambda n=name, m=method: outcome(lambda: getattr(fs.fs, m)(n)))


@pytest.mark.parametrize("method", METHODS)
def test_what_the_faster_client_can_t_say_s3fs_is_asked(stub: FaultStub, table: str, method: str) -> None:
    fs, name = mount(stub), f"{table}/{0:020d}.json"
    stub.script(Op.GET if method == "cat_file" else Op.HEAD, Fault.ERROR_503_BEFORE)
    assert getattr(fs, method)(name) == getattr(fs.fs, method)(name)
