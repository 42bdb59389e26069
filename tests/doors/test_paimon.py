"""pypaimon's door, with pypaimon as it is published on top of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pypaimon import CatalogFactory, Schema
from pypaimon.common.options import Options
from pypaimon.schema.schema_change import SchemaChange

from putifabsent.errors import Damaging, NameTaken, OutcomeUnknown
from putifabsent.paimon import GuardedFileIO
from tests.spark.pages import run_page

if TYPE_CHECKING:
    from collections.abc import Callable

from tests.doors.conftest import local_options
from tests.doors.paimon_tables import (
    ROWS,
    TABLE,
    Meddled,
    causes,
    commit,
    folder_of,
    ids_of,
    lost_answer,
    make,
    meddle,
    read,
    snapshots,
    stock,
    table_of,
)


@pytest.fixture
def mine(here: dict[str, Any]) -> Any:
    """A table with one commit, about to make the second."""
    commit(make(here), 1)
    return table_of(here)


# Commits


def test_an_unmodified_reader_reads_what_was_committed(anywhere: dict[str, Any]) -> None:
    table = make(anywhere)
    commit(table, 1, 2)
    commit(table, 3)
    assert read(anywhere) == ids_of(table) == [1, 2, 3]


def test_a_writer_sees_the_commits_of_another_at_once(anywhere: dict[str, Any]) -> None:
    mine = make(anywhere)
    commit(mine, 1)
    others = table_of(anywhere)
    assert ids_of(others) == [1]
    commit(mine, 2)
    assert ids_of(others) == [1, 2]
    commit(others, 3)
    assert ids_of(mine) == [1, 2, 3]


@pytest.fixture(scope="module")
def expired(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose first snapshots have expired; by name, its tenth comes before its ninth."""
    origin = local_options(tmp_path_factory.mktemp("origin"))
    table = make(origin)
    for number in range(1, 13):
        commit(table, number)
    for number in range(1, 9):
        folder_of(origin, "snapshot", f"snapshot-{number}").unlink()
    return folder_of(origin)


def test_a_table_that_was_moved_takes_the_next_commit(anywhere: dict[str, Any], expired: Path) -> None:
    fs = GuardedFileIO(anywhere["warehouse"], Options(anywhere)).fs
    database = f"{anywhere['warehouse']}/db.db"
    CatalogFactory.create(anywhere).create_database("db", ignore_if_exists=True)
    fs.put(str(expired), f"{database}/other", recursive=True)
    fs.mv(f"{database}/other", f"{database}/t", recursive=True)
    commit(table_of(anywhere), 13)
    assert ids_of(table_of(anywhere)) == list(range(1, 14))
    there = fs.glob(f"{database}/t/snapshot/snapshot-*")
    assert sorted(int(name.rpartition("-")[2]) for name in there) == [9, 10, 11, 12, 13]
    assert read(anywhere) == list(range(1, 14))


def test_a_warehouse_may_be_a_url_of_a_local_folder(tmp_path: Path) -> None:
    options = {"metastore": "putifabsent", "warehouse": f"{tmp_path.as_uri()}/warehouse"}
    commit(make(options), 1)
    assert read(options) == ids_of(table_of(options)) == [1]
    assert (tmp_path / "warehouse").is_dir()


def test_a_warehouse_may_be_in_memory() -> None:
    options = {"metastore": "putifabsent", "warehouse": "memory://test-paimon"}
    table = make(options)
    commit(table, 1)
    assert ids_of(table_of(options)) == [1]
    table.file_io.delete("memory://test-paimon", recursive=True)


def test_a_first_commit_that_is_passed_by_until_its_number_has_expired_hides_no_other(
    here: dict[str, Any],
) -> None:
    mine = make(here)

    def others_went_on(_: int, create: Callable[[], None]) -> None:
        for number in range(1, 4):
            commit(table_of(here), number)
        for number in (1, 2):
            mine.file_io.delete(mine.snapshot_manager().get_snapshot_path(number))
        create()

    meddle(mine.file_io, "snapshot-1", others_went_on)
    with pytest.raises(RuntimeError):  # pypaimon can't tell: it looks for itself in what has expired
        commit(mine, 4)
    assert read(here) == [1, 2, 3]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro", "row"])
