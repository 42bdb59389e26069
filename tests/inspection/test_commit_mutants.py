"""Rules for commits that are broken on purpose let through what the right ones refuse."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from putifabsent import inspection
from putifabsent.inspection import Severity
from putifabsent.inspection.findings import Base
from putifabsent.shim.policy import Policy
from tests.inspection.tables import Delta, Hudi, Iceberg, Paimon, stat
from tests.mutation import Change

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from tests.inspection.conftest import Place

A = "aaaaaaaa-0"
T = [f"2026010112000000{n}" for n in range(4)]
C = [f"2026010112010000{n}" for n in range(4)]
KEYED = {"fields": [], "partitionKeys": [], "primaryKeys": ["id"], "options": {}}


def slice_of(time: str) -> str:
    return f"{A}_0-1-1_{time}.parquet"


# Each builds a table whose newest commit must not be, and returns that, and what must be gone by then.


def delta_removed_twice(place: Place) -> list[str]:
    table = Delta(place.fs, place.root)
    table.change(0, "a", "b")
    table.change(1, "c", removed=["a"])
    table.change(2, "d", removed=["a"], read=0)
    return [f"_delta_log/{2:020d}.json"]


def delta_without_a_file(place: Place) -> list[str]:
    Delta(place.fs, place.root).change(0, "a", "b")
    return [f"_delta_log/{0:020d}.json", "b"]


def paimon(place: Place) -> Paimon:
    table = Paimon(place.fs, place.root)
    table.write("schema/schema-0", json.dumps(KEYED))
    table.commit(1, "a:0-5")
    return table


def paimon_upon_another(place: Place) -> list[str]:
    paimon(place).commit(2, "b:6-6")
    return ["snapshot/snapshot-2"]


def paimon_without_a_file(place: Place) -> list[str]:
    paimon(place).commit(2, "b:6-6", upon=("a:0-5",))
    return ["snapshot/snapshot-2", "bucket-0/b"]


def paimon_numbered_twice(place: Place) -> list[str]:
    paimon(place).commit(2, "b:5-6", upon=("a:0-5",))
    return ["snapshot/snapshot-2"]


def paimon_vectors(place: Place, now: dict[str, list[int]]) -> list[str]:
    table = paimon(place)
    table.commit(2, upon=("a:0-5",), vectors={"v": {"a": [1]}}, commitKind="COMPACT")
    table.commit(3, upon=("a:0-5",), vectors={"w": now} if now else None, commitKind="COMPACT")
    return ["snapshot/snapshot-3"]


def paimon_other_rows(place: Place) -> list[str]:
    return paimon_vectors(place, {"a": [2]})


def paimon_no_rows(place: Place) -> list[str]:
    return paimon_vectors(place, {})


def paimon_stray_vector(place: Place) -> list[str]:
    paimon(place).commit(2, "b:6-6", removed=["a"], upon=("a:0-5",), vectors={"v": {"a": [1]}})
    return ["snapshot/snapshot-2"]


def hudi_upon_one(place: Place) -> list[str]:
    table = Hudi(place.fs, place.root)
    table.wrote(T[0], C[0], stat(A, slice_of(T[0])))
    table.wrote(T[2], C[1], stat(A, slice_of(T[2]), T[0]))
    table.wrote(T[1], C[2], stat(A, slice_of(T[1]), T[0]))
    return [f".hoodie/timeline/{T[1]}_{C[2]}.commit"]


def hudi_of_another(place: Place) -> list[str]:
    Hudi(place.fs, place.root).wrote(T[1], C[1], stat(A, slice_of(T[0])))
    return [f".hoodie/timeline/{T[1]}_{C[1]}.commit"]


def iceberg(place: Place) -> Iceberg:
    table = Iceberg(place.fs, place.root)
    table.version(1, "a")
    table.version(2, "b")
    return table


def iceberg_upon_another(place: Place) -> list[str]:
    iceberg(place).version(3, "c", parent=1)
    return ["metadata/v3.metadata.json"]


def iceberg_without_a_file(place: Place) -> list[str]:
    iceberg(place).version(3, "c")
    return ["metadata/v3.metadata.json", "data/c"]


def iceberg_without_a_manifest(place: Place) -> list[str]:
    iceberg(place).version(3, "c")
    return ["metadata/v3.metadata.json", "metadata/m-1.avro"]


def iceberg_stray_deletes(place: Place) -> list[str]:
    iceberg(place).version(3, deletes=["x"])
    return ["metadata/v3.metadata.json"]


def iceberg_again(place: Place) -> list[str]:
    of_flink = {
        "flink.job-id": "j",
        "flink.operator-id": "o",
        "flink.max-committed-checkpoint-id": "7",
    }
    table = iceberg(place)
    table.version(3, "c", summary=of_flink)
    table.version(4, "c", summary=of_flink)
    return ["metadata/v4.metadata.json"]


class Mutant(NamedTuple):
    """A change, and the table that it would let be hurt."""

    change: Change
    table: Callable[[Place], list[str]]


def mutant(name: str, source: str, old: str, new: str, table: Callable[[Place], list[str]]) -> Any:
    return pytest.param(Mutant(Change(name, source, old, new), table), id=name.replace(" ", "_"))


MUTANTS = [
    mutant(
        "the commit after the one read is left out",
        "delta",
        "max(this.read + 1, ",
        "max(this.read + 2, ",
        delta_removed_twice,
    ),
    mutant("files of Delta are not asked for", "delta", "base.absent(named)", "()", delta_without_a_file),
    mutant(
        "what a snapshot came upon is not compared",
        "paimon",
        "if gone or come:",
        "if False:",
        paimon_upon_another,
    ),
    mutant(
        "files of Paimon are not asked for", "paimon", "file not in absent", "True", paimon_without_a_file
    ),
    mutant(
        "a row may have the highest number",
        "paimon",
        "entry.sequences[0] <= there",
        "entry.sequences[0] < there",
        paimon_numbered_twice,
    ),
    mutant(
        "rows that cross are a notice",
        "paimon",
        "before, Severity.DAMAGE",
        "before, Severity.NOTICE",
        paimon_numbered_twice,
    ),
    mutant("other rows may be deleted", "paimon", "bool(earlier <= later)", "True", paimon_other_rows),
    mutant(
        "a vector may go",
        "paimon",
        "        if after is None:\n            return False\n",
        "        if after is None:\n            return True\n",
        paimon_no_rows,
    ),
    mutant("a vector may be of any file", "paimon", "if at.file not in now", "if False", paimon_stray_vector),
    mutant(
        "what others have completed is not looked at",
        "hudi",
        '(each.completion or "") > instant.time',
        "False",
        hudi_upon_one,
    ),
    mutant(
        "a slice may be of another instant",
        "hudi",
        "parsed.instant != time",
        "False",
        hudi_of_another,
    ),
    mutant("the parent is not looked at", "iceberg", "(None, number - 1)", "(parent,)", iceberg_upon_another),
    mutant(
        "files of Iceberg are not asked for",
        "iceberg",
        "for each in found if each.added]\n        yield",
        "for each in found if False]\n        yield",
        iceberg_without_a_file,
    ),
    mutant(
        "manifests of others are not asked for",
        "iceberg",
        "for each in manifests if each not in own]",
        "for each in ()]",
        iceberg_without_a_manifest,
    ),
    mutant(
        "deletes may be of any file", "iceberg", "if each not in live]", "if False]", iceberg_stray_deletes
    ),
    mutant(
        "only a later checkpoint's commit counts",
        "iceberg",
        "of[1] >= mine[1]",
        "of[1] > mine[1]",
        iceberg_again,
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_lets_a_commit_by_that_would_hurt(place: Place, mutant: Mutant) -> None:
    commit, *gone = mutant.table(place)
    path = f"{place.root}/{commit}"
    written = place.fs.cat_file(path)
    for each in (commit, *gone):
        place.fs.rm_file(f"{place.root}/{each}")

    def damage(rules: ModuleType) -> list[str]:
        name = Policy("auto").classify(path)
        findings = rules.hurts(Base(place.fs, place.root), name, written)
        return [each.detail for each in findings if each.severity is Severity.DAMAGE]

    source = mutant.change.source
    right = getattr(inspection, source)
    assert damage(right)
    assert damage(mutant.change.modules(inspection, [source])[source]) == []
