"""Errors over the wire: each has a word of its own, and none hides another."""

from __future__ import annotations

import builtins
from pathlib import Path

import pytest
from pydantic import ValidationError

from putifabsent import errors
from putifabsent.errors import Damaging, Holder, InvalidTransition, NameTaken, OutcomeUnknown
from putifabsent.service.wire import CALLS, FAILURES, failed

UUID = "0b1e6c5a-9d5f-4a57-8f11-6f6f0a3a9c11"
OURS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]


@pytest.mark.parametrize("number", range(len(FAILURES)))
def test_no_error_stands_after_its_parent(number: int) -> None:
    error = FAILURES[number].error
    assert not [each for each in FAILURES[:number] if issubclass(error, each.error)]


def test_each_word_is_of_one_error() -> None:
    assert len({each.kind for each in FAILURES}) == len(FAILURES)


@pytest.mark.parametrize("error", OURS, ids=lambda each: each.__name__)
def test_every_error_of_this_package_is_answered(error: type[Exception]) -> None:
    named = ("name", "why")
    arguments = {OutcomeUnknown: ("name", "token"), InvalidTransition: named, Damaging: named}
    status, answer = failed(error(*arguments.get(error, ("why",))))
    assert status >= 400
    assert answer["error"] not in ("internal", "store", "request")
    assert answer["message"]


def test_a_loss_says_who_won_and_an_unknown_outcome_by_what_to_ask() -> None:
    assert failed(NameTaken("n", Holder("t", "w")))[1]["holder"] == {
        "token": "t",
        "writer": "w",
        "created": None,
        "age": None,
    }
    assert failed(NameTaken("n"))[1]["holder"] is None
    assert failed(OutcomeUnknown("n", "t"))[1]["token"] == "t"


def test_an_unknown_outcome_is_never_said_as_exists() -> None:
    status, answer = failed(OutcomeUnknown("n", "t"))
    assert status != 409
    assert answer["error"] == "unknown"


@pytest.mark.parametrize("wrong", ["", "a word", UUID.upper(), UUID.replace("-", ""), f"{UUID}\n"])
@pytest.mark.parametrize("call", ["create", "rename", "resolve", "turns/take"])
def test_a_token_is_a_uuid_as_it_is_usually_spelled(call: str, wrong: str) -> None:
    fields = {"path": "s3://b/n", **({"source": "s3://b/m"} if call == "rename" else {})}
    assert CALLS[call].model.model_validate({**fields, "token": UUID}).path
    with pytest.raises(ValidationError, match="token"):
        CALLS[call].model.model_validate({**fields, "token": wrong})


def test_what_is_nobodys_answer_is_not_repeated() -> None:
    assert failed(RuntimeError("a credential"))[1] == {"error": "internal", "message": "RuntimeError"}


def test_every_error_of_the_operating_system_is_answered_as_one() -> None:
    classes = [each for each in vars(builtins).values() if isinstance(each, type)]
    for error in (each for each in classes if issubclass(each, OSError)):
        assert failed(error(5, "why", "name"))[1]["message"] == "name: why"


def test_the_documentation_names_every_call_and_every_word() -> None:
    page = Path("docs/reference/service.md").read_text()
    for call in CALLS:
        assert f"- `{call}` (" in page
    for status, kind in {(str(each.status), each.kind) for each in FAILURES}:
        rows = [row for row in page.splitlines() if row.startswith(f"- {status}: ")]
        assert any(f"`{kind}`" in row for row in rows), (status, kind)


def test_the_adapter_for_the_jvm_throws_what_the_table_says() -> None:
    path = Path("hadoop/src/main/resources/org/putifabsent/hadoop/errors.properties")
    lines = [line.split("=") for line in path.read_text().splitlines() if not line.startswith("#")]
    assert lines == [[each.kind, each.java] for each in FAILURES], "run `make format`"


def test_the_documentation_says_what_the_adapter_throws() -> None:
    page = Path("docs/reference/hadoop.md").read_text()
    for failure in FAILURES:
        rows = [row for row in page.splitlines() if f"`{failure.kind}`" in row]
        assert any(f"`{failure.java.rpartition('.')[2]}`" in row for row in rows), failure
