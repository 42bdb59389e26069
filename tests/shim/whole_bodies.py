"""Bodies of guarded names as their formats write them, and where each may be cut without anybody noticing."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from putifabsent.shim.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from putifabsent.shim.names import Name

__all__ = ["BODIES", "EMPTY", "HALVES", "UNKNOWN", "Written", "avro", "named", "written_by_formats"]

TESTS = Path(__file__).parents[1]
POLICY = Policy(["hudi", "paimon", "delta", "iceberg", "spark"])
T, C = "20260101120000001", "20260101120100001"
TIMELINE = "bucket/t/.hoodie/timeline"


class Written(NamedTuple):
    """A body.

    Attributes
    ----------
    path
        Its name.
    body
        All of it.
    cuts
        The lengths at which nobody can tell that it is half: the ends of lines that may be the last ones, and
        of numbers.
    """

    path: str
    body: bytes
    cuts: frozenset[int] = frozenset()


def named(path: str) -> Name:
    """Return what the policy says of a name, which must be guarded."""
    name = POLICY.classify(path)
    assert name.guarded
    return name


def avro(records: int, codec: str = "deflate") -> bytes:
    """Return an Avro file of so many records, each in a block of its own."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "string"}]}
    file = io.BytesIO()
    fastavro.writer(
        file,
        fastavro.parse_schema(schema),
        [{"x": f"record {number}"} for number in range(records)],
        codec=codec,
        sync_interval=1,
        sync_marker=b"0123456789abcdef",
    )
    return file.getvalue()


def lined(body: bytes, first: int) -> frozenset[int]:
    """Return where lines end, before their line feed and behind it, from the ``first`` one on."""
    ends = [match.start() for match in re.finditer(rb"\n|\Z", body)][first:]
    return frozenset(each for end in ends for each in (end, end + 1) if each < len(body))


def parquet() -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"instantTime": [T], "action": ["commit"]}), file)
    return file.getvalue()


SAYS = json.dumps({"quoted": 'a "brace" { and \\', "list": [[1, {"x": None}], []], "end": 1})
METADATA = json.dumps({"format-version": 2, "location": "s3://b/t", "schemas": [{"fields": []}]})
ACTIONS: tuple[dict[str, object], ...] = (
    {"commitInfo": {"timestamp": 1, "operation": "WRITE"}},
    {"add": {"path": "a.parquet", "stats": '{"numRecords":3,"minValues":{"x":"\\""}}'}},
    {"add": {"path": "b.parquet", "partitionValues": {}, "stats": None}},
)
DELTA = "".join(json.dumps(action) + "\n" for action in ACTIONS).encode()
OFFSETS = b'v1\n{"batchWatermarkMs":0,"conf":{"spark.a":"b c"}}\n{"logOffset":3}\n{"t":{"0":12}}'
NUMBERS = b'v1\n{"batchWatermarkMs":0}\n-\n12345'
BY_SOURCE = b'v2\n{"batchWatermarkMs":0}\n0:{"logOffset":3}\n1:{"logOffset":4}'
SINK = b'v1\n{"path":"a","size":1}\n{"path":"b","size":2}'
RECORDS = avro(3)
# As encoders write it that say how many bytes the entries of a map take.
SIZED = b"Obj\x01\x01\x14\x02k\x0evvvvvvv\0" + avro(1)[-16:] + b"\x02\x02x" + avro(1)[-16:]

