"""A table changes its arbiter, leaves it, or is gone: its writers are stopped.

What an arbiter keeps of a name can go as soon as the plain name shows what was decided, and nobody is left
who could write by it. A name with nothing beside it is older to every arbiter, and taken. End marks, too,
only keep out what comes late: requests of writers who have died, which a store applies within minutes.
"""

from __future__ import annotations

import contextlib
import errno
from collections import defaultdict
from typing import TYPE_CHECKING

from putifabsent.backends.base import Absent, Found
from putifabsent.errors import ConfigError
from putifabsent.shim.arbiter import Claiming
from putifabsent.shim.arbiter_choice import NATIVE, leave_record, record_of
from putifabsent.shim.formats.hudi import step_of
from putifabsent.shim.formats.hudi_salt import counting, owner_of, recorded
from putifabsent.shim.ledger.book import HalfRemoved, Ledger, is_marker, record_at
from putifabsent.shim.ledger.completion import settle
from putifabsent.shim.ledger.records import Checkpoint, Complete, decode
from putifabsent.shim.leftovers import Leftover, What
from putifabsent.shim.requests import ForgetClaim, Get, Head, read
from putifabsent.upkeep.checking import Table, check, state_above, terms_with

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from putifabsent.fsspec_plugin import GuardedFileSystem
    from putifabsent.shim.ledger.facts import Completion
    from putifabsent.shim.names import Name
    from putifabsent.upkeep.checking import Progress

_RECORDS = "arbiters"
# What would be shown, or hidden, by what is going to be removed.
_SHOWING = (What.UNPUBLISHED, What.UNDECIDED, What.COPY, What.REPLACED, What.BLOCKED, What.STRANGE)


def leave(fs: GuardedFileSystem, path: str, *, progress: Progress | None = None) -> int:
    """Publish all that is decided below a folder, and remove what the arbiter keeps there.

    From then on the store itself decides, or whoever the next mount says. A registry's claims stay. Returns
    how many objects were removed. It can be called again after a failure.

    Parameters
    ----------
    fs
        A mount as the writers' were, who are stopped.
    path
        The table's root, or a folder with tables in it.

    Raises
    ------
    ConfigError
        The mount is not as the writers' were, or ``path`` is a part of a table.
    OSError
        Something can't be published; nothing was removed.
    """
    table = Table(fs, path)
    _settle(table, progress)
    return _forget(table)


def migrate(
    fs: GuardedFileSystem, to: GuardedFileSystem, path: str, *, progress: Progress | None = None
) -> int:
    """Have another arbiter decide of the tables below a folder, whose writers are stopped.

    All that is decided is published; to the new arbiter these are names that were there before. While both
    records are there, no mount of either begins, and later none of the old one. One that has begun before
    goes on: it looks for records once.

    ``to`` is a mount of the same store as the writers' are going to be; all else is as for :func:`leave`.
    ``ConfigError`` also: the new registry knows names of this table from before. ``UnsafeStore``: the store
    does not do what the new arbiter rests on.
    """
    table = Table(fs, path, to)
    to.rely(table.root)
    _refuse_earlier(table, to)
    _settle(table, progress)
    new = {state: terms_with(to, state) for state in table.states_of_all()}
    for state, terms in new.items():
        if terms != terms_with(table.fs, state):
            fs.perform(leave_record(state, terms, table.creation(state)))
    if not _differ(table, to):
        return 0
    return _forget(table, but={record_of(*each) for each in new.items()})


