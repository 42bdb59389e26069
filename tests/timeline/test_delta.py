"""Delta's commits: those that the log still has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.timeline import Problems, Trouble, read
from tests.timeline.tables import Delta

if TYPE_CHECKING:
    from tests.timeline.conftest import Place

ADD = {"add": {"path": "f"}}


def info(operation: str = "WRITE", **more: Any) -> dict[str, Any]:
    return {"commitInfo": {"timestamp": 1000, "operation": operation, **more}}


def test_commits_come_by_their_numbers(place: Place) -> None:
    table = Delta(place.fs, place.root)
    for number in (10, 9, 11):
        table.commit(number, info())
    table.write("_delta_log/00000000000000000010.checkpoint.parquet", "PAR1")
    table.write("_delta_log/_last_checkpoint", "{}")
    table.write("_delta_log/_commits/00000000000000000012.uuid.json", "{}")
    assert [each.number for each in read(table.root, fs=table.fs).records()] == [9, 10, 11]


def test_a_folder_that_looks_like_a_pattern_is_none(place: Place) -> None:
    table = Delta(place.fs, f"{place.root}[0]*")
    for number in (0, 1):
        table.commit(number, info())
    assert [each.number for each in read(table.root, fs=table.fs).records()] == [0, 1]


def test_a_commit_says_what_was_done_upon_which_version(place: Place) -> None:
    table = Delta(place.fs, place.root)
    table.commit(3, info("MERGE", readVersion=2, txnId="x"), ADD, ADD, {"remove": {"path": "g"}})
    (commit,) = read(table.root, fs=table.fs).active()
    assert (commit.action, commit.read, commit.transaction, commit.millis) == ("MERGE", 2, "x", 1000)


def test_the_commit_s_own_time_counts(place: Place) -> None:
    table = Delta(place.fs, place.root)
    table.commit(0, info(inCommitTimestamp=2000))
    (commit,) = read(table.root, fs=table.fs).active()
    assert commit.millis == 2000


def test_a_commit_need_not_say_what_was_done(place: Place) -> None:
    table = Delta(place.fs, place.root)
    table.commit(0, ADD)
    timeline = read(table.root, fs=table.fs)
    (commit,) = timeline.active()
    assert (commit.action, commit.millis, timeline.details(commit).metadata) == ("", None, None)
    assert timeline.table().column("committed").to_pylist() == [None]


@pytest.mark.parametrize(
    "said", ["2024-01-01 00:00:00", None, [], "1000 ms", 1e400, 1 << 63], ids=lambda said: str(said)[:20]
)
def test_what_is_no_number_is_not_said(place: Place, said: Any) -> None:
    table = Delta(place.fs, place.root)
    table.commit(0, info(timestamp=said, readVersion=said))
    timeline = read(table.root, fs=table.fs)
    (commit,) = timeline.active()
    assert (commit.action, commit.millis, commit.read) == ("WRITE", None, None)
    assert timeline.table().num_rows == 1


def test_a_time_past_all_calendars_is_none(place: Place) -> None:
    table = Delta(place.fs, place.root)
    table.commit(0, info(timestamp=1_700_000_000_000_000_000))
    assert read(table.root, fs=table.fs).table().column("committed").to_pylist() == [None]


def test_actions_that_are_null_are_none(place: Place) -> None:
    table = Delta(place.fs, place.root)
    table.commit(0, {**ADD, "remove": None, "commitInfo": None})
    (commit,) = read(table.root, fs=table.fs).active()
    assert (commit.action, commit.content) == ("", {})


@pytest.mark.parametrize(
    "torn",
    [
        *("", "\n", '{"add"', '{"commitInfo": {}}\n{"add', "[]", '{"commitInfo": 3}', '{"add": "f"}'),
        *('{"add": {"size": 1}}', '{"remove": {"path": 3}}', '{"add": {"path": "f", "deletionVector": "u"}}'),
    ],
)
def test_a_torn_commit_is_a_problem_and_the_others_are_read(place: Place, torn: str) -> None:
    table = Delta(place.fs, place.root)
    path = table.commit(0, info())
    table.commit(1, info())
    place.fs.pipe_file(path, torn.encode())
    problems: Problems = []
    assert [each.number for each in read(table.root, fs=table.fs).active(problems=problems)] == [1]
    trouble = Trouble.UNREADABLE if torn else Trouble.EMPTY
    assert [(each.path, each.trouble) for each in problems] == [(path, trouble)]
