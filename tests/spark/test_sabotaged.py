"""Unmodified writers on the JVM whose commits go wrong: nothing of that is published, and they go on.

In a longer run each goes wrong without the guard as well, to see what the format's own reader makes of that.
"""

from __future__ import annotations

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from putifabsent.inspection import inspect
from tests.child import CallError
from tests.spark.drivers import JARS, JAVA, ROOT, SHORT, Driver, driving, told_on
from tests.spark.writers import THERE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Note
    from tests.servers import BucketServer

pytestmark = [pytest.mark.spark, pytest.mark.formats, pytest.mark.timeout(1200)]

# As their writers begin to write them: some under another name first, which they rename.
COMMITS = {
    "delta": r"\d{20}\.json",
    "iceberg": r"v\d+\.metadata\.json|[0-9a-f-]{36}\.metadata\.json",
    "paimon": r"\.?snapshot-\d+.*",
    "hudi": r"\d+_\d+\.commit",
}
ROOTS = {"delta": "{}", "iceberg": "iceberg/db/{}", "paimon": "paimon/db.db/{}", "hudi": "{}"}
# In a short run those whose stock writers publish half a commit; test_hurt.py has all formats.
FORMS = [form for form in (["hudi"] if SHORT else COMMITS) if form in THERE]
HURT = {("hudi", "half"), ("hudi", "empty")} | {(form, "gone") for form in FORMS}
"""What stock writers publish all the same: others don't close a stream that failed, or don't rename."""
WRITERS = ("guarded",) if SHORT else ("guarded", "stock")
LOST = {"delta"}
"""Stock writers who write over another's commit, where both have found its name free."""


@pytest.fixture(scope="module")
def writers(
    store: BucketServer, bucket: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Driver]]:
    """Start a guarded driver, and a stock one beside it, in each of which something may go wrong."""
    folder = tmp_path_factory.mktemp("saboteur")
    source = ROOT / "tests" / "spark" / "java" / "Saboteur.java"
    paths = os.pathsep.join(str(each) for each in (*JARS.glob("*.jar"), *hadoop()))
    subprocess.run([JAVA / "javac", "-cp", paths, "-d", folder / "classes", source], check=True)
    jar = folder / "saboteur.jar"
    subprocess.run([JAVA / "jar", "cf", jar, "-C", folder / "classes", "."], check=True)
    told = [told_on(store, bucket, guarded=who == "guarded") for who in WRITERS]
    told = [
        each._replace(settings={**each.settings, "spark.jars": f"{each.settings['spark.jars']},{jar}"})
        for each in told
    ]
    with driving([each.strictly() for each in told], folder) as drivers:
        for each in drivers:
            # Before anything is written: Hudi's own wrapper keeps what it has wrapped.
            each.call("sabotage", how=None, commits="")
        yield dict(zip(WRITERS, drivers, strict=True))


def hadoop() -> Iterator[Path]:
    import pyspark

    yield from (ROOT / pyspark.__path__[0] / "jars").glob("hadoop-client-api-*.jar")


def rows(reader: Driver, form: str, table: str) -> list[tuple[str, int]] | str:
    try:
        return sorted(map(tuple, reader.call("rows", form=form, table=table)))
    except CallError as error:
        return f"fails: {error.reason}"


@pytest.mark.parametrize("how", ["half"] if SHORT else ["half", "empty", "gone"])
@pytest.mark.parametrize("form", FORMS)
def test_a_writer_s_commit_that_goes_wrong_is_refused_and_the_next_one_is_not(
    form: str,
    how: str,
    writers: dict[str, Driver],
    reader: Driver,
    store: BucketServer,
    bucket: str,
    note: Note,
) -> None:
    for who, driver in writers.items():
        table = f"{who}_{how}_{form}"
        driver.call("make", form=form, table=table)
        driver.call("append", form=form, table=table, who="a", n=0)
        driver.call("sabotage", how=how, commits=COMMITS[form])
        told = "acknowledged"
        try:
            driver.call("append", form=form, table=table, who="a", n=1)
        except CallError as error:
            told = error.reason
        driver.call("sabotage", how=None, commits="")
        found = rows(reader, form, table)
        root = f"s3://{bucket}/{ROOTS[form].format(table)}"
        damage = [each.kind.value for each in inspect(root, **store.storage_options).damage]
        note(f"{who}: {told}, then a reader {found}, and inspection finds {damage}")
        assert bool(damage) is (who == "stock" and (form, how) in HURT)
        if who == "guarded":
            assert told != "acknowledged"
            assert found == [("a", 0)]
            driver.call("append", form=form, table=table, who="a", n=2)
            assert rows(reader, form, table) == [("a", 0), ("a", 2)]


LATE = {
    "delta": r"\d{20}\.json",
    "iceberg": r"v\d+\.metadata\.json",
    "paimon": r"snapshot-\d+",
}
"""Hudi's writers have the table's lock by then."""


@pytest.mark.parametrize("form", LOST if SHORT else [form for form in LATE if form in THERE])
def test_a_writer_whose_base_was_replaced_before_its_commit_loses_nobody_s_rows(
    form: str,
    writers: dict[str, Driver],
    pair: list[Driver],
    reader: Driver,
    tmp_path: Path,
    note: Note,
) -> None:
    others = {"guarded": pair[0], "stock": reader}
    for who, driver in writers.items():
        other, table, flag = others[who], f"{who}_late_{form}", tmp_path / who
        driver.call("make", form=form, table=table)
        driver.call("append", form=form, table=table, who="a", n=0)
        driver.call("sabotage", how="late", commits=LATE[form], flag=str(flag))
        acknowledged = [("a", 0), ("b", 0)]
        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(driver.call, "append", form=form, table=table, who="a", n=1)
            while not flag.exists() and not late.done():
                time.sleep(0.05)
            other.call("append", form=form, table=table, who="b", n=0)
            flag.unlink()
        if (error := late.exception()) is None:
            acknowledged.insert(1, ("a", 1))
        driver.call("sabotage", how=None, commits="")
        found = rows(reader, form, table)
        note(f"{who}: {error.reason if isinstance(error, CallError) else 'acknowledged'}, then {found}")
        assert (found == acknowledged) is (who == "guarded" or form not in LOST)
