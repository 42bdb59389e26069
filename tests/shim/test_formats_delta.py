"""Delta's names, as its protocol has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from putifabsent.shim.names import Role
from putifabsent.shim.policy import Policy
from tests.shim.folders import all_roots, components, longs, uuids

POLICY = Policy()

versions = st.one_of(st.just(0), longs)


@given(all_roots, versions)
def test_every_commit_is_guarded_by_its_name_alone(root: str, version: int) -> None:
    name = POLICY.classify(f"{root}/_delta_log/{version:020d}.json")
    assert (name.role, name.format, name.table) == (Role.LOG_ENTRY, "delta", root)
    assert name.guarded
    assert name.evidence == ()
    assert name.identity == name.canonical == name.path
    assert name.aliases == ()


@given(all_roots, longs)
def test_a_commit_follows_the_one_before(root: str, version: int) -> None:
    series = POLICY.classify(f"{root}/_delta_log/{version:020d}.json").series
    assert series is not None
    assert (series.number, series.first) == (version, 0)
    assert series.predecessors == (f"{root}/_delta_log/{version - 1:020d}.json",)
    assert series.number_of(series.predecessors[0]) == version - 1
    assert series.number_of(f"{root}/_delta_log/{version:020d}.crc") is None


def test_the_first_commit_has_no_predecessor() -> None:
    series = POLICY.classify("bucket/t/_delta_log/00000000000000000000.json").series
    assert series is not None
    assert series.predecessors == ()


@given(
    all_roots,
    st.one_of(
        st.builds("{:020d}.checkpoint.parquet".format, versions),
        st.builds("{:020d}.checkpoint.{:010d}.{:010d}.parquet".format, versions, longs, longs),
        st.builds("{:020d}.checkpoint.{}.{}".format, versions, uuids, st.sampled_from(["json", "parquet"])),
        st.builds("{:020d}.{:020d}.compacted.json".format, versions, versions),
        st.builds("{:020d}.crc".format, versions),
        st.builds(".{:020d}.json.{}.tmp".format, versions, uuids),
        st.builds(".tmp/{:020d}.json.{}".format, versions, uuids),
        st.builds("_sidecars/{}.parquet".format, uuids),
        st.builds("_staged_commits/{:020d}.{}.json".format, versions, uuids),
        st.builds("_commits/{:020d}.{}.json".format, versions, uuids),
        st.builds("_commits/{:020d}.json".format, versions),
        st.just("_last_checkpoint"),
    ),
)
def test_what_else_delta_writes_into_its_log_is_left_alone(root: str, last: str) -> None:
    name = POLICY.classify(f"{root}/_delta_log/{last}")
    assert not name.guarded
    assert (name.format, name.table) == ("delta", root)
    assert (name.role is Role.POINTER) == (last == "_last_checkpoint")


@given(all_roots, st.text(max_size=30).filter(lambda text: "/" not in text))
def test_nothing_else_in_the_log_folder_is_guarded(root: str, last: str) -> None:
    digits, dot, extension = last.partition(".")
    commits = len(digits) == 20 and digits.isascii() and digits.isdigit() and dot + extension == ".json"
    assert POLICY.classify(f"{root}/_delta_log/{last}").guarded == commits


@given(all_roots, st.lists(components, min_size=1, max_size=3), longs)
def test_a_commits_name_elsewhere_is_not_guarded(root: str, folders: list[str], version: int) -> None:
    assert not POLICY.classify("/".join([root, *folders, f"{version:020d}.json"])).guarded


@pytest.mark.parametrize(
    "path",
    [
        "bucket/t/_delta_log/3.json",
        "bucket/t/_delta_log/0000000000000000000.json",
        "bucket/t/_delta_log/000000000000000000003.json",
        "bucket/t/_delta_log/00000000000000000003.JSON",
        "bucket/t/_delta_log/00000000000000000003.json.tmp",
        "bucket/t/_delta_log/00000000000000000003.json\n",
        "bucket/t/_delta_log/x/00000000000000000003.json",
        "bucket/t/p=_delta_log/00000000000000000003.json",
        "bucket/t/_delta_log_old/00000000000000000003.json",
        "_delta_log/00000000000000000003.json",
    ],
)
def test_a_near_miss_is_not_guarded(path: str) -> None:
    assert not POLICY.classify(path).guarded
