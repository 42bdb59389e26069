"""A writer of Hudi tables, by the calls that an unmodified Hudi makes of a filesystem."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import fastavro

if TYPE_CHECKING:
    from tests.fsspec_plugin.grounds import Ground

__all__ = ["Writer", "plan_of", "records_of", "table_in"]

_FILE_ID = "b5068208-e1a4-11e6-bf01-fe55135034f3-0"
_PLAN = {
    "type": "record",
    "name": "HoodieRollbackPlan",
    "fields": [
        {
            "name": "instantToRollback",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "HoodieInstantInfo",
                    "fields": [
                        {"name": "commitTime", "type": "string"},
                        {"name": "action", "type": "string"},
                    ],
                },
            ],
            "default": None,
        },
        {"name": "version", "type": ["int", "null"], "default": 1},
    ],
}


def plan_of(instant: str | None) -> bytes:
    """Return the plan of a rollback of an instant."""
    file = io.BytesIO()
    named = None if instant is None else {"commitTime": instant, "action": "commit"}
    fastavro.writer(file, fastavro.parse_schema(_PLAN), [{"instantToRollback": named, "version": 1}])
    return file.getvalue()


def table_in(ground: Ground, version: int = 9) -> str:
    """Make an empty table; return its folder."""
    root = ground.name("t")
    ground.around.makedirs(f"{root}/.hoodie/timeline", exist_ok=True)
    ground.around.makedirs(f"{root}/dt=1", exist_ok=True)
    ground.write(f"{root}/.hoodie/hoodie.properties", b"hoodie.table.version=%d\n" % version)
    return root


def records_of(ground: Ground, root: str) -> list[str]:
    """Return the kinds of the records that are in a table's ledger, as another program reads them."""
    import json

    names = sorted(ground.around.find(f"{root}/.hoodie/.putifabsent/ledger"))
    return [json.loads(ground.read(name))["kind"] for name in names if re.search(r"\.[0-9]+$", name)]


@dataclass
class Writer:
    """One writer.

    Attributes
    ----------
    fs
        Its filesystem.
    root
        The table's folder.
    """

    fs: Any
    root: str

    def requested(self, instant: str, action: str = "commit") -> str:
        """Return a name."""
        return f"{self.root}/.hoodie/timeline/{instant}.{action}.requested"

    def inflight(self, instant: str) -> str:
        """Return a name."""
        return f"{self.root}/.hoodie/timeline/{instant}.inflight"

    def completed(self, instant: str, at: str = "", action: str = "commit") -> str:
        """Return a name."""
        return f"{self.root}/.hoodie/timeline/{instant}_{at or instant + '9'}.{action}"

    def slice_of(self, instant: str, token: str = "1-0-1") -> str:  # noqa: S107 - a write token
        """Return a name."""
        return f"{self.root}/dt=1/{_FILE_ID}_{token}_{instant}.parquet"

    def log_of(self, instant: str) -> str:
        """Return a name."""
        return f"{self.root}/dt=1/.{_FILE_ID}_{instant}.log.1_1-0-1"

    def begins(self, instant: str) -> None:
        """Bring an instant as far as it goes before its commit."""
        self.fs.pipe_file(self.requested(instant), b"")
        self.fs.pipe_file(self.inflight(instant), b"")
        self.fs.pipe_file(self.slice_of(instant), instant.encode())

    def completes(self, instant: str, body: bytes = b"{}") -> str:
        """Commit it."""
        name = self.completed(instant)
        self.fs.pipe_file(name, body)
        return name

    def commits(self, instant: str, body: bytes = b"{}") -> str:
        """Do all of it."""
        self.begins(instant)
        return self.completes(instant, body)

    def plans_rollback(self, instant: str, of: str | None) -> None:
        """Request a rollback."""
        self.fs.pipe_file(self.requested(instant, "rollback"), plan_of(of))

    def timeline(self) -> list[str]:
        """List it, by the last components."""
        listed = self.fs.ls(f"{self.root}/.hoodie/timeline", detail=False)
        return sorted(name.rpartition("/")[2] for name in listed)
