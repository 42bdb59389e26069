"""Hudi's names: the timeline in ``.hoodie/``, and the slices beside it.

An instant is a time ``T`` (17 digits; 14 from old versions; more in the metadata table, which appends its own
to the data table's) with an action, and goes through three states:

==========  ==============================  ===================================================
state       name                            guarded
==========  ==============================  ===================================================
requested   ``<T>.<action>.requested``      yes
inflight    ``<T>.<action>.inflight``       no: taking it over is a legal step
completed   ``<T>.<action>`` (table         yes
            version 6), ``<T>_<C>.<action>``
            (8 and later)
==========  ==============================  ===================================================

Table version 6 keeps them in ``.hoodie/``, 8 and later in ``.hoodie/timeline/``, with their history in
``timeline/history/``. No evidence is needed: no other program has a folder ``.hoodie``. A partition may be
called ``timeline``, or ``dt=.hoodie``; none of them lies in ``.hoodie/`` itself.

``T`` belongs to one action: two requested instants of one ``T`` are one identity. So are two completed ones
that differ only in the completion time ``C``, which is chosen while writing. A savepoint *of* ``T`` shares
``T`` with the commit that it saves, and is an identity beside it. Names that differ in action or ``C`` can't
be listed as aliases: keeping them apart is a ledger's business, not a store's.

A plan is created once, but for a compaction's: the command that takes a file group out of it overwrites it,
with the flag to do so (``CompactionAdminClient.unscheduleCompactionFileId``). No writer's create has that.

``.hoodie/metadata/`` is a table of its own, with its own timeline. Its slices, like any table's, belong to
the writer of their instant, and are never guarded by their name. On local disk Hudi writes ``<name>.<uuid>``
and renames; only the final name is guarded.

A table can move its timeline or its history by ``hoodie.timeline.path`` and ``hoodie.timeline.history.path``.
A name alone doesn't show that: such a table wants a pattern of the user's.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Literal, NamedTuple

from putifabsent.shim.names import Enforced, Name, Role, Series, nameless, number_by

FORMAT = "hudi"
SAVEPOINT = "savepoint"
ACTIONS = (
    "clean",
    "clustering",
    "commit",
    "compaction",
    "deltacommit",
    "indexing",
    "logcompaction",
    "replacecommit",
    "restore",
    "rollback",
    SAVEPOINT,
)

PLANNED = ("clustering", "compaction", "indexing", "logcompaction", "replacecommit")
"""Actions that are run again after they were rolled back, by the plan in the requested name, which stays."""

_COMPLETED_AS = {"clustering": "replacecommit", "compaction": "commit", "logcompaction": "deltacommit"}

_META = "/.hoodie/"
_ANY_ACTION = "|".join(ACTIONS)
_INSTANT = re.compile(
    rf"(?P<t>[0-9]+)(?:\.inflight|\.(?P<pending>{_ANY_ACTION})\.(?P<state>requested|inflight)"
    rf"|(?:_(?P<c>[0-9]+))?\.(?P<completed>{_ANY_ACTION}))"
)
_MANIFEST = re.compile(r"manifest_(?P<n>[1-9][0-9]{0,9})")
_FIRST_MANIFEST = 1
_HISTORY = re.compile(r"(?P<first>[0-9]+)_(?P<last>[0-9]+)_(?P<level>[0-9]+)\.parquet")
_ARCHIVE = re.compile(r"\.commits_\.archive\.(?P<n>[0-9]+)(?:_.*)?")
_WRITE = "[0-9]+-[0-9]+-[0-9]+"
BASE_FILE = re.compile(
    rf"(?P<group>[^_/]+)_(?P<token>{_WRITE}(?:-(?P<salt>[0-9a-f]{{32}}))?)_(?P<t>[0-9]+)"
    r"\.(?:parquet|orc|hfile|lance)"
)
LOG_FILE = re.compile(
    rf"\.(?P<group>[^/]+)_(?P<t>[0-9]+)\.log\.(?P<version>[0-9]+)(?:_(?P<token>{_WRITE})(?:\.cdc)?)?"
)
_KEPT = "(?:~(?P<salt>[0-9a-f]{32}))?"  # as each session may keep an instant for itself
_KEPT_INSTANT = re.compile(_INSTANT.pattern + _KEPT)
PATTERNS = (
    rf".*/\.hoodie/(?:timeline/)?{_INSTANT.pattern}{_KEPT}",
    rf".*/\.hoodie/timeline/history/(?:{_MANIFEST.pattern}|{_HISTORY.pattern})",
    # The metadata table's slices are nobody's.
    rf"(?!.*{re.escape(_META)}).*/(?:{BASE_FILE.pattern}|{LOG_FILE.pattern})",
)


class Step(NamedTuple):
    """What a name is to its instant."""

    instant: str  # ``T``
    action: str  # empty where the name doesn't say it
    # ``requested``, ``inflight``, ``completed``; of slices ``base`` or ``log``.
    state: Literal["requested", "inflight", "completed", "base", "log"]
    # Of a base file, what the mount's option has put into its write token; of an instant, whose it is where
    # each session keeps its own. None: nothing, nobody's.
    salt: str | None = None
    completion: str | None = None  # ``C``; None where the name doesn't say it


class History(NamedTuple):
    """What the name of a file of the history says: the instants in it are of these times, both included."""

    first: str
    last: str
    level: int


def step_of(path: str) -> Step | None:
    """Return which step of which instant a name is, of a data table's alone; None: of none."""
    folder, _, last = path.rpartition("/")
    at = path.rfind(_META)
    if at < 0:
        if last.startswith("."):
            match = LOG_FILE.fullmatch(last)
            return match and Step(match["t"], "", "log")
        match = BASE_FILE.fullmatch(last)
        return match and Step(match["t"], "", "base", match["salt"])
    if folder[at + len(_META) :] not in ("timeline", "") or "/.hoodie/metadata/" in path:
        return None
    step = instant_in(last)
    return step if step is not None and step.salt is None else None