BODIES = {
    "Avro of Hudi": Written(f"{TIMELINE}/{T}_{C}.commit", avro(1)),
    "Avro without a codec": Written(f"{TIMELINE}/{T}.clean.requested", avro(1, "null"), frozenset({0})),
    "Avro of blocks": Written(
        f"{TIMELINE}/{T}_{C}.clean",
        RECORDS,
        frozenset(
            match.end() for match in list(re.finditer(b"0123456789abcdef", RECORDS))[1:-1]
        ),
    ),
    "Avro whose map tells its size": Written(f"{TIMELINE}/{T}_{C}.commit", SIZED),
    "JSON of Hudi": Written(f"bucket/t/.hoodie/{T}.deltacommit", SAYS.encode()),
    "a manifest of Hudi's history": Written(
        f"{TIMELINE}/history/manifest_3", json.dumps({"files": [{"fileName": "x"}]}, indent=2).encode()
    ),
    "Hudi's history": Written(f"{TIMELINE}/history/{T}_{T}_0.parquet", parquet()),
    "a Paimon snapshot": Written("bucket/db.db/t/snapshot/snapshot-3", SAYS.encode()),
    "a Paimon schema": Written(
        "bucket/db.db/t/schema/schema-0", json.dumps({"id": 0, "fields": []}, indent=2).encode()
    ),
    "a Delta commit": Written(f"bucket/t/_delta_log/{3:020d}.json", DELTA, lined(DELTA, 0) | {0}),
    "Iceberg metadata": Written("bucket/t/metadata/v3.metadata.json", METADATA.encode()),
    "Iceberg metadata, packed": Written(
        "bucket/t/metadata/v3.gz.metadata.json", gzip.compress(METADATA.encode(), mtime=0)
    ),
    "Spark's offsets": Written("bucket/c/offsets/3", OFFSETS, lined(OFFSETS, 2)),
    "Spark's offsets, numbers": Written(
        "bucket/c/offsets/4", NUMBERS, lined(NUMBERS, 2) | set(range(NUMBERS.rindex(b"1"), len(NUMBERS)))
    ),
    "Spark's offsets by source": Written(
        "bucket/c/offsets/5", BY_SOURCE,
        lined(BY_SOURCE, 2) | {BY_SOURCE.index(source) + cut for source in (b"0:", b"1:") for cut in (1, 2)},
    ),
    "Spark's commits": Written("bucket/c/commits/3", b'v1\n{"nextBatchWatermarkMs":0}'),
    "Spark's metadata": Written("bucket/c/metadata", b'{"id":"2f0e"}'),
    "Spark's sink": Written("bucket/out/_spark_metadata/3", SINK, lined(SINK, 0)),
    "Spark's sink, compacted": Written("bucket/out/_spark_metadata/9.compact", SINK, lined(SINK, 0)),
    "Spark's source of files": Written("bucket/c/sources/0/3", SINK, lined(SINK, 0) | {0}),
    "Spark's source of Kafka": Written(
        "bucket/c/sources/0/0", b'\0v1\n{"t":{"0":12}}', frozenset({0, 3, 4})
    ),
}  # fmt: skip
"""As their formats write them, by what they are."""

HALVES = {
    "packed, and whole as that": (
        "bucket/t/metadata/v3.gz.metadata.json", gzip.compress(b'{"format-version": 2, "x": ['),
    ),
    "a header without a record": (f"{TIMELINE}/{T}_{C}.commit", avro(0)),
    "a line in the middle": (f"bucket/t/_delta_log/{3:020d}.json", b'{"a":1}\n{"b"\n{"c":1}\n'),
    "a string in the middle": (f"bucket/t/_delta_log/{3:020d}.json", b'{"a":"x\n{"c":1}\n'),
    "letters that look like a footer": (
        f"{TIMELINE}/history/{T}_{T}_0.parquet", b"PAR1" + b"\xff" * 20 + b"PAR1",
    ),
}  # fmt: skip
"""What can't have come of a cut at the end alone."""

EMPTY = {
    f"{TIMELINE}/{T}.commit.requested": True,
    f"{TIMELINE}/{T}_{C}.commit": False,
    f"{TIMELINE}/{T}_{C}.savepoint": False,
    f"bucket/t/.hoodie/{T}.clean": False,
    f"{TIMELINE}/history/manifest_1": False,
    f"{TIMELINE}/history/{T}_{T}_0.parquet": False,
    "bucket/db.db/t/snapshot/snapshot-1": False,
    "bucket/db.db/t/schema/schema-0": False,
    f"bucket/t/_delta_log/{0:020d}.json": True,
    "bucket/t/metadata/v1.metadata.json": False,
    "bucket/t/metadata/v1.gz.metadata.json": False,
    "bucket/c/offsets/0": False,
    "bucket/c/commits/0": False,
    "bucket/c/metadata": False,
    "bucket/out/_spark_metadata/0": False,
    "bucket/c/sources/0/0": True,
}
"""Whether a name's body may have no bytes."""

UNKNOWN = (b"mine", b"[1", b'"half', b"Object", b"PARTS", b"value", b"v1.2 {", b" {")
"""What does not begin as any format does."""


@cache
def written_by_formats() -> tuple[Written, ...]:
    """Return the guarded names of all tables that their own writers have made for these tests."""
    return tuple(_in_fixtures())


def _in_fixtures() -> Iterator[Written]:
    for archive in sorted(TESTS.glob("*/fixtures/*.tar.xz")):
        with tarfile.open(archive) as files:
            for each in files:
                path = f"bucket/{each.name}"
                if each.isfile() and POLICY.classify(path).guarded:
                    file = files.extractfile(each)
                    assert file is not None
                    yield Written(path, file.read())
