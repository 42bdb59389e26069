"""The filesystem works in threads, in spawned and in forked processes; of all of them, one wins."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from fsspec.asyn import get_loop

from putifabsent import NameTaken
from putifabsent.fsspec_plugin import options
from putifabsent.fsspec_plugin.files import IN_MEMORY
from tests.fsspec_plugin.children import (
    BODY,
    SECONDS,
    enter,
    in_a_child,
    in_children,
    look_and_fork,
    nothing,
    pipe_file,
    resolve,
    use,
    use_of_the_parents,
)
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fsspec_plugin.grounds import Ground


def check(outcomes: Any, writer: str) -> None:
    assert isinstance(outcomes, dict), outcomes
    assert isinstance(outcomes["taken"], NameTaken)
    assert outcomes["read"] == BODY
    assert outcomes["removed"] == "won"
    assert outcomes["holder"].token == outcomes["resolved"].token
    assert outcomes["holder"].size == outcomes["resolved"].size == len(BODY)
    assert outcomes["holder"].writer == outcomes["resolved"].writer == outcomes["writer"] == writer


NAME = f"bucket/t/_delta_log/{0:020d}.json"
# What goes with a put sends it by the other client.
LANES: dict[str, dict[str, Any]] = {"obstore": {}, "aiobotocore": {"CacheControl": "no-store"}}


@pytest.fixture(params=["local", "s3 by obstore", "s3 by aiobotocore"])
def place(request: pytest.FixtureRequest) -> tuple[Ground, dict[str, Any]]:
    kind, _, lane = request.param.partition(" by ")
    return request.getfixturevalue(kind), LANES.get(lane, {})


def test_it_pickles(ground: Ground) -> None:
    fs = ground.mount(guard=["**/data"], writer="the writer", deadline=7)
    again = pickle.loads(pickle.dumps(fs))
    assert again is fs
    fsspec.filesystem(ground.protocol).clear_instance_cache()
    again = pickle.loads(pickle.dumps(fs))
    assert again is not fs
    assert again == fs
    assert (again.writer, again.explain(ground.name("data")).guarded) == ("the writer", True)
    again.pipe_file(ground.log(), BODY)
    with pytest.raises(NameTaken):
        fs.pipe_file(ground.log(), BODY)


def test_filesystems_of_many_processes_have_one_client(memory: Ground) -> None:
    """A worker may outlive thousands of the processes that it works for."""

    def sent(number: int, **options: Any) -> Any:
        whose = {"writer": f"writer {number}", "writer_session": f"session {number}"}
        return pickle.loads(pickle.dumps(memory.mount(**whose, **options, skip_instance_cache=True)))

    found = [sent(number) for number in range(3)]
    for number, fs in enumerate(found):
        fs.pipe_file(memory.log(number), BODY)
    assert len({id(fs.mount.store) for fs in found}) == len({id(fs.fs) for fs in found}) == 1
    assert len({id(fs) for fs in found}) == 3
    assert [fs.mount.session for fs in found] == ["session 0", "session 1", "session 2"]
    holders = [found[0].mount.store.head(memory.log(number)).holder for number in range(3)]
    assert [holder.writer for holder in holders] == ["writer 0", "writer 1", "writer 2"]
    assert sent(3, deadline=7).mount.store is not found[0].mount.store


def test_of_filesystems_of_other_processes_so_many_are_kept(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that come again stay, and share what they know."""
    monkeypatch.setattr(options, "MOST_KEPT", 3)
    pickled = [
        pickle.dumps(memory.mount(writer_session=f"kept {number}", skip_instance_cache=True))
        for number in range(9)
    ]
    first = pickle.loads(pickled[0])
    for each in pickled:
        pickle.loads(each)
        assert pickle.loads(pickled[0]) is first
    kept = [fs for fs in type(first)._cache.values() if fs.writer_session.startswith("kept")]
    assert [fs.writer_session for fs in kept] == ["kept 0", "kept 7", "kept 8"]


