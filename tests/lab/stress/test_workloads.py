"""Each format's writers are right on a store that keeps the promises, and convicted on one that does not."""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import count as counted
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.errors import Fenced, NameTaken, OutcomeUnknown
from putifabsent.lab.stress.results import figures, judge, table_of
from putifabsent.lab.stress.writers import WORKLOADS, Journal, Writer, kept

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from putifabsent.lab.stress.results import Violation
    from putifabsent.lab.stress.writers import Operation, Outcome

ROUNDS = 10
NOW = 1_800_000_000_000_000_000


class FakePath:
    """A fake that keeps all promises: what is created stays, and an instant is requested once.

    Before it creates the first name in which ``stops`` is found, it does what is to happen ``meanwhile``.
    """

    def __init__(self, stops: str = "") -> None:
        self._objects: dict[str, bytes] = {}
        self._identities: set[str] = set()
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._stops = stops
        self.meanwhile: Callable[[], object] | None = None

    def create(self, name: str, data: bytes) -> None:
        if self.meanwhile and re.search(self._stops, name):
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        with self._lock:
            self._put(name, data)

    def _put(self, name: str, data: bytes) -> None:
        identity = re.sub(r"\w+\.requested$", "requested", name)
        if identity in self._identities:
            raise FileExistsError(name)
        self._identities.add(identity)
        self._objects[name] = data

    def read(self, name: str) -> bytes:
        with self._lock:
            if name not in self._objects:
                raise FileNotFoundError(name)
            return self._objects[name]

    def names(self, folder: str) -> list[str]:
        with self._lock:
            return [name for name in self._objects if name.rpartition("/")[0] == folder]

    def turn(self, folder: str) -> AbstractContextManager[object]:
        return self._turn

    def has_turn(self) -> bool:
        """Whether somebody has the turn."""
        return self._turn.locked()


class FakeWithoutConditions(FakePath):
    """A fake whose last creation wins, and that has no turns."""

    def _put(self, name: str, data: bytes) -> None:
        self._objects[name] = data

    def turn(self, folder: str) -> AbstractContextManager[object]:
        return nullcontext()


class FakeThatFailsOnce(FakePath):
    """A fake whose next creation ends with an error, applied or not."""

    error: Exception | None = None
    applies = False

    def _put(self, name: str, data: bytes) -> None:
        error, self.error = self.error, None
        if error is None or self.applies:
            super()._put(name, data)
        if error is not None:
            raise error


class Run:
    """Writers of one table on one path, and what they were told."""

    def __init__(self, form: str, path: FakePath, journal: Journal, folder: pathlib.Path) -> None:
        self.path = path
        self._form = form
        self._journal = journal
        self._folder = folder
        WORKLOADS[form]("t").lay(path)

    def writer(self, number: int) -> Callable[[], bool]:
        """Return a writer's way to commit."""
        table, writer = WORKLOADS[self._form]("t"), Writer(self.path, self._journal, number)
        return lambda: table.commit(writer)

    def creations(self, purpose: str = "commit") -> list[Operation]:
        return [each for each in kept(self._folder) if each.action == "create" and each.purpose == purpose]

    def close(self) -> list[Violation]:
        """Read each name once more, and judge."""
        names = sorted({each.name for each in kept(self._folder) if each.action == "create"})
        with Journal(self._folder, "closing") as journal:
            for name in names:
                Writer(self.path, journal, -1, closing=True).read("commit", "t", name)
        return judge(table_of(kept(self._folder)))


@pytest.fixture
def journal(tmp_path: pathlib.Path) -> Iterator[Journal]:
    with Journal(tmp_path, "1.0") as journal:
        yield journal


@pytest.fixture
def start(journal: Journal, tmp_path: pathlib.Path) -> Callable[[str, FakePath], Run]:
    """Return what begins a run."""
    return lambda form, path: Run(form, path, journal, tmp_path)


