"""Where another arbiter than the store decides, what has ended is gone, and nothing else is."""

from __future__ import annotations

import asyncio
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent import NameTaken, OutcomeUnknown
from putifabsent.fsspec_plugin import reads
from putifabsent.upkeep import fsck
from tests.fsspec_plugin.grounds import OTHERWISE
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fsspec_plugin.grounds import Ground

BODY = b"mine"
LATER = b"the second life"


def copy_of(ground: Ground, name: str, target: str) -> None:
    """Copy as a slow publisher would: with what the object says of itself."""
    if ground.kind == "local":
        shutil.copy2(name, target)
    elif ground.kind == "memory":
        ground.around.store[target] = ground.around.store[name]
    else:
        ground.around.cp_file(name, target)


@pytest.fixture
def ended(ground: Ground) -> Ground:
    """Give a table in which a name was deleted, and a slow publisher has shown it once more since."""
    ground.fs.pipe_file(ground.log(), BODY)
    copy_of(ground, ground.log(), ground.name("aside"))
    ground.fs.rm_file(ground.log())
    copy_of(ground, ground.name("aside"), ground.log())
    ground.around.rm_file(ground.name("aside"))
    return ground


@OTHERWISE
def test_what_has_ended_is_not_there_whatever_the_plain_name_shows(ended: Ground) -> None:
    fs, name = ended.fs, ended.log()
    assert ended.is_there(name)
    assert not fs.exists(name)
    assert fs.ls(ended.name("_delta_log"), detail=False) == []
    assert fs.find(ended.folder) == []
    assert fs.glob(f"{ended.folder}/**/*.json") == []
    for read in (fs.cat_file, fs.info, fs.size, lambda path: fs.open(path).read()):
        with pytest.raises(FileNotFoundError):
            read(name)


@OTHERWISE
def test_what_has_ended_makes_way_for_the_next(ended: Ground) -> None:
    ended.fs.pipe_file(ended.log(), LATER)
    assert ended.read(ended.log()) == ended.fs.cat_file(ended.log()) == LATER
    assert [each["size"] for each in ended.fs.ls(ended.name("_delta_log"), detail=True)] == [len(LATER)]


@OTHERWISE
def test_what_has_ended_and_is_shown_is_removed_once_more(ended: Ground) -> None:
    """Who asks the store itself sees it, as Hudi's rollback does whose service died in the middle of it."""
    ended.fs.rm_file(ended.log())
    assert not ended.is_there(ended.log())


def resolved_in_its_second_life(ground: Ground) -> Any:
    """Return what a creation is told of its outcome when it was deleted, and another has its name."""
    ground.fs.pipe_file(ground.log(), BODY)
    with pytest.raises(NameTaken) as taken:
        ground.fs.pipe_file(ground.log(), b"another's")
    assert taken.value.holder is not None
    token = taken.value.holder.token
    ground.fs.rm_file(ground.log())
    ground.fs.pipe_file(ground.log(), LATER)
    try:
        return ground.fs.resolve(ground.log(), token)
    except OSError as error:
        return error


@OTHERWISE
def test_an_arbiter_does_not_tell_a_creation_that_was_deleted_that_it_lost(ground: Ground) -> None:
    told = resolved_in_its_second_life(ground)
    assert told is None or isinstance(told, OutcomeUnknown)


def test_the_store_alone_tells_whose_a_name_is_now_whoever_had_it_before(memory: Ground) -> None:
    told = resolved_in_its_second_life(memory)
    assert isinstance(told, NameTaken)
    assert told.holder is not None
    assert told.holder.size == len(LATER)


@OTHERWISE
def test_a_removed_table_may_be_made_again(ground: Ground) -> None:
    for body in (BODY, LATER):
        ground.fs.makedirs(ground.name("_delta_log"), exist_ok=True)
        ground.fs.pipe_file(ground.log(), body)
        ground.fs.pipe_file(ground.name("lock"), body, mode="create")
        ground.fs.pipe_file(ground.name("part/data"), body) if ground.kind == "s3" else None
        with pytest.raises(NameTaken):
            ground.fs.pipe_file(ground.log(), b"another's")
        assert ground.read(ground.log()) == body
        ground.fs.rm(ground.folder, recursive=True)
        assert ground.fs.find(ground.folder) == []
        assert ground.files() == []