def instant_in(last: str) -> Step | None:
    """Return which step of which instant a last component in any table's timeline is; None: of none."""
    match = _KEPT_INSTANT.fullmatch(last)
    if match is None:
        return None
    state: Any = match["state"] or ("completed" if match["completed"] else "inflight")
    return Step(match["t"], match["pending"] or match["completed"] or "", state, match["salt"], match["c"])


def completed_as(action: str) -> str:
    """Return what an action is called when it is completed; a name without one is a commit's."""
    return _COMPLETED_AS.get(action, action) or "commit"


manifest_in = partial(number_by, _MANIFEST)
"""Return the number of a manifest of the history, by its last component; None for what is none."""


def history_in(last: str) -> History | None:
    """Return what a file of the history holds, by its last component; None for what is none."""
    match = _HISTORY.fullmatch(last)
    return match and History(match["first"], match["last"], int(match["level"]))


archive_in = partial(number_by, _ARCHIVE)
"""Return the number of a file of the history below table version 8; None for what is none."""


def slices_of(folder: str, instant: str) -> str:
    """Return a regular expression for the slices of an instant in a folder, and for no other full name."""
    files = (each.pattern.replace("(?P<t>[0-9]+)", instant) for each in (BASE_FILE, LOG_FILE))
    return rf"{re.escape(folder)}/(?:{nameless('|'.join(files))})"


def classify(path: str, folder: str, last: str) -> Name | None:
    """Return what Hudi says of a name, or None if it is neither a slice nor in a ``.hoodie/``."""
    at = path.rfind(_META)
    if at < 0:
        return Name(path, Role.SLICE, FORMAT, None, path, guarded=False) if _is_slice(last) else None
    table = path[:at]
    inside = folder[at + len(_META) :]
    name: Name | None = None
    if inside in ("timeline", ""):
        name = _instant(path, folder, last, table)
    elif inside == "timeline/history":
        name = _history(path, folder, last, table)
    elif inside == "metadata" or inside.startswith("metadata/"):
        role = Role.SLICE if _is_slice(last) else Role.OTHER
        name = Name(path, role, FORMAT, f"{table}/.hoodie/metadata", path, guarded=False)
    elif inside.startswith((".temp", ".heartbeat")):
        name = Name(path, Role.MARKER, FORMAT, table, path, guarded=False)
    return name or Name(path, Role.OTHER, FORMAT, table, path, guarded=False)


