"""Stores, arbiters and mounts that note what they are asked, in one process, with nothing that waits."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import threading
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import fsspec
import pytest
from fsspec.config import conf
from fsspec.implementations.memory import MemoryFileSystem

from putifabsent.backends.base import Absent, Maybe, Store
from putifabsent.backends.registries import (
    Acquired,
    Claimed,
    ClaimEntry,
    ClaimPage,
    Claims,
    Forgotten,
    FoundClaim,
    Free,
    Held,
    Lock,
    NotAsExpected,
    Released,
)
from putifabsent.shim import drive
from putifabsent.shim.requests import perform_async
from tests.fsspec_plugin.test_async import closed
from tests.golden.wording import call_line, request_line
from tests.stub import FaultStub
from tests.vouching import vouch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from typing_extensions import Self

    from putifabsent.backends.registries import Claim
    from tests.stub import Cloud, Request

ARBITERS = {
    "native": "native",
    "ballot": "ballot",
    "dynamodb": "dynamodb://claims?region=eu-west-1",
    "redis": "redis://127.0.0.1:1/0",
}
ALWAYS = sys.maxsize
_MANY = 100
"""Pauses; no protocol takes as many, so one that goes on for ever is stopped."""
_LOST = OSError("the answer is lost")
_PURE = {
    "clear_instance_cache", "current", "from_dict", "from_json", "get_mapper", "invalidate_cache",
    "split_path", "start_transaction", "end_transaction", "to_dict", "to_json", "transaction_type",
    "unstrip_protocol",
}  # fmt: skip
_inside: ContextVar[bool] = ContextVar("_inside", default=False)


@dataclass
class Record:
    """What was asked, and what goes wrong with it.

    Attributes
    ----------
    decides
        Whether a request, or a call, is the one that decides: by what it does, and on which name.
    lines
        Requests and calls in their order.
    on
        Whether they are noted, and go wrong.
    losses
        How many more answers of what decides are lost.
    pauses
        How many times somebody has waited.
    """

    decides: Callable[[str, str], bool]
    lines: list[str] = field(default_factory=list)
    on: bool = False
    losses: int = 0
    pauses: int = 0

    def begin(self, losses: int) -> None:
        """Note from now on, on an empty page."""
        self.lines = []
        self.on, self.losses, self.pauses = True, losses, 0

    def note(self, line: str) -> int:
        """Note what has arrived; return its place."""
        self.lines.append(line)
        return len(self.lines) - 1

    def answer(self, place: int, answer: str, what: str, name: str) -> bool:
        """Note an answer; return whether it is lost."""
        lost = self.losses > 0 and self.decides(what, name)
        self.losses -= lost
        self.lines[place] += f" -> {answer}{', lost' if lost else ''}"
        return lost

    def seconds(self, *_: object) -> float | None:
        """Return what to wait: nothing; or that the deadline comes first, where no answer ever comes."""
        self.pauses += 1
        return None if self.losses > _MANY or self.pauses > _MANY else 0.0


def deciding(arbiter: str) -> Callable[[str, str], bool]:
    """Return what tells the request, or the call, that decides by an arbiter."""
    if arbiter == "native":
        return lambda what, _: what in ("put", "complete", "create")
    if arbiter == "dynamodb":
        return lambda what, _: what == "write"
    return lambda what, name: what == "put" and name.rpartition("/")[2].startswith("A~")


class Noted:
    """What it stands for; the outermost calls of some methods are noted, and some answers lost.

    Twins are not noted by themselves: theirs is to call these in a thread.
    """

    def __init__(self, record: Record, patch: pytest.MonkeyPatch, of: str, methods: Iterable[str]) -> None:
        self._record = record
        self._patch = patch
        self._of = of
        self._methods = list(methods)

    def on(self, thing: Any) -> Any:
        """Begin with one thing."""
        for method in self._methods:
            self._patch.setattr(thing, method, self._noted(method, getattr(thing, method)), raising=True)
        return thing

    def _noted(self, method: str, honest: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            if not self._record.on or _inside.get():
                return honest(*args, **kwargs)
            inside = _inside.set(True)
            place = self._record.note(call_line(self._of, method, args, kwargs))
            try:
                outcome = honest(*args, **kwargs)
            except BaseException as error:
                self._record.answer(place, type(error).__name__, "", "")
                raise
            finally:
                _inside.reset(inside)
            if self._of == "fs":
                return outcome
            name = str(args[0]) if args else ""
            lost = self._record.answer(place, type(outcome).__name__, method, name)
            return Maybe(_LOST) if lost else outcome

        return noted


class FakeClaims(Claims):
    """A registry of claims in this process."""

    kind: ClassVar[str] = "dynamodb"
    calls: ClassVar[tuple[str, ...]] = ("read", "write", "forget", "list", "sweep", "identity")

    def __init__(self) -> None:
        self.held: dict[str, Claim] = {}
        self._lock = threading.Lock()

    def read(self, identity: str) -> Any:
        there = self.held.get(identity)
        return Absent() if there is None else FoundClaim(there)

    def write(self, identity: str, claim: Claim, expected: Claim | None) -> Any:
        with self._lock:
            there = self.held.get(identity)
            if (there and there.mark) != (expected and expected.mark):
                return NotAsExpected(there)
            self.held[identity] = claim
        return Claimed()

    def forget(self, identity: str, expected: Claim) -> Any:
        with self._lock:
            there = self.held.get(identity)
            if there is None or there.mark != expected.mark:
                return NotAsExpected(there)
            del self.held[identity]
        return Forgotten()

    def list(self, folder: str, start: Any = None) -> Any:
        del start
        held = self.held.copy()  # in one step, whatever other threads do
        names = sorted(name for name in held if name.rpartition("/")[0] == folder)
        return ClaimPage(tuple(ClaimEntry(name, held[name]) for name in names))

    def sweep(self, place: str, start: Any = None) -> Any:
        del start
        held = self.held.copy()
        return ClaimPage(tuple(ClaimEntry(*each) for each in held.items() if each[0].startswith(place)))

    def identity(self) -> str:
        return "fake"


class FakeLock(Lock):
    """Locks in this process, whose leases never end."""

    kind: ClassVar[str] = "redis"
    calls: ClassVar[tuple[str, ...]] = ("acquire", "release")

    def __init__(self) -> None:
        self.held: dict[str, str] = {}

    def acquire(self, key: str, owner: str, lease: float) -> Any:
        if key in self.held:
            return Held(self.held[key])
        self.held[key] = owner
        return Acquired()

    def release(self, key: str, owner: str) -> Any:
        if self.held.get(key, owner) != owner:
            return Held(self.held[key])
        return Released() if self.held.pop(key, None) else Free()

    def identity(self) -> str:
        return "fake"


class OnTheWire:
    """S3, GCS or Azure, at a stub that notes requests."""

    def __init__(self, cloud: Cloud, record: Record, running: ExitStack) -> None:
        self._record = record
        self.stub = running.enter_context(FaultStub(serve=self._serve))
        self.protocol, self.plain = {"s3": ("pias3", "s3"), "gcs": ("piags", "gs"), "azure": ("piaaz", "az")}[
            cloud
        ]
        self.options = {**self.stub.storage_options(cloud), "use_listings_cache": False}
        vouch(self.stub.url(cloud), cloud)
        self.folder = "bucket"

    async def _serve(self, dialect: Any, request: Request) -> Any:
        if not self._record.on:
            return await dialect.apply(request)
        place = self._record.note(request_line(request))
        answer = await dialect.apply(request)
        lost = self._record.answer(place, str(int(answer.status)), request.op.value, request.key)
        return None if lost else answer

    def put(self, name: str, data: bytes) -> None:
        self.stub.put("bucket", name, data)

    def remove(self, name: str) -> None:
        self.stub.delete("bucket", name)

    def snapshot(self) -> Callable[[], None]:
        """Return what brings all back that is here now."""
        objects = self.stub.call(lambda state: dict(state.objects))

        def restore() -> None:
            def change(state: Any) -> None:
                state.clear()
                state.objects.update(objects)
                state.history.update({name: [found] for name, found in objects.items()})

            self.stub.call(change)

        return restore

    def note(self, fs: Any) -> None:
        """Note nothing more: all that is asked is on the wire."""


class ByCalls:
    """What memory and local disk share: the calls of the store, and of the wrapped filesystem, are noted."""

    options: ClassVar[dict[str, Any]] = {}
    protocol: str
    plain: str
    folder: str

    def __init__(self, record: Record, patch: pytest.MonkeyPatch) -> None:
        calls = sorted(name for name in Store.__abstractmethods__ | {"time"} if name != "endpoint")
        self._store = Noted(record, patch, "store", calls)
        kind = fsspec.get_filesystem_class(self.plain)
        public = {name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))}
        self._wrapped = Noted(record, patch, "fs", sorted(public - _PURE | {"_open"}))

    def note(self, fs: Any) -> None:
        """Note what a mount asks from now on."""
        self._store.on(fs.backend)
        self._wrapped.on(fs.fs)

    def put(self, name: str, data: bytes) -> None:
        around = fsspec.filesystem(self.plain)
        around.makedirs(f"{self.folder}/{name}".rpartition("/")[0], exist_ok=True)
        around.pipe_file(f"{self.folder}/{name}", data)

    def remove(self, name: str) -> None:
        fsspec.filesystem(self.plain).rm_file(f"{self.folder}/{name}")


class InMemory(ByCalls):
    """Memory of this process."""

    protocol, plain, folder = "piamemory", "memory", "/golden"

    def snapshot(self) -> Callable[[], None]:
        """Return what brings all back that is here now."""
        files, folders = dict(MemoryFileSystem.store), list(MemoryFileSystem.pseudo_dirs)

        def restore() -> None:
            MemoryFileSystem.store.clear()
            MemoryFileSystem.store.update(files)
            MemoryFileSystem.pseudo_dirs[:] = folders

        return restore


class OnDisk(ByCalls):
    """A folder of this machine."""

    protocol, plain = "piafile", "file"

    def __init__(self, record: Record, patch: pytest.MonkeyPatch, scratch: Path) -> None:
        super().__init__(record, patch)
        self._scratch = scratch
        self.folder = str(scratch / "store")

    def snapshot(self) -> Callable[[], None]:
        """Return what brings all back that is here now."""
        kept = Path(tempfile.mkdtemp(dir=self._scratch))
        shutil.copytree(self.folder, kept, dirs_exist_ok=True)

        def restore() -> None:
            shutil.rmtree(self.folder)
            shutil.copytree(kept, self.folder)

        return restore


@cache
def running_loop() -> asyncio.AbstractEventLoop:
    """Return the loop of all asynchronous mounts. It runs to the end: adlfs closes its clients on it then."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


