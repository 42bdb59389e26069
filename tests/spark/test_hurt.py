"""Commits of real writers, spoilt before they are created: refused through a mount, in Python and on the JVM.

Each is created round the guard as well, to see what the format's own reader makes of it. And commits to one
bucket of Paimon's that cross: acknowledged and lost, or refused and made anew.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import fsspec
import pytest

from putifabsent.errors import Damaging
from putifabsent.inspection import inspect
from tests.child import CallError
from tests.fault_proxy import Fault, FaultProxy
from tests.spark.drivers import SHORT, Driver, told_on
from tests.spark.writers import THERE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Note
    from tests.servers import BucketServer

pytestmark = [pytest.mark.spark, pytest.mark.formats, pytest.mark.timeout(600)]

EXTENSION = "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions"
ROWS = [("a", 0), ("a", 1), ("a", 2)]
COMMITS = {
    "delta": r"hurt_delta/_delta_log/(?P<n>\d+)\.json",
    "iceberg": r"iceberg/db/hurt_iceberg/metadata/v(?P<n>\d+)\.metadata\.json",
    "paimon": r"paimon/db\.db/hurt_paimon/snapshot/snapshot-(?P<n>\d+)",
    "hudi": r"hurt_hudi/\.hoodie/timeline/(?P<n>\d+)_\d+\.commit",
}
ROOTS = {
    "delta": "hurt_delta",
    "iceberg": "iceberg/db/hurt_iceberg",
    "paimon": "paimon/db.db/hurt_paimon",
    "hudi": "hurt_hudi",
}
DATA = re.compile(r".*/hurt_[a-z]+/([^.]*/)?[^/.][^/]*\.parquet")


class Commit(NamedTuple):
    """What is to be created, and a file that is gone by then."""

    name: str
    body: bytes
    gone: str = ""


class Table:
    """A table of a real writer's, and its newest commit, before which there were some files."""

    def __init__(self, form: str, bucket: str, fs: Any, before: set[str]) -> None:
        self.form = form
        there = fs.find(bucket)
        found = {path: re.fullmatch(f"{bucket}/{COMMITS[form]}", path) for path in there}
        numbers = {path: int(match["n"]) for path, match in found.items() if match is not None}
        self.name = max(numbers, key=lambda path: numbers[path])
        self.number = numbers[self.name]
        self.body: bytes = fs.cat_file(self.name)
        (self.data,) = (each for each in {*there} - before if DATA.fullmatch(each))


