"""Makes the table of this page, in memory, and draws ``hurt.svg``: ``python docs/how-to/inspect/hurt.py``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fsspec

from putifabsent.inspection import inspect
from putifabsent.inspection.picture import svg

ROOT = "/hurt"
DAY = "20260101"


def at(clock: str) -> str:
    """Return a time of the day as Hudi writes it."""
    return f"{DAY}{clock.replace(':', '')}000"


def wrote(fs: Any, action: str, begun: str, ended: str, group: str, upon: str = "") -> None:
    """Commit a slice of a file group."""
    time = at(begun)
    last = f"{group}_0-1-1_{time}.parquet"
    stat = {"fileId": group, "path": last, "prevCommit": at(upon) if upon else "null"}
    timeline = f"{ROOT}/.hoodie/timeline"
    fs.pipe_file(f"{timeline}/{time}.{action}.requested", b"")
    fs.pipe_file(
        f"{timeline}/{time}_{at(ended)}.{action}",
        json.dumps({"partitionToWriteStats": {"": [stat]}}).encode(),
    )
    fs.pipe_file(f"{ROOT}/{last}", b"")


def main() -> None:
    """Make the table, print what is wrong with it, and draw it."""
    fs = fsspec.filesystem("memory")
    fs.pipe_file(f"{ROOT}/.hoodie/hoodie.properties", b"hoodie.table.version=9\n")
    wrote(fs, "commit", "12:00:00", "12:00:40", "a")
    wrote(fs, "commit", "12:01:00", "12:01:50", "b")
    wrote(fs, "commit", "12:02:00", "12:02:30", "a", upon="12:00:00")
    # Two writers at once, both upon the slice of 12:02.
    wrote(fs, "commit", "12:03:00", "12:03:55", "a", upon="12:02:00")
    wrote(fs, "commit", "12:03:20", "12:04:20", "a", upon="12:02:00")
    # Two writers that took one instant.
    wrote(fs, "commit", "12:05:00", "12:05:30", "c")
    wrote(fs, "commit", "12:05:00", "12:05:50", "d")
    wrote(fs, "commit", "12:06:10", "12:06:50", "b", upon="12:01:00")
    said = {"startCleanTime": at("12:06:20"), "partitionMetadata": {}}
    clean = f"{ROOT}/.hoodie/timeline/{at('12:06:20')}"
    fs.pipe_file(f"{clean}_{at('12:06:35')}.clean", json.dumps(said).encode())
    fs.pipe_file(f"{ROOT}/.hoodie/timeline/{at('12:06:55')}.commit.requested", b"")
    report = inspect(ROOT, fs=fs)
    for finding in report.findings:
        print(finding.severity.value, finding.kind.value, finding.detail)
    Path(__file__).with_name("hurt.svg").write_text(svg(report), encoding="utf-8")


if __name__ == "__main__":
    main()
