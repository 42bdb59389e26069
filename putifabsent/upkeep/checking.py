"""Finding what writers that died have left below a folder, and mending it while others write."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.backends.base import STATE_FOLDER, Absent, Creation, Found, Listed
from putifabsent.errors import ConfigError, OutcomeUnknown
from putifabsent.fsspec_plugin.mount import new_token
from putifabsent.fsspec_plugin.queues import queue_of
from putifabsent.fsspec_plugin.stores import terms_of
from putifabsent.shim.arbiter_choice import NATIVE, Terms, look_for_others
from putifabsent.shim.formats.hudi_layout import was_moved
from putifabsent.shim.formats.hudi_ledger import forget_over, timeline_in
from putifabsent.shim.ledger.book import (
    HalfRemoved,
    Lane,
    Ledger,
    Native,
    is_marker,
    needless_bodies,
    prune,
    record_at,
)
from putifabsent.shim.ledger.completion import remove, settle
from putifabsent.shim.leftovers import Leftover, What
from putifabsent.shim.names import Name, ordinary
from putifabsent.shim.requests import Head, List, read, removed
from putifabsent.shim.state_keys import placed
from putifabsent.timeline.files import found_below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from putifabsent.fsspec_plugin import GuardedFileSystem
    from putifabsent.shim.arbiter import Arbiter
    from putifabsent.shim.requests import Protocol

    Progress = Callable[[int, int, str], None]

GRACE = 3600.0
"""Seconds: what is younger may be a writer's who is busy with it."""

_BELOW = f"/{STATE_FOLDER}/"
# Also of a store whose clock is ahead.
_ANY_TIME = datetime.max.replace(tzinfo=timezone.utc)
# As the store on local disk calls them: a creation's token, and a UUID.
_TEMPORARY = re.compile(rf".*/{re.escape(STATE_FOLDER)}/.+\.[0-9a-f]{{32}}", re.DOTALL)


def refuse_a_part(fs: GuardedFileSystem, root: str) -> None:
    """Refuse a folder within a table, whose state lies above; or within that state."""
    if _BELOW in f"{root}/":
        table = root.partition(_BELOW[:-1])[0].removesuffix("/.hoodie")
        raise ConfigError(f"{root} is what is kept of a table: name the table itself, {table}")
    for state in fs.policy.states(root):
        if fs.exists(state):
            table = state.removesuffix(f"/{STATE_FOLDER}")
            raise ConfigError(f"{root} is a part of a table: name the table itself, {table}")


def state_above(key: str) -> str:
    """Return the state folder in which something of the shim's own is."""
    return key.rpartition(_BELOW)[0] + _BELOW[:-1]


def terms_with(fs: GuardedFileSystem, state: str) -> Terms:
    """Return what a mount says that all mounts of this state must."""
    return NATIVE if fs.decider is None else terms_of(fs.decider, state)


