"""The asynchronous colour does what the synchronous one does, and a cancellation loses no token."""

from __future__ import annotations

import asyncio
import io
import threading
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
import pytest_asyncio

from putifabsent import ConfigError, NameTaken, OutcomeUnknown
from putifabsent.backends import base, streaming_upload
from putifabsent.fsspec_plugin.files import IN_MEMORY
from putifabsent.fsspec_plugin.many import together
from tests.fsspec_plugin.grounds import EVERYWHERE, ground_of
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from putifabsent.lab.servers import LocalBucket
    from tests.fsspec_plugin.grounds import Ground

    Way = Callable[["Async", str], Awaitable[Any]]

pytestmark = pytest.mark.asyncio(loop_scope="module")

BODY = b"mine"
WINNER = b"the winner's"
STUB_NAME = "bucket/t/_delta_log/00000000000000000000.json"
STUB_KEY = STUB_NAME.partition("/")[2]
SECONDS = 60
HOUR = 3600


@pytest.fixture(params=EVERYWHERE)
def ground(request: pytest.FixtureRequest) -> Ground:
    return ground_of(request)


class Async:
    """A ground, its filesystem made with ``asynchronous=True``, and a folder of this disk."""

    def __init__(self, ground: Ground, fs: Any, scratch: Path) -> None:
        self.ground = ground
        self.fs = fs
        self.scratch = scratch

    @property
    def on_disk(self) -> str:
        (self.scratch / "source").write_bytes(BODY)
        return str(self.scratch / "source")

    @property
    def in_store(self) -> str:
        self.ground.write(self.ground.name("source"), BODY)
        return self.ground.name("source")


async def closed(fs: Any) -> None:
    """Close what an asynchronous s3fs leaves open: its loop ends with the test."""
    if hasattr(fs.fs, "_s3"):
        for each in (fs.fs, fs.backend._sender.fs):
            if each._s3 is not None:
                await each._s3.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mounts(localbucket: LocalBucket) -> AsyncIterator[dict[str, Any]]:
    options = {"arbiter": "native", "asynchronous": True, "skip_instance_cache": True}
    made = {
        "memory": fsspec.filesystem("piamemory", **options),
        "local": fsspec.filesystem("piafile", **options),
        "s3": fsspec.filesystem("pias3", **options, **localbucket.storage_options),
    }
    yield made
    await closed(made["s3"])


