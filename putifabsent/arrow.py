"""pyarrow's door: a ``pyarrow.fs.FileSystem`` whose writes to guarded names are creates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyarrow.fs import FSSpecHandler, PyFileSystem

from putifabsent.fsspec_plugin.bulk import ascending, place_of
from putifabsent.fsspec_plugin.protocols import guarded

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSelector, FileSystem

__all__ = ["filesystem"]


def filesystem(url: str, **options: Any) -> FileSystem:
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
    return PyFileSystem(_InOrder(fs))


class _InOrder(FSSpecHandler):
    """Lists each numbered series in ascending order: what copies a folder creates it so."""

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        found = super().get_file_info_selector(selector)
        infos, _ = ascending(found, lambda info: info.path, lambda path: place_of(self.fs.explain(path)))
        return infos