class World:
    """One store and one arbiter. ``with World("s3", "native") as world:`` sets it up.

    Attributes
    ----------
    record
        What is asked.
    ground
        The store, as another program reaches it.
    disk
        A folder of this machine, for what is put and got.
    """

    def __init__(self, store: str, arbiter: str) -> None:
        self.store, self.arbiter = store, arbiter
        self.record = Record(deciding(arbiter))
        self.loop = running_loop()
        self._running = ExitStack()
        self._mounts: list[Any] = []

    def __enter__(self) -> Self:
        patch = self._running.enter_context(pytest.MonkeyPatch.context())
        self._wait_for_nothing(patch)
        # Ballots are ordered by their tokens, too: each is higher than those before it.
        drawn = count(1)
        patch.setattr(os, "urandom", lambda size: next(drawn).to_bytes(4, "big").ljust(size, b"\0")[:size])
        self.registry: FakeClaims | FakeLock = FakeClaims() if self.arbiter == "dynamodb" else FakeLock()
        Noted(self.record, patch, self.registry.kind, self.registry.calls).on(self.registry)
        patch.setattr("putifabsent.backends.dynamodb.DynamoDBClaims", lambda *_, **__: self.registry)
        patch.setattr("putifabsent.backends.redis.RedisLock", lambda *_: self.registry)
        scratch = Path(self._running.enter_context(tempfile.TemporaryDirectory()))
        self.disk = scratch / "disk"
        self.ground: Any
        if self.store == "memory":
            self.ground = InMemory(self.record, patch)
        elif self.store == "local":
            self.ground = OnDisk(self.record, patch, scratch)
        else:
            self.ground = OnTheWire(self.store, self.record, self._running)  # type: ignore[arg-type]
        self._running.callback(self._close)
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def _wait_for_nothing(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(drive, "_seconds", self.record.seconds)
        # One after the other: what is sent at the same time arrives in any order.
        patch.setattr(drive, "_started", lambda _: False)
        patch.setattr(drive, "_both_async", _one_by_one)
        patch.setitem(conf, "gather_batch_size", 1)
        patch.setitem(conf, "nofiles_gather_batch_size", 1)

    def mount(self, writer: str, **options: Any) -> Any:
        """Return a new mount; large bodies are those above a kilobyte."""
        fs = fsspec.filesystem(
            self.ground.protocol,
            **{**self.ground.options, "arbiter": ARBITERS[self.arbiter], **options},
            writer=writer,
            session=writer,
            skip_instance_cache=True,
        )
        fs.backend.largest_put = 1024
        self.ground.note(fs)
        self._mounts.append(fs)
        return fs

    def snapshot(self) -> Callable[[], None]:
        """Return what brings all back that store and registry hold now."""
        restore, held = self.ground.snapshot(), dict(self.registry.held)

        def back() -> None:
            restore()
            self.registry.held.clear()
            self.registry.held.update(held)  # type: ignore[arg-type]

        return back

    def run(self, many: Coroutine[Any, Any, Any]) -> Any:
        """Run what is asynchronous."""
        return asyncio.run_coroutine_threadsafe(many, self.loop).result()

    def _close(self) -> None:
        for fs in self._mounts:
            if fs.asynchronous:
                self.run(closed(fs))


async def _one_by_one(both: Any, store: Store) -> tuple[object, object]:
    return await perform_async(both.first, store), await perform_async(both.second, store)
