"""Tables of Hudi's on Flink, and what their jobs are told."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from putifabsent.timeline import State
from tests.flink.programs import Format

if TYPE_CHECKING:
    from putifabsent.timeline import Timeline

__all__ = ["BUNDLE", "INSERTS", "LOCK", "PATIENCE", "STOCK", "UNLOCKED", "told_to"]

BUNDLE = os.environ.get("HUDI_FLINK_BUNDLE")
"""A jar of Hudi 1.x for the Flink that it names; None: 0.14."""

STOCK = "oss"
"""A scheme that leads past the guard, and to which Hudi writes log files: not so s3n."""

INSERTS = "'write.operation'='insert', 'hoodie.datasource.write.recordkey.field'='who,n'"
# Hudi has a lock for jobs of several processes that needs nothing else, but not on S3.
_PROVIDER = "HudiLockProvider" if BUNDLE else "Hudi014LockProvider"
LOCK = f"'hoodie.write.lock.provider'='org.putifabsent.hadoop.{_PROVIDER}'"
UNLOCKED = "'metadata.enabled'='false'"
"""By default, 1.x has a metadata table, and no job begins without a lock for it."""

PATIENCE = {
    # So long a task of 1.x waits for the job manager to begin an instant, which takes the lock.
    "pekko.ask.timeout": "60 s",
    # At its end a job of 1.x commits in the thread that also hears task managers: where they seem to be dead
    # by then, the job starts again, and writes its last rows once more.
    "heartbeat.timeout": "30000",
}
"""What a cluster is told."""


def told_to(*options: str, partitions: str = "") -> Format:
    """Return how Flink names tables with these options: Hudi's own catalog wants a folder that is there."""
    said = ", ".join(("'connector'='hudi'", "'path'='{}/t'", *options))
    return Format("'type'='generic_in_memory'", "t", _inserted, f"{partitions} WITH ({said})")


def _inserted(timeline: Timeline[Any]) -> int:
    """Return how many rows the commits of a table have brought."""
    commits = [
        each for each in timeline.active() if each.action == "commit" and each.state is State.COMPLETED
    ]
    said = [timeline.details(each).metadata for each in commits]
    partitions = [stats for each in said if each for stats in each.value["partitionToWriteStats"].values()]
    return sum(stat["numInserts"] for stats in partitions for stat in stats)
