"""Data files of real writers that are not as large as their commits say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from putifabsent.inspection import Kind, Severity, inspect
from tests.inspection.tables import packed

TABLES = ["raced_delta", "raced_paimon", "raced_hudi", "raced_hudi_mor"]


def resized(root: str, difference: int) -> set[str]:
    """Have all data files that have bytes have more, or fewer; return their names."""
    files = {
        path: path.stat().st_size
        for path in Path(root).rglob("*")
        if (path.suffix == ".parquet" or ".log." in path.name)
        and not {"_delta_log", ".hoodie"}.intersection(path.relative_to(root).parts)
    }
    for path, size in files.items():
        if size:
            os.truncate(path, max(size + difference, 0))
    return {str(path) for path, size in files.items() if size}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(("difference", "kind"), [(-(2**30), Kind.EMPTY), (-1, Kind.UNREADABLE)])
def test_data_files_that_are_cut_off_are_damage(
    tmp_path: Path, name: str, difference: int, kind: Kind
) -> None:
    root = packed(name, tmp_path)
    files = resized(root, difference)
    (finding,) = inspect(root).findings
    assert (finding.kind, finding.severity, finding.commands) == (kind, Severity.DAMAGE, ())
    assert files.issuperset(finding.names)
    assert finding.moments


@pytest.mark.parametrize("name", TABLES)
def test_data_files_that_are_larger_are_noticed_where_none_is_appended_to(tmp_path: Path, name: str) -> None:
    root = packed(name, tmp_path)
    resized(root, 1)
    found = [(each.kind, each.severity) for each in inspect(root).findings]
    assert found == ([] if "hudi" in name else [(Kind.RESIZED, Severity.NOTICE)])


def test_sizes_that_only_a_checkpoint_says_are_compared(tmp_path: Path) -> None:
    root = packed("raced_delta", tmp_path)
    resized(root, -1)
    whole = inspect(root).findings
    for number in range(15):
        Path(root, "_delta_log", f"{number:020d}.json").unlink()
    (finding,) = inspect(root).findings
    assert {*finding.names} == {*whole[0].names}
    assert len(finding.moments) < len(whole[0].moments)
