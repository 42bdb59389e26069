"""What has happened to a table: Hudi's instants, Paimon's and Iceberg's snapshots, Delta's commits.

::

    timeline = read("s3://bucket/table")
    for instant in timeline.records(order="completed"):
        print(instant.time, instant.action, instant.state)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from putifabsent.errors import ConfigError
from putifabsent.shim.formats.hudi_steps import Fault, Finding, State
from putifabsent.shim.formats.iceberg import is_metadata
from putifabsent.timeline.delta import DeltaTimeline
from putifabsent.timeline.files import Content, Problem, Problems, Trouble, below, listed, of_a_bucket
from putifabsent.timeline.hudi import HudiTimeline, check_steps
from putifabsent.timeline.hudi_history import Manifest
from putifabsent.timeline.iceberg import IcebergTimeline
from putifabsent.timeline.paimon import PaimonTimeline
from putifabsent.timeline.reading import (
    Commit,
    Details,
    HistoryFile,
    IcebergSnapshot,
    Instant,
    Order,
    Part,
    Raw,
    Record,
    Snapshot,
    StateFile,
    Timeline,
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
    "IcebergSnapshot",
    "IcebergTimeline",
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
    "is_table",
    "opened",
    "read",
    "tables_below",
]

READERS: dict[str, type[Timeline[Any]]] = {
    each.format: each for each in (HudiTimeline, PaimonTimeline, DeltaTimeline, IcebergTimeline)
}
"""The readers, by format."""

DEEPEST = 4
"""So many folders may a table lie below the one in which tables are looked for: catalog, database, table."""

# What every table of a format has.
_FOLDERS = {"hudi": (".hoodie",), "paimon": ("schema", "snapshot"), "delta": ("_delta_log",)}
_ICEBERG = "metadata"


def read(url: str, *, fs: Any = None, format: str | None = None, **options: Any) -> Timeline[Any]:  # noqa: A002
    """Return the timeline of a table. Nothing but its properties is read yet.

    Parameters
    ----------
    url
        The table's address, as fsspec knows it; with ``fs`` its folder in there. Of an Iceberg table that a
        catalog keeps: the address of its current metadata file.
    fs
        A filesystem: any of fsspec's, guarded or not.
    format
        ``hudi``, ``paimon``, ``delta`` or ``iceberg``; None: the table shows it. What Paimon or Delta keeps
        for Iceberg's readers is looked at only if asked for.
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
    fs, root = opened(url, fs, options)
    if format not in (None, *READERS):
        raise ConfigError(f"timelines of {', '.join(READERS)} can be read, not of {format!r}")
    with of_a_bucket(fs, root, url):
        return READERS[format or _format_of(fs, root)](fs, root)


def is_table(url: str, *, fs: Any = None, **options: Any) -> bool:
    """Whether a folder is a table's, as it shows itself; parameters as for :func:`read`."""
    return bool(_formats_of(*opened(url, fs, options)))


def tables_below(url: str, *, fs: Any = None, **options: Any) -> Iterator[str]:
    """Find the tables below a folder: the folder itself if it is one, and no table within another.

    Parameters are those of :func:`read`. The folders come in the filesystem's own words, in the order of
    their names. They are looked for in :data:`DEEPEST` folders below each other, not in those that are
    hidden. One that may not be listed comes, too: who looks into it hears of that, and of the others what is
    in them. ``OSError``: the store refuses.
    """
    fs, root = opened(url, fs, options)
    if _formats_of(fs, root):
        yield root
    else:
        yield from _below(fs, root, DEEPEST)


def _below(fs: Any, folder: str, depth: int) -> Iterator[str]:
    fs.invalidate_cache(folder)  # others' tables must be seen
    try:
        found = fs.ls(folder, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        return
    except PermissionError:
        if depth == DEEPEST:
            raise
        yield folder
        return
    paths = sorted(each["name"].rstrip("/") for each in found if each["type"] == "directory")
    names = {path.rpartition("/")[2] for path in paths}
    # A database may be called `schema`; both of Paimon's folders are there after the first commit.
    shows = names.intersection((*_FOLDERS["hudi"], *_FOLDERS["delta"])) or names.issuperset(
        _FOLDERS["paimon"]
    )
    if shows or (_ICEBERG in names and _has_metadata(fs, folder)):
        yield folder
    elif depth:
        for path in paths:
            if path.rpartition("/")[2][:1] not in (".", "_"):
                yield from _below(fs, path, depth - 1)


def _has_metadata(fs: Any, root: str) -> bool:
    """Whether a folder has Iceberg's metadata."""
    return any(is_metadata(each.last) for each in listed(fs, below(root, _ICEBERG)))


def opened(url: str, fs: Any, options: dict[str, Any]) -> tuple[Any, str]:
    """Return the filesystem of an address, and the folder in there; parameters as for :func:`read`."""
    if fs is None:
        from fsspec.core import url_to_fs

        fs, root = url_to_fs(url, **options)
    else:
        root = fs._strip_protocol(url)  # noqa: SLF001 - fsspec has no other name for it
    return fs, str(root).rstrip("/")


def _formats_of(fs: Any, root: str) -> list[str]:
    fs.invalidate_cache(root)
    if is_metadata(root.rpartition("/")[2]):
        return ["iceberg"]
    found = [
        each for each, folders in _FOLDERS.items() if any(fs.isdir(below(root, folder)) for folder in folders)
    ]
    return found or ["iceberg"] * _has_metadata(fs, root)


def _format_of(fs: Any, root: str) -> str:
    found = _formats_of(fs, root)
    if not found:
        listed(fs, root)  # who may not do that sees none of them
        looked = ", ".join(f"{folder}/" for folders in _FOLDERS.values() for folder in folders)
        raise ConfigError(
            f"there is no table at {root!r}: none of {looked}, metadata/*.metadata.json is there"
        )
    if len(found) > 1:
        raise ConfigError(f"{root!r} is a table of {' and of '.join(found)}: say which by format=")
    return found[0]
