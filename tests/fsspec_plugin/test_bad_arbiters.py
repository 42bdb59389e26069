"""An arbiter that can not decide is refused before anything is written, and the error says what to do."""

from __future__ import annotations

import asyncio
import errno
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent import ConfigError, NameTaken, OutcomeUnknown, UnsafeStore
from putifabsent.backends.base import TryAgain
from putifabsent.backends.probe import BESIDE, NEEDED
from tests.backends.dynamodb_servers import registry_at
from tests.fault_proxy import FaultProxy
from tests.fsspec_plugin.grounds import decided_by
from tests.fsspec_plugin.test_async import closed
from tests.servers import Valkey
from tests.stub import Fault, FaultStub, Op
from tests.stub.dynamodb_faults import Trouble
from tests.vouching import vouch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fsspec_plugin.grounds import Ground

BODY = b"mine"
LATER = b"the second life"
LOG = f"bucket/t/_delta_log/{0:020}.json"


def a_ballot_decides(options: dict[str, Any]) -> None:
    fs = fsspec.filesystem("pias3", arbiter="ballot", **options)
    fs.pipe_file(LOG, BODY)
    with pytest.raises(NameTaken):
        fs.pipe_file(LOG, LATER)


def test_a_store_that_ignores_conditions_is_used_with_a_ballot_and_refused_without() -> None:
    with FaultStub(conditions="ignored") as stub:
        vouch(stub.url("s3"))
        options = {**stub.storage_options("s3"), "skip_instance_cache": True}
        with pytest.raises(UnsafeStore, match='arbiter="ballot"'):
            fsspec.filesystem("pias3", **options).pipe_file(LOG, BODY)
        a_ballot_decides(options)


def test_a_store_that_answers_501_to_the_condition_is_told_by_that_and_used_with_a_ballot() -> None:
    with FaultStub(conditions="unimplemented") as stub:
        vouch(stub.url("s3"))
        options = {**stub.storage_options("s3"), "skip_instance_cache": True}
        with pytest.raises(UnsafeStore, match=r'it does not implement this.*arbiter="ballot"'):
            fsspec.filesystem("pias3", **options).pipe_file(LOG, BODY)
        assert stub.ops.count(Op.PUT) < 10
        a_ballot_decides(options)


@pytest.mark.parametrize("size", [1, 20 * 2**20], ids=["whole", "in parts"])
@pytest.mark.parametrize("added", [{}, {"StorageClass": "STANDARD"}], ids=["by obstore", "by aiobotocore"])
def test_who_does_not_ask_hears_at_once_that_nothing_was_created(added: dict[str, str], size: int) -> None:
    with FaultStub(conditions="unimplemented") as stub:
        options = {**stub.storage_options("s3"), "s3_additional_kwargs": added, "skip_instance_cache": True}
        fs = fsspec.filesystem("pias3", arbiter="native", guard=["**/name"], **options)
        with pytest.raises(OSError, match=r'501.*arbiter="ballot"') as caught:
            fs.pipe_file("bucket/t/name", bytes(size))
        assert caught.value.errno == errno.EOPNOTSUPP
        assert not isinstance(caught.value, OutcomeUnknown)
        assert [stub.ops.count(op) for op in (Op.PUT, Op.COMPLETE)] in ([1, 0], [0, 1])
        assert stub.objects == {}
        # What asks for no condition goes on as ever.
        fs.pipe_file("bucket/t/other", b"data")
        assert fs.cat_file("bucket/t/other") == b"data"


def test_mounts_of_one_table_that_would_ask_different_arbiters_are_told_of_both(
    s3: Ground, registry: str
) -> None:
    s3.mount(arbiter="ballot").pipe_file(s3.log(), BODY)
    other = s3.mount(arbiter=registry)
    with pytest.raises(ConfigError, match=r"this mount lets dynamodb by .* decide, .* the table ballot"):
        other.pipe_file(s3.log(1), BODY)
    with pytest.raises(ConfigError, match=r"this mount lets the store itself decide, .* the table ballot"):
        s3.mount(arbiter="native").pipe_file(s3.log(1), BODY)
    with pytest.raises(ConfigError):
        asyncio.run(asynchronously(s3, s3.log(1)))
    assert not s3.is_there(s3.log(1))