def test_each_file_format_is_written_and_read(here: dict[str, Any], file_format: str) -> None:
    commit(make(here, **{"file.format": file_format}), 1, 2)
    assert read(here) == ids_of(table_of(here)) == [1, 2]


def test_a_commit_that_lost_its_number_takes_the_next(anywhere: dict[str, Any]) -> None:
    commit(make(anywhere), 1)
    mine = table_of(anywhere)

    def another_is_first(attempt: int, create: Callable[[], None]) -> None:
        if attempt == 1:
            commit(table_of(anywhere), 2)
        create()

    meddled = meddle(mine.file_io, "snapshot-2", another_is_first)
    commit(mine, 3)
    assert read(anywhere) == [1, 2, 3]
    assert meddled.tries == 1


def test_a_lost_answer_of_a_commit_that_happened_is_found_out(here: dict[str, Any], mine: Any) -> None:

    def happens_unheard(_: int, create: Callable[[], None]) -> None:
        create()
        raise lost_answer()

    meddled = meddle(mine.file_io, "snapshot-2", happens_unheard)
    commit(mine, 2)
    assert read(here) == [1, 2]
    assert snapshots(here) == ["snapshot-1", "snapshot-2"]
    assert (meddled.tries, meddled.removed) == (1, [])


def test_a_lost_answer_of_a_commit_that_did_not_happen_is_tried_again(
    here: dict[str, Any], mine: Any
) -> None:

    def first_is_dropped(attempt: int, create: Callable[[], None]) -> None:
        if attempt == 1:
            raise lost_answer()
        create()

    meddled = meddle(mine.file_io, "snapshot-2", first_is_dropped)
    commit(mine, 2)
    assert read(here) == [1, 2]
    assert (meddled.tries, meddled.removed) == (2, [])


def test_a_commit_that_lands_late_is_counted_once(here: dict[str, Any], mine: Any) -> None:
    late: list[Callable[[], None]] = []

    def first_lands_before_second(attempt: int, create: Callable[[], None]) -> None:
        if attempt == 1:
            late.append(create)
            raise lost_answer()
        late.pop()()
        create()

    meddled = meddle(mine.file_io, "snapshot-2", first_lands_before_second)
    commit(mine, 2)
    assert read(here) == [1, 2]
    assert (meddled.tries, meddled.removed) == (2, [])


def test_another_commit_in_the_place_of_an_unknown_one_is_not_taken_for_it(
    here: dict[str, Any], mine: Any
) -> None:

    def another_wins(_: int, __: Callable[[], None]) -> None:
        commit(table_of(here), 2)
        raise lost_answer()

    meddled = meddle(mine.file_io, "snapshot-2", another_wins)
    commit(mine, 3)
    assert read(here) == [1, 2, 3]
    assert (meddled.tries, meddled.removed) == (1, [])


def test_a_commit_that_stays_unknown_fails_as_unknown_and_keeps_every_file(here: dict[str, Any]) -> None:
    commit(make(here, **{"commit.max-retries": "1"}), 1)
    mine = table_of(here)
    late: list[Callable[[], None]] = []

    def never_answered(_: int, create: Callable[[], None]) -> None:
        late.append(create)
        raise lost_answer()

    meddled = meddle(mine.file_io, "snapshot-2", never_answered)
    with pytest.raises(RuntimeError, match="Commit failed") as failed:
        commit(mine, 2)
    assert OutcomeUnknown in causes(failed.value)
    assert meddled.removed == []
    # All it refers to is still there: should it land after all, it is a good snapshot.
    late[0]()
    assert read(here) == [1, 2]