class Table:
    """All that lies below a folder: a table, or what has tables in it.

    ``shown`` are names, ``kept`` is what is the shim's own, with its details, and ``states`` the folders in
    which that lies. ``half_removed`` are the folders of those ledgers that were looked at and that somebody
    has removed half. ``refused`` is why what was to be mended was not.

    ``ConfigError``: nothing is there; or ``path`` is a file, or within a table, whose state lies above; or
    another arbiter decides than the mount, or one of those that must have ``agreed``, says.
    """

    def __init__(
        self, fs: GuardedFileSystem, path: str, *agreed: GuardedFileSystem, may_be_gone: bool = False
    ) -> None:
        self.fs = fs
        self.root: str = fs.explain(path).path
        refuse_a_part(fs, self.root)
        self.shown: set[str] = set()
        self.kept: dict[str, dict[str, Any]] = {}
        self.half_removed: list[str] = []
        self.refused: list[PermissionError] = []
        self.walk()
        # A registry may remember that there was one.
        if not (may_be_gone or self.shown or self.kept) and (
            fs.decider is None or not fs.perform(fs.decider.remembered(self.root))
        ):
            raise ConfigError(f"there is no table at {self.root!r}: nothing is there")
        if self.root in self.shown:
            raise ConfigError(f"{self.root!r} is a file: give the folder of its table")
        self.states = sorted(set(map(state_above, self.kept)))
        for state in self.states:
            fs.perform(look_for_others(state, *(terms_with(each, state) for each in (fs, *agreed))))

    def walk(self) -> None:
        """See once more what is there."""
        self.fs.invalidate_cache()
        try:
            found = found_below(self.fs.fs, self.root)
        except FileNotFoundError:
            found = {}
        self.kept = {name: detail for name, detail in found.items() if _BELOW in name}
        self.shown = found.keys() - self.kept.keys()

    def states_of_all(self) -> list[str]:
        """Return the state folders that are there, and those of tables of which nothing is kept yet."""
        guarded = (name for name in map(self.fs.policy.classify, self.shown) if name.guarded)
        of_each = {(name.state, name.evidence, name.unless): name for name in guarded}
        of_tables = (
            each for each in of_each.values() if self.fs.mount.walk(self.fs.guard.with_evidence(each))
        )
        return sorted({*self.states, *(name.state for name in of_tables)})

    def creation(self, state: str) -> Creation:
        """Return a creation for one that creates no name; what it puts goes with this state."""
        return Creation(new_token(), self.fs.writer, state)

    def ledgers(self) -> list[Ledger]:
        """Return the ledgers of the Hudi tables, without those that are half removed."""
        self.half_removed = []
        decides = self.fs.decider or Native(self.fs.backend.largest_put)
        folders = (state.removesuffix(_BELOW[:-1]) for state in self.states)
        names = (timeline_in(self.fs.policy.classify, folder) for folder in folders)
        found = []
        for name in names:
            if name is not None and f"{name.state}/ledger/-life" in self.kept:
                ledger = Ledger(name, new_token(), decides, Lane(new_token()))
                try:
                    self.fs.perform(ledger.current(self.creation(name.state)))
                    found.append(ledger)
                except HalfRemoved:
                    self.half_removed.append(ledger.folder)
        return found

    def identities(self) -> tuple[list[Name], list[str]]:
        """Return one name of each identity that the mount's arbiter keeps something of, and strange folders.

        These have keys of names that nobody knows.
        """
        arbiter = self.fs.decider
        if arbiter is None:
            return [], []
        claims = self.fs.perform(arbiter.remembered(self.root))
        folders: dict[str, str | None] = {}
        for key in self.kept:
            found = placed(key)
            if found is not None and found.arbiter == arbiter.keys:
                folders[found.folder] = found.name
        # A hashed name tells nothing; but whoever has the name can tell where its keys lie.
        hashed = {folder for folder, name in folders.items() if name is None}
        names: dict[str, Name] = {}
        for canonical in sorted({*filter(None, folders.values()), *claims, *(self.shown if hashed else ())}):
            claim = claims.get(canonical)
            claimed = None if claim is None else claim.key.rpartition("/")[0]
            has_ended = claim is not None and not claim.live
            for name in self.meant(canonical):
                folder = arbiter.folder(name)
                # Most claims are of names that have expired: of these there is nothing else.
                is_gone = has_ended and self.shown.isdisjoint(name.all_names)
                if folder in folders or (folder == claimed and not is_gone):
                    names.setdefault(folder, name)
                    break
        strange = sorted(folders.keys() - names.keys())
        return [names[folder] for folder in sorted(names)], strange

    def meant(self, path: str) -> Iterator[Name]:
        """Return what a name may be; what version 0.1.0 keeps of it without its evidence lies beside it."""
        record = record_at(path)
        if record is not None:
            yield record
        name = self.fs.policy.classify(path)
        if not self.fs.mount.walk(self.fs.guard.with_evidence(name)):
            name = name.unproven()
        yield from dict.fromkeys((name, ordinary(path)))

    def folders(self, *arbiters: str) -> dict[str, list[str]]:
        """Return what is kept by these arbiters, by its state."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for path in sorted(self.kept):
            state, _, inside = path.rpartition(_BELOW)
            if inside.partition("/")[0] in arbiters:
                found[state + _BELOW[:-1]].append(path)
        return found

    def is_there(self, state: str) -> bool:
        """Whether more than its state is there of the table that has it."""
        folder = state.rpartition("/")[0]
        return any(name.startswith(f"{folder}/") for name in self.shown)

    def mend(self, mending: Protocol[object]) -> bool:
        """Mend something; False: this session may not, and goes on with the rest."""
        try:
            self.fs.perform(mending)
        except OSError as error:
            # An arbiter calls it an unknown outcome of the name's.
            refusal = error.__cause__ if isinstance(error, OutcomeUnknown) else error
            if not isinstance(refusal, PermissionError):
                raise
            self.refused.append(refusal)
            return False
        return True

    def remove(self, paths: list[str]) -> int:
        """Remove what is the shim's own, and the folders that are empty then; return how many that were."""
        for path in paths:
            self.fs.perform(removed(path))
        if self.fs.backend.kind == "local":
            above = {path[: match.start()] for path in paths for match in re.finditer("/", path)}
            self._remove_each_empty({each for each in above if _BELOW in f"{each}/"})
        return len(paths)

    def remove_empty(self) -> None:
        """Remove from disk the folders of tables that are gone: they were kept for what is removed by now."""
        if self.fs.backend.kind != "local":
            return
        gone = {state.rpartition("/")[0] for state in self.states if not self.is_there(state)}
        self._remove_each_empty(gone | {folder.removesuffix("/.hoodie") for folder in gone})

    def _remove_each_empty(self, folders: set[str]) -> None:
        for folder in sorted(folders, key=len, reverse=True):  # inner ones first
            # Another file may be in it.
            with contextlib.suppress(OSError):
                self.fs.fs.rmdir(folder)


