"""Libraries write and read through a guarded protocol; what they would have overwritten stays.

Each name with ``guarded`` in it is guarded by a pattern, as a table's own names are by their format.
"""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

import putifabsent
from putifabsent import ConfigError, NameTaken

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fsspec_plugin.grounds import Ground

GUARD = ["**/guarded*"]


class OnTheWayError(Exception):
    """Whatever goes wrong while a library writes."""


class Unprintable:
    """A value that breaks a library off in the middle."""

    def __str__(self) -> str:
        raise OnTheWayError


def options(ground: Ground, **more: Any) -> dict[str, Any]:
    """Return what a library must hand to the filesystem."""
    return {"arbiter": "native", "guard": GUARD, **ground.options, **more}


def address(ground: Ground, last: str) -> str:
    return ground.url(ground.name(last))


# --- pandas


@pytest.mark.parametrize("kind", ["csv", "json", "pickle", "csv.gz", "parquet"])
def test_pandas(ground: Ground, kind: str) -> None:
    import pandas as pd

    if (kind, ground.kind) == ("parquet", "local"):
        kind = "feather"  # on local disk see test_pandas_hands_parquet_an_open_file_on_local_disk
    form, name = kind.partition(".")[0], f"guarded.{kind}"
    frame, others = pd.DataFrame({"x": [1, 2, 3]}), pd.DataFrame({"x": [-1]})
    index = {"index": False} if form == "csv" else {}

    def write(rows: Any) -> None:
        getattr(rows, f"to_{form}")(address(ground, name), storage_options=options(ground), **index)

    def read() -> Any:
        return getattr(pd, f"read_{form}")(address(ground, name), storage_options=options(ground))

    write(frame)
    assert read().equals(frame)
    with pytest.raises(NameTaken):
        write(others)
    assert read().equals(frame)


def test_pandas_hands_parquet_an_open_file_on_local_disk(local: Ground) -> None:
    """By a path, pyarrow below it would remove the winner's file: see ``putifabsent.arrow.filesystem``."""
    import pandas as pd

    frame = pd.DataFrame({"x": [1, 2, 3]})

    def write(rows: Any) -> None:
        with fsspec.open(address(local, "guarded.parquet"), "wb", **options(local)) as file:
            rows.to_parquet(file)

    write(frame)
    with pytest.raises(NameTaken):
        write(pd.DataFrame({"x": [-1]}))
    assert pd.read_parquet(address(local, "guarded.parquet"), storage_options=options(local)).equals(frame)


@pytest.mark.parametrize("last", ["guarded.csv", "guarded.csv.gz"])
def test_pandas_that_breaks_off_creates_nothing(
    ground: Ground, last: str, collect: Callable[[], int]
) -> None:
    import pandas as pd

    frame = pd.DataFrame({"x": [*"abc", Unprintable()]})
    with pytest.raises(OnTheWayError):
        frame.to_csv(address(ground, last), storage_options=options(ground))
    collect()
    assert ground.files() == []


def test_pandas_does_not_append_to_a_guarded_name(memory: Ground) -> None:
    import pandas as pd

    pd.DataFrame({"x": [1]}).to_csv(address(memory, "guarded.csv"), storage_options=options(memory))
    before = memory.read(memory.name("guarded.csv"))
    with pytest.raises(OSError, match="guarded"):
        pd.DataFrame({"x": [2]}).to_csv(
            address(memory, "guarded.csv"), mode="a", storage_options=options(memory)
        )
    assert memory.read(memory.name("guarded.csv")) == before


# --- pyarrow, by address (by a filesystem: tests/fsspec_plugin/test_arrow.py)