def test_an_interrupted_commit_keeps_every_file(here: dict[str, Any], mine: Any) -> None:

    def interrupted(_: int, create: Callable[[], None]) -> None:
        create()
        raise KeyboardInterrupt

    meddled = meddle(mine.file_io, "snapshot-2", interrupted)
    with pytest.raises(KeyboardInterrupt):
        commit(mine, 2)
    assert meddled.removed == []
    assert read(here) == [1, 2]


def test_an_unknown_hint_does_not_fail_a_commit(here: dict[str, Any]) -> None:
    table = make(here)

    def unknown(_: int, __: Callable[[], None]) -> None:
        raise OutcomeUnknown("LATEST", "a-token")

    meddle(table.file_io, "LATEST", unknown)
    commit(table, 1)
    assert read(here) == [1]


def test_the_hint_follows_the_commits(anywhere: dict[str, Any]) -> None:
    table = make(anywhere)
    for number in (1, 2, 3):
        commit(table, number)
    assert table.file_io.read_file_utf8(f"{table.table_path}/snapshot/LATEST") == "3"


def test_a_table_that_can_not_be_looked_at_is_not_begun_anew(here: dict[str, Any]) -> None:
    commit(make(here), 1)
    folder_of(here, "snapshot", "snapshot-1").rename(folder_of(here, "kept"))
    folder_of(here, "snapshot", "LATEST").unlink()
    table = table_of(here)

    class Unreadable(Meddled):
        def info(self, path: str) -> dict[str, Any]:
            if path.endswith("/snapshot"):
                raise OSError("503")
            return dict(self._fs.info(path))

    table.file_io.fs = Unreadable(table.file_io.fs, "", lambda _, create: create())
    with pytest.raises(OSError, match="503"):
        commit(table, 2)
    assert snapshots(here) == []


# Schemas


def test_of_two_creations_of_a_table_one_wins_and_its_schema_stays(anywhere: dict[str, Any]) -> None:
    catalog = CatalogFactory.create(anywhere)
    catalog.create_database("db", ignore_if_exists=False)

    def another_is_first(attempt: int, create: Callable[[], None]) -> None:
        if attempt == 1:
            make(anywhere, **{"commit.max-retries": "7"})
        create()

    meddle(catalog.file_io, "schema-0", another_is_first)
    with pytest.raises(RuntimeError, match="Schema in filesystem exists"):
        catalog.create_table(TABLE, Schema.from_pyarrow_schema(ROWS), ignore_if_exists=False)
    assert table_of(stock(anywhere)).table_schema.options["commit.max-retries"] == "7"


def test_an_unknown_creation_of_a_table_is_not_reported_as_lost(here: dict[str, Any]) -> None:
    catalog = CatalogFactory.create(here)
    catalog.create_database("db", ignore_if_exists=False)

    def happens_unheard(_: int, create: Callable[[], None]) -> None:
        create()
        raise lost_answer()

    meddle(catalog.file_io, "schema-0", happens_unheard)
    with pytest.raises(RuntimeError, match="unknown") as failed:
        catalog.create_table(TABLE, Schema.from_pyarrow_schema(ROWS), ignore_if_exists=False)
    assert OutcomeUnknown in causes(failed.value)


def test_a_schema_change_that_lost_its_number_is_applied_to_the_newer_schema(here: dict[str, Any]) -> None:
    make(here)
    catalog = CatalogFactory.create(here)

    def another_is_first(attempt: int, create: Callable[[], None]) -> None:
        if attempt == 1:
            CatalogFactory.create(here).alter_table(TABLE, [SchemaChange.set_option("theirs", "1")])
        create()

    meddle(catalog.file_io, "schema-1", another_is_first)
    catalog.alter_table(TABLE, [SchemaChange.set_option("ours", "1")])
    assert {"ours", "theirs"} <= table_of(here).table_schema.options.keys()


