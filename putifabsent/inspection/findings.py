"""What can be wrong with a table: each kind by its name, with what it means and what to do.

And what the inspections of all formats have in common: what they are given, and what they return.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from putifabsent.shim.formats.hudi import SAVEPOINT
from putifabsent.timeline import Problem, Trouble
from putifabsent.timeline.files import below

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

_SIDE_BY_SIDE = 32


class Severity(str, Enum):
    """How much a finding proves."""

    DAMAGE = "damage"  # the table's own files prove that something is lost, ambiguous or unreadable
    NOTICE = "notice"  # it may be so, or become so: these files alone don't prove it


class Meaning(NamedTuple):
    """What a kind of finding is."""

    severity: Severity  # of most findings of this kind
    formats: tuple[str, ...]  # where there is such a thing
    means: str  # what has happened, and what it does to readers
    do: str  # what to do about it


_HUDI, _PAIMON, _DELTA, _ICEBERG = ("hudi",), ("paimon",), ("delta",), ("iceberg",)
_ALL = (*_HUDI, *_PAIMON, *_DELTA, *_ICEBERG)
_DAMAGE, _NOTICE = Severity.DAMAGE, Severity.NOTICE


def _kind(
    name: str, severity: Severity, formats: tuple[str, ...], means: str, do: str
) -> tuple[str, Meaning]:
    return name, Meaning(severity, formats, means, do)


class Kind(str, Enum):
    """What is wrong, and what that means."""

    meaning: Meaning

    def __new__(cls, name: str, meaning: Meaning) -> Self:
        kind = str.__new__(cls, name)
        kind._value_, kind.meaning = name, meaning
        return kind

    # fmt: off
    COLLIDING_INSTANTS = _kind("colliding-instants", _DAMAGE, _HUDI,
        "Two writers have completed one instant: both commits were acknowledged. Readers count one of "
        "them, or mix them",
        "Stop the writers. Read the files that both instants name, write what is missing again, and give "
        "the writers instants that can't collide",
    )
    CONTESTED_INSTANT = _kind("contested-instant", _DAMAGE, _HUDI,
        "One instant is requested by two actions: whoever completes it first takes it from the other",
        "Stop the writers, roll back the one that is pending, and give the writers instants that can't "
        "collide",
    )
    ORPHANED_SLICE = _kind("orphaned-slice", _DAMAGE, _HUDI,
        "A slice bears a completed instant that does not name it: what another writer committed under the"
        " same instant, or a late attempt. Readers that go by the instant don't see it; readers that list"
        " files do",
        "Read the slice: rows that are nowhere else were lost, and must be written again. Then remove it",
    )
    RIVAL_SLICES = _kind("rival-slices", _DAMAGE, _HUDI,
        "Two slices of one file group and instant, by two writers or two attempts: which of them is read "
        "is left to chance",
        "Compare them; keep the one that the instant names, and write again what only the other has",
    )
    ABANDONED_SLICE = _kind("abandoned-slice", _DAMAGE, _HUDI,
        "A slice of an instant that nobody completed and nobody is at. Once the active timeline begins "
        "after it, readers that list files take it for committed",
        "Make sure that its rows are not wanted, and remove it",
    )
    UNDONE_INSTANT = _kind("undone-instant", _DAMAGE, _HUDI,
        "An instant was rolled back, and is completed all the same: its writer was taken for dead, and its "
        "commit was acknowledged",
        "Write its rows again: the rollback has removed its files. Guard the table, so that who is rolled"
        " back can't complete",
    )
    HIDDEN_ROWS = _kind("hidden-rows", _DAMAGE, _HUDI,
        "A file group without base files begins with a log file that no completed instant wrote, as a failed "
        "non-blocking writer leaves it. Readers up to Hudi 1.2.0 pass over the file group, and over all that "
        "was committed to it",
        "Roll that instant back; if the timeline has none of it, stop the writers and remove the log file: "
        "the rows are there again",
    )
    LOST_UPDATE = _kind("lost-update", _DAMAGE, _ALL,
        "Two commits started out from the same state, and the later one has not seen what the earlier one"
        " changed: the earlier one's changes are gone, or are there twice",
        "Go back to the version before (time travel, or a clone) and write both changes again, one after "
        "the other",
    )
    DANGLING_REFERENCE = _kind("dangling-reference", _DAMAGE, _ALL,
        "The table counts on a file that is not there, and that nothing in its timeline says was removed:"
        " readers fail, or miss its rows",
        "Restore the file from the store's own versions or a copy. Else write its rows again, or go back "
        "to a version without it",
    )
    EXPIRING = _kind("expiring", _NOTICE, _PAIMON,
        "Files are gone that only older snapshots need: an expiry of snapshots, which removes their files "
        "first, is under way, or was killed. Readers of these snapshots fail",
        "Nothing, where snapshots expire: the next expiry removes the rest. Else restore the file",
    )
    DANGLING_VECTOR = _kind("dangling-vector", _DAMAGE, (*_PAIMON, *_ICEBERG),
        "A deletion vector, or a file of deleted rows, is for a data file that its snapshot no longer has: "
        "what was deleted in it is back, in the file that a compaction made of it",
        "Delete these rows again",
    )
    GAP = _kind("gap", _DAMAGE, (*_PAIMON, *_DELTA, *_ICEBERG),
        "A number is missing among those that are there, where expiry takes away only the oldest ones: a "
        "commit is gone",
        "Restore the file from the store's own versions or a copy. Without it, go back to the version "
        "before the gap",
    )
    REPEATED_COMMIT = _kind("repeated-commit", _DAMAGE, (*_PAIMON, *_DELTA, *_ICEBERG),
        "One commit is there twice, under two numbers: the first one had succeeded, and was not "
        "acknowledged. Its rows may count twice",
        "Look for rows that are there twice, and delete them once; or go back to the version before the "
        "second",
    )
    COPIED_RECORD = _kind("copied-record", _DAMAGE, (*_PAIMON, *_DELTA),
        "A file is another record's, byte for byte or by its own number: a tool has copied it. Readers of "
        "its number get the other's state, and a writer may take the number for used",
        "If no version of the file was ever another, remove the copy, with all writers stopped. Otherwise "
        "restore what was there",
    )
    OVERWRITTEN_COMMIT = _kind("overwritten-commit", _DAMAGE, _DELTA,
        "The checksum beside a commit is another transaction's: somebody has written over the commit that"
        " it was made for",
        "Find the overwritten transaction's data files, which no commit names, and add their rows again",
    )
    INVALID_STEP = _kind("invalid-step", _DAMAGE, _HUDI,
        "An instant has come to its state by a step that Hudi does not have: somebody else has changed "
        "the timeline",
        "Find out who writes to the timeline's folder. Hudi's own rollback of the instant may fail for "
        "want of a plan",
    )
    BACKWARDS = _kind("completed-before-requested", _DAMAGE, (*_HUDI, *_DELTA),
        "By its own times it was completed before it began: a writer's clock was wrong, or a number was "
        "used again. Incremental readers, which go by these times, pass it over",
        "Set the writers' clocks right, or let one source give all times. Read increments again from "
        "before this one",
    )
    EMPTY = _kind("empty", _DAMAGE, _ALL,
        "A file that its format never writes empty has no bytes: its writer died, or the store lost them",
        "If its commit was not acknowledged, remove it; else restore it from the store's own versions or a "
        "copy",
    )
    UNREADABLE = _kind("unreadable", _DAMAGE, _ALL,
        "A file is torn, or is not what its name says: its content is not known",
        "Restore it from the store's own versions or a copy",
    )
    RESIZED = _kind("resized", _NOTICE, (*_PAIMON, *_DELTA, *_ICEBERG),
        "A data file has another size than its commit says: somebody has written over it, or its writer "
        "has written down another one, as Iceberg's before 0.11 did. Readers that go by it may fail",
        "Read the file. If its rows are not those of its commit, restore it from the store's own versions or "
        "a copy",
    )
    MISSING_HISTORY = _kind("missing-history", _DAMAGE, _HUDI,
        "A manifest of the history names a file that is not there: the instants in it are forgotten",
        "Restore the file from the store's own versions or a copy; readers of old versions and of "
        "increments want it",
    )
    UNKNOWN_RECORD = _kind("unknown-record", _NOTICE, (*_HUDI, *_PAIMON, *_ICEBERG),
        "A record of the history, or a manifest, is of a kind that is not known here, or encrypted, and was "
        "not looked at",
        "Look at the table with a newer putifabsent",
    )
    PENDING_UNDO = _kind("pending-undo", _NOTICE, _HUDI,
        "A rollback or a restore was begun and is not completed: somebody is at it, or has died. Until it"
        " is, a restored table is neither what it was nor what it shall be",
        "If nobody is at it, start it again: Hudi's next writer completes a rollback of what has failed; "
        "another one, and a restore, must be called again",
    )
    # fmt: on


MEANINGS = {each: each.meaning for each in Kind}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with a table."""

    kind: Kind
    names: tuple[str, ...]  # the files, or the instants, that it is about
    detail: str  # what was seen, in a sentence
    severity: Severity
    # The instants' times, or the numbers, that it is about: as pictures mark them.
    moments: tuple[str, ...] = ()
    # Of the format's own tools, which mend it; none, where there are none, it is not sure that they do, or
    # they would take back too much.
    commands: tuple[str, ...] = ()

    @property
    def means(self) -> str:
        return self.kind.meaning.means

    @property
    def do(self) -> str:
        return self.kind.meaning.do

    def row(self) -> dict[str, object]:
        return {
            "kind": self.kind.value,
            "severity": self.severity.value,
            "names": list(self.names),
            "detail": self.detail,
            "means": self.means,
            "do": self.do,
            "commands": list(self.commands),
        }


