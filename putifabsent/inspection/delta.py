"""Inspects a Delta table: what its log adds and removes, commit by commit; also what one is about to."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from putifabsent.inspection.findings import (
    Base,
    Finding,
    Kind,
    Look,
    Recorded,
    Result,
    Severity,
    count_of,
    found,
    gaps_in,
    missing,
    odd_sizes,
    read_errors,
)
from putifabsent.shim.formats.delta import (
    Added,
    Logical,
    added_by,
    checksum_of,
    is_address,
    logical,
    number_in,
)
from putifabsent.timeline.delta import Checkpoint, Proof, checkpoints, files_in, is_staged, parsed, proof_in
from putifabsent.timeline.files import below, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from putifabsent.shim.names import Name
    from putifabsent.timeline import Commit, DeltaTimeline, Problems

_LOG = "_delta_log"
_AT_ONCE = 16
_MOST = 256
"""So many commits, the newest ones, are read that were made since the version that a commit has read."""


def judge(timeline: DeltaTimeline, look: Look | None) -> Result:
    """Return what is wrong with a Delta table; None for ``look``: its data files are not looked at."""
    problems: Problems = []
    log = below(timeline.root, _LOG)
    proof = proof_in(timeline.fs, log)  # before the log: what is committed meanwhile is not lost
    commits = list(timeline.active(problems=problems))
    known = _Checkpoints(timeline.fs, log, problems)
    unread = [number for each in problems if (number := number_in(each.path.rpartition("/")[2])) is not None]
    numbers = sorted((*(each.number for each in commits), *unread))
    newest = max(numbers, default=-1)
    lost = proof if proof and proof.number > newest else None
    if lost is not None and is_staged(timeline.fs, log, newest):
        lost = None
    by_number = {each.number: each for each in commits}
    began, files = known.begun(list(by_number))
    play = _Play(files)
    findings = [
        *_gaps(timeline, [*numbers, lost.number + 1] if lost else numbers, known, lost),
        *_repeated(commits),
        *_backwards(commits),
        *_overwritten(timeline, commits),
    ]
    bodies: dict[str, int] = {}
    for number, actions in timeline.actions(by_number):
        findings += _copied(by_number, bodies, number, actions)
        findings += play.commit(by_number[number], actions, counts=number >= began)
    findings += read_errors(problems, Kind.DANGLING_REFERENCE)
    if look is not None:
        there = look(timeline.root, (_LOG,)).paths
        wanted = play.wanted()
        # A commit that is missing, can't be read, or only a catalog has, may have removed what is not there.
        last = lost.number if lost else newest
        is_whole = sum(number >= began for number in by_number) == max(last + 1 - began, 0)
        is_proof = is_whole and not (
            any(below(timeline.root, each) not in there for each in wanted)
            and is_staged(timeline.fs, log, newest)
        )
        findings += _dangling(wanted, there.__contains__, timeline.root, is_proof=is_proof)
        sizes = {below(timeline.root, path): each for path, each in play.sizes().items()}
        findings += odd_sizes(timeline.fs, sizes, there)
    return Result(play.version, commits, findings)


def hurts(base: Base, name: Name, written: bytes) -> list[Finding]:
    """Return what a commit would do to its table that is to be created."""
    number = number_in(name.path.rpartition("/")[2])
    problems: Problems = []
    own = None if number is None else parsed(number, name.path, written, problems)
    if number is None or own is None:
        # Readers built on Delta's kernel open no table with an empty entry; what else isn't known, passes:
        # https://github.com/delta-io/delta-kernel-rs/pull/2336
        return [each for each in read_errors(problems, Kind.UNREADABLE) if each.kind is Kind.EMPTY]
    this, actions = own
    play = _Play(None)
    if this.read is not None:
        log = below(base.root, _LOG)
        since = {
            below(log, f"{each:020d}.json"): each
            for each in range(max(this.read + 1, number - _MOST), number)
        }
        for first in range(0, len(since), _AT_ONCE):
            for path, body in read(base.fs, list(since)[first : first + _AT_ONCE]):
                if (other := parsed(since[path], path, body, [])) is not None:
                    list(play.commit(*other, counts=False))
    findings = [*_backwards([this]), *play.commit(this, actions, counts=True)]
    wanted = play.wanted()
    named = {each: each for each in wanted}
    absent = {below(base.root, each) for each in base.absent(named)}
    return [*findings, *_dangling(wanted, lambda path: path not in absent, base.root, is_proof=True)]


class _Checkpoints:
    """The checkpoints of a log, all whose files are there, the oldest one first."""

    def __init__(self, fs: Any, log: str, problems: Problems) -> None:
        self._read = partial(files_in, fs, log, problems=problems)
        self.all = checkpoints(fs, log)
        self._files: dict[Checkpoint, dict[str, Added]] = {}
        self.newest = -1  # the newest one that can be read, with which readers begin; -1: there is none
        for each in reversed(self.all):
            if each.number < self.newest:
                break
            if (files := self._read(each)) is not None:
                self.newest = each.number
                self._files = {each: files}

    def begun(self, numbers: Sequence[int]) -> tuple[int, dict[str, Added] | None]:
        """Return from which commit on those that can be read tell what the table has; and what it had before.

        That is the oldest checkpoint from which on no commit is missing, so that as many as possible tell who
        has added what. One behind which the log has lost its end tells all by itself.
        """
        first = numbers[0] if numbers else self.newest + 1
        least = [gap[-1] for gap in gaps_in([*numbers, self.newest + 1]) if gap[-1] <= self.newest]
        for each in self.all if first or least else ():
            if max([first - 1, *least]) <= each.number <= self.newest:
                files = self._files.get(each) or self._read(each)
                if files is not None:
                    return each.number + 1, files
        return first, None


def _gaps(
    timeline: DeltaTimeline,
    numbers: Sequence[int],
    known: _Checkpoints,
    lost: Proof | None,
) -> Iterator[Finding]:
    """Find commits that are missing: between others, before them, or up to the one that is ``lost``."""
    newest = known.newest
    gaps = list(gaps_in(numbers))
    # Delta refuses a checkpoint without a commit from its version on: "Could not find any delta files".
    is_bare = lost is not None and max(numbers[:-1], default=-1) < newest
    if lost is not None and len(numbers) == 1:
        gaps.append(range(max(newest, 0), numbers[0]))
    elif numbers and numbers[0] > 0 and not any(each.number >= numbers[0] - 1 for each in known.all):
        gaps.insert(0, range(numbers[0]))
    for gap in gaps:
        # What a checkpoint holds is wanted for time travel alone.
        is_held = gap[-1] <= newest
        ends, what = missing("commit", gap)
        names = [below(timeline.root, f"{_LOG}/{number:020d}.json") for number in ends]
        whose = "it" if len(ends) == 1 else "they"
        held = f"{f'checkpoint {newest}' if is_held else 'no checkpoint'} holds what {whose} did"
        is_unread = is_bare and is_held and newest in gap
        if is_unread:
            held += ", which is not read without a commit beside it"
        if lost is not None and lost.number in gap:
            names.append(lost.path)
            held += f"; {lost.path.rpartition('/')[2]} shows that there was commit {lost.number}"
        yield found(
            Kind.GAP,
            names,
            f"{what}, and {held}",
            severity=Severity.NOTICE if is_held and not is_unread else Severity.DAMAGE,
            moments=tuple(map(str, ends)),
        )


def _repeated(commits: Iterable[Commit]) -> Iterator[Finding]:
    by_transaction: dict[str, list[Commit]] = defaultdict(list)
    for each in commits:
        if each.transaction:
            by_transaction[each.transaction].append(each)
    for transaction, several in by_transaction.items():
        if len(several) > 1:
            numbers = tuple(str(each.number) for each in several)
            detail = f"commits {' and '.join(numbers)} are the same transaction, {transaction}"
            yield found(Kind.REPEATED_COMMIT, [each.path for each in several], detail, moments=numbers)


def _copied(
    commits: Mapping[int, Commit], bodies: dict[str, int], number: int, actions: Sequence[Mapping[str, Any]]
) -> Iterator[Finding]:
    """Compare a commit with those before it; one that names its transaction is judged by that.

    One file is added once, however many commits say so: that proves no harm. Actions alone may be alike.
    """
    commit = commits[number]
    if commit.transaction or commit.millis is None:
        return
    other = bodies.setdefault(sha256(json.dumps(actions, sort_keys=True).encode()).hexdigest(), number)
    if other != number:
        detail = f"commit {number} is commit {other} once more, and names no transaction"
        paths = (commits[other].path, commit.path)
        moments = (str(other), str(number))
        yield found(Kind.COPIED_RECORD, paths, detail, severity=Severity.NOTICE, moments=moments)


def _backwards(commits: Iterable[Commit]) -> Iterator[Finding]:
    for each in commits:
        if each.read is not None and each.read >= each.number:
            detail = f"commit {each.number} says that it has read version {each.read}"
            yield found(Kind.BACKWARDS, (each.path,), detail, moments=(str(each.number),))


def _overwritten(timeline: DeltaTimeline, commits: Iterable[Commit]) -> Iterator[Finding]:
    """Compare commits with the checksums beside them: whoever wrote one says which transaction it was."""
    by_checksum = {checksum_of(each.path): each for each in commits if each.transaction}
    for path, written in read(timeline.fs, list(by_checksum)):
        commit = by_checksum[path]
        transaction = _transaction_in(written)
        if transaction not in (None, commit.transaction):
            detail = (
                f"commit {commit.number} is transaction {commit.transaction}, its checksum {transaction}'s"
            )
            yield found(Kind.OVERWRITTEN_COMMIT, (commit.path, path), detail, moments=(str(commit.number),))


def _transaction_in(checksum: bytes) -> str | None:
    try:
        transaction = json.loads(checksum).get("txnId")
        return str(transaction) if transaction else None
    except (AttributeError, TypeError, ValueError):
        return None  # a torn checksum is made anew


class _Play:
    """The log, played commit by commit, from the files and deletion vectors that the table had."""

    def __init__(self, before: Mapping[str, Added] | None) -> None:
        # With the commits that have added them; None: that is not known.
        self._files: dict[str, tuple[Added, int | None]] = {
            path: (added, None) for path, added in (before or {}).items()
        }
        self.version = "protocol unknown"
        self._removed: dict[Logical, int] = {}

    def commit(
        self, commit: Commit, actions: Sequence[Mapping[str, Any]], *, counts: bool
    ) -> Iterator[Finding]:
        """Play a commit; ``counts``: what it adds is not in the checkpoint that was begun with."""
        removed = [logical(action) for each in actions if (action := each.get("remove"))]
        added = {logical(action): added_by(action) for each in actions if (action := each.get("add"))}
        yield from self._lost(commit, removed)
        self._removed.update(dict.fromkeys(removed, commit.number))
        for each in added:
            self._removed.pop(each, None)
        if counts:
            for each in removed:
                self._files.pop(each.path, None)
            self._files.update((each.path, (of, commit.number)) for each, of in added.items())
        for protocol in (action for each in actions if (action := each.get("protocol"))):
            reader, writer = protocol.get("minReaderVersion"), protocol.get("minWriterVersion")
            self.version = f"protocol {reader}, {writer}"

    def wanted(self) -> dict[str, int | None]:
        """Return where the files lie that the table has, from its root, with the commits that added them."""
        data = {path: by for path, (_, by) in self._files.items() if not is_address(path)}
        return data | {of.vector: by for of, by in self._files.values() if of.vector is not None}

    def sizes(self) -> dict[str, Recorded]:
        """Return how large the data files are said to be that the table has, by their paths from its root."""
        return {
            path: Recorded(of.size, "" if by is None else str(by))
            for path, (of, by) in self._files.items()
            if not is_address(path)
        }

    def _lost(self, commit: Commit, removed: Iterable[Logical]) -> Iterator[Finding]:
        """Find files that were gone when a commit took them away, and that it had read as there."""
        taken: dict[int, list[str]] = defaultdict(list)
        for each in removed:
            by = self._removed.get(each)
            if by is not None and commit.read is not None and by > commit.read:
                taken[by].append(each.path)
        for by, paths in taken.items():
            detail = (
                f"commits {by} and {commit.number} have both taken away the same files: the later one read "
                f"version {commit.read}, before the earlier one"
            )
            yield found(Kind.LOST_UPDATE, paths, detail, moments=(str(by), str(commit.number)))


def _dangling(
    files: Mapping[str, int | None], is_there: Callable[[str], bool], root: str, *, is_proof: bool
) -> Iterator[Finding]:
    severity = Severity.DAMAGE if is_proof else Severity.NOTICE
    absent: dict[int | None, list[str]] = defaultdict(list)
    for path, number in files.items():
        if not is_there(below(root, path)):
            absent[number].append(below(root, path))
    for number, paths in absent.items():
        by = "the checkpoint" if number is None else f"commit {number}"
        detail = f"the table has {count_of(paths)} not there, added by {by}"
        moments = () if number is None else (str(number),)
        yield found(Kind.DANGLING_REFERENCE, paths, detail, moments=moments, severity=severity)