@OTHERWISE
def test_a_name_from_before_the_arbiter_is_kept(ground: Ground) -> None:
    ground.write(ground.log(), b"older")
    with pytest.raises(NameTaken):
        ground.fs.pipe_file(ground.log(), BODY)
    assert ground.fs.cat_file(ground.log()) == b"older"
    assert ground.fs.ls(ground.name("_delta_log"), detail=False) == [ground.log()]
    ground.fs.rm_file(ground.log())
    ground.fs.pipe_file(ground.log(), BODY)
    assert ground.read(ground.log()) == BODY


@OTHERWISE
def test_a_name_that_nothing_guards_may_be_written_over(ground: Ground) -> None:
    fs, name = ground.fs, ground.name("lock")
    fs.pipe_file(name, BODY, mode="create")
    fs.pipe_file(name, LATER)
    assert fs.cat_file(name) == LATER
    assert [each["size"] for each in fs.ls(ground.folder, detail=True) if each["name"] == name] == [
        len(LATER)
    ]
    assert fs.find(ground.folder, detail=True)[name]["size"] == len(LATER)
    with pytest.raises(NameTaken):
        fs.pipe_file(name, BODY, mode="create")
    fs.rm_file(name)
    assert not fs.exists(name)
    fs.pipe_file(name, BODY, mode="create")
    assert fs.cat_file(name) == BODY


@OTHERWISE
def test_a_folder_is_not_moved_into_itself(ground: Ground) -> None:
    fs, folder = ground.fs, ground.name("m")
    fs.makedirs(folder, exist_ok=True)
    fs.pipe_file(f"{folder}/part", BODY)
    fs.mv(folder, folder, recursive=True) if ground.kind == "local" else None
    if ground.kind == "local":
        with pytest.raises(OSError, match="into itself"):
            fs.mv(folder, f"{folder}/sub", recursive=True)
    assert fs.find(folder) == [f"{folder}/part"]


@OTHERWISE
def test_a_removal_takes_names_for_names(ground: Ground) -> None:
    fs = ground.fs
    odd, others = ground.name("x[*]z"), [ground.name("xabcz"), ground.name("x1z")]
    fs.pipe_file(ground.log(), BODY)
    for name in (ground.name("x*z"), *others):
        fs.pipe_file(name, BODY)
    fs.rm(odd if ground.kind != "local" else ground.name("x*z"))  # on local disk there are no patterns
    assert [fs.exists(name) for name in others] == [True, True]
    assert not fs.exists(ground.name("x*z"))
    fs.pipe_file(ground.name("x[1]z"), BODY)
    fs.rm(ground.folder, recursive=True)
    assert ground.files() == []


@pytest.mark.parametrize("ground", ["s3-ballot", "s3-claims"], indirect=True)
def test_a_removed_folder_leaves_no_marker_of_another_client(ground: Ground) -> None:
    client = fsspec.filesystem("s3", **ground.options)
    bucket, _, folder = ground.folder.partition("/")
    for marker in ("", "empty/", "part/"):
        client.call_s3("put_object", Bucket=bucket, Key=f"{folder}/out/{marker}", Body=b"")
    ground.fs.pipe_file(ground.name("out/part/x"), BODY)
    ground.fs.pipe_file(ground.name(f"out/_delta_log/{0:020}.json"), BODY)
    ground.fs.rm(ground.name("out"), recursive=True)
    left = client.call_s3("list_objects_v2", Bucket=bucket, Prefix=f"{folder}/out/").get("Contents", ())
    assert [each["Key"] for each in left if "/.putifabsent/" not in each["Key"]] == []


@OTHERWISE
def test_a_removal_of_many_leaves_no_name_taken(ground: Ground) -> None:
    fs, beside = ground.fs, ground.name("x.putifabsent-old/_delta_log/00000000000000000000.json")
    fs.makedirs(beside.rpartition("/")[0], exist_ok=True)
    for name in (ground.log(), beside):
        fs.pipe_file(name, BODY)
    fs.rm([ground.log(), beside])
    for name in (ground.log(), beside):
        assert not fs.exists(name)
        fs.pipe_file(name, LATER)


