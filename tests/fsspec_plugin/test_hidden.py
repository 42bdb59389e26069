"""The shim's own folder stays out of every listing, and a listing knows of every creation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from putifabsent import NameTaken, OutcomeUnknown
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fsspec_plugin.grounds import Ground

STATE = ".putifabsent"
FILES = {
    "part": b"1",
    "inner/part": b"22",
    f"{STATE}/arbiter": b"333",
    f"{STATE}/deep/er": b"4444",
    f"inner/{STATE}/temp": b"55555",
    f"inner/{STATE}x/part": b"666666",  # another program's: only its beginning is the same
}
SHOWN = ["inner/.putifabsentx/part", "inner/part", "part"]


@pytest.fixture
def table(ground: Ground) -> Ground:
    for last, data in FILES.items():
        ground.around.makedirs(ground.name(last).rpartition("/")[0], exist_ok=True)
        ground.write(ground.name(last), data)
    if ground.kind == "local":
        ground.around.rmdir(ground.name("_delta_log"))
    return ground


def within(ground: Ground, names: Any) -> list[str]:
    """Return names from the folder on, sorted."""
    return sorted(name.rstrip("/").removeprefix(ground.folder).lstrip("/") for name in names)


def test_another_program_sees_the_folder(table: Ground) -> None:
    assert table.files() == sorted(FILES)


def test_ls_does_not_show_it(table: Ground) -> None:
    assert within(table, table.fs.ls(table.folder, detail=False)) == ["inner", "part"]
    detailed = table.fs.ls(table.folder, detail=True)
    assert within(table, (each["name"] for each in detailed)) == ["inner", "part"]
    assert within(table, table.fs.ls(table.name("inner"), detail=False)) == [f"inner/{STATE}x", "inner/part"]
    assert within(table, table.fs.listdir(table.folder, detail=False)) == ["inner", "part"]


def test_find_does_not_show_it(table: Ground) -> None:
    assert within(table, table.fs.find(table.folder)) == SHOWN
    assert within(table, table.fs.find(table.folder, detail=True)) == SHOWN
    assert within(table, table.fs.find(table.folder, maxdepth=1)) == ["part"]
    folders = set(within(table, table.fs.find(table.folder, withdirs=True)))
    assert folders - set(SHOWN) <= {"", "inner", f"inner/{STATE}x"}
    assert {"inner", f"inner/{STATE}x"} <= folders


def test_glob_does_not_show_it(table: Ground) -> None:
    assert within(table, table.fs.glob(f"{table.folder}/*")) == ["inner", "part"]
    assert within(table, table.fs.glob(f"{table.folder}/**/part")) == SHOWN
    assert within(table, table.fs.glob(f"{table.folder}/**/e*")) == []
    assert within(table, table.fs.glob(f"{table.folder}/*/*", detail=True)) == [
        f"inner/{STATE}x",
        "inner/part",
    ]


@pytest.mark.parametrize("topdown", [True, False])
@pytest.mark.parametrize("detail", [True, False])
def test_walk_does_not_go_there(table: Ground, topdown: bool, detail: bool) -> None:
    walked = list(table.fs.walk(table.folder, topdown=topdown, detail=detail))
    seen = {within(table, [root])[0]: (sorted(folders), sorted(files)) for root, folders, files in walked}
    assert seen == {
        "": (["inner"], ["part"]),
        "inner": ([f"{STATE}x"], ["part"]),
        f"inner/{STATE}x": ([], ["part"]),
    }


def test_it_is_not_counted(table: Ground) -> None:
    sizes = sum(len(FILES[name]) for name in SHOWN)
    assert table.fs.du(table.folder) == table.fs.disk_usage(table.folder) == sizes
    assert within(table, table.fs.du(table.folder, total=False)) == SHOWN
    assert STATE + "\n" not in table.fs.tree(table.folder)


def test_it_is_not_copied_along(table: Ground, tmp_path_factory: pytest.TempPathFactory) -> None:
    here = tmp_path_factory.mktemp("here")
    table.fs.get(f"{table.folder}/", f"{here}/", recursive=True)
    assert copied(here) == SHOWN
    table.fs.cp(table.folder, table.folder + "-copy", recursive=True)
    copies = table.around.find(table.folder + "-copy")
    assert [name.removeprefix(table.folder + "-copy/") for name in copies] == SHOWN
    table.around.rm(table.folder + "-copy", recursive=True)
    assert within(table, table.fs.expand_path(f"{table.folder}/**")) == within(
        table, table.fs.expand_path(table.folder, recursive=True)
    )
    assert not [name for name in table.fs.expand_path(table.folder, recursive=True) if f"{STATE}/" in name]


def copied(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_it_is_not_read_along(table: Ground) -> None:
    found = table.fs.cat(table.folder, recursive=True, on_error="omit")
    assert within(table, found) == SHOWN
    assert within(table, table.fs.cat([f"{table.folder}/**/*t"], on_error="omit")) == SHOWN
    assert table.fs.cat(table.name("part")) == FILES["part"]
    assert within(table, table.fs.cat(table.name(STATE), recursive=True, on_error="omit")) == [
        f"{STATE}/arbiter", f"{STATE}/deep/er",
    ]  # fmt: skip


def test_it_is_removed_along_unless_it_says_what_comes_next(table: Ground) -> None:
    table.fs.rm(table.folder, recursive=True)
    # Another arbiter than the store itself needs it, to tell the next incarnation of each name.
    kept = [] if table.arbiter == "native" else [name for name in FILES if f"{STATE}/" in name]
    assert table.files() == sorted(kept)
    assert table.is_there(table.folder) is bool(kept)


def test_whoever_asks_for_it_sees_it(table: Ground) -> None:
    state = table.name(STATE)
    fs = table.fs
    assert within(table, fs.ls(state, detail=False)) == [f"{STATE}/arbiter", f"{STATE}/deep"]
    assert within(table, fs.find(state)) == [f"{STATE}/arbiter", f"{STATE}/deep/er"]
    assert within(table, fs.glob(f"{state}/*")) == [f"{STATE}/arbiter", f"{STATE}/deep"]
    assert within(table, fs.glob(f"{table.folder}/**/{STATE}/t*")) == [f"inner/{STATE}/temp"]
    assert within(table, (root for root, _, _ in fs.walk(state))) == [STATE, f"{STATE}/deep"]
    assert fs.du(state) == len(FILES[f"{STATE}/arbiter"]) + len(FILES[f"{STATE}/deep/er"])
    assert fs.cat_file(f"{state}/arbiter") == FILES[f"{STATE}/arbiter"]
    assert fs.exists(state)


@pytest.mark.parametrize("ground", [f"{kind}-native" for kind in ("memory", "local", "s3")], indirect=True)
def test_creating_leaves_nothing_of_it_where_the_store_decides(ground: Ground) -> None:
    ground.fs.pipe_file(ground.log(), b"x")
    with pytest.raises(NameTaken):
        ground.fs.pipe_file(ground.log(), b"x")
    assert ground.files() == [ground.log().removeprefix(ground.folder + "/")]
    assert [name for name in ground.around.ls(ground.folder, detail=False) if STATE in name] == []


# --- what has been listed before


def test_a_listing_shows_what_was_created_since(s3: Ground) -> None:
    fs = s3.mount(use_listings_cache=True)
    folder = s3.name("_delta_log")
    fs.pipe_file(s3.log(0), b"0")
    assert fs.ls(folder, detail=False) == [s3.log(0)]
    assert fs.fs.dircache
    s3.write(s3.name("source"), b"2")
    writes: list[Callable[[str], Any]] = [
        lambda name: fs.pipe_file(name, b"1"),
        lambda name: fs.cp_file(s3.name("source"), name),
        lambda name: fs.mv(s3.name("source"), name),
        lambda name: fs.pipe({name: b"4"}),
    ]
    for number, write in enumerate(writes, start=1):
        write(s3.log(number))
        assert fs.ls(folder, detail=False)[-1] == s3.log(number)
        assert fs.info(s3.log(number))["size"] == 1
    with fs.open(s3.log(5), "wb") as file:
        file.write(b"5")
    assert fs.ls(folder, detail=False)[-1] == s3.log(5)
    fs.rm(s3.log(5))
    assert fs.ls(folder, detail=False)[-1] == s3.log(4)


def test_a_listing_shows_who_was_faster(s3: Ground) -> None:
    fs = s3.mount(use_listings_cache=True)
    fs.pipe_file(s3.log(0), b"0")
    assert fs.ls(s3.name("_delta_log"), detail=False) == [s3.log(0)]
    s3.write(s3.log(1), b"the winner's")
    with pytest.raises(NameTaken):
        fs.pipe_file(s3.log(1), b"late")
    assert fs.ls(s3.name("_delta_log"), detail=False) == [s3.log(0), s3.log(1)]


def test_a_moved_source_is_not_listed_any_more(s3: Ground) -> None:
    fs = s3.mount(use_listings_cache=True)
    s3.write(s3.name("temp/source"), b"0")
    s3.write(s3.name("temp/other"), b"0")
    assert len(fs.ls(s3.name("temp"), detail=False)) == 2
    fs.mv(s3.name("temp/source"), s3.log(0))
    assert fs.ls(s3.name("temp"), detail=False) == [s3.name("temp/other")]


def test_a_listing_shows_what_nobody_was_told_of(stub: FaultStub, on_stub: Any) -> None:
    fs = on_stub(use_listings_cache=True, deadline=0.01, config_kwargs={"read_timeout": 0.2})
    stub.put("bucket", "t/_delta_log/x", b"")
    assert fs.ls("bucket/t/_delta_log", detail=False) == ["bucket/t/_delta_log/x"]
    stub.script(Op.PUT, Fault.TIMEOUT_AFTER_APPLY, forever=True)
    stub.script(Op.HEAD, Fault.ERROR_503_BEFORE, forever=True)
    name = f"bucket/t/_delta_log/{0:020d}.json"
    with pytest.raises(OutcomeUnknown):
        fs.pipe_file(name, b"mine")
    assert fs.ls("bucket/t/_delta_log", detail=False) == [name, "bucket/t/_delta_log/x"]
