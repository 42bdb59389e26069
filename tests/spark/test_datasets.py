"""Datasets of committed sets, in real filesystems; no Spark."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from putifabsent import ConfigError, Fenced, NameTaken, OutcomeUnknown
from putifabsent.spark.sets import CARRY, Dataset
from tests.spark.offers import append, batch, overwrite
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from putifabsent.spark.sets import File, Offer

SCHEMA = pa.schema([("id", pa.int64())])


def rows(*ids: int) -> list[pa.RecordBatch]:
    return [pa.record_batch([pa.array(ids, pa.int64())], schema=SCHEMA)]


def written(dataset: Dataset, *ids: int) -> File:
    file = dataset.write(rows(*ids), 0)
    assert file is not None
    return file


def read(dataset: Dataset) -> list[int]:
    files = dataset.state().files
    return [
        one for file in files for part in dataset.read(file.path, SCHEMA) for one in part["id"].to_pylist()
    ]


def on_disk(folder: Path) -> set[str]:
    return {f"_files/{file.name}" for file in (folder / "_files").iterdir()}


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return Dataset(str(tmp_path))


@pytest.fixture
def stub() -> Iterator[FaultStub]:
    with FaultStub() as running:
        yield running


def at(stub: FaultStub, **options: Any) -> Dataset:
    said = {**stub.storage_options("s3"), "arbiter": "native", "deadline": 1, **options}
    return Dataset("s3a://bucket/d", said)


# --- one writer


def test_files_are_readable_when_a_record_names_them(dataset: Dataset) -> None:
    file = written(dataset, 1, 2)
    assert read(dataset) == []
    assert dataset.commit(append(file)) == 1
    assert read(dataset) == [1, 2]


def test_a_dataset_that_was_removed_and_made_again_is_read_anew(dataset: Dataset) -> None:
    for number in range(3):
        dataset.commit(append(written(dataset, number)))
    assert read(dataset) == [0, 1, 2]
    dataset.fs.rm(dataset.root, recursive=True)
    assert read(dataset) == []
    again = Dataset(dataset.root)
    again.commit(append(written(again, 7)))
    assert read(dataset) == [7]
    assert dataset.commit(append(written(dataset, 8))) == 2


def test_a_file_s_rows_and_bytes_are_told(dataset: Dataset, tmp_path: Path) -> None:
    file = written(dataset, 1, 2)
    assert (file.rows, file.size) == (2, (tmp_path / file.path).stat().st_size)


def test_no_rows_leave_no_file(dataset: Dataset, tmp_path: Path) -> None:
    assert dataset.write(rows(), 0) is None
    assert list(tmp_path.iterdir()) == []


def test_a_task_that_fails_leaves_no_file(dataset: Dataset, tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from rows(1)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        dataset.write(failing(), 0)
    assert on_disk(tmp_path) == set()


def test_columns_are_read_by_name(dataset: Dataset) -> None:
    both = pa.record_batch({"id": [1], "word": ["a"]})
    file = dataset.write([both], 0)
    assert file is not None
    wanted = pa.schema([("word", pa.string()), ("id", pa.int64())])
    assert [part.to_pylist() for part in dataset.read(file.path, wanted)] == [[{"word": "a", "id": 1}]]
    assert [part.to_pylist() for part in dataset.read(file.path, SCHEMA)] == [[{"id": 1}]]


@pytest.mark.parametrize("spelt", ["{}", "file:{}", "file://{}", "piafile://{}"])
def test_an_address_may_be_spelt_as_hadoop_does(tmp_path: Path, spelt: str) -> None:
    one = Dataset(spelt.format(tmp_path))
    one.commit(append(written(one, 1)))
    assert read(Dataset(str(tmp_path))) == [1]


@pytest.mark.parametrize("url", ["here", "file:here", "./here", "file://here/d"])
def test_a_relative_path_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="must be absolute"):
        Dataset(url)


@pytest.mark.parametrize("name", ["d[1]", "d*", "d?"])
def test_a_folder_s_name_is_no_pattern(tmp_path: Path, name: str) -> None:
    for folder in (name, "d1"):
        for number in range(2):
            dataset = Dataset(str(tmp_path / folder))
            dataset.commit(append(written(dataset, len(folder) + number)))
    assert read(Dataset(str(tmp_path / name))) == [len(name), len(name) + 1]


def test_what_is_refused_leaves_no_files(dataset: Dataset, tmp_path: Path) -> None:
    kept = written(dataset, 1)
    dataset.commit(append(kept, name="daily"))
    with pytest.raises(NameTaken):
        dataset.commit(append(written(dataset, 2), name="daily"))
    assert on_disk(tmp_path) == {kept.path}
    assert read(dataset) == [1]


def test_a_batch_that_is_replayed_adds_nothing_and_leaves_no_files(dataset: Dataset, tmp_path: Path) -> None:
    kept = written(dataset, 1)
    dataset.commit(batch(kept, number=0))
    assert Dataset(str(tmp_path)).commit(batch(written(dataset, 1), number=0)) is None
    assert on_disk(tmp_path) == {kept.path}


def test_a_batch_that_is_offered_twice_keeps_its_files(dataset: Dataset, tmp_path: Path) -> None:
    offer = batch(written(dataset, 1), number=0)
    dataset.commit(offer)
    assert dataset.commit(offer) is None
    assert read(Dataset(str(tmp_path))) == [1]


def test_an_overwrite_removes_no_files(dataset: Dataset) -> None:
    first = written(dataset, 1)
    dataset.commit(append(first))
    assert dataset.state().last == 1
    dataset.commit(overwrite(written(dataset, 2), seen=1), seen=dataset.seen)
    assert read(dataset) == [2]
    assert [part.to_pylist() for part in dataset.read(first.path, SCHEMA)] == [[{"id": 1}]]


@pytest.mark.parametrize("sets", [0, 2])
@pytest.mark.parametrize("offers", [append, partial(batch, number=0)], ids=["the first set", "a stream's"])
def test_what_was_written_before_a_removal_is_not_committed_though_no_record_was_seen(
    dataset: Dataset, tmp_path: Path, offers: Callable[[File], Offer], sets: int
) -> None:
    offer = offers(written(dataset, 2))
    dataset.fs.rm(dataset.root, recursive=True)
    again = Dataset(str(tmp_path))
    for number in range(sets):
        again.commit(append(written(again, number)))
    with pytest.raises(Fenced, match="was removed since"):
        Dataset(str(tmp_path)).commit(offer)
    assert read(again) == list(range(sets))


@pytest.mark.parametrize("sets", [0, 1, 2])
def test_what_was_written_to_a_dataset_that_was_removed_is_not_committed(
    dataset: Dataset, tmp_path: Path, sets: int
) -> None:
    dataset.commit(append(written(dataset, 1)))
    assert read(dataset) == [1]
    offer, seen = append(written(dataset, 2)), dataset.seen
    dataset.fs.rm(dataset.root, recursive=True)
    again = Dataset(str(tmp_path))
    for number in range(sets):
        again.commit(append(written(again, number)))
    with pytest.raises(Fenced, match="was removed, or made again"):
        Dataset(str(tmp_path)).commit(offer, seen=seen)
    assert read(again) == list(range(sets))


def test_a_long_history_is_not_read(dataset: Dataset, tmp_path: Path) -> None:
    file = written(dataset, 1)
    for number in range(2 * CARRY + 1):
        dataset.commit(append(*[file][: number == 0], name=f"set {number}"))
    for record in sorted((tmp_path / "_sets").glob("*.json"))[: 2 * CARRY - 1]:
        record.unlink()
    fresh = Dataset(str(tmp_path))
    assert read(fresh) == [1]
    with pytest.raises(NameTaken):
        fresh.commit(append(name="set 0"))


def test_a_record_that_somebody_removed_is_missed(dataset: Dataset, tmp_path: Path) -> None:
    for _ in range(3):
        dataset.commit(append())
    next((tmp_path / "_sets").glob("*2.json")).unlink()
    with pytest.raises(FileNotFoundError):
        Dataset(str(tmp_path)).state()


# --- many writers


@pytest.mark.parametrize("arbiter", ["native", "ballot"])
def test_all_that_many_commit_is_kept_once(tmp_path: Path, arbiter: str) -> None:
    start = threading.Barrier(4)

    def commit(writer: int) -> list[int | None]:
        mine = Dataset(str(tmp_path), {"arbiter": arbiter})
        start.wait()
        return [mine.commit(append(written(mine, 10 * writer + turn))) for turn in range(3)]

    with ThreadPoolExecutor(4) as pool:
        numbers = [number for found in pool.map(commit, range(4)) for number in found]
    assert sorted(filter(None, numbers)) == list(range(1, 13))
    assert sorted(read(Dataset(str(tmp_path), {"arbiter": arbiter}))) == sorted(
        10 * writer + turn for writer in range(4) for turn in range(3)
    )


def test_what_another_process_commits_is_seen(stub: FaultStub) -> None:
    mine, other = at(stub), at(stub, default_block_size=2**23)  # a client of its own, as in another process
    mine.commit(append(written(mine, 1)))
    assert read(mine) == [1]
    other.commit(append(written(other, 2)))
    assert read(mine) == [1, 2]


def test_of_many_that_want_one_name_one_has_it(tmp_path: Path) -> None:
    start = threading.Barrier(4)

    def commit(writer: int) -> bool:
        mine = Dataset(str(tmp_path))
        file = written(mine, writer)
        start.wait()
        try:
            mine.commit(append(file, name="daily"))
        except NameTaken:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(commit, range(4)))
    assert sum(won) == 1
    assert read(Dataset(str(tmp_path))) == [won.index(True)]
    assert len(on_disk(tmp_path)) == 1


def test_who_never_gets_a_turn_gives_up_and_leaves_no_files(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def always_taken(path: str, value: bytes, mode: str) -> None:
        raise NameTaken(path)

    monkeypatch.setattr(dataset.fs, "pipe_file", always_taken)
    with pytest.raises(Fenced, match="100 times in the meantime"):
        dataset.commit(append(written(dataset, 1)))
    assert on_disk(tmp_path) == set()


# --- lost answers


def test_a_commit_whose_answer_is_lost_is_committed_once(stub: FaultStub) -> None:
    dataset = at(stub)
    file = written(dataset, 1)
    stub.script(Op.PUT, Fault.DROP_AFTER_APPLY)
    assert dataset.commit(append(file)) == 1
    assert read(at(stub)) == [1]


def test_a_commit_that_is_settled_after_the_deadline_is_committed(stub: FaultStub) -> None:
    dataset = at(stub)
    file = written(dataset, 1)
    stub.script(Op.PUT, Fault.DROP_AFTER_APPLY, Fault.DROP_BEFORE_APPLY, forever=True)
    assert dataset.commit(append(file)) == 1
    assert read(at(stub)) == [1]


@pytest.mark.parametrize("first", [Fault.DROP_AFTER_APPLY, Fault.DROP_BEFORE_APPLY])
def test_a_commit_that_may_have_happened_removes_nothing(stub: FaultStub, first: Fault) -> None:
    dataset = at(stub)
    file = written(dataset, 1)
    stub.script(Op.PUT, first, Fault.DROP_BEFORE_APPLY, forever=True)
    stub.script(Op.HEAD, Fault.FORBIDDEN_403, forever=True)
    with pytest.raises(OutcomeUnknown, match="Delete nothing"):
        dataset.commit(append(file))
    assert ("bucket", f"d/{file.path}") in stub.objects


def test_options_go_to_the_filesystem(stub: FaultStub) -> None:
    said: dict[str, Any] = {
        **stub.storage_options("s3"),
        "arbiter": "native",
        "guard": "mine-*",
        "writer": "w",
    }
    dataset = Dataset("s3://bucket/d", said)
    assert dataset.fs.writer == "w"
    assert dataset.fs.explain("bucket/d/mine-1").guarded
    assert dataset.fs.explain("bucket/d/_sets/00000000000000000001.json").guarded
    assert not dataset.fs.explain("bucket/d/_files/part-00000.parquet").guarded