def tells(monkeypatch: pytest.MonkeyPatch, nanoseconds: Callable[[], int]) -> None:
    """Replace the writers' clock by a fake; the journal's goes on."""
    fake = SimpleNamespace(time_ns=nanoseconds, monotonic_ns=time.monotonic_ns)
    monkeypatch.setattr("putifabsent.lab.stress.writers.time", fake)


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the writers' clock stand still: all of them take the same instant."""
    tells(monkeypatch, lambda: NOW)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each look at the writers' clock give another second."""
    seconds = counted(NOW, 10**9)
    tells(monkeypatch, lambda: next(seconds))


each_format = pytest.mark.parametrize("form", WORKLOADS)


@each_format
def test_a_writer_alone_commits_each_time(start: Callable[[str, FakePath], Run], form: str) -> None:
    run = start(form, FakePath())
    commit = run.writer(1)
    assert all(commit() for _ in range(ROUNDS))
    assert len({each.name for each in run.creations()}) == ROUNDS
    assert run.close() == []


@each_format
def test_a_writer_that_comes_later_goes_on_behind_the_others(
    start: Callable[[str, FakePath], Run], hasty: None, form: str
) -> None:
    run = start(form, FakePath())
    commits = [run.writer(number) for number in range(3)]
    assert all(commit() for _ in range(2) for commit in commits)
    assert run.close() == []


@each_format
def test_of_two_writers_at_a_time_one_commits_in_each_round(
    start: Callable[[str, FakePath], Run], stopped: None, form: str
) -> None:
    run = start(form, FakePath())
    together = threading.Barrier(2, timeout=30)

    def write(number: int) -> int:
        commit = run.writer(number)
        won = 0
        for _ in range(ROUNDS):
            together.wait()
            won += commit()
        return won

    with ThreadPoolExecutor(2) as threads:
        won = sum(threads.map(write, (1, 2)))
    assert run.close() == []
    assert won >= ROUNDS
    assert [each.outcome for each in run.creations()].count("created") == won


STOPS = {"paimon": "snapshot-1$", "delta": r"0\.json$", "hudi": "requested$"}
"""Where a writer has looked whether its name is free, and not yet created it."""
COMPLETED = r"/\d+_\d+\.\w+$"


@each_format
def test_who_looked_before_another_created_loses(
    start: Callable[[str, FakePath], Run], stopped: None, form: str
) -> None:
    run = start(form, FakePath(STOPS[form]))
    first, run.path.meanwhile = run.writer(1), run.writer(2)
    assert not first()
    assert [each.writer for each in run.creations() if each.outcome == "created"] == [2]
    assert run.close() == []


@each_format
def test_who_looked_before_another_created_is_acknowledged_too_where_nothing_decides(
    start: Callable[[str, FakePath], Run], stopped: None, form: str
) -> None:
    run = start(form, FakeWithoutConditions(STOPS[form]))
    first, run.path.meanwhile = run.writer(1), run.writer(2)
    assert first()
    assert "U" in {each.promise for each in run.close()}


def test_hudi_s_writers_without_turns_do_not_see_each_other(
    start: Callable[[str, FakePath], Run], hasty: None
) -> None:
    run = start("hudi", FakeWithoutConditions(COMPLETED))
    first, run.path.meanwhile = run.writer(1), run.writer(2)
    assert first()
    assert [(each.promise, each.breach) for each in run.close()] == [
        ("K", "two commits are there that had not seen each other")
    ]


def test_hudi_s_commits_are_decided_in_a_turn(start: Callable[[str, FakePath], Run]) -> None:
    run = start("hudi", FakePath(COMPLETED))
    held: list[bool] = []
    run.path.meanwhile = lambda: held.append(run.path.has_turn())
    assert run.writer(1)()
    assert held == [True]
    assert not run.path.has_turn()


