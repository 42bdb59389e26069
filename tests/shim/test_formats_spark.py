"""Spark's names, as Structured Streaming writes its checkpoints and its sinks' logs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from putifabsent.shim.names import Role
from putifabsent.shim.policy import Policy
from tests.shim.folders import LOOKALIKES, all_roots, longs, uuids

POLICY = Policy()
NAMED = Policy(["spark"])

batches = st.one_of(st.just(0), longs)
sources = st.one_of(st.integers(0, 99).map(str), st.sampled_from(["orders", "clicks_2"]))


@given(all_roots, batches)
def test_offsets_are_guarded_beside_a_querys_metadata(root: str, batch: int) -> None:
    name = POLICY.classify(f"{root}/offsets/{batch}")
    assert (name.role, name.format, name.table) == (Role.LOG_ENTRY, "spark", root)
    assert name.guarded
    assert name.evidence == (f"{root}/metadata",)
    assert name.identity == name.canonical == name.path
    assert name.aliases == ()


@given(all_roots, batches)
def test_commits_are_guarded_beside_offsets(root: str, batch: int) -> None:
    name = POLICY.classify(f"{root}/commits/{batch}")
    assert (name.role, name.table, name.guarded) == (Role.LOG_ENTRY, root, True)
    assert name.evidence == (f"{root}/offsets",)


@given(all_roots, sources, batches, st.booleans())
def test_what_a_source_has_seen_is_guarded_beside_a_querys_metadata(
    root: str, source: str, batch: int, compact: bool
) -> None:
    name = POLICY.classify(f"{root}/sources/{source}/{batch}{'.compact' if compact else ''}")
    assert (name.role, name.table, name.guarded) == (Role.LOG_ENTRY, root, True)
    assert name.evidence == (f"{root}/metadata",)


@given(all_roots)
def test_a_querys_metadata_is_guarded_once_there_are_offsets(root: str) -> None:
    name = POLICY.classify(f"{root}/metadata")
    assert (name.role, name.table, name.guarded) == (Role.MARKER, root, True)
    assert name.evidence == (f"{root}/offsets",)
    assert name.series is None


@given(all_roots, batches, st.booleans())
def test_a_sinks_log_is_guarded_by_its_name_alone(root: str, batch: int, compact: bool) -> None:
    name = POLICY.classify(f"{root}/_spark_metadata/{batch}{'.compact' if compact else ''}")
    assert (name.role, name.format, name.table) == (Role.LOG_ENTRY, "spark", root)
    assert name.guarded
    assert name.evidence == ()


@given(all_roots, st.sampled_from(["_spark_metadata", "sources/0"]), batches)
def test_a_batch_is_one_identity_compacted_or_not(root: str, log: str, batch: int) -> None:
    plain = POLICY.classify(f"{root}/{log}/{batch}")
    compact = POLICY.classify(f"{root}/{log}/{batch}.compact")
    assert plain.identity == compact.identity
    assert plain.canonical == compact.canonical == compact.path
    assert plain.aliases == (compact.path,)
    assert compact.aliases == (plain.path,)


@given(all_roots, st.sampled_from(["offsets", "commits", "_spark_metadata", "sources/0"]), longs)
def test_a_batch_follows_the_one_before(root: str, log: str, batch: int) -> None:
    series = POLICY.classify(f"{root}/{log}/{batch}").series
    assert series is not None
    assert (series.number, series.first) == (batch, 0)
    before = f"{root}/{log}/{batch - 1}"
    compacts = log in ("_spark_metadata", "sources/0")
    assert series.predecessors == ((before, f"{before}.compact") if compacts else (before,))
    assert [series.number_of(each) for each in series.predecessors] == [batch - 1] * len(series.predecessors)


@pytest.mark.parametrize("log", ["offsets", "commits", "_spark_metadata", "sources/0"])
def test_the_first_batch_has_no_predecessor(log: str) -> None:
    series = POLICY.classify(f"bucket/c/{log}/0").series
    assert series is not None
    assert series.predecessors == ()


@given(
    all_roots,
    st.one_of(
        st.builds("state/0/{}/{}.delta".format, batches, batches),
        st.builds("state/0/{}/{}.snapshot".format, batches, batches),
        st.builds("state/0/{}/{}.zip".format, batches, batches),
        st.builds("state/0/{}/_metadata/schema".format, batches),
        st.just("state/0/_metadata/metadata"),
        st.builds("state/0/_metadata/v2/{}".format, batches),
        st.builds("offsets/{}.crc".format, batches),
        st.builds("offsets/.{}.crc".format, batches),
        st.builds("offsets/.{}.{}.tmp".format, batches, uuids),
        st.builds("commits/.{}.{}.TID7.tmp".format, batches, uuids),
        st.builds("_spark_metadata/.{}.compact.{}.tmp".format, batches, uuids),
        st.builds(".metadata.{}.tmp".format, uuids),
        st.builds("part-00000-{}-c000.snappy.parquet".format, uuids),
    ),
)
@pytest.mark.parametrize("policy", [POLICY, NAMED])
def test_what_else_spark_writes_is_left_alone(policy: Policy, root: str, inside: str) -> None:
    assert not policy.classify(f"{root}/{inside}").guarded


@given(
    all_roots,
    st.sampled_from(["offsets", "commits", "_spark_metadata", "sources/0"]),
    st.text(max_size=12).filter(lambda text: "/" not in text),
)
def test_nothing_else_in_a_log_is_guarded(root: str, log: str, last: str) -> None:
    number = last.removesuffix(".compact") if log in ("_spark_metadata", "sources/0") else last
    counted = number.isascii() and number.isdigit() and str(int(number)) == number
    assert NAMED.classify(f"{root}/{log}/{last}").guarded == (counted or last == "metadata")


@given(all_roots, st.sampled_from(LOOKALIKES), batches)
def test_a_number_in_another_folder_is_not_guarded(root: str, folder: str, batch: int) -> None:
    path = f"{root}/x/{folder}/{batch}"
    assert POLICY.classify(path).guarded == (folder in ("offsets", "commits"))


@pytest.mark.parametrize(
    "path",
    [
        "bucket/c/offsets/03",
        "bucket/c/offsets/+3",
        "bucket/c/offsets/-1",
        "bucket/c/offsets/3.compact",
        "bucket/c/commits/3.compact",
        "bucket/c/commits/3.json",
        "bucket/c/commits/12345678901234567890",
        "bucket/c/_spark_metadata/9.compact.tmp",
        "bucket/c/_spark_metadata/_metadata",
        "bucket/c/spark_metadata/9",
        "bucket/c/offsets=1/3",
        "bucket/c/metadata/3",
        "bucket/c/sources/3",
        "bucket/c/metadata.json",
        "offsets/3",
        "commits/3",
        "sources/0/3",
        "_spark_metadata/3",
        "metadata",
    ],
)
def test_a_near_miss_is_not_guarded(path: str) -> None:
    assert not POLICY.classify(path).guarded