async def asynchronously(ground: Ground, name: str) -> None:
    fs = ground.mount(asynchronous=True, skip_instance_cache=True)
    await fs.fs.set_session()
    try:
        await fs._pipe_file(name, BODY)
    finally:
        await closed(fs)


REMOVALS = {
    "a name": lambda fs, ground: fs.rm_file(ground.log()),
    "names": lambda fs, ground: fs.rm([ground.log(), ground.name("data")]),
    "its log": lambda fs, ground: fs.rm(f"{ground.folder}/_delta_log", recursive=True),
    "all of it": lambda fs, ground: fs.rm(ground.folder, recursive=True),
    "what a pattern finds": lambda fs, ground: fs.rm(f"{ground.folder}/_delta_log/*"),
    "by a move": lambda fs, ground: fs.mv(ground.log(), ground.name("elsewhere")),
}


@pytest.mark.parametrize("remove", REMOVALS.values(), ids=REMOVALS)
@pytest.mark.parametrize("arbiter", ["native", "another"])
def test_nothing_is_removed_of_a_table_that_another_arbiter_decides_about(
    s3: Ground, registry: str, remove: Any, arbiter: str
) -> None:
    # What the store forgets would come back; and without its record two arbiters could decide.
    s3.mount(arbiter="ballot").pipe_file(s3.log(), BODY)
    s3.write(s3.name("data"), BODY)
    before = s3.around.find(s3.folder)
    with pytest.raises(ConfigError, match="another mount of the table ballot"):
        remove(s3.mount(arbiter=registry if arbiter == "another" else arbiter), s3)
    assert set(before) <= set(s3.around.find(s3.folder))


@pytest.mark.parametrize("ground", ["local-native", "s3-native"], indirect=True)
@pytest.mark.parametrize("called", ["metadata", "offsets/3"])
def test_a_table_is_looked_at_though_a_format_guards_files_that_are_called_so(
    ground: Ground, called: str
) -> None:
    name = f"{ground.name(called)}/_delta_log/{0:020d}.json"
    ground.around.makedirs(name.rpartition("/")[0], exist_ok=True)
    ground.mount(arbiter="ballot").pipe_file(name, BODY)
    with pytest.raises(ConfigError, match="another mount of the table ballot"):
        ground.fs.rm(ground.name(called), recursive=True)
    assert ground.mount(arbiter="ballot").cat_file(name) == BODY


def test_a_folder_in_which_nobody_decides_is_removed_by_anybody(s3: Ground) -> None:
    s3.mount(arbiter="ballot").pipe_file(s3.log(), BODY)
    s3.write(s3.name("data/part"), BODY)
    s3.mount(arbiter="native").rm(s3.name("data"), recursive=True)
    assert not s3.is_there(s3.name("data/part"))


def test_an_explicit_creation_is_refused_where_another_arbiter_decides_about_such(memory: Ground) -> None:
    memory.mount(arbiter="ballot").pipe_file(memory.name("first"), BODY, mode="create")
    with pytest.raises(ConfigError, match="another mount of the table ballot"):
        memory.mount(arbiter="native").pipe_file(memory.name("lock"), BODY, mode="create")
    assert not memory.is_there(memory.name("lock"))


@pytest.mark.parametrize("arbiter", ["ballot", "claims"])
def test_mounts_that_know_other_formats_decide_about_a_name_in_one_place(
    memory: Ground, request: pytest.FixtureRequest, arbiter: str
) -> None:
    ground = decided_by(arbiter, memory, request)
    ground.write(ground.name("metadata"), b"{}")
    batch = ground.name("sources/0/7")
    ground.mount().pipe_file(batch, BODY)
    # Its own bytes are lost to the store's way of publishing; only who decides knows of the other.
    ground.around.rm_file(batch)
    for options in ({"guard": ["**/sources/**"]}, {"formats": "delta", "guard": ["**/sources/**"]}):
        with pytest.raises(NameTaken):
            ground.mount(**options).pipe_file(batch, LATER)
        assert ground.mount(**options).cat_file(batch) == BODY


