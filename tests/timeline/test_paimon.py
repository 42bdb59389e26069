"""Paimon's snapshots: those that are there, whatever the hints say."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from putifabsent.timeline import PaimonTimeline, Problems, Trouble, read
from tests.timeline.tables import Paimon

if TYPE_CHECKING:
    from tests.timeline.conftest import Place


def test_snapshots_come_by_their_numbers(place: Place) -> None:
    table = Paimon(place.fs, place.root)
    for number in (10, 9, 11):
        table.snapshot(number)
    assert [each.number for each in read(table.root, fs=table.fs).active()] == [9, 10, 11]


def test_a_snapshot_says_who_made_it_and_how(place: Place) -> None:
    table = Paimon(place.fs, place.root)
    table.snapshot(1, commitKind="COMPACT", commitUser="me", commitIdentifier=7, schemaId=2, timeMillis=1000)
    timeline = read(table.root, fs=table.fs)
    (snapshot,) = timeline.active()
    assert (snapshot.action, snapshot.user, snapshot.identifier, snapshot.schema) == ("COMPACT", "me", 7, 2)
    assert snapshot.ended_at == datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc)
    metadata = timeline.details(snapshot).metadata
    assert metadata is not None
    assert metadata.value["commitUser"] == "me"


def test_a_time_past_all_calendars_is_none(place: Place) -> None:
    table = Paimon(place.fs, place.root)
    table.snapshot(1, timeMillis=(1 << 63) - 1)
    timeline = read(table.root, fs=table.fs)
    (snapshot,) = timeline.active()
    assert (snapshot.begun_at, snapshot.ended_at) == (None, None)
    assert timeline.table().column("committed").to_pylist() == [None]


def test_hints_are_not_looked_at(place: Place) -> None:
    table = Paimon(place.fs, place.root)
    table.snapshot(2)
    table.write("snapshot/LATEST", "9")
    table.write("snapshot/EARLIEST", "1")
    assert [each.number for each in read(table.root, fs=table.fs).records()] == [2]


def test_changelogs_of_expired_snapshots_are_the_history(place: Place) -> None:
    table = Paimon(place.fs, place.root)
    table.snapshot(1, "changelog")
    table.snapshot(2, "changelog")
    table.snapshot(2)
    table.snapshot(3)
    found = read(table.root, fs=table.fs).records()
    assert [(each.number, each.archived) for each in found] == [(1, True), (2, False), (3, False)]


def test_a_branch_is_read_by_its_folder(place: Place) -> None:
    Paimon(place.fs, place.root).snapshot(1)
    branch = Paimon(place.fs, f"{place.root}/branch/branch-dev")
    branch.snapshot(2)
    assert [each.number for each in read(branch.root, fs=place.fs).active()] == [2]


def test_a_table_without_snapshots_has_none(place: Place) -> None:
    timeline = read(Paimon(place.fs, place.root).root, fs=place.fs)
    assert (timeline.format, list(timeline.records())) == ("paimon", [])


def test_a_table_of_them_has_a_row_for_each(place: Place) -> None:
    table = Paimon(place.fs, place.root)
    table.snapshot(1)
    table.snapshot(2)
    found = read(table.root, fs=table.fs).table()
    assert found.column("number").to_pylist() == [1, 2]
    assert found.column("committed").to_pylist()[0] == datetime(2023, 11, 14, 22, 13, 20, 1000, timezone.utc)


@pytest.mark.parametrize("torn", ["", "{", "[]", "{}", '{"id": 7}'])
def test_a_torn_snapshot_is_a_problem_and_the_others_are_read(place: Place, torn: str) -> None:
    table = Paimon(place.fs, place.root)
    path = table.snapshot(1)
    table.snapshot(2)
    place.fs.pipe_file(path, torn.encode())
    problems: Problems = []
    assert [each.number for each in read(table.root, fs=table.fs).active(problems=problems)] == [2]
    trouble = Trouble.UNREADABLE if torn else Trouble.EMPTY
    assert [(each.path, each.trouble) for each in problems] == [(path, trouble)]


def test_a_snapshot_that_says_it_is_another_is_a_problem(place: Place) -> None:
    table = Paimon(place.fs, place.root)
    table.snapshot(2, id=3)
    with pytest.raises(OSError, match="it is snapshot 3"):
        list(read(table.root, fs=table.fs).active())


def test_what_tags_keep_comes_by_their_numbers_and_names(place: Place) -> None:
    table = Paimon(place.fs, place.root)
    for name, number in (("b", 1), ("a", 7)):
        path = table.snapshot(number)
        table.write(f"tag/tag-{name}", place.fs.cat_file(path))
    table.write("tag/tag-torn", "{")
    table.write("tag/other", "{}")
    timeline, problems = PaimonTimeline(table.fs, table.root), Problems()
    assert [(name, each.number) for name, each in timeline.tags(problems).items()] == [("b", 1), ("a", 7)]
    assert [(each.path, each.trouble) for each in problems] == [
        (f"{place.root}/tag/tag-torn", Trouble.UNREADABLE)
    ]
