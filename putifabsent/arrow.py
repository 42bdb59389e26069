"""pyarrow's door: a ``pyarrow.fs.FileSystem`` whose writes to guarded names are creates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyarrow.fs import FSSpecHandler, PyFileSystem

from putifabsent.fsspec_plugin.protocols import guarded

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

__all__ = ["filesystem"]


def filesystem(url: str, **options: Any) -> FileSystem:
    """Return a guarded filesystem for pyarrow.

    Parameters
    ----------
    url
        An address that says which filesystem: ``"pias3://"`` or ``"pias3://bucket/table"``; a plain
        ``"s3://"`` or a local path means its guarded kind. Names are then said in full, as with
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
    return PyFileSystem(FSSpecHandler(fs))