def test_pyarrow_by_address(ground: Ground) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if ground.kind == "s3":
        # An address has no room for options: they are fsspec's own configuration.
        fsspec.config.conf[ground.protocol] = dict(options(ground))
    try:
        where = f"fsspec+{ground.url(ground.log())}"
        pq.write_table(pa.table({"x": [1, 2]}), where)
        with pytest.raises(NameTaken):
            pq.write_table(pa.table({"x": [-1]}), where)
        assert pq.read_table(where).column("x").to_pylist() == [1, 2]
    finally:
        fsspec.config.conf.pop(ground.protocol, None)


# --- dask


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # dask, by a pandas that is newer than it
def test_dask_dataframe(ground: Ground) -> None:
    import dask.dataframe
    import pandas as pd

    dd: Any = dask.dataframe
    frame = pd.DataFrame({"x": range(10)})
    where = address(ground, "folder")

    def write(rows: Any) -> None:
        dd.from_pandas(rows, npartitions=2).to_parquet(
            where, storage_options=options(ground), name_function=lambda n: f"guarded-{n}.parquet"
        )

    def read() -> list[int]:
        found: list[int] = dd.read_parquet(where, storage_options=options(ground)).compute()["x"].to_list()
        return found

    with dask.config.set(scheduler="threads"):
        write(frame)
        assert read() == list(range(10))
        with pytest.raises(NameTaken):
            write(-frame)
        assert read() == list(range(10))


def test_dask_text(ground: Ground) -> None:
    import dask.bag

    db: Any = dask.bag
    where = address(ground, "guarded-*.txt")
    with dask.config.set(scheduler="threads"):
        db.from_sequence(["a", "b"], npartitions=2).to_textfiles(where, storage_options=options(ground))
        with pytest.raises(NameTaken):
            db.from_sequence(["c", "d"], npartitions=2).to_textfiles(where, storage_options=options(ground))
        assert db.read_text(where, storage_options=options(ground)).compute() == ["a", "b"]


def test_dask_in_other_processes(local: Ground) -> None:
    import dask.bag

    db: Any = dask.bag
    where = address(local, "guarded-*.txt")
    with dask.config.set(scheduler="processes", num_workers=1):
        db.from_sequence(["a", "b"], npartitions=2).to_textfiles(where, storage_options=options(local))
        with pytest.raises(FileExistsError):
            db.from_sequence(["c", "d"], npartitions=2).to_textfiles(where, storage_options=options(local))
    assert [local.read(local.name(f"guarded-{n}.txt")).strip() for n in (0, 1)] == [b"a", b"b"]


def test_a_filesystem_goes_to_workers_by_cloudpickle(ground: Ground) -> None:
    """As dask, Spark and Ray send it, within a function."""
    import cloudpickle  # type: ignore[import-untyped]

    fs = ground.mount(guard=GUARD, writer="the application's")
    name = ground.name("guarded")
    written = cloudpickle.loads(cloudpickle.dumps(lambda: fs.pipe_file(name, b"one") or fs.writer))
    assert written() == "the application's"
    with pytest.raises(NameTaken):
        written()
    with pickle.loads(cloudpickle.dumps(fs)).open(name) as file:
        assert file.read() == b"one"


# --- zarr


def test_zarr(ground: Ground) -> None:
    import zarr

    where = address(ground, "array.zarr")
    told = options(ground, guard=["**/zarr.json", "**/.zarray", "**/c/*", "**/array.zarr/0"])
    if ground.kind == "local":
        told["auto_mkdir"] = True

    def opened(mode: Any, **more: Any) -> Any:
        return zarr.open(where, mode=mode, storage_options=told, **more)

    opened("w", shape=(4,), chunks=(4,), dtype="int64")[:] = [1, 2, 3, 4]
    assert opened("r")[:].tolist() == [1, 2, 3, 4]
    # zarr itself looks first whether there is an array; only when it is told to overwrite, it goes on.
    with pytest.raises((FileExistsError, ValueError), match="contains"):
        opened("w-", shape=(4,), dtype="int64")
    again = opened("r+")
    with pytest.raises(NameTaken):
        again[:] = [-1, -1, -1, -1]
    assert opened("r")[:].tolist() == [1, 2, 3, 4]


