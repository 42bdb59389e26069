"""pyarrow writes and reads through a guarded filesystem; a taken name stays, and the error comes through."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest

import putifabsent.arrow
from putifabsent import ConfigError, NameTaken
from putifabsent.fsspec_plugin import GuardedFileSystem
from tests.fsspec_plugin.whole_tables import TABLES, commit, files_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fsspec_plugin.grounds import Ground

ROWS = pa.table({"x": list(range(1000))})
OTHERS = pa.table({"x": [-1]})


class OnTheWayError(Exception):
    """Whatever goes wrong while pyarrow writes."""


@pytest.fixture
def fs(ground: Ground) -> Any:
    ground.fs.makedirs(ground.name("data"), exist_ok=True)
    return filesystem(ground)


def filesystem(ground: Ground) -> Any:
    return putifabsent.arrow.filesystem(
        f"{ground.protocol}://", guard=["**/*.parquet"], arbiter="native", **ground.options
    )


def said(ground: Ground, name: str) -> str:
    """Return a name as pyarrow must hear it: on local disk as an address, for it removes paths itself."""
    return ground.url(name) if ground.kind == "local" else name


def read(ground: Ground, name: str) -> Any:
    with ground.around.open(name, "rb") as file:
        return pyarrow.parquet.read_table(file)


def test_a_table_is_written_and_read(ground: Ground, fs: Any) -> None:
    name = ground.name("data/1.parquet")
    pyarrow.parquet.write_table(ROWS, said(ground, name), filesystem=fs)
    assert pyarrow.parquet.read_table(name, filesystem=fs).equals(ROWS)
    assert read(ground, name).equals(ROWS)
    with pytest.raises(NameTaken) as caught:
        pyarrow.parquet.write_table(OTHERS, said(ground, name), filesystem=fs)
    assert isinstance(caught.value, FileExistsError)
    assert caught.value.holder is not None
    assert caught.value.holder.writer == ground.fs.writer
    assert read(ground, name).equals(ROWS)


def test_pyarrow_itself_removes_a_local_path_after_any_failure(local: Ground) -> None:
    """Why names on local disk are said as addresses to ``write_table``: it calls ``os.remove`` on a path."""
    fs = filesystem(local)
    path, address = local.name("1.parquet"), local.url(local.name("2.parquet"))
    for name in (path, address):
        pyarrow.parquet.write_table(ROWS, name, filesystem=fs)
        with pytest.raises(NameTaken):
            pyarrow.parquet.write_table(OTHERS, name, filesystem=fs)
    assert local.files() == ["2.parquet"], "pyarrow has changed: say so in arrow.filesystem"
    assert read(local, local.name("2.parquet")).equals(ROWS)


def test_a_dataset_is_written_and_read(ground: Ground, fs: Any) -> None:
    def write(rows: Any) -> None:
        pyarrow.dataset.write_dataset(
            rows, ground.name("data"), format="parquet", filesystem=fs,
            basename_template="part-{i}.parquet", existing_data_behavior="overwrite_or_ignore",
        )  # fmt: skip

    write(ROWS)
    assert pyarrow.dataset.dataset(ground.name("data"), filesystem=fs).to_table().equals(ROWS)
    with pytest.raises(NameTaken):
        write(OTHERS)
    assert ground.files() == ["data/part-0.parquet"]
    assert read(ground, ground.name("data/part-0.parquet")).equals(ROWS)


@pytest.mark.parametrize("threads", [True, False])
def test_a_dataset_whose_rows_break_off_is_not_created(
    ground: Ground, fs: Any, threads: bool, collect: Callable[[], int]
) -> None:
    def batches() -> Iterator[Any]:
        yield ROWS.to_batches()[0]
        raise OnTheWayError

    with pytest.raises(OnTheWayError):
        pyarrow.dataset.write_dataset(
            pa.RecordBatchReader.from_batches(ROWS.schema, batches()), ground.name("data"),
            format="parquet", filesystem=fs, use_threads=threads,
        )  # fmt: skip
    collect()
    assert ground.files() == []


def test_moving_and_copying_create(ground: Ground, fs: Any) -> None:
    lasts = ("source", "moved.parquet", "copied.parquet")
    source, moved, copied = (ground.name(f"data/{last}") for last in lasts)
    ground.write(source, b"one")
    fs.copy_file(source, copied)
    fs.move(source, moved)
    assert (ground.read(moved), ground.read(copied), ground.is_there(source)) == (b"one", b"one", False)
    ground.write(source, b"two")
    with pytest.raises(NameTaken):
        fs.copy_file(source, copied)
    with pytest.raises(NameTaken):
        fs.move(source, moved)
    assert (ground.read(moved), ground.read(copied), ground.read(source)) == (b"one", b"one", b"two")
    with pytest.raises(NameTaken):
        pyarrow.fs.copy_files(source, moved, source_filesystem=fs, destination_filesystem=fs)


def test_streams_create_when_they_are_closed(ground: Ground, fs: Any) -> None:
    name = ground.name("data/1.parquet")
    with fs.open_output_stream(name) as stream:
        stream.write(b"one")
        assert ground.files() == []
    with fs.open_input_stream(name) as stream:
        assert stream.read() == b"one"
    with fs.open_input_file(name) as file:
        file.seek(1)
        assert file.read() == b"ne"
    with pytest.raises(NameTaken):
        fs.open_output_stream(name)
    with pytest.raises(OSError, match="guarded"):
        fs.open_append_stream(name)
    stream = fs.open_output_stream(ground.name("data/2.parquet"))
    pyarrow.csv.write_csv(OTHERS, stream)
    ground.write(ground.name("data/2.parquet"), b"the winner's")
    with pytest.raises(NameTaken):
        stream.close()
    assert ground.read(ground.name("data/2.parquet")) == b"the winner's"


def test_what_breaks_on_the_way_is_not_created(ground: Ground, fs: Any) -> None:
    name = ground.name("data/1.parquet")

    def by_stream() -> None:
        with fs.open_output_stream(name) as stream:
            stream.write(b"half")
            raise OnTheWayError

    def by_writer() -> None:
        with pyarrow.parquet.ParquetWriter(name, ROWS.schema, filesystem=fs) as writer:
            writer.write_table(ROWS)
            raise OnTheWayError

    for writes in (by_stream, by_writer):
        with pytest.raises(OnTheWayError):
            writes()
    assert ground.files() == []


def test_what_is_dropped_is_not_created(ground: Ground, fs: Any, collect: Callable[[], int]) -> None:
    stream = fs.open_output_stream(ground.name("data/1.parquet"))
    stream.write(b"half")
    del stream
    collect()
    assert ground.files() == []


def test_names_are_listed_and_removed(ground: Ground, fs: Any) -> None:
    fs.create_dir(ground.name("data/inner"), recursive=True)
    with fs.open_output_stream(ground.name("data/inner/1.parquet")) as stream:
        stream.write(b"one")
    found = fs.get_file_info(pyarrow.fs.FileSelector(ground.name("data"), recursive=True))
    files = [(each.path, each.size) for each in found if each.type is pyarrow.fs.FileType.File]
    assert files == [(ground.name("data/inner/1.parquet"), 3)]
    assert fs.get_file_info(ground.name("data/none")).type is pyarrow.fs.FileType.NotFound
    fs.delete_file(ground.name("data/inner/1.parquet"))
    assert ground.files() == []
    with fs.open_output_stream(ground.name("data/inner/1.parquet")) as stream:
        stream.write(b"two")
    fs.delete_dir(ground.name("data/inner"))
    assert ground.files() == []


def test_what_is_below_an_address_is_read_and_listed(ground: Ground, fs: Any) -> None:
    folder = ground.url(ground.name("data"))
    pyarrow.parquet.write_table(ROWS, f"{folder}/1.parquet", filesystem=fs)
    assert pyarrow.parquet.read_table(folder, filesystem=fs).equals(ROWS)
    assert pyarrow.dataset.dataset(folder, filesystem=fs).to_table().equals(ROWS)
    found = fs.get_file_info(pyarrow.fs.FileSelector(folder))
    assert [each.path for each in found] == [ground.name("data/1.parquet")]


def test_no_name_is_a_pattern(ground: Ground, fs: Any) -> None:
    odd, other = ground.name("data/p[1].parquet"), ground.name("data/p1.parquet")
    for name in (odd, other):
        with fs.open_output_stream(name) as stream:
            stream.write(name.encode())
    fs.copy_file(odd, ground.name("data/copy.parquet"))
    fs.move(odd, ground.name("data/moved.parquet"))
    assert ground.files() == ["data/copy.parquet", "data/moved.parquet", "data/p1.parquet"]
    assert ground.read(ground.name("data/copy.parquet")) == ground.read(ground.name("data/moved.parquet"))
    with fs.open_output_stream(odd) as stream:
        stream.write(b"again")
    fs.delete_file(odd)
    assert ground.read(other) == other.encode()
    with pytest.raises(FileNotFoundError):
        fs.delete_file(odd)
    with pytest.raises(IsADirectoryError):
        fs.delete_file(ground.name("data"))
    with fs.open_output_stream(odd) as stream:
        stream.write(b"once more")
    fs.move(odd, odd)
    fs.move(odd, ground.name("data"))
    assert ground.read(odd) == b"once more"
    for folder in ("x[1]", "x1"):
        fs.create_dir(ground.name(folder))
        with fs.open_output_stream(ground.name(f"{folder}/f[1]")) as stream:
            stream.write(folder.encode())
    fs.delete_dir_contents(ground.name("x[1]"))
    assert ground.read(ground.name("x1/f[1]")) == b"x1"
    assert not ground.is_there(ground.name("x[1]/f[1]"))
    fs.delete_file(odd)
    for act in (fs.delete_dir, lambda folder: fs.move(folder, ground.name("moved"))):
        with pytest.raises((ValueError, FileNotFoundError)):
            act(ground.name("dat[a]"))
    assert ground.is_there(other)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("memory://", "/{}/1.parquet"),
        ("memory:///some/table", "/{}/1.parquet"),
        ("piamemory://", "/{}/1.parquet"),
        ("putifabsent::memory://", "/{}/1.parquet"),
    ],
)
def test_whatever_address_is_said_the_filesystem_is_guarded(memory: Ground, url: str, name: str) -> None:
    fs = putifabsent.arrow.filesystem(url, guard="**/*.parquet")
    name = name.format(memory.folder.strip("/"))
    pyarrow.parquet.write_table(ROWS, name, filesystem=fs)
    with pytest.raises(NameTaken):
        pyarrow.parquet.write_table(OTHERS, name, filesystem=fs)
    assert read(memory, name).equals(ROWS)


def test_a_plain_path_means_guarded_local_disk(local: Ground) -> None:
    for url in (
        local.folder,
        Path(local.folder),
        f"file://{local.folder}",
        f"piafile://{local.folder}",
        f"local://{local.folder}",
    ):
        fs = putifabsent.arrow.filesystem(url)
        handler = fs.handler
        assert isinstance(handler.fs, GuardedFileSystem)
        with fs.open_output_stream(local.log()) as stream:
            stream.write(b"one")
        with pytest.raises(NameTaken):
            fs.open_output_stream(local.log())
        Path(local.log()).unlink()


def test_a_bucket_address_means_guarded_s3(s3: Ground) -> None:
    for url in ("s3://", f"s3://{s3.folder}", f"pias3://{s3.folder}", "s3a://"):
        fs = putifabsent.arrow.filesystem(url, arbiter="native", **s3.options)
        with fs.open_output_stream(s3.log()) as stream:
            stream.write(b"one")
        with pytest.raises(NameTaken):
            fs.open_output_stream(s3.log())
        s3.around.rm(s3.log())


def test_wrong_options_are_told() -> None:
    with pytest.raises(ConfigError, match="did you mean 'guard'"):
        putifabsent.arrow.filesystem("memory://", gaurd="x")
    with pytest.raises(ConfigError, match="can't be guarded"):
        putifabsent.arrow.filesystem("http://127.0.0.1:1/x")


@pytest.mark.parametrize(
    ("ground", "table"),
    [
        *((ground, table) for ground in ("memory-native", "local-native") for table in TABLES),
        ("s3-native", "paimon"),
    ],
    indirect=["ground"],
)
def test_a_whole_table_is_copied_and_committed_to(ground: Ground, table: str, fs: Any) -> None:
    """By name, the hundredth comes before the eighty-fifth, which is the first."""
    source, target, files = ground.name("from"), ground.name("to"), files_of(table)
    for name in files:
        for folder in source, target:
            ground.around.makedirs(f"{folder}/{name}".rpartition("/")[0], exist_ok=True)
    ground.around.pipe({f"{source}/{name}": data for name, data in files.items()})
    pyarrow.fs.copy_files(source, target, source_filesystem=fs, destination_filesystem=fs, use_threads=False)
    assert ground.around.cat([f"{target}/{name}" for name in files]) == {
        f"{target}/{name}": data for name, data in files.items()
    }
    commit(ground.fs, table, target)
