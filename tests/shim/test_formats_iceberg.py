"""Iceberg's names, as its path-based tables write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from putifabsent.shim.names import Role
from putifabsent.shim.policy import Policy
from tests.shim.folders import UUID, all_roots, components, uuids

POLICY = Policy()

SUFFIXES = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
versions = st.integers(1, 2**31 - 1)


@given(all_roots, versions, st.sampled_from(SUFFIXES))
def test_every_version_is_guarded_by_its_name_alone(root: str, version: int, suffix: str) -> None:
    name = POLICY.classify(f"{root}/metadata/v{version}{suffix}")
    assert (name.role, name.format, name.table) == (Role.SNAPSHOT, "iceberg", root)
    assert name.guarded
    assert name.evidence == ()
    assert name.unless[0] == f"{root}/schema/schema-0"


@given(all_roots, versions)
def test_a_version_is_one_identity_however_it_is_compressed(root: str, version: int) -> None:
    names = [POLICY.classify(f"{root}/metadata/v{version}{suffix}") for suffix in SUFFIXES]
    assert len({name.identity for name in names}) == 1
    assert {name.canonical for name in names} == {f"{root}/metadata/v{version}.metadata.json"}
    for name in names:
        assert {name.path, *name.aliases} == {each.path for each in names}
        assert name.path not in name.aliases


@given(all_roots, versions)
def test_two_versions_are_two_identities(root: str, version: int) -> None:
    one = POLICY.classify(f"{root}/metadata/v{version}.metadata.json")
    other = POLICY.classify(f"{root}/metadata/v{version}0.metadata.json")
    assert one.identity != other.identity


@given(all_roots, versions.filter(lambda version: version > 1), st.sampled_from(SUFFIXES))
def test_the_version_before_may_be_compressed_or_not(root: str, version: int, suffix: str) -> None:
    series = POLICY.classify(f"{root}/metadata/v{version}{suffix}").series
    assert series is not None
    assert (series.number, series.first) == (version, 1)
    assert set(series.predecessors) == {f"{root}/metadata/v{version - 1}{each}" for each in SUFFIXES}
    assert [series.number_of(each) for each in series.predecessors] == [version - 1] * 3


def test_paimon_s_copy_of_iceberg_metadata_lies_beside_its_table_or_in_a_catalog_s_folder() -> None:
    assert POLICY.classify("bucket/w/db.db/t/metadata/v3.metadata.json").unless == (
        "bucket/w/db.db/t/schema/schema-0",
    )
    assert POLICY.classify("bucket/w/iceberg/db/t/metadata/v3.metadata.json").unless == (
        "bucket/w/iceberg/db/t/schema/schema-0",
        "bucket/w/db.db/t/schema/schema-0",
    )


def test_what_speaks_against_a_version_counts_in_a_mount_that_names_the_format_too() -> None:
    name = "bucket/t/metadata/v3.metadata.json"
    assert Policy(formats=["iceberg"]).classify(name).unless == ("bucket/t/schema/schema-0",)


def test_a_pattern_of_the_user_guards_a_version_whatever_speaks_against_it() -> None:
    name = "bucket/t/metadata/v3.metadata.json"
    assert Policy(guard="**/metadata/*").classify(name) == POLICY.classify(name)._replace(unless=())


def test_the_first_version_has_no_predecessor() -> None:
    series = POLICY.classify("bucket/t/metadata/v1.gz.metadata.json").series
    assert series is not None
    assert series.predecessors == ()


@given(
    all_roots,
    st.one_of(
        st.builds("{}.metadata.json".format, uuids),
        st.builds("{}.gz.metadata.json".format, uuids),
        st.builds("{:05d}-{}.metadata.json".format, versions, uuids),
        st.builds("{:05d}-{}.gz.metadata.json".format, versions, uuids),
        st.builds("snap-{}-1-{}.avro".format, versions, uuids),
        st.builds("{}-m{}.avro".format, uuids, versions),
        st.builds("{}-version-hint.temp".format, uuids),
        st.just("version-hint.text"),
    ),
)
def test_what_else_iceberg_writes_beside_them_is_left_alone(root: str, last: str) -> None:
    assert not POLICY.classify(f"{root}/metadata/{last}").guarded


def test_the_version_hint_is_a_pointer() -> None:
    name = POLICY.classify("bucket/db/t/metadata/version-hint.text")
    assert (name.role, name.format, name.table) == (Role.POINTER, "iceberg", "bucket/db/t")


@given(all_roots, st.lists(components, min_size=1, max_size=3), versions, st.sampled_from(SUFFIXES))
def test_a_version_outside_metadata_is_not_guarded(
    root: str, folders: list[str], version: int, suffix: str
) -> None:
    path = "/".join([root, *folders, f"v{version}{suffix}"])
    assert POLICY.classify(path).guarded == (folders[-1] == "metadata")


@pytest.mark.parametrize(
    "last",
    [
        "v0.metadata.json",
        "v01.metadata.json",
        "v-1.metadata.json",
        "v.metadata.json",
        "v12345678901.metadata.json",
        "v3.metadata.jsonl",
        "v3.metadata.json.tmp",
        "v3.metadata.json\n",
        "v3xmetadata.json",
        "v3.gz.metadata.json.gz",
        "v3.snappy.metadata.json",
        "V3.metadata.json",
        f"v3-{UUID}.metadata.json",
        "deal_v3.metadata.json",
        "v٣.metadata.json",
    ],
)
def test_a_near_miss_is_not_guarded(last: str) -> None:
    assert not POLICY.classify(f"bucket/db/t/metadata/{last}").guarded


def test_a_bucket_called_metadata_is_no_tables_folder() -> None:
    assert not POLICY.classify("metadata/v3.metadata.json").guarded
