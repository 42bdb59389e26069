"""Hudi's names, as its timeline, its archiver and its write handles make them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from putifabsent.shim.formats.hudi import ACTIONS
from putifabsent.shim.names import Role
from putifabsent.shim.policy import Policy
from tests.shim.folders import UUID, all_roots, components, longs, uuids

POLICY = Policy()

T = "20260101120000000"
C = "20260101120003000"


def _digits(count: int) -> st.SearchStrategy[str]:
    return st.text(alphabet="0123456789", min_size=count, max_size=count)


instants = st.one_of(
    _digits(17),
    _digits(14),
    st.builds("{}{}".format, _digits(17), st.sampled_from(["001", "002", "010", "011"])),
    st.builds("00000000000000{:03d}".format, st.integers(0, 99)),
    st.sampled_from(["00000000000000", "00000000000001", "00000000000002"]),
)
actions = st.sampled_from(ACTIONS)
ordinary_actions = st.sampled_from([action for action in ACTIONS if action != "savepoint"])
layouts = st.sampled_from([".hoodie", ".hoodie/timeline"])
tables = st.one_of(all_roots, all_roots.map("{}/.hoodie/metadata".format))
file_ids = st.one_of(
    st.builds("{}-{}".format, uuids, st.integers(0, 99)),
    uuids,
    st.sampled_from(["files-0000-0", "col-stats-0001-0", "expr-index-a-b-0000-0"]),
)
tokens = st.builds("{}-{}-{}".format, st.integers(0, 9999), st.integers(0, 99), longs)
slices = st.one_of(
    st.builds(
        "{}_{}_{}.{}".format,
        file_ids,
        tokens,
        instants,
        st.sampled_from(["parquet", "orc", "hfile", "lance"]),
    ),
    st.builds(".{}_{}.log.{}_{}".format, file_ids, instants, longs, tokens),
    st.builds(".{}_{}.log.{}_{}.cdc".format, file_ids, instants, longs, tokens),
    st.builds(".{}_{}.log.{}".format, file_ids, instants, longs),
)


@given(tables, layouts, instants, actions)
def test_every_requested_instant_is_guarded(table: str, layout: str, instant: str, action: str) -> None:
    name = POLICY.classify(f"{table}/{layout}/{instant}.{action}.requested")
    assert (name.role, name.format, name.table) == (Role.INSTANT, "hudi", table)
    assert (name.guarded, name.evidence, name.aliases) == (True, (), ())


@given(tables, layouts, instants, ordinary_actions, ordinary_actions)
def test_a_requested_instant_is_one_identity_whatever_its_action(
    table: str, layout: str, instant: str, one: str, other: str
) -> None:
    folder = f"{table}/{layout}"
    identities = {
        POLICY.classify(f"{folder}/{instant}.{action}.requested").identity for action in (one, other)
    }
    assert len(identities) == 1
    assert POLICY.classify(f"{folder}/{instant}1.{one}.requested").identity not in identities
    assert POLICY.classify(f"{folder}/{instant}.savepoint.requested").identity not in identities
    assert POLICY.classify(f"{table}x/{layout}/{instant}.{one}.requested").identity not in identities


@given(tables, layouts, instants, st.one_of(st.just(""), actions.map(".{}".format)))
def test_an_inflight_instant_may_be_taken_over(table: str, layout: str, instant: str, action: str) -> None:
    name = POLICY.classify(f"{table}/{layout}/{instant}{action}.inflight")
    assert (name.role, name.guarded, name.table) == (Role.INSTANT, False, table)


@given(tables, instants, instants, actions)
def test_every_completed_instant_of_version_8_is_guarded(
    table: str, instant: str, completed: str, action: str
) -> None:
    name = POLICY.classify(f"{table}/.hoodie/timeline/{instant}_{completed}.{action}")
    assert (name.role, name.format, name.table) == (Role.INSTANT, "hudi", table)
    assert (name.guarded, name.evidence, name.aliases) == (True, (), ())


@given(tables, instants, instants, instants, ordinary_actions)
def test_a_completed_instant_of_version_8_is_one_identity_whenever_it_completed(
    table: str, instant: str, one: str, other: str, action: str
) -> None:
    folder = f"{table}/.hoodie/timeline"
    identity = POLICY.classify(f"{folder}/{instant}_{one}.{action}").identity
    assert POLICY.classify(f"{folder}/{instant}_{other}.{action}").identity == identity
    assert POLICY.classify(f"{folder}/{instant}_{other}.commit").identity == identity
    assert POLICY.classify(f"{folder}/{instant}1_{one}.{action}").identity != identity
    assert POLICY.classify(f"{folder}/{instant}.{action}.requested").identity != identity


@given(tables, instants, instants, instants)
def test_a_savepoint_shares_its_time_with_the_commit_that_it_saves(
    table: str, instant: str, one: str, other: str
) -> None:
    folder = f"{table}/.hoodie/timeline"
    savepoint = POLICY.classify(f"{folder}/{instant}_{one}.savepoint")
    assert savepoint.identity != POLICY.classify(f"{folder}/{instant}_{one}.commit").identity
    assert savepoint.identity == POLICY.classify(f"{folder}/{instant}_{other}.savepoint").identity


@given(tables, instants, actions)
def test_a_completed_instant_of_version_6_is_its_own_identity(table: str, instant: str, action: str) -> None:
    name = POLICY.classify(f"{table}/.hoodie/{instant}.{action}")
    assert (name.role, name.table, name.guarded) == (Role.INSTANT, table, True)
    assert name.identity == name.path


@given(tables, instants, instants)
def test_a_completed_instant_from_before_an_upgrade_is_the_same_identity(
    table: str, instant: str, completed: str
) -> None:
    folder = f"{table}/.hoodie/timeline"
    legacy = POLICY.classify(f"{folder}/{instant}.commit")
    assert legacy.guarded
    assert legacy.identity == POLICY.classify(f"{folder}/{instant}_{completed}.commit").identity


@given(tables, layouts, instants, actions, uuids)
def test_what_is_renamed_is_guarded_only_when_it_arrives(
    table: str, layout: str, instant: str, action: str, uuid: str
) -> None:
    for last in (f"{instant}.{action}.requested", f"{instant}_{instant}.{action}", f"{instant}.{action}"):
        assert not POLICY.classify(f"{table}/{layout}/{last}.{uuid}").guarded


@given(tables, st.integers(1, 2**31 - 1))
def test_every_manifest_of_the_history_is_guarded_and_follows_the_one_before(table: str, number: int) -> None:
    folder = f"{table}/.hoodie/timeline/history"
    name = POLICY.classify(f"{folder}/manifest_{number}")
    assert (name.role, name.table, name.guarded, name.evidence) == (Role.SNAPSHOT, table, True, ())
    assert name.series is not None
    assert (name.series.number, name.series.first) == (number, 1)
    assert name.series.predecessors == ((f"{folder}/manifest_{number - 1}",) if number > 1 else ())
    assert name.series.number_of("_version_") is None


@given(tables, instants, instants, st.integers(0, 9))
def test_every_file_of_the_history_is_guarded(table: str, first: str, last: str, level: int) -> None:
    name = POLICY.classify(f"{table}/.hoodie/timeline/history/{first}_{last}_{level}.parquet")
    assert (name.role, name.table, name.guarded) == (Role.LOG_ENTRY, table, True)
    assert name.identity == name.path


def test_the_historys_version_is_a_pointer() -> None:
    name = POLICY.classify("bucket/t/.hoodie/timeline/history/_version_")
    assert (name.role, name.guarded) == (Role.POINTER, False)


@given(all_roots, st.lists(components, max_size=3), slices)
def test_a_slice_is_never_guarded_by_its_name(root: str, partition: list[str], last: str) -> None:
    name = POLICY.classify("/".join([root or "/data", *partition, last]))
    assert (name.role, name.format, name.guarded) == (Role.SLICE, "hudi", False)


@given(all_roots, st.sampled_from(["files", "record_index", "expr_index_a"]), slices)
def test_a_slice_of_the_metadata_table_is_that_tables(root: str, partition: str, last: str) -> None:
    name = POLICY.classify(f"{root}/.hoodie/metadata/{partition}/{last}")
    assert (name.role, name.guarded) == (Role.SLICE, False)
    assert name.table == f"{root}/.hoodie/metadata"


@given(
    tables,
    st.one_of(
        st.just("hoodie.properties"),
        st.just("hoodie.properties.backup"),
        st.builds(".temp/{}/MARKERS0".format, instants),
        st.builds(".temp/{}/dt=1/{}.marker.CREATE".format, instants, slices),
        st.builds(".heartbeat/{}".format, instants),
        st.builds(".aux/{}.compaction.requested".format, instants),
        st.builds(".schema/{}.schemacommit".format, instants),
        st.builds("archived/.commits_.archive.{}_1-0-1".format, longs),
        st.builds("history/.commits_.archive.{}_1-0-1".format, longs),
        st.just(".index_defs/index.json"),
        st.just("metadata/files/.hoodie_partition_metadata"),
        st.builds(".bucket_index/consistent_hashing_metadata/dt=1/{}.hashing_meta".format, instants),
        st.just("timeline/history/_version_"),
    ),
)
def test_what_else_hudi_writes_is_left_alone(table: str, inside: str) -> None:
    name = POLICY.classify(f"{table}/.hoodie/{inside}")
    assert not name.guarded
    assert name.format == "hudi"


def test_markers_and_heartbeats_are_markers() -> None:
    for inside in (f".temp/{T}/MARKERS.type", f".heartbeat/{T}"):
        assert POLICY.classify(f"bucket/t/.hoodie/{inside}").role is Role.MARKER


@given(
    layouts,
    st.one_of(
        st.text(max_size=30).filter(lambda text: "/" not in text),
        st.builds(
            "".join,
            st.lists(st.sampled_from([T, C, "_", ".", "commit", "requested", "inflight", "x"]), max_size=7),
        ),
    ),
)
def test_nothing_else_in_a_timeline_is_guarded(layout: str, last: str) -> None:
    head, *tail = last.split(".")
    times = head.split("_")
    timed = all(time.isascii() and time.isdigit() for time in times)
    requested = len(times) == 1 and len(tail) == 2 and tail[0] in ACTIONS and tail[1] == "requested"
    completed = len(times) in (1, 2) and len(tail) == 1 and tail[0] in ACTIONS
    guarded = POLICY.classify(f"bucket/t/{layout}/{last}").guarded
    assert guarded == (timed and (requested or completed))


@given(all_roots, st.lists(components, min_size=1, max_size=3), instants, instants, actions)
def test_an_instants_name_outside_a_timeline_is_not_guarded(
    root: str, folders: list[str], instant: str, completed: str, action: str
) -> None:
    for last in (f"{instant}.{action}.requested", f"{instant}_{completed}.{action}", f"{instant}.{action}"):
        assert not POLICY.classify("/".join([root, *folders, last])).guarded
        assert not POLICY.classify("/".join([root, ".hoodie", ".temp", *folders, last])).guarded


@pytest.mark.parametrize(
    "path",
    [
        f"bucket/t/.hoodie/timeline/{T}.commit.requested.crc",
        f"bucket/t/.hoodie/timeline/{T}.commit.completed",
        f"bucket/t/.hoodie/timeline/{T}.merge.requested",
        f"bucket/t/.hoodie/timeline/{T}.COMMIT.requested",
        f"bucket/t/.hoodie/timeline/{T}_{C}.commit.requested",
        f"bucket/t/.hoodie/timeline/{T}_{C}_{C}.commit",
        f"bucket/t/.hoodie/timeline/{T}_.commit",
        f"bucket/t/.hoodie/timeline/_{C}.commit",
        f"bucket/t/.hoodie/timeline/{T}",
        f"bucket/t/.hoodie/timeline/.{T}.commit.crc",
        f"bucket/t/.hoodie/timeline/{T}.commit\n",
        f"bucket/t/.hoodie/timeline/x/{T}.commit",
        f"bucket/t/.hoodie/history/{T}_{C}_0.parquet",
        "bucket/t/.hoodie/timeline/history/manifest_0",
        "bucket/t/.hoodie/timeline/history/manifest_03",
        "bucket/t/.hoodie/timeline/history/manifest_",
        f"bucket/t/.hoodie/timeline/history/{T}_{C}.parquet",
        f"bucket/t/.hoodie/timeline/history/{T}.commit",
        "bucket/t/dt=1/timeline/history/manifest_3",
        f"bucket/t/dt=.hoodie/timeline/{T}.commit",
        f"bucket/t/hoodie/timeline/{T}.commit",
        f".hoodie/timeline/{T}.commit",
        f".hoodie/{T}.commit.requested",
    ],
)
def test_a_near_miss_is_not_guarded(path: str) -> None:
    assert not POLICY.classify(path).guarded


@pytest.mark.parametrize(
    ("path", "table"),
    [
        (f"bucket/t/.hoodie/{T}.deltacommit", "bucket/t"),
        (f"/data/t/.hoodie/timeline/{T}_{C}.clean", "/data/t"),
        (f"bucket/t/.hoodie/metadata/.hoodie/timeline/{T}001_{C}.commit", "bucket/t/.hoodie/metadata"),
        ("bucket/t/.hoodie/timeline/00000000000000010.deltacommit.requested", "bucket/t"),
        (f"/.hoodie/timeline/{T}.commit.requested", ""),
        (f"bucket/.hoodie/timeline/{T}.commit.requested", "bucket"),
        (f"bucket/timeline/.hoodie/{T}.commit", "bucket/timeline"),
        ("bucket/t/.hoodie/timeline/001.commit.requested", "bucket/t"),
    ],
)
def test_a_real_name_is_guarded_in_its_table(path: str, table: str) -> None:
    name = POLICY.classify(path)
    assert (name.guarded, name.table) == (True, table)


@pytest.mark.parametrize(
    "path",
    [
        f"bucket/t/timeline/{UUID}-0_1-0-1_{T}.parquet",
        f"bucket/t/.hoodie=1/{UUID}-0_1-0-1_{T}.parquet",
        f"bucket/t/metadata/.{UUID}-0_{T}.log.1_0-1-2",
        f"bucket/t/_delta_log=x/{UUID}-0_1-0-1_{T}.orc",
        f"{UUID}/{UUID}-0_1-0-1_{T}.parquet",
    ],
)
def test_a_partition_that_looks_like_metadata_holds_slices(path: str) -> None:
    assert POLICY.classify(path).role is Role.SLICE
