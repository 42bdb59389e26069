"""A table's whole life by the calls that an unmodified Hudi makes, one after the other, by chance.

A few mounts write one table. Each commits some times, and idles while the others go on, between two commits
or within one. A mount may start again, with or without a commit that it has begun; may remove the table, by
itself or round the shim, and begin a new one; and whoever meets what died rolls it back. One of them has a
clock that is two hours fast, for a while. Nobody is in another's way: nothing but a table that was removed
meanwhile is a reason to refuse anything.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.life_history import History, Sample
from putifabsent.errors import OutcomeUnknown
from putifabsent.shim.clock import instant_of
from tests.fsspec_plugin.hudi_tables import plan_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.life_grounds import Ground

__all__ = ["Plan", "live"]

_FAST = 7_200_000
"""Milliseconds."""

_UNNOTICED = 60
"""So many instants a table gets from the clock that is fast, until somebody sets it."""

_GAPS = (0, 3, 40, 70, 130, 340)
_BURST = 4
_LONG = _RESTARTS = 0.06
_MOST, _LEAST = 30, 20
"""Completed instants: with more than so many, so many are kept."""

_MANIFESTS, _MERGED = 3, 10
_PATIENCE = 4
_WEDGES = 3
"""So many commits in a row that come to nothing are a wedge, and so many wedges end a life."""

_COMPLETED = re.compile(r"(?P<instant>\d{17})_\d+\.(commit|rollback)")
_PENDING = re.compile(r"(?P<instant>\d{17})\.(?P<rest>\S+)")
_PROPERTIES = b"hoodie.table.name=t\nhoodie.table.version=9\n"


class Plan(NamedTuple):
    """How long a life is.

    Attributes
    ----------
    commits
        That are tried, by all mounts together.
    mounts
        That write.
    seed
        Of all that is left to chance.
    """

    commits: int
    mounts: int = 3
    seed: int = 1


@dataclass
class _Writer:
    fs: Any
    number: int
    wakes: int = 0
    burst: int = _BURST
    begun: _Begun | None = None


class _Begun(NamedTuple):
    instant: str
    life: int


@dataclass
class _Table:
    """What must be there.

    Attributes
    ----------
    life
        Which one since the first; a table that is removed and made again has another.
    there
        Completed names that must be listed, and their bytes.
    maybe
        Those that may be.
    dead
        Instants that nobody goes on with, and how often somebody has tried to roll them back.
    fast
        How many instants it got from a clock that is fast.
    """

    root: str
    life: int = 0
    fast: int = 0
    there: dict[str, bytes] = field(default_factory=dict)
    maybe: set[str] = field(default_factory=set)
    dead: dict[str, int] = field(default_factory=dict)

    @property
    def timeline(self) -> str:
        return f"{self.root}/.hoodie/timeline"

    def name(self, last: str) -> str:
        return f"{self.timeline}/{last}"

    def slice_of(self, instant: str) -> str:
        return f"{self.root}/dt=1/b5068208-e1a4-11e6-bf01-fe55135034f3-0_1-0-1_{instant}.parquet"


def live(ground: Ground, plan: Plan, tick: Callable[[], object] = lambda: None) -> History:
    """Live one life on a table of its own; call ``tick`` after each commit.

    An interrupt ends a life before its time: what came of it until then is returned.
    """
    life = _Life(ground, plan, tick)
    with suppress(KeyboardInterrupt):
        life.run()
    return life.history


class _Life:
    def __init__(self, ground: Ground, plan: Plan, tick: Callable[[], object]) -> None:
        self.ground, self.plan, self.tick = ground, plan, tick
        self.draw = Random(plan.seed)
        self.history = History()
        self.table = _Table(ground.new_table())
        self.writers = [_Writer(ground.mount(), number) for number in range(plan.mounts)]
        self.reader = ground.mount(reads_only=True)
        self.tried = self.fruitless = self.last = 0
        quarter = plan.commits // 4
        removals = min(max(3, plan.commits // 100), 20)
        self.removals = [quarter * (each + 1) // removals for each in range(removals)]
        self.samples = self._points()

    def run(self) -> None:
        self._make(self.writers[0].fs)
        self.ground.requests()
        self.since, self.began = 0, time.process_time()
        while self.tried < self.plan.commits and self.history.wedged < _WEDGES:
            self._turn_of(self._next())
            if self.tried in self.samples and self.tried > self.since:
                self._sample()
            if self.fruitless >= _PATIENCE:
                self._repair()

    def _points(self) -> set[int]:
        """Return after how many commits something is measured: all along, and more often before each 10^n."""
        last = self.plan.commits
        found = {last * each // 30 for each in range(1, 31)}
        power = 100
        while power <= last:
            found |= {power - power * each // 50 for each in range(10)}
            power *= 10
        return found

    # Whose turn it is, and what it does

    def _next(self) -> _Writer:
        awake = [each for each in self.writers if each.wakes <= self.tried]
        return self.draw.choice(awake) if awake else min(self.writers, key=lambda each: each.wakes)

    def _turn_of(self, writer: _Writer) -> None:
        if self.draw.random() < _RESTARTS:
            self._restart(writer)
        if self.removals and self.tried >= self.removals[0] and writer.begun is None:
            self.removals.pop(0)
            self._overwrite(writer)
        begun, writer.begun = writer.begun, None
        if begun is None:
            if not self.fruitless:
                self._roll_back(writer)
            begun = self._begin(writer)
            if begun is not None and self.draw.random() < _LONG:
                writer.begun = begun
                self._idle(writer)
                return
        if begun is not None:
            self._complete(writer, begun)
            self._attempt("archive", lambda: self._archive(writer.fs))
        self.tried += 1
        self.tick()
        writer.burst -= 1
        if writer.burst <= 0:
            self._idle(writer)

    def _idle(self, writer: _Writer) -> None:
        writer.burst = self.draw.randint(1, _BURST)
        writer.wakes = self.tried + min(self.draw.choice(_GAPS), self.plan.commits // 3)

    def _restart(self, writer: _Writer) -> None:
        self._dies(writer.begun)
        writer.begun, writer.fs = None, self.ground.mount()

    def _dies(self, begun: _Begun | None) -> None:
        if begun is not None and begun.life == self.table.life:
            self.table.dead[begun.instant] = 0

    def _attempt(self, kind: str, act: Callable[[], object], *, excused: bool = False) -> str:
        """Do it; return its outcome."""
        try:
            act()
        except OutcomeUnknown as error:
            return self._raised(kind, "unknown", error)
        except (FileExistsError, PermissionError) as error:
            return self._raised(kind, "refused" if excused else "needless", error)
        except FileNotFoundError as error:
            # What is gone with its table is gone for certain.
            return self._raised(kind, "refused" if excused else "failed", error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is counted
            return self._raised(kind, "failed", error)
        self.history.outcomes[kind, "acknowledged"] += 1
        return "acknowledged"

    def _raised(self, kind: str, outcome: str, error: Exception) -> str:
        self.history.outcomes[kind, outcome] += 1
        if outcome != "refused":
            self.history.reasons[f"{kind}: {_in_short(error)}"] += 1
        return outcome

    # Commits

    def _instant(self, writer: _Writer) -> str:
        # The right time is the store's, and no two are the same.
        self.last = max(self.last + 1, time.time_ns() // 10**6)
        if writer.number < self.plan.mounts - 1 or self.table.fast >= _UNNOTICED:
            return instant_of(self.last)
        self.table.fast += 1
        return instant_of(self.last + _FAST)

    def _begin(self, writer: _Writer) -> _Begun | None:
        fs, table = writer.fs, self.table
        instant = self._instant(writer)

        def act() -> None:
            with fs.turn(f"{table.root}/.hoodie"):
                _names(fs, table.timeline)
            with fs.turn(f"{table.root}/.hoodie"):
                fs.exists(f"{table.root}/.hoodie/hoodie.properties")
            fs.pipe_file(table.name(f"{instant}.commit.requested"), b"")
            fs.exists(table.name(f"{instant}.commit.requested"))
            fs.pipe_file(table.name(f"{instant}.inflight"), b"{}")
            fs.pipe_file(table.slice_of(instant), instant.encode())

        begun = _Begun(instant, table.life)
        if self._attempt("commit begun", act) == "acknowledged":
            return begun
        self.fruitless += 1
        self._dies(begun)
        return None

    def _complete(self, writer: _Writer, begun: _Begun) -> None:
        fs, table = writer.fs, self.table
        name, body = table.name(f"{begun.instant}_{begun.instant}9.commit"), uuid.UUID(int=self.tried).bytes

        def act() -> None:
            with fs.turn(f"{table.root}/.hoodie"):
                _names(fs, table.timeline)
                fs.exists(table.name(f"{begun.instant}.inflight"))
                fs.pipe_file(name, body)

        gone = begun.life != table.life
        outcome = self._attempt("commit", act, excused=gone)
        self._is_to_be(name, body, outcome)
        self.fruitless = 0 if outcome == "acknowledged" else self.fruitless + (not gone)
        if outcome != "acknowledged":
            self._dies(begun)

    def _is_to_be(self, name: str, body: bytes, outcome: str) -> None:
        if outcome == "acknowledged":
            self.table.there[name] = body
        elif outcome in ("unknown", "failed"):
            self.table.maybe.add(name)

    # What is done beside them

    def _roll_back(self, writer: _Writer) -> None:
        for instant in sorted(self.table.dead):
            self.table.dead[instant] += 1
            number = self._instant(writer)
            name = self.table.name(f"{number}_{number}9.rollback")

            def act(instant: str = instant, number: str = number, name: str = name) -> None:
                self._roll_back_one(writer.fs, instant, number, name)

            outcome = self._attempt("rollback", act)
            if outcome != "acknowledged":
                self.table.maybe.add(name)
            if outcome == "acknowledged" or self.table.dead[instant] > 1:
                del self.table.dead[instant]

    def _roll_back_one(self, fs: Any, instant: str, number: str, name: str) -> None:
        table = self.table
        pending, completed = _read(fs, table.timeline)
        if instant not in pending or instant in completed:
            return
        with fs.turn(f"{table.root}/.hoodie"):
            fs.pipe_file(table.name(f"{number}.rollback.requested"), plan_of(instant))
        fs.pipe_file(table.name(f"{number}.rollback.inflight"), b"")
        with fs.turn(f"{table.root}/.hoodie"):
            self._remove(fs, table.slice_of(instant))
            for rest in sorted(pending[instant], reverse=True):
                self._remove(fs, table.name(f"{instant}.{rest}"))
            fs.pipe_file(name, b"{}")
            table.there[name] = b"{}"

    def _archive(self, fs: Any) -> None:
        """Do as Hudi does when there are many completed instants, in its turn."""
        table = self.table
        with fs.turn(f"{table.root}/.hoodie"):
            pending, completed = _read(fs, table.timeline)
            if len(completed) <= _MOST:
                return
            until = min((each for each in pending if each not in completed), default="~")
            old = [each for each in sorted(completed)[: len(completed) - _LEAST] if each < until]
            if not old:
                return
            self._write_history(fs, old)
            for instant in old:
                for rest in pending.get(instant, ()):
                    self._remove(fs, table.name(f"{instant}.{rest}"))
                self._remove(fs, table.slice_of(instant))
            for instant in old:
                name = table.name(completed[instant])
                table.there.pop(name, None)
                table.maybe.add(name)
                self._remove(fs, name)
                table.maybe.discard(name)

    def _write_history(self, fs: Any, old: list[str]) -> None:
        folder = f"{self.table.timeline}/history"
        names = [each.rpartition("/")[2] for each in _names(fs, folder)]
        levels: defaultdict[int, list[str]] = defaultdict(list)
        for each in sorted(names):
            if each.endswith(".parquet"):
                levels[int(each[:-8].rpartition("_")[2])].append(each)
        manifests = sorted(int(each[9:]) for each in names if each.startswith("manifest_"))
        made = f"{old[0]}_{old[-1]}_0.parquet"
        self._publish(fs, folder, made, old, manifests, names)
        for level, files in levels.items():
            if len(files) >= _MERGED:
                merged = f"{files[0].partition('_')[0]}_{files[-1].split('_')[1]}_{level + 1}.parquet"
                fs.pipe_file(f"{folder}/{merged}", b"merged")
                for one in files:
                    self._remove(fs, f"{folder}/{one}")

    def _publish(
        self, fs: Any, folder: str, made: str, old: list[str], manifests: list[int], names: list[str]
    ) -> None:
        number = manifests[-1] + 1 if manifests else 1
        if made not in names:
            fs.pipe_file(f"{folder}/{made}", "".join(old).encode())
        fs.exists(f"{folder}/manifest_{number}")
        fs.pipe_file(f"{folder}/manifest_{number}", b"{}")
        self._remove(fs, f"{folder}/_version_")
        fs.pipe_file(f"{folder}/_version_", str(number).encode())
        for each in manifests[: 1 - _MANIFESTS]:
            self._remove(fs, f"{folder}/manifest_{each}")

    @staticmethod
    def _remove(fs: Any, name: str) -> None:
        if fs.exists(name):
            fs.rm_file(name)

    def _overwrite(self, writer: _Writer) -> None:
        """Remove the table, and begin a new one in its place."""
        remove = self.draw.choice((self._remove_through, self._remove_around))
        self._attempt("overwrite", lambda: remove(writer.fs))
        self.table = _Table(self.table.root, self.table.life + 1)
        self._attempt("overwrite", lambda: self._make(writer.fs))

    def _remove_through(self, fs: Any) -> None:
        fs.rm(self.table.root, recursive=True)

    def _remove_around(self, _: Any) -> None:
        # A mount prunes its ledger meanwhile, and some filesystems stop at what is gone already.
        while self.ground.around.exists(self.table.root):
            with suppress(FileNotFoundError):
                self.ground.around.rm(self.table.root, recursive=True)

    def _make(self, fs: Any) -> None:
        fs.makedirs(f"{self.table.timeline}/history", exist_ok=True)
        fs.makedirs(f"{self.table.root}/dt=1", exist_ok=True)
        fs.pipe_file(f"{self.table.root}/.hoodie/hoodie.properties", _PROPERTIES)

    def _repair(self) -> None:
        """Do what somebody has to when nobody can commit any more: go on with another table, all anew."""
        self.history.wedged += 1
        self.fruitless = 0
        self.table = _Table(self.ground.new_table(), self.table.life + 1)
        for each in self.writers:
            each.fs, each.begun = self.ground.mount(), None
        self.reader = self.ground.mount(reads_only=True)
        self._attempt("overwrite", lambda: self._make(self.writers[0].fs))

    # What is seen

    def _sample(self) -> None:
        _settle()
        commits, seconds = self.tried - self.since, time.process_time() - self.began
        spent = self.ground.requests()
        fresh = self.ground.mount()
        first_seconds = self._cpu(lambda: self._check(fresh))
        start_up = self.ground.requests()
        ls_seconds = self._cpu(lambda: _names(fresh, self.table.timeline))
        ls = self.ground.requests()
        self._attempt("read without rights", lambda: self._check(self.reader, bodies=True))
        if self.ground.refuses:
            self._attempt("write without rights", self._write_without_rights, excused=True)
        kept = self.ground.kept(self.table.root)
        self.history.samples.append(
            Sample(
                *(self.tried, *kept, spent / commits, ls, start_up),
                *(seconds / commits, ls_seconds, first_seconds),
            )
        )
        self.ground.requests()
        self.since, self.began = self.tried, time.process_time()

    def _cpu(self, act: Callable[[], object]) -> float:
        """Read; return how many seconds of this process's own that took."""
        began = time.process_time()
        self._attempt("read", act)
        return time.process_time() - began

    def _check(self, fs: Any, *, bodies: bool = False) -> None:
        """Compare what is listed, and some of the bytes, with what was acknowledged."""
        table, history = self.table, self.history
        listed = {
            each.lstrip("/")
            for each in _names(fs, table.timeline)
            if _COMPLETED.fullmatch(each.rpartition("/")[2])
        }
        there = {each.lstrip("/"): each for each in table.there}
        for each in sorted(there.keys() - listed):
            history.lost.append(each)
            del table.there[there[each]]
        for each in sorted(listed - there.keys() - {name.lstrip("/") for name in table.maybe}):
            history.ghosts.append(each)
            table.maybe.add(each)
        for each in sorted(table.there)[-3:] if bodies else ():
            if fs.cat_file(each) != table.there[each]:
                history.changed.append(each)

    def _write_without_rights(self) -> None:
        name = self.table.name(f"{self._instant(self.writers[0])}.commit.requested")
        self.reader.pipe_file(name, b"")
        raise OSError(f"{name} was written by who has no right to")


def _read(fs: Any, timeline: str) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return, by instants, how the names of what is pending end, and the completed names."""
    pending: defaultdict[str, list[str]] = defaultdict(list)
    completed: dict[str, str] = {}
    for each in _names(fs, timeline):
        last = each.rpartition("/")[2]
        if found := _COMPLETED.fullmatch(last):
            completed[found["instant"]] = last
        elif found := _PENDING.fullmatch(last):
            pending[found["instant"]].append(found["rest"])
    return pending, completed


def _settle() -> None:
    """Wait for what mounts remove in the background: it is of the commits before, not of the next listing."""
    for each in threading.enumerate():
        if each.name == "putifabsent-prune":
            each.join()


def _names(fs: Any, folder: str) -> list[str]:
    """List a folder; where folders are nothing but their files, an empty one is not there."""
    try:
        return list(fs.ls(folder, detail=False))
    except FileNotFoundError:
        return []


def _in_short(error: BaseException) -> str:
    """Return what kind of error it is, without the names in it."""
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    return f"{type(error).__name__}: {re.sub(r'[0-9a-f]{8}-[0-9a-f-]+|[0-9]+', '#', str(reason))[:90]}"
