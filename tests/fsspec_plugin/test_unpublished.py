"""Another arbiter than the store has decided, and its writer died: the name is there all the same."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent import NameTaken
from tests.fsspec_plugin.grounds import OTHERWISE
from tests.fsspec_plugin.test_async import closed

if TYPE_CHECKING:
    from tests.fsspec_plugin.grounds import Ground

BODY = b"mine"
LATER = b"the second life"
DIED = "lock"


@pytest.fixture
def unpublished(ground: Ground) -> Ground:
    """Give a table in which a guarded name and another were created, and never shown: their writer died."""
    ground.fs.pipe_file(ground.log(0), b"published")
    for name in (ground.log(1), ground.name(DIED)):
        ground.fs.pipe_file(name, BODY, mode="create")
        ground.around.rm_file(name)
    return ground


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


def test_below_a_file_nothing_is_there(ground: Ground) -> None:
    ground.fs.pipe_file(ground.log(), BODY)
    below = f"{ground.log()}/{ground.log().rpartition('/')[2]}"
    assert not ground.fs.exists(below)
    assert not ground.fs.isfile(below)