# --- what dead writers have left


class Checked(NamedTuple):
    """What was found to be left, and old enough."""

    found: list[Leftover]
    after: list[Leftover]  # what of it is there still, unless repaired
    names: int  # how many identities were looked at
    busy: int  # of how many something younger is left, which a writer may be at
    refused: str | None = None  # why some of it could not be repaired: this session may not


def fsck(
    fs: GuardedFileSystem,
    path: str,
    *,
    repair: bool = False,
    free_lost: bool = False,
    grace: float = GRACE,
    progress: Progress | None = None,
) -> Checked:
    """Find what writers that died have left below a folder, and what other tools have broken.

    It can be run at any time: what it repairs is safe while writers write, whatever the clocks say.

    Parameters
    ----------
    fs
        A mount as the writers' are: the same arbiter, formats and patterns.
    path
        The table's root, or a folder with tables in it.
    repair
        Whether to repair what is found.
    free_lost
        Whether to free names whose bytes are gone, too.
    grace
        Seconds. An identity of which something is younger, by this machine's clock, is left to its writers;
        with 0 none is.
    progress
        Called with how many are done, of how many, and which is next.

    Raises
    ------
    ConfigError
        The mount is not as the writers' are, or ``path`` is a part of a table.
    OSError
        Store or registry refuse, or don't answer in time.
    """
    table = Table(fs, path)
    checked = check(table, repair=repair, free_lost=free_lost, grace=grace, progress=progress)
    half = _half_removed(table)
    if half and repair:
        table.ledgers()  # a record may have come back
    return checked._replace(
        found=[*half, *checked.found],
        after=[*_half_removed(table), *checked.after],
        refused=next(map(str, table.refused), None),
    )


def check(
    table: Table,
    *,
    repair: bool,
    free_lost: bool = False,
    grace: float = GRACE,
    progress: Progress | None = None,
) -> Checked:
    """Do so; as :func:`fsck`, but for ledgers that are half removed: a table that has one may be left."""
    ledgers = table.ledgers()
    identities, strange = table.identities()
    before = _ANY_TIME if grace == 0 else datetime.now(timezone.utc) - timedelta(seconds=grace)
    found = [Leftover(folder, What.STRANGE, folder) for folder in strange]
    after = list(found)
    arbiter = table.fs.decider
    busy = 0
    for ledger in ledgers:
        unshown = _unshown(table, ledger)
        old = [each for each in unshown if each.what is What.BLOCKED or _is_old(each, before)]
        busy += len(unshown) - len(old)
        found += (left := [*old, *_needless(table, ledger)])
        if repair:
            _mend_ledger(table, ledger, old)
            left = [*(each for each in _unshown(table, ledger) if each in old), *_needless(table, ledger)]
        after += left
    temporary = [*_temporary(table, before), *_over(table, before)]
    total = len(identities)
    # A ledger's marker last: while no listing shows it, sessions ask the arbiter which records there are.
    names = sorted(identities, key=lambda name: is_marker(name.path))
    for done, name in enumerate(names):
        assert arbiter is not None  # noqa: S101 - nothing is kept of names where the store decides
        if progress is not None:
            progress(done, total, name.path)
        left = _left(table, arbiter, name)
        if any(each.newest is not None and each.newest > before for each in left):
            busy += 1
            continue
        found += left
        whats = {each.what for each in left}
        if repair and left and What.BLOCKED not in whats:
            if free_lost or whats != {What.LOST}:
                table.mend(arbiter.mend(name, table.creation(name.state), free_lost=free_lost))
            left = _left(table, arbiter, name)
        after += left
    found += temporary
    after += _removed(table, temporary) if repair else temporary
    if progress is not None:
        progress(total, total, "")
    return Checked(found, after, total, busy)


def _half_removed(table: Table) -> list[Leftover]:
    return [Leftover(folder, What.HALF_REMOVED, folder) for folder in table.half_removed]