def test_one_that_is_made_in_the_transaction_of_another_process_s_has_no_part_in_it(memory: Ground) -> None:
    own = {"deadline": 8, "skip_instance_cache": True}  # none of another test is alike
    one, another = (pickle.dumps(memory.mount(writer_session=each, **own)) for each in ("one", "another"))
    fs, data = pickle.loads(one), memory.name("data")
    with fs.transaction:
        other = pickle.loads(another)
    other.pipe_file(data, BODY)
    assert memory.read(data) == BODY


def test_what_version_0_1_0_has_pickled_is_read() -> None:
    pickled = (
        b"cputifabsent.fsspec_plugin.filesystem\n_made_again\n(cfsspec.spec\nmake_instance\n"
        b"cputifabsent.fsspec_plugin.protocols\nGuardedMemoryFileSystem\n"
        b"(t(dVwriter\nVw\nsVwriter_session\nVs\nsVw\nVs\ntR."
    )
    again = pickle.loads(pickled)
    assert (again.protocol, again.writer, again.writer_session) == ("piamemory", "w", "s")


def test_a_wrapper_of_a_given_filesystem_pickles(ground: Ground) -> None:
    fs = fsspec.filesystem("putifabsent", fs=ground.around, arbiter="native", guard=["**/data"])
    again = pickle.loads(pickle.dumps(fs))
    again.pipe_file(ground.name("data"), BODY)
    with pytest.raises(NameTaken):
        fs.pipe_file(ground.name("data"), BODY)


def test_a_spawned_process_creates(place: tuple[Ground, dict[str, Any]]) -> None:
    ground, extra = place
    fs = ground.mount(writer="the application's")
    fs.pipe_file(ground.log(1), b"the parent's")
    outcomes = in_a_child("spawn", use, fs, ground.log(0), ground.log(1), extra)
    check(outcomes, "the application's")
    assert ground.read(ground.log(1)) == b"the parent's"


def test_a_process_forked_after_use_creates(place: tuple[Ground, dict[str, Any]]) -> None:
    """The parent has used every client there is; obstore would hang in its child."""
    ground, extra = place
    fs = ground.mount(writer="the application's")
    fs.pipe_file(ground.log(1), b"the parent's")
    fs.pipe_file(ground.name("other"), b"by the other client", mode="create", **extra)
    outcomes = in_a_child("fork", use, fs, ground.log(0), ground.log(1), extra)
    check(outcomes, "the application's")
    fs.pipe_file(ground.log(2), b"the parent goes on")
    outcomes = in_a_child("fork", use, fs, ground.log(3), ground.log(2), extra)
    check(outcomes, "the application's")


def test_a_process_forked_after_a_look_creates(place: tuple[Ground, dict[str, Any]]) -> None:
    """A look alone starts obstore's threads, too."""
    ground, extra = place
    outcomes = in_a_child("spawn", look_and_fork, dict(ground.options), ground.protocol, ground.log(), extra)
    assert outcomes == "won"


def test_a_process_forked_after_use_has_a_memory_of_its_own(memory: Ground) -> None:
    fs = memory.fs
    fs.pipe_file(memory.log(1), b"the parent's")
    check(in_a_child("fork", use, fs, memory.log(0), memory.log(1), {}), fs.writer)
    assert not memory.is_there(memory.log(0))