def found(
    kind: Kind,
    names: tuple[str, ...] | list[str],
    detail: str,
    *,
    moments: tuple[str, ...] = (),
    severity: Severity | None = None,
) -> Finding:
    """Return a finding; its severity is its kind's unless it is given."""
    return Finding(kind, tuple(names), detail, severity or kind.meaning.severity, moments)


class Files(NamedTuple):
    """The files that are there; also by their last components, for formats that give each a UUID."""

    paths: Mapping[str, int | None]  # with how many bytes each has; None: the store doesn't say
    lasts: Mapping[str, str]


Look: TypeAlias = Callable[[str, Collection[str]], Files]
"""Lists the files in a folder, but those in some folders of it."""


@dataclass
class Base:
    """A table that a commit is to change, as it is then; threads may call its filesystem."""

    fs: Any
    root: str
    # What a format's rules have read of it, of which nothing ever changes: what its newest state leads to.
    memory: Any = None
    remembered: int = 0  # of so many records there is something in the memory
    until: float = inf  # when files are no longer asked for, by the monotonic clock

    def absent(self, paths: Mapping[T, str]) -> list[T]:
        """Return which files, whose paths are from the table's root, are not there, as far as time allows."""
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            there = pool.map(self._is_there, paths.values())
            return [key for key, is_there in zip(paths, there, strict=True) if not is_there]

    def _is_there(self, path: str) -> bool:
        if monotonic() > self.until:
            return True
        full = below(self.root, path)
        self.fs.invalidate_cache(full.rpartition("/")[0])  # it may have been removed since it was listed
        try:
            self.fs.info(full)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True