@pytest.fixture
def mounted(ground: Ground, mounts: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Async:
    return Async(ground, mounts[ground.kind], tmp_path_factory.mktemp("scratch"))


WAYS: dict[str, Way] = {
    "_pipe_file": lambda here, name: here.fs._pipe_file(name, BODY),
    "_pipe_file create": lambda here, name: here.fs._pipe_file(name, BODY, mode="create"),
    "_pipe": lambda here, name: here.fs._pipe({name: BODY}),
    "_put_file": lambda here, name: here.fs._put_file(here.on_disk, name),
    "_put_file create": lambda here, name: here.fs._put_file(here.on_disk, name, mode="create"),
    "_put": lambda here, name: here.fs._put([here.on_disk], [name]),
    "_cp_file": lambda here, name: here.fs._cp_file(here.in_store, name),
    "_copy": lambda here, name: here.fs._copy([here.in_store], [name]),
    "_mv_file": lambda here, name: here.fs._mv_file(here.in_store, name),
}


@pytest.mark.parametrize("way", WAYS)
async def test_every_way_creates_a_free_name_and_spares_a_taken_one(mounted: Async, way: str) -> None:
    ground = mounted.ground
    await WAYS[way](mounted, ground.log())
    assert ground.read(ground.log()) == BODY
    assert ground.is_there(ground.name("source")) is (way in ("_cp_file", "_copy"))

    await mounted.fs._rm(ground.log())
    ground.write(ground.log(), WINNER)
    with pytest.raises(NameTaken) as caught:
        await WAYS[way](mounted, ground.log())
    assert caught.value.name == ground.log()
    assert ground.read(ground.log()) == WINNER
    assert ground.is_there(ground.name("source")) is (way in ("_cp_file", "_copy", "_mv_file"))


@pytest.mark.parametrize("way", [way for way in WAYS if "create" not in way])
async def test_every_plain_way_overwrites_a_name_that_nobody_guards(mounted: Async, way: str) -> None:
    ground = mounted.ground
    ground.write(ground.name("data"), WINNER)
    await WAYS[way](mounted, ground.name("data"))
    assert ground.read(ground.name("data")) == BODY
    assert ground.is_there(ground.name("source")) is (way in ("_cp_file", "_copy"))


@pytest.mark.parametrize("way", [way for way in WAYS if "_p" in way and "create" not in way])
async def test_what_a_transaction_defers_is_created_at_its_end(mounted: Async, way: str) -> None:
    """Also by a client that answers those alone who await it."""
    fs, ground = mounted.fs, mounted.ground
    with fs.transaction:
        await WAYS[way](mounted, ground.log())
        assert not ground.is_there(ground.log())
    assert ground.read(ground.log()) == BODY
    with pytest.raises(NameTaken), fs.transaction:
        await WAYS[way](mounted, ground.log())


async def test_what_a_transaction_defers_is_created_in_several_parts_at_its_end(
    mounts: dict[str, Any], s3: Ground, tmp_path: Path
) -> None:
    (tmp_path / "large").write_bytes(BODY * IN_MEMORY)
    with mounts["s3"].transaction:
        await mounts["s3"]._put_file(str(tmp_path / "large"), s3.log())
    assert s3.around.size(s3.log()) == len(BODY) * IN_MEMORY


async def test_a_client_that_has_met_no_bucket_marks_no_guarded_name(ground: Ground) -> None:
    fs = ground.mount(asynchronous=True, skip_instance_cache=True)
    ground.write(ground.log(), BODY)
    with pytest.raises(io.UnsupportedOperation, match="it can't be marked"):
        await fs._touch(ground.log(), truncate=False)
    await closed(fs)


async def test_a_file_that_is_moved_to_itself_stays(ground: Ground) -> None:
    fs = ground.mount(asynchronous=True, skip_instance_cache=True)
    name = ground.name("data")
    with pytest.raises(FileNotFoundError):
        await fs._mv_file(name, ground.url(name))
    ground.write(name, BODY)
    await fs._mv_file(name, ground.url(name))
    assert ground.read(name) == BODY
    await closed(fs)


async def test_touch_creates_an_empty_file(mounted: Async) -> None:
    ground = mounted.ground
    await mounted.fs._touch(ground.log())
    assert ground.read(ground.log()) == b""
    with pytest.raises(NameTaken):
        await mounted.fs._touch(ground.log())
    await mounted.fs._touch(ground.name("data"))
    assert ground.read(ground.name("data")) == b""


async def test_of_many_writers_of_one_name_one_wins(mounted: Async) -> None:
    bodies = [f"body {number}".encode() for number in range(32)]
    outcomes = await asyncio.gather(
        *(mounted.fs._pipe_file(mounted.ground.log(), body) for body in bodies), return_exceptions=True
    )
    won = [body for body, outcome in zip(bodies, outcomes, strict=True) if outcome is None]
    assert won == [mounted.ground.read(mounted.ground.log())]
    assert sum(isinstance(outcome, NameTaken) for outcome in outcomes) == len(bodies) - 1


async def test_reads_are_those_of_the_wrapped_filesystem(mounted: Async, tmp_path: Path) -> None:
    ground, fs = mounted.ground, mounted.fs
    start = ground.folder
    for last, data in (("a/one", b"one"), ("a/two", b"second"), (".putifabsent/x", b"hidden")):
        ground.around.makedirs(f"{start}/{last}".rpartition("/")[0], exist_ok=True)
        ground.write(f"{start}/{last}", data)
    folder = f"{start}/a"
    one, two = f"{folder}/one", f"{folder}/two"
    folders = {folder, ground.name("_delta_log")} if ground.kind == "local" else {folder}

    assert await fs._cat_file(one) == b"one"
    assert await fs._cat_file(two, start=1, end=3) == b"ec"
    assert await fs._cat([one, two]) == {one: b"one", two: b"second"}
    assert await fs._cat_ranges([two, two], [0, 3], [3, 6]) == [b"sec", b"ond"]
    assert {name.rstrip("/") for name in await fs._ls(start, detail=False)} == folders
    assert {each["name"].rstrip("/") for each in await fs._ls(start, detail=True)} == folders
    assert await fs._find(start) == [one, two]
    assert await fs._glob(f"{start}/**/t*") == [two]
    assert {(root, *sorted(files)) async for root, _, files in fs._walk(folder)} == {(folder, "one", "two")}
    assert {name for _, below, _ in [each async for each in fs._walk(start)] for name in below} <= {
        "a", "_delta_log",
    }  # fmt: skip
    assert sorted(await fs._expand_path(folder, recursive=True)) == [folder, one, two]
    assert await fs._du(start) == len("one" + "second")
    assert (await fs._info(two))["size"] == await fs._size(two) == len("second")
    assert [await fs._exists(one), await fs._isfile(one), await fs._isdir(one)] == [True, True, False]
    assert [await fs._exists(f"{start}/x"), await fs._isdir(folder)] == [False, True]
    await fs._get_file(one, str(tmp_path / "one"))
    await fs._get(start, str(tmp_path / "all"), recursive=True)
    assert (tmp_path / "one").read_bytes() == b"one"
    assert {path.name for path in (tmp_path / "all").rglob("*") if path.is_file()} == {"one", "two"}


async def test_folders_are_made_and_removed(mounted: Async) -> None:
    ground, fs = mounted.ground, mounted.fs
    await fs._makedirs(ground.name("a/b"), exist_ok=True)
    await fs._pipe_file(ground.name("a/b/file"), BODY)
    assert await fs._isdir(ground.name("a/b"))
    await fs._rm_file(ground.name("a/b/file"))
    assert not await fs._exists(ground.name("a/b/file"))
    if ground.kind != "s3":
        await fs._mkdir(ground.name("c"))
        await fs._rmdir(ground.name("c"))
        assert not await fs._exists(ground.name("c"))


async def test_an_outcome_can_be_asked_for_later(mounted: Async) -> None:
    ground = mounted.ground
    await mounted.fs._pipe_file(ground.log(), BODY)
    token = (await mounted.fs.backend.head_async(ground.log())).holder.token
    holder = await mounted.fs._resolve(ground.log(), token)
    assert (holder.token, holder.writer, holder.size) == (token, mounted.fs.writer, len(BODY))
    assert await mounted.fs._resolve(ground.log(1), token) is None
    with pytest.raises(NameTaken):
        await mounted.fs._resolve(ground.log(), "another token")


async def test_a_guarded_name_is_written_whole(mounted: Async) -> None:
    for mode in ("wb", "xb", "ab", "r+b"):
        with pytest.raises(io.UnsupportedOperation, match="_pipe_file"):
            await mounted.fs.open_async(mounted.ground.log(), mode)


async def test_a_filesystem_asynchronous_or_not_wraps_its_like(s3: Ground) -> None:
    plain = fsspec.filesystem("s3", **s3.options)
    with pytest.raises(ConfigError, match="asynchronous"):
        fsspec.filesystem("putifabsent", fs=plain, asynchronous=True)


# --- cancelled ----------------------------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def patient(shared_stub: FaultStub) -> AsyncIterator[Any]:
    """Give a mount on the stub that waits for hours, and whose large bodies are those above 8 bytes."""
    fs = fsspec.filesystem(
        "pias3",
        arbiter="native",
        asynchronous=True,
        skip_instance_cache=True,
        config_kwargs={"read_timeout": 2 * HOUR},
        **shared_stub.storage_options("s3"),
    )
    fs.backend.largest_put = 8
    yield fs
    await closed(fs)


@pytest.fixture
def lossy(patient: Any, stub: FaultStub) -> Any:
    return patient


CREATIONS: dict[str, tuple[Op, Callable[[Any], Awaitable[Any]]]] = {
    "put by obstore": (Op.PUT, lambda fs: fs._pipe_file(STUB_NAME, BODY)),
    "put by aiobotocore": (Op.PUT, lambda fs: fs._pipe_file(STUB_NAME, BODY, CacheControl="no-store")),
    "multipart": (Op.COMPLETE, lambda fs: fs._pipe_file(STUB_NAME, BODY * 4)),
    "rename": (Op.PUT, lambda fs: fs._mv_file("bucket/t/small", STUB_NAME)),
    "large rename": (Op.COMPLETE, lambda fs: fs._mv_file("bucket/t/large", STUB_NAME)),
    "several": (Op.PUT, lambda fs: fs._pipe({STUB_NAME: BODY})),
}


def chain(error: BaseException) -> list[BaseException]:
    """Return an exception and all that led to it."""
    found: list[BaseException] = []
    link: BaseException | None = error
    while link is not None:
        found.append(link)
        link = link.__cause__ or link.__context__
    return found


def unknown_in(error: BaseException) -> OutcomeUnknown:
    found = [each for each in chain(error) if isinstance(each, OutcomeUnknown)]
    assert len(found) == 1, chain(error)
    return found[0]


def put_sources(stub: FaultStub) -> None:
    stub.put("bucket", "t/small", BODY)
    stub.put("bucket", "t/large", BODY * 4)


@pytest.mark.parametrize("shape", CREATIONS)
async def test_a_cancellation_after_a_send_carries_the_token(lossy: Any, stub: FaultStub, shape: str) -> None:
    op, create = CREATIONS[shape]
    put_sources(stub)
    stub.script(op, Fault.TIMEOUT_AFTER_APPLY)
    task = asyncio.ensure_future(create(lossy))
    await asyncio.to_thread(stub.wait_for, op)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    unknown = unknown_in(caught.value)
    assert unknown.name == STUB_NAME
    assert unknown.token == stub.objects["bucket", STUB_KEY].metadata["putifabsenttoken"]
    assert (await lossy._resolve(STUB_NAME, unknown.token)).token == unknown.token
    assert {("bucket", "t/small"), ("bucket", "t/large")} <= stub.objects.keys()
    assert stub.ops.count(op) == 1, "nothing is sent again"


@pytest.mark.parametrize("shape", CREATIONS)
async def test_a_time_limit_after_a_send_carries_the_token(
    lossy: Any, stub: FaultStub, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    op, create = CREATIONS[shape]
    put_sources(stub)
    stub.script(op, Fault.TIMEOUT_AFTER_APPLY)
    limited = asyncio.ensure_future(asyncio.wait_for(create(lossy), HOUR))
    await asyncio.to_thread(stub.wait_for, op)
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", lambda honest=loop.time: honest() + HOUR)
    with pytest.raises(asyncio.TimeoutError) as caught:
        await limited
    token = stub.objects["bucket", STUB_KEY].metadata["putifabsenttoken"]
    assert unknown_in(caught.value).token == token


async def test_a_cancellation_of_a_bulk_call_ends_all_and_carries_every_token(
    lossy: Any, stub: FaultStub, collect: Callable[[], int]
) -> None:
    names = [f"bucket/t/_delta_log/{0:020d}.json", f"bucket/u/_delta_log/{0:020d}.json"]
    later = f"bucket/v/_delta_log/{0:020d}.json"
    stub.script(Op.PUT, Fault.TIMEOUT_AFTER_APPLY, Fault.TIMEOUT_AFTER_APPLY)
    task = asyncio.ensure_future(lossy._pipe(dict.fromkeys([*names, later], BODY), batch_size=2))
    await asyncio.to_thread(stub.wait_for, Op.PUT, 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    first = unknown_in(caught.value)
    unknown = {each.name: each.token for each in (first, *first.others)}
    del task, caught, first
    collect()
    written = {name: stub.objects["bucket", name.partition("/")[2]] for name in names}
    assert unknown == {name: stored.metadata["putifabsenttoken"] for name, stored in written.items()}
    stub.release()
    await lossy._pipe_file("bucket/afterwards", BODY)
    assert stub.ops.count(Op.PUT) == 3, "what had not begun does not begin any more"


async def test_a_series_that_ends_early_ends_no_other_of_its_copy(lossy: Any, stub: FaultStub) -> None:
    logs = [f"{table}/_delta_log/{number:020d}.json" for number in range(4) for table in "ab"]
    for log in {*logs} - {logs[2]}:
        stub.put("bucket", f"from/{log}", BODY)
    with pytest.raises(FileNotFoundError):
        await lossy._copy([f"bucket/from/{each}" for each in logs], [f"bucket/to/{each}" for each in logs])
    copied = {key.removeprefix("to/") for _, key in stub.objects if key.startswith("to/")}
    assert copied == {logs[0], *logs[1::2]}


async def test_however_many_are_created_so_many_at_a_time_are_under_way() -> None:
    before, most = len(asyncio.all_tasks()), 0

    async def create() -> None:
        nonlocal most
        most = max(most, len(asyncio.all_tasks()) - before)
        await asyncio.sleep(0)

    await together([create] * 100, 3)
    assert most == 3


async def test_the_loss_of_one_name_carries_the_token_of_another(lossy: Any, stub: FaultStub) -> None:
    """A call ends at its first error, and hears what the others of the call know."""
    mine, taken = f"bucket/t/_delta_log/{0:020d}.json", f"bucket/u/_delta_log/{0:020d}.json"
    stub.put("bucket", taken.partition("/")[2], b"another's")
    stub.script(Op.PUT, Fault.TIMEOUT_AFTER_APPLY, None)

    async def loses() -> None:
        await asyncio.to_thread(stub.wait_for, Op.PUT)
        await lossy._pipe_file(taken, BODY)

    with pytest.raises(NameTaken) as caught:
        await together([lambda: lossy._pipe_file(mine, BODY), loses], 2)
    unknown = unknown_in(caught.value)
    assert (caught.value.name, unknown.name) == (taken, mine)
    assert (await lossy._resolve(mine, unknown.token)).token == unknown.token


@pytest.mark.parametrize(
    ("waits_at", "create"),
    [
        (Op.PART, CREATIONS["multipart"][1]),
        (Op.CREATE_UPLOAD, CREATIONS["multipart"][1]),
        (Op.HEAD, CREATIONS["rename"][1]),
        (Op.GET, CREATIONS["rename"][1]),
        (Op.PART_COPY, CREATIONS["large rename"][1]),
    ],
)
async def test_a_cancellation_before_a_deciding_send_is_just_that(
    lossy: Any, stub: FaultStub, waits_at: Op, create: Callable[[Any], Awaitable[Any]]
) -> None:
    put_sources(stub)
    stub.script(waits_at, Fault.TIMEOUT_AFTER_APPLY)
    task = asyncio.ensure_future(create(lossy))
    await asyncio.to_thread(stub.wait_for, waits_at)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert not [each for each in chain(caught.value) if isinstance(each, OutcomeUnknown)]
    assert {Op.PUT, Op.COMPLETE}.isdisjoint(stub.ops)
    assert ("bucket", STUB_KEY) not in stub.objects
    assert {("bucket", "t/small"), ("bucket", "t/large")} <= stub.objects.keys()
    if waits_at is not Op.CREATE_UPLOAD:  # of an upload whose id never came nobody can say anything
        assert not stub.uploads


async def test_a_cancellation_while_it_is_looked_whose_the_name_is_stays_certain(
    lossy: Any, stub: FaultStub
) -> None:
    """The store has said that this request wrote nothing."""
    stub.put("bucket", STUB_KEY, WINNER)
    stub.script(Op.HEAD, Fault.TIMEOUT_AFTER_APPLY)
    task = asyncio.ensure_future(lossy._pipe_file(STUB_NAME, BODY))
    await asyncio.to_thread(stub.wait_for, Op.HEAD)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert not [each for each in chain(caught.value) if isinstance(each, OutcomeUnknown)]
    assert stub.objects["bucket", STUB_KEY].data == WINNER


@pytest.fixture(params=["memory", "local"])
def in_threads(request: pytest.FixtureRequest) -> Ground:
    found: Ground = request.getfixturevalue(request.param)
    return found


async def test_a_cancellation_while_a_thread_creates_carries_the_token(
    in_threads: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory and local disk work in threads, which nobody can stop."""
    fs = in_threads.mount(asynchronous=True, skip_instance_cache=True)
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    honest = fs.backend.create

    def slow(*args: Any) -> Any:
        begun.set()
        go_on.wait(SECONDS)
        outcome = honest(*args)
        ended.set()
        return outcome

    monkeypatch.setattr(fs.backend, "create", slow)
    task = asyncio.ensure_future(fs._pipe_file(in_threads.log(), BODY))
    await asyncio.to_thread(begun.wait, SECONDS)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    go_on.set()
    await asyncio.to_thread(ended.wait, SECONDS)
    unknown = unknown_in(caught.value)
    assert (await fs._resolve(in_threads.log(), unknown.token)).token == unknown.token
    assert in_threads.read(in_threads.log()) == BODY


async def test_a_thread_that_goes_on_after_a_cancellation_sends_the_file_that_it_was_given(
    in_threads: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number may be another file's by then."""
    fs = in_threads.mount(asynchronous=True, skip_instance_cache=True, guard="**/part-*")
    name = in_threads.name("part-0")
    (tmp_path / "mine").write_bytes(BODY)
    (tmp_path / "other").write_bytes(b"else")
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    read, create = base.read_at, fs.backend.create

    def slow(*args: Any) -> bytes:
        begun.set()
        go_on.wait(SECONDS)
        return read(*args)

    def heard(*args: Any) -> Any:
        outcome = create(*args)
        ended.set()
        return outcome

    monkeypatch.setattr(streaming_upload, "read_at", slow)
    monkeypatch.setattr(fs.backend, "create", heard)
    task = asyncio.ensure_future(fs._put_file(str(tmp_path / "mine"), name))
    await asyncio.to_thread(begun.wait, SECONDS)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    unknown = unknown_in(caught.value)
    with (tmp_path / "other").open("rb"):
        go_on.set()
        await asyncio.to_thread(ended.wait, SECONDS)
    assert (await fs._resolve(name, unknown.token)).token == unknown.token
    assert in_threads.read(name) == BODY