def test_two_registries_of_one_table_are_both_named(local: Ground, registry: str) -> None:
    address = registry.partition("endpoint_url=")[2]
    one, other = (registry_at(address) for _ in range(2))
    local.mount(arbiter=one).pipe_file(local.log(), BODY)
    with pytest.raises(ConfigError) as caught:
        local.mount(arbiter=other).pipe_file(local.log(1), BODY)
    tables = [each.partition("://")[2].partition("?")[0] for each in (one, other)]
    assert [table in str(caught.value) for table in tables] == [True, True]
    assert not local.is_there(local.log(1))


def test_a_table_that_is_not_there_is_named_with_what_makes_it(s3: Ground, registry: str) -> None:
    fs = s3.mount(arbiter=registry.replace("claims", "missing", 1))
    with pytest.raises(ConfigError, match=r"no table missing.*: run `putifabsent init 'dynamodb://missing"):
        fs.pipe_file(s3.log(), BODY)
    assert s3.files() == []


@pytest.mark.parametrize("is_used", [False, True])
def test_a_right_that_a_registry_does_not_give_is_told(local: Ground, registry: str, is_used: bool) -> None:
    with FaultProxy(registry.partition("endpoint_url=")[2], speech="dynamodb") as proxy:
        fs = local.mount(arbiter=registry.partition("endpoint_url=")[0] + f"endpoint_url={proxy.endpoint}")
        if is_used:
            fs.pipe_file(local.log(), BODY)
        before = local.files()
        proxy.always(Trouble.DENIED)
        with pytest.raises(
            PermissionError, match=r"AccessDenied.*(DescribeTable|PutItem).*`putifabsent init`"
        ):
            fs.pipe_file(local.log(1), BODY)
        assert local.files() == before


@pytest.mark.parametrize("refused", [Op.PUT, Op.LIST, Op.HEAD])
def test_a_right_that_the_bucket_does_not_give_is_told(stub: FaultStub, on_stub: Any, refused: Op) -> None:
    fs = by_ballot(on_stub)
    fs.pipe_file("bucket/t/first", BODY, mode="create")
    stub.script(refused, Fault.FORBIDDEN_403, forever=True)
    with pytest.raises(PermissionError, match=r"bucket/t/.*name"):
        fs.pipe_file("bucket/t/name", BODY, mode="create")
    assert ("bucket", "t/name") not in stub.objects


def test_a_name_that_is_decided_and_may_not_be_shown_is_unknown(stub: FaultStub, on_stub: Any) -> None:
    fs = by_ballot(on_stub)
    stub.script(Op.COPY, Fault.FORBIDDEN_403, forever=True)
    with pytest.raises(OutcomeUnknown, match=r"can't be published: .*Access Denied.*fs\.resolve") as caught:
        fs.pipe_file("bucket/t/name", BODY, mode="create")
    stub.script(Op.COPY, None, forever=True)
    assert fs.resolve("bucket/t/name", caught.value.token).token == caught.value.token
    assert fs.cat_file("bucket/t/name") == BODY


