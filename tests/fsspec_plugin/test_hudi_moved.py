"""Hudi tables that were upgraded or downgraded round the shim, with writers stopped: life goes on."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import pytest

from putifabsent.errors import ConfigError, Fenced
from putifabsent.fsspec_plugin.remote import Remote
from tests.fsspec_plugin.grounds import Kind
from tests.fsspec_plugin.hudi_tables import Writer, records_of, table_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fsspec_plugin.grounds import Ground

WRITTEN_ANEW = b"in the other layout's words"


class Before8(Writer):
    """A writer of a table of version 6."""

    def requested(self, instant: str, action: str = "commit") -> str:
        return f"{self.root}/.hoodie/{instant}.{action}.requested"

    def inflight(self, instant: str) -> str:
        return f"{self.root}/.hoodie/{instant}.inflight"

    def completed(self, instant: str, at: str = "", action: str = "commit") -> str:
        del at
        return f"{self.root}/.hoodie/{instant}.{action}"

    def timeline(self) -> list[str]:
        listed = self.fs.ls(f"{self.root}/.hoodie", detail=False)
        return sorted(last for last in (name.rpartition("/")[2] for name in listed) if last[0].isdigit())


@dataclass
class Moved:
    """A table whose layout has changed once three instants were completed.

    Attributes
    ----------
    old
        A writer of the layout that it has left.
    opens
        Begins a session in the one that it has.
    names
        The completed names of the instants, in that one.
    """

    old: Writer
    opens: Callable[[str], Writer]
    names: dict[str, str]


MOVES: dict[str, tuple[type[Writer], type[Writer], int]] = {
    "upgrade": (Before8, Writer, 8),
    "downgrade": (Writer, Before8, 6),
    # On object stores the completion is then another: the time at which the file was written last.
    "downgrade and upgrade": (Writer, Writer, 8),
}


# Each move on each store, and by each arbiter one; all of them by each are further below.
MOVED = pytest.mark.parametrize(
    ("ground", "moved"),
    [
        *((f"{kind}-native", move) for kind in get_args(Kind) for move in MOVES),
        *zip(("memory-ballot", "local-claims", "memory-redis"), MOVES, strict=True),
    ],
    indirect=True,
)


@pytest.fixture(params=MOVES)
def moved(request: pytest.FixtureRequest, ground: Ground, salt: str) -> Moved:
    before, after, version = MOVES[request.param]
    root = table_in(ground, version=6 if before is Before8 else 9)
    old = before(ground.mount(writer_session="old", salt=salt), root)
    names = {}
    for instant in ("100", "200", "300"):
        old.commits(instant)
    new = after(ground.fs, root)
    for instant in ("100", "200", "300"):
        for name in (old.requested(instant), old.inflight(instant), old.completed(instant)):
            ground.around.rm_file(name)
        names[instant] = new.completed(instant, at=f"{instant}8")
        ground.write(new.requested(instant), b"")
        ground.write(new.inflight(instant), b"")
        ground.write(names[instant], WRITTEN_ANEW)
    ground.write(f"{root}/.hoodie/hoodie.properties", b"hoodie.table.version=%d\n" % version)
    return Moved(old, lambda session: after(ground.mount(writer_session=session, salt=salt), root), names)


def takes_back(writer: Writer, instant: str, name: str, rollback: str) -> None:
    """Roll a completed instant back, in Hudi's order."""
    writer.plans_rollback(rollback, of=instant)
    writer.fs.rm_file(name)
    writer.fs.rm_file(writer.slice_of(instant))
    writer.fs.rm_file(writer.inflight(instant))
    writer.fs.rm_file(writer.requested(instant))


def archives(writer: Writer, instant: str, name: str) -> None:
    for each in (writer.requested(instant), writer.inflight(instant), name):
        writer.fs.rm_file(each)


def last(name: str) -> str:
    return name.rpartition("/")[2]


def bodies(ground: Ground, root: str) -> int:
    return len(ground.around.find(f"{root}/.hoodie/.putifabsent/bodies"))


@MOVED
@pytest.mark.parametrize("instant", ["300", "200"], ids=["the last one", "an earlier one"])
def test_a_commit_is_rolled_back_with_all_that_is_of_it(ground: Ground, moved: Moved, instant: str) -> None:
    writer = moved.opens("new")
    takes_back(writer, instant, moved.names[instant], "400")
    assert records_of(ground, writer.root)[-2:] == ["OPEN", "UNDO"]
    plain = [each for each in ground.around.find(writer.root) if "/.putifabsent/" not in each]
    assert not [each for each in plain if last(each).startswith(instant) or f"_{instant}." in last(each)]
    assert bodies(ground, writer.root) == 2


@MOVED
def test_a_restore_takes_all_commits_back_and_the_next_ones_are_as_ever(ground: Ground, moved: Moved) -> None:
    one, other = moved.opens("one"), moved.opens("other")
    for rollback, instant in (("400", "300"), ("410", "200")):
        takes_back(one, instant, moved.names[instant], rollback)
        one.fs.rm_file(one.requested(rollback, "rollback"))
    shown = [last(one.commits("500")), last(other.commits("600")), last(one.commits("700"))]
    completed = [each for each in moved.opens("reader").timeline() if each[-1] == "t" and "fl" not in each]
    assert completed == [last(moved.names["100"]), *shown]
    assert bodies(ground, one.root) == 4


