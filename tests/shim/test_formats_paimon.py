"""Paimon's names, as its snapshot, schema and changelog managers write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from putifabsent.shim.names import Role
from putifabsent.shim.policy import Policy
from tests.shim.folders import all_roots, components, longs, roots, uuids

POLICY = Policy()
ALONE = Policy(["paimon"])

kinds = st.sampled_from(["snapshot", "schema"])
branches = st.text(alphabet="abcxyz_.-0123456789", min_size=1, max_size=12)
elsewhere = all_roots.filter(lambda root: "/branch/branch-" not in root and ".db/" not in root)
databases = st.builds(
    lambda root, database, table: f"{root}/{database}.db/{table}",
    elsewhere,
    components,
    components,
).filter(lambda root: "/branch/branch-" not in root)


@given(elsewhere, kinds, longs)
def test_every_numbered_file_is_guarded_beside_the_first_schema(root: str, kind: str, number: int) -> None:
    name = POLICY.classify(f"{root}/{kind}/{kind}-{number}")
    assert (name.role, name.format, name.table) == (Role.SNAPSHOT, "paimon", root)
    assert name.guarded
    assert name.evidence == (f"{root}/schema/schema-0",)
    assert name.identity == name.canonical == name.path
    assert name.aliases == ()


@given(elsewhere, kinds, longs, branches)
def test_a_branch_is_guarded_by_its_own_first_schema_or_the_tables(
    root: str, kind: str, number: int, branch: str
) -> None:
    inside = f"{root}/branch/branch-{branch}"
    name = POLICY.classify(f"{inside}/{kind}/{kind}-{number}")
    assert (name.table, name.guarded) == (root, True)
    assert name.evidence == (f"{inside}/schema/schema-0", f"{root}/schema/schema-0")


@given(roots, branches, longs)
def test_a_branchs_names_are_its_own(root: str, branch: str, number: int) -> None:
    main = POLICY.classify(f"{root}/snapshot/snapshot-{number}")
    other = POLICY.classify(f"{root}/branch/branch-{branch}/snapshot/snapshot-{number}")
    assert main.identity != other.identity


@given(databases, st.one_of(st.just(0), longs))
def test_a_schema_in_a_catalogs_database_needs_no_evidence(root: str, number: int) -> None:
    name = POLICY.classify(f"{root}/schema/schema-{number}")
    assert (name.table, name.guarded, name.evidence) == (root, True, ())


@given(databases, longs)
def test_a_snapshot_needs_evidence_in_a_database_too(root: str, number: int) -> None:
    assert POLICY.classify(f"{root}/snapshot/snapshot-{number}").evidence == (f"{root}/schema/schema-0",)


@given(elsewhere)
def test_a_new_table_outside_a_database_has_no_evidence_yet(root: str) -> None:
    assert POLICY.classify(f"{root}/schema/schema-0").evidence == (f"{root}/snapshot",)


@given(elsewhere, branches)
def test_a_new_branch_has_its_tables_evidence(root: str, branch: str) -> None:
    name = POLICY.classify(f"{root}/branch/branch-{branch}/schema/schema-0")
    assert name.evidence == (f"{root}/schema/schema-0",)


@given(all_roots, kinds, longs)
def test_evidence_is_never_the_name_itself(root: str, kind: str, number: int) -> None:
    for each in (number, 0):
        name = POLICY.classify(f"{root}/{kind}/{kind}-{each}")
        assert name.path not in name.evidence


@given(all_roots, st.sampled_from([("snapshot", 1), ("schema", 0)]), longs)
def test_a_number_follows_the_one_before(root: str, counted: tuple[str, int], number: int) -> None:
    kind, first = counted
    series = POLICY.classify(f"{root}/{kind}/{kind}-{number}").series
    assert series is not None
    assert (series.number, series.first) == (number, first)
    before = (f"{root}/{kind}/{kind}-{number - 1}",)
    assert series.predecessors == (before if number > first else ())
    assert series.number_of(f"{kind}-{number}") == number
    assert series.number_of("LATEST") is None


@pytest.mark.parametrize("first", ["snapshot/snapshot-1", "schema/schema-0"])
def test_the_first_number_has_no_predecessor(first: str) -> None:
    series = POLICY.classify(f"bucket/t/{first}").series
    assert series is not None
    assert series.number == series.first
    assert series.predecessors == ()


@given(
    all_roots,
    st.one_of(
        st.builds("snapshot/.snapshot-{}.{}.tmp".format, longs, uuids),
        st.builds("schema/.schema-{}.{}.tmp".format, longs, uuids),
        st.builds("snapshot/{}".format, st.sampled_from(["LATEST", "EARLIEST"])),
        st.builds("changelog/{}".format, st.sampled_from(["LATEST", "EARLIEST"])),
        st.builds("changelog/changelog-{}".format, longs),
        st.builds("tag/tag-{}".format, branches),
        st.builds("consumer/consumer-{}".format, branches),
        st.builds("manifest/manifest-{}-{}".format, uuids, longs),
        st.builds("manifest/manifest-list-{}-{}".format, uuids, longs),
        st.builds("index/index-{}-{}".format, uuids, longs),
        st.builds("statistics/stats-{}-{}".format, uuids, longs),
        st.builds("bucket-0/data-{}-{}.orc".format, uuids, longs),
        st.builds("dt=snapshot/bucket-0/changelog-{}-{}.orc".format, uuids, longs),
        st.builds("dt=snapshot/snapshot-{}".format, longs),
    ),
)
def test_what_else_paimon_writes_is_left_alone(root: str, inside: str) -> None:
    for above in (root, f"{root}/branch/branch-b"):
        assert not POLICY.classify(f"{above}/{inside}").guarded


@pytest.mark.parametrize("kind", ["snapshot", "changelog"])
@pytest.mark.parametrize("last", ["LATEST", "EARLIEST"])
def test_hints_are_pointers(kind: str, last: str) -> None:
    name = POLICY.classify(f"bucket/db.db/t/{kind}/{last}")
    assert (name.role, name.format, name.table) == (Role.POINTER, "paimon", "bucket/db.db/t")


@given(all_roots, kinds, st.text(max_size=24).filter(lambda text: "/" not in text), st.booleans())
def test_nothing_else_in_these_folders_is_guarded(root: str, kind: str, text: str, prefixed: bool) -> None:
    last = f"{kind}-{text}" if prefixed else text
    number = last.removeprefix(f"{kind}-")
    counted = (
        last != number
        and number.isascii()
        and number.isdigit()
        and str(int(number)) == number
        and (kind == "schema" or number != "0")
        and len(number) < 20
    )
    assert ALONE.classify(f"{root}/{kind}/{last}").guarded == counted


@pytest.mark.parametrize(
    "path",
    [
        "bucket/t/snapshot/snapshot-0",
        "bucket/t/snapshot/snapshot-03",
        "bucket/t/snapshot/snapshot--3",
        "bucket/t/snapshot/snapshot-3.tmp",
        "bucket/t/snapshot/snapshot-3\n",
        "bucket/t/snapshot/schema-3",
        "bucket/t/schema/snapshot-3",
        "bucket/t/changelog/changelog-0",
        "bucket/t/snapshots/snapshot-3",
        "bucket/t/snapshot/x/snapshot-3",
        "bucket/t/snapshot-3",
        "snapshot/snapshot-3",
        "schema/schema-0",
        "bucket/t/tag/tag-1",
    ],
)
def test_a_near_miss_is_not_guarded(path: str) -> None:
    assert not POLICY.classify(path).guarded


def test_a_bucket_that_ends_in_db_is_no_database() -> None:
    assert POLICY.classify("my.db/t/schema/schema-0").evidence == ("my.db/t/snapshot",)
    assert POLICY.classify("bucket/.db/t/schema/schema-0").evidence == ("bucket/.db/t/snapshot",)


def test_a_bucket_called_branch_is_no_branch() -> None:
    assert POLICY.classify("branch/branch-b/snapshot/snapshot-3").table == "branch/branch-b"
