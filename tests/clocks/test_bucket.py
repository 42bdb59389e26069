"""A counter in a bucket alone keeps what every counter promises, however late a writer wakes up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent.backends.registries import Advanced, Counter, Maybe, Refused, TryAgain
from putifabsent.clocks import GUARD, BucketCounter, clock
from putifabsent.errors import ConfigError, NameTaken, OutcomeUnknown, UnsafeStore
from putifabsent.testing import CounterTests, LostCounterTests

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def disk() -> Any:
    return fsspec.filesystem("piafile", guard=[GUARD], skip_instance_cache=True)


class Losing:
    """A filesystem whose creations are not answered."""

    def __init__(self, fs: Any, *, applies: bool) -> None:
        self.fs = fs
        self.applies = applies

    def __getattr__(self, method: str) -> Any:
        return getattr(self.fs, method)

    def pipe_file(self, path: str, value: bytes, mode: str) -> None:
        begins = path.endswith("/" + "0" * 20)
        if self.applies or begins:
            self.fs.pipe_file(path, value, mode=mode)
        if not begins:
            raise OutcomeUnknown(path, "a token")


class TestOnADisk(CounterTests, LostCounterTests):
    @pytest.fixture
    def make_counter(self, tmp_path: Path) -> Callable[[], Counter]:
        return lambda: BucketCounter(disk(), str(tmp_path))

    @pytest.fixture
    def unanswered(self, tmp_path: Path) -> Counter:
        return BucketCounter(Losing(disk(), applies=True), str(tmp_path))  # type: ignore[arg-type]

    @pytest.fixture
    def unheard(self, tmp_path: Path) -> Counter:
        return BucketCounter(Losing(disk(), applies=False), str(tmp_path))  # type: ignore[arg-type]


@pytest.fixture
def counter(tmp_path: Path) -> BucketCounter:
    return BucketCounter(disk(), str(tmp_path))


def records(folder: Path) -> list[int]:
    found = folder.glob(".putifabsent-instants/c-t/*")
    return sorted(number for each in found if (number := int(each.name)))


def test_old_records_go_and_the_newest_stay(tmp_path: Path, counter: BucketCounter) -> None:
    assert counter.advance("t", 0) == Advanced(1)
    (first,) = records(tmp_path)
    for number in range(2, 201):
        assert counter.advance("t", 0) == Advanced(number)
    # Each 64th number removes what is 64 behind; the first one is such a number.
    assert records(tmp_path) == list(range(first + 129, first + 200))


def test_where_an_arbiter_decides_nothing_is_kept_of_old_records_either() -> None:
    fs = fsspec.filesystem("piamemory", arbiter="ballot", guard=[GUARD], skip_instance_cache=True)
    counter = BucketCounter(fs, "/pruned")
    kept = []
    for _ in range(4):
        for _ in range(128):
            assert isinstance(counter.advance("n", 0), Advanced)
        kept.append(len(fs.fs.find("/pruned")))
    assert kept[1:] == kept[:-1]
    fs.fs.rm("/pruned", recursive=True)


@pytest.mark.parametrize(("newest", "counts"), [(32, True), (65, False)])
def test_a_writer_who_wakes_up_late_uses_nothing_that_others_may_have_had(
    tmp_path: Path, counter: BucketCounter, newest: int, counts: bool
) -> None:
    """Its record is the one after the newest that it saw; that may have been there, and be gone."""
    given: list[object] = []

    class Late(Losing):
        def pipe_file(self, path: str, value: bytes, mode: str) -> None:
            if counts:
                # Nobody else has had the number.
                self.fs.pipe_file(path, value, mode=mode)
            while records(tmp_path)[-1] < first + newest:
                given.append(counter.advance("t", 0))
            if not counts:
                for each in records(tmp_path)[:-64]:
                    self.fs.rm_file(f"{tmp_path}/.putifabsent-instants/c-t/{each:020d}")
                self.fs.pipe_file(path, value, mode=mode)

    counter.advance("t", 0)
    (first,) = records(tmp_path)
    late = BucketCounter(Late(disk(), applies=True), str(tmp_path))  # type: ignore[arg-type]
    outcome = late.advance("t", 0)
    assert isinstance(outcome, Advanced if counts else Maybe)
    assert outcome not in given


def given_anew(folder: Path) -> BucketCounter:
    """Remove all records, as a rule that expires them does, and return what begins anew."""
    disk().fs.rm(f"{folder}/.putifabsent-instants", recursive=True)
    return BucketCounter(disk(), str(folder))


def answered(counter: BucketCounter, floor: int = 0, count: int = 1) -> int:
    outcome = counter.advance("t", floor, count)
    while isinstance(outcome, (Maybe, TryAgain)):
        outcome = counter.advance("t", floor, count)
    assert isinstance(outcome, Advanced)
    return outcome.last


@pytest.mark.parametrize("anew", [1, 4, 5, 6], ids="{} anew".format)
def test_after_all_records_were_removed_there_is_one_line_again(
    tmp_path: Path, counter: BucketCounter, anew: int
) -> None:
    """Whoever remembers the old ones gives nothing by them, however many new ones there are."""
    last = [answered(counter, 1000) for _ in range(5)][-1]
    other = given_anew(tmp_path)
    for _ in range(anew):
        last = answered(other, 5000, 10)
    for each in (counter, other, counter, other, BucketCounter(disk(), str(tmp_path))):
        assert last < (last := answered(each))


def test_of_several_who_remember_removed_records_none_sets_the_new_line_back(
    tmp_path: Path, counter: BucketCounter
) -> None:
    """The record of the second goes on from that of the first, which is of no use."""
    second = BucketCounter(disk(), str(tmp_path))
    for each in (counter, second):
        answered(each, 1000)
    last = answered(given_anew(tmp_path), 5000, 10)
    assert isinstance(counter.advance("t", 0), Maybe)
    assert isinstance(second.advance("t", 0), Maybe)
    assert answered(BucketCounter(disk(), str(tmp_path))) > last


def test_of_two_who_begin_at_once_one_does(tmp_path: Path, counter: BucketCounter) -> None:
    class Slow(Losing):
        def makedirs(self, path: str, *, exist_ok: bool) -> None:
            self.fs.makedirs(path, exist_ok=exist_ok)
            assert counter.advance("t", 0) == Advanced(1)

    slow = BucketCounter(Slow(disk(), applies=True), str(tmp_path))  # type: ignore[arg-type]
    assert isinstance(slow.advance("t", 0), TryAgain)
    assert counter.advance("t", 0) == Advanced(2)


@pytest.mark.parametrize("afterwards", [True, False])
@pytest.mark.parametrize("later", [-1, 1, 1000])
def test_whoever_has_begun_a_line_that_was_removed_joins_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: int, afterwards: bool
) -> None:
    """Whatever the clock of whoever has begun that says."""
    given: list[int] = []
    begun = [1_800_000_000_000]
    monkeypatch.setattr("time.time_ns", lambda: begun[-1] * 10**6)

    class Slow(Losing):
        def pipe_file(self, path: str, value: bytes, mode: str) -> None:
            is_first = not path.endswith("/" + "0" * 20) and not given
            if is_first and not afterwards:
                anew()
            self.fs.pipe_file(path, value, mode=mode)
            if is_first and afterwards:
                anew()

    def anew() -> None:
        begun.append(begun[0] + later)
        others.append(given_anew(tmp_path))
        given.append(answered(others[0], 100))

    others: list[BucketCounter] = []
    slow = BucketCounter(Slow(disk(), applies=True), str(tmp_path))  # type: ignore[arg-type]
    assert isinstance(slow.advance("t", 0), Maybe)
    given.extend(answered(each) for each in (slow, others[0], slow, BucketCounter(disk(), str(tmp_path))))
    assert given == sorted(set(given))


def test_it_tells_the_store_s_own_time(tmp_path: Path, counter: BucketCounter) -> None:
    moved = counter.advance("t", 0)
    assert isinstance(moved, Advanced)
    (record,) = tmp_path.glob(".putifabsent-instants/c-t/*[1-9]*")
    assert moved.now == record.stat().st_mtime_ns // 10**6


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NameTaken("n"), TryAgain),
        (ConnectionError("gone"), TryAgain),
        (PermissionError("no right"), Refused),
        (UnsafeStore("it can't decide"), Refused),
    ],
)
def test_what_a_creation_raises_is_an_outcome(
    tmp_path: Path, error: Exception, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = disk()
    counter = BucketCounter(fs, str(tmp_path))

    def failing(*arguments: object, **more: object) -> None:
        raise error

    with monkeypatch.context() as failed:
        failed.setattr(fs, "pipe_file", failing)
        assert isinstance(counter.advance("t", 0), kind)
    assert counter.advance("t", 0) == Advanced(1)


def test_what_is_no_record_is_refused(tmp_path: Path, counter: BucketCounter) -> None:
    counter.advance("t", 0)
    (first,) = records(tmp_path)
    (tmp_path / ".putifabsent-instants/c-t" / f"{first + 1:020d}").write_bytes(b"somebody's")
    assert isinstance(counter.advance("t", 0), TryAgain)
    refused = counter.advance("t", 0)
    assert isinstance(refused, Refused)
    assert "other than digits" in str(refused.error)


@pytest.mark.parametrize("arbiter", ["auto", "ballot"])
def test_a_guarded_address_is_a_clock(tmp_path: Path, arbiter: str) -> None:
    """Whoever decides about names there decides about its records."""
    clocks = [clock(f"piafile://{tmp_path}/lake", storage_options={"arbiter": arbiter}) for _ in range(2)]
    given = [clocks[number % 2].instant() for number in range(6)]
    assert given == sorted(set(given))


def test_options_of_a_filesystem_are_a_guarded_address_s() -> None:
    with pytest.raises(ConfigError, match="storage_options are of a guarded address"):
        clock("local", storage_options={"arbiter": "auto"})