def _instant(path: str, folder: str, last: str, table: str) -> Name | None:
    match = _INSTANT.fullmatch(last)
    if match is None:
        return None
    instant, pending, state, completed_at, completed = match.group("t", "pending", "state", "c", "completed")
    identity = path
    if state == "requested" and pending != SAVEPOINT:
        identity = f"{folder}/{instant}.requested"
    elif completed and (completed_at or folder.endswith("/timeline")):
        identity = f"{folder}/{instant}.{SAVEPOINT if completed == SAVEPOINT else 'completed'}"
    guarded = state == "requested" or completed is not None
    replaced = state == "requested" and pending == "compaction"
    return Name(path, Role.INSTANT, FORMAT, table, identity, guarded, replaced=replaced)


def _history(path: str, folder: str, last: str, table: str) -> Name | None:
    match = _MANIFEST.fullmatch(last)
    if match is not None:
        number = int(match["n"])
        before = (f"{folder}/manifest_{number - 1}",) if number > _FIRST_MANIFEST else ()
        series = Series(number, _FIRST_MANIFEST, before, _MANIFEST)
        return Name(path, Role.SNAPSHOT, FORMAT, table, path, guarded=True, series=series)
    if _HISTORY.fullmatch(last):
        return Name(path, Role.LOG_ENTRY, FORMAT, table, path, guarded=True)
    if last == "_version_":
        return Name(path, Role.POINTER, FORMAT, table, path, guarded=False)
    return None


def _is_slice(last: str) -> bool:
    return (LOG_FILE if last.startswith(".") else BASE_FILE).fullmatch(last) is not None


_FILE_ID = "b5068208-e1a4-11e6-bf01-fe55135034f3-0"

RULES = (
    (".hoodie/timeline/<T>.<action>.requested", Role.INSTANT, True, "T (of a savepoint: the name)",
     "bucket/t/.hoodie/timeline/20260101120000000.commit.requested",
     "table version 8 and later; a command may overwrite a compaction's: see below"),
    (".hoodie/timeline/<T>_<C>.<action>", Role.INSTANT, True, "T, completed (of a savepoint: T, savepoint)",
     "bucket/t/.hoodie/timeline/20260101120000000_20260101120003000.commit", "table version 8 and later"),
    (".hoodie/<T>.<action>.requested", Role.INSTANT, True, "T (of a savepoint: the name)",
     "bucket/t/.hoodie/20260101120000000.commit.requested", "table version 6; the same"),
    (".hoodie/<T>.<action>", Role.INSTANT, True, "the name",
     "bucket/t/.hoodie/20260101120000000.commit", "table version 6"),
    ("<T>.<action>.inflight, <T>.inflight", Role.INSTANT, False, "the name",
     "bucket/t/.hoodie/timeline/20260101120000000.inflight", "may be taken over"),
    (".hoodie/timeline/history/manifest_<N>", Role.SNAPSHOT, True, "the name",
     "bucket/t/.hoodie/timeline/history/manifest_3", ""),
    (".hoodie/timeline/history/<min>_<max>_<level>.parquet", Role.LOG_ENTRY, True, "the name",
     "bucket/t/.hoodie/timeline/history/20260101120000000_20260102120000000_0.parquet", ""),
    (".hoodie/timeline/history/_version_", Role.POINTER, False, "the name",
     "bucket/t/.hoodie/timeline/history/_version_", "is deleted and written again"),
    ("<partition>/<file id>_<write token>_<T>.<parquet|orc|hfile|lance>", Role.SLICE, False, "the name",
     f"bucket/t/dt=1/{_FILE_ID}_1-0-1_20260101120000000.parquet", "T belongs to one writer"),
    ("<partition>/.<file id>_<T>.log.<version>_<write token>", Role.SLICE, False, "the name",
     f"bucket/t/dt=1/.{_FILE_ID}_20260101120000000.log.1_1-0-1", "T belongs to one writer"),
    (".hoodie/.temp/, .hoodie/.heartbeat/", Role.MARKER, False, "the name",
     "bucket/t/.hoodie/.heartbeat/20260101120000000", "are overwritten"),
    (".hoodie/hoodie.properties, .aux/, .schema/ and the rest", Role.OTHER, False, "the name",
     "bucket/t/.hoodie/hoodie.properties", "are overwritten"),
)  # fmt: skip

ENFORCED = Enforced(
    (
        ".hoodie/timeline/*.requested",
        *(f".hoodie/{digit}*.requested" for digit in range(10)),
        ".hoodie/timeline/history/manifest_*",
        ".hoodie/timeline/history/*_*_*.parquet",
    ),
    "Hudi's completed instants are published by a copy, which has no condition: who goes round the guard can "
    "still write over one. Its slices are written over as ever.",
)