def drop(fs: GuardedFileSystem, path: str) -> int:
    """Remove all that the arbiter keeps of the tables below a folder that are gone, end marks included.

    Their ledgers end; where the store itself decides, also those of tables that are there still: what they
    have decided is published before, and the next writer begins another life, for which all instants that are
    there are older than the ledger.

    A registry forgets them, too. Parameters and result are those of :func:`leave`, with what was forgotten.
    ``OSError``: a name lives whose bytes the arbiter keeps, or something is not cleaned up; nothing was
    removed.
    """
    table = Table(fs, path, may_be_gone=True)
    if fs.decider is None:
        there = {record_of(state, NATIVE) for state in table.states if table.is_there(state)}
        return table.remove(_settled_ledgers(table)) + _remove(table, _RECORDS, but=there)
    _refuse(table, check(table, repair=False, grace=0).after, _SHOWING)
    identities, _ = table.identities()
    names = [name for name in identities if record_at(name.path) is None]
    living = [path for name in names for path in _living(table, name)]
    if living:
        raise OSError(
            errno.EBUSY, f"{_some(living)} live: remove them, or `putifabsent leave` the table", path
        )
    ledgers = _settled_ledgers(table)
    # In this order, so that after a failure no record seems to be decided and not published.
    removed = _remove(table, fs.decider.keys) + table.remove(ledgers) + _remove(table, _RECORDS)
    table.remove_empty()
    return removed + _forget_claims(table)


def _forget_claims(table: Table) -> int:
    """Have a registry forget all claims there, whose bytes are gone; return how many they were.

    What is restored in the table's place would be taken for dead, or for lost.
    """
    arbiter, perform, forgotten = table.fs.decider, table.fs.perform, 0
    if not isinstance(arbiter, Claiming):
        return 0
    with contextlib.suppress(PermissionError):  # of a registry that refuses to, all the rest is gone
        for name, claim in perform(arbiter.remembered(table.root)).items():
            perform(read(ForgetClaim(arbiter.claims, f"{arbiter.place}{name}", claim)))
            forgotten += 1
    return forgotten


def _settled_ledgers(table: Table) -> list[str]:
    """Publish what the ledgers have decided; return all that can go then, their markers first."""
    kept, bodies = table.folders("ledger", "beats", "slots"), table.folders("bodies")
    over = [state for state in kept if _settle_ledger(table, state)]
    # What this has left if it was killed. If the table is there, that goes when its next life is past it.
    over += [state for state in bodies if state not in kept and not table.is_there(state)]
    needless = (bodies.get(state, []) for state in over)
    paths = (path for inside in (*kept.values(), *needless) for path in inside)
    return sorted(paths, key=is_marker, reverse=True)


def _settle_ledger(table: Table, state: str) -> bool:
    """See that the plain names show what a ledger says; False: nobody can tell, for half of it is gone."""
    fs, folder = table.fs, state.rpartition("/")[0]
    ledger = fs.ledger(folder)
    if ledger.name.state != state:
        return False
    if not table.is_there(state):
        return True
    try:
        fs.perform(settle(ledger, table.creation(state)))
    except HalfRemoved:
        if hidden := _hidden(table, ledger):
            reason = f"{_some(hidden)}: completed, and not there: copy their bytes to them, or remove these"
            raise OSError(errno.EBUSY, reason, ledger.bodies) from None
        return False
    for each in ledger.state.completions.values():
        path = ledger.path(each.name)
        seen = fs.perform(read(Head(path))) if each.undone and path in table.shown else None
        if isinstance(seen, Found) and seen.holder.token == each.token:
            reason = f"{path} is rolled back, and not removed yet: let its rollback end"
            raise OSError(errno.EBUSY, reason, table.root)
    _refuse_to_forget_owners(table, ledger)
    return True


def _refuse_to_forget_owners(table: Table, ledger: Ledger) -> None:
    """Refuse where the ledger alone says which of the base files counts that were recorded as one."""
    root = f"{ledger.root.removesuffix('/.hoodie')}/"
    names: defaultdict[str, set[str]] = defaultdict(set)
    for path in table.shown:
        if path.startswith(root) and (name := recorded(path)) != path:
            names[name] |= {path, name} & table.shown
    for name, there in names.items():
        step, files = step_of(name), sorted(there)
        counts = step and counting(name, files, owner_of(ledger.state, step.instant))
        if counts and counts != counting(name, files, None):
            others = _some([each for each in files if each != counts])
            reason = f"the ledger alone says whose salted file counts: remove what does not, {others}"
            raise OSError(errno.EBUSY, reason, name)