# --- kedro


@pytest.mark.parametrize("dataset", ["CSVDataset", "ParquetDataset", "JSONDataset"])
def test_kedro(ground: Ground, dataset: str) -> None:
    import pandas as pd
    from kedro.io import DatasetError
    from kedro_datasets import pandas as datasets

    # kedro knows no bucket in a scheme that is not its own: with a third slash it lies in the path.
    slash = "/" if ground.kind == "s3" else ""
    where = f"{ground.protocol}://{slash}{ground.name('guarded')}"
    frame = pd.DataFrame({"x": [1, 2, 3]})

    def made() -> Any:
        return getattr(datasets, dataset)(filepath=where, credentials=options(ground))

    made().save(frame)
    assert ground.files() == ["guarded"]
    assert made().load()["x"].to_list() == [1, 2, 3]
    with pytest.raises(DatasetError) as caught:
        made().save(-frame)
    assert isinstance(caught.value.__cause__, NameTaken), "kedro wraps it"
    assert made().load()["x"].to_list() == [1, 2, 3]
    assert made().exists()


def test_kedro_by_a_plain_protocol_that_is_guarded(s3: Ground) -> None:
    import pandas as pd
    from kedro.io import DatasetError
    from kedro_datasets.pandas import CSVDataset

    putifabsent.guard_protocol("s3")
    try:
        made = CSVDataset(filepath=f"s3://{s3.name('guarded')}", credentials=options(s3))
        made.save(pd.DataFrame({"x": [1]}))
        with pytest.raises(DatasetError) as caught:
            made.save(pd.DataFrame({"x": [-1]}))
        assert isinstance(caught.value.__cause__, NameTaken)
        assert made.load()["x"].to_list() == [1]
    finally:
        putifabsent.unguard_protocol("s3")


# --- duckdb


@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize("careful", [True, False])
def test_duckdb(ground: Ground, form: str, careful: bool) -> None:
    import duckdb

    fs = ground.mount(guard=GUARD)
    where = address(ground, f"guarded.{form}")
    with duckdb.connect() as connection:
        connection.register_filesystem(fs)

        def write(rows: str) -> None:
            connection.execute(
                f"COPY (SELECT {rows} AS x) TO '{where}' (FORMAT {form}, USE_TMP_FILE {careful})"
            )

        def read() -> list[tuple[Any, ...]]:
            found: list[tuple[Any, ...]] = connection.execute(f"FROM '{where}'").fetchall()
            return found

        write("1")
        assert read() == [(1,)]
        with pytest.raises(duckdb.Error, match="NameTaken"):  # duckdb keeps an error's words only
            write("2")
        assert read() == [(1,)]
    assert ground.files() == [f"guarded.{form}"]


