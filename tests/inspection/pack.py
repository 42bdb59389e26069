"""Packs a table that real writers have made, for the tests to inspect.

::

    python tests/inspection/pack.py /data/bucket/table tests/inspection/fixtures/raced_delta.tar.xz

Those that are kept were written by unmodified writers on Spark, several at once, some of them killed, on a
local S3 server (``make test-spark``). Metadata is kept as it is; of data files the names alone.
"""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

METADATA = {".hoodie", "_delta_log", "snapshot", "schema", "changelog", "manifest"}
SKIPPED = {".putifabsent", "metadata", ".heartbeat", ".temp", ".aux", "_commits"}


def main() -> None:
    table, packed = Path(sys.argv[1]), Path(sys.argv[2])
    name = packed.name.partition(".")[0]
    with tarfile.open(packed, "w:xz", format=tarfile.PAX_FORMAT) as archive:
        for file in sorted(table.rglob("*")):
            parts = file.relative_to(table).parts
            if not file.is_file() or SKIPPED & set(parts):
                continue
            info = archive.gettarinfo(str(file), f"{name}/{'/'.join(parts)}")
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            info.pax_headers = {}
            if parts[0] in METADATA:
                with file.open("rb") as opened:
                    archive.addfile(info, opened)
            else:
                info.size = 0
                archive.addfile(info)


if __name__ == "__main__":
    main()