def _hidden(table: Table, ledger: Ledger) -> list[str]:
    """Return what the records that are left of a ledger complete, and nothing but bodies shows."""
    found = [
        (ledger.path(each.name), ledger.path(each.body))
        for path in table.folders("ledger")[ledger.name.state]
        if record_at(path) is not None and not is_marker(path)
        for each in _completed_in(table, path)
    ]
    return [
        name
        for name, body in found
        if body in table.kept and isinstance(table.fs.perform(read(Head(name))), Absent)
    ]


def _completed_in(table: Table, path: str) -> Iterable[Complete | Completion]:
    """Return what one record tells of completions."""
    got = table.fs.perform(read(Get(path)))
    record = None if isinstance(got, Absent) else decode(got.data, path).record
    if isinstance(record, Checkpoint):
        return record.state.completions.values()
    return [record] if isinstance(record, Complete) else []


def _forget(table: Table, *, but: Collection[str] = ()) -> int:
    """Remove what the arbiter keeps, and then the records of who decides."""
    kept = 0 if table.fs.decider is None else _remove(table, table.fs.decider.keys)
    return kept + _remove(table, _RECORDS, but=but)


def _settle(table: Table, progress: Progress | None) -> None:
    """Publish all that is decided, and see that it is."""
    after = check(table, repair=True, grace=0, progress=progress).after
    if table.refused:
        raise table.refused[0]
    _refuse(table, after, tuple(What))
    table.walk()


def _refuse(table: Table, left: list[Leftover], whats: Collection[What]) -> None:
    names = [f"{each.name} ({each.what.value})" for each in left if each.what in whats]
    if names:
        raise OSError(errno.EBUSY, f"{_some(names)} are left: see `putifabsent fsck`", table.root)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""  # noqa: PLR2004 - a message has room for so many
    return ", ".join(names[:3]) + more


def _living(table: Table, identity: Name) -> list[str]:
    """Return which of an identity's names has bytes that the arbiter keeps."""
    arbiter = table.fs.decider
    assert arbiter is not None  # noqa: S101 - called only where one decides
    living = []
    for path in identity.all_names:
        name = next(each for each in table.meant(path) if arbiter.folder(each) == arbiter.folder(identity))
        found = table.fs.perform(arbiter.find(name, table.creation(name.state), helps=False))
        if not isinstance(found, Absent) and found.path in table.kept:
            living.append(path)
    return living


def _refuse_earlier(table: Table, to: GuardedFileSystem) -> None:
    """Refuse a new arbiter that knows names of the table: what it knows was true before, or is true now."""
    arbiter = to.decider
    if arbiter is None or not _differ(table, to):
        return
    claims = to.perform(arbiter.remembered(table.root)).values()
    known = {state_above(claim.key) for claim in claims}
    is_alike = arbiter.keys == getattr(table.fs.decider, "keys", None)
    kept = set() if is_alike else set(table.folders(arbiter.keys))
    if moved := [each for each in sorted(known | kept) if _is_moved(table, to, each)]:
        tables = _some([each.rpartition("/")[0].removesuffix("/.hoodie") for each in moved])
        do = f"nothing is to be moved there; move others in {table.root}, if any, each by its own folder"
        raise ConfigError(f"the new arbiter decides already of {tables}: {do}")
    if known:
        do = "name another one, which has never heard of it (`putifabsent init`)"
        raise ConfigError(f"the new registry knows names in {table.root} from before: {do}")
    if kept:
        do = "if it decides there now, nothing is to be moved; else `putifabsent drop` that, mounted with it"
        raise ConfigError(f"the new arbiter keeps something in {table.root} already: {do}")


def _is_moved(table: Table, to: GuardedFileSystem, state: str) -> bool:
    """Whether the new arbiter's record is the only one: writers may have begun with it."""
    return table.folders(_RECORDS).get(state) == [record_of(state, terms_with(to, state))]


def _differ(table: Table, to: GuardedFileSystem) -> bool:
    state = table.states[0] if table.states else f"{table.root}/{_RECORDS}"
    return terms_with(table.fs, state) != terms_with(to, state)


def _remove(table: Table, folder: str, *, but: Collection[str] = ()) -> int:
    return table.remove(
        [path for inside in table.folders(folder).values() for path in inside if path not in but]
    )
