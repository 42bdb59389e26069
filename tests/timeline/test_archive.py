"""The history of table version 6: log files, of which some may be torn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.timeline import HudiTimeline, Problems, State, Trouble, read
from tests.timeline.tables import METADATA, Hudi, avro, block, entry

if TYPE_CHECKING:
    from tests.timeline.conftest import Place

T1, T2, T3 = (f"2026010112000000{n}" for n in range(1, 4))
C1, C2, C3 = (f"2026010112010000{n}" for n in range(1, 4))
UPSERT = {"operationType": "UPSERT"}


def completed(time: str, completion: str, action: str = "commit", **more: Any) -> dict[str, Any]:
    return entry(time, action, "COMPLETED", stateTransitionTime=completion, **more)


def table_of(place: Place, *logs: bytes, **said: str) -> Hudi:
    table = Hudi(place.fs, place.root, 6, **said)
    for number, log in enumerate(logs, 1):
        table.put(f"archived/.commits_.archive.{number}_1-0-1", log)
    return table


def opened(table: Hudi) -> HudiTimeline:
    timeline = read(table.root, fs=table.fs)
    assert isinstance(timeline, HudiTimeline)
    return timeline


def test_the_states_of_an_instant_are_one(place: Place) -> None:
    states = [entry(T1, "commit", "REQUESTED"), entry(T1, "commit", "INFLIGHT"), completed(T1, C1)]
    (instant,) = opened(table_of(place, block(states))).history()
    assert (instant.time, instant.action, instant.state) == (T1, "commit", State.COMPLETED)
    assert (instant.completion, instant.archived) == (C1, True)


def test_a_compaction_is_one_with_the_commit_that_it_became(place: Place) -> None:
    states = [entry(T1, "compaction", "REQUESTED"), entry(T1, "compaction", "INFLIGHT"), completed(T1, C1)]
    (instant,) = opened(table_of(place, block(states))).history()
    assert (instant.began, instant.action) == ("compaction", "commit")


def test_all_blocks_of_all_files_are_read(place: Place) -> None:
    logs = [block([completed(T3, C1)]) + block([completed(T2, C3)]), block([completed(T1, C2)])]
    timeline = opened(table_of(place, *logs))
    assert [each.time for each in timeline.history()] == [T1, T2, T3]
    assert [each.time for each in timeline.history(order="completed")] == [T3, T1, T2]


def test_an_instant_that_is_in_two_files_is_one(place: Place) -> None:
    logs = [block([completed(T1, C1), completed(T2, C2)]), block([completed(T1, C1)])]
    assert [each.time for each in opened(table_of(place, *logs)).history()] == [T1, T2]


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_files_the_one_that_knows_more_counts(place: Place, first: int) -> None:
    logs = [block([completed(T1, C1)]), block([entry(T1, "commit", "REQUESTED")])]
    (instant,) = opened(table_of(place, logs[first], logs[1 - first])).history()
    assert instant.state is State.COMPLETED


def test_what_does_not_say_its_state_was_completed(place: Place) -> None:
    (instant,) = opened(table_of(place, block([entry(T1, "commit", None)]))).history()
    assert (instant.state, instant.completion) == (State.COMPLETED, None)


def test_what_is_archived_and_still_active_is_active_and_one(place: Place) -> None:
    table = table_of(place, block([completed(T1, C1), completed(T2, C2)]))
    table.put(f"{T2}.commit", "{}")
    assert [(each.time, each.archived) for each in opened(table).records()] == [(T1, True), (T2, False)]


def test_details_are_those_of_its_states(place: Place) -> None:
    states = [
        entry(T1, "compaction", "REQUESTED", hoodieCompactionPlan={"operationType": "planned"}),
        entry(T1, "compaction", "INFLIGHT"),
        completed(T1, C1, hoodieCommitMetadata=UPSERT),
    ]
    timeline = opened(table_of(place, block(states)))
    (lazily,) = timeline.history()
    (along,) = timeline.history(raw=True)
    plan, metadata = timeline.details(lazily)
    assert timeline.details(along) == (plan, metadata)
    assert plan == ("HoodieCompactionPlan", {"operationType": "planned"})
    assert metadata == ("HoodieCommitMetadata", UPSERT)


def test_the_history_lies_where_the_properties_say(place: Place) -> None:
    table = table_of(place, **{"hoodie.archivelog.folder": "history"})
    table.put("history/.commits_.archive.1_1-0-1", block([completed(T1, C1)]))
    assert [each.time for each in opened(table).history()] == [T1]


@pytest.mark.parametrize(
    "kept", [3, 10, 60, -1], ids=["in the sign", "in the length", "in the schema", "at its end"]
)
def test_a_truncated_log_is_a_problem_and_what_is_before_is_read(place: Place, kept: int) -> None:
    whole, cut = block([completed(T1, C1)]), block([completed(T2, C2)])
    timeline = opened(table_of(place, whole + cut[:kept], block([completed(T3, C3)])))
    problems: Problems = []
    assert [each.time for each in timeline.history(problems=problems)] == [T1, T3]
    assert [each.trouble for each in problems] == [Trouble.UNREADABLE]
    with pytest.raises(OSError, match="torn"):
        timeline.history()


def test_a_log_whose_schema_is_torn_is_a_problem(place: Place) -> None:
    log = block([completed(T1, C1)]).replace(b'"name"', b'"namf"', 1)
    problems: Problems = []
    assert list(opened(table_of(place, log)).history(problems=problems)) == []
    assert [each.trouble for each in problems] == [Trouble.UNREADABLE]


def test_a_log_of_something_else_is_a_problem(place: Place) -> None:
    timeline = opened(table_of(place, b"PAR1 and so on"))
    problems: Problems = []
    assert list(timeline.history(problems=problems)) == []
    assert "no block begins at byte 0" in problems[0].reason


def test_a_file_that_others_are_being_merged_into_may_be_torn(place: Place) -> None:
    table = table_of(place, block([completed(T1, C1)]), block([completed(T1, C1)])[:-1])
    schema = {**METADATA, "fields": [{"name": "mergedArchiveFileName", "type": "string"}]}
    import io

    import fastavro

    file = io.BytesIO()
    said = [{"mergedArchiveFileName": ".commits_.archive.2_1-0-1"}]
    fastavro.writer(file, fastavro.parse_schema(schema), said)
    table.put("archived/mergeArchivePlan", file.getvalue())
    assert [each.time for each in opened(table).history()] == [T1]


def test_files_that_are_merged_into_one_while_they_are_read_are_not_missed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = [block([completed(T1, C1)]), block([completed(T2, C2)])]
    table, cat_file = table_of(place, *logs), place.fs.cat_file

    def merged(path: str, **options: Any) -> Any:
        if path.endswith("archive.1_1-0-1") and place.fs.exists(path):
            table.put("archived/.commits_.archive.3_1-0-1", b"".join(logs))
            for number in (1, 2):
                place.fs.rm_file(f"{table.root}/.hoodie/archived/.commits_.archive.{number}_1-0-1")
        return cat_file(path, **options)

    timeline = opened(table)
    monkeypatch.setattr(place.fs, "cat_file", merged)
    assert [each.time for each in timeline.history()] == [T1, T2]


def test_an_active_instant_of_version_6_may_be_avro_or_json(place: Place) -> None:
    table = table_of(place)
    table.put(f"{T1}.clean", avro("cleaned"))
    table.put(f"{T2}.commit", '{"operationType": "UPSERT"}')
    timeline = opened(table)
    told = [timeline.details(each).metadata for each in timeline.active()]
    assert [each and each.value["operationType"] for each in told] == ["cleaned", "UPSERT"]
