"""What Hudi does with its timeline beside commits: savepoints, rollbacks and restores, through the mount.

The mounts are strict: of all this nothing is refused as a step that Hudi's timelines don't have.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.child import CallError
from tests.spark.drivers import SHORT, Driver, together

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Note

    Row = tuple[str, int]

pytestmark = [pytest.mark.spark, pytest.mark.formats, pytest.mark.timeout(1200)]

FORMS = ("hudi",) if SHORT else ("hudi", "hudi_mor")


@pytest.fixture
def drivers(pair: list[Driver], reader: Driver) -> dict[str, Driver]:
    """Name two guarded drivers, and one that reads and knows nothing of the shim."""
    return dict(zip(("one", "other", "reader"), (*pair, reader), strict=True))


class Table:
    """A table with a row of each commit, its savepoints and its rollbacks."""

    def __init__(self, form: str, drivers: dict[str, Driver], name: str = "services") -> None:
        self.form = form
        self._name = f"{name}_{form}"
        self._drivers = drivers

    def append(self, who: str, n: int) -> Row:
        self._drivers[who].call("append", form=self.form, table=self._name, who=who, n=n)
        return who, n

    def rows(self) -> list[Row]:
        found = self._drivers["reader"].call("rows", form=self.form, table=self._name)
        return sorted((who, n) for who, n in found)

    def register(self, bucket: str) -> None:
        for who in ("one", "other"):
            at = f"s3a://{bucket}/{self._name}"
            self._drivers[who].call("sql", query=f"CREATE TABLE {self._name} USING hudi LOCATION '{at}'")

    def procedure(self, who: str, name: str, **said: str) -> list[dict[str, object]]:
        arguments = ", ".join(f"{key} => '{value}'" for key, value in {"table": self._name, **said}.items())
        found: list[dict[str, object]] = self._drivers[who].call("sql", query=f"CALL {name}({arguments})")
        return found

    def last(self) -> str:
        return max(str(each["commit_time"]) for each in self.procedure("one", "show_commits"))


@pytest.mark.parametrize("form", FORMS)
def test_what_is_rolled_back_or_restored_goes_and_all_else_stays(
    form: str, drivers: dict[str, Driver], bucket: str
) -> None:
    table = Table(form, drivers)
    rows = [table.append(who, n) for n in range(2) for who in ("one", "other")]
    table.register(bucket)
    saved = table.last()
    assert table.procedure("one", "create_savepoint", commit_time=saved)[0]["create_savepoint_result"]
    table.append("other", 2)
    # The other driver's commit, by this one.
    assert table.procedure("one", "rollback_to_instant", instant_time=table.last())[0]["rollback_result"]
    assert table.rows() == sorted(rows)
    table.append("one", 3)
    table.append("other", 3)
    result = table.procedure("other", "rollback_to_savepoint", instant_time=saved)
    assert result[0]["rollback_savepoint_result"]
    assert table.rows() == sorted(rows)
    assert table.procedure("one", "delete_savepoint", instant_time=saved)[0]["delete_savepoint_result"]
    # Of merge on read, Hudi itself then looks for a file of the clustering that it has restored past.
    if table.form == "hudi":
        rows += [table.append(who, 4) for who in ("one", "other")]
        assert table.rows() == sorted(rows)


def test_of_a_rollback_and_a_commit_at_once_each_is_done_or_refused(
    drivers: dict[str, Driver], bucket: str, note: Note
) -> None:
    table = Table("hudi", drivers, "at_once")
    rows = [table.append("one", 4), table.append("other", 4)]
    table.register(bucket)
    table.append("other", 5)
    undone = table.last()

    def roll_back() -> None:
        table.procedure("one", "rollback_to_instant", instant_time=undone)

    errors = together([failed(roll_back), failed(partial(table.append, "other", 6))])
    said = [error.reason if error else "" for error in errors]
    note(said)
    # Hudi refuses to roll back what has later commits.
    assert said[0] in ("", "HoodieRollbackException")
    assert said[1] in ("", "HoodieWriteConflictException", "HoodieInsertException")
    assert "" in said
    if said[1] == "HoodieInsertException":
        # It had listed the instant, and finds it gone when it reads the schema: Hudi locks neither.
        assert re.search(rf"FileNotFoundException: .*/{undone}_\d+\.commit", errors[1].message)
    rolled_back, appended = (error is None for error in errors)
    assert table.rows() == sorted(rows + [("other", 5)] * (not rolled_back) + [("other", 6)] * appended)


@pytest.mark.parametrize("last", ["20260101120000001.inflight", "20260101120000001_20260101120000002.commit"])
def test_what_hudi_never_does_is_refused(drivers: dict[str, Driver], bucket: str, last: str) -> None:
    with pytest.raises(CallError, match="this is no step of a timeline"):
        drivers["one"].call("create", path=f"s3a://{bucket}/wrong/.hoodie/timeline/{last}")


def failed(call: Callable[[], object]) -> Callable[[], CallError | None]:
    """Have a call return why it failed, or None."""

    def error() -> CallError | None:
        try:
            call()
        except CallError as error:
            return error
        return None

    return error
