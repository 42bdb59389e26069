"""Each metric is what was really sent, by the names that the documentation gives."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent import NameTaken, OutcomeUnknown
from putifabsent.backends.base import Maybe
from putifabsent.backends.probe import BESIDE, NEEDED
from putifabsent.fsspec_plugin.telemetry import Counts, Instruments
from putifabsent.shim import ballot_state, drive
from tests.fsspec_plugin.telling import BODY, COLOURS, EACH, kind_of, told_by
from tests.stub import Fault, Op

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.fsspec_plugin.grounds import Ground
    from tests.stub import FaultStub

    Create = Callable[[Any, str], Any]
    Point = tuple[Mapping[str, Any], Any]

# pypaimon's environment has no OpenTelemetry.
pytestmark = pytest.mark.clouds

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "observing.md"


class Measured:
    """What was measured since it was last asked."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def metrics(self) -> list[Any]:
        data = self._reader.get_metrics_data()
        scopes = [scope for each in (data.resource_metrics if data else ()) for scope in each.scope_metrics]
        return [metric for scope in scopes if scope.scope.name == "putifabsent" for metric in scope.metrics]

    def points(self) -> dict[str, list[Point]]:
        return {
            metric.name.removeprefix("putifabsent."): [
                ({key.rpartition(".")[2]: value for key, value in point.attributes.items()}, point)
                for point in metric.data.data_points
            ]
            for metric in self.metrics()
        }

    def sums(self, counter: str, by: str = "arbiter") -> dict[str, int]:
        return {attributes[by]: point.value for attributes, point in self.points().get(counter, ())}


@pytest.fixture(scope="session")
def provided() -> Measured:
    """Give what a process that uses OpenTelemetry has; it can be set once a process."""
    from opentelemetry.metrics import set_meter_provider
    from opentelemetry.sdk.metrics import Counter as Sum
    from opentelemetry.sdk.metrics import Histogram, MeterProvider
    from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader

    since = AggregationTemporality.DELTA
    reader = InMemoryMetricReader(preferred_temporality={Sum: since, Histogram: since})
    set_meter_provider(MeterProvider(metric_readers=[reader], shutdown_on_exit=False))
    return Measured(reader)


