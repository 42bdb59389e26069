"""Active instants: what a listing shows, each in its newest state."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from putifabsent.shim.formats.hudi import ACTIONS, completed_as
from putifabsent.timeline import Instant, State, Timeline, read
from tests.timeline.tables import Hudi, avro

if TYPE_CHECKING:
    from tests.timeline.conftest import Place

T1, T2, T3, T4 = (f"2026010112000000{n}" for n in range(1, 5))
C1, C2, C3, C4 = (f"2026010112010000{n}" for n in range(1, 5))


def opened(table: Hudi) -> Timeline[Instant]:
    return read(table.root, fs=table.fs)


def said(table: Hudi, order: str = "requested") -> list[tuple[str, str, str]]:
    return [(each.time, each.action, each.state.value) for each in opened(table).active(order=order)]  # type: ignore[arg-type]


def test_an_instant_is_in_the_newest_of_its_states(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.commit(T1, C1)
    table.put(f"{T2}.commit.requested")
    table.put(f"{T2}.inflight")
    table.put(f"{T3}.deltacommit.requested")
    assert said(table) == [
        (T1, "commit", "completed"),
        (T2, "commit", "inflight"),
        (T3, "deltacommit", "requested"),
    ]


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_every_action_is_read_in_every_state(memory: Place, action: str) -> None:
    table = Hudi(memory.fs, memory.root)
    table.put(f"{T1}.{action}.requested")
    assert said(table) == [(T1, action, "requested")]
    table.put(f"{T1}.{action}.inflight")
    assert said(table) == [(T1, action, "inflight")]
    completed = completed_as(action)
    table.put(f"{T1}_{C1}.{completed}")
    (instant,) = opened(table).active()
    assert (instant.action, instant.began, instant.completion) == (completed, action, C1)
    assert [file.state for file in instant.files] == list(State)


@pytest.mark.parametrize(
    ("began", "ends"),
    [("compaction", "commit"), ("logcompaction", "deltacommit"), ("clustering", "replacecommit")],
)
def test_what_changes_its_name_when_it_is_completed_is_one_instant(
    place: Place, began: str, ends: str
) -> None:
    table = Hudi(place.fs, place.root)
    table.put(f"{T1}.{began}.requested")
    table.put(f"{T1}.{began}.inflight")
    table.put(f"{T1}_{C1}.{ends}")
    assert [(each.began, each.action) for each in opened(table).active()] == [(began, ends)]


def test_a_savepoint_is_an_instant_beside_the_commit_that_it_saves(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.commit(T1, C1)
    table.put(f"{T1}.savepoint.inflight")
    table.put(f"{T1}_{C2}.savepoint")
    assert said(table) == [(T1, "commit", "completed"), (T1, "savepoint", "completed")]


def test_a_time_that_was_completed_twice_is_two_instants(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.commit(T1, C1)
    table.put(f"{T1}_{C2}.commit")
    assert [each.completion for each in opened(table).active()] == [C1, C2]


def test_instants_come_by_when_they_were_requested(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    for time, completion in ((T2, C1), (T1, C3), (T3, C2)):
        table.commit(time, completion)
    assert [each.time for each in opened(table).active()] == [T1, T2, T3]


def test_instants_come_by_when_they_were_completed_and_the_pending_ones_last(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.put(f"{T4}.commit.requested")
    table.put(f"{T1}.clean.requested")
    for time, completion in ((T2, C2), (T3, C1)):
        table.commit(time, completion)
    assert [each.time for each in opened(table).active(order="completed")] == [T3, T2, T1, T4]


def test_salted_instants_come_by_time_and_salt(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    salts = ["b" * 32, "a" * 32]
    for time, salt in product((T2, T1), salts):
        table.put(f"{time}.commit.requested~{salt}")
        table.put(f"{time}_{C1}.commit~{salt}", avro(salt))
    table.put(f"{T1}.commit.requested")
    found = [(each.time, each.salt, each.state.value) for each in opened(table).active()]
    assert found == [
        (T1, "", "requested"),
        (T1, "a" * 32, "completed"),
        (T1, "b" * 32, "completed"),
        (T2, "a" * 32, "completed"),
        (T2, "b" * 32, "completed"),
    ]


def test_each_salted_instant_says_what_its_own_writer_wrote(memory: Place) -> None:
    table = Hudi(memory.fs, memory.root)
    for salt in ("a" * 32, "b" * 32):
        table.put(f"{T1}_{C1}.commit~{salt}", avro(salt))
    timeline = opened(table)
    told = [timeline.details(each).metadata for each in timeline.active()]
    assert [each and each.value["operationType"] for each in told] == ["a" * 32, "b" * 32]


def test_what_is_no_instant_is_passed_over(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.commit(T1, C1)
    for last in (
        "hoodie.properties",
        f"{T2}.commit.requested.0a1b",
        f".{T1}.commit.crc",
        f"{T2}.schemacommit",
    ):
        table.put(last)
    table.put(f"{T2}.commit.requested/inside")
    assert said(table) == [(T1, "commit", "completed")]


def test_a_table_without_instants_has_none(place: Place) -> None:
    timeline = opened(Hudi(place.fs, place.root))
    assert list(timeline.records()) == []
    assert timeline.table().num_rows == 0


def test_a_listing_is_never_an_old_one(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    timeline = opened(table)
    assert list(timeline.active()) == []
    table.commit(T1, C1)
    assert len(list(timeline.active())) == 1


def test_the_timeline_lies_where_the_properties_say(place: Place) -> None:
    table = Hudi(place.fs, place.root, 8, **{"hoodie.timeline.path": "elsewhere"})
    table.timeline = ".hoodie/elsewhere"
    table.commit(T1, C1)
    table.manifest(
        1, {f"{T1}_{T1}_0.parquet": table.archive(f"{T1}_{T1}_0.parquet", [(T1, C1, "clean", None, None)])}
    )
    assert [each.action for each in opened(table).records()] == ["clean", "commit"]


def test_the_metadata_table_is_a_table_like_others(place: Place) -> None:
    Hudi(place.fs, place.root)
    table = Hudi(place.fs, f"{place.root}/.hoodie/metadata")
    table.commit(f"{T1}010", C1, "deltacommit")
    assert said(table) == [(f"{T1}010", "deltacommit", "completed")]


# --- table version 6 ----------------------------------------------------------------------------------------


def test_in_version_6_an_instant_was_completed_when_its_file_was_written(place: Place) -> None:
    table = Hudi(place.fs, place.root, 6, **{"hoodie.table.timeline.timezone": "UTC"})
    table.put(f"{T1}.deltacommit.requested")
    path = table.put(f"{T1}.deltacommit", "{}")
    (instant,) = opened(table).active()
    when = place.fs.modified(path)
    assert instant.stamped
    assert instant.completion == f"{when:%Y%m%d%H%M%S}{when.microsecond // 1000:03d}"


def test_in_version_6_the_actions_and_their_names_are_the_same(place: Place) -> None:
    table = Hudi(place.fs, place.root, 6)
    for last in (f"{T1}.inflight", f"{T1}.commit.requested", f"{T2}.compaction.requested", f"{T2}.commit"):
        table.put(last)
    assert said(table) == [(T1, "commit", "inflight"), (T2, "commit", "completed")]


def test_details_of_version_6_are_json(place: Place) -> None:
    table = Hudi(place.fs, place.root, 6)
    table.put(f"{T1}.commit", '{"operationType": "UPSERT"}')
    timeline = opened(table)
    (instant,) = timeline.active()
    metadata = timeline.details(instant).metadata
    assert metadata is not None
    assert metadata.value == {"operationType": "UPSERT"}


# --- what they say ------------------------------------------------------------------------------------------


def test_details_are_the_plan_and_the_metadata(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.put(f"{T1}.compaction.requested", avro("planned"))
    table.put(f"{T1}.compaction.inflight", avro("under way"))
    table.put(f"{T1}_{C1}.commit", avro("done"))
    timeline = opened(table)
    (instant,) = timeline.active()
    plan, metadata = timeline.details(instant)
    assert plan is not None
    assert metadata is not None
    assert (plan.value["operationType"], metadata.value["operationType"]) == ("planned", "done")
    assert metadata.kind == "HoodieCommitMetadata"


def test_what_was_requested_without_a_plan_has_none(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.commit(T1, C1)
    timeline = opened(table)
    (instant,) = timeline.active()
    assert timeline.details(instant).plan is None