def test_threads_of_a_fork_that_begin_at_once_find_its_own_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    fs: Any = fsspec.filesystem("piamemory", skip_instance_cache=True)
    of_the_parent = asyncio.new_event_loop()
    of_the_parent.close()
    fs._pid, fs._loop = -1, of_the_parent
    seen: list[Any] = []

    def another(self: Any, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if threading.current_thread() is threading.main_thread():  # it comes when a part is done
            with ThreadPoolExecutor(1) as thread:
                seen.append(thread.submit(lambda: self.loop).result())

    monkeypatch.setattr(type(fs), "__setattr__", another, raising=False)
    assert fs.loop is get_loop()
    assert set(seen) == {get_loop()}


def test_a_process_forked_while_a_thread_writes_creates(ground: Ground) -> None:
    fs = ground.fs
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set() and number < 10_000:
            number += 1
            fs.pipe_file(ground.name(f"busy-{number % 5}"), BODY)
            pipe_file(fs, ground.log(number % 5), BODY, {})

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(3):
            free, taken = (f"{ground.folder}/{table}{number}/_delta_log/{0:020d}.json" for table in "tu")
            for name in (free, taken):
                fs.makedirs(name.rpartition("/")[0], exist_ok=True)
            fs.pipe_file(taken, b"the parent's")
            check(in_a_child("fork", use, fs, free, taken, {}), fs.writer)
    finally:
        stop.set()
        thread.join(SECONDS)
    assert not thread.is_alive()


def test_an_open_file_of_the_parent_is_not_created_by_its_child(place: tuple[Ground, dict[str, Any]]) -> None:
    ground, _ = place
    file = ground.fs.open(ground.log(), "wb")
    file.write(BODY)
    assert in_a_child("fork", nothing) is None
    assert not ground.is_there(ground.log())
    file.close()
    assert ground.read(ground.log()) == BODY


def test_a_turn_of_a_filesystem_that_nobody_has_any_more_is_taken_in_a_forked_child(
    s3: Ground, collect: Callable[[], int]
) -> None:
    """Its client, and that client's loop, are the parent's."""
    fs = s3.mount(skip_instance_cache=True)
    fs.pipe_file(s3.log(), BODY)
    turn = fs.turn(s3.folder)
    del fs
    collect()
    assert in_a_child("fork", enter, turn) is True


@pytest.mark.parametrize("size", [4, IN_MEMORY + 4])
@pytest.mark.parametrize("act", ["write", "close", "leave", "seek"])
def test_a_child_has_no_part_in_an_open_file_of_its_parent(memory: Ground, size: int, act: str) -> None:
    """They share one temporary file, and the place in it."""
    before, after = b"a" * (size - 2), b"bb"
    with memory.fs.open(memory.log(), "w+b") as file:
        file.write(before)
        error = in_a_child("fork", use_of_the_parents, file, act)
        assert isinstance(error, OSError)
        assert "forked" in str(error)
        file.write(after)
    assert memory.read(memory.log()) == before + after


@pytest.mark.parametrize("context", ["spawn", "fork"])
def test_of_many_processes_one_wins(place: tuple[Ground, dict[str, Any]], context: str) -> None:
    ground, extra = place
    fs = ground.fs
    fs.pipe_file(ground.log(1), BODY, **extra)
    writers = 2 if context == "spawn" else 6
    calls = [(fs, ground.log(), f"writer {number}".encode(), extra) for number in range(writers)]
    outcomes = in_children(context, pipe_file, calls)
    winners = [number for number, outcome in enumerate(outcomes) if outcome == "won"]
    assert len(winners) == 1, outcomes
    assert ground.read(ground.log()) == calls[winners[0]][2]
    holder = fs.backend.head(ground.log()).holder
    losers = [outcome for outcome in outcomes if outcome != "won"]
    assert [(type(each), each.holder.token, each.name) for each in losers] == [
        (NameTaken, holder.token, ground.log())
    ] * (writers - 1)


def test_a_pool_of_processes_shares_a_mount(local: Ground) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(pipe_file, local.fs, local.log(), bytes([n]), {}) for n in range(8)]
        outcomes = [future.result(SECONDS) for future in futures]
    assert [outcome == "won" for outcome in outcomes].count(True) == 1


def test_threads_share_an_instance(ground: Ground) -> None:
    fs = ground.fs
    barrier = threading.Barrier(16)

    def write(number: int) -> str | NameTaken:
        barrier.wait(SECONDS)
        return pipe_file(fs, ground.log(), f"writer {number}".encode(), {})

    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(write, range(16)))
    winners = [number for number, outcome in enumerate(outcomes) if outcome == "won"]
    assert len(winners) == 1
    assert ground.read(ground.log()) == f"writer {winners[0]}".encode()


