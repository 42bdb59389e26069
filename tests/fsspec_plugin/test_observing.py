"""The log says what each creation has cost, warns of what is unknown, and keeps secrets."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent import NameTaken, OutcomeUnknown
from putifabsent.backends.base import Maybe, Refused
from putifabsent.fsspec_plugin.telemetry import MANY_ROUNDS, Counts
from putifabsent.shim import ballot_state, drive
from tests.fsspec_plugin.hudi_tables import Writer, table_in
from tests.fsspec_plugin.telling import BODY, COLOURS, EACH, kind_of, told_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fsspec_plugin.grounds import Ground

    Create = Callable[[Any, str], Any]

SECRET = "hunter2"
RIVAL = "rival.0"
LINE = re.compile(
    r"creation of '(?P<name>[^']+)': (?P<outcome>\w+), arbiter (?P<arbiter>\w+), requests (?P<requests>\d+), "
    r"pauses (?P<pauses>\d+), rounds (?P<rounds>\d+), helps (?P<helps>\d+), seconds (?P<seconds>[\d.]+)"
)


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "putifabsent")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have pauses that are pauses, but short."""
    monkeypatch.setattr(drive, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(drive, "LONGEST_PAUSE", 0.001)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[int, dict[str, str]]]:
    """Return the level and the parts of each line about a creation."""
    found = [(record.levelno, LINE.match(record.getMessage())) for record in caplog.records]
    return [(level, match.groupdict()) for level, match in found if match]


@EACH
@COLOURS
def test_a_line_says_what_a_creation_has_cost(
    ground: Ground, create: Create, caplog: pytest.LogCaptureFixture
) -> None:
    fs, told = told_by(ground)
    caplog.clear()
    create(fs, ground.log(1))
    ((level, said),) = lines(caplog)
    assert level == logging.DEBUG
    assert float(said.pop("seconds")) > 0
    assert said == {
        "name": ground.log(1),
        "outcome": "won",
        "arbiter": kind_of(ground),
        "requests": str(len(told)),
        "pauses": "0",
        "rounds": "1",
        "helps": "0",
    }


@EACH
@COLOURS
def test_a_loss_is_a_line_too(ground: Ground, create: Create, caplog: pytest.LogCaptureFixture) -> None:
    fs, _ = told_by(ground)
    caplog.clear()
    with pytest.raises(NameTaken):
        create(fs, ground.log(0))
    assert [(level, said["outcome"]) for level, said in lines(caplog)] == [(logging.DEBUG, "taken")]


