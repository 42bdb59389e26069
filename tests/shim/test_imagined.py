"""The imagined store puts and publishes as the real ones do."""

from __future__ import annotations

from typing import Any

import pytest

from putifabsent.backends.base import Absent, Deleted, Exists, Found, InMemory, Maybe, Written
from putifabsent.shim.requests import Delete, Head, Publish, Put
from putifabsent.testing.imagined import ImaginedStore, Thing
from putifabsent.testing.races import creation_of

NAME = "t/name"
CREATION = creation_of(NAME)


def put(name: str, token: str, data: bytes = b"x") -> Put:
    return Put(name, InMemory(data), CREATION._replace(token=token))


def publish(source: str) -> Publish:
    return Publish(source, NAME, CREATION)


def played(store: ImaginedStore, *requests: Any) -> tuple[Any, list[Any]]:
    state, outcomes = store.initial, []
    for request in requests:
        state, outcome = store.apply(state, request)
        outcomes.append(outcome)
    return dict(state), outcomes


def test_a_put_overwrites_and_a_publication_has_the_source_s_token() -> None:
    state, outcomes = played(
        ImaginedStore(), put("s", "first"), put("s", "second"), publish("s"), Head(NAME), publish("s")
    )
    assert state == {"s": Thing("second", b"x"), NAME: Thing("second", b"x")}
    assert [type(outcome) for outcome in outcomes] == [Written, Written, Written, Found, Written]
    assert outcomes[3].holder.token == "second"


def test_a_missing_source_is_absent_and_nothing_is_written() -> None:
    state, outcomes = played(ImaginedStore(), put("s", "a"), Delete("s"), publish("s"))
    assert state == {}
    assert outcomes[1:] == [Deleted(), Absent()]


@pytest.mark.parametrize(("republishes", "token"), [(True, "b"), (False, "a")])
def test_whether_it_publishes_over_another_object_can_be_said(republishes: bool, token: str) -> None:
    store = ImaginedStore(republishes=republishes)
    state, outcomes = played(store, put("s", "a"), put("r", "b"), publish("s"), publish("s"), publish("r"))
    assert state[NAME].token == token
    assert [type(outcome) for outcome in outcomes[2:]] == [
        Written,
        Written,
        Written if republishes else Exists,
    ]


@pytest.mark.parametrize("request_", [put("s", "a"), publish("s")], ids=["put", "publish"])
def test_without_an_answer_it_may_have_happened(request_: Any) -> None:
    store = ImaginedStore()
    assert store.changes(request_)
    assert isinstance(store.unanswered(request_), Maybe)
