"""How long it takes to read a long history from local disk: ``python bench/timeline.py [--json]``.

The table is made as Hudi's archiver makes one: ten instants a file, ten files of a level to one of the next,
3 KB of metadata an instant. Each figure is the median of several readings by a reader that knows nothing yet.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from putifabsent.timeline import HudiTimeline, read

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH = 10
METADATA = 3_000
COLUMNS = ("instantTime", "completionTime", "action", "metadata", "plan", "version")


def stamp(n: int, hour: int) -> str:
    """Return the n-th time of an hour, and of the same hour of the days after it."""
    minutes, millis = divmod(n, 60_000)
    return f"202601{1 + minutes // 60:02d}{hour:02d}{minutes % 60:02d}{millis // 1000:02d}{millis % 1000:03d}"


def write(folder: Path, first: int, last: int, level: int, draw: random.Random) -> dict[str, Any]:
    """Write a file of the history; return what a manifest says of it."""
    rows = range(first, last)
    columns: list[list[Any]] = [
        [stamp(n, 12) for n in rows],
        [stamp(n, 13) for n in rows],
        ["commit" if n % 3 else "clean" for n in rows],
        [draw.randbytes(METADATA) for _ in rows],
        [None for _ in rows],
        [1 for _ in rows],
    ]
    kinds = [pa.string(), pa.string(), pa.string(), pa.binary(), pa.binary(), pa.int32()]
    file = io.BytesIO()
    pq.write_table(pa.table(columns, schema=pa.schema(list(zip(COLUMNS, kinds, strict=True)))), file)
    name = f"{stamp(first, 12)}_{stamp(last - 1, 12)}_{level}.parquet"
    (folder / name).write_bytes(file.getvalue())
    return {"fileName": name, "fileLen": len(file.getvalue())}


def make(root: Path, instants: int) -> None:
    """Write a table with so many archived instants."""
    history = root / ".hoodie/timeline/history"
    history.mkdir(parents=True)
    (root / ".hoodie/hoodie.properties").write_text("hoodie.table.version=9\n")
    draw = random.Random(0)
    files = []
    done = 0
    # As many of the highest level as there can be, then of the next one below.
    for level in range(3, -1, -1):
        size = BATCH ** (level + 1)
        # Some of each level stay as they are, for the next compaction.
        until = instants if level == 0 else max(instants - size // 2, 0)
        while done + size <= until:
            files.append(write(history, done, done + size, level, draw))
            done += size
    (history / "manifest_1").write_text(json.dumps({"files": files}))
    (history / "_version_").write_text("1")


def median(call: Callable[[], object], times: int) -> float:
    """Return a call's median duration in seconds."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def main() -> None:
    """Make a table, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instants", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), said.instants)

        def opened() -> HudiTimeline:
            timeline = read(folder)
            assert isinstance(timeline, HudiTimeline)
            return timeline

        found = list(opened().history())
        assert len(found) == said.instants // BATCH * BATCH
        assert len({each.time for each in found}) == len(found)
        files = opened().manifest().files
        seconds = {
            "records": median(lambda: list(opened().history()), said.times),
            "by completion": median(lambda: list(opened().history(order="completed")), said.times),
            "as a table": median(lambda: opened().table(), said.times),
            "with their bytes": median(lambda: list(opened().history(raw=True)), said.times),
        }
    if said.json:
        print(json.dumps({"instants": len(found), "files": len(files), "seconds": seconds}))
        return
    print(f"{len(found)} archived instants in {len(files)} files, 3 KB of metadata each; seconds:")
    for name, value in seconds.items():
        print(f"{name:>18}  {value:.3f}")


if __name__ == "__main__":
    main()