def test_a_creation_that_fails_for_certain_is_a_line_too(
    local: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    local.fs.mkdir(local.log(1))
    with pytest.raises(IsADirectoryError):
        local.fs.pipe_file(local.log(1), BODY)
    assert [said["outcome"] for _, said in lines(caplog)] == ["error"]


@EACH
@pytest.mark.parametrize("move", ["cp_file", "mv"])
def test_a_copy_and_a_move_are_creations(ground: Ground, move: str, caplog: pytest.LogCaptureFixture) -> None:
    ground.write(ground.name("source"), BODY)
    getattr(ground.fs, move)(ground.name("source"), ground.log(0))
    assert [(said["name"], said["outcome"]) for _, said in lines(caplog)] == [(ground.log(0), "won")]


@EACH
def test_what_a_ledger_decides_is_a_line_too(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    writer = Writer(ground.fs, table_in(ground))
    completed = writer.commits("20260101000000000")
    said = {parts["name"]: parts["outcome"] for _, parts in lines(caplog)}
    assert said == dict.fromkeys([writer.requested("20260101000000000"), completed], "won")


@EACH
def test_reading_and_removing_are_no_creations(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    fs, _ = told_by(ground)
    caplog.clear()
    fs.cat_file(ground.log(0))
    fs.rm_file(ground.log(0))
    assert not lines(caplog)


class Rival:
    """A writer of the same name who comes between as soon as it is overtaken, for some rounds."""

    def __init__(self, store: Any, rounds: int) -> None:
        self._store = store
        self._left = rounds

    def list(self, folder: str) -> Any:
        listed = self._store.list(folder)
        keys = [
            key
            for entry in listed.entries
            if isinstance(key := ballot_state.parsed(entry.name), ballot_state.Prepare)
        ]
        highest = max(keys, key=lambda key: key.ballot, default=None)
        if highest is None or highest.voter == RIVAL or not self._left:
            return listed
        self._left -= 1
        above = ballot_state.Prepare(1, highest.round + 1, RIVAL)
        self._store.fs.pipe_file(f"{folder}/{ballot_state.written(above)}", b"")
        return self._store.list(folder)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("ground", ["memory-ballot"], indirect=True)
@pytest.mark.parametrize(("rivals", "level"), [(0, logging.DEBUG), (MANY_ROUNDS, logging.INFO)])
def test_many_rounds_are_worth_a_look(
    ground: Ground, rivals: int, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    fs, _ = told_by(ground, instead={"list": Rival(ground.fs.backend, rivals).list})
    caplog.clear()
    fs.pipe_file(ground.log(1), BODY)
    keys = [
        ballot_state.parsed(name) for name in ground.around.find(ground.folder) if f"{1:020d}.json/" in name
    ]
    begun = {key.round for key in keys if isinstance(key, ballot_state.Prepare) and key.voter != RIVAL}
    ((found, said),) = lines(caplog)
    assert (found, said["rounds"]) == (level, str(len(begun)))


@EACH
def test_a_reader_s_line_is_none_even_where_it_helps(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    fs, _ = told_by(ground)
    caplog.clear()
    ground.around.rm_file(ground.log(0))
    fs.exists(ground.log(0))
    assert not lines(caplog)


# --- what can't be known


class Mute:
    """A store that takes every creation, and says nothing; its own words have a secret in them."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    def create(self, *_: Any) -> Maybe:
        return Maybe(ConnectionError(f"no answer from https://user:{SECRET}@host"))

    async def create_async(self, *_: Any) -> Maybe:
        return self.create()

    async def never(self, *_: Any) -> Maybe:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@COLOURS
def test_an_unknown_outcome_is_warned_of_once_with_what_it_takes_to_resolve_it(
    memory: Ground, create: Create, caplog: pytest.LogCaptureFixture
) -> None:
    mute = Mute()
    instead = {"create": mute.create, "create_async": mute.create_async}
    fs, told = told_by(memory, instead=instead, deadline=0.2)
    caplog.set_level(logging.WARNING, "putifabsent")
    with pytest.raises(OutcomeUnknown) as caught:
        create(fs, memory.log(1))
    (said,) = warned(caplog)
    assert memory.log(1) in said
    assert caught.value.token in said
    assert f"requests {len(told)}, pauses {len(told)}" in said
    assert SECRET not in caplog.text


async def test_a_cancelled_creation_is_warned_of_where_it_may_have_happened(
    memory: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    mute = Mute()
    fs, _ = told_by(memory, instead={"create_async": mute.never})
    task = asyncio.ensure_future(fs._pipe_file(memory.log(1), BODY))
    await mute.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (said,) = warned(caplog)
    assert memory.log(1) in said
    assert "unknown" in said


def test_who_asks_later_is_not_warned_again(memory: Ground, caplog: pytest.LogCaptureFixture) -> None:
    refused = {"head": lambda _: Refused(PermissionError("403"))}
    fs, _ = told_by(memory, instead=refused)
    with pytest.raises(OutcomeUnknown):
        fs.resolve(memory.log(1), "a-token")
    assert not warned(caplog)


# --- what is nobody's business


@pytest.mark.clouds
def test_no_line_has_bytes_or_credentials(memory: Ground, caplog: pytest.LogCaptureFixture) -> None:
    fs = memory.mount(arbiter=f"redis://user:{SECRET}@127.0.0.1:1/0?timeout=1")
    fs.pipe_file(memory.log(0), BODY)
    with pytest.raises(NameTaken):
        fs.pipe_file(memory.log(0), BODY)
    assert [said["arbiter"] for _, said in lines(caplog)] == ["redis", "redis"]
    assert SECRET not in caplog.text
    assert BODY.decode() not in caplog.text


@COLOURS
def test_who_listens_badly_contradicts_nothing(
    memory: Ground, create: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("a filter of the user's")

    monkeypatch.setattr(logging.getLogger("putifabsent.fsspec_plugin.telemetry"), "filters", [fail])
    create(memory.fs, memory.log(0))
    with pytest.raises(NameTaken):
        create(memory.fs, memory.log(0))
    assert memory.read(memory.log(0)) == BODY


@COLOURS
def test_where_nobody_listens_nothing_is_counted(
    memory: Ground, create: Create, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[Any] = []
    monkeypatch.setattr(Counts, "of", counted.append)
    monkeypatch.delitem(sys.modules, "opentelemetry.metrics", raising=False)
    caplog.set_level(logging.WARNING, "putifabsent")
    create(memory.fs, memory.log(0))
    with pytest.raises(NameTaken):
        create(memory.fs, memory.log(0))
    assert not counted
    caplog.set_level(logging.DEBUG, "putifabsent")
    create(memory.fs, memory.log(1))
    assert counted
