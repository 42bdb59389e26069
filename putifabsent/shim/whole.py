"""Whether the bytes of a guarded name are whole: what a writer has left in the middle is not published.

A body that begins as its format does must end as its format does. One that begins otherwise is no half of
what the format writes: nothing is known of it, and it passes.

============  ==============================================  =============================================
bytes         are whole where                                 can't be checked, and pass
============  ==============================================  =============================================
Avro          there is a record, and the sync marker is at    more blocks of records; Hudi's instants have
              the end                                         one
JSON, and     every brace and bracket is closed; Spark's      lines that are not there at all, but for the
lines of it   offsets and commits have each kind of line      first of each kind; half of a bare number
gzip          its checksum is there, and what is in it is     one of more than :data:`LARGE` bytes
              whole
Parquet       the footer is there that the end tells of
none at all   the format writes that: Hudi requests by empty files, a Delta commit of no actions is empty
              (before 2.4, without ``commitInfo``), and what a source of Spark's keeps is its own affair
============  ==============================================  =============================================

Of more than :data:`LARGE` bytes the ends are looked at alone; JSON in one line then ends with a brace, of
which nobody can tell whether it is the last one.
"""

from __future__ import annotations

import errno
import re
import zlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from putifabsent.backends.base import Body
from putifabsent.errors import Damaging
from putifabsent.shim.formats import delta, hudi, iceberg, paimon, spark
from putifabsent.shim.names import Name, Role

LARGE = 16 * 2**20
"""Bytes; of a body that has more the ends are looked at alone."""

_END = 2**20
_CUT_OFF = "it ends within its first bytes"
_AVRO = b"Obj\x01"
_SYNC = 16
_LONGEST_NUMBER = 63  # bits, before the last byte of it
_GZIP = b"\x1f\x8b"
_PARQUET = (b"PAR1", b"PARE")  # the second one's footer is encrypted
_FOOTER = 8  # its length, and the same letters again
_VERSION = re.compile(rb"\0?v[0-9]+\r?")  # of Spark's logs, their first line; Kafka's begin with a zero
_OTHERS = bytes(set(range(256)) - set(b'{}[]"'))
"""What says nothing of JSON's structure."""
_LINES = {"offsets": 3, "commits": 2}
"""Version, metadata, one offset a source."""


class _Ends(NamedTuple):
    """What is looked at of a body: ``head`` and ``tail`` are each all of it, unless it is large."""

    size: int
    head: bytes
    tail: bytes

    @property
    def is_all(self) -> bool:
        return self.size == len(self.head)


def check_whole(name: Name, body: Body) -> None:
    """Refuse to create a guarded name from bytes that are not whole: ``Damaging`` says what they lack."""
    lack = lack_of(name, body)
    if lack is not None:
        advice = "Write it again from its beginning; half a file that is to be kept goes round the guard"
        raise Damaging(name.path, f"its bytes are not whole: {lack}. {advice}")


def is_judged(name: Name) -> bool:
    return name.guarded and name.format in _RULES


def looked_at(name: Name, size: int) -> tuple[tuple[int, int], ...]:
    """Return the ranges ``[start, stop)`` of so many bytes that :func:`check_whole` looks at."""
    if not is_judged(name):
        return ()
    return ((0, _END), (size - _END, size)) if size > LARGE else ((0, size),)


class Seen(Body):
    """Bytes of which there is what :func:`check_whole` looks at: some pieces, by where they begin."""

    __slots__ = ("pieces",)

    def __init__(self, size: int, pieces: Mapping[int, bytes]) -> None:
        self.size = size
        self.pieces = pieces

    def read(self, start: int, stop: int) -> bytes:
        """Return ``[start, stop)``, which is one of the pieces."""
        piece = self.pieces[start]
        if len(piece) != stop - start:
            raise OSError(errno.EIO, f"{len(piece)} bytes were read of {stop - start}")
        return piece


def lack_of(name: Name, body: Body) -> str | None:
    """Return what a guarded name's bytes lack to be whole; None: nothing, as far as they can be checked.

    What no format guards, passes. It takes microseconds for some kilobytes, and a millisecond a mebibyte; of
    JSON in one piece three, where strings have escapes.
    """
    if not is_judged(name):
        return None
    rule = _RULES[str(name.format)]
    if not body.size:
        return None if _may_be_empty(name) else f"there are none, and {name.format} always has some here"
    if body.size > LARGE:
        return rule(name, _Ends(body.size, body.read(0, _END), body.read(body.size - _END, body.size)))
    written = body.whole()
    return rule(name, _Ends(body.size, written, written))


# --- one rule a format


def _may_be_empty(name: Name) -> bool:
    if name.format == hudi.FORMAT:
        step = hudi.instant_in(name.path.rpartition("/")[2])
        return step is not None and step.state != "completed"
    return name.format == delta.FORMAT or (name.format == spark.FORMAT and "/sources/" in name.path)


def _hudi(name: Name, seen: _Ends) -> str | None:
    if name.role is Role.LOG_ENTRY:
        return _parquet(seen)
    return _avro(seen) or _document(seen)


