"""Where another arbiter than the store decides, what it says is what the filesystem shows."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent import ConfigError, NameTaken, UnsafeStore
from putifabsent.backends.probe import BESIDE, NEEDED
from tests.fsspec_plugin.test_async import closed
from tests.stub import FaultStub

if TYPE_CHECKING:
    from tests.fsspec_plugin.grounds import Ground

    Counted = tuple[Any, FaultStub, str]

KINDS = ("memory", "local", "s3")
OTHERS = [f"{kind}-{arbiter}" for arbiter in ("ballot", "claims", "redis") for kind in KINDS]
OTHERWISE = pytest.mark.parametrize("ground", OTHERS, indirect=True)
BODY = b"mine"
LATER = b"the second life"
DIED = "lock"


def copy_of(ground: Ground, name: str, target: str) -> None:
    """Copy as a slow publisher would: with what the object says of itself."""
    if ground.kind == "local":
        shutil.copy2(name, target)
    elif ground.kind == "memory":
        ground.around.store[target] = ground.around.store[name]
    else:
        ground.around.cp_file(name, target)


@pytest.fixture
def unpublished(ground: Ground) -> Ground:
    """Give a table in which a guarded name and another were created, and never shown: their writer died."""
    ground.fs.pipe_file(ground.log(0), b"published")
    for name in (ground.log(1), ground.name(DIED)):
        ground.fs.pipe_file(name, BODY, mode="create")
        ground.around.rm_file(name)
    return ground


@pytest.fixture
def ended(ground: Ground) -> Ground:
    """Give a table in which a name was deleted, and a slow publisher has shown it once more since."""
    ground.fs.pipe_file(ground.log(), BODY)
    copy_of(ground, ground.log(), ground.name("aside"))
    ground.fs.rm_file(ground.log())
    copy_of(ground, ground.name("aside"), ground.log())
    ground.around.rm_file(ground.name("aside"))
    return ground


# --- what nobody has published yet


@OTHERWISE
def test_an_unpublished_name_is_read(unpublished: Ground) -> None:
    fs, name = unpublished.fs, unpublished.log(1)
    assert fs.cat_file(name) == BODY
    assert fs.cat([name, unpublished.log()]) == {name: BODY, unpublished.log(): b"published"}
    assert fs.cat_file(name, start=1, end=3) == BODY[1:3]
    assert fs.cat_ranges([name], [0], [2]) == [BODY[:2]]
    with fs.open(name) as file:
        assert file.read() == BODY
    assert fs.size(name) == len(BODY)
    info = fs.info(name)
    assert (info["name"], info["size"], info["type"]) == (name, len(BODY), "file")
    assert not unpublished.is_there(name)


@OTHERWISE
def test_an_unpublished_name_is_listed(unpublished: Ground) -> None:
    fs, folder, names = (
        unpublished.fs,
        unpublished.name("_delta_log"),
        [unpublished.log(), unpublished.log(1)],
    )
    assert fs.ls(folder, detail=False) == names
    assert [(each["name"], each["size"]) for each in fs.ls(folder, detail=True)] == [
        (names[0], len(b"published")),
        (names[1], len(BODY)),
    ]
    assert fs.ls(names[1], detail=False) == [names[1]]
    everything = [*names, unpublished.name(DIED)]
    assert fs.find(unpublished.folder) == everything
    assert fs.find(names[1]) == [names[1]]
    assert fs.find(folder) == names
    assert sorted(fs.find(unpublished.folder, maxdepth=2)) == everything
    assert fs.glob(f"{folder}/*.json") == names
    assert fs.glob(f"{unpublished.folder}/**/*1.json") == [names[1]]
    assert [sorted(files) for _, _, files in fs.walk(folder)] == [[name.rpartition("/")[2] for name in names]]
    assert fs.du(folder) == len(b"published") + len(BODY)


@OTHERWISE
def test_a_folder_of_which_all_is_unpublished_is_listed(ground: Ground) -> None:
    ground.fs.pipe_file(ground.log(), BODY)
    ground.around.rm_file(ground.log())
    assert ground.fs.ls(ground.name("_delta_log"), detail=False) == [ground.log()]
    assert ground.fs.find(ground.folder) == [ground.log()]


@OTHERWISE
def test_whoever_asks_whether_it_is_there_is_told_the_truth(unpublished: Ground) -> None:
    fs = unpublished.fs
    for name in (unpublished.log(1), unpublished.name(DIED)):
        assert fs.exists(name)
        assert fs.isfile(name)
        with pytest.raises(NameTaken):
            fs.pipe_file(name, LATER, mode="create")
        assert unpublished.fs.cat_file(name) == BODY
    assert not fs.exists(unpublished.log(2))
    assert not fs.isfile(unpublished.name("never"))


@OTHERWISE
def test_an_unpublished_name_is_copied_moved_and_removed(unpublished: Ground) -> None:
    fs, name = unpublished.fs, unpublished.log(1)
    fs.cp_file(name, unpublished.name("copy"))
    fs.cp_file(name, unpublished.log(2))
    fs.mv(name, unpublished.log(3))
    assert [unpublished.read(each) for each in (unpublished.name("copy"), unpublished.log(2))] == [BODY, BODY]
    assert unpublished.read(unpublished.log(3)) == BODY
    assert not fs.exists(name)
    fs.rm_file(unpublished.name(DIED))
    assert not fs.exists(unpublished.name(DIED))
    fs.pipe_file(unpublished.name(DIED), LATER, mode="create")
    assert unpublished.read(unpublished.name(DIED)) == LATER


# --- what has ended


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


# --- what must not be lost


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
    fs.rm(odd)
    assert [fs.exists(name) for name in others] == [True, True]
    assert not fs.exists(ground.name("x*z"))
    fs.pipe_file(ground.name("x[1]z"), BODY)
    fs.rm(ground.folder, recursive=True)
    assert ground.files() == []


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


# --- the asynchronous colour


@OTHERWISE
def test_the_asynchronous_colour_shows_the_same(unpublished: Ground) -> None:
    name, folder = unpublished.log(1), unpublished.name("_delta_log")

    async def ask() -> Any:
        fs = unpublished.mount(asynchronous=True, skip_instance_cache=True)
        session = await fs.fs.set_session() if hasattr(fs.fs, "set_session") else None
        answers = [
            await fs._cat_file(name),
            await fs._exists(name),
            await fs._exists(unpublished.log(2)),
            sorted(await fs._ls(folder, detail=False)),
            await fs._find(folder),
            await fs._glob(f"{folder}/*1.json"),
            [sorted(files) async for _, _, files in fs._walk(folder)],
            (await fs._info(name))["size"],
            await fs._isfile(name),
            await fs._cat([name]),
        ]
        await fs._cp_file(name, unpublished.log(2))
        await fs._rm_file(name)
        answers.append(await fs._exists(name))
        await fs._rm(folder, recursive=True)
        answers.append(await fs._find(unpublished.folder))
        if session is not None:
            await closed(fs)
        return answers

    names = [unpublished.log(0), name]
    assert asyncio.run(ask()) == [
        BODY, True, False, names, names, [name],
        [[each.rpartition("/")[2] for each in names]],
        len(BODY), True, {name: BODY}, False, [unpublished.name(DIED)],
    ]  # fmt: skip


# --- what it costs


@pytest.fixture
def counted(stub: FaultStub, request: pytest.FixtureRequest) -> Counted:
    """Give a mount of the stub that has agreed with all others, the stub, and a table."""
    arbiter = "ballot" if request.param == "ballot" else request.getfixturevalue("registry")
    options = {**stub.storage_options("s3"), "use_listings_cache": False, "skip_instance_cache": True}
    fs = fsspec.filesystem("pias3", arbiter=arbiter, **options)
    # Nothing here is probed: what the stub does is known.
    fs._relied = {*NEEDED, *BESIDE}
    table = f"bucket/{uuid.uuid4()}"
    fs.pipe_file(f"{table}/_delta_log/{0:020d}.json", BODY)
    fs.pipe_file(f"{table}/data/part", BODY)
    return fs, stub, table


def sent(stub: FaultStub, act: Any) -> list[str]:
    """Return the methods of the requests that ``act`` sends."""
    before = len(stub.requests)
    act()
    return [request.method for request in stub.requests[before:]]


@pytest.mark.parametrize(
    ("counted", "requests"),
    [("ballot", ["PUT", "GET", "HEAD", "PUT", "GET", "PUT"]), ("claims", ["PUT", "HEAD", "PUT"])],
    indirect=["counted"],
)
def test_a_creation_that_meets_nobody_costs_what_the_documentation_says(
    counted: Counted, requests: list[str]
) -> None:
    fs, stub, table = counted
    made = sent(stub, lambda: fs.pipe_file(f"{table}/_delta_log/lock", BODY, mode="create"))
    # Put and look go out together.
    assert sorted(made[:2]) + made[2:] == sorted(requests[:2]) + requests[2:]


@pytest.mark.parametrize("counted", ["ballot", "claims"], indirect=True)
def test_names_that_nothing_guards_cost_nothing_more(counted: Counted) -> None:
    fs, stub, table = counted
    for act in (
        lambda each: each.cat_file(f"{table}/data/part"),
        lambda each: each.info(f"{table}/data/part"),
        lambda each: each.pipe_file(f"{table}/data/other", b"x"),
        lambda each: each.ls(f"{table}/data"),
        lambda each: each.exists(f"{table}/data/part"),
        lambda each: each.find(f"{table}/data"),
    ):
        assert sent(stub, lambda act=act: act(fs)) == sent(stub, lambda act=act: act(fs.fs))


@pytest.mark.parametrize("counted", ["ballot", "claims"], indirect=True)
def test_reading_a_guarded_name_costs_one_look_up(counted: Counted) -> None:
    fs, stub, table = counted
    name = f"{table}/_delta_log/{0:020d}.json"
    plain = sent(stub, lambda: fs.fs.cat_file(name))
    look_up = ["GET"] if fs._mount.arbiter == "ballot" else []  # a registry is asked elsewhere
    assert sent(stub, lambda: fs.cat_file(name)) == [*look_up, *plain]


# --- what is refused


def test_a_store_that_ignores_conditions_is_used_with_a_ballot_and_refused_without() -> None:
    with FaultStub(conditions="ignored") as stub:
        options = {**stub.storage_options("s3"), "skip_instance_cache": True}
        with pytest.raises(UnsafeStore, match='arbiter="ballot"'):
            fsspec.filesystem("pias3", **options).pipe_file("bucket/t/_delta_log/" + "0" * 20 + ".json", BODY)
        fs = fsspec.filesystem("pias3", arbiter="ballot", **options)
        fs.pipe_file("bucket/t/_delta_log/" + "0" * 20 + ".json", BODY)
        with pytest.raises(NameTaken):
            fs.pipe_file("bucket/t/_delta_log/" + "0" * 20 + ".json", LATER)


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


def test_a_registry_that_is_not_there_is_named(s3: Ground, registry: str) -> None:
    fs = s3.mount(arbiter=registry.replace("claims", "missing", 1))
    with pytest.raises(ConfigError, match="missing"):
        fs.pipe_file(s3.log(), BODY)
    assert s3.files() == []


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
    monkeypatch.setattr(type(fs.store), "largest_publish", 3)
    with pytest.raises(OSError, match="copies no more than 3 bytes, and these are 4"):
        fs.pipe_file(memory.log(), BODY)
    assert memory.files() == []


def test_the_environment_may_name_the_arbiter(memory: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUTIFABSENT_ARBITER", "ballot")
    fs = fsspec.filesystem("piamemory", skip_instance_cache=True)
    fs.pipe_file(memory.log(), BODY)
    assert any("/ballot/" in name for name in memory.around.find(memory.folder))
