"""``putifabsent init`` makes what an arbiter needs, once, and says what it did."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from putifabsent.cli.app import app
from tests.backends.dynamodb_servers import REGION, new_table
from tests.fault_proxy import FaultProxy
from tests.servers import Valkey
from tests.stub.dynamodb_faults import Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer.testing import Result

    from tests.servers import Moto


@pytest.fixture
def proxy(moto: Moto) -> Iterator[FaultProxy]:
    with FaultProxy(moto.endpoint, speech="dynamodb") as running:
        yield running


@pytest.fixture
def url(proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "lab")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    monkeypatch.delenv("PUTIFABSENT_ARBITER", raising=False)
    return f"dynamodb://{new_table()}?region={REGION}&endpoint_url={proxy.endpoint}"


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["init", *arguments])


def _said(result: Result) -> Any:
    return json.loads(result.stdout)


def test_it_makes_a_table_once_and_says_so(proxy: FaultProxy, url: str) -> None:
    first = _run(url)
    assert first.exit_code == 0, first.stderr
    assert first.stdout.startswith(f"made {url}\n")
    again = _run(url)
    assert again.exit_code == 0
    assert again.stdout.startswith("there already")
    assert first.stdout.splitlines()[1] == again.stdout.splitlines()[1]


def test_a_program_reads_what_it_did(url: str) -> None:
    first, again = _said(_run(url, "--json")), _said(_run(url, "--json"))
    assert first["outcome"] == "made"
    assert first["registry"] == url
    assert again == {**first, "outcome": "there"}


def test_the_url_may_come_from_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = _run()
    assert nowhere.exit_code == 2
    assert "PUTIFABSENT_ARBITER" in nowhere.stderr
    monkeypatch.setenv("PUTIFABSENT_ARBITER", url)
    assert _run().stdout.startswith(f"made {url}\n")


def test_a_lack_of_rights_is_a_failure_and_says_which(proxy: FaultProxy, url: str) -> None:
    proxy.script("CreateTable", Trouble.DENIED)
    result = _run(url, "--json")
    assert result.exit_code == 4
    assert _said(result)["outcome"] == "failed"
    assert "AccessDeniedException" in result.stderr
    assert "very-secret" not in result.stderr + result.stdout


@pytest.mark.parametrize("wrong", ["rediz://host", "dynamodb://table?regoin=x", "redis://:very-secret@a:b"])
def test_a_wrong_url_is_a_matter_of_usage(wrong: str) -> None:
    result = _run(wrong, "--json")
    assert result.exit_code == 2
    assert _said(result)["outcome"] == "usage"
    assert "very-secret" not in result.stderr + result.stdout


def test_of_redis_it_makes_nothing_and_asks_for_a_lock() -> None:
    with Valkey("--requirepass", "very-secret") as valkey:
        result = _run(f"redis://:very-secret@{valkey.address}/0", "--json")
        refused = _run(f"redis://:wrong-secret@{valkey.address}/0", "--json")
    assert result.exit_code == 0, result.stderr
    assert _said(result) == {
        "outcome": "nothing to make",
        "registry": f"{valkey.endpoint}/0",
        "identity": f"{valkey.endpoint}/0",
    }
    assert refused.exit_code == 4
    assert "secret" not in result.stdout + result.stderr + refused.stdout + refused.stderr