def test_an_outcome_is_resolved_by_the_table_s_arbiter_alone(
    stub: FaultStub, on_stub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = by_ballot(on_stub)
    stub.script(Op.COPY, Fault.FORBIDDEN_403, forever=True)
    with pytest.raises(OutcomeUnknown) as caught:
        fs.pipe_file("bucket/t/name", BODY, mode="create")
    # The name is decided, and not there: to the store itself it was never created.
    with pytest.raises(ConfigError, match="another mount of the table ballot"):
        on_stub(skip_instance_cache=True).resolve("bucket/t/name", caught.value.token)
    silent = on_stub(skip_instance_cache=True, deadline=0.1)
    monkeypatch.setattr(silent.backend, "list", lambda _: TryAgain(ConnectionError("no answer")))
    with pytest.raises(OutcomeUnknown, match="who decides about its table can't be looked up"):
        silent.resolve("bucket/t/name", caught.value.token)


def by_ballot(on_stub: Any) -> Any:
    fs = on_stub(arbiter="ballot", skip_instance_cache=True)
    # Nothing here is probed: what the stub does is known.
    fs.mount.relied["bucket"] = {*NEEDED, *BESIDE}
    return fs


@pytest.mark.parametrize("trouble", ["nobody there", "wrong password"])
def test_a_lock_that_can_not_be_had_is_told_once_and_names_are_created(
    local: Ground, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture, trouble: str
) -> None:
    nobody = "redis://127.0.0.1:9"
    lock = nobody if trouble == "nobody there" else request.getfixturevalue("closed_lock")
    fs = local.mount(arbiter=lock, skip_instance_cache=True)
    for number in range(3):
        fs.pipe_file(local.log(number), BODY)
        with pytest.raises(NameTaken):
            fs.pipe_file(local.log(number), LATER)
    (warning,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    said = "Connection refused" if lock == nobody else "username-password"
    assert said in warning.getMessage()
    assert "creations go on without it" in warning.getMessage()
    assert "wrong-word" not in caplog.text


@pytest.fixture
def closed_lock() -> Iterator[str]:
    """Give the address of a Valkey, with a password that is not its own."""
    with Valkey("--requirepass", "the word") as running:
        yield running.endpoint.replace("://", "://:wrong-word@")


def test_a_name_longer_than_a_registry_s_key_is_like_any_other(local: Ground, arbiter: str) -> None:
    name = local.name("/".join(["k" * 200] * 12))  # DynamoDB's keys have 2048 bytes at most
    fs = local.mount(arbiter=arbiter, auto_mkdir=True)
    for body in (BODY, LATER):
        fs.pipe_file(name, body, mode="create")
        with pytest.raises(NameTaken):
            fs.pipe_file(name, b"another's", mode="create")
        assert fs.cat_file(name) == local.read(name) == body
        assert fs.find(local.folder) == [name]
        fs.rm_file(name)
        assert not fs.exists(name)


def test_a_missing_folder_is_told_or_made_where_that_is_wanted(local: Ground, arbiter: str) -> None:
    name, source = local.name("none/name"), local.name("source")
    local.write(source, BODY)
    fs = local.mount(arbiter=arbiter, guard="**/name")
    for write in (partial(fs.pipe_file, name, BODY), partial(fs.mv, source, name)):
        with pytest.raises(FileNotFoundError, match=r"its folder is not there: .*none/name"):
            write()
    assert local.files() == ["source"]
    local.mount(arbiter=arbiter, guard="**/name", auto_mkdir=True).mv(source, name)
    assert local.read(name) == BODY


def test_a_registry_that_can_not_be_reached_is_an_error_and_no_loss(s3: Ground) -> None:
    nowhere = "dynamodb://claims?region=us-east-1&timeout=1&endpoint_url=http://127.0.0.1:9"
    fs = s3.mount(arbiter=nowhere, deadline=3)
    with pytest.raises(OSError, match=r"127\.0\.0\.1:9") as caught:
        fs.pipe_file(s3.log(), BODY)
    assert not isinstance(caught.value, FileExistsError)
    assert s3.files() == []


def test_more_bytes_than_the_store_can_copy_are_refused_before_they_are_sent(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = memory.mount(arbiter="ballot", skip_instance_cache=True)
    monkeypatch.setattr(type(fs.backend), "largest_publish", 3)
    with pytest.raises(OSError, match="copies no more than 3 bytes, and these are 4"):
        fs.pipe_file(memory.log(), BODY)
    assert memory.files() == []


def test_the_environment_may_name_the_arbiter(memory: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUTIFABSENT_ARBITER", "ballot")
    fs = fsspec.filesystem("piamemory", skip_instance_cache=True)
    fs.pipe_file(memory.log(), BODY)
    assert any("/ballot/" in name for name in memory.around.find(memory.folder))
