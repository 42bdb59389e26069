"""What operators are given works: alert rules name what is measured, manifests are whole and keep secrets."""

from __future__ import annotations

import re
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from putifabsent.fsspec_plugin.telemetry import Instruments
from putifabsent.service.app import Tally
from putifabsent.service.calls import CALLS
from putifabsent.service.wire import FAILURES

PAGES = Path(__file__).parents[1] / "docs" / "operations"
OUTCOMES = {"won", "taken", "unknown", "error"}
ARBITERS = {"native", "ballot", "redis", "dynamodb"}
PROMETHEUS_S_OWN = {"up"}

# --- alerts

GROUPS = yaml.safe_load((PAGES / "alerts.yaml").read_text())["groups"]
RULES: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
NO_METRICS = {
    *("sum", "by", "rate", "increase", "or", "unless", "offset", "histogram_quantile", "min_over_time"),
    *("instance", "le", "putifabsent_arbiter"),
}


class Meter:
    """Takes down which instruments are made, as Prometheus will call them."""

    def __init__(self) -> None:
        self.metrics: set[str] = set()

    def get_meter(self, *_: str) -> Meter:
        return self

    def create_counter(self, name: str, unit: str, _: str) -> None:
        assert unit[0] == "{", "Prometheus leaves out a unit in braces, and appends others"
        self.metrics.add(f"{name.replace('.', '_')}_total")

    def create_histogram(self, name: str, unit: str, _: str, **__: object) -> None:
        assert unit == "s"
        self.metrics |= {f"{name.replace('.', '_')}_seconds_{part}" for part in ("bucket", "count", "sum")}


def measured() -> set[str]:
    meter, tally = Meter(), Tally()
    Instruments(meter)
    tally.add("create", HTTPStatus.OK, 1.0)
    tally.read("create", 1)
    said = re.findall(r"^(\w+)", re.sub(r"^#.*\n", "", tally.text(), flags=re.MULTILINE), re.MULTILINE)
    return meter.metrics | set(said) | PROMETHEUS_S_OWN


def labels_of(expression: str) -> list[tuple[str, str]]:
    """Return what an expression selects by, a label and a value each."""
    matchers = [each for inside in re.findall(r"\{(.*?)\}", expression) for each in inside.split(", ")]
    found = [re.fullmatch(r'(\w+)=~?"([^"]+)"', each) for each in matchers]
    return [(match[1], value) for match in found if match for value in match[2].split("|")]


def test_there_are_rules_for_both() -> None:
    assert [group["name"] for group in GROUPS] == ["putifabsent-service", "putifabsent-filesystem"]
    assert len({rule["alert"] for rule in RULES}) == len(RULES) > 10


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_every_metric_of_a_rule_is_measured(rule: dict[str, Any]) -> None:
    bare = re.sub(r"\{.*?\}|\[.*?\]|\b[0-9]\w*", " ", rule["expr"])
    metrics = set(re.findall(r"[a-z_]\w*", bare)) - NO_METRICS
    assert metrics
    assert metrics <= measured()


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_every_label_of_a_rule_can_be_met(rule: dict[str, Any]) -> None:
    known = {
        "call": {*CALLS},
        "job": {"putifabsent"},
        "status": {"503", *(str(failure.status) for failure in FAILURES)},
        "putifabsent_arbiter": ARBITERS,
        "putifabsent_creation_outcome": OUTCOMES,
    }
    for label, value in labels_of(rule["expr"]):
        assert value in known[label], label


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_every_rule_says_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["alert"].startswith("PutIfAbsent")
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"].keys() == {"summary", "do"}
    assert re.fullmatch(r"[A-Z].*\.", rule["annotations"]["do"])
    assert f"`{rule['alert']}`" in (PAGES / "observing.md").read_text()
