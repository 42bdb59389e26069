"""The files of a table, through any fsspec filesystem: listed as they are now, and read whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

__all__ = ["Listed", "all_of", "below", "listed", "modified"]

_AT_ONCE = 256


class Listed(NamedTuple):
    """A file in a folder.

    Attributes
    ----------
    path
        Its full name, and ``last`` the last component of that.
    size
        Bytes.
    salt
        Whose it is, where a mount shows it under the name that its writer calls it; else empty.
    """

    path: str
    last: str
    size: int
    salt: str


def below(root: str, path: str) -> str:
    """Return the full name of a path within a folder, which may be the root of all."""
    return f"{root}/{path}" if root else path


def listed(fs: Any, folder: str) -> list[Listed]:
    """Return the files that are in a folder now; of one that isn't there: none."""
    fs.invalidate_cache(folder)  # others' files must be seen
    try:
        found = fs.ls(folder, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        return []
    files = [each for each in found if each["type"] == "file"]
    return [
        Listed(each["name"], each["name"].rpartition("/")[2], each["size"], each.get("salt") or "")
        for each in files
    ]


def all_of(fs: Any, paths: Sequence[str]) -> Iterator[tuple[str, bytes | Exception]]:
    """Read files, many at a time where the filesystem can; return each with its bytes, or why not."""
    for start in range(0, len(paths), _AT_ONCE):
        some = list(paths[start : start + _AT_ONCE])
        found = fs.cat(some, on_error="return")
        yield from ((path, found[path]) for path in some)


def modified(fs: Any, path: str) -> datetime | None:
    """Return when the store says that a file was written; None: it doesn't say."""
    try:
        when: datetime | None = fs.modified(path)
    except (FileNotFoundError, NotImplementedError):
        return None
    return when
