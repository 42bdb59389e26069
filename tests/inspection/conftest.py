"""Where the tables of these tests lie: in memory, one a test; and what was found in them."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent.inspection import Finding, Kind, Severity, inspect
from tests.inspection.tables import Delta, Paimon

if TYPE_CHECKING:
    from collections.abc import Iterator


class Place:
    """A folder in memory."""

    def __init__(self, fs: Any, root: str) -> None:
        self.fs = fs
        self.root = root

    def findings(self, **said: Any) -> list[Finding]:
        """Inspect the table there."""
        return list(inspect(self.root, fs=self.fs, **said).findings)

    def kinds(self, severity: Severity | None = None, **said: Any) -> list[Kind]:
        """Return the kinds of what is found."""
        return [each.kind for each in self.findings(**said) if severity in (None, each.severity)]

    def damage(self, **said: Any) -> list[Kind]:
        """Return the kinds of what is found to be damaged."""
        return self.kinds(Severity.DAMAGE, **said)

    def the(self, kind: Kind) -> Finding:
        """Return what is found, which is one finding, of this kind."""
        (finding,) = self.findings()
        assert finding.kind is kind
        return finding


@pytest.fixture
def place() -> Iterator[Place]:
    fs = fsspec.filesystem("memory")
    root = f"/{uuid.uuid4().hex}"
    fs.makedirs(root)
    yield Place(fs, f"{root}/t")
    fs.rm(root, recursive=True)


@pytest.fixture
def delta(place: Place) -> Delta:
    """Return a table with two commits."""
    table = Delta(place.fs, place.root)
    table.change(0, "a", "b")
    table.change(1, "c")
    return table


@pytest.fixture
def paimon(place: Place) -> Paimon:
    """Return a table with two snapshots."""
    table = Paimon(place.fs, place.root)
    table.write("schema/schema-0", json.dumps({"fields": [], "partitionKeys": [], "options": {}}))
    table.commit(1, "a")
    table.commit(2, "b", upon=("a",))
    return table


@pytest.fixture(autouse=True)
def reads_in_utc(in_utc: None) -> None:
    """Table version 6 leaves the zone of its times to the reader."""