def test_hudi_s_writers_look_for_the_last_commit_when_they_have_their_turn(
    start: Callable[[str, FakePath], Run], hasty: None
) -> None:
    run = start("hudi", FakePath(r"\.parquet$"))
    first, run.path.meanwhile = run.writer(1), run.writer(2)
    assert first()
    assert [each.writer for each in run.creations()] == [2, 1]
    assert run.close() == []


def test_each_of_hudi_s_commits_follows_on_the_last(
    start: Callable[[str, FakePath], Run], hasty: None
) -> None:
    run = start("hudi", FakePath())
    commits = [run.writer(number) for number in range(2)]
    assert all(commit() for _ in range(2) for commit in commits)
    completed = run.creations()
    instants = [each.name.rpartition("/")[2].partition("_")[0] for each in completed]
    assert [each.saw for each in completed] == ["nothing", *instants[:-1]]


def test_a_listing_that_lacks_the_writer_s_own_instant_is_convicted(
    start: Callable[[str, FakePath], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start("hudi", FakePath())
    monkeypatch.setattr(run.path, "names", lambda _: ["t/.hoodie/hoodie.properties"])
    assert run.writer(1)()
    assert {each.promise for each in run.close()} == {"K", "L"}


def test_hudi_s_instants_are_unique_whatever_the_action(
    start: Callable[[str, FakePath], Run], stopped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    actions = iter(["commit", "deltacommit"])
    monkeypatch.setattr("random.choice", lambda _: next(actions))
    run = start("hudi", FakeWithoutConditions())
    assert run.writer(1)()
    assert run.writer(2)()
    requested = [each for each in run.creations("request") if each.name.endswith(".requested")]
    assert len({each.name for each in requested}) == 2
    assert len({each.identity for each in requested}) == 1
    assert "U" in {each.promise for each in run.close()}


@each_format
@pytest.mark.parametrize("applies", [True, False])
def test_an_unknown_outcome_is_no_commit_and_no_violation(
    start: Callable[[str, FakePath], Run], form: str, applies: bool
) -> None:
    path = FakeThatFailsOnce()
    run = start(form, path)
    commit = run.writer(1)
    path.error, path.applies = OutcomeUnknown("t", "token"), applies
    assert not commit()
    assert commit()
    assert run.close() == []


CAUSED = OSError("the write has failed")
CAUSED.__cause__ = OutcomeUnknown("t", "token")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (FileExistsError("t"), "taken"),
        (NameTaken("t"), "taken"),
        (OutcomeUnknown("t", "token"), "unknown"),
        (CAUSED, "unknown"),
        (Fenced("t"), "fenced"),
        (PermissionError("t"), "failed"),
        (ConnectionError("t"), "failed"),
    ],
    ids=repr,
)
def test_what_a_writer_is_told_is_in_its_history(
    start: Callable[[str, FakePath], Run], error: Exception, outcome: Outcome
) -> None:
    path = FakeThatFailsOnce()
    run = start("delta", path)
    path.error = error
    assert not run.writer(1)()
    [creation] = run.creations()
    assert creation.outcome == outcome
    assert str(creation.error).startswith(type(error).__name__)


def test_what_can_t_be_read_is_neither_found_nor_absent(
    journal: Journal, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> Any:
        raise PermissionError(name)

    path = FakePath()
    monkeypatch.setattr(path, "read", refuse)
    assert Writer(path, journal, 1).read("commit", "t", "t/1") is None
    [read] = kept(tmp_path)
    assert (read.outcome, read.seen, read.error) == ("failed", None, "PermissionError: t/1")


def test_a_table_s_commits_are_counted_by_what_was_told(start: Callable[[str, FakePath], Run]) -> None:
    run = start("delta", FakePath(STOPS["delta"]))
    first, run.path.meanwhile = run.writer(1), run.writer(2)
    assert not first()
    assert first()
    run.close()
    told = figures(table_of(run.creations()), seconds=4)
    assert told.commits == {"created": 2, "taken": 1}
    assert told.rate == 0.5
