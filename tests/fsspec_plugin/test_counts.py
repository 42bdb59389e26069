"""What a run has cost is read off its requests alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.backends.base import InMemory
from putifabsent.backends.registries import Claim
from putifabsent.fsspec_plugin.telemetry import Counts
from putifabsent.shim.ballot_state import Accept, End, Prepare, written
from putifabsent.shim.requests import (
    Both,
    Create,
    Head,
    List,
    ListClaims,
    Now,
    Pause,
    Publish,
    Put,
    ReadClaim,
    StageCopy,
    WriteClaim,
)
from putifabsent.shim.state_keys import Salted
from tests.shim.scripted import ME, MINE, OTHER

if TYPE_CHECKING:
    from putifabsent.shim.ballot_state import Key
    from putifabsent.shim.requests import Request

NOTHING = InMemory(b"")
NAME = "bucket/t/name"
HEAD = Head(NAME)
REGISTRY: Any = None


def vote(key: Key) -> Put:
    return Put(f"{NAME}/{written(key)}", NOTHING, MINE)


def claim(token: str = ME, *, incarnation: int = 1, live: bool = True) -> WriteClaim:
    return WriteClaim(REGISTRY, NAME, Claim(incarnation, live=live, key="k", token=token, writer="w"), None)


def shown(key: Key | Salted) -> Publish:
    return Publish(f"{NAME}/{key if isinstance(key, Salted) else written(key)}", NAME, MINE)


MY_BYTES = Prepare(1, 0, f"{ME}.0")
THEIR_BYTES = Prepare(1, 0, f"{OTHER}.0")
MY_VOTE_FOR_THEM = Accept(1, 3, f"{ME}.2", f"{OTHER}.0")


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (Create(NAME, NOTHING, MINE), "create"),
        (StageCopy(NAME, 1, None, NAME, MINE), "stage_copy"),
        (ReadClaim(REGISTRY, NAME), "read_claim"),
        (ListClaims(REGISTRY, NAME), "list_claims"),
    ],
)
def test_a_request_is_counted_by_its_kind(request_: Request, kind: str) -> None:
    assert Counts.of([request_]).requests == {kind: 1}


def test_two_requests_that_go_out_together_are_two() -> None:
    together = Both(vote(MY_BYTES), HEAD)
    assert Counts.of([together, HEAD]).requests == {"put": 1, "head": 2}


def test_a_pause_is_no_request_and_neither_is_a_look_at_a_clock() -> None:
    found = Counts.of([Pause(1), Now(lambda: 0.0), Pause(2)])
    assert (found.requests, found.pauses) == ({}, 2)


@pytest.mark.parametrize(
    "again",
    [
        (Create(NAME, NOTHING, MINE), Create(NAME, NOTHING, MINE)),
        (vote(MY_BYTES), vote(Prepare(1, 0, f"{ME}.1"))),
        (claim(), claim()),
    ],
)
def test_what_is_sent_again_is_no_further_round(again: tuple[Request, Request]) -> None:
    assert Counts.of(again).rounds == 1


@pytest.mark.parametrize(
    "rounds",
    [
        (vote(MY_BYTES), vote(Prepare(1, 1, f"{ME}.0"))),
        (vote(MY_BYTES), vote(Prepare(2, 0, f"{ME}.0"))),
        (claim(), claim(incarnation=2)),
        (Create(NAME, NOTHING, MINE), Create("a-ledger-s-record", NOTHING, MINE)),
    ],
)
def test_a_higher_ballot_another_incarnation_and_another_name_are_further_rounds(
    rounds: tuple[Request, Request],
) -> None:
    assert Counts.of(rounds).rounds == 2


@pytest.mark.parametrize(
    "request_", [HEAD, List(NAME), vote(End(1, f"{ME}.0")), claim(live=False), Put(NAME, NOTHING, MINE)]
)
def test_what_stands_for_nothing_is_no_round(request_: Request) -> None:
    assert Counts.of([request_]).rounds == 0


@pytest.mark.parametrize(
    "request_", [vote(MY_VOTE_FOR_THEM), shown(THEIR_BYTES), shown(Salted(0, 1, OTHER, 0))]
)
def test_a_vote_for_another_and_showing_what_is_another_s_is_help(request_: Request) -> None:
    assert Counts.of([request_]).helps == 1


def test_another_is_helped_once_however_much_it_takes() -> None:
    assert Counts.of([vote(MY_VOTE_FOR_THEM), shown(THEIR_BYTES), shown(THEIR_BYTES)]).helps == 1


@pytest.mark.parametrize(
    "request_",
    [
        vote(Accept(1, 0, f"{ME}.2", f"{ME}.0")),
        shown(MY_BYTES),
        shown(Salted(0, 1, ME, 0)),
        Publish("bucket/t/a-ledger-s-body", NAME, MINE),
        vote(THEIR_BYTES),
        HEAD,
    ],
)
def test_what_is_done_for_oneself_is_no_help(request_: Request) -> None:
    assert Counts.of([request_]).helps == 0
