"""A counter in a bucket alone keeps what every counter promises, however late a writer wakes up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent.backends.counters import Advanced, Counter
from putifabsent.backends.registries import Maybe, Refused, TryAgain
from putifabsent.clocks import BucketCounter, clock
from putifabsent.clocks.bucket import GUARD
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
        if self.applies:
            self.fs.pipe_file(path, value, mode=mode)
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
    return sorted(int(each.name) for each in folder.glob(".putifabsent-instants/c-t/*"))


def test_old_records_go_and_the_newest_stay(tmp_path: Path, counter: BucketCounter) -> None:
    for number in range(200):
        assert counter.advance("t", 0) == Advanced(number + 1)
    assert records(tmp_path) == list(range(129, 201))


@pytest.mark.parametrize(("newest", "counts"), [(34, True), (67, False)])
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
            while records(tmp_path)[-1] < newest:
                given.append(counter.advance("t", 0))
            if not counts:
                for each in records(tmp_path)[:-64]:
                    self.fs.rm_file(f"{tmp_path}/.putifabsent-instants/c-t/{each:020d}")
                self.fs.pipe_file(path, value, mode=mode)

    for _ in range(2):
        counter.advance("t", 0)
    late = BucketCounter(Late(disk(), applies=True), str(tmp_path))  # type: ignore[arg-type]
    outcome = late.advance("t", 0)
    assert isinstance(outcome, Advanced if counts else Maybe)
    assert outcome not in given


def test_it_tells_the_store_s_own_time(tmp_path: Path, counter: BucketCounter) -> None:
    moved = counter.advance("t", 0)
    assert isinstance(moved, Advanced)
    (record,) = tmp_path.glob(".putifabsent-instants/c-t/*")
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
    (tmp_path / ".putifabsent-instants/c-t" / f"{2:020d}").write_bytes(b"somebody's")
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
