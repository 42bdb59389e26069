"""Callers of a mount share its clients, and nothing else."""

from __future__ import annotations

import shutil
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fsspec.implementations.local import LocalFileSystem

from putifabsent.backends.base import Found, Listed
from putifabsent.backends.registry_urls import open_lock
from putifabsent.backends.s3 import S3Store
from putifabsent.errors import Fenced, NameTaken
from putifabsent.fsspec_plugin import stores
from putifabsent.service import mounts as service_mounts
from putifabsent.service.mounts import Caller, Mounts
from putifabsent.service.settings import Mounting, Settings
from tests.fsspec_plugin.hudi_tables import Writer
from tests.inspection.tables import Paimon
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.registries import Lock
    from putifabsent.fsspec_plugin import GuardedFileSystem

_TABLE = "s3a://bucket/t"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[S3Store]]:
    """Return the stores that are made."""
    found: list[weakref.ref[S3Store]] = []
    make = S3Store.__init__

    def noted(self: S3Store, *arguments: Any) -> None:
        make(self, *arguments)
        found.append(weakref.ref(self))

    monkeypatch.setattr(S3Store, "__init__", noted)
    return found


def mounted(stub: FaultStub, *prefixes: str, **more: Any) -> Mounts:
    options = {**stub.storage_options("s3"), "arbiter": "native", **more}
    return Mounts([Mounting(prefix=prefix, options=options) for prefix in prefixes or ("s3a:",)])


def caller(mounts: Mounts, number: int, url: str = _TABLE) -> GuardedFileSystem:
    return mounts.find(url, Caller(f"session-{number}", f"writer-{number}"))[0]


def log(number: int) -> str:
    return f"bucket/t/_delta_log/{number:020}.json"


def test_many_callers_of_a_store_use_one_client(stub: FaultStub, made: list[weakref.ref[S3Store]]) -> None:
    mounts = mounted(stub)
    for number in range(20):
        caller(mounts, number).pipe_file(log(number), b"{}")
    assert len(made) == 1
    assert len({id(caller(mounts, number).fs) for number in range(20)}) == 1


def test_callers_that_come_at_once_use_one_client(
    stub: FaultStub, made: list[weakref.ref[S3Store]], monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = mounted(stub)
    both, make = threading.Barrier(2), S3Store.__init__

    def meeting(self: S3Store, *arguments: Any) -> None:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.5)  # which nobody else reaches, where only one is made
        make(self, *arguments)

    monkeypatch.setattr(S3Store, "__init__", meeting)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda number: caller(mounts, number).mount.store, range(2)))
    assert len(made) == 1


def test_callers_do_not_wait_for_each_others_connections(stub: FaultStub) -> None:
    mounts, at_once = mounted(stub), Settings.model_fields["concurrency"].default
    stub.script(Op.LIST, Fault.TIMEOUT_AFTER_APPLY, forever=True)
    with ThreadPoolExecutor(at_once) as threads:
        listings = [
            threads.submit(caller(mounts, number).mount.store.list, "bucket/t") for number in range(at_once)
        ]
        try:
            stub.wait_for(Op.LIST, at_once)
        finally:
            stub.calm()
            stub.release()
        assert {each.result() for each in listings} == {Listed(())}


def test_each_caller_creates_as_the_writer_that_it_is(stub: FaultStub) -> None:
    mounts = mounted(stub)
    one, two = caller(mounts, 1), caller(mounts, 2)
    one.pipe_file(log(1), b"{}")
    two.pipe_file(log(2), b"{}")
    with pytest.raises(NameTaken):
        two.pipe_file(log(1), b"theirs")
    found = [one.mount.store.head(log(number)) for number in (1, 2)]
    assert [each.holder.writer for each in found if isinstance(each, Found)] == ["writer-1", "writer-2"]
    assert [each.mount.session for each in (one, two)] == ["session-1", "session-2"]


def test_a_client_lives_as_long_as_any_caller_uses_it(
    stub: FaultStub,
    made: list[weakref.ref[S3Store]],
    monkeypatch: pytest.MonkeyPatch,
    collect: Callable[[], int],
) -> None:
    monkeypatch.setattr(service_mounts, "_MOST", 1)
    mounts = mounted(stub, _TABLE, "s3a://bucket/u")
    for number in range(3):  # each of them is forgotten for the next one
        caller(mounts, number).pipe_file(log(number), b"{}")
        collect()
    assert len(made) == 1
    caller(mounts, 4, "s3a://bucket/u")
    collect()
    assert made[0]() is None


@pytest.mark.parametrize(("options", "keeps"), [({}, False), ({"use_listings_cache": True}, True)])
def test_a_service_keeps_listings_only_where_its_options_say_so(
    options: dict[str, Any], keeps: bool, stub: FaultStub
) -> None:
    fs = caller(mounted(stub, **options), 1)
    fs.pipe_file(log(1), b"{}")
    before = fs.ls("bucket/t/_delta_log")
    stub.put("bucket", "t/_delta_log/part-0", b"another tool's")
    assert (fs.ls("bucket/t/_delta_log") == before) is keeps


def test_callers_of_a_store_use_one_client_of_its_registry(
    stub: FaultStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def noted(url: str) -> Lock:
        opened.append(url)
        return open_lock(url)

    monkeypatch.setattr(stores, "open_lock", noted)
    mounts = mounted(stub, arbiter="redis://127.0.0.1:1/0")
    for number in range(20):
        caller(mounts, number)
    assert len(opened) == 1


@pytest.mark.parametrize(("options", "number"), [({}, 1), ({"salt": "slices"}, 3)])
def test_what_is_known_of_a_table_is_known_once_for_all_callers(
    options: dict[str, Any], number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_mounts, "_MOST", 1)  # each of them is forgotten for the next one
    prefix, options = f"file:{tmp_path}", {"inspect": "commits", **options}
    mounts = Mounts([Mounting(prefix=prefix, options=options)])
    table = Paimon(LocalFileSystem(auto_mkdir=True), f"{tmp_path}/db.db/t")
    known = []
    for snapshot in (1, 2, 3):
        table.commit(snapshot, f"data-{snapshot}.orc", upon=None if snapshot > 1 else ())
        name = Path(table.root, f"snapshot/snapshot-{snapshot}")
        written = name.read_bytes()
        name.unlink()
        fs = caller(mounts, snapshot, f"file:{name}")
        fs.pipe_file(str(name), written)
        known.append(fs.guard.commits)
    assert len({id(each) for each in known}) == number


def test_who_is_idle_while_others_come_keeps_no_ledger_but_knows_what_it_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made() -> None:
        (tmp_path / "t/.hoodie/timeline").mkdir(parents=True)
        (tmp_path / "t/.hoodie/hoodie.properties").write_text("hoodie.table.version=9\n")
        (tmp_path / "t/dt=1").mkdir()

    monkeypatch.setattr(service_mounts, "_MOST_READ", 1)
    made()
    url = f"file:{tmp_path}"
    mounts, replica = (Mounts([Mounting(prefix=url)]) for _ in range(2))
    Writer(caller(replica, 1, url), f"{tmp_path}/t").begins("100")
    first = Writer(caller(mounts, 1, url), f"{tmp_path}/t")
    first.fs.pipe_file(first.slice_of("100", "2-0-1"), b"rows")
    ledgers, state = first.fs.guard.ledgers, first.fs.guard.explain(first.requested("100")).state
    assert ledgers.known(state) is not None
    caller(mounts, 2, url)
    assert ledgers.known(state) is None
    shutil.rmtree(tmp_path / "t")
    made()
    with pytest.raises(Fenced):
        first.completes("100")