def test_an_unknown_schema_change_is_not_applied_twice(here: dict[str, Any]) -> None:
    make(here)
    catalog = CatalogFactory.create(here)

    def happens_unheard(_: int, create: Callable[[], None]) -> None:
        create()
        raise lost_answer()

    meddled = meddle(catalog.file_io, "schema-1", happens_unheard)
    with pytest.raises(RuntimeError, match="unknown") as failed:
        catalog.alter_table(TABLE, [SchemaChange.set_option("ours", "1")])
    assert OutcomeUnknown in causes(failed.value)
    assert meddled.tries == 1
    assert table_of(here).table_schema.id == 1


# Tags, branches, rolling back, dropping


def test_rolling_back_frees_the_later_numbers(here: dict[str, Any]) -> None:
    table = make(here)
    for number in (1, 2, 3):
        commit(table, number)
    table.rollback_to(1)
    commit(table_of(here), 4)
    assert read(here) == [1, 4]
    assert snapshots(here) == ["snapshot-1", "snapshot-2"]


def test_rolling_back_to_a_tag_brings_its_expired_snapshot_back(here: dict[str, Any]) -> None:
    table = make(here)
    commit(table, 1)
    commit(table, 2)
    table.create_tag("kept", 2)
    commit(table, 3)
    for expired in ("snapshot-1", "snapshot-2"):
        folder_of(here, "snapshot", expired).unlink()
    table.rollback_to("kept")
    assert read(here) == [1, 2]


@pytest.mark.parametrize("anywhere", ["s3 by auto", "s3 by ballot", "local by ballot"], indirect=True)
def test_a_table_gets_the_name_of_one_that_is_gone(anywhere: dict[str, Any]) -> None:
    commit(make(anywhere), 1)
    catalog = CatalogFactory.create(anywhere)
    for one, other in (TABLE, "db.other"), ("db.other", TABLE):
        catalog.rename_table(one, other)
        assert [f"db.{each}" for each in catalog.list_tables("db")] == [other]
    assert ids_of(table_of(anywhere)) == [1]


@pytest.mark.parametrize("anywhere", ["s3 by auto", "s3 by ballot"], indirect=True)
def test_a_database_whose_tables_are_gone_goes(anywhere: dict[str, Any]) -> None:
    commit(make(anywhere), 1)
    catalog = CatalogFactory.create(anywhere)
    catalog.drop_table(TABLE)
    catalog.drop_database("db")
    assert catalog.list_databases() == []


def test_a_tag_is_renamed_but_not_over_another(here: dict[str, Any]) -> None:
    table = make(here)
    commit(table, 1)
    table.create_tag("one")
    table.rename_tag("one", "uno")
    assert list(table.list_tags()) == ["uno"]
    path = f"{table.table_path}/tag"
    table.create_tag("two")
    assert table.file_io.rename(f"{path}/tag-two", f"{path}/tag-uno") is False
    assert sorted(table.list_tags()) == ["two", "uno"]


@pytest.mark.parametrize("cached", ["false", "true"])
def test_main_is_fast_forwarded_to_a_branch_that_goes_on_from_it(here: dict[str, Any], cached: str) -> None:
    here["local-cache.enabled"] = cached
    table = make(here)
    commit(table, 1)
    table.create_tag("start")
    catalog = CatalogFactory.create(here)
    catalog.create_branch(TABLE, "b", "start")
    for number in range(2, 12):
        commit(catalog.get_table("db.t$branch_b"), number)
    assert read(here) == [1]
    catalog.fast_forward(TABLE, "b")
    assert read(here) == list(range(1, 12))


def test_a_fast_forward_never_replaces_a_commit_of_main(here: dict[str, Any]) -> None:
    table = make(here)
    commit(table, 1)
    table.create_tag("start")
    catalog = CatalogFactory.create(here)
    catalog.create_branch(TABLE, "b", "start")
    for number in range(2, 12):
        commit(catalog.get_table("db.t$branch_b"), number)
    commit(table, 100)
    with pytest.raises(RuntimeError) as failed:
        catalog.fast_forward(TABLE, "b")
    assert NameTaken in causes(failed.value)
    assert read(here) == [1, 100]
    assert snapshots(here) == ["snapshot-1", "snapshot-2"]
    # Paimon on the JVM does not look whether what it names is there.
    assert folder_of(here, "snapshot", "LATEST").read_text() == "2"


