"""Instants that can't be read: reported, each for itself, and never taken for something else."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import fastavro
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from putifabsent.timeline import HistoryFile, Problems, Timeline, Trouble, read
from putifabsent.timeline.files import records_of
from putifabsent.timeline.hudi_history import timed
from tests.timeline.tables import METADATA, Hudi, avro

if TYPE_CHECKING:
    from pathlib import Path

    from tests.timeline.conftest import Place

T1, T2 = "20260101120000001", "20260101120000002"
C1, C2 = "20260101120100001", "20260101120100002"
WHOLE = avro("upsert")
# The last 16 bytes stand before each block of records: this is the only one once more.
TWICE = WHOLE + WHOLE[WHOLE.index(WHOLE[-16:]) + 16 :]


@pytest.mark.parametrize(
    "torn",
    [
        WHOLE[:-1],
        WHOLE[: len(WHOLE) // 2],
        WHOLE[:5],
        WHOLE[:-20] + b"\0" * 20,
        WHOLE.replace(b'"name"', b'"namf"'),
        b'{"operationType": ',
        b"[1]",
        b"\0",
        TWICE,
    ],
    ids=[
        "last byte",
        "half",
        "sign alone",
        "no end",
        "schema",
        "JSON",
        "no object",
        "nothing known",
        "two records",
    ],
)
@pytest.mark.parametrize("version", [6, 9])
def test_a_torn_instant_is_a_problem_and_the_others_are_read(
    memory: Place, torn: bytes, version: int
) -> None:
    table = Hudi(memory.fs, memory.root, version)
    names = {6: (f"{T1}.commit", f"{T2}.commit"), 9: (f"{T1}_{C1}.commit", f"{T2}_{C2}.commit")}[version]
    path = table.put(names[0], torn)
    table.put(names[1], WHOLE)
    timeline: Timeline[object] = read(table.root, fs=table.fs)  # type: ignore[type-var]
    instants = list(timeline.active())
    problems: Problems = []
    details = [timeline.details(each, problems).metadata for each in instants]
    assert [each is None for each in details] == [True, False]
    assert [(each.path, each.trouble) for each in problems] == [(path, Trouble.UNREADABLE)]
    with pytest.raises(OSError, match="torn") as raised:
        timeline.details(instants[0])
    assert raised.value.filename == path


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
@pytest.mark.parametrize("where", ["schema", "records"])
def test_torn_records_are_a_value_error_however_they_are_packed(codec: str, where: str) -> None:
    file = io.BytesIO()
    said = [{"operationType": f"upsert {number}"} for number in range(100)]
    fastavro.writer(file, fastavro.parse_schema(METADATA), said, codec=codec)
    whole = file.getvalue()
    assert records_of(whole) == said
    torn = whole.replace(b'"name"', b'"namf"') if where == "schema" else whole[:-60] + b"\xff" * 60
    with pytest.raises(ValueError, match="it is torn"):
        records_of(torn)


def test_a_torn_instant_keeps_its_place(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.put(f"{T1}_{C1}.commit", b"\0")
    table.put(f"{T2}_{C2}.commit", WHOLE)
    assert [each.time for each in read(table.root, fs=table.fs).active()] == [T1, T2]


def test_a_completed_instant_without_bytes_is_a_problem(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.put(f"{T1}.commit.requested")
    table.put(f"{T1}_{C1}.commit")
    timeline = read(table.root, fs=table.fs)
    (instant,) = timeline.active()
    problems: Problems = []
    assert timeline.details(instant, problems) == (None, None)
    assert [each.trouble for each in problems] == [Trouble.EMPTY]


def test_an_instant_that_is_archived_meanwhile_is_a_problem_of_its_details(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    path = table.put(f"{T1}_{C1}.commit", WHOLE)
    timeline = read(table.root, fs=table.fs)
    (instant,) = timeline.active()
    place.fs.rm_file(path)
    with pytest.raises(FileNotFoundError, match="archived"):
        timeline.details(instant)


def test_a_problem_is_reported_once(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.put(f"{T1}_{C1}.commit", b"\0")
    timeline = read(table.root, fs=table.fs)
    (instant,) = timeline.active()
    problems: Problems = []
    timeline.details(instant, problems)
    timeline.details(instant, problems)
    assert len(problems) == 1


def test_a_history_file_that_is_torn_behind_what_can_be_read_keeps_the_times_of_its_name(
    tmp_path: Path,
) -> None:
    """Else whoever reads the instants of its end never meets it, and hears nothing."""
    path, size = tmp_path / "history.parquet", 70_000
    times = pa.array(f"{number:017}" for number in range(2 * size))
    pq.write_table(pa.table({"instantTime": times}), path, row_group_size=size, use_dictionary=False)
    column = pq.read_metadata(path).row_group(1).column(0)
    with path.open("r+b") as file:
        file.seek(column.data_page_offset)
        file.write(b"\xff" * column.total_compressed_size)
    known = HistoryFile(str(path), path.stat().st_size, T1, T2, 0)
    assert timed(fsspec.filesystem("file"), [known]) == [known]
