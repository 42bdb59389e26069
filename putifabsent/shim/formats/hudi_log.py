"""Hudi's log files, as far as the history below table version 8 is in them: blocks of Avro records.

A file is a row of blocks::

    #HUDI#                  6 bytes
    length of the block     8 bytes; from here to its end, all numbers big-endian
    version of the log      4
    kind of block           4; 3: Avro data
    header                  4: how many; each: 4 its key, 4 its length, the text; key 2: the Avro schema
    length of the content   8
    content                 4: version; 4: how many records; each: 4 its length, the record
    footer                  as the header
    length of the block     8; with the first 6 bytes
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Block", "blocks"]

_MAGIC = b"#HUDI#"
_AVRO_DATA = 3
_SCHEMA = 2
_FIRST_THAT_COUNTS = 1
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")


class Block(NamedTuple):
    """A block of Avro records.

    Attributes
    ----------
    schema
        Of all of them, in Avro's JSON.
    records
        The bytes of each.
    """

    schema: str
    records: tuple[bytes, ...]


class _Reader:
    """Takes a block apart, and never reads past its end."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def take(self, length: int) -> memoryview:
        if length < 0 or self._at + length > len(self._data):
            raise ValueError("a length in it points past its end")
        self._at += length
        return self._data[self._at - length : self._at]

    def four(self) -> int:
        return int(_INT.unpack(self.take(_INT.size))[0])

    def eight(self) -> int:
        return int(_LONG.unpack(self.take(_LONG.size))[0])

    def texts(self) -> dict[int, str]:
        return {self.four(): str(self.take(self.four()), "utf-8") for _ in range(self.four())}


def blocks(log: bytes) -> Iterator[Block]:
    """Return the blocks of Avro records in a log file, and pass over those of other kinds.

    Raises
    ------
    ValueError
        It is cut off, or damaged, at the next block.
    """
    data = memoryview(log)
    at = 0
    while at < len(data):
        start = at + len(_MAGIC)
        if data[at:start] != _MAGIC:
            raise ValueError(f"no block begins at byte {at}")
        if start + _LONG.size > len(data):
            raise ValueError(f"the block at byte {at} is cut off")
        length = _LONG.unpack(data[start : start + _LONG.size])[0]
        end = start + _LONG.size + length
        if length < _LONG.size or end > len(data):
            raise ValueError(f"the block at byte {at} is cut off")
        if _LONG.unpack(data[end - _LONG.size : end])[0] != length + len(_MAGIC):
            raise ValueError(f"the block at byte {at} does not end as it begins")
        block = _block(_Reader(data[start + _LONG.size : end]))
        if block is not None:
            yield block
        at = end


def _block(reader: _Reader) -> Block | None:
    reader.four()
    kind = reader.four()
    header = reader.texts()
    if kind != _AVRO_DATA:
        return None
    content = _Reader(reader.take(reader.eight()))
    if content.four() < _FIRST_THAT_COUNTS:
        raise ValueError("a block is of a version that does not count its records")
    if _SCHEMA not in header:
        raise ValueError("a block of records has no schema")
    count = content.four()
    return Block(header[_SCHEMA], tuple(bytes(content.take(content.four())) for _ in range(count)))