def half(table: Table) -> Commit:
    return Commit(table.name, table.body[: len(table.body) // 2])


def empty(table: Table) -> Commit:
    return Commit(table.name, b"")


def without_its_data(table: Table) -> Commit:
    return Commit(table.name, table.body, table.data)


def again(table: Table) -> Commit:
    """Commit once more what was committed, under the next name, as if nothing had been since."""
    name = re.sub(f"{table.number}(?=[._]|$)", str(table.number + 1), table.name)
    body = table.body
    if table.form == "paimon":
        body = json.dumps({**json.loads(body), "id": table.number + 1}).encode()
    return Commit(name, body)


SPOILT: dict[str, tuple[Callable[[Table], Commit], ...]] = {
    # Actions of Delta's that add again what is there do no harm.
    "delta": (half, empty, without_its_data),
    "iceberg": (half, empty, again, without_its_data),
    "paimon": (half, empty, again, without_its_data),
    "hudi": (half, empty, without_its_data),
}


@contextmanager
def spoilt(fs: Any, commit: Commit, newest: Table) -> Iterator[None]:
    """Take away what is gone, and the newest commit if that is to be created; put all of it back."""
    kept = {path: fs.cat_file(path) for path in {newest.name, *([commit.gone] if commit.gone else [])}}
    for path in kept if commit.name == newest.name else ():
        fs.rm_file(path)
    yield
    if fs.exists(commit.name):
        fs.rm_file(commit.name)
    fs.pipe(kept)


@pytest.mark.parametrize("form", [form for form in SPOILT if form in THERE])
def test_a_spoilt_commit_is_created_by_nobody_who_is_guarded(
    form: str,
    pair: list[Driver],
    reader: Driver,
    store: BucketServer,
    bucket: str,
    request: pytest.FixtureRequest,
    note: Note,
) -> None:
    options = {**store.storage_options, "use_listings_cache": False}
    fs = fsspec.filesystem("s3", **options)
    guarded = fsspec.filesystem("pias3", arbiter="native", inspect="commits", **options)
    pair[0].call("make", form=form, table=f"hurt_{form}")
    before: set[str] = set()
    for who, n in ROWS:
        before = set(fs.find(bucket))
        pair[0].call("append", form=form, table=f"hurt_{form}", who=who, n=n)
    newest = Table(form, bucket, fs, before)
    for spoil in SPOILT[form]:
        commit = spoil(newest)
        with spoilt(fs, commit, newest):
            with pytest.raises(Damaging) as caught:
                guarded.pipe_file(commit.name, commit.body)
            body = b64encode(commit.body).decode()
            with pytest.raises(CallError, match="would damage its table, and was not created"):
                pair[1].call("create", path=f"s3a://{commit.name}", body=body)
            assert not fs.exists(commit.name)
            fs.pipe_file(commit.name, commit.body)
            says = stock(reader, form)
            note(f"{form}, {spoil.__name__}: {caught.value.reason}. A stock reader {says}")
            # Of a commit that is there twice a reader may make one; Hudi's go by its metadata table.
            assert form == "hudi" or spoil is again or says != "reads what was acknowledged"
            if spoil is without_its_data:
                driver = request.getfixturevalue("paimon_admin") if form == "paimon" else reader
                mend(driver, form, f"s3://{bucket}/{ROOTS[form]}", store.storage_options)
                assert stock(reader, form) == f"reads {ROWS[:-1]}"
                return


@pytest.fixture(scope="module")
def paimon_admin(
    store: BucketServer, bucket: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    """Start a driver that knows Paimon's procedures: its extension takes those of others away."""
    told = told_on(store, bucket, guarded=False, **{"spark.sql.extensions": EXTENSION})
    with Driver(told, tmp_path_factory.mktemp("admin") / "log") as driver:
        yield driver.wait()


def mend(driver: Driver, form: str, url: str, options: Any) -> None:
    """Run what an inspection says that mends a table."""
    if form == "hudi":
        driver.call("sql", query=f"create table hurt_hudi using hudi location '{url.replace('s3:', 's3a:')}'")
    known = {"<catalog>": form, "<database>.<table>": f"db.hurt_{form}", "<table>": f"hurt_{form}"}
    finding, *_ = inspect(url, **options).damage
    assert finding.commands
    for command in finding.commands:
        for name, meant in known.items():
            command = command.replace(name, meant)  # noqa: PLW2901
        driver.call("sql", query=command)
    assert inspect(url, **options).damage == []


def stock(reader: Driver, form: str) -> str:
    """Return what a stock reader makes of a table."""
    try:
        rows = sorted(map(tuple, reader.call("rows", form=form, table=f"hurt_{form}")))
    except CallError as error:
        return f"fails: {error.reason[:120]}"
    return "reads what was acknowledged" if rows == ROWS else f"reads {rows}"


# What real writers hear


NOT_THERE = Fault(applies=False, says=b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")


@pytest.fixture(scope="module")
def liar(store: BucketServer) -> Iterator[FaultProxy]:
    """Run a store that may say of data files that they are not there."""
    with FaultProxy(store.endpoint, speech="files", share=0) as proxy:
        proxy.always(NOT_THERE, "HEAD .parquet")
        yield proxy


@pytest.fixture(scope="module")
def lied_to(
    liar: FaultProxy, store: BucketServer, bucket: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    """Start a driver whose commits are looked at through that store, and written to the real one."""
    told = told_on(store, bucket, guarded=True).strictly()
    told = told._replace(mount={**(told.mount or {}), "endpoint_url": liar.endpoint})
    with Driver(told, tmp_path_factory.mktemp("lied_to") / "log") as driver:
        yield driver.wait()


@pytest.mark.parametrize("form", ["hudi"] if SHORT else [form for form in SPOILT if form in THERE])
def test_a_writer_hears_that_its_commit_is_refused_and_goes_on(
    form: str, lied_to: Driver, liar: FaultProxy, reader: Driver, note: Note
) -> None:
    table = f"told_{form}"
    lied_to.call("make", form=form, table=table)
    lied_to.call("append", form=form, table=table, who="a", n=0)
    liar.share = 1
    with pytest.raises(CallError) as caught:
        lied_to.call("append", form=form, table=table, who="a", n=1)
    liar.share = 0
    note(f"{form}: {caught.value.reason}: {caught.value.message[:300]}")
    assert [tuple(row) for row in reader.call("rows", form=form, table=table)] == [("a", 0)]
    lied_to.call("append", form=form, table=table, who="a", n=2)
    assert sorted(map(tuple, reader.call("rows", form=form, table=table))) == [("a", 0), ("a", 2)]


# Paimon: several writers of one bucket


class Crossing(NamedTuple):
    """Two commits that know nothing of each other.

    Attributes
    ----------
    first, mine, others
        Rows, and whether the bucket is compacted: fully, or what is newest.
    """

    options: str
    first: tuple[list[tuple[int, str]], bool | None]
    mine: tuple[list[tuple[int, str]], bool | None]
    others: tuple[list[tuple[int, str]], bool | None]


VECTORS = "'deletion-vectors.enabled'='true'"
SIX = [(n, "first") for n in range(6)]
CROSSINGS = {
    "updates": Crossing(
        "'write-only'='true'",
        ([(1, "first")], None),
        ([(2, "mine"), (3, "mine"), (1, "mine")], None),
        ([(1, "other's")], None),
    ),
    "two_compactions": Crossing(VECTORS, (SIX, True), ([(1, "mine")], False), ([(2, "other's")], False)),
    "a_full_compaction": Crossing(VECTORS, (SIX, True), ([(5, "mine")], True), ([(2, "other's")], False)),
}


@pytest.mark.skipif("paimon" not in THERE, reason="there is no Paimon for this PySpark")
@pytest.mark.parametrize("what", ["two_compactions"] if SHORT else CROSSINGS)
def test_commits_to_one_bucket_that_cross_lose_rows_or_are_refused(
    what: str,
    pair: list[Driver],
    reader: Driver,
    paimon_admin: Driver,
    store: BucketServer,
    bucket: str,
    note: Note,
) -> None:
    crossing = CROSSINGS[what]
    expected = {n: word for rows, _ in crossing[1:] for n, word in rows}
    for driver, table in ((reader, f"stock_{what}"), (pair[0], f"guarded_{what}")):
        driver.call("sql", query="create database if not exists paimon.db")
        said = f"'primary-key'='id', 'bucket'='1', {crossing.options}"
        driver.call(
            "sql", query=f"create table paimon.db.{table} (id int, word string) tblproperties ({said})"
        )

        def written(key: str, driver: Driver = driver, table: str = table) -> None:
            rows, compact = getattr(crossing, key)
            driver.call("paimon_writes", table=table, key=key, rows=rows, compact=compact)

        written("first")
        driver.call("paimon_commits", key="first")
        written("mine")
        written("others")
        driver.call("paimon_commits", key="mine")
        if driver is reader:
            driver.call("paimon_commits", key="others")
        else:
            with pytest.raises(CallError, match="it would damage its table"):
                driver.call("paimon_commits", key="others")
            written("others")
            driver.call("paimon_commits", key="others")
        found = driver.call("sql", query=f"from paimon.db.{table} select * order by id")
        rows = [(row["id"], row["word"]) for row in found]
        note(f"{table}: {rows}")
        assert (rows == sorted(expected.items())) is (driver is not reader)
        if driver is reader and what != "updates":  # of which nothing proves that it was lost
            mend(paimon_admin, "paimon", f"s3://{bucket}/paimon/db.db/{table}", store.storage_options)
            found = paimon_admin.call("sql", query=f"from paimon.db.{table} select * order by id")
            both = dict(crossing.first[0]) | dict(crossing.mine[0])
            assert [(row["id"], row["word"]) for row in found] == sorted(both.items())
