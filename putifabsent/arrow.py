"""pyarrow's door: a ``pyarrow.fs.FileSystem`` whose writes to guarded names are creates."""

from __future__ import annotations

import errno
from glob import has_magic
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyarrow.fs import FileSelector, FSSpecHandler, PyFileSystem

from putifabsent.fsspec_plugin.many import ascending, place_of
from putifabsent.fsspec_plugin.paths import refuse_pattern
from putifabsent.fsspec_plugin.protocols import guarded

if TYPE_CHECKING:
    import os

    from pyarrow.fs import FileInfo, FileSystem

__all__ = ["filesystem"]


def filesystem(url: str | os.PathLike[str], **options: Any) -> FileSystem:
    """Return a guarded filesystem for pyarrow.

    Parameters
    ----------
    url
        An address that says which filesystem: ``"pias3://"`` or ``"pias3://bucket/table"``; a plain
        ``"s3://"`` or a local path means its guarded kind. Names are then given in full, as with
        ``pyarrow.fs.S3FileSystem``: ``"bucket/table/part-0.parquet"``; those on local disk as addresses
        (see the notes).
    options
        Of the mount and of the wrapped filesystem.

    Returns
    -------
    pyarrow.fs.FileSystem
        ``NameTaken`` and ``OutcomeUnknown`` come through it as they are, as ``FileExistsError`` and
        ``OSError``.

    Notes
    -----
    ``pyarrow.parquet.write_table(table, where, filesystem=fs)`` removes ``where`` by ``os.remove`` after any
    failure, whatever ``fs`` is: on local disk that is the winner's file. An address is no path to
    ``os.remove``, so say ``"piafile:///table/part-0.parquet"`` there.

    ``pyarrow.fs.copy_files`` of a table with numbered entries wants ``use_threads=False``, and this
    filesystem as its source: it lists each series in ascending order. Created out of order, an entry looks
    expired, and is refused.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> fs = filesystem("piamemory://", guard="/t/*.parquet")
    >>> pq.write_table(pa.table({"x": [1]}), "/t/1.parquet", filesystem=fs)
    >>> pq.write_table(pa.table({"x": [2]}), "/t/1.parquet", filesystem=fs)
    Traceback (most recent call last):
    putifabsent.errors.NameTaken: ...
    """
    fs, _ = guarded(url, **options)
    return PyFileSystem(_Guarded(fs))


class _Guarded(FSSpecHandler):
    """Lists each numbered series in ascending order: what copies a folder creates it so.

    And it takes each name for what it is: as addresses without their scheme, and not for a pattern.
    """

    def normalize_path(self, path: str) -> str:
        stripped: str = self.fs._strip_protocol(path)  # noqa: SLF001 - fsspec's name for it
        return stripped

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        folder = self.normalize_path(selector.base_dir)
        found = super().get_file_info_selector(
            FileSelector(folder, selector.allow_not_found, selector.recursive)
        )
        others, series = ascending(found, lambda info: place_of(self.fs.explain(info.path)))
        return [*others, *chain(*series)]

    def delete_dir(self, path: str) -> None:
        self._refuse_pattern(path)
        super().delete_dir(path)

    def _delete_dir_contents(self, path: str, missing_dir_ok: bool) -> None:
        try:
            inside = self.fs.ls(path, detail=True)
        except FileNotFoundError:
            if missing_dir_ok:
                return
            raise
        for each in inside:
            if each["type"] == "directory":
                self.delete_dir(each["name"])
            else:
                self.fs.rm_file(each["name"])

    def delete_file(self, path: str) -> None:
        if self.fs.info(path)["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, "it is a folder", path)
        self.fs.rm_file(path)

    def move(self, src: str, dest: str) -> None:
        if has_magic(src) and self.fs.isfile(src):
            if self.fs.isdir(dest):
                dest = f"{dest.rstrip('/')}/{src.rpartition('/')[2]}"
            full = self.fs.mount.paths.full
            if full(src) != full(dest):
                self.copy_file(src, dest)
                self.fs.rm_file(src)
        else:
            self._refuse_pattern(src)
            super().move(src, dest)

    def copy_file(self, src: str, dest: str) -> None:
        if has_magic(src):
            self.fs.cp_file(src, dest)
        else:
            super().copy_file(src, dest)

    def _refuse_pattern(self, path: str) -> None:
        if self.fs.mount.kind != "local":
            refuse_pattern(path)
