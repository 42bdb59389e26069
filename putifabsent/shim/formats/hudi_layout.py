"""Where a Hudi table's timeline lies, and in which form: what ``hoodie.properties`` says.

==============  ====================================  ==============================================
table version   active timeline                       history
==============  ====================================  ==============================================
6               ``.hoodie/``                          ``.hoodie/archived/`` by default: log files of
                                                      Avro records
8 and 9         ``.hoodie/timeline/`` by default      ``history/`` in there: parquet files in levels,
                                                      and manifests that name them
==============  ====================================  ==============================================
"""

from __future__ import annotations

import re
from typing import NamedTuple

from putifabsent.errors import ConfigError

__all__ = ["KNOWN", "PROPERTIES", "Layout", "is_left", "layout_of", "other_layout", "parsed"]

KNOWN = (6, 8, 9)
"""The table versions whose timelines can be read."""

PROPERTIES = (".hoodie/hoodie.properties", ".hoodie/hoodie.properties.backup")
"""Where a table's properties lie, from its root: Hudi removes the first while it writes it anew."""

_FIRST_IN_LEVELS = 8
_IN_LEVELS = "/.hoodie/timeline"
_PAIR = re.compile(r"\s*(?P<key>(?:[^\\=:\s]|\\.)+)\s*[=:]?\s*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Layout(NamedTuple):
    """Where a timeline lies.

    Attributes
    ----------
    name
        The table's.
    version
        The table's.
    timeline, history
        Folders, from the table's root.
    in_levels
        Whether the history is in levels (:mod:`~putifabsent.shim.formats.hudi`); else it is in log files
        (:mod:`~putifabsent.shim.formats.hudi_log`).
    zone
        In which its instants are told: ``UTC``, or ``LOCAL``, which is that of whoever wrote them.
    first
        The version that the table began with, if it says so; else ``version``.
    """

    name: str
    version: int
    timeline: str
    history: str
    in_levels: bool
    zone: str
    first: int


def parsed(properties: bytes) -> dict[str, str]:
    """Return what a file of Java properties says; of continued lines each for itself."""
    pairs = {}
    for line in properties.decode(errors="replace").splitlines():
        match = _PAIR.fullmatch(line)
        if match is not None and not line.lstrip().startswith(("#", "!")):
            key, value = (_ESCAPE.sub(r"\1", each) for each in match.group("key", "value"))
            pairs[key] = value.rstrip()
    return pairs


def layout_of(properties: bytes, path: str) -> Layout:
    """Return where the timeline of a table lies.

    Parameters
    ----------
    properties
        All bytes of ``hoodie.properties``.
    path
        Its name, for errors.

    Raises
    ------
    ConfigError
        It is of a version that is not known, or doesn't say of which.
    """
    said = parsed(properties)
    version = said.get("hoodie.table.version", "")
    if not version.isdecimal() or int(version) not in KNOWN:
        known = f"timelines of table versions {', '.join(map(str, KNOWN))} can be read"
        named = f"of table version {version}" if version else "of a table that doesn't say its version"
        raise ConfigError(f"{path} is {named}: {known}. Upgrade the table, or this package")
    in_levels = int(version) >= _FIRST_IN_LEVELS
    if in_levels:
        timeline = f".hoodie/{said.get('hoodie.timeline.path', 'timeline')}"
        history = f"{timeline}/{said.get('hoodie.timeline.history.path', 'history')}"
    else:
        timeline = ".hoodie"
        history = f".hoodie/{said.get('hoodie.archivelog.folder', 'archived')}"
    name, zone = said.get("hoodie.table.name", ""), said.get("hoodie.table.timeline.timezone", "LOCAL")
    began = said.get("hoodie.table.initial.version", "")
    first = int(began if began.isdecimal() else version)
    return Layout(name, int(version), timeline, history, in_levels, zone.upper(), first)


def is_left(folder: str, properties: bytes) -> bool:
    """Whether a table that had its timeline in a folder has it in the other layout's now.

    Where the properties don't say their version, it has not left.
    """
    said = parsed(properties)
    version = said.get("hoodie.table.version", "0")
    if not version.isdecimal() or int(version) == 0:
        return False
    inside = said.get("hoodie.timeline.path", "timeline") if int(version) >= _FIRST_IN_LEVELS else ""
    return not folder.endswith(f"/.hoodie/{inside}".rstrip("/"))


def other_layout(folder: str) -> str:
    """Return where the timeline in a folder goes when its table is upgraded or downgraded, or comes from."""
    return folder.rpartition("/")[0] if folder.endswith(_IN_LEVELS) else f"{folder}/timeline"