def _needless(table: Table, ledger: Ledger) -> list[Leftover]:
    bodies = table.fs.perform(needless_bodies(ledger, table.creation(ledger.name.state)))
    return [Leftover(each.name, What.NEEDLESS, each.name, newest=each.created) for each in bodies]


def _mend_ledger(table: Table, ledger: Ledger, left: list[Leftover]) -> None:
    creation = table.creation(ledger.name.state)
    if any(each.what in (What.UNPUBLISHED, What.REPLACED) for each in left):
        table.mend(settle(ledger, creation))
    copies = {each.name for each in left if each.what is What.COPY}
    for made in list(ledger.state.completions.values()):
        if made.undone and (path := ledger.path(made.name)) in copies:
            table.mend(remove(ledger, path, made.instant, made))
    table.mend(prune(ledger, creation))
    table.mend(forget_over(ledger, creation, table.fs.policy))


def _is_old(left: Leftover, before: datetime) -> bool:
    return left.newest is not None and left.newest <= before


def _left(table: Table, arbiter: Arbiter, name: Name) -> list[Leftover]:
    """Return what is left of a name where another arbiter than the store decides."""
    left = table.fs.perform(arbiter.leftovers(name, table.creation(name.state)))
    return [_seen_blocked(table, each) for each in left]


def _seen_blocked(table: Table, left: Leftover) -> Leftover:
    """Say of what is to be published if something lies in its place that the store does not write over."""
    fs, is_local = table.fs.fs, table.fs.backend.kind == "local"
    blocked = is_local and left.what is What.REPLACED
    if left.what is What.UNPUBLISHED and table.fs.mount.has_folders:
        blocked = fs.isdir(left.name) or (is_local and fs.islink(left.name))
    return left._replace(what=What.BLOCKED) if blocked else left


def _unshown(table: Table, ledger: Ledger) -> list[Leftover]:
    """Return the completed names that are not there, though they stand, and their bytes are kept.

    Of the last one, without which no writer goes on, also whether another thing is in its place; and those
    that are there, though they were undone.
    """
    if not table.is_there(ledger.name.state):
        return []
    listed: Listed = table.fs.perform(read(List(ledger.bodies)))
    kept = {each.name: each.created for each in listed.entries}
    made = ledger.state.completions.values()
    undone = {ledger.path(each.name) for each in made if each.undone}
    left = []
    for each in made:
        name, body = ledger.path(each.name), ledger.path(each.body)
        is_last = each == ledger.state.unpublished
        if each.undone and name in table.shown:
            seen = _seen(table, name)
            if isinstance(seen, Found) and seen.holder.token == each.token:
                left.append(Leftover(name, What.COPY, name, newest=seen.holder.created))
        if each.undone or body not in kept or (name in table.shown and not is_last):
            continue
        seen = _seen(table, name)
        what = What.UNPUBLISHED if is_last else What.REMOVED
        if isinstance(seen, Found):
            there = ledger.state.completions.get(seen.holder.token or "")
            what = What.REPLACED if there is None else What.UNPUBLISHED
            is_shown = not is_last or (there is not None and not there.undone)
        else:
            is_shown = table.fs.perform(was_moved(name, undone))
        if not is_shown:
            left.append(_seen_blocked(table, Leftover(name, what, body, newest=kept[body])))
    return left


def _seen(table: Table, name: str) -> Found | Absent:
    try:
        seen: Found | Absent = table.fs.perform(read(Head(name)))
    except IsADirectoryError:
        return Absent()
    return seen


def _temporary(table: Table, before: datetime) -> list[Leftover]:
    """Return the temporary files of the local disk that nobody has written for long."""
    written = {
        path: datetime.fromtimestamp(detail["mtime"], timezone.utc)
        for path, detail in sorted(table.kept.items())
        if table.fs.backend.kind == "local" and _TEMPORARY.fullmatch(path)
    }
    return [Leftover(path, What.TEMPORARY, path, newest=at) for path, at in written.items() if at <= before]


def _over(table: Table, before: datetime) -> list[Leftover]:
    """Return the entries of queues that nobody has written for long: who left them may not delete."""
    listed: list[Listed] = [table.fs.perform(read(List(queue_of(state)))) for state in table.folders("slots")]
    return [
        Leftover(each.name, What.NEEDLESS, each.name, newest=each.created)
        for queue in listed
        for each in queue.entries
        if each.created <= before
    ]


def _removed(table: Table, files: list[Leftover]) -> list[Leftover]:
    """Remove what is no name's; return what is there still."""
    return [each for each in files if not table.mend(removed(each.path))]
