"""What the bench says of many writers is what they said; and no commit to its Hadoop table is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from bench.slot_iceberg import HadoopTable
from bench.slot_writers import Commit, Found
from bench.slots import MARK, PAGE, PLOT, Figures, figures, rows

if TYPE_CHECKING:
    from pathlib import Path

GIVEN_UP = Commit(3.0, 9.0, 5, "", "CommitFailedException: the table has changed since version 7")


def test_a_rate_counts_what_was_acknowledged_in_time_and_the_rest_all() -> None:
    commits = [Commit(0.0, 1.0, 1, "a"), Commit(1.0, 3.0, 2, "b"), Commit(3.0, 8.0, 1, "c"), GIVEN_UP]
    assert figures(Found(commits, ["c"]), 4.0, 27) == Figures(
        rate=0.5,
        tries=3.0,
        median=2.0,
        p99=5.0,
        acknowledged=3,
        gave_up=1,
        lost=1,
        requests=9.0,
        errors=["CommitFailedException"],
    )


def test_where_all_give_up_there_is_no_time_of_a_commit() -> None:
    found = figures(Found([GIVEN_UP], []), 4.0, 27)
    assert (found.rate, found.median, found.p99, found.gave_up) == (0.0, None, None, 1)


def test_the_page_s_table_has_both_ways_in_a_cell_and_its_place_in_the_page() -> None:
    plain = figures(Found([Commit(0.0, 1.0, 1, "a"), GIVEN_UP], []), 4.0, 27)._asdict()
    slots = figures(Found([Commit(0.0, 1.0, 1, "a")] * 8, []), 4.0, 27)._asdict()
    found = [
        {"format": "iceberg", "writers": 32, "delay_ms": 20, "slots": False, **plain},
        {"format": "iceberg", "writers": 32, "delay_ms": 20, "slots": True, **slots},
    ]
    assert rows(found, 20).splitlines()[2:] == ["| Iceberg | 0.2/2.0 | 50/0 |"]
    assert MARK.search(PAGE.read_text())
    assert PLOT.exists()


def test_a_writer_of_a_hadoop_table_that_lost_a_version_takes_the_next(tmp_path: Path) -> None:
    properties = {"py-io-impl": "putifabsent.iceberg.GuardedFileIO"}
    first, second = (HadoopTable(properties, f"file://{tmp_path}/t") for _ in range(2))
    first.make(Schema(NestedField(1, "id", LongType(), required=False)))
    loaded = [each.load_table("") for each in (first, second)]
    for row, table in enumerate(loaded):
        table.append(pa.table({"id": [row]}))
    assert (first.tries, second.tries) == (1, 2)
    assert sorted(first.load_table("").scan().to_arrow()["id"].to_pylist()) == [0, 1]
    assert (tmp_path / "t/metadata/version-hint.text").read_text() == "3"
