"""Hudi's calls and the ledger, row by row: what each appends, what it asks for, what it must not do."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from putifabsent.backends.base import Created
from putifabsent.errors import Fenced, NameTaken, OutcomeUnknown
from putifabsent.shim.formats.hudi_ledger import rule_for
from putifabsent.shim.ledger import completion
from putifabsent.shim.ledger.facts import EVERY, KEPT
from putifabsent.shim.ledger.records import Free, Open
from tests.shim.ledger_runs import APPLIED, Run, asker, completed_name, creation, inflight, kinds, requested
from tests.shim.ledger_tables import ROOT, TIMELINE, completed, slice_of

ONE = Open("1", "A", "o1", "commit")
FIRST = completed("1", "first")(session="A")
NEXT = (Open("2", "A", "o2"), completed("2", "second")(session="A"))
DONE = "done"


def log_of(instant: str) -> str:
    return f"b/t/.f-0_{instant}.log.1_1-0-1"


# --- create requested -------------------------------------------------------------------------------------


def test_a_requested_instant_is_opened_then_put() -> None:
    run = Run(ONE)
    ledger = run.session("B")
    assert run.creates(ledger, requested("2"), "t") == Created("t")
    assert run.asked == ["create 2", "list ledger", "create timeline/2.commit.requested"]
    assert run.session("X").state.open["2"].action == "commit"
    assert ledger.opened == {"2"}


@pytest.mark.parametrize("before", [(ONE,), (ONE, FIRST)], ids=["open", "completed"])
def test_an_instant_that_another_has_is_taken_whatever_its_action(before: tuple[Any, ...]) -> None:
    run = Run(*before)
    with pytest.raises(NameTaken) as caught:
        run.creates(run.session("B"), requested("1", "clean"), "t")
    assert caught.value.holder is not None
    assert caught.value.holder.token in ("o1", "first")
    assert len(kinds(run)) == len(before)


def test_a_requested_name_that_is_older_than_the_ledger_is_taken_and_what_was_opened_is_freed() -> None:
    run = Run()
    run.put(requested("1"))
    with pytest.raises(NameTaken):
        run.creates(run.session("B"), requested("1"), "t")
    assert kinds(run) == ["OPEN", "FREE"]


def test_a_requested_name_whose_outcome_is_unknown_stays_open() -> None:
    run = Run(ONE)
    run.fails("create timeline/2.commit.requested", APPLIED)
    run.patience = 0
    ledger = run.session("B")
    with pytest.raises(OutcomeUnknown):
        run.creates(ledger, requested("2"), "t")
    assert "2" in run.session("X").state.open
    run.patience = 3
    assert run.creates(ledger, requested("2"), "t") == Created("t")
    assert kinds(run) == ["OPEN", "OPEN"]


def test_who_asks_again_after_a_rollback_is_fenced() -> None:
    run = Run()
    ledger = run.session("A")
    run.creates(ledger, requested("1"), "t")
    run.deletes(run.session("B"), inflight("1"))
    run.play(ledger.current(creation("r")))
    with pytest.raises(Fenced, match="taken back by another"):
        run.creates(ledger, requested("1"), "t")


# --- create a rollback's requested ------------------------------------------------------------------------


def test_a_rollback_of_an_open_instant_frees_it_in_the_same_record() -> None:
    run = Run(ONE)
    run.creates(run.session("R"), requested("9", "rollback"), "r", frees="1")
    assert kinds(run) == ["OPEN", "OPEN"]
    assert set(run.session("X").state.open) == {"9"}
    with pytest.raises(Fenced, match="was rolled back"):
        run.creates(run.session("A"), completed_name("1"), "late")


def test_a_rollback_of_a_completed_instant_undoes_nothing_yet() -> None:
    run = Run(ONE, FIRST)
    run.creates(run.session("R"), requested("9", "rollback"), "r", frees="1")
    assert run.session("X").state.completed("1") is not None


def test_what_is_rolled_back_though_completed_is_made_to_look_pending_and_undone_then() -> None:
    run = Run(ONE, FIRST)
    rolling = run.session("R")
    run.creates(rolling, requested("9", "rollback"), "r", frees="1")
    # Of a clustering, the name that it was requested by is another.
    run.creates(rolling, requested("1", "replacecommit"), "looks requested")
    run.creates(rolling, inflight("1"), "looks pending")
    assert run.session("X").state.completed("1") is not None
    run.deletes(rolling, completed_name("1"), "d")
    assert kinds(run)[-2:] == ["OPEN", "UNDO"]
    assert run.session("X").state.completed("1") is None


# --- create inflight --------------------------------------------------------------------------------------


def test_its_owner_s_inflight_is_put_and_the_ledger_is_not_asked() -> None:
    run = Run(ONE)
    run.creates(run.session("A"), inflight("1"), "t")
    assert run.asked == ["create timeline/1.inflight"]


def test_another_s_inflight_takes_it_over() -> None:
    run = Run(ONE)
    owner, taker = run.session("A"), run.session("B")
    run.creates(taker, inflight("1"), "t")
    assert run.asked == ["create 2", "list ledger", "create timeline/1.inflight"]
    assert kinds(run) == ["OPEN", "TAKE"]
    with pytest.raises(Fenced):
        run.creates(owner, completed_name("1"), "late")
    with pytest.raises(Fenced, match="was taken from this session"):
        run.creates(run.session("A"), inflight("1"), "back")


def test_who_had_what_was_rolled_back_may_begin_it_anew_and_not_go_on_with_it() -> None:
    run = Run(ONE)
    first, next_ = run.session("A"), run.session("B")
    run.deletes(run.session("R"), inflight("1"))
    run.creates(next_, inflight("1"), "t")
    with pytest.raises(Fenced, match="belongs to session B"):
        run.creates(first, completed_name("1"), "late")
    with pytest.raises(Fenced, match="was rolled back since, and begun anew by session B"):
        run.creates(first, completed_name("1"), "later")
    # B died before it had put it.
    run.state = frozenset(each for each in run.state if "inflight" not in each[0])
    run.creates(first, inflight("1"), "anew")
    assert kinds(run) == ["OPEN", "FREE", "OPEN", "FREE", "OPEN"]
    run.creates(first, completed_name("1"), "done")
    with pytest.raises(Fenced):
        run.creates(next_, completed_name("1"), "too late")


def test_the_inflight_of_a_freed_instant_opens_it_again() -> None:
    run = Run(ONE)
    run.deletes(run.session("B"), inflight("1"))
    run.creates(run.session("B"), inflight("1"), "t")
    assert kinds(run) == ["OPEN", "FREE", "OPEN"]


@pytest.mark.parametrize("action", ["compaction", "logcompaction", "clustering", "indexing", "replacecommit"])
def test_a_plan_that_failed_is_carried_out_however_many_commits_have_failed_since(action: str) -> None:
    failed = [
        record
        for instant in range(1000, 1000 + KEPT + EVERY)
        for record in (
            Open(f"{instant}", "A", f"o{instant}", "commit"),
            Free(f"{instant}", "A", f"f{instant}"),
        )
    ]
    run = Run(Open("1", "A", "o1", action), Free("1", "A", "f1"), *failed)
    ledger = run.session("B")
    run.creates(ledger, f"{TIMELINE}/1.{action}.inflight", "t")
    with pytest.raises(Fenced, match="belongs to session B"):
        run.creates(run.session("C"), slice_of("1"), "another's")
    run.creates(ledger, completed_name("1"), "done")


def test_nothing_is_opened_while_it_is_rolled_back() -> None:
    run = Run(ONE)
    run.creates(run.session("R"), requested("9", "rollback"), "r", frees="1")
    with pytest.raises(Fenced, match="is being rolled back"):
        run.creates(run.session("B"), inflight("1"), "t")
    run.creates(run.session("R"), completed_name("9"), "done")
    run.creates(run.session("B"), inflight("1"), "t2")
    assert run.session("X").state.open["1"].session == "B"


def test_who_removes_a_rollback_that_all_have_left_may_begin_anew_what_it_rolled_back() -> None:
    # Two have rolled back one compaction: one is done, and nobody goes on with the other.
    run = Run(ONE)
    run.creates(run.session("R"), requested("8", "rollback"), "r8", frees="1")
    run.creates(run.session("S"), requested("9", "rollback"), "r9", frees="1")
    run.creates(run.session("R"), completed_name("8"), "done")
    with pytest.raises(Fenced, match="is being rolled back"):
        run.creates(run.session("B"), inflight("1"), "t")
    run.deletes(run.session("B"), requested("9", "rollback"))
    run.creates(run.session("B"), inflight("1"), "t2")
    assert run.session("X").state.open["1"].session == "B"


def test_the_inflight_of_a_completed_instant_is_fenced() -> None:
    run = Run(ONE, FIRST)
    with pytest.raises(Fenced, match="1 is completed"):
        run.creates(run.session("B"), inflight("1"), "t")


def test_the_inflight_of_an_instant_older_than_the_shim_is_put() -> None:
    run = Run(ONE)
    run.creates(run.session("B"), inflight("0"), "t")
    assert run.asked == ["list ledger", "create timeline/0.inflight"]


# --- create completed -------------------------------------------------------------------------------------


def test_a_whole_commit_in_a_turn_is_thirteen_requests() -> None:
    run = Run(ONE)
    ledger = run.session("B")
    asked = 0
    run.creates(ledger, requested("2"), "t1")
    asked += len(run.asked)
    run.creates(ledger, inflight("2"), "t2")
    asked += len(run.asked)
    held = run.takes(ledger, "t3")
    assert held is not None
    asked += len(run.asked)
    run.creates(ledger, completed_name("2"), "t4", turn=held)
    asked += len(run.asked)
    run.releases(ledger, held)
    asked += len(run.asked)
    assert asked == 13
    assert kinds(run) == ["OPEN", "OPEN", "TURN", "COMPLETE", "RELEASE"]
    assert run.things()[".hoodie/timeline/2_29.commit"].data == b"t4"


def test_another_process_may_complete_what_a_dead_one_has_left() -> None:
    run = Run(Open("9", "R", "r", "rollback"))
    run.creates(run.session("B"), completed_name("9"), "t")
    assert kinds(run) == ["OPEN", "COMPLETE"]


@pytest.mark.parametrize("holder", ["A", "C"], ids=["the owner", "a third"])
def test_who_would_be_refused_takes_nothing_over(holder: str) -> None:
    run = Run(ONE)
    owner = run.session("A")
    held = run.takes(owner if holder == "A" else run.session(holder), "turn")
    assert held is not None
    with pytest.raises(Fenced, match="it names turn None"):
        run.creates(run.session("B"), completed_name("1"), "t")
    assert kinds(run) == ["OPEN", "TURN"]
    if holder == "A":
        run.creates(owner, completed_name("1"), "mine", turn=held)
    assert ("COMPLETE" in kinds(run)) == (holder == "A")


def test_the_completed_name_of_an_instant_older_than_the_shim_is_created_by_name() -> None:
    run = Run(ONE)
    run.creates(run.session("B"), completed_name("0"), "t")
    assert run.asked == ["list ledger", "create timeline/0_09.commit"]


def test_an_instant_of_one_s_own_is_never_older_than_the_shim() -> None:
    run = Run(every=4)
    ledger = run.session("A")
    run.creates(ledger, requested("1"), "t")
    # So long ago that no record and no checkpoint speaks of it any more.
    ledger.state = type(ledger.state)(every=64)
    run.state = frozenset(each for each in run.state if "/ledger/" not in each[0])
    ledger.listed = 0
    with pytest.raises(Fenced, match="was rolled back"):
        run.creates(ledger, completed_name("1"), "late")


def test_one_that_was_the_ledger_s_and_is_forgotten_is_not_taken_for_older() -> None:
    run = Run(ONE)
    ledger = run.session("A")
    # A restarted service has forgotten what the session had opened.
    ledger.state = type(ledger.state)(number=64, first="1", horizon="5")
    ledger.listed = 64
    run.put(ledger.record(64).path)
    with pytest.raises(Fenced, match="older than all that the ledger remembers"):
        run.creates(ledger, completed_name("1"), "late")
    run.creates(ledger, completed_name("0"), "older")


# --- deletions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [requested("1"), inflight("1")], ids=["requested", "inflight"])
@pytest.mark.parametrize("session", ["A", "B"], ids=["its owner", "another"])
def test_whoever_removes_a_name_of_an_open_instant_frees_it_first(path: str, session: str) -> None:
    run = Run(ONE)
    run.put(path)
    run.deletes(run.session(session), path)
    assert run.asked == ["create 2", "list ledger", "list ledger", f"delete {path.removeprefix(ROOT)[1:]}"]
    assert kinds(run) == ["OPEN", "FREE"]


def test_the_archiver_removes_the_names_of_a_completed_instant() -> None:
    run = Run(ONE, FIRST, *NEXT)
    run.put(inflight("1"))
    ledger = run.session("Z")
    run.deletes(ledger, inflight("1"))
    assert run.asked == ["list ledger", "delete timeline/1.inflight"]
    run.deletes(ledger, completed_name("1"))
    assert run.asked == [
        "list ledger",
        "delete bodies/1~first.0",
        "head timeline/1_19.commit",
        "delete timeline/1_19.commit",
    ]
    assert len(kinds(run)) == 4


def test_the_last_completion_is_undone_before_it_is_removed_for_it_may_be_unpublished() -> None:
    run = Run(ONE, FIRST)
    run.deletes(run.session("Z"), completed_name("1"))
    assert kinds(run) == ["OPEN", "COMPLETE", "UNDO"]


def test_a_rollback_undoes_a_completion_before_it_removes_it() -> None:
    run = Run(ONE, FIRST, *NEXT)
    run.creates(run.session("R"), requested("9", "rollback"), "r", frees="1")
    with pytest.raises(Fenced, match="another session's rollback"):
        run.deletes(run.session("Z"), completed_name("1"), "z")
    run.deletes(run.session("R"), completed_name("1"), "d")
    assert kinds(run)[-1] == "UNDO"
    assert run.asked[-3:] == [
        "delete bodies/1~first.0",
        "head timeline/1_19.commit",
        "delete timeline/1_19.commit",
    ]
    run.deletes(run.session("Z"), completed_name("1"), "again")
    assert kinds(run).count("UNDO") == 1


def test_a_completed_name_that_is_forgotten_goes_with_the_body_it_is_a_copy_of() -> None:
    run = Run(ONE, FIRST)
    ledger = run.session("Z")
    ledger.state = type(ledger.state)(number=64, horizon="5")
    ledger.listed = 64
    run.state = frozenset(each for each in run.state if "/ledger/" not in each[0])
    run.put(ledger.record(64).path)
    for body in ("1~first.7", "first.0", "1~another.0"):
        run.put(f"{ledger.bodies}/{body}")
    run.deletes(ledger, completed_name("1"))
    assert ".hoodie/timeline/1_19.commit" not in run.things()
    assert [name for name in run.things() if "/bodies/" in name] == [
        ".hoodie/.putifabsent/bodies/1~another.0"
    ]


@pytest.mark.parametrize("path", [requested("0"), inflight("0"), completed_name("0")])
def test_names_older_than_the_shim_are_removed_by_name(path: str) -> None:
    run = Run(ONE)
    run.put(path)
    run.deletes(run.session("B"), path)
    assert run.asked == ["list ledger", f"delete {path.removeprefix(ROOT)[1:]}"]


# --- slices -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [slice_of("1"), log_of("1")], ids=["base", "log"])
def test_only_its_owner_writes_slices_of_an_instant(path: str) -> None:
    run = Run(ONE)
    run.creates(run.session("A"), path, "t")
    assert run.asked == [f"create {path.removeprefix('b/t/')}"]
    with pytest.raises(Fenced, match="belongs to session A"):
        run.creates(run.session("B"), path, "t2")


@pytest.mark.parametrize("ends", [inflight("1"), None], ids=["rolled back", "completed"])
def test_a_zombie_writes_no_slice(ends: str | None) -> None:
    run = Run(ONE)
    if ends is None:
        run.completes(run.session("A"), "1", "c")
    else:
        run.deletes(run.session("B"), ends)
    with pytest.raises(Fenced, match="is completed, or was rolled back"):
        run.creates(run.session("A"), slice_of("1"), "t")


def test_slices_older_than_the_shim_are_written() -> None:
    run = Run(ONE)
    run.creates(run.session("B"), slice_of("0"), "t")
    assert run.asked == ["list ledger", "create f-0_1-0-1_0.parquet"]


def test_an_owner_that_reconciles_removes_its_slices() -> None:
    run = Run(ONE)
    run.deletes(run.session("A"), slice_of("1"))
    assert run.asked == ["list ledger", "delete f-0_1-0-1_1.parquet"]


def test_a_cleaner_removes_slices_of_what_is_completed() -> None:
    run = Run(ONE, FIRST)
    run.deletes(run.session("C"), slice_of("1"))
    assert run.asked == ["list ledger", "delete f-0_1-0-1_1.parquet"]


def test_what_was_read_earlier_permits_no_deletion() -> None:
    # Two replicas of a service: this one has not heard that 1 is completed, nor of the rollback.
    run = Run(ONE)
    replica = run.session("R")
    run.completes(run.session("A"), "1", "done")
    run.creates(run.session("R"), requested("9", "rollback"), "r", frees="1")
    with pytest.raises(Fenced, match="no failed instant"):
        run.deletes(replica, slice_of("1"))
    assert not [each for each in run.asked if each.startswith("delete")]


def test_a_rollback_removes_slices_of_what_it_has_freed() -> None:
    run = Run(ONE)
    ledger = run.session("R")
    run.creates(ledger, requested("9", "rollback"), "r", frees="1")
    run.deletes(ledger, slice_of("1"))
    assert run.asked == ["list ledger", "delete f-0_1-0-1_1.parquet"]


@pytest.mark.parametrize("session", ["R", "Z"], ids=["its own", "one that goes on with it"])
def test_a_rollback_that_takes_a_completed_instant_for_a_pending_one_removes_nothing(session: str) -> None:
    run = Run(ONE, FIRST)
    run.put(slice_of("1"))
    run.creates(run.session("R"), requested("9", "rollback"), "r", frees="1")
    with pytest.raises(Fenced, match="is no failed instant"):
        run.deletes(run.session(session), slice_of("1"))
    run.deletes(run.session("R"), completed_name("1"), "knows")
    run.deletes(run.session(session), slice_of("1"))
    assert "f-0_1-0-1_1.parquet" not in run.things()


# --- what goes by name alone ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        f"{TIMELINE}/1.savepoint.inflight",
        f"{TIMELINE}/1_2.savepoint",
        f"{ROOT}/metadata/.hoodie/timeline/1.deltacommit.requested",
        f"{ROOT}/metadata/files/f-0_1-0-1_1.hfile",
        f"{ROOT}/hoodie.properties",
        f"{ROOT}/.temp/1/MARKERS0",
        f"{TIMELINE}/history/manifest_1",
        "b/t/part=1/readme.txt",
    ],
)
@pytest.mark.parametrize("deletes", [False, True])
def test_the_ledger_has_nothing_to_do_with_it(path: str, deletes: bool) -> None:
    ledger = Run(ONE).session("A")
    assert rule_for(asker(ledger, path, "t"), deletes=deletes) is None


def test_log_files_carry_another_s_instant_below_table_version_8() -> None:
    ledger = Run(ONE).session("B")
    rule = partial(rule_for, asker(ledger, log_of("1"), "t"), deletes=False)
    assert rule(version=6) is None
    assert rule(version=8) is not None


def test_instants_of_table_version_6_have_their_rules_too() -> None:
    run = Run(ONE)
    path = f"{ROOT}/1.commit"
    assert run.creates(run.session("A"), path, "t") == Created("t")
    assert run.session("X").state.named("1.commit") is not None
    run.deletes(run.session("A"), path)
    assert run.play(completion.resolve(run.session("X"), path, creation("t"))) is None