def test_threads_start_a_mount_at_the_same_time(ground: Ground) -> None:
    """Its clients are made at the first use: by all threads at once."""
    fs = ground.mount(skip_instance_cache=True)
    barrier = threading.Barrier(8)

    def write(number: int) -> str | NameTaken:
        barrier.wait(SECONDS)
        return pipe_file(fs, ground.log(number), BODY, {})

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(write, [0] * 8))
    assert outcomes.count("won") == 1


def test_equal_mounts_are_one_instance(ground: Ground) -> None:
    assert ground.mount(guard=["x"], deadline=5) is ground.mount(guard=["x"], deadline=5)
    assert ground.mount(guard=["x"]) is not ground.mount(guard=["y"])
    assert ground.mount(skip_instance_cache=True) is not ground.mount(skip_instance_cache=True)
    assert ground.fs.fs is not ground.fs


def test_a_creation_can_be_asked_for_from_another_process(place: tuple[Ground, dict[str, Any]]) -> None:
    ground, extra = place
    fs = ground.fs
    fs.pipe_file(ground.log(), BODY, **extra)
    holder = fs.backend.head(ground.log()).holder
    mine, others = in_a_child("spawn", resolve, fs, ground.log(), holder.token, "another")
    assert mine == holder
    assert isinstance(others, NameTaken)
    assert others.holder == holder


@pytest.fixture
def cold(stub: FaultStub) -> Iterator[FaultStub]:
    yield stub
    assert not stub.uploads


MULTIPART = """
import os, sys
import fsspec
from putifabsent import NameTaken

fs = fsspec.filesystem(
    "pias3", arbiter="native", key="key", secret="secret", endpoint_url=sys.argv[1],
    client_kwargs={"region_name": "us-east-1"},
)
fs.backend.largest_put = 1024
fs.pipe_file("bucket/t/_delta_log/00000000000000000000.json", b"p" * 2048)
child = os.fork()
if child == 0:
    fs.backend.largest_put = 1024
    fs.pipe_file("bucket/u/_delta_log/00000000000000000000.json", b"c" * 2048)
    fs.mv("bucket/source", "bucket/v/_delta_log/00000000000000000000.json")
    try:
        fs.pipe_file("bucket/t/_delta_log/00000000000000000000.json", b"c" * 2048)
    except NameTaken:
        os._exit(42)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_sends_large_bodies(cold: FaultStub) -> None:
    cold.put("bucket", "source", b"s" * 2048)
    done = subprocess.run(
        [sys.executable, "-c", MULTIPART, cold.url("s3")],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.stdout.split() == ["42"], done.stderr
    bodies = [cold.objects["bucket", f"{table}/_delta_log/{0:020d}.json"].data[:1] for table in "tuv"]
    assert bodies == [b"p", b"c", b"s"]
    assert cold.ops.count(Op.COMPLETE) == 4


INTERRUPTED = """
import sys
import fsspec
from putifabsent import OutcomeUnknown

url, name, way = sys.argv[1:]
fs = fsspec.filesystem(
    "pias3", arbiter="native", key="key", secret="secret", endpoint_url=url,
    client_kwargs={"region_name": "us-east-1"}, config_kwargs={"read_timeout": 1},
)
fs.backend.largest_put = 8
try:
    if way == "obstore":
        fs.pipe_file(name, b"mine")
    elif way == "aiobotocore":
        fs.pipe_file(name, b"mine", CacheControl="no-store")
    elif way == "multipart":
        fs.pipe_file(name, b"mine" * 4)
    elif way == "several":
        fs.pipe({name: b"mine"})
    elif way == "large open":
        fs.backend.largest_put = 16 * 2**20
        with fs.open(name, "wb") as file:
            file.write(bytes(20 * 2**20))
    elif way == "many":
        fs.pipe({name: b"mine", **{name.replace("_delta_log", f"{n}/_delta_log"): b"mine" for n in (1, 2)}})
    else:
        with fs.open(name, "wb") as file:
            file.write(b"mine")