def test_duckdb_with_a_temporary_file_spares_who_was_faster(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one, it removes the file after a COPY that failed, whosever it is by then."""
    import duckdb

    fs = ground.mount(guard=GUARD, skip_instance_cache=True)
    honest = fs.mv

    def overtaken(source: str, target: str, **more: Any) -> None:
        ground.write(ground.name("guarded.csv"), b"x\n1\n")
        honest(source, target, **more)

    monkeypatch.setattr(fs, "mv", overtaken)
    with duckdb.connect() as connection:
        connection.register_filesystem(fs)
        with pytest.raises(duckdb.Error, match="NameTaken"):
            connection.execute(
                f"COPY (SELECT 2 AS x) TO '{address(ground, 'guarded.csv')}' (FORMAT csv, USE_TMP_FILE true)"
            )
    assert ground.files() == ["guarded.csv"]
    assert ground.read(ground.name("guarded.csv")) == b"x\n1\n"


def test_duckdb_that_breaks_off_creates_nothing(ground: Ground, collect: Callable[[], int]) -> None:
    import duckdb

    query = "SELECT CASE WHEN i = 99999 THEN error('broken') ELSE 'x' || i END AS x FROM range(100000) t(i)"
    with duckdb.connect() as connection:
        connection.register_filesystem(ground.mount(guard=GUARD))
        with pytest.raises(duckdb.Error, match="broken"):
            connection.execute(
                f"COPY ({query}) TO '{address(ground, 'guarded.csv')}' (FORMAT csv, USE_TMP_FILE true)"
            )
    collect()
    assert not ground.is_there(ground.name("guarded.csv"))


# --- polars


@pytest.mark.parametrize("form", ["parquet", "csv", "ipc"])
def test_polars_through_file_objects(ground: Ground, form: str) -> None:
    import polars as pl

    fs = ground.mount(guard=GUARD)
    frame = pl.DataFrame({"x": [1, 2, 3]})

    def write(rows: Any) -> None:
        with fs.open(ground.name("guarded"), "wb") as file:
            getattr(rows, f"write_{form}")(file)

    def read() -> Any:
        with fs.open(ground.name("guarded"), "rb") as file:
            return getattr(pl, f"read_{form}")(file)

    write(frame)
    assert read().equals(frame)
    with pytest.raises(NameTaken):
        write(frame.head(1))
    assert read().equals(frame)


def test_polars_by_address_does_not_know_the_protocol(memory: Ground) -> None:
    """It writes by a client of its own: loudly not at all, rather than round the guard."""
    import polars as pl

    with pytest.raises((OSError, ValueError, pl.exceptions.PolarsError)):
        pl.DataFrame({"x": [1]}).write_parquet(address(memory, "guarded"))
    assert memory.files() == []


# --- universal_pathlib


@pytest.mark.filterwarnings("ignore:UPath .* filesystem not explicitly implemented")  # its default will do
def test_universal_pathlib(ground: Ground) -> None:
    from upath import UPath

    path = UPath(address(ground, "guarded"), **options(ground))
    path.write_bytes(b"one")
    with pytest.raises(NameTaken):
        path.write_bytes(b"two")
    with pytest.raises(NameTaken):
        path.write_text("two")
    with pytest.raises(NameTaken):
        path.open("wb")
    assert path.read_bytes() == b"one"
    assert [str(each) for each in path.parent.iterdir() if each.is_file()] == [address(ground, "guarded")]
    free = path.with_name("source")
    free.write_bytes(b"three")
    with pytest.raises(NameTaken):
        free.rename(path)
    assert (path.read_bytes(), free.read_bytes()) == (b"one", b"three")
    path.unlink()
    free.rename(path)
    assert ground.read(ground.name("guarded")) == b"three"
    with pytest.raises(FileExistsError):
        path.touch(exist_ok=False)
    assert pickle.loads(pickle.dumps(path)) == path


# --- the standard library, over file objects


def test_json_and_pickle_write_to_an_open_file(memory: Ground) -> None:
    fs = memory.mount(guard=GUARD)

    def dump(value: Any) -> None:
        with fs.open(memory.name("guarded"), "w") as file:
            json.dump(value, file)

    with pytest.raises(TypeError):
        dump({"half": 1, "then": object()})
    assert memory.files() == []
    dump({"whole": 1})
    with pytest.raises(NameTaken):
        dump({"another": 1})
    assert json.loads(memory.read(memory.name("guarded"))) == {"whole": 1}


@pytest.mark.parametrize(
    ("protocol", "option", "nearest"),
    [("piags", "projet", "project"), ("piaaz", "acount_name", "account_name")],
)
def test_a_cloud_s_unknown_option_is_told_with_the_nearest_one(
    protocol: str, option: str, nearest: str
) -> None:
    with pytest.raises(ConfigError, match=f"unknown option '{option}' .*did you mean '{nearest}'"):
        fsspec.filesystem(protocol, **{option: 1})