@pytest.fixture
def measured(provided: Measured, monkeypatch: pytest.MonkeyPatch) -> Measured:
    monkeypatch.setattr(drive, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(drive, "LONGEST_PAUSE", 0.001)
    return provided


@EACH
@COLOURS
def test_requests_are_those_that_were_sent(measured: Measured, ground: Ground, create: Create) -> None:
    fs, told = told_by(ground)
    measured.metrics()
    create(fs, ground.log(1))
    with pytest.raises(NameTaken):
        create(fs, ground.log(1))
    found = measured.points()["requests"]
    assert {attributes["kind"]: point.value for attributes, point in found} == Counter(told)
    assert {attributes["arbiter"] for attributes, _ in found} == {kind_of(ground)}


@EACH
def test_reads_and_removals_are_requests_too(measured: Measured, ground: Ground) -> None:
    fs, told = told_by(ground)
    measured.metrics()
    fs.exists(ground.log(0))
    fs.rm_file(ground.log(0))
    assert measured.sums("requests", by="kind") == Counter(told)


@pytest.mark.parametrize(
    ("arbiter_", "methods"), [("native", {"create"}), ("ballot", {"put", "list", "head", "publish"})]
)
def test_on_the_wire_there_is_a_request_for_each(
    measured: Measured, stub: FaultStub, on_stub: Any, arbiter_: str, methods: set[str]
) -> None:
    fs = on_stub(arbiter=arbiter_, skip_instance_cache=True)
    fs.mount.relied["bucket"] = {*NEEDED, *BESIDE}
    fs.pipe_file("bucket/t/_delta_log/00000000000000000000.json", BODY)
    measured.metrics()
    before = len(stub.requests)
    fs.pipe_file("bucket/t/_delta_log/lock", BODY, mode="create")
    found = measured.sums("requests", by="kind")
    assert sum(found.values()) == len(stub.requests) - before
    assert found.keys() == methods


@EACH
@COLOURS
def test_creations_are_counted_by_what_came_of_them(
    measured: Measured, ground: Ground, create: Create
) -> None:
    fs, _ = told_by(ground)
    measured.metrics()
    create(fs, ground.log(1))
    create(fs, ground.log(2))
    with pytest.raises(NameTaken):
        create(fs, ground.log(1))
    points = measured.points()
    assert [attributes["arbiter"] for attributes, _ in points["creations"]] == [kind_of(ground)] * 2
    assert {attributes["outcome"]: point.value for attributes, point in points["creations"]} == {
        "won": 2,
        "taken": 1,
    }
    assert {
        attributes["outcome"]: (point.count, point.sum > 0)
        for attributes, point in points["creation.duration"]
    } == {"won": (2, True), "taken": (1, True)}


@COLOURS
def test_what_is_unknown_and_what_fails_are_counted_apart(
    measured: Measured, memory: Ground, local: Ground, create: Create
) -> None:
    async def later(*_: Any) -> Maybe:
        return Maybe(ConnectionError("no answer"))

    mute = {"create": lambda *_: Maybe(ConnectionError("no answer")), "create_async": later}
    fs, _ = told_by(memory, instead=mute, deadline=0.05)
    local.fs.mkdir(local.log(0))
    measured.metrics()
    with pytest.raises(OutcomeUnknown):
        create(fs, memory.log(1))
    with pytest.raises(IsADirectoryError):
        create(local.fs, local.log(0))
    assert measured.sums("creations", by="outcome") == {"unknown": 1, "error": 1}


def test_each_time_it_backs_off_is_a_pause(measured: Measured, stub: FaultStub, on_stub: Any) -> None:
    fs = on_stub(skip_instance_cache=True)
    fs.pipe_file("bucket/t/_delta_log/first", BODY, mode="create")  # its mounts have agreed
    stub.script(Op.PUT, Fault.ERROR_503_BEFORE, Fault.DROP_BEFORE_APPLY)
    measured.metrics()
    fs.pipe_file("bucket/t/_delta_log/lock", BODY, mode="create")
    points = measured.points()
    assert [(attributes, point.value) for attributes, point in points["pauses"]] == [
        ({"arbiter": "native"}, 2)
    ]
    assert [point.value for _, point in points["rounds"]] == [1]
    assert [(attributes["kind"], point.value) for attributes, point in points["requests"]] == [("create", 3)]


def disturbed(ground: Ground) -> None:
    """Leave a higher ballot than the one that was decided, and hide the name: nothing proves the decision."""
    hidden(ground)
    (folder,) = {
        name.rpartition("/")[0] for name in ground.around.find(ground.folder) if ballot_state.parsed(name)
    }
    ground.write(f"{folder}/{ballot_state.written(ballot_state.Prepare(1, 1, 'rival.0'))}", b"")


def hidden(ground: Ground) -> None:
    """Leave a name that nothing shows: its writer died before it was published."""
    ground.around.rm_file(ground.log(0))


@pytest.mark.parametrize(
    ("ground", "leave", "rounds"),
    [("memory-ballot", disturbed, {"ballot": 1}), ("memory-claims", hidden, {})],
    indirect=["ground"],
)
def test_a_reader_that_finishes_another_s_creation_helps(
    measured: Measured, ground: Ground, leave: Callable[[Ground], None], rounds: dict[str, int]
) -> None:
    fs, _ = told_by(ground)
    measured.metrics()
    fs.exists(ground.log(0))
    assert "helps" not in measured.points()
    leave(ground)
    fs.exists(ground.log(0))
    points = measured.points()
    assert [(attributes, point.value) for attributes, point in points["helps"]] == [
        ({"arbiter": kind_of(ground)}, 1)
    ]
    assert {attributes["arbiter"]: point.value for attributes, point in points.get("rounds", ())} == rounds


def test_a_creation_is_measured_in_fine_steps_of_seconds(measured: Measured, memory: Ground) -> None:
    measured.metrics()
    memory.fs.pipe_file(memory.log(0), BODY)
    (found,) = [metric for metric in measured.metrics() if metric.name.endswith("duration")]
    assert found.unit == "s"
    (point,) = found.data.data_points
    assert point.explicit_bounds[0] <= 0.001
    assert point.explicit_bounds[-1] >= 30


def test_the_documentation_names_what_is_measured() -> None:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    instruments = Instruments(provider)
    instruments.add("ballot", Counts({"put": 1}, pauses=1, rounds=1, helps=1), "won", 1.0)
    instruments.wait("ballot", 1.0)
    rows = re.findall(r"^\| `([\w.]+)` \| \w+ \| `([^`]+)` \| (.+?) \|", PAGE.read_text(), re.MULTILINE)
    documented = {name: (unit, set(re.findall(r"`([\w.]+)`", attributes))) for name, unit, attributes in rows}
    assert documented == {
        metric.name: (metric.unit, set(metric.data.data_points[0].attributes))
        for metric in Measured(reader).metrics()
    }


AT_ANY_TIME = """
import sys
import fsspec
fs = fsspec.filesystem("piamemory", arbiter="native")
fs.pipe_file("/t/_delta_log/00000000000000000000.json", b"")
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
from opentelemetry import metrics
fs.pipe_file("/t/_delta_log/00000000000000000001.json", b"")
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider(metric_readers=[reader]))
fs.pipe_file("/t/_delta_log/00000000000000000002.json", b"")
found = {each.name: each for each in reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics}
print([point.value for point in found["putifabsent.creations"].data.data_points])
"""


def test_a_provider_counts_from_when_it_is_set_and_until_then_nothing_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_ANY_TIME],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.split() == ["[1]"]
