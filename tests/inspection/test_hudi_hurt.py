"""Hurt Hudi tables: each kind of damage is found, and named with what it is about."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from putifabsent.inspection import Kind, Severity
from tests.inspection.tables import Hudi, stat

if TYPE_CHECKING:
    from tests.inspection.conftest import Place

A, B, D = "aaaaaaaa-0", "bbbbbbbb-0", "dddddddd-0"
T = [f"2026010112000000{n}" for n in range(10)]
C = [f"2026010112010000{n}" for n in range(10)]
OLD = "20250101120000000"
UTC = {"hoodie.table.timeline.timezone": "UTC"}


def base(group: str, time: str, write: str = "0-1-1") -> str:
    return f"{group}_{write}_{time}.parquet"


def log(group: str, time: str, write: str = "0-1-1") -> str:
    return f".{group}_{time}.log.1_{write}"


@pytest.fixture
def table(place: Place) -> Hudi:
    """Return a table with one commit to one file group."""
    table = Hudi(place.fs, place.root)
    table.wrote(T[0], C[0], stat(A, base(A, T[0])))
    return table


# Instants


def test_two_completions_of_one_instant_collide(place: Place, table: Hudi) -> None:
    table.wrote(T[1], C[1], stat(B, base(B, T[1])))
    table.wrote(T[1], C[2], stat(D, base(D, T[1], "0-9-9")))
    finding = place.the(Kind.COLLIDING_INSTANTS)
    assert finding.severity is Severity.DAMAGE
    assert [name.rpartition("/")[2] for name in finding.names] == [
        f"{T[1]}_{C[1]}.commit",
        f"{T[1]}_{C[2]}.commit",
    ]
    assert C[1] in finding.detail
    assert C[2] in finding.detail


def test_two_actions_below_version_8_collide(place: Place) -> None:
    table = Hudi(place.fs, place.root, version=6)
    table.wrote(T[1], "", stat(A, base(A, T[1])))
    table.wrote(T[1], "", stat(B, base(B, T[1])), action="deltacommit")
    assert place.the(Kind.COLLIDING_INSTANTS).moments == (T[1],)


def test_an_archived_instant_and_an_active_one_collide(place: Place, table: Hudi) -> None:
    size = table.archive(f"{T[1]}_{T[1]}_0.parquet", [(T[1], C[1], "commit", b"{}", b"")])
    table.manifest(1, {f"{T[1]}_{T[1]}_0.parquet": size})
    table.wrote(T[1], C[2], stat(B, base(B, T[1])))
    assert place.the(Kind.COLLIDING_INSTANTS).moments == (T[1],)


def test_two_actions_that_request_one_instant_contest_it(place: Place, table: Hudi) -> None:
    table.put(f"{T[1]}.commit.requested")
    table.put(f"{T[1]}.clean.requested")
    finding = place.the(Kind.CONTESTED_INSTANT)
    assert {name.rpartition("/")[2] for name in finding.names} == {
        f"{T[1]}.commit.requested",
        f"{T[1]}.clean.requested",
    }


def test_an_instant_that_was_completed_by_another_action_than_requested_it_is_contested(
    place: Place, table: Hudi
) -> None:
    table.put(f"{T[1]}.clean.requested")
    table.wrote(T[1], C[1], stat(B, base(B, T[1])))
    assert Kind.CONTESTED_INSTANT in place.damage()


def test_an_instant_that_nobody_has_requested_took_an_invalid_step(place: Place, table: Hudi) -> None:
    path = table.put(f"{T[1]}.inflight")
    assert place.the(Kind.INVALID_STEP).names == (path,)


def test_a_commit_whose_completed_name_is_gone_is_told_by_who_came_upon_it(place: Place, table: Hudi) -> None:
    table.wrote(T[1], C[1], stat(A, base(A, T[1]), T[0]))
    path = f"{place.root}/.hoodie/timeline/{T[0]}_{C[0]}.commit"
    completed = place.fs.cat_file(path)
    place.fs.rm_file(path)
    finding = place.the(Kind.INVALID_STEP)
    assert (finding.severity, finding.moments) == (Severity.DAMAGE, (T[0], T[1]))
    assert "its completed name is gone" in finding.detail
    table.put(f"{T[2]}.restore.requested", b"{}")  # which may have removed it, or be about to
    assert place.damage() == []
    place.fs.rm_file(f"{place.root}/.hoodie/timeline/{T[2]}.restore.requested")
    place.fs.pipe_file(path, completed)
    assert place.findings() == []


def test_an_instant_that_was_completed_before_it_was_requested_goes_backwards(place: Place) -> None:
    Hudi(place.fs, place.root, 9, **UTC).wrote(T[5], T[1], stat(A, base(A, T[5])))
    finding = place.the(Kind.BACKWARDS)
    assert finding.severity is Severity.DAMAGE
    assert finding.moments == (T[5],)


@pytest.mark.parametrize(
    ("completion", "severity"),
    [("20261101010100000", Severity.NOTICE), ("20261101003000000", Severity.DAMAGE)],
)
def test_clocks_that_are_put_back_by_an_hour_prove_no_damage(
    place: Place, completion: str, severity: Severity
) -> None:
    time = "20261101015900000"
    Hudi(place.fs, place.root).wrote(time, completion, stat(A, base(A, time)))
    assert place.the(Kind.BACKWARDS).severity is severity


def test_a_writer_that_completes_after_it_was_rolled_back_is_found(place: Place, table: Hudi) -> None:
    table.wrote(T[1], C[3], stat(B, base(B, T[1])), files=False)
    table.rolled_back(T[2], C[2], T[1], base(B, T[1]))
    finding = place.the(Kind.UNDONE_INSTANT)
    assert finding.severity is Severity.DAMAGE
    assert finding.moments == (T[1], T[2])


@pytest.mark.parametrize("action", ["rollback", "restore"])
def test_an_undoing_that_is_not_completed_is_a_notice(place: Place, table: Hudi, action: str) -> None:
    table.put(f"{T[1]}.{action}.requested", b"{}")
    table.put(f"{T[1]}.{action}.inflight")
    assert place.the(Kind.PENDING_UNDO).severity is Severity.NOTICE


# What can't be read


def test_a_completed_instant_without_bytes_is_empty(place: Place, table: Hudi) -> None:
    table.put(f"{T[1]}.commit.requested")
    path = table.put(f"{T[1]}_{C[1]}.commit")
    finding = place.the(Kind.EMPTY)
    assert finding.names == (path,)
    assert finding.severity is Severity.DAMAGE


def test_a_torn_instant_is_unreadable(place: Place, table: Hudi) -> None:
    path = table.put(f"{T[1]}_{C[1]}.commit", b'{"partitionToWriteStats": {')
    assert place.the(Kind.UNREADABLE).names == (path,)


def test_what_a_torn_instant_may_have_removed_proves_no_damage(place: Place, table: Hudi) -> None:
    place.fs.rm_file(f"{place.root}/{base(A, T[0])}")
    assert place.damage() == [Kind.DANGLING_REFERENCE]
    table.put(f"{T[1]}_{C[1]}.clean", b"\0")
    assert place.damage() == [Kind.UNREADABLE]
    assert Kind.DANGLING_REFERENCE in place.kinds(Severity.NOTICE)


def test_a_history_that_is_missing_a_file_is_found(place: Place, table: Hudi) -> None:
    table.manifest(1, {f"{OLD}_{OLD}_0.parquet": 10})
    assert place.the(Kind.MISSING_HISTORY).names[0].endswith(f"/{OLD}_{OLD}_0.parquet")


def test_a_truncated_file_of_the_history_is_unreadable(place: Place, table: Hudi) -> None:
    last = f"{OLD}_{OLD}_0.parquet"
    size = table.archive(last, [(OLD, OLD, "commit", b"{}", b"")])
    table.manifest(1, {last: size})
    table.put(f"history/{last}", b"PAR1")
    assert place.damage() == [Kind.UNREADABLE]


def test_a_record_of_an_unknown_version_is_a_notice(place: Place, table: Hudi) -> None:
    last = f"{OLD}_{OLD}_0.parquet"
    columns = (OLD, OLD, "commit", b"{}", b"")
    size = table.archive(last, [columns], version=7)
    table.manifest(1, {last: size})
    assert place.the(Kind.UNKNOWN_RECORD).severity is Severity.NOTICE


# Slices


@pytest.mark.parametrize("version", [6, 9])
def test_a_slice_that_its_completed_instant_does_not_name_is_orphaned(place: Place, version: int) -> None:
    # As of two writers that took one instant, the second of whom wrote over the first one's.
    table = Hudi(place.fs, place.root, version)
    table.wrote(T[1], C[1], stat(A, base(A, T[1])))
    path = table.write(base(B, T[1], "0-7-7"))
    finding = place.the(Kind.ORPHANED_SLICE)
    assert finding.names == (path,)
    assert finding.severity is Severity.DAMAGE


def test_a_log_file_that_its_completed_instant_does_not_name_is_orphaned(place: Place, table: Hudi) -> None:
    table.wrote(T[1], C[1], stat(A, log(A, T[1]), T[0]), action="deltacommit")
    path = table.write(log(B, T[1]))
    assert place.the(Kind.ORPHANED_SLICE).names == (path,)


def test_two_slices_of_one_file_group_and_instant_are_rivals(place: Place, table: Hudi) -> None:
    path = table.write(base(A, T[0], "0-8-8"))
    finding = place.the(Kind.RIVAL_SLICES)
    assert finding.names == (f"{place.root}/{base(A, T[0])}", path)
    assert finding.severity is Severity.DAMAGE


def test_a_second_log_file_of_one_file_group_and_instant_proves_no_damage(place: Place, table: Hudi) -> None:
    table.wrote(T[1], C[1], stat(A, log(A, T[1]), T[0]), action="deltacommit")
    table.write(log(A, T[1], "0-8-8"))
    assert place.the(Kind.RIVAL_SLICES).severity is Severity.NOTICE


def test_a_slice_of_nobody_s_instant_is_abandoned(place: Place, table: Hudi) -> None:
    path = table.write(base(B, T[1]))
    finding = place.the(Kind.ABANDONED_SLICE)
    assert finding.names == (path,)
    # Readers pass it over as long as the active timeline begins before it.
    assert finding.severity is Severity.NOTICE


def test_an_abandoned_slice_that_the_active_timeline_has_passed_is_damage(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    last = f"{OLD}_{OLD}_0.parquet"
    said = json.dumps({"partitionToWriteStats": {"": [stat(A, base(A, OLD))]}}).encode()
    table.manifest(1, {last: table.archive(last, [(OLD, OLD, "commit", said, b"")])})
    table.write(base(A, OLD))
    table.write(base(B, T[1]))
    table.wrote(T[2], C[2], stat(A, base(A, T[2]), OLD))
    finding = place.the(Kind.ABANDONED_SLICE)
    assert finding.severity is Severity.DAMAGE
    assert finding.moments == (T[1],)


def test_an_abandoned_slice_says_that_its_instant_was_rolled_back(place: Place, table: Hudi) -> None:
    table.rolled_back(T[2], C[2], T[1])
    table.write(base(B, T[1]))
    assert "rolled back" in place.the(Kind.ABANDONED_SLICE).detail


@pytest.mark.parametrize("version", [6, 9])
def test_a_file_that_a_commit_names_and_that_nobody_removed_dangles(place: Place, version: int) -> None:
    table = Hudi(place.fs, place.root, version)
    table.wrote(T[1], C[1], stat(A, base(A, T[1]), partition="dt=1"), stat(B, base(B, T[1])))
    path = f"{place.root}/dt=1/{base(A, T[1])}"
    place.fs.rm_file(path)
    finding = place.the(Kind.DANGLING_REFERENCE)
    assert finding.names == (path,)
    assert finding.severity is Severity.DAMAGE


def test_a_file_that_a_savepoint_keeps_dangles(place: Place, table: Hudi) -> None:
    said = {"partitionMetadata": {"": {"savepointDataFile": [base(A, T[0])]}}}
    table.put(f"{T[0]}.savepoint.inflight")
    table.put(f"{T[0]}_{C[5]}.savepoint", json.dumps(said))
    table.cleaned(T[1], C[1], base(A, T[0]))
    finding = place.the(Kind.DANGLING_REFERENCE)
    assert "savepoint" in finding.detail


def test_files_that_others_have_written_are_called_otherwise(place: Place, table: Hudi) -> None:
    written = f"x.parquet_{T[1]}_hudiext"
    table.write("x.parquet")
    table.wrote(T[1], C[1], stat(B, written), files=False)
    said = {"partitionMetadata": {"": {"savepointDataFile": [written]}}}
    table.put(f"{T[1]}_{C[2]}.savepoint", json.dumps(said))
    assert place.damage() == []


@pytest.mark.parametrize("stats", ["x", {"": [3]}, {"": [{"path": 3}]}])
def test_an_instant_that_says_what_is_not_known_keeps_no_other_from_being_judged(
    place: Place, table: Hudi, stats: object
) -> None:
    path = table.put(f"{T[1]}_{C[1]}.commit", json.dumps({"partitionToWriteStats": stats}))
    place.fs.rm_file(f"{place.root}/{base(A, T[0])}")
    odd, dangling = place.findings()
    assert (odd.kind, odd.names) == (Kind.UNREADABLE, (path,))
    assert dangling.kind is Kind.DANGLING_REFERENCE


def test_without_data_files_only_the_timeline_is_judged(place: Place, table: Hudi) -> None:
    place.fs.rm_file(f"{place.root}/{base(A, T[0])}")
    assert place.findings(data=False) == []


# Updates


def test_two_commits_upon_one_slice_lose_an_update(place: Place, table: Hudi) -> None:
    table.wrote(T[1], C[2], stat(A, base(A, T[1]), T[0]))
    table.wrote(T[2], C[1], stat(A, base(A, T[2]), T[0]))
    finding = place.the(Kind.LOST_UPDATE)
    assert finding.severity is Severity.DAMAGE
    # By when they were completed: the second one is the one that readers see.
    assert finding.moments == (T[2], T[1])
    assert finding.names == (base(A, T[2]), base(A, T[1]))


def test_a_lost_update_of_archived_commits_is_found(place: Place, table: Hudi) -> None:
    rows = []
    for n in (1, 2):
        said = {"partitionToWriteStats": {"": [stat(A, base(A, T[n]), T[0])]}}
        rows.append((T[n], C[n], "commit", json.dumps(said).encode(), b""))
        table.write(base(A, T[n]))
    last = f"{T[1]}_{T[2]}_0.parquet"
    table.manifest(1, {last: table.archive(last, rows)})
    assert place.the(Kind.LOST_UPDATE).moments == (T[1], T[2])


def test_an_update_that_was_rolled_back_has_taken_nothing(place: Place, table: Hudi) -> None:
    table.wrote(T[1], C[1], stat(A, base(A, T[1]), T[0]))
    table.wrote(T[2], C[2], stat(A, base(A, T[2]), T[0]), files=False)
    table.rolled_back(T[3], C[3], T[2], base(A, T[2]))
    assert Kind.LOST_UPDATE not in place.kinds()


def test_an_update_that_a_clustering_has_not_seen_is_lost(place: Place, table: Hudi) -> None:
    table.wrote(T[2], C[1], stat(A, base(A, T[2]), T[0]))
    inputs = {"clusteringPlan": {"inputGroups": [{"slices": [{"dataFilePath": f"s3a://b/{base(A, T[0])}"}]}]}}
    table.wrote(
        T[1],
        C[2],
        stat(B, base(B, T[1])),
        action="replacecommit",
        plan=inputs,
        partitionToReplaceFileIds={"": [A]},
    )
    finding = place.the(Kind.LOST_UPDATE)
    assert finding.names == (base(A, T[2]),)
    assert finding.moments == (T[2], T[1])


def test_an_update_of_a_file_group_that_was_overwritten_before_is_lost(place: Place, table: Hudi) -> None:
    table.wrote(
        T[1], C[1], stat(B, base(B, T[1])), action="replacecommit", partitionToReplaceFileIds={"": [A]}
    )
    table.wrote(T[2], C[2], stat(A, base(A, T[2]), T[0]))
    assert place.the(Kind.LOST_UPDATE).moments == (T[2], T[1])


def test_a_file_group_that_two_have_replaced_is_there_twice(place: Place, table: Hudi) -> None:
    for n, by in ((1, B), (2, "c")):
        table.wrote(
            T[n], C[n], stat(by, base(by, T[n])), action="replacecommit", partitionToReplaceFileIds={"": [A]}
        )
    finding = place.the(Kind.LOST_UPDATE)
    assert finding.names == (base(B, T[1]), base("c", T[2]))
    assert finding.moments == (T[1], T[2])
    assert f"have both replaced file group {A}" in finding.detail


def test_what_two_have_deleted_is_gone(place: Place, table: Hudi) -> None:
    for n in (1, 2):
        table.wrote(T[n], C[n], action="replacecommit", partitionToReplaceFileIds={"": [A]})
    assert Kind.LOST_UPDATE not in place.kinds()


def test_a_file_group_may_be_replaced_again_when_that_was_taken_back(place: Place, table: Hudi) -> None:
    for n, by in ((1, B), (3, "c")):
        table.wrote(
            T[n], C[n], stat(by, base(by, T[n])), action="replacecommit", partitionToReplaceFileIds={"": [A]}
        )
    table.rolled_back(T[2], C[2], T[1], base(B, T[1]))
    assert Kind.LOST_UPDATE not in place.kinds()


def test_an_update_of_a_file_group_that_is_overwritten_later_is_meant_to_go(
    place: Place, table: Hudi
) -> None:
    table.wrote(T[2], C[1], stat(A, base(A, T[2]), T[0]))
    table.wrote(
        T[1], C[2], stat(B, base(B, T[1])), action="replacecommit", partitionToReplaceFileIds={"": [A]}
    )
    assert place.findings() == []


# Non-blocking writers


@pytest.mark.parametrize(("is_pending", "severity"), [(False, Severity.DAMAGE), (True, Severity.NOTICE)])
def test_a_log_file_of_nobodys_commit_hides_what_was_committed_behind_it(
    place: Place, table: Hudi, is_pending: bool, severity: Severity
) -> None:
    if is_pending:
        table.put(f"{T[1]}.deltacommit.requested")
        table.put(f"{T[1]}.deltacommit.inflight")
    table.write(log(B, T[1]))
    for n in (2, 3):
        table.wrote(T[n], C[n], stat(B, log(B, T[n])), action="deltacommit")
    (finding,) = (each for each in place.findings() if each.kind is Kind.HIDDEN_ROWS)
    assert finding.names == (f"{place.root}/{log(B, T[1])}",)
    assert finding.severity is severity
    assert f"what instants {T[2]}, {T[3]} have committed to it is not read" in finding.detail


def test_a_file_group_with_a_base_file_hides_nothing(place: Place, table: Hudi) -> None:
    table.write(log(A, T[1]))
    table.wrote(T[2], C[2], stat(A, log(A, T[2])), action="deltacommit")
    assert Kind.HIDDEN_ROWS not in place.kinds()


def test_a_file_group_that_begins_with_a_commit_hides_nothing(place: Place, table: Hudi) -> None:
    table.wrote(T[2], C[2], stat(B, log(B, T[2])), action="deltacommit")
    table.write(log(B, T[3]))
    assert Kind.HIDDEN_ROWS not in place.kinds()