def _spark(name: Name, seen: _Ends) -> str | None:
    first = seen.head.partition(b"\n")[0]
    if not _VERSION.fullmatch(first):
        return _CUT_OFF if first in (b"\0", b"\0v", b"v") else _document(seen)
    log = name.path.rpartition("/")[0].rpartition("/")[2]
    if len(seen.head.strip().split(b"\n", 2)) < _LINES.get(log, 1):
        return "its last lines are not there"
    return _lines(seen)


_RULES: dict[str, Callable[[Name, _Ends], str | None]] = {
    delta.FORMAT: lambda _, seen: _lines(seen) if seen.head[:1] == b"{" else None,
    hudi.FORMAT: _hudi,
    iceberg.FORMAT: lambda _, seen: _gzip(seen) or _document(seen),
    paimon.FORMAT: lambda _, seen: _document(seen),
    spark.FORMAT: _spark,
}

# --- one rule a kind of bytes


def _document(seen: _Ends) -> str | None:
    if seen.head[:1] != b"{":
        return None
    if seen.is_all:
        return _left_open(seen.head)
    # In more lines than one, only the last brace begins one.
    end = b"\n}" if seen.head[1:3].startswith((b"\n", b"\r\n")) else b"}"
    return None if seen.tail.rstrip().endswith(end) else "its last brace is not there"


def _lines(seen: _Ends) -> str | None:
    # A line has no line break inside: of what is cut off, all lines are whole but the last one.
    tail = seen.tail.rstrip()
    begins = tail.rfind(b"\n") + 1
    if not (begins or seen.is_all):
        return None if tail.endswith(b"}") else "its last line is cut off"
    # To count what is in strings, too, takes a fraction of the time, and tells what is lost in the middle.
    if seen.is_all and _open_in(seen.head.translate(None, _OTHERS)):
        return _left_open(seen.head)
    return _left_open(tail[begins:])


def _left_open(text: bytes) -> str | None:
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotes with nothing between them tell nothing of what is around.
    structure = text.translate(None, _OTHERS).replace(b'""', b"")
    # All that is in strings goes, also in one that has no end: the braces around that are open all the same.
    left = _open_in(b"".join(structure.split(b'"')[::2]))
    return f"{left} of its braces and brackets are not closed" if left > 0 else None


def _open_in(structure: bytes) -> int:
    return len(structure.translate(None, b'}]"')) - len(structure.translate(None, b'{["'))


def _avro(seen: _Ends) -> str | None:
    if not seen.head.startswith(_AVRO):
        return _CUT_OFF if _AVRO.startswith(seen.head) else None
    header = seen.head[:_END]
    try:
        sync = _after_map(header, len(_AVRO))
    except IndexError:
        return _CUT_OFF if seen.size <= _END else None
    data = sync + _SYNC
    if seen.size <= data:
        return "there is no record in it"
    return None if seen.tail[-_SYNC:] == header[sync:data] else "its last sync marker is not there"


def _after_map(data: bytes, at: int) -> int:
    """Return where the map ends that begins at ``at``; IndexError: not in these bytes."""
    while True:
        count, at = _long(data, at)
        if count == 0:
            return at
        if count < 0:  # their size in bytes comes first
            _, at = _long(data, at)
        for _ in range(2 * abs(count)):  # keys and values
            length, at = _long(data, at)
            at += length
            if length < 0:
                raise IndexError(at)


def _long(data: bytes, at: int) -> tuple[int, int]:
    """Return a number, and where it ends; IndexError: not in these bytes."""
    value = 0
    for shift in range(0, _LONGEST_NUMBER + 1, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise IndexError(at)


def _gzip(seen: _Ends) -> str | None:
    if not seen.head.startswith(_GZIP):
        return _CUT_OFF if _GZIP.startswith(seen.head) else None
    if not seen.is_all:
        return None
    stream = zlib.decompressobj(wbits=31)
    packed, written, size = seen.head, bytearray(), 0
    while not stream.eof:
        try:
            piece = stream.decompress(packed, _END)
        except zlib.error as error:
            return f"it can't be unpacked: {error}"
        packed = stream.unconsumed_tail
        if not (piece or packed):
            return "its checksum is not there"
        size += len(piece)
        written += piece
        if len(written) > LARGE:
            del written[_END:-_END]
    inside = bytes(written)
    return _document(
        _Ends(size, inside, inside) if size == len(inside) else _Ends(size, inside[:_END], inside[-_END:])
    )


def _parquet(seen: _Ends) -> str | None:
    letters = seen.head[: len(_PARQUET[0])]
    if letters not in _PARQUET:
        return _CUT_OFF if _PARQUET[0].startswith(letters) else None
    end = seen.tail[-_FOOTER:]
    length = int.from_bytes(end[:4], "little")
    is_there = end[4:] == letters and 0 < length <= seen.size - len(letters) - _FOOTER
    return None if is_there else "its footer is not there"