class Result(NamedTuple):
    """A table, as it was seen once."""

    version: str
    records: Sequence[Any]
    findings: Sequence[Finding]


_KINDS = {
    Trouble.EMPTY: Kind.EMPTY,
    Trouble.UNREADABLE: Kind.UNREADABLE,
    Trouble.COPIED: Kind.COPIED_RECORD,
    Trouble.UNKNOWN: Kind.UNKNOWN_RECORD,
}


def many(things: Collection[object], kind: str) -> str:
    return f"a {kind}" if len(things) == 1 else f"{len(things):,} {kind}s"


def count_of(names: Collection[object], kind: str = "file") -> str:
    """Return how many files are, as the beginning of what is said of them."""
    return f"{many(names, kind)} that {'is' if len(names) == 1 else 'are'}"


def missing(kind: str, gap: range) -> tuple[tuple[int, ...], str]:
    """Return the ends of a run of numbers, each once, and the beginning of a sentence about it."""
    if gap[0] == gap[-1]:  # it may be too long for `len`
        return (gap[0],), f"{kind} {gap[0]} is missing"
    return (gap[0], gap[-1]), f"{kind}s {gap[0]} to {gap[-1]} are missing"


def read_errors(problems: Iterable[Problem], missing: Kind) -> list[Finding]:
    """Return a finding for each file that can't be read; ``missing`` is the kind of one that isn't there."""
    return [
        found(_KINDS.get(each.trouble, missing), (each.path,), f"{each.path}: {each.reason}")
        for each in problems
    ]


