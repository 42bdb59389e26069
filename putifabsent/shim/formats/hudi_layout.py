"""Where a Hudi table's timeline lies, and in which form: what ``hoodie.properties`` says.

==============  ====================================  ==============================================
table version   active timeline                       history
==============  ====================================  ==============================================
6               ``.hoodie/``                          ``.hoodie/archived/`` by default: log files of
                                                      Avro records
8 and 9         ``.hoodie/timeline/`` by default      ``history/`` in there: parquet files in levels,
                                                      and manifests that name them
==============  ====================================  ==============================================

An upgrade or a downgrade moves completed names to the other layout, round the shim:
``.hoodie/<T>.<action>`` becomes ``.hoodie/timeline/<T>_<C>.<action>``, or the other way round, with a ``C``
and bytes that nobody can foretell: a commit's metadata is written anew. ``T`` stays what it is, and so does
its completion. Through the shim the first of these calls is refused. Hudi moves the metadata table before the
data table, each instant by a rename or by a create that may overwrite, and writes the properties when all is
moved. Nobody else brings a name of an instant so into the layout that the properties do not say.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Mapping
from typing import NamedTuple

from putifabsent.backends.base import Absent, Got, Listed
from putifabsent.errors import ConfigError
from putifabsent.shim.formats.hudi import SAVEPOINT, instant_in, step_of
from putifabsent.shim.requests import Get, List, Protocol, read

KNOWN = (6, 8, 9)
"""The table versions whose timelines can be read."""

PROPERTIES = (".hoodie/hoodie.properties", ".hoodie/hoodie.properties.backup")
"""Where a table's properties lie, from its root: Hudi removes the first while it writes it anew."""

READ_IN_TURN = (*PROPERTIES, PROPERTIES[0])
"""What is read until it is whole: who wrote the first anew may have removed the copy between two reads."""

