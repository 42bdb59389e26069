"""What one run of a protocol has cost, read off its requests: they say by themselves what they are for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from putifabsent.shim import ballot_state, state_keys
from putifabsent.shim.requests import (
    Both,
    Complete,
    Copy,
    Create,
    Now,
    Pause,
    Publish,
    Put,
    Request,
    Since,
    WriteClaim,
    kind_of,
)


class Counts(NamedTuple):
    """What a run has cost."""

    # How many of each kind: ``create``, ``head``, ``put``, ``write_claim``. Two that go out together are two;
    # a large body is staged by one, however many parts it has.
    requests: dict[str, int]
    # How often it was to back off, before it sent something again or looked again; at the deadline it does
    # not any more.
    pauses: int
    # How often it has stood for a decision: the ballots begun, the incarnations claimed. The same request
    # sent again is no further round; and where the store decides, each name has one.
    rounds: int
    # How many creations of others it has carried on: an accept for another's value, or a publication of
    # another's bytes.
    helps: int

    @classmethod
    def of(cls, requests: Iterable[Request]) -> Counts:
        kinds: dict[str, int] = {}
        pauses = 0
        rounds: set[tuple[object, ...]] = set()
        helped: set[str] = set()
        for request in requests:
            if isinstance(request, Pause):
                pauses += 1
            elif not isinstance(request, (Now, Since)):
                for each in request if isinstance(request, Both) else (request,):
                    kind = kind_of(type(each).__name__)
                    kinds[kind] = kinds.get(kind, 0) + 1
            if (round_ := _round(request)) is not None:
                rounds.add(round_)
            if (token := _helped(request)) is not None:
                helped.add(token)
        return cls(kinds, pauses, len(rounds), len(helped))


def _round(request: Request) -> tuple[object, ...] | None:
    """Return which decision a request begins to stand for, if it does."""
    if isinstance(request, (Create, Copy)):
        return (request.name,)
    if isinstance(request, Complete):
        return (request.staged.name,)
    if isinstance(request, WriteClaim):
        return (request.identity, request.claim.incarnation) if request.claim.live else None
    if isinstance(request, Put) and isinstance(
        key := ballot_state.parsed(request.name), ballot_state.Prepare
    ):
        return request.name.rpartition("/")[0], key.incarnation, key.round
    return None


def _helped(request: Request) -> str | None:
    """Return the token of another's creation that a request carries on, if it does."""
    whose: str | None
    if isinstance(request, Put):
        key = ballot_state.parsed(request.name)
        if not isinstance(key, ballot_state.Accept):
            return None
        by, whose = state_keys.creation_of(key.voter), state_keys.creation_of(key.value)
    elif isinstance(request, Publish):
        by, whose = request.creation.token, _creation_of(request.source)
    else:
        return None
    return None if whose in (None, by) else whose


def _creation_of(source: str) -> str | None:
    """Return the token of the creation whose bytes lie there, if they are the shim's own."""
    if (claimed := state_keys.parsed(source)) is not None:
        return claimed.token
    key = ballot_state.parsed(source)
    return state_keys.creation_of(key.voter) if isinstance(key, ballot_state.Prepare) else None