@MOVED
def test_no_commit_brings_back_a_name_that_the_table_has_left(ground: Ground, moved: Moved) -> None:
    for session, instant in (("one", "400"), ("other", "500")):
        writer = moved.opens(session)
        assert ground.read(writer.commits(instant, b"{}")) == b"{}"
        assert not any(ground.around.exists(moved.old.completed(each)) for each in moved.names)
    assert [ground.read(each) for each in moved.names.values()] == [WRITTEN_ANEW] * 3


@MOVED
def test_what_is_archived_is_gone_with_its_body(ground: Ground, moved: Moved) -> None:
    writer = moved.opens("new")
    shown = writer.commits("400")
    for instant, name in moved.names.items():
        archives(writer, instant, name)
    assert bodies(ground, writer.root) == 1
    assert [each for each in moved.opens("other").timeline() if each[:3] != "400"] == []
    assert last(shown) in moved.opens("other").timeline()
    assert not any(ground.around.exists(moved.old.completed(each)) for each in moved.names)


@MOVED
def test_readers_see_each_commit_once_under_the_name_that_it_has(moved: Moved) -> None:
    reader = moved.opens("reader")
    assert not reader.fs.exists(moved.old.completed("300"))
    assert reader.fs.cat_file(moved.names["300"]) == WRITTEN_ANEW
    assert last(moved.names["300"]) in reader.timeline()
    found = [each for each in reader.fs.find(reader.root) if last(each).startswith("300")]
    assert len([each for each in found if each.endswith(".commit")]) == 1


@pytest.mark.parametrize("ground", ["s3-ballot", "memory-claims", "memory-redis"], indirect=True)
def test_whoever_decides_the_commits_after_a_move_are_decided(ground: Ground, moved: Moved) -> None:
    one, other = moved.opens("one"), moved.opens("other")
    takes_back(one, "300", moved.names["300"], "400")
    shown = [one.commits("500"), other.commits("600")]
    assert {last(each) for each in shown} <= set(moved.opens("reader").timeline())
    assert not one.fs.exists(moved.names["300"])


# --- through a mount --------------------------------------------------------------------------------------


@pytest.mark.parametrize("metadata", ["", "/.hoodie/metadata"], ids=["table", "metadata table"])
@pytest.mark.parametrize("version", [6, 9], ids=["upgrade", "downgrade"])
def test_an_upgrade_that_another_process_begins_is_refused(
    ground: Ground, version: int, metadata: str
) -> None:
    root = table_in(ground, version=version) + metadata
    meta = f"{root}/.hoodie"
    ground.around.makedirs(f"{meta}/timeline", exist_ok=True)
    ground.write(f"{meta}/hoodie.properties", b"hoodie.table.version=%d\n" % version)
    was, becomes = (f"{meta}/", f"{meta}/timeline/")[:: 1 if version == 6 else -1]
    ground.write(f"{was}1.clean.requested", b"plan")
    ground.write(f"{was}1.inflight", b"")
    there = ground.files()
    for last in ("1.commit.requested", "1.inflight", "1_17.commit" if version == 6 else "1.commit"):
        with pytest.raises(ConfigError, match="not mounted"):
            Remote(ground.fs).admit(f"{becomes}{last}", overwrite=True)
        Remote(ground.fs).admit(f"{was}2.inflight", overwrite=True)
    for source, last in (("1.clean.requested",) * 2, ("1.inflight",) * 2, ("another", "1.inflight")):
        with pytest.raises(ConfigError, match="not mounted"):
            Remote(ground.fs).rename_as(f"{was}{source}", f"{becomes}{last}", str(uuid.uuid4()))
    assert ground.files() == there


def test_what_is_renamed_into_a_timeline_from_elsewhere_is_no_upgrade(ground: Ground) -> None:
    """On local disk Hudi writes each instant so."""
    root = table_in(ground, version=9)
    source, name = (f"{root}/.hoodie/timeline/1.commit.requested{each}" for each in (f".{uuid.uuid4()}", ""))
    ground.write(source, b"")
    assert Remote(ground.fs).rename_as(source, name, str(uuid.uuid4()))
    assert ground.is_there(name)


def test_a_session_that_idled_while_a_table_was_downgraded_writes_to_the_log_files_of_older_commits(
    memory: Ground,
) -> None:
    root = table_in(memory)
    a, idle = (Writer(memory.mount(writer_session=session), root) for session in ("a", "idle"))
    a.commits("100")
    with pytest.raises(Fenced, match="completed"):
        idle.fs.pipe_file(idle.log_of("100"), b"")
    memory.write(f"{root}/.hoodie/hoodie.properties", b"hoodie.table.version=6\n")
    idle.fs.pipe_file(idle.log_of("100"), b"")