_FIRST_IN_LEVELS = 8
_IN_LEVELS = "/.hoodie/timeline"
_PAIR = re.compile(r"\s*(?P<key>(?:[^\\=:\s]|\\.)+)\s*[=:]?\s*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"(?P<codes>(?:\\u[0-9a-fA-F]{4})+)|\\(?P<plain>.)", re.DOTALL)


class Layout(NamedTuple):
    """Where a timeline lies."""

    version: int
    # timeline, history: folders, from the table's root.
    timeline: str
    history: str
    # Whether the history is in levels (:mod:`~putifabsent.shim.formats.hudi`); else it is in log files
    # (:mod:`~putifabsent.shim.formats.hudi_files`).
    in_levels: bool
    zone: str  # in which its instants are written: ``UTC``, or ``LOCAL``, which is that of whoever wrote them
    first: int  # the version that the table began with, if it says so; else ``version``


def parsed(properties: bytes) -> dict[str, str]:
    """Return what a file of Java properties says; of continued lines each for itself."""
    pairs = {}
    for line in properties.decode(errors="replace").splitlines():
        match = _PAIR.fullmatch(line)
        if match is not None and not line.lstrip().startswith(("#", "!")):
            key, value = (_ESCAPE.sub(_meant, each) for each in match.group("key", "value"))
            pairs[key] = value.rstrip()
    return pairs


def _meant(escape: re.Match[str]) -> str:
    if escape["plain"]:
        return escape["plain"]
    # Java's characters have 16 bits: one beyond them is two.
    return bytes.fromhex(escape["codes"].replace("\\u", "")).decode("utf-16-be", errors="replace")


def is_whole(properties: bytes) -> bool:
    """Whether the checksum is right, which is of the names alone, and no line is torn: they tell no more."""
    values = parsed(properties)
    named = f"{values.get('hoodie.database.name', '')}.{values.get('hoodie.table.name')}"
    checksum = values.get("hoodie.table.checksum")
    return properties.endswith(b"\n") and checksum == str(zlib.crc32(named.encode()))


def that_counts(found: Mapping[str, bytes]) -> str | None:
    """Return which of the properties read from :data:`READ_IN_TURN` count: the first that are whole.

    Where none are, as in tables without a checksum, the first that say anything. None: there are none.
    """
    return max(found, key=lambda each: (is_whole(found[each]), bool(found[each].strip())), default=None)


def layout_of(properties: bytes, path: str) -> Layout:
    """Return where the timeline of a table lies, by the bytes of its ``hoodie.properties``.

    ``ConfigError``: it is of a version that is not known, or doesn't say of which.
    """
    values = parsed(properties)
    version = values.get("hoodie.table.version", "")
    if not version.isdecimal() or int(version) not in KNOWN:
        known = f"timelines of table versions {', '.join(map(str, KNOWN))} can be read"
        named = f"of table version {version}" if version else "of a table that doesn't say its version"
        raise ConfigError(f"{path} is {named}: {known}. Upgrade the table, or this package")
    in_levels = int(version) >= _FIRST_IN_LEVELS
    if in_levels:
        timeline = f".hoodie/{values.get('hoodie.timeline.path', 'timeline')}"
        history = f"{timeline}/{values.get('hoodie.timeline.history.path', 'history')}"
    else:
        timeline = ".hoodie"
        history = f".hoodie/{values.get('hoodie.archivelog.folder', 'archived')}"
    zone = values.get("hoodie.table.timeline.timezone", "LOCAL").upper()
    began = values.get("hoodie.table.initial.version", "")
    first = int(began if began.isdecimal() else version)
    return Layout(int(version), timeline, history, in_levels, zone, first)


def is_left(folder: str, properties: bytes) -> bool:
    """Whether a table that had its timeline in a folder has it in the other layout's now.

    Where the properties don't say their version, it has not left.
    """
    values = parsed(properties)
    version = values.get("hoodie.table.version", "0")
    if not version.isdecimal() or int(version) == 0:
        return False
    inside = values.get("hoodie.timeline.path", "timeline") if int(version) >= _FIRST_IN_LEVELS else ""
    return not folder.endswith(f"/.hoodie/{inside}".rstrip("/"))


def other_layout(folder: str) -> str:
    """Return where the timeline in a folder goes when its table is upgraded or downgraded, or comes from."""
    return folder.rpartition("/")[0] if folder.endswith(_IN_LEVELS) else f"{folder}/timeline"


# --- names that an upgrade moves


_META = "/.hoodie/"
_TIMELINES = ("/.hoodie", "/.hoodie/timeline")


def completed_by(path: str) -> str | None:
    """Return the instant whose completed name this is; None: it is none, or a savepoint's."""
    step = step_of(path)
    if step is None or step.state != "completed" or step.action == SAVEPOINT:
        return None
    return step.instant


def was_moved(path: str, undone: Collection[str]) -> Protocol[bool]:
    """Whether a completed name that is not there was moved to another one of its instant.

    That is in the other layout, where the table has left the name's; or in the same, with another ``C``,
    where it has come back. One request, and a listing where it has not left; two more while the properties
    are written anew. A listing that shows the name itself says that it was published meanwhile. Names that
    are ``undone`` may still be there, and don't count.
    """
    folder, instant = path.rpartition("/")[0], completed_by(path)
    properties = yield from _properties(path)
    if properties is None or is_left(folder, properties):
        return properties is not None
    listed: Listed = yield from read(List(folder))
    there = {each.name for each in listed.entries}.difference(undone)
    return path not in there and any(completed_by(each) == instant for each in there)


def _properties(path: str) -> Protocol[bytes | None]:
    """Return what the table of a name in its timeline says of itself; None: there is none."""
    root = path[: path.rfind(_META)]
    found: dict[str, bytes] = {}
    for each in READ_IN_TURN:
        got: Got | Absent = yield from read(Get(f"{root}/{each}"))
        if not isinstance(got, Absent):
            found[each] = got.data
            if is_whole(got.data):
                break
    counting = that_counts(found)
    return None if counting is None else found[counting]


def is_instant(path: str) -> bool:
    """Whether it is a name of an instant, in the timeline of a table or of a metadata table."""
    folder, _, last = path.rpartition("/")
    return folder.endswith(_TIMELINES) and instant_in(last) is not None


def refuse_move(path: str) -> Protocol[None]:
    """Refuse to bring a name of an instant into the layout that its table, or metadata table, does not have.

    By ``ConfigError``, for calls that only an upgrade makes of such names: a rename, or a create that may
    overwrite. No request for other names; for these one, or three while the properties are written anew.
    """
    properties = (yield from _properties(path)) if is_instant(path) else None
    if properties is None or not is_left(path.rpartition("/")[0], properties):
        return
    raise ConfigError(
        f"{path}: an upgrade or a downgrade of a Hudi table moves its whole timeline, which is not done "
        "through putifabsent. No instant was moved, and the table has the version that it had. Stop its "
        "writers, and upgrade it in a session that is not mounted (see 'Upgrade a table' in the "
        "documentation of Hudi on Spark); or have this writer leave the version as it is: "
        "hoodie.write.auto.upgrade=false, and no other hoodie.write.table.version than the table's"
    )