except KeyboardInterrupt as error:
    links = [error]
    while links[-1].__cause__ or links[-1].__context__:
        links.append(links[-1].__cause__ or links[-1].__context__)
    (unknown,) = [link for link in links if isinstance(link, OutcomeUnknown)]
    print(*[each.token for each in (unknown, *unknown.others)])
"""


@pytest.fixture
def interruptible(stub: FaultStub) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start a writer in a process of its own, which the test interrupts."""
    writers: list[subprocess.Popen[str]] = []

    def start(way: str) -> subprocess.Popen[str]:
        writer = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, stub.url("s3"), NAME, way],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        writers.append(writer)
        return writer

    yield start
    for writer in writers:
        writer.kill()
        writer.communicate()


@pytest.mark.parametrize("way", ["obstore", "aiobotocore", "multipart", "several", "open", "large open"])
def test_an_interrupt_after_a_send_carries_the_token(
    stub: FaultStub, interruptible: Callable[[str], subprocess.Popen[str]], way: str
) -> None:
    op = Op.COMPLETE if way in ("multipart", "large open") else Op.PUT
    stub.script(op, Fault.TIMEOUT_AFTER_APPLY, forever=True)
    writer = interruptible(way)
    stub.wait_for(op)
    os.kill(writer.pid, signal.SIGINT)
    printed, errors = writer.communicate(timeout=SECONDS)
    assert printed.split() == [stub.objects["bucket", NAME.partition("/")[2]].metadata["putifabsenttoken"]], (
        errors
    )


def test_an_interrupt_of_many_creations_carries_each_token(
    stub: FaultStub, interruptible: Callable[[str], subprocess.Popen[str]]
) -> None:
    stub.script(Op.PUT, Fault.TIMEOUT_AFTER_APPLY, forever=True)
    writer = interruptible("many")
    stub.wait_for(Op.PUT, 3)
    os.kill(writer.pid, signal.SIGINT)
    printed, errors = writer.communicate(timeout=SECONDS)
    tokens = {stored.metadata["putifabsenttoken"] for stored in stub.objects.values()}
    assert len(tokens) == 3
    assert set(printed.split()) == tokens, errors


NOT_BEGUN = """
import os, signal, sys, threading
import fsspec

url, *names = sys.argv[1:]
fs = fsspec.filesystem(
    "pias3", arbiter="native", key="key", secret="secret", endpoint_url=url,
    client_kwargs={"region_name": "us-east-1"},
)
fs.pipe_file("bucket/before", b"")
busy, main = threading.Event(), threading.get_ident()
fs.loop.call_soon_threadsafe(busy.wait)


def waiting():
    frame = sys._current_frames()[main]
    while frame is not None and frame.f_code.co_name != "sync":
        frame = frame.f_back
    return frame


def interrupt():
    while (first := waiting()) is None:
        busy.wait(0.01)
    os.kill(os.getpid(), signal.SIGINT)
    while waiting() in (None, first):
        busy.wait(0.01)
    busy.set()


threading.Thread(target=interrupt, daemon=True).start()
try:
    fs.pipe(dict.fromkeys(names, b"mine"))
except KeyboardInterrupt:
    fs.pipe_file("bucket/afterwards", b"")
"""


def test_an_interrupt_before_the_loop_has_begun_leaves_nothing_that_begins_later(stub: FaultStub) -> None:
    names = [f"bucket/t{number}/_delta_log/{0:020d}.json" for number in range(3)]
    command = [sys.executable, "-c", NOT_BEGUN, stub.url("s3"), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert {key for _, key in stub.objects} == {"before", "afterwards"}
