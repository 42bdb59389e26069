"""A plain write to a guarded name is a create, whichever way it is said; a taken name keeps its bytes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent import NameTaken

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fsspec_plugin.grounds import Ground

    Way = Callable[[Ground, str, Path], None]

WINNER = b"the winner's"
BODY = b"mine"


def by_open(ground: Ground, name: str, scratch: Path) -> None:
    with ground.fs.open(name, "wb") as file:
        file.write(BODY)


def by_open_in_text_mode(ground: Ground, name: str, scratch: Path) -> None:
    with ground.fs.open(name, "w", encoding="utf-8") as file:
        file.write(BODY.decode())


def by_exclusive_open(ground: Ground, name: str, scratch: Path) -> None:
    with ground.fs.open(name, "xb") as file:
        file.write(BODY)


def by_exclusive_open_in_text_mode(ground: Ground, name: str, scratch: Path) -> None:
    with ground.fs.open(name, "x", encoding="utf-8") as file:
        file.write(BODY.decode())


def by_address(ground: Ground, name: str, scratch: Path) -> None:
    with fsspec.open(ground.url(name), "wb", arbiter="native", **ground.options) as file:
        file.write(BODY)


def by_pipe(ground: Ground, name: str, scratch: Path) -> None:
    ground.fs.pipe(name, BODY)


def by_pipe_of_several(ground: Ground, name: str, scratch: Path) -> None:
    ground.fs.pipe({name: BODY})


def by_pipe_file(ground: Ground, name: str, scratch: Path) -> None:
    ground.fs.pipe_file(name, BODY)


def by_creating_pipe_file(ground: Ground, name: str, scratch: Path) -> None:
    ground.fs.pipe_file(name, BODY, mode="create")


def by_write_text(ground: Ground, name: str, scratch: Path) -> None:
    ground.fs.write_text(name, BODY.decode())


def by_write_bytes(ground: Ground, name: str, scratch: Path) -> None:
    ground.fs.write_bytes(name, BODY)


def by_put_file(ground: Ground, name: str, scratch: Path) -> None:
    ground.fs.put_file(source_on_disk(scratch), name)


def by_creating_put_file(ground: Ground, name: str, scratch: Path) -> None:
    ground.fs.put_file(source_on_disk(scratch), name, mode="create")


def by_put(ground: Ground, name: str, scratch: Path) -> None:
    ground.fs.put(source_on_disk(scratch), name)


def by_put_of_several(ground: Ground, name: str, scratch: Path) -> None:
    ground.fs.put([source_on_disk(scratch)], [name])


def by_upload(ground: Ground, name: str, scratch: Path) -> None:
    ground.fs.upload(source_on_disk(scratch), name)


def by_cp_file(ground: Ground, name: str, scratch: Path) -> None:
    ground.fs.cp_file(source_in_store(ground), name)


def by_cp(ground: Ground, name: str, scratch: Path) -> None:
    ground.fs.cp(source_in_store(ground), name)


def by_copy_of_several(ground: Ground, name: str, scratch: Path) -> None:
    ground.fs.copy([source_in_store(ground)], [name])


def by_mv(ground: Ground, name: str, scratch: Path) -> None:
    ground.fs.mv(source_in_store(ground), name)


def by_rename(ground: Ground, name: str, scratch: Path) -> None:
    ground.fs.rename(source_in_store(ground), name)


def by_mv_of_several(ground: Ground, name: str, scratch: Path) -> None:
    ground.fs.mv([source_in_store(ground)], [name])


def by_a_mapping(ground: Ground, name: str, scratch: Path) -> None:
    folder, _, last = name.rpartition("/")
    ground.fs.get_mapper(folder)[last] = BODY


def by_transaction(ground: Ground, name: str, scratch: Path) -> None:
    with ground.fs.transaction, ground.fs.open(name, "wb") as file:
        file.write(BODY)


def by_pipe_in_a_transaction(ground: Ground, name: str, scratch: Path) -> None:
    with ground.fs.transaction:
        ground.fs.pipe_file(name, BODY)


def source_on_disk(scratch: Path) -> str:
    (scratch / "source").write_bytes(BODY)
    return str(scratch / "source")


def source_in_store(ground: Ground) -> str:
    ground.write(ground.name("source"), BODY)
    return ground.name("source")


WAYS: list[Way] = [
    by_open, by_open_in_text_mode, by_exclusive_open, by_exclusive_open_in_text_mode, by_address,
    by_pipe, by_pipe_of_several, by_pipe_file, by_creating_pipe_file, by_write_text, by_write_bytes,
    by_put_file, by_creating_put_file, by_put, by_put_of_several, by_upload,
    by_cp_file, by_cp, by_copy_of_several, by_mv, by_rename, by_mv_of_several,
    by_a_mapping, by_transaction, by_pipe_in_a_transaction,
]  # fmt: skip
EXPLICIT: list[Way] = [
    by_exclusive_open, by_exclusive_open_in_text_mode, by_creating_pipe_file, by_creating_put_file,
]  # fmt: skip
RENAMES: list[Way] = [by_mv, by_rename, by_mv_of_several]


@pytest.fixture
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


@pytest.mark.parametrize("write", WAYS)
def test_every_way_creates_a_free_name_and_spares_a_taken_one(
    ground: Ground, write: Way, scratch: Path
) -> None:
    write(ground, ground.log(), scratch)
    assert ground.read(ground.log()) == BODY
    holder = ground.fs.backend.head(ground.log()).holder
    assert (holder.token is not None, holder.writer) == (True, ground.fs.writer)

    ground.fs.rm(ground.log())
    ground.write(ground.log(), WINNER)
    with pytest.raises(NameTaken) as caught:
        write(ground, ground.log(), scratch)
    assert isinstance(caught.value, FileExistsError)
    assert caught.value.filename == ground.log()
    assert ground.read(ground.log()) == WINNER


@pytest.mark.parametrize("write", [way for way in WAYS if way not in EXPLICIT])
def test_every_plain_way_overwrites_a_name_that_nobody_guards(
    ground: Ground, write: Way, scratch: Path
) -> None:
    ground.write(ground.name("data"), WINNER)
    write(ground, ground.name("data"), scratch)
    assert ground.read(ground.name("data")) == BODY


@pytest.mark.parametrize("write", EXPLICIT)
def test_an_explicit_create_is_one_on_every_name(ground: Ground, write: Way, scratch: Path) -> None:
    write(ground, ground.name("data"), scratch)
    assert ground.read(ground.name("data")) == BODY
    with pytest.raises(NameTaken):
        write(ground, ground.name("data"), scratch)
    ground.write(ground.name("other"), WINNER)
    with pytest.raises(NameTaken):
        write(ground, ground.name("other"), scratch)
    assert ground.read(ground.name("other")) == WINNER


@pytest.mark.parametrize("write", RENAMES)
def test_a_source_goes_only_after_a_proven_win(ground: Ground, write: Way, scratch: Path) -> None:
    write(ground, ground.log(), scratch)
    assert not ground.is_there(ground.name("source"))
    with pytest.raises(NameTaken):
        write(ground, ground.log(), scratch)
    assert ground.read(ground.name("source")) == BODY


def test_moving_into_a_folder_creates_there(ground: Ground) -> None:
    last = ground.log().rpartition("/")[2]
    folder = ground.name("_delta_log")
    ground.write(f"{folder}/_last_checkpoint", WINNER)  # S3 has folders where something lies in them
    for said in (folder, f"{folder}/"):
        ground.write(ground.name(last), BODY)
        ground.fs.mv(ground.name(last), said)
        assert ground.read(ground.log()) == BODY
        assert not ground.is_there(ground.name(last))
        ground.write(ground.name(last), b"too late")
        with pytest.raises(NameTaken):
            ground.fs.mv(ground.name(last), said)
        assert ground.read(ground.log()) == BODY
        assert ground.read(ground.name(last)) == b"too late"
        ground.fs.rm(ground.log())


def transfer(ground: Ground, method: str, source: str, target: str) -> None:
    if ground.kind == "s3":
        # s3fs itself moves no folder: it wants to copy the folder's own name, which is not there.
        found = ground.fs.find(source)
        targets = [target + name.removeprefix(source) for name in found]
        getattr(ground.fs, method)(found, targets)
    else:
        into = target.rpartition("/")[0] if ground.is_there(target) else target
        getattr(ground.fs, method)(source, into, recursive=True)


@pytest.mark.parametrize("method", ["cp", "mv"])
def test_a_whole_folder_never_replaces_a_guarded_name(ground: Ground, method: str) -> None:
    fs = ground.fs
    for number, data in enumerate((b"zero", b"one")):
        fs.makedirs(ground.name("from/_delta_log"), exist_ok=True)
        fs.pipe_file(f"{ground.folder}/from/_delta_log/{number:020d}.json", data)
    fs.pipe_file(ground.name("from/part"), b"data")

    transfer(ground, method, ground.name("from"), ground.name("to"))
    assert ground.read(f"{ground.folder}/to/_delta_log/{1:020d}.json") == b"one"
    assert ground.read(ground.name("to/part")) == b"data"
    assert ground.is_there(ground.name("from/part")) is (method == "cp")

    fs.makedirs(ground.name("again/to/_delta_log"), exist_ok=True)
    fs.pipe_file(f"{ground.folder}/again/to/_delta_log/{0:020d}.json", b"another zero")
    # Local disk renames a folder, or says in its own words why not.
    with pytest.raises(OSError, match=r"(?i)taken|exists"):
        transfer(ground, method, ground.name("again/to"), ground.name("to"))
    assert ground.read(f"{ground.folder}/to/_delta_log/{0:020d}.json") == b"zero"
    assert ground.read(f"{ground.folder}/again/to/_delta_log/{0:020d}.json") == b"another zero"


def test_of_several_moved_names_the_taken_one_stays_and_no_source_goes(ground: Ground) -> None:
    sources = [ground.name("a"), ground.name("b")]
    for source in sources:
        ground.write(source, BODY)
    ground.write(ground.log(1), WINNER)
    with pytest.raises(NameTaken):
        ground.fs.mv(sources, [ground.log(0), ground.log(1)])
    assert ground.read(ground.log(1)) == WINNER
    assert all(ground.read(source) == BODY for source in sources)


def test_moving_a_name_to_itself_loses_nothing(ground: Ground) -> None:
    ground.fs.pipe_file(ground.log(), WINNER)
    with pytest.raises(NameTaken):
        ground.fs.mv(ground.log(), ground.log())
    assert ground.read(ground.log()) == WINNER


@pytest.mark.parametrize("target", ["itself/plain", "memory://itself/plain", "/itself", "/itself/"])
def test_what_is_moved_to_itself_in_other_words_stays(target: str) -> None:
    fs = fsspec.filesystem("piamemory")
    fs.pipe_file("/itself/plain", WINNER)
    fs.mv("/itself/plain", target)
    assert fs.cat_file("/itself/plain") == WINNER
    with pytest.raises(FileNotFoundError):
        fs.mv("/itself/nothing", "memory://itself/nothing")


@pytest.mark.parametrize("method", ["cp_file", "cp", "mv"])
def test_a_source_that_is_not_there_is_named(ground: Ground, method: str) -> None:
    with pytest.raises(FileNotFoundError, match="source"):
        getattr(ground.fs, method)(ground.name("source"), ground.log())
    assert not ground.is_there(ground.log())


@pytest.mark.parametrize("mode", ["wb", "xb", "w", "x", "w+b", "wt"])
def test_a_taken_name_is_told_when_it_is_opened(ground: Ground, mode: str) -> None:
    ground.fs.pipe_file(ground.log(), WINNER)
    with pytest.raises(NameTaken) as caught:
        ground.fs.open(ground.log(), mode)
    holder = caught.value.holder
    assert holder is not None
    assert holder.writer == ground.fs.writer
    assert holder.size == len(WINNER)


@pytest.mark.parametrize("mode", ["wb", "xb", "w", "w+b"])
def test_a_name_that_is_taken_meanwhile_is_told_when_it_is_closed(ground: Ground, mode: str) -> None:
    file = ground.fs.open(ground.log(), mode)
    file.write(BODY if "b" in mode else BODY.decode())
    ground.write(ground.log(), WINNER)
    with pytest.raises(NameTaken):
        file.close()
    assert file.closed
    file.close()
    assert ground.read(ground.log()) == WINNER
    assert ground.files() == [ground.log().removeprefix(ground.folder + "/")]


def test_of_two_open_files_the_first_that_closes_wins(ground: Ground) -> None:
    first, second = (ground.fs.open(ground.log(), "wb") for _ in range(2))
    first.write(b"first")
    second.write(b"second")
    second.close()
    with pytest.raises(NameTaken):
        first.close()
    assert ground.read(ground.log()) == b"second"


def test_a_removed_name_is_free_again(ground: Ground) -> None:
    for remove in ("rm", "rm_file", "delete"):
        ground.fs.pipe_file(ground.log(), BODY)
        getattr(ground.fs, remove)(ground.log())
    ground.fs.pipe_file(ground.log(), b"another's turn")
    ground.fs.mv(ground.log(), ground.name("away"))
    ground.fs.pipe_file(ground.log(), BODY)
    ground.fs.rm(ground.name("_delta_log"), recursive=True)
    ground.fs.makedirs(ground.name("_delta_log"), exist_ok=True)
    ground.fs.pipe_file(ground.log(), BODY)
    assert ground.read(ground.name("away")) == b"another's turn"


@pytest.mark.parametrize("mode", ["ab", "a", "r+b", "r+", "a+b"])
def test_a_guarded_name_is_neither_appended_to_nor_changed(ground: Ground, mode: str) -> None:
    ground.fs.pipe_file(ground.log(), WINNER)
    for name in (ground.log(), ground.log(1)):
        with pytest.raises(io.UnsupportedOperation, match="guarded"):
            ground.fs.open(name, mode)
    assert ground.read(ground.log()) == WINNER
    assert not ground.is_there(ground.log(1))


def test_what_was_written_can_be_read_back_before_it_is_created(ground: Ground) -> None:
    with ground.fs.open(ground.log(), "w+b") as file:
        file.write(b"one two")
        file.seek(4)
        assert file.read() == b"two"
        file.seek(0)
        file.write(b"ONE")
        assert not ground.is_there(ground.log())
    assert ground.read(ground.log()) == b"ONE two"


def test_text_has_the_encoding_and_the_line_ends_that_were_asked_for(ground: Ground) -> None:
    with ground.fs.open(ground.log(), "w", encoding="latin-1", newline="\r\n") as file:
        file.write("é\n")
    assert ground.read(ground.log()) == b"\xe9\r\n"


@pytest.mark.parametrize("compression", ["gzip", "infer"])
def test_compressed_files_are_created_complete(ground: Ground, compression: str) -> None:
    name = ground.name("metadata/v1.metadata.json.gz") if compression == "infer" else ground.log()
    ground.fs.makedirs(ground.name("metadata"), exist_ok=True)
    with ground.fs.open(name, "w", compression=compression) as file:
        file.write("text " * 1000)
    with ground.fs.open(name, "r", compression="gzip") as file:
        assert file.read() == "text " * 1000
    with pytest.raises(NameTaken):
        ground.fs.open(name, "wb", compression=compression)


def test_a_transaction_creates_at_its_end_and_in_order(ground: Ground) -> None:
    with ground.fs.transaction:
        with ground.fs.open(ground.log(0), "wb") as file:
            file.write(BODY)
        ground.fs.pipe_file(ground.log(1), BODY)
        assert not ground.is_there(ground.log(0))
        assert not ground.is_there(ground.log(1))
    assert ground.read(ground.log(0)) == ground.read(ground.log(1)) == BODY


def test_a_transaction_that_fails_creates_nothing(ground: Ground) -> None:
    def writes() -> None:
        with ground.fs.transaction:
            with ground.fs.open(ground.log(0), "wb") as file:
                file.write(BODY)
            ground.fs.pipe_file(ground.log(1), BODY)
            raise RuntimeError("on the way")

    with pytest.raises(RuntimeError):
        writes()
    assert ground.files() == []


def test_a_transaction_that_meets_a_taken_name_ends(ground: Ground) -> None:
    """Before 2026, fsspec leaves it open, and every later write would wait for ever."""

    def writes() -> None:
        with ground.fs.transaction:
            with ground.fs.open(ground.log(0), "wb") as file:
                file.write(BODY)
            with ground.fs.open(ground.log(1), "wb") as file:
                file.write(BODY)
            ground.write(ground.log(0), WINNER)

    with pytest.raises(NameTaken):
        writes()
    assert ground.read(ground.log(0)) == WINNER
    assert not ground.is_there(ground.log(1))
    with ground.fs.open(ground.log(1), "wb") as file:
        file.write(b"later")
    assert ground.read(ground.log(1)) == b"later"
    with ground.fs.open(ground.name("data"), "wb") as file:
        file.write(b"later")
    assert ground.read(ground.name("data")) == b"later"


def test_a_transaction_defers_what_the_wrapped_filesystem_defers(ground: Ground) -> None:
    """What it does at once on S3, and at the end elsewhere, stays as it is."""

    def deferred(fs: Any) -> bool:
        fs.start_transaction()
        fs.pipe_file(ground.name("data"), BODY)
        late = not ground.is_there(ground.name("data"))
        fs.end_transaction()
        assert ground.read(ground.name("data")) == BODY
        ground.around.rm(ground.name("data"))
        return late

    plain = fsspec.filesystem(ground.plain, skip_instance_cache=True, **ground.options)
    assert deferred(ground.fs) is deferred(plain) is (ground.kind != "s3")


def test_missing_folders_are_made_where_the_wrapped_filesystem_makes_them(local: Ground) -> None:
    fs = local.mount(auto_mkdir=True)
    writes: list[Callable[[str], Any]] = [
        lambda name: fs.pipe_file(name, BODY),
        fs.touch,
        lambda name: fs.cp_file(local.name("source"), name),
        lambda name: fs.put_file(local.name("source"), name),
        lambda name: fs.open(name, "wb").close(),
        lambda name: fs.mv(local.name("source"), name),
    ]
    local.write(local.name("source"), BODY)
    for number, write in enumerate(writes):
        name = f"{local.folder}/new{number}/_delta_log/{0:020d}.json"
        with pytest.raises(FileNotFoundError, match=f"new{number}"):
            local.fs.pipe_file(name, BODY)
        write(name)
        assert local.is_there(name)


@pytest.mark.parametrize(
    "said", ["_delta_log//{}", "_delta_log/./{}", "x/../_delta_log/{}", "_delta_log/y/../{}"]
)
def test_on_disk_no_spelling_of_a_guarded_name_goes_round_the_guard(
    local: Ground, said: str, tmp_path: Path
) -> None:
    for folder in ("x", "_delta_log/y"):
        local.fs.mkdir(local.name(folder))
    name = f"{local.folder}/" + said.format(local.log().rpartition("/")[2])
    local.fs.pipe_file(local.log(), WINNER)
    for write in (by_open, by_pipe_file, by_cp_file, by_mv, by_touch):
        with pytest.raises((NameTaken, ValueError)):
            write(local, name, tmp_path)
    assert local.read(local.log()) == WINNER


def by_touch(ground: Ground, name: str, scratch: Path) -> None:
    ground.fs.touch(name)


def test_slashes_before_a_bucket_are_none(s3: Ground, scratch: Path) -> None:
    """Each client of an object store drops them; kedro and others put one there."""
    s3.fs.pipe_file(f"/{s3.log()}", BODY)
    assert s3.files() == [s3.log().removeprefix(s3.folder + "/")]
    for write in (by_open, by_pipe_file, by_cp_file, by_mv, by_put, by_touch):
        with pytest.raises(NameTaken) as caught:
            write(s3, f"/{s3.log()}", scratch)
        assert caught.value.name == s3.log()
    fs = s3.mount(guard=[f"{s3.folder}/data"])
    fs.pipe_file(f"pias3:///{s3.name('data')}", BODY)
    with pytest.raises(NameTaken):
        fs.pipe_file(f"//{s3.name('data')}", BODY)
    s3.write(s3.name("source"), BODY)
    fs.mv(f"/{s3.name('source')}", f"/{s3.log(1)}")
    assert s3.read(s3.log(1)) == BODY
    assert not s3.is_there(s3.name("source"))