def gaps_in(numbers: Iterable[int]) -> Iterator[range]:
    """Return the runs of numbers that are missing between the lowest one and the highest one."""
    there = sorted(set(numbers))
    for before, after in pairwise(there):
        if after > before + 1:
            yield range(before + 1, after)


def ancestors(head: int | None, parents: Mapping[int, int | None]) -> Iterator[int]:
    """Return a snapshot and those that it came upon, the newest one first, as far as they are listed."""
    rest = dict(parents)
    while head is not None and head in rest:
        yield head
        head = rest.pop(head)


# --- data files, and the sizes that their commits say; the listing has said how large they are
#
# What is too small may be whole all the same: some writers have written down too much, as Iceberg's before
# 0.11 (apache/iceberg#1980). So its end is looked at. What is too large is not cut off: clients that encrypt
# files make them larger behind the format's back.

_END = 4
_ENDS = {"parquet": (b"PAR1", b"PARE"), "orc": (b"ORC",), "puffin": (b"PFA1",)}
"""How files end, or begin to, four bytes before their end; those of other kinds may end anyhow."""
_MOST = 256
"""So many ends are looked at."""
_WHAT = {
    Kind.EMPTY: "has no bytes",
    Kind.UNREADABLE: "is cut off",
    Kind.RESIZED: "has another size than its commit says",
}


class Recorded(NamedTuple):
    """What a commit says of a file."""

    size: int  # bytes; 0: it doesn't say
    moment: str  # the commit, as pictures mark it; empty: that is not known


def odd_sizes(
    fs: Any, recorded: Mapping[str, Recorded], there: Mapping[str, int | None], *, appended: bool = False
) -> Iterator[Finding]:
    """Find files whose sizes are not what was ``recorded``, by their full names.

    ``appended``: files grow after that, and what was recorded is what the store had said; so none is ever
    smaller.
    """
    small: list[str] = []
    odd: dict[Kind, list[str]] = defaultdict(list)
    for path, (size, _) in recorded.items():
        is_now = there.get(path) if size else None
        if is_now is None:
            continue
        if not is_now:
            odd[Kind.EMPTY].append(path)
        elif is_now < size:
            small.append(path)
        elif is_now > size and not appended:
            odd[Kind.RESIZED].append(path)
    torn = set(small) if appended else _torn(fs, small, there)
    for path in small:
        odd[Kind.UNREADABLE if path in torn else Kind.RESIZED].append(path)
    for kind, paths in odd.items():
        first, more = paths[0], f", and so {len(paths) - 1:,} more" if paths[1:] else ""
        sizes = f"{there[first]:,} bytes, not {recorded[first].size:,}"
        moments = dict.fromkeys(recorded[each].moment for each in paths)
        yield found(
            kind,
            paths,
            f"data file {first} {_WHAT[kind]}: {sizes}{more}",
            moments=tuple(each for each in moments if each),
        )


def _torn(fs: Any, paths: Collection[str], there: Mapping[str, int | None]) -> set[str]:
    """Return files that lack their end, as far as these can be read and are not too many."""
    known = [path for path in paths if path.rpartition(".")[2] in _ENDS][:_MOST]
    ends = [there[path] or 0 for path in known]
    starts = [max(end - _END, 0) for end in ends]
    read = fs.cat_ranges(known, starts, ends, on_error="return") if known else ()
    return {
        path
        for path, end in zip(known, read, strict=True)
        if isinstance(end, bytes) and not end.startswith(_ENDS[path.rpartition(".")[2]])
    }


# --- the commands of a format's own tools that mend what was found: Spark SQL, ready to be run
#
# All of them go back to the state before a commit, or take back the newest one. What was committed since is
# to be written again. Sources: Delta's ``RESTORE``; the procedures of Iceberg, Paimon and Hudi for Spark.


_Back: TypeAlias = tuple[str, int]
"""A way back to before some damage, and how many commits it takes back that the damage is not about."""

_GOING_BACK = frozenset(
    (Kind.LOST_UPDATE, Kind.DANGLING_REFERENCE, Kind.DANGLING_VECTOR, Kind.REPEATED_COMMIT)
)
_IN_DATABASE = re.compile(r".*?([^/]+)\.db/([^/]+)")
_OF_BRANCH = "/branch/branch-"
_SCHEMES = {"s3": "s3a", "gcs": "gs", "az": "abfss", "abfs": "abfss", "local": "file"}
"""As Spark calls them."""