@OTHERWISE
def test_a_pattern_with_a_stem_finds_names(ground: Ground) -> None:
    fs = ground.fs
    fs.pipe_file(ground.log(), BODY)
    assert fs.glob(f"{ground.folder}/_delta_log/0000*") == [ground.log()]
    assert fs.glob(f"{ground.folder}/_delta*/*.json") == [ground.log()]
    assert fs.glob(f"{ground.folder}/_delta_log/1*") == []


@pytest.mark.parametrize("ground", ["memory-claims"], indirect=True)
def test_what_was_removed_round_the_shim_is_asked_for_once(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registry knows nothing of that: each listing would ask for the bytes of each name once more."""
    fs, log = ground.fs, ground.name("_delta_log")
    for number in range(20):
        fs.pipe_file(f"{log}/{number:020}.json", BODY)
    ground.around.rm(ground.folder, recursive=True)
    fs.pipe_file(f"{log}/{0:020}.json", LATER)
    asked: list[str] = []
    info = type(fs.fs).info

    def noted(wrapped: Any, path: str, **kwargs: Any) -> Any:
        asked.append(path)
        return info(wrapped, path, **kwargs)

    monkeypatch.setattr(type(fs.fs), "info", noted)
    many = []
    for mount in (fs, fs, ground.mount(writer_session="another")):
        asked.clear()
        assert mount.ls(log, detail=False) == [f"{log}/{0:020}.json"]
        many.append(sum("/.putifabsent/" in each for each in asked))
    assert many == [19, 0, 19]
    fs.rm(ground.folder, recursive=True)
    fs.pipe_file(f"{log}/{0:020}.json", LATER)
    asked.clear()
    assert ground.mount(writer_session="a third").ls(log, detail=False) == [f"{log}/{0:020}.json"]
    assert not any("/.putifabsent/" in each for each in asked)


LOGS = [f"bucket/t/_delta_log/{number:020d}.json" for number in range(6)]


def left(stub: FaultStub) -> set[str]:
    return {f"{bucket}/{key}" for bucket, key in stub.objects} & set(LOGS)


def removing(stub: FaultStub, asynchronous: bool) -> Callable[[], None]:
    """Create names by the ballot; return what removes their folder."""
    options = {"arbiter": "ballot", "skip_instance_cache": True, **stub.storage_options("s3")}
    fs = fsspec.filesystem("pias3", **options)
    for name in LOGS:
        fs.pipe_file(name, BODY)
    if not asynchronous:
        return partial(fs.rm, "bucket/t", recursive=True)

    async def removed() -> None:
        await fsspec.filesystem("pias3", asynchronous=True, **options)._rm("bucket/t", recursive=True)

    return lambda: asyncio.run(removed())


@pytest.mark.parametrize("asynchronous", [False, True])
def test_names_of_a_folder_that_is_removed_do_not_wait_for_each_other(
    stub: FaultStub, asynchronous: bool
) -> None:
    remove = removing(stub, asynchronous)
    stub.script(Op.DELETE, Fault.TIMEOUT_AFTER_APPLY)
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(remove)
        ends = time.monotonic() + 20
        while len(left(stub)) > 1:
            assert time.monotonic() < ends, left(stub)
            time.sleep(0.01)
        assert not done.done()
        stub.release()
        done.result(timeout=30)
    assert not left(stub)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_one_that_can_not_be_removed_is_told_and_the_next_call_removes_it(
    stub: FaultStub, asynchronous: bool
) -> None:
    remove = removing(stub, asynchronous)
    stub.script(Op.DELETE, Fault.FORBIDDEN_403)
    with pytest.raises(OSError, match="AccessDenied"):
        remove()
    remove()
    assert not left(stub)


SNAPSHOT, SCHEMA = "t/snapshot/snapshot-1", "t/schema/schema-0"


def make_folders(ground: Ground) -> None:
    for name in (SCHEMA, SNAPSHOT):
        ground.around.makedirs(ground.name(name).rpartition("/")[0], exist_ok=True)


@OTHERWISE
def test_a_name_that_gets_its_evidence_later_stays_the_same(ground: Ground) -> None:
    """What shows that it is Paimon's comes only after it was created, deleted, and created again."""
    make_folders(ground)
    for name in (SCHEMA, SNAPSHOT):
        ground.fs.pipe_file(ground.name(name), b"{}")
    ground.fs.rm(ground.name("t"), recursive=True)
    make_folders(ground)
    ground.mount(skip_instance_cache=True).pipe_file(ground.name(SNAPSHOT), BODY, mode="create")
    other = ground.mount(skip_instance_cache=True)
    other.pipe_file(ground.name(SCHEMA), b"{}")
    with pytest.raises(NameTaken):
        other.pipe_file(ground.name(SNAPSHOT), LATER)
    assert other.cat_file(ground.name(SNAPSHOT)) == BODY
    other.rm_file(ground.name(SNAPSHOT))
    assert not other.exists(ground.name(SNAPSHOT))
    fsck(other, ground.name("t"), repair=True, grace=0)
    assert not other.exists(ground.name(SNAPSHOT))


@OTHERWISE
def test_what_nothing_guards_may_be_overwritten_and_clean_up_leaves_it(
    ground: Ground,
) -> None:
    make_folders(ground)
    name = ground.name(SNAPSHOT)
    ground.fs.pipe_file(name, BODY, mode="create")
    ground.fs.pipe_file(name, LATER)  # nothing guards it
    fsck(ground.fs, ground.name("t"), repair=True, grace=0)
    assert ground.read(name) == ground.fs.cat_file(name) == LATER


@OTHERWISE
def test_mounts_that_know_other_formats_keep_a_name_in_one_place(ground: Ground) -> None:
    make_folders(ground)
    knows = ground.fs
    knows.pipe_file(ground.name(SCHEMA), b"{}")
    other = ground.mount(formats="none", guard=["**/snapshot/snapshot-*"], skip_instance_cache=True)
    name = ground.name(SNAPSHOT)
    assert knows.explain(name).state == other.explain(name).state
    other.pipe_file(name, BODY)
    ground.around.rm_file(name)  # it was not published yet
    with pytest.raises(NameTaken):
        knows.pipe_file(name, LATER)
    assert [each["size"] for each in other.ls(ground.name("t/snapshot"), detail=True)] == [len(BODY)]


@pytest.mark.parametrize("ground", ["memory-claims"], indirect=True)
def test_bytes_that_are_put_back_are_listed_again(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    fs, beside = ground.fs, ground.name("_delta_log/other")
    ground.write(beside, b"")
    fs.pipe_file(ground.log(), BODY)
    kept = dict(ground.around.store)

    def listed() -> list[str]:
        return sorted(fs.ls(ground.name("_delta_log"), detail=False))

    for name in ground.around.find(ground.folder):
        ground.around.rm_file(name) if name != beside else None
    assert listed() == [beside]
    ground.around.store.update(kept)
    ground.around.rm_file(ground.log())  # under the plain name is a copy
    assert listed() == [beside]
    now = time.monotonic()
    monkeypatch.setattr(reads, "time", SimpleNamespace(monotonic=lambda: now + 601))
    assert listed() == [ground.log(), beside]


@pytest.mark.parametrize("ground", ["memory-ballot", "memory-claims"], indirect=True)
@pytest.mark.parametrize("lives", [1, 3])
def test_a_name_outlives_whatever_is_removed_of_its_state(ground: Ground, lives: int) -> None:
    """Trino's remove_orphan_files lists a table's folder, and removes what Iceberg does not know."""
    for chosen in count():
        table = ground.name(f"t{chosen}")
        folder = f"{table}/_delta_log"
        name = f"{folder}/{0:020}.json"
        ground.fs.pipe_file(name, BODY)
        for _ in range(1, lives):
            ground.fs.rm_file(name)
            ground.fs.pipe_file(name, BODY)
        state = [each for each in ground.around.find(f"{table}/.putifabsent") if "/arbiters/" not in each]
        if chosen >> len(state):
            break
        for place, each in enumerate(state):
            if chosen >> place & 1:
                ground.around.rm_file(each)
        fs = ground.mount(skip_instance_cache=True)
        assert fs.cat_file(name) == BODY
        assert fs.ls(folder, detail=False) == [name]
        with pytest.raises(NameTaken):
            fs.pipe_file(name, LATER)
        assert ground.read(name) == BODY
        fs.rm_file(name)
        assert not fs.exists(name)
        fs.pipe_file(name, LATER)
        assert fs.cat_file(name) == ground.read(name) == LATER
