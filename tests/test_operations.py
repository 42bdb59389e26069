"""What operators are given works: alert rules name what is measured, manifests are whole and keep secrets."""

from __future__ import annotations

import re
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from putifabsent import __version__
from putifabsent.errors import ConfigError
from putifabsent.fsspec_plugin.options import Options
from putifabsent.fsspec_plugin.telemetry import Instruments
from putifabsent.service.app import Tally
from putifabsent.service.settings import SECRET, Settings
from putifabsent.service.wire import CALLS, FAILURES
from tests.service.callers import answering

PAGES = Path(__file__).parents[1] / "docs" / "operations"
OUTCOMES = {"won", "taken", "unknown", "error"}
ARBITERS = {"native", "ballot", "redis", "dynamodb"}
PROMETHEUS_S_OWN = {"up"}

# --- Kubernetes

MANIFESTS: dict[str, dict[str, Any]] = {
    each["kind"]: each for each in yaml.safe_load_all((PAGES / "kubernetes.yaml").read_text())
}
POD = MANIFESTS["Deployment"]["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
TOLD = "a secret of more than sixteen characters"


def settings() -> Settings:
    return Settings.parse(MANIFESTS["Secret"]["stringData"]["service.json"], TOLD)


def test_there_is_one_manifest_of_each_kind() -> None:
    documents = list(yaml.safe_load_all((PAGES / "kubernetes.yaml").read_text()))
    kinds = {"Secret", "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"}
    assert MANIFESTS.keys() == kinds, "settings may hold credentials: no ConfigMap has them"
    assert len(documents) == len(kinds)
    assert {each["metadata"]["name"] for each in documents} == {"putifabsent"}


def test_two_pods_are_what_everything_selects() -> None:
    assert MANIFESTS["Deployment"]["spec"]["replicas"] >= 2
    labels = POD["metadata"]["labels"]
    selecting = (
        MANIFESTS["Deployment"]["spec"]["selector"]["matchLabels"],
        MANIFESTS["Service"]["spec"]["selector"],
        MANIFESTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        MANIFESTS["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        POD["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    )
    assert all(each == labels for each in selecting)


@pytest.mark.parametrize("probe", PROBES)
async def test_a_probe_s_path_answers_without_the_secret(probe: str, tmp_path: Path) -> None:
    asked = CONTAINER[probe]["httpGet"]
    assert asked["port"] in {port["name"] for port in CONTAINER["ports"]}
    async with (
        answering({"secret": TOLD, "mounts": [{"prefix": f"file:{tmp_path}"}]}) as url,
        aiohttp.ClientSession() as http,
        http.get(f"{url}{asked['path']}") as answer,
    ):
        assert answer.status == 200


def test_its_settings_are_some_and_want_a_secret() -> None:
    (port,) = CONTAINER["ports"]
    assert (settings().host, settings().port) == ("0.0.0.0", port["containerPort"])  # noqa: S104 - a pod's
    (of_service,) = MANIFESTS["Service"]["spec"]["ports"]
    assert (of_service["port"], of_service["targetPort"]) == (port["containerPort"], port["name"])
    as_it_is = MANIFESTS["Secret"]["stringData"]
    with pytest.raises(ConfigError, match="at least 16 characters"):
        Settings.parse(as_it_is["service.json"], as_it_is["secret"])


def test_credentials_come_from_the_secret_alone() -> None:
    there = MANIFESTS["Secret"]["stringData"].keys()
    (secret,) = [each for each in CONTAINER["env"] if each["name"] == SECRET]
    assert secret["valueFrom"]["secretKeyRef"]["name"] == MANIFESTS["Secret"]["metadata"]["name"]
    assert secret["valueFrom"]["secretKeyRef"]["key"] in there
    assert not [
        each
        for each in CONTAINER["env"]
        if "value" in each and re.search("(?i)secret|key|token", each["name"])
    ]
    volumes = {each["name"]: each for each in POD["spec"]["volumes"]}
    mounted = {each["name"]: each["mountPath"] for each in CONTAINER["volumeMounts"]}
    assert mounted.keys() == volumes.keys()
    (item,) = volumes["settings"]["secret"]["items"]
    assert item["key"] in there
    assert CONTAINER["args"] == ["serve", f"{mounted['settings']}/{item['path']}"]


def test_it_has_time_to_end_and_room_for_bodies() -> None:
    assert POD["spec"]["terminationGracePeriodSeconds"] > settings().drain_seconds + Options.deadline
    assert (
        int(CONTAINER["resources"]["requests"]["memory"].removesuffix("Mi")) * 2**20
        > 4 * settings().largest_body
    )
    assert CONTAINER["image"].endswith(f":{__version__}")


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
