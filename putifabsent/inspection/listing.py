"""Which data files a table has, by one walk through its folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.shim.formats import is_state

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    Progress = Callable[[int, int, str], None]

__all__ = ["Files", "Progress", "data_files"]


class Files(NamedTuple):
    """The files that are there.

    Attributes
    ----------
    paths
        Their full names.
    lasts
        The same by their last components, for formats that give each a UUID.
    """

    paths: frozenset[str]
    lasts: Mapping[str, str]


def data_files(fs: Any, root: str, skipped: Collection[str], progress: Progress | None = None) -> Files:
    """Return all files of a table but those in its format's own folders.

    Parameters
    ----------
    fs
        The filesystem.
    root
        The table's folder.
    skipped
        Folders in the root that are not looked into.
    progress
        Called with how many folders in the root are done, of how many, and how many files there are so far.

    Raises
    ------
    OSError
        The store refuses.
    """
    fs.invalidate_cache()  # others' files must be seen
    try:
        top = fs.ls(root, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        top = []
    paths = {each["name"] for each in top if each["type"] == "file"}
    folders = [each["name"].rstrip("/") for each in top if each["type"] == "directory"]
    wanted = [each for each in folders if _last(each) not in skipped and not is_state(each)]
    for done, folder in enumerate(wanted):
        if progress is not None:
            progress(done, len(wanted), f"{len(paths):,} files")
        paths.update(path for path in fs.find(folder) if not is_state(path))
    if progress is not None:
        progress(len(wanted), len(wanted), f"{len(paths):,} files")
    return Files(frozenset(paths), {_last(path): path for path in paths})


def _last(path: str) -> str:
    return path.rpartition("/")[2]