# Commits that would hurt


KEYED = pa.schema([pa.field("id", pa.int32(), nullable=False), ("word", pa.string())])


def keyed(options: dict[str, Any]) -> Callable[[], Any]:
    """Make a table with a key in one bucket; return what opens it as another process would."""
    catalog = CatalogFactory.create(options)
    catalog.create_database("db", ignore_if_exists=True)
    said = {"bucket": "1", "commit.max-retries": "0"}
    schema = Schema.from_pyarrow_schema(KEYED, primary_keys=["id"], options=said)
    catalog.create_table(TABLE, schema, ignore_if_exists=False)
    return lambda: table_of(options)


def written(table: Any, *rows: tuple[int, str]) -> Callable[[], None]:
    """Write rows; return what commits them."""
    builder = table.new_batch_write_builder()
    write = builder.new_write()
    write.write_arrow(pa.Table.from_pylist([dict(zip(KEYED.names, row, strict=True)) for row in rows], KEYED))
    messages = write.prepare_commit()
    write.close()
    return lambda: builder.new_commit().commit(messages)


def words(table: Any) -> dict[int, str]:
    builder = table.new_read_builder()
    found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    return dict(zip(*found.to_pydict().values(), strict=True))


def refused(error: BaseException) -> str:
    """Return why a commit was refused that pypaimon has given up."""
    assert isinstance(error.__cause__, Damaging)
    return error.__cause__.reason


@pytest.mark.parametrize("inspect", ["off", "commits"])
def test_an_update_that_crosses_another_is_lost_or_refused(here: dict[str, Any], inspect: str) -> None:
    table = keyed({**here, "putifabsent.inspect": inspect})
    written(table(), (1, "first"))()
    mine = written(table(), (2, "mine"), (3, "mine"), (1, "mine"))
    others = written(table(), (1, "other's"))
    mine()
    if inspect == "off":
        others()  # and is acknowledged
        assert words(table())[1] == "mine"
        return
    with pytest.raises(RuntimeError, match="Commit failed") as caught:
        others()
    assert "numbers its rows in bucket 0 as if others had committed none there" in refused(caught.value)
    written(table(), (1, "other's"))()
    assert words(table()) == {1: "other's", 2: "mine", 3: "mine"}


def test_a_commit_whose_data_is_gone_is_refused(here: dict[str, Any]) -> None:
    table = keyed({**here, "putifabsent.inspect": "commits"})
    commit = written(table(), (1, "gone"))
    (data,) = folder_of(here, "bucket-0").iterdir()
    data.unlink()
    with pytest.raises(RuntimeError, match="Commit failed") as caught:
        commit()
    assert "has a data file that is not there" in refused(caught.value)
    assert snapshots(here) == []


def test_branches_are_made_and_fast_forwarded(here: dict[str, Any]) -> None:
    options = {**here, "putifabsent.inspect": "commits"}
    table = keyed(options)
    for number in range(2):
        written(table(), (number, "new"))()
    table().create_tag("kept", 2)
    table().branch_manager().create_branch("b", "kept")
    written(CatalogFactory.create(options).get_table(f"{TABLE}$branch_b"), (7, "branch's"))()
    table().branch_manager().fast_forward("b")
    assert words(table()) == {0: "new", 1: "new", 7: "branch's"}


def test_no_commit_of_one_writer_after_the_other_is_refused(anywhere: dict[str, Any]) -> None:
    table = keyed({**anywhere, "putifabsent.inspect": "commits"})
    for number in range(6):
        written(table(), (number, "new"), (0, str(number)))()
    assert words(table()) == {0: "5", **dict.fromkeys(range(1, 6), "new")}


def test_what_the_page_shows_runs(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs/how-to/paimon.md"
    assert run_page(page, tmp_path, seconds=120) == 0
