"""The files of a table, through any fsspec filesystem: listed as they are now, and read whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

__all__ = ["Listed", "below", "listed", "modified", "numbered", "read"]

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


def numbered(fs: Any, folder: str, number_in: Callable[[str], int | None]) -> dict[str, int]:
    """Return the files of a folder that are numbered, by their numbers.

    Parameters
    ----------
    number_in
        Tells the number from the last component of a name; None: it has none.
    """
    numbers = ((each.path, number_in(each.last)) for each in listed(fs, folder))
    there = {path: number for path, number in numbers if number is not None}
    return dict(sorted(there.items(), key=lambda item: item[1]))


def read(fs: Any, paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Read files, many at a time where the filesystem can; without those that have expired meanwhile.

    Raises
    ------
    OSError
        The store refuses.
    """
    for start in range(0, len(paths), _AT_ONCE):
        some = list(paths[start : start + _AT_ONCE])
        found = fs.cat(some, on_error="return")
        for path in some:
            written = found[path]
            if isinstance(written, FileNotFoundError):
                continue
            if isinstance(written, Exception):
                raise written
            yield path, written


def modified(fs: Any, path: str) -> datetime | None:
    """Return when the store says that a file was written; None: it doesn't say."""
    try:
        when: datetime | None = fs.modified(path)
    except (FileNotFoundError, NotImplementedError):
        return None
    return when