def mended(format: str, url: str, finding: Finding, records: Sequence[Any]) -> Finding:  # noqa: A002
    """Return a table's finding with the command that mends it, if any, and with what that takes back, too."""
    is_sure = finding.severity is Severity.DAMAGE and finding.kind in _GOING_BACK and finding.moments
    back = _WAYS_BACK[format](url, finding, records) if is_sure else None
    if back is None:
        return finding
    command, along = back
    if along == 0:
        return replace(finding, commands=(command,))
    commits = many(range(along), "later commit")
    detail = f"{finding.detail}; going back to before it takes back {commits}, too"
    # That is too much for a file, which can be restored, or its rows be written again.
    commands = () if finding.kind is Kind.DANGLING_REFERENCE else (command,)
    return replace(finding, detail=detail, commands=commands)


def _along(before: int, finding: Finding, records: Sequence[Any]) -> int:
    return sum(each.number > before and str(each.number) not in finding.moments for each in records)


def _delta(url: str, finding: Finding, records: Sequence[Any]) -> _Back | None:
    numbers = sorted(map(int, finding.moments))
    # Of a commit that is there twice, the first one stays.
    before = numbers[1 if finding.kind is Kind.REPEATED_COMMIT else 0] - 1
    command = f"RESTORE TABLE delta.`{_address(url)}` TO VERSION AS OF {before}"
    return None if before < 0 else (command, _along(before, finding, records))


def _address(url: str) -> str:
    """Return an address as Spark knows it."""
    scheme, found, path = url.rpartition("::")[2].removeprefix("pia").partition("://")
    if not found:
        return url
    scheme = _SCHEMES.get(scheme, scheme)
    container, slash, inside = path.partition("/")
    if scheme == "abfss" and "@" not in container:
        path = f"{container}@<account>.dfs.core.windows.net{slash}{inside}"
    return f"{scheme}://{path}"


def _paimon(url: str, finding: Finding, records: Sequence[Any]) -> _Back | None:
    first = min(map(int, finding.moments))
    by_number = {each.number: each for each in records if not each.archived}

    def appended(number: int) -> int | None:
        """Return the snapshot that has added what a compaction of the same commit may have moved."""
        this, other = by_number.get(number), by_number.get(number - 1)
        is_one = this and other and (this.user, this.identifier) == (other.user, other.identifier)
        return number - 1 if is_one and other and other.action == "APPEND" else None

    # Rolling back removes what a compaction has moved to another level, though older snapshots have it.
    compactions = [each for each in by_number if each >= first and by_number[each].action == "COMPACT"]
    before = (appended(first) or first) - 1 if first in compactions else first - 1
    if any((appended(each) or 0) <= before for each in compactions):
        return None
    if _OF_BRANCH in url or before not in by_number:
        return None
    found = _IN_DATABASE.fullmatch(url.rstrip("/"))
    table = f"{found[1]}.{found[2]}" if found else "<database>.<table>"
    command = f"CALL <catalog>.sys.rollback(table => '{table}', version => '{before}')"
    return command, _along(first - 1, finding, records)


def _iceberg(_: str, finding: Finding, records: Sequence[Any]) -> _Back | None:
    """Go back from the current snapshot: what another branch has stays as it is."""
    by_id = {each.id: each for each in records}
    current = next((each.id for each in records if each.current), None)
    line = [by_id[each] for each in ancestors(current, {each.id: each.parent for each in records})]
    hurt = [place for place, each in enumerate(line) if str(each.number) in finding.moments]
    if not hurt or hurt[-1] + 1 == len(line):
        return None
    parent = line[hurt[-1] + 1].id
    return f"CALL <catalog>.system.rollback_to_snapshot('<database>.<table>', {parent})", hurt[-1]


def _hudi(_: str, finding: Finding, records: Sequence[Any]) -> _Back | None:
    newest = max((each.time for each in records if each.ended_at is not None), default="")
    # Only the newest can be taken back, and nothing that a savepoint keeps.
    is_saved = any(each.time == newest and each.action == SAVEPOINT for each in records)
    if newest not in finding.moments or is_saved:
        return None
    return f"CALL rollback_to_instant(table => '<table>', instant_time => '{newest}')", 0


_WAYS_BACK: dict[str, Callable[[str, Finding, Sequence[Any]], _Back | None]] = {
    "delta": _delta,
    "hudi": _hudi,
    "iceberg": _iceberg,
    "paimon": _paimon,
}
