"""Finding what writers that died have left in a table, and mending it while others write."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.backends.base import STATE_FOLDER, Absent, Found, Listed, Maybe, Refused
from putifabsent.fsspec_plugin.slots import queue_of
from putifabsent.shim.formats.hudi_layout import was_moved
from putifabsent.shim.formats.hudi_ledger import forget_over
from putifabsent.shim.ledger.book import Ledger, is_marker
from putifabsent.shim.ledger.completion import remove, settle
from putifabsent.shim.ledger.pruning import needless, prune
from putifabsent.shim.leftovers import Leftover, What
from putifabsent.shim.reading import read
from putifabsent.shim.requests import Head, List
from putifabsent.upkeep.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.fsspec_plugin import GuardedFileSystem
    from putifabsent.shim.arbiter import Arbiter
    from putifabsent.shim.names import Name

    Progress = Callable[[int, int, str], None]

GRACE = 3600.0
"""Seconds: what is younger may be a writer's who is busy with it."""

# Also of a store whose clock is ahead.
_ANY_TIME = datetime.max.replace(tzinfo=timezone.utc)
# As the store on local disk calls them: a creation's token, and a UUID.
_TEMPORARY = re.compile(rf".*/{re.escape(STATE_FOLDER)}/.+\.[0-9a-f]{{32}}", re.DOTALL)


class Checked(NamedTuple):
    """What was found to be left, and old enough."""

    found: list[Leftover]
    after: list[Leftover]  # what of it is there still, unless repaired
    names: int  # how many identities were looked at
    busy: int  # of how many something younger is left, which a writer may be at


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
    return checked._replace(found=[*half, *checked.found], after=[*_half_removed(table), *checked.after])


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
    identities = table.identities()
    before = _ANY_TIME if grace == 0 else datetime.now(timezone.utc) - timedelta(seconds=grace)
    found = [Leftover(folder, What.STRANGE, folder) for folder in identities.strange]
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
    total = len(identities.names)
    # A ledger's marker last: while no listing shows it, sessions ask the arbiter which records there are.
    names = sorted(identities.names, key=lambda name: is_marker(name.path))
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
                table.fs.perform(arbiter.mend(name, table.creation(name.state), free_lost=free_lost))
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
    bodies = table.fs.perform(needless(ledger, table.creation(ledger.name.state)))
    return [Leftover(each.name, What.NEEDLESS, each.name, newest=each.created) for each in bodies]


def _mend_ledger(table: Table, ledger: Ledger, left: list[Leftover]) -> None:
    creation = table.creation(ledger.name.state)
    if any(each.what in (What.UNPUBLISHED, What.REPLACED) for each in left):
        table.fs.perform(settle(ledger, creation))
    copies = {each.name for each in left if each.what is What.COPY}
    for made in list(ledger.state.completions.values()):
        if made.undone and (path := ledger.path(made.name)) in copies:
            table.fs.perform(remove(ledger, path, made.instant, made))
    table.fs.perform(prune(ledger, creation))
    table.fs.perform(forget_over(ledger, creation, table.fs.policy))


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
    left = []
    for each in files:
        outcome = table.fs.backend.delete(each.path)
        if isinstance(outcome, Refused):
            raise outcome.error
        if isinstance(outcome, Maybe):
            left.append(each)
    return left
