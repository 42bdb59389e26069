"""What commits of Hudi's write: as they declare it, as they have written it, as they are expected to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from putifabsent.shim.formats.hudi_sets import (
    Inserts,
    Part,
    WriteSet,
    coarse,
    declared,
    expected,
    is_a_writers,
    meet,
    planned,
    written,
)

F, G = "8eda0d68-09c5-4fc1-b9b9-bef42c59d745-0", "b5ded05a-804e-414f-81fb-bd930e4c469c-0"
NEW, ANY = Inserts.NEW, Inserts.ANY

parts = st.builds(
    Part, st.none() | st.frozensets(st.sampled_from([F, G]), max_size=2), st.sampled_from(list(Inserts))
)
sets = st.none() | st.dictionaries(st.sampled_from(["p", "q", "", "p/", "p/q/"]), parts, max_size=2)


def stat(group: str = "", upon: str = "null", **numbers: int) -> dict[str, Any]:
    return {"fileId": group, "prevCommit": upon, **numbers}


def said(operation: str = "UPSERT", **partitions: list[dict[str, Any]]) -> dict[str, Any]:
    return {"operationType": operation, "partitionToWriteStats": partitions}


@given(sets, sets)
def test_whether_two_meet_is_the_same_from_both_sides(one: WriteSet, other: WriteSet) -> None:
    assert meet(one, other) == meet(other, one)


@pytest.mark.parametrize(
    ("one", "other", "do"),
    [
        (None, None, True),
        (None, {}, False),
        (None, {"p": Part(frozenset())}, True),
        ({"p": Part(frozenset({F}))}, {"p": Part(frozenset({F, G}))}, True),
        ({"p": Part(frozenset({F}))}, {"p": Part(frozenset({G}))}, False),
        ({"p": Part(frozenset({F}))}, {"q": Part(frozenset({F}))}, False),
        ({"p": Part(None)}, {"p": Part(frozenset())}, True),
        ({"p": Part(frozenset(), ANY)}, {"p": Part(frozenset(), ANY)}, True),
        ({"p": Part(frozenset(), ANY)}, {"p": Part(frozenset(), NEW)}, False),
        ({"p/": Part(None)}, {"p": Part(frozenset({F}))}, True),
        ({"p/": Part(None)}, {"p/q": Part(frozenset({F}))}, True),
        ({"p/": Part(None)}, {"p/q/": Part(None)}, True),
        ({"p/": Part(None)}, {"pq": Part(frozenset({F}))}, False),
        ({"p/q/": Part(None)}, {"p": Part(frozenset({F}))}, False),
        ({"p/": Part(None)}, {"": Part(None)}, False),
        ({"p": Part(None)}, {"p/q": Part(None)}, False),
        ({"": Part(None)}, {"p": Part(None)}, False),
    ],
)
def test_two_meet_where_they_may_write_one_file_group(one: WriteSet, other: WriteSet, do: bool) -> None:
    assert meet(one, other) is do


def test_an_update_declares_its_file_groups() -> None:
    found = declared(said(p=[stat(), stat(F, "1", numUpdateWrites=3)], q=[stat(G, "1")]), None)
    assert found == {"p": Part(frozenset({F})), "q": Part(frozenset({G}))}


def test_where_inserts_go_is_not_declared_and_told_by_habit() -> None:
    inserts = said("INSERT", p=[stat(numInserts=2)])
    assert declared(inserts, None) == {"p": Part(frozenset(), ANY)}
    assert declared(inserts, {"q": Part(frozenset())}) == {"p": Part(frozenset(), ANY)}
    assert declared(inserts, {"p": Part(frozenset({F}), ANY)}) == {"p": Part(frozenset({F}), ANY)}
    assert declared(inserts, {"p": Part(frozenset({F}), NEW)}) == {"p": Part(frozenset({F}), NEW)}
    assert declared({**inserts, "operationType": "BULK_INSERT"}, None) == {"p": Part(frozenset(), NEW)}


def test_what_replaces_partitions_meets_all_in_them() -> None:
    assert declared(said("INSERT_OVERWRITE", p=[stat(numInserts=1)]), {}) == {"p": Part(None)}
    assert declared(said("INSERT_OVERWRITE_TABLE", p=[stat()]), {}) is None
    assert written({**said("INSERT_OVERWRITE", p=[stat(F)])}) == {"p": Part(None)}
    deleted = {**said("DELETE_PARTITION"), "partitionToReplaceFileIds": {"p": [F]}}
    assert written(deleted) == {"p": Part(None)}


def test_a_delete_of_partitions_does_not_say_of_which_until_it_is_completed() -> None:
    assert declared(said("DELETE_PARTITION"), {"p": Part(frozenset({F}))}) is None
    assert declared(said("UPSERT"), {"p": Part(frozenset({F}))}) == {}


def test_a_commit_shows_whether_rows_went_into_a_file_group_that_was_there() -> None:
    assert written(said(p=[stat(F, "null", numInserts=1)])) == {"p": Part(frozenset({F}), NEW)}
    assert written(said(p=[stat(F, "1", numInserts=1), stat(G)])) == {"p": Part(frozenset({F, G}), ANY)}
    assert written(said(p=[stat(F, "1", numUpdateWrites=1)])) == {"p": Part(frozenset({F}))}


def test_a_buckets_file_group_is_the_bucket() -> None:
    one, other = "00000003-09c5-4fc1-b9b9-bef42c59d745-0", "00000003-804e-414f-81fb-bd930e4c469c-0"
    assert meet(written(said(p=[stat(one)])), written(said(p=[stat(other)])))
    third = "00000004-804e-414f-81fb-bd930e4c469c-0"
    assert not meet(written(said(p=[stat(one)])), written(said(p=[stat(third)])))


def test_whoever_begins_buckets_may_begin_one_that_another_begins() -> None:
    """Under a bucket index a row has one bucket to go to, and Hudi compares commits by bucket."""
    buckets = [f"{number:08}-09c5-4fc1-b9b9-bef42c59d745-0" for number in range(4)]
    one, two, three, four = (written(said("INSERT", p=[stat(each, numInserts=1)])) for each in buckets)
    assert meet(expected([one, two]), expected([three, four]))
    # Any name may begin with digits.
    names = [f"{number}-09c5-4fc1-b9b9-bef42c59d745-0" for number in (12345678, 23456789, 34567890, 45678901)]
    one, two, three, four = (written(said("INSERT", p=[stat(each, numInserts=1)])) for each in names)
    assert not meet(expected([one, two]), expected([three, four]))


def test_a_clustering_replaces_what_its_plan_reads() -> None:
    slices = [{"partitionPath": "p", "fileId": F}, {"partitionPath": "p", "fileId": G}]
    plan = {"clusteringPlan": {"inputGroups": [{"slices": slices}]}}
    assert planned(plan) == {"p": Part(frozenset({F, G}))}
    assert planned({}) is None
    assert not is_a_writers({"operationType": "CLUSTER"})
    assert is_a_writers(said())


def test_who_began_file_groups_twice_beside_others_will_again() -> None:
    first, second = {"p": Part(frozenset({F}), NEW)}, {"p": Part(frozenset({G}), NEW)}
    # There may have been none that it could have gone on with.
    assert expected([first]) == {"p": Part(frozenset({F}), ANY)}
    assert expected([second, first]) == {"p": Part(frozenset({F, G}), NEW)}
    assert expected([{"p": Part(frozenset({F}), ANY)}, first]) == {"p": Part(frozenset({F}), ANY)}


def test_who_is_not_known_may_write_anything() -> None:
    assert expected([]) is None
    assert expected([{"p": Part(frozenset())}, None]) is None


def test_what_is_too_long_to_be_said_is_said_by_partition_or_of_the_whole_table() -> None:
    assert coarse(None, 3) is None
    few = {"p": Part(frozenset({F, G}))}
    assert coarse(few, 3) == few
    more = {**few, "q": Part(frozenset({F})), "r": Part(frozenset(), NEW)}
    assert coarse(more, 3) == {"p": Part(None), "q": Part(None), "r": Part(frozenset(), NEW)}
    assert coarse(more, 2) is None


@given(sets, sets, st.integers(1, 4))
def test_whoever_meets_a_set_meets_it_said_in_short(one: WriteSet, other: WriteSet, most: int) -> None:
    assert meet(coarse(one, most), other) or not meet(one, other)
