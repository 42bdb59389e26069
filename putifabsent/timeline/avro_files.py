"""Avro files with all their records, also those whose blocks are compressed by Zstandard, as Paimon's are."""

from __future__ import annotations

import io
import json
from typing import Any

from putifabsent.timeline.contents import avro
from putifabsent.timeline.reading import arrow

__all__ = ["records_of"]

_ZSTANDARD = b"zstandard"
_SYNC = 16
_HEADER = {
    "type": "record",
    "name": "header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": _SYNC}},
    ],
}


def records_of(written: bytes) -> list[dict[str, Any]]:
    """Return the records of an Avro file.

    Parameters
    ----------
    written
        All of its bytes.

    Raises
    ------
    ValueError
        They are torn, or no Avro.
    ConfigError
        A package that this takes is not installed.
    """
    fastavro = avro()
    try:
        header: Any = fastavro.schemaless_reader(io.BytesIO(written), _HEADER, None)
        if header["meta"].get("avro.codec") == _ZSTANDARD:
            return _decompressed(written, header)
        return list(fastavro.reader(io.BytesIO(written)))
    except (EOFError, IndexError, KeyError, OSError, TypeError) as error:
        raise ValueError(f"it is torn, or no Avro: {error}") from error


def _decompressed(written: bytes, header: Any) -> list[dict[str, Any]]:
    """Return the records of a file that pyarrow must decompress: fastavro wants another package for that."""
    fastavro, pa = avro(), arrow()
    read = fastavro.schemaless_reader
    schema = fastavro.parse_schema(json.loads(header["meta"]["avro.schema"]))
    file = io.BytesIO(written)
    read(file, _HEADER, None)
    records: list[dict[str, Any]] = []
    while file.tell() < len(written):
        count = read(file, "long", None)
        packed = read(file, "bytes", None)
        if file.read(_SYNC) != header["sync"]:
            raise ValueError("it is torn: a block has no end")
        block = io.BytesIO(pa.CompressedInputStream(pa.BufferReader(packed), "zstd").read())
        records += (read(block, schema, None) for _ in range(count))
    return records
