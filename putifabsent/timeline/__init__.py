"""What has happened to a table: Hudi's instants, Paimon's snapshots, Delta's commits, read from any store.

::

    timeline = read("s3://bucket/table")
    for instant in timeline.records(order="completed"):
        print(instant.time, instant.action, instant.state)
"""

from __future__ import annotations

from typing import Any

from putifabsent.errors import ConfigError
from putifabsent.timeline.delta import DeltaTimeline
from putifabsent.timeline.files import Problem, Problems, Trouble
from putifabsent.timeline.hudi import Fault, Finding, HudiTimeline, check_steps
from putifabsent.timeline.hudi_history import Manifest
from putifabsent.timeline.paimon import PaimonTimeline
from putifabsent.timeline.parts import HistoryFile, Part
from putifabsent.timeline.reading import Record, Timeline
from putifabsent.timeline.records import (
    Commit,
    Content,
    Details,
    Instant,
    Order,
    Raw,
    Snapshot,
    State,
    StateFile,
)

__all__ = [
    "READERS",
    "Commit",
    "Content",
    "DeltaTimeline",
    "Details",
    "Fault",
    "Finding",
    "HistoryFile",
    "HudiTimeline",
    "Instant",
    "Manifest",
    "Order",
    "PaimonTimeline",
    "Part",
    "Problem",
    "Problems",
    "Raw",
    "Record",
    "Snapshot",
    "State",
    "StateFile",
    "Timeline",
    "Trouble",
    "check_steps",
    "read",
]

READERS: dict[str, type[Timeline[Any]]] = {
    each.format: each for each in (HudiTimeline, PaimonTimeline, DeltaTimeline)
}
"""The readers, by format."""

# What every table of a format has.
_FOLDERS = {"hudi": (".hoodie",), "paimon": ("schema", "snapshot"), "delta": ("_delta_log",)}


def read(url: str, *, fs: Any = None, format: str | None = None, **options: Any) -> Timeline[Any]:  # noqa: A002
    """Return the timeline of a table. Nothing but its properties is read before it is asked.

    Parameters
    ----------
    url
        The table's address, as fsspec knows it; with ``fs`` its folder in there.
    fs
        A filesystem: any of fsspec's, guarded or not.
    format
        ``hudi``, ``paimon`` or ``delta``; None: the table shows it.
    options
        Of the filesystem that fsspec makes of ``url``.

    Raises
    ------
    ConfigError
        There is no table, or none of this format, or one of a version that is not known; or a folder is the
        table of several formats, and ``format`` does not say which.
    OSError
        The store refuses.
    """
    if fs is None:
        from fsspec.core import url_to_fs

        fs, root = url_to_fs(url, **options)
    else:
        root = fs._strip_protocol(url)  # noqa: SLF001 - fsspec has no other name for it
    root = str(root).rstrip("/")
    if format is None:
        format = _format_of(fs, root)  # noqa: A001
    if format not in READERS:
        raise ConfigError(f"timelines of {', '.join(READERS)} can be read, not of {format!r}")
    return READERS[format](fs, root)


def _format_of(fs: Any, root: str) -> str:
    found = [
        each
        for each, folders in _FOLDERS.items()
        if any(fs.isdir(f"{root}/{folder}" if root else folder) for folder in folders)
    ]
    if not found:
        looked = ", ".join(f"{folder}/" for folders in _FOLDERS.values() for folder in folders)
        raise ConfigError(f"there is no table at {root!r}: none of {looked} is there")
    if len(found) > 1:
        raise ConfigError(f"{root!r} is a table of {' and of '.join(found)}: say which by format=")
    return found[0]
