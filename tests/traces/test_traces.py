"""What real writers call comes out through a guarded filesystem as it does without it."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent.errors import ConfigError, NameTaken, OutcomeUnknown
from putifabsent.fsspec_plugin import GuardedFileSystem
from putifabsent.fsspec_plugin.remote import Remote
from putifabsent.shim.policy import Policy
from tests.models.storage import own_memory
from tests.traces.replay import ROUND, Adapted, Stock, outcomes
from tests.traces.trace import TRACES, Call, Step, load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# What writers of each format create and never overwrite, but by the commands that are listed below.
EXCLUSIVE = {
    "delta": r".*/_delta_log/[0-9]{20}\.json",
    "hudi": r".*/\.hoodie/(timeline/)?("
    r"[^/]*\.requested|[0-9]+(_[0-9]+)?\.[a-z]+(?<!flight)|history/manifest_[0-9]+)",
    "iceberg": r".*/metadata/v[0-9]+(\.gz)?\.metadata\.json",
    "paimon": r".*/(snapshot/snapshot|schema/schema)-[0-9]+",
    "state": r".*/((offsets|commits)/[0-9]+|(_spark_metadata|sources/0)/[0-9]+(\.compact)?)",
}
# A table's first schema, in a folder that says nothing of Paimon: there is no evidence yet.
TOO_EARLY = {"somewhere/t/schema/schema-0"}
REWRITTEN = {
    "hudi_mor": {"unschedule a file group"},
    "paimon_python": {"fast_forward"},
    **{f"paimon_2_{where}": {"fast_forward"} for where in ("table_location", "hadoop_catalog", "own_path")},
}

# It goes from version 9 to 8, in the same layout.
IN_PLACE = [("hudi", "to table version 8")]


def exclusive(trace: str, name: str) -> bool:
    return re.fullmatch(EXCLUSIVE[trace.partition("_")[0]], name) is not None


def brought(call: Call) -> str:
    """The name that a call brings into being; empty: none."""
    return {"create": call.name, "rename": str(call.body)}.get(call.verb, "")


@pytest.fixture(params=["memory", "local disk"])
def grounds(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Stock, Adapted]:
    """Return the same place twice, without and with the shim."""
    if request.param == "memory":
        return Stock(own_memory(), "/lake"), Adapted(GuardedFileSystem(fs=own_memory()), "/lake")
    stock, guarded = (fsspec.filesystem(each, auto_mkdir=True) for each in ("file", "piafile"))
    return Stock(stock, f"{tmp_path}/stock"), Adapted(guarded, f"{tmp_path}/guarded")


@pytest.mark.parametrize("trace", TRACES)
def test_every_call_comes_out_as_it_does_without_the_shim(trace: str, grounds: tuple[Stock, Adapted]) -> None:
    stock, adapted = grounds
    calls = load(trace)
    without = outcomes(calls, stock)
    assert outcomes(calls, adapted) == without
    assert adapted.files() == stock.files()


@pytest.mark.parametrize("trace", TRACES)
def test_the_outcomes_are_those_that_the_writer_had(trace: str, grounds: tuple[Stock, Adapted]) -> None:
    calls = load(trace)
    made: list[str] = []
    outcomes(calls, grounds[0], lambda call, outcome: made.append(f"{call.verb} {call.name}: {outcome}"))
    recorded = [f"{each.verb} {each.name}: {each.outcome}" for each in calls if isinstance(each, Call)]

    def written(found: list[str]) -> list[str]:
        # Whether an empty folder was removed is a matter of the store.
        return [each for each in found if not each.startswith("delete ")]

    assert written(made) == written(recorded)


@pytest.mark.parametrize("trace", TRACES)
def test_every_exclusive_name_is_guarded_from_its_creation_on(trace: str) -> None:
    adapted = Adapted(GuardedFileSystem(fs=own_memory()), "/lake")
    seen = set()

    def held(call: Call, outcome: str) -> None:
        name = brought(call)
        if outcome == "done" and exclusive(trace, name) and name not in TOO_EARLY:
            with pytest.raises(NameTaken):
                Remote(adapted.fs).admit(adapted.at(name))
            seen.add(name)

    outcomes(load(trace), adapted, held)
    assert len(seen) > 3


@pytest.mark.parametrize("trace", TRACES)
def test_an_exclusive_name_is_overwritten_by_known_commands_alone(trace: str) -> None:
    there: set[str] = set()
    step, rewriting = "", set()
    for each in load(trace):
        if isinstance(each, Step):
            step = each.step
        elif each.verb == "delete" and each.outcome == "done":
            there = {name for name in there if name != each.name and not name.startswith(f"{each.name}/")}
        elif each.outcome == "done" and exclusive(trace, name := brought(each)):
            there.discard(each.name if each.verb == "rename" else "")
            if name in there:
                rewriting.add(step)
                assert each.flag, "nobody can tell that it is on purpose"
                assert Policy().classify(f"lake/{name}").replaced
            there.add(name)
    assert rewriting == REWRITTEN.get(trace, set())


UPGRADES = [
    (trace, at)
    for trace in TRACES
    for at, each in enumerate(load(trace))
    if isinstance(each, Step) and each.step.startswith(ROUND) and (trace, each.step) not in IN_PLACE
]


def calls_of(trace: str, at: int) -> Iterator[Call]:
    """Yield the calls of a command."""
    for each in load(trace)[at + 1 :]:
        if isinstance(each, Step):
            return
        yield each


@pytest.mark.parametrize(("trace", "at"), UPGRADES)
@pytest.mark.parametrize("alone", [False, True], ids=["", "without a metadata table"])
def test_through_a_mount_an_upgrade_ends_before_an_instant_is_moved(trace: str, at: int, alone: bool) -> None:
    adapted = Adapted(GuardedFileSystem(fs=own_memory()), "/lake")
    outcomes(load(trace)[:at], adapted)
    adapted.restart()
    there = adapted.files()

    def upgrade() -> None:
        for each in calls_of(trace, at):
            if not (alone and "/.hoodie/metadata/" in each.name):
                getattr(adapted, each.verb)(each)

    with pytest.raises(ConfigError, match="in a session that is not mounted"):
        upgrade()
    assert there.items() <= adapted.files().items()


@pytest.mark.parametrize(("trace", "step"), IN_PLACE)
def test_what_moves_nothing_is_upgraded_and_downgraded_through_a_mount(trace: str, step: str) -> None:
    stock, adapted = Stock(own_memory(), "/lake"), Adapted(GuardedFileSystem(fs=own_memory()), "/lake")
    at = load(trace).index(Step(step))
    for place in (stock, adapted):
        outcomes(load(trace)[:at], place)
        for each in calls_of(trace, at):
            getattr(place, each.verb)(each)
    assert adapted.files() == stock.files()


@pytest.mark.parametrize(
    ("broken", "trace"),
    [
        ({"unless": ()}, "paimon_2_table_location"),
        ({"unless": ()}, "paimon_2_hadoop_catalog"),
        ({"replaced": False}, "paimon_2_own_path"),
        ({"replaced": False}, "paimon"),
    ],
)
def test_a_trace_finds_out_a_policy_that_does_not_know_what_is_overwritten(
    broken: dict[str, Any], trace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    classify = Policy.classify
    monkeypatch.setattr(Policy, "classify", lambda policy, path: classify(policy, path)._replace(**broken))
    stock, adapted = Stock(own_memory(), "/lake"), Adapted(GuardedFileSystem(fs=own_memory()), "/lake")
    calls = load(trace)
    without = outcomes(calls, stock)
    with suppress(OutcomeUnknown):
        assert outcomes(calls, adapted) != without
