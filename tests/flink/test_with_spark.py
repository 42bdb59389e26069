"""A job of Flink's and two drivers of Spark's, none of them modified, commit to one table at once."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from putifabsent.inspection import inspect
from tests.child import CallError
from tests.fault_proxy import HELD
from tests.faults.failover import until
from tests.flink.cluster import GUARDED, ROOT
from tests.flink.programs import FORMATS, Feed
from tests.flink.tables import befalling, table_of
from tests.service.callers import SECRET
from tests.spark.drivers import LONG, Driver, driving, told_on
from tests.spark.writers import FORMATS as OF_SPARK

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Note
    from tests.fault_proxy import FaultProxy
    from tests.flink.cluster import Cluster
    from tests.flink.programs import Program
    from tests.servers import BucketServer

    Row = tuple[str, int]

pytestmark = [pytest.mark.flink, pytest.mark.timeout(600), LONG]

SPARK = str(ROOT / ".venv-spark35" / "bin" / "python")
COMMITS, AT_ONCE = 5, 20


@pytest.mark.parametrize("name", FORMATS)
def test_a_job_of_flinks_and_two_drivers_of_sparks_lose_and_double_nothing(
    name: str,
    program: Program,
    cluster: Cluster,
    proxies: list[FaultProxy],
    store: BucketServer,
    bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    note: Note,
) -> None:
    monkeypatch.setenv("PUTIFABSENT_SERVICE_SECRET", SECRET)
    table = table_of(name, program, GUARDED[0], bucket)
    above = table.warehouse.removeprefix(f"{GUARDED[0]}://").rpartition("/")[0]
    services = ",".join(each.endpoint for each in proxies)
    # What is held up has not failed before the last of them is there.
    patience = {"spark.hadoop.fs.putifabsent.deadline": "300s"}
    told = told_on(store, above, guarded=True, **patience)._replace(mount={"service": services})
    with driving([told, told], tmp_path, SPARK) as drivers:
        feed = Feed(tmp_path / "feed")
        feed.folder.mkdir()
        job = table.form.streamed(program, table.warehouse, "flink", feed.source)
        cluster.wait_for_checkpoints(job, 1)

        def append(number: int, driver: Driver) -> tuple[list[Row], list[CallError]]:
            """Append rows, and give the job some for each; return what was acknowledged, and the errors."""
            acknowledged, refused = [], []
            for n in range(COMMITS):
                first = (number * COMMITS + n) * AT_ONCE
                feed.pour(range(first, first + AT_ONCE))
                try:
                    # Paimon 0.9 casts nothing.
                    insert = f"insert into {name}.db.t values ('spark{number}', cast({n} as bigint))"  # noqa: S608 - our own
                    driver.call("sql", query=insert)
                    acknowledged.append((f"spark{number}", n))
                except CallError as error:
                    refused.append(error)
            return acknowledged, refused

        with ThreadPoolExecutor() as pool, befalling(proxies, HELD) as wait:
            appending = [pool.submit(append, number, driver) for number, driver in enumerate(drivers)]
            wait(1 + len(drivers))
        appended = [each.result() for each in appending]
    acknowledged = Counter(row for rows, _ in appended for row in rows)
    expected = acknowledged + Counter(("flink", n) for n in range(len(appended) * COMMITS * AT_ONCE))
    until(lambda: table.total(store) >= len(expected), 120, "the job has not committed all of its rows")
    cluster.cancel(job)
    refused = [error for _, errors in appended for error in errors]
    note(f"{len(acknowledged)} of Spark's commits acknowledged, {len(refused)} refused")
    own = OF_SPARK[name].conflicts
    assert [error for error in refused if not any(each in error.message for each in own)] == []
    assert all(rows for rows, _ in appended)
    rows = table.form.read(program, table.warehouse)
    assert {row: rows[row] for row in expected} == expected
    assert max(rows.values()) == 1
    assert inspect(table.url, **store.storage_options).damage == []
