"""Lock and ballot: each answer that a lock can give, and exactly the requests that follow it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.backends.base import (
    Absent,
    Created,
    Deleted,
    Holder,
    InMemory,
    Listed,
    Maybe,
    Refused,
    TryAgain,
    Written,
)
from putifabsent.backends.registries import Acquired, Free, Held, Released
from putifabsent.errors import NameTaken, OutcomeUnknown
from putifabsent.shim import ballot
from putifabsent.shim.ballot import LEASE, PATIENCE
from putifabsent.shim.names import ordinary
from putifabsent.shim.requests import Acquire, Delete, Head, List, Pause, Publish, Put, Release
from tests.shim.ballot_requests import FOLDER, NAME, accept, prepare, shows
from tests.shim.lockers import LOCK, PLACE
from tests.shim.scripted import BUSY, LOST, ME, MINE, NOON, OTHER, SameBytes, held_by, play

if TYPE_CHECKING:
    from putifabsent.shim.requests import Request

    Script = list[tuple[Request, Any]]

KEY = f"{PLACE}{NAME.path}"
NO_RIGHTS = PermissionError("no rights")
ASK = Acquire(LOCK, KEY, ME, LEASE)
RELEASE = Release(LOCK, KEY, ME)
GRANTED = (ASK, Acquired())
BUSY_LOCK = (ASK, Held(OTHER))
RELEASED = (RELEASE, Released())
LISTED = List(FOLDER)
LOOK = Head(NAME.path)
NOTHING = (LISTED, Listed(()))


def put(path: str, data: bytes = b"") -> Put:
    return Put(path, SameBytes(data), MINE._replace(token=f"{ME}.0~1"))


BALLOT: Script = [
    (put(prepare(), b"my bytes"), Written()),
    (LISTED, shows(prepare())),
    (LOOK, Absent()),
    (put(accept()), Written()),
    (LISTED, shows(prepare(), accept())),
    (Publish(prepare(), NAME.path, MINE), Written()),
]
THEIRS = shows(prepare(OTHER), accept(OTHER, f"{OTHER}.0"))
SEES_THEIRS = (LOOK, held_by(f"{OTHER}.0~1"))
THEIR_HOLDER = Holder(OTHER, "a-writer", NOON, 8, "v1")
LOSES: Script = [
    BALLOT[0],
    (LISTED, shows(prepare(), prepare(OTHER), accept(OTHER, f"{OTHER}.0"))),
    (Delete(prepare()), Deleted()),
    SEES_THEIRS,
]


def later(attempt: int = 1) -> tuple[Pause, bool]:
    return Pause(attempt, PATIENCE), True


def too_late(attempt: int = 1) -> tuple[Pause, bool]:
    return Pause(attempt, PATIENCE), False


@pytest.fixture
def protocols() -> Any:
    return ballot


def creating(protocols: Any) -> Any:
    return protocols.create_in_turn(NAME, InMemory(b"my bytes"), MINE, lock=LOCK, place=PLACE)


# --- what it costs


def test_eight_requests_create_a_name(protocols: Any) -> None:
    assert play(creating(protocols), GRANTED, *BALLOT, RELEASED) == Created()
    assert len(BALLOT) + 2 == 8


def test_a_name_that_is_taken_costs_the_ballots_requests_and_the_locks(protocols: Any) -> None:
    with pytest.raises(NameTaken) as caught:
        play(creating(protocols), GRANTED, *LOSES, RELEASED)
    assert caught.value.holder == THEIR_HOLDER


def test_all_names_of_an_identity_share_one_lock(protocols: Any) -> None:
    twin = ordinary("bucket/t/name.gz")._replace(aliases=(NAME.path,), rank=1)
    making = protocols.create_in_turn(twin, InMemory(b""), MINE, lock=LOCK, place=PLACE)
    assert next(making) == ASK
    making.close()


def test_a_lease_can_be_chosen(protocols: Any) -> None:
    making = protocols.create_in_turn(NAME, InMemory(b""), MINE, lock=LOCK, place=PLACE, lease=60.0)
    assert next(making) == ASK._replace(lease=60.0)
    making.close()


# --- a busy lock


def test_a_busy_lock_is_waited_for(protocols: Any) -> None:
    script: Script = [BUSY_LOCK, later(1), NOTHING, BUSY_LOCK, later(2), NOTHING, GRANTED, *BALLOT, RELEASED]
    assert play(creating(protocols), *script) == Created()


def test_a_busy_lock_is_waited_for_only_for_a_share_of_the_deadline(protocols: Any) -> None:
    assert 0 < PATIENCE < 1
    script: Script = [BUSY_LOCK, later(1), NOTHING, BUSY_LOCK, too_late(2), *BALLOT]
    assert play(creating(protocols), *script) == Created(), "it went on without the lock"


def test_whoever_waits_sees_that_another_has_created_the_name(protocols: Any) -> None:
    with pytest.raises(NameTaken) as caught:
        play(creating(protocols), BUSY_LOCK, later(), (LISTED, THEIRS), SEES_THEIRS)
    assert caught.value.holder == THEIR_HOLDER


def test_what_another_has_put_to_the_vote_is_not_taken_for_decided(protocols: Any) -> None:
    contested = shows(prepare(OTHER), accept(OTHER, f"{OTHER}.0"), prepare("9", round_=1))
    script: Script = [BUSY_LOCK, later(), (LISTED, contested), GRANTED, *BALLOT, RELEASED]
    assert play(creating(protocols), *script) == Created()


def test_a_waiting_writer_who_finds_its_own_creation_leaves_the_answer_to_the_ballot(protocols: Any) -> None:
    mine = shows(prepare(), accept())
    script: Script = [BUSY_LOCK, later(), (LISTED, mine), GRANTED, *BALLOT, RELEASED]
    assert play(creating(protocols), *script) == Created()


def test_a_lock_that_is_held_by_oneself_is_ones_own(protocols: Any) -> None:
    assert play(creating(protocols), (ASK, Held(ME)), *BALLOT, RELEASED) == Created()


# --- a lost lock


@pytest.mark.parametrize("outcome", [Refused(NO_RIGHTS), TryAgain(BUSY)], ids=["refused", "not reached"])
def test_without_a_lock_the_ballot_goes_on_alone(protocols: Any, outcome: Any) -> None:
    assert play(creating(protocols), (ASK, outcome), *BALLOT) == Created()


def test_a_lock_whose_answer_was_lost_may_be_held_and_is_released(protocols: Any) -> None:
    assert play(creating(protocols), (ASK, Maybe(LOST)), *BALLOT, RELEASED) == Created()


RELEASES = [Held(OTHER), Free(), Refused(NO_RIGHTS), TryAgain(BUSY), Maybe(LOST), NO_RIGHTS]


@pytest.mark.parametrize("outcome", RELEASES, ids=ascii)
def test_what_becomes_of_the_release_changes_nothing(protocols: Any, outcome: Any) -> None:
    assert play(creating(protocols), GRANTED, *BALLOT, (RELEASE, outcome)) == Created()
    with pytest.raises(NameTaken):
        play(creating(protocols), GRANTED, *LOSES, (RELEASE, outcome))


# --- errors and interruptions


def test_a_failure_releases_the_lock(protocols: Any) -> None:
    withdrawn = (Delete(prepare()), Deleted())
    with pytest.raises(PermissionError) as caught:
        play(creating(protocols), GRANTED, (BALLOT[0][0], Refused(NO_RIGHTS)), withdrawn, RELEASED)
    assert caught.value is NO_RIGHTS


INTERRUPTIONS = [KeyboardInterrupt, asyncio.CancelledError, SystemExit]


@pytest.mark.parametrize("interruption", INTERRUPTIONS)
def test_an_interruption_releases_the_lock_and_stays_one(
    protocols: Any, interruption: type[BaseException]
) -> None:
    stop = interruption()
    with pytest.raises(interruption) as caught:
        play(creating(protocols), GRANTED, *BALLOT[:3], (BALLOT[3][0], stop), RELEASED)
    assert caught.value is stop
    assert isinstance(stop.__cause__, OutcomeUnknown)
    assert stop.__cause__.token == ME


@pytest.mark.parametrize("interruption", INTERRUPTIONS)
def test_an_interruption_while_the_lock_is_asked_for_releases_it(
    protocols: Any, interruption: type[BaseException]
) -> None:
    stop = interruption()
    with pytest.raises(interruption):
        play(creating(protocols), (ASK, stop), RELEASED)
    assert stop.__cause__ is None, "nothing had been put to the vote"


@pytest.mark.parametrize("interruption", INTERRUPTIONS)
def test_an_interruption_of_the_release_says_what_it_interrupted(
    protocols: Any, interruption: type[BaseException]
) -> None:
    stop = interruption()
    with pytest.raises(interruption):
        play(creating(protocols), GRANTED, *BALLOT, (RELEASE, stop))
    assert isinstance(stop.__cause__, OutcomeUnknown)
    lost = interruption()
    with pytest.raises(interruption):
        play(creating(protocols), GRANTED, *LOSES, (RELEASE, lost))
    assert isinstance(lost.__cause__, NameTaken)


def test_of_two_interruptions_the_first_counts(protocols: Any) -> None:
    first, second = KeyboardInterrupt("first"), KeyboardInterrupt("second")
    with pytest.raises(KeyboardInterrupt, match="first"):
        play(creating(protocols), GRANTED, *BALLOT[:4], (BALLOT[4][0], first), (RELEASE, second))


def test_a_protocol_that_is_dropped_asks_for_nothing_more(protocols: Any) -> None:
    for script in ((), (GRANTED,), (GRANTED, *BALLOT)):
        making = creating(protocols)
        next(making)
        for _, outcome in script:
            making.send(outcome)
        making.close()
