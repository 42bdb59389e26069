"""pypaimon's catalog over guarded files: databases, tables in other processes, and the options of both."""

from __future__ import annotations

import multiprocessing
import pickle
from typing import Any

import pytest
from pypaimon import CatalogFactory
from pypaimon.catalog.catalog_context import CatalogContext
from pypaimon.common.options import Options

import putifabsent.paimon
from putifabsent.errors import ConfigError
from putifabsent.paimon import GuardedCatalog, GuardedFileIO
from tests.doors.paimon_tables import TABLE, commit, ids_of, make, read, stock, table_of

# Databases


def test_a_database_is_there_before_it_has_a_table(anywhere: dict[str, Any]) -> None:
    catalog = CatalogFactory.create(anywhere)
    catalog.create_database("db", ignore_if_exists=False)
    assert (catalog.list_databases(), catalog.list_tables("db")) == (["db"], [])
    make(anywhere)
    assert catalog.list_tables("db") == ["t"]


def test_databases_and_tables_come_and_go(here: dict[str, Any]) -> None:
    catalog = CatalogFactory.create(here)
    make(here)
    catalog.create_database("empty", ignore_if_exists=False)
    assert catalog.list_databases() == ["db", "empty"]
    assert catalog.list_tables("empty") == []
    commit(catalog.get_table(TABLE), 1)
    catalog.rename_table(TABLE, "empty.moved")
    assert (catalog.list_tables("db"), catalog.list_tables("empty")) == ([], ["moved"])
    assert ids_of(catalog.get_table("empty.moved")) == [1]
    catalog.drop_table("empty.moved")
    make(here)
    assert read(here) == []
    catalog.drop_database("empty")
    catalog.drop_database("db", cascade=True)
    assert catalog.list_databases() == []


@pytest.mark.parametrize("anywhere", ["s3 by auto", "s3 by ballot"], indirect=True)
def test_tables_that_stock_pypaimon_has_made_come_and_go(anywhere: dict[str, Any]) -> None:
    """Its client makes an object for each folder."""
    unguarded = CatalogFactory.create(stock(anywhere))
    table = make(stock(anywhere))
    commit(table, 1)
    table.create_tag("start")
    unguarded.create_branch(TABLE, "b", "start")
    catalog = CatalogFactory.create(anywhere)
    catalog.rename_table(TABLE, "db.other")
    assert catalog.list_tables("db") == unguarded.list_tables("db") == ["other"]
    catalog.drop_branch("db.other", "b")
    assert catalog.list_branches("db.other") == unguarded.list_branches("db.other") == []
    catalog.drop_table("db.other")
    assert catalog.list_tables("db") == []
    catalog.drop_database("db")
    assert catalog.list_databases() == []


def test_stock_pypaimon_lists_tags(anywhere: dict[str, Any]) -> None:
    table = make(anywhere)
    commit(table, 1)
    table.create_tag("one")
    assert list(table_of(stock(anywhere)).list_tags()) == ["one"]


# Other processes


def commit_elsewhere(table: Any, number: int) -> None:
    commit(table, number)


def test_an_open_table_is_handed_to_a_spawned_process(anywhere: dict[str, Any]) -> None:
    table = make(anywhere)
    commit(table, 1)
    process = multiprocessing.get_context("spawn").Process(target=commit_elsewhere, args=(table, 2))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert read(anywhere) == ids_of(table) == [1, 2]


def test_a_pickled_table_stays_guarded(here: dict[str, Any]) -> None:
    table = pickle.loads(pickle.dumps(make(here)))
    commit(table, 1)
    assert isinstance(table.file_io, GuardedFileIO)
    assert isinstance(table.catalog_environment.catalog_loader.load(), GuardedCatalog)


# Options


def test_the_catalog_is_in_pypaimons_registry(here: dict[str, Any]) -> None:
    assert CatalogFactory.CATALOG_REGISTRY[putifabsent.paimon.METASTORE] is GuardedCatalog
    context = CatalogContext.create_from_options(Options(here))
    assert isinstance(CatalogFactory.create_from_context(context), GuardedCatalog)


@pytest.mark.parametrize(
    "said",
    [
        {
            "s3.endpoint": "http://h:1",
            "s3.access-key": "k",
            "s3.secret-key": "s",
            "s3.path-style-access": "true",
        },
        {"fs.s3.endpoint": "http://h:1", "fs.s3.accessKeyId": "k", "fs.s3.accessKeySecret": "s"},
        {"fs.s3a.endpoint": "http://h:1", "fs.s3a.access.key": "k", "fs.s3a.secret.key": "s"},
        {"putifabsent.endpoint_url": "http://h:1", "putifabsent.key": "k", "putifabsent.secret": "s"},
    ],
)
def test_s3_is_reached_by_pypaimons_options_or_by_ours(said: dict[str, str]) -> None:
    options = {"s3.region": "eu-north-1", **said}
    found = GuardedFileIO("s3a://bucket/w", Options(options)).fs.fs.storage_options
    assert (found["endpoint_url"], found["key"], found["secret"]) == ("http://h:1", "k", "s")
    assert found["client_kwargs"] == {"region_name": "eu-north-1"}


@pytest.mark.parametrize("said", ["true", "1", "YES", " on ", True])
def test_a_path_style_is_said_as_pypaimon_takes_it(said: Any) -> None:
    options = {"s3.endpoint": "http://h:1", "s3.path-style-access": said}
    found = GuardedFileIO("s3://bucket/w", Options(options)).fs.fs.storage_options
    assert found["config_kwargs"] == {"s3": {"addressing_style": "path"}}


def test_our_options_come_first_and_say_what_text_can_not() -> None:
    options = {
        "s3.access-key": "theirs",
        "putifabsent.key": "123",
        "putifabsent.anon": "False",
        "putifabsent.client_kwargs": '{"region_name": "x"}',
        "putifabsent.deadline": "5",
    }
    found = GuardedFileIO("s3://bucket/w", Options(options)).fs.fs.storage_options
    assert found["key"] == "123"
    assert found["anon"] is False
    assert found["client_kwargs"] == {"region_name": "x"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "warehouse"),
        ({"warehouse": "ftp://host/w"}, "ftp://host/w"),
        ({"warehouse": "w", "putifabsent.deadlin": "5"}, "deadline"),
        ({"warehouse": "w", "putifabsent.deadline": "soon"}, "'soon'"),
        ({"warehouse": "s3://b/w", "putifabsent.client_kwargs": "{no"}, "JSON"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        CatalogFactory.create({"metastore": "putifabsent", **options})
