"""Tables that Hudi, Paimon and Delta have written: read as their own readers read them, action by action."""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.shim.formats.hudi import ACTIONS
from putifabsent.timeline import HudiTimeline, Instant, State, check_steps, read

if TYPE_CHECKING:
    from collections.abc import Iterable

# The machine that wrote them told its time so, and version 6 leaves it to the reader's zone.
pytestmark = pytest.mark.usefixtures("in_utc")

FIXTURES = Path(__file__).parent / "fixtures"
LEVELS = ["hudi_cow", "hudi_mor", "hudi_upgraded"]
# Hudi 0.15 has no such procedure.
SHOWN = [*LEVELS, "hudi_long", "hudi_v6"]
TABLES = [*SHOWN, "hudi_0_15"]

# Of these Hudi's completed name is another's.
RENAMED = {"clustering", "compaction", "logcompaction"}


def unpacked(name: str, folder: Path) -> str:
    with tarfile.open(FIXTURES / f"{name}.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return str(folder / name)


class Real:
    """A table, and what its format's own reader says of it."""

    def __init__(self, name: str, folder: Path) -> None:
        timeline = read(unpacked(name, folder))
        assert isinstance(timeline, HudiTimeline)
        self.timeline = timeline
        self.answer: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_text())


@pytest.fixture(params=TABLES)
def real(request: pytest.FixtureRequest, tmp_path: Path) -> Real:
    return Real(request.param, tmp_path)


def told(instants: Iterable[Instant]) -> list[list[str]]:
    return sorted([each.time, each.action, each.state.value, each.completion or ""] for each in instants)


def test_the_active_instants_are_hudi_s_own(real: Real) -> None:
    assert told(real.timeline.active()) == real.answer["active"]


def test_the_archived_instants_are_hudi_s_own(real: Real) -> None:
    found = [each for each in real.timeline.history() if each.state is State.COMPLETED]
    assert told(found) == [each for each in real.answer["archived"] if each[2] == "completed"]


@pytest.mark.parametrize("real", SHOWN, indirect=True)
def test_all_instants_are_those_of_show_timeline(real: Real) -> None:
    shown = {(each["instant_time"], each["action"], each["state"]) for each in real.answer["show_timeline"]}
    # Of version 6 the procedure shows an archived compaction a second time, beside the commit that it became.
    shown -= {(time, "compaction", "INFLIGHT") for time, action, _ in shown if action == "commit"}
    assert {(each.time, each.action, each.state.value.upper()) for each in real.timeline.records()} == shown


@pytest.mark.parametrize("procedure", ["show_commits", "show_archived_commits"])
def test_commits_are_those_of_hudi_s_procedures(real: Real, procedure: str) -> None:
    found = real.timeline.active() if procedure == "show_commits" else real.timeline.history()
    ours = {(each.time, each.completion) for each in found if each.state is State.COMPLETED}
    shown = {(each["commit_time"], each["state_transition_time"]) for each in real.answer[procedure]}
    assert shown
    assert ours >= shown


def test_everything_that_they_say_is_decoded(real: Real) -> None:
    metadata = [
        real.timeline.details(each).metadata
        for each in real.timeline.records()
        if each.state is State.COMPLETED
    ]
    assert metadata
    assert all(each is not None and each.value for each in metadata)


def test_their_steps_are_all_valid(real: Real) -> None:
    assert check_steps(real.timeline.records()) == []


@pytest.mark.parametrize("name", LEVELS)
def test_they_were_archived_past_several_compactions_of_the_history(tmp_path: Path, name: str) -> None:
    manifest = Real(name, tmp_path).timeline.manifest()
    assert manifest.number > 20
    assert max(file.level for file in manifest.files) == 2


def test_one_was_archived_so_by_the_thresholds_that_hudi_has_by_default(tmp_path: Path) -> None:
    timeline = Real("hudi_long", tmp_path).timeline
    assert sum(each.action in ("commit", "replacecommit") for each in timeline.history()) > 400
    levels = Counter(file.level for file in timeline.manifest().files)
    assert levels[0]
    assert levels[1] > 2


def test_every_action_is_in_one_of_them(tmp_path: Path) -> None:
    instants = [each for name in TABLES for each in Real(name, tmp_path / name).timeline.records()]
    assert {each.began or each.action for each in instants} == set(ACTIONS)
    assert {each.action for each in instants if each.state is State.COMPLETED} == set(ACTIONS) - RENAMED
    assert {each.action for each in instants if each.state is State.INFLIGHT} & {"commit", "deltacommit"}
    assert {each.action for each in instants if each.state is State.REQUESTED} >= {"clustering", "compaction"}


def test_a_plan_that_was_archived_says_what_a_commit_began_as(tmp_path: Path) -> None:
    timeline = Real("hudi_mor", tmp_path).timeline
    plans = {
        (each.action, plan.kind)
        for each in timeline.history(raw=True)
        if (plan := timeline.details(each).plan) is not None
    }
    assert {("commit", "HoodieCompactionPlan"), ("deltacommit", "HoodieCompactionPlan")} <= plans
    assert ("clean", "HoodieCleanerPlan") in plans


def test_a_history_out_of_memory_is_the_same(tmp_path: Path) -> None:
    import fsspec

    timeline = Real("hudi_cow", tmp_path).timeline
    memory = fsspec.filesystem("memory")
    memory.put(f"{timeline.root}/", "/hudi_cow/", recursive=True)
    try:
        assert told(read("memory://hudi_cow").records()) == told(timeline.records())
    finally:
        memory.rm("/hudi_cow", recursive=True)


def test_delta_s_commits_are_those_of_its_history(tmp_path: Path) -> None:
    commits = list(read(unpacked("delta", tmp_path)).records())
    told = {each["version"]: each for each in json.loads((FIXTURES / "delta.json").read_text())}
    shown = {number: (each["operation"], each["readVersion"]) for number, each in told.items()}
    assert {each.number: (each.action, each.read) for each in commits} == shown
    assert {each.action for each in commits} == {"WRITE", "DELETE", "UPDATE", "OPTIMIZE"}
    # Delta shows when the file was written, which is after the writer has said when that is.
    assert all(f"{each.ended_at:%Y-%m-%d %H:%M:%S.%f}" <= told[each.number]["timestamp"] for each in commits)


def test_paimon_s_snapshots_are_those_of_its_system_table(tmp_path: Path) -> None:
    timeline = read(unpacked("paimon", tmp_path))
    shown = {
        each["snapshot_id"]: (
            each["commit_kind"],
            each["commit_user"],
            each["commit_identifier"],
            each["schema_id"],
        )
        for each in json.loads((FIXTURES / "paimon.json").read_text())
    }
    ours = {each.number: (each.action, each.user, each.identifier, each.schema) for each in timeline.active()}
    assert ours == shown
    assert {kind for kind, *_ in ours.values()} >= {"APPEND", "OVERWRITE"}


def test_paimon_s_changelogs_outlive_their_snapshots(tmp_path: Path) -> None:
    found = [(each.number, each.archived) for each in read(unpacked("paimon", tmp_path)).records()]
    numbers = [number for number, _ in found]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert {archived for _, archived in found} == {True, False}
