"""Creating a name: each answer that a store can give, and exactly the requests that follow it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from putifabsent.backends.base import (
    Absent,
    Created,
    Exists,
    Found,
    Gone,
    Holder,
    Maybe,
    Refused,
    TryAgain,
)
from putifabsent.errors import NameTaken, OutcomeUnknown
from putifabsent.shim.requests import (
    Complete,
    Create,
    Discard,
    Head,
    Pause,
    Since,
    Stage,
    StoreTime,
)
from tests.shim.scripted import (
    BODY,
    BUSY,
    LOST,
    ME,
    MINE,
    NAME,
    NOON,
    OTHER,
    PATH,
    REAL,
    SMALL,
    Shim,
    held_by,
    later,
    play,
    staged,
    too_late,
)

PUT = Create(PATH, BODY, MINE)
LOOK = Head(PATH)
STAGE = Stage(PATH, BODY, MINE)
SOURCE = "bucket/source"
NO_RIGHTS = PermissionError("403")
INTERRUPTIONS = [KeyboardInterrupt, asyncio.CancelledError, SystemExit]


@pytest.fixture
def shim() -> Shim:
    return REAL


def create(shim: Shim) -> Any:
    return shim.create(NAME, BODY, MINE, largest_put=SMALL)


def create_large(shim: Shim) -> Any:
    return shim.create(NAME, BODY, MINE, largest_put=BODY.size - 1)


# --- one put


def test_a_creation_that_is_answered_takes_one_request(shim: Shim) -> None:
    assert play(create(shim), (PUT, Created("v1"))) == Created("v1")


def test_a_name_held_by_another_is_taken(shim: Shim) -> None:
    with pytest.raises(NameTaken) as taken:
        play(create(shim), (PUT, Exists()), (LOOK, held_by(OTHER)))
    assert taken.value.name == PATH
    assert taken.value.holder == held_by(OTHER).holder


def test_a_name_held_without_a_token_is_taken(shim: Shim) -> None:
    with pytest.raises(NameTaken):
        play(create(shim), (PUT, Exists()), (LOOK, held_by(None)))


def test_a_holder_in_the_answer_itself_needs_no_look(shim: Shim) -> None:
    with pytest.raises(NameTaken) as taken:
        play(create(shim), (PUT, Exists(Holder(OTHER))))
    assert taken.value.holder == Holder(OTHER)


def test_my_own_token_in_the_answer_is_a_win(shim: Shim) -> None:
    assert play(create(shim), (PUT, Exists(Holder(ME, version="v1")))) == Created("v1")


def test_exists_with_my_token_is_a_win(shim: Shim) -> None:
    # Something on the way may have sent the request twice.
    assert play(create(shim), (PUT, Exists()), (LOOK, held_by(ME))) == Created("v1")


def test_a_name_that_is_gone_again_is_tried_again(shim: Shim) -> None:
    script = (PUT, Exists()), (LOOK, Absent()), later(1), (PUT, Created("v2"))
    assert play(create(shim), *script) == Created("v2")


def test_try_again_is_tried_again_without_a_look(shim: Shim) -> None:
    script = (PUT, TryAgain(BUSY)), later(1), (PUT, TryAgain(BUSY)), later(2), (PUT, Created())
    assert play(create(shim), *script) == Created()


def test_a_refusal_is_raised_as_it_is(shim: Shim) -> None:
    with pytest.raises(PermissionError) as refused:
        play(create(shim), (PUT, Refused(NO_RIGHTS)))
    assert refused.value is NO_RIGHTS


# --- lost answers


def test_a_lost_answer_is_followed_by_the_identical_request(shim: Shim) -> None:
    script = (PUT, Maybe(LOST)), later(1), (PUT, Maybe(LOST)), later(2), (PUT, Created())
    assert play(create(shim), *script) == Created()


def test_a_lost_answer_then_exists_with_my_token_is_a_win(shim: Shim) -> None:
    script = (PUT, Maybe(LOST)), later(1), (PUT, Exists()), (LOOK, held_by(ME))
    assert play(create(shim), *script) == Created("v1")


# The first put was sent at five seconds past noon, by the store's time.
SENT = (StoreTime(PATH), NOON + timedelta(seconds=10)), (Since(), 5.0)
LOST_THEN_EXISTS = (PUT, Maybe(LOST)), later(1), (PUT, Exists())


def held_since(seconds: float) -> Any:
    return LOOK, held_by(OTHER, after=timedelta(seconds=seconds))


def test_a_lost_answer_then_another_who_was_there_before_is_a_loss(shim: Shim) -> None:
    with pytest.raises(NameTaken) as taken:
        play(create(shim), *LOST_THEN_EXISTS, held_since(2.9), *SENT)
    assert taken.value.holder == held_since(2.9)[1].holder


@pytest.mark.parametrize("seconds", [3, 4.9, 6])
def test_a_lost_answer_then_another_who_may_have_come_later_is_unknown(shim: Shim, seconds: float) -> None:
    """Mine may have landed, been read, and been deleted before the other came."""
    with pytest.raises(OutcomeUnknown) as unknown:
        play(create(shim), *LOST_THEN_EXISTS, held_since(seconds), *SENT)
    assert unknown.value.__cause__ is LOST


def test_a_lost_answer_then_another_of_a_store_without_a_time_is_unknown(shim: Shim) -> None:
    with pytest.raises(OutcomeUnknown):
        play(create(shim), *LOST_THEN_EXISTS, held_since(-99), (StoreTime(PATH), None))


def test_a_lost_answer_then_another_of_which_only_the_beginning_is_known_is_unknown(shim: Shim) -> None:
    in_parts = Found(Holder(OTHER, begun=NOON - timedelta(days=1)))
    with pytest.raises(OutcomeUnknown):
        play(create(shim), *LOST_THEN_EXISTS, (LOOK, in_parts))


def test_interrupted_while_it_asks_for_the_time_it_carries_its_token(shim: Shim) -> None:
    stop = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        play(create(shim), *LOST_THEN_EXISTS, held_since(-99), (StoreTime(PATH), stop))
    assert isinstance(stop.__cause__, OutcomeUnknown)


def test_absent_after_a_lost_answer_is_unknown(shim: Shim) -> None:
    with pytest.raises(OutcomeUnknown) as unknown:
        play(create(shim), (PUT, Maybe(LOST)), later(1), (PUT, Exists()), (LOOK, Absent()))
    assert unknown.value.token == ME
    assert unknown.value.__cause__ is LOST


def test_an_answer_once_lost_stays_lost(shim: Shim) -> None:
    script = (PUT, Maybe(LOST)), later(1), (PUT, TryAgain(BUSY)), later(2), (PUT, Exists()), (LOOK, Absent())
    with pytest.raises(OutcomeUnknown):
        play(create(shim), *script)


def test_a_refusal_after_a_lost_answer_is_unknown(shim: Shim) -> None:
    with pytest.raises(OutcomeUnknown) as unknown:
        play(create(shim), (PUT, Maybe(LOST)), later(1), (PUT, Refused(NO_RIGHTS)))
    assert unknown.value.__cause__ is NO_RIGHTS


def test_no_certain_answer_until_the_deadline_is_unknown(shim: Shim) -> None:
    with pytest.raises(OutcomeUnknown) as unknown:
        play(create(shim), (PUT, Maybe(LOST)), too_late(1))
    assert (unknown.value.name, unknown.value.token) == (PATH, ME)
    assert unknown.value.__cause__ is LOST


def test_try_again_until_the_deadline_is_a_failure(shim: Shim) -> None:
    """Each answer has said that nothing was written, and never will be."""
    with pytest.raises(OSError, match=str(BUSY)) as failed:
        play(create(shim), (PUT, TryAgain(BUSY)), later(1), (PUT, TryAgain(BUSY)), too_late(2))
    assert not isinstance(failed.value, OutcomeUnknown)
    assert BUSY in (failed.value, failed.value.__cause__)


@pytest.mark.parametrize("other", [Maybe(LOST), Exists()])
def test_try_again_after_another_answer_is_unknown(shim: Shim, other: Any) -> None:
    """One that was lost stays lost; and what exists may be mine, sent twice on the way, and deleted since."""
    looked = ((LOOK, Absent()),) if isinstance(other, Exists) else ()
    with pytest.raises(OutcomeUnknown):
        play(create(shim), (PUT, other), *looked, later(1), (PUT, TryAgain(BUSY)), too_late(2))


# --- looking whose it is


def test_a_403_on_head_is_unknown_not_gone(shim: Shim) -> None:
    with pytest.raises(OutcomeUnknown) as unknown:
        play(create(shim), (PUT, Exists()), (LOOK, Refused(NO_RIGHTS)))
    assert unknown.value.__cause__ is NO_RIGHTS


def test_a_look_without_an_answer_is_repeated(shim: Shim) -> None:
    script = (PUT, Exists()), (LOOK, TryAgain(BUSY)), later(1), (LOOK, TryAgain(BUSY)), later(2)
    with pytest.raises(NameTaken):
        play(create(shim), *script, (LOOK, held_by(OTHER)))


def test_a_look_without_an_answer_until_the_deadline_is_unknown(shim: Shim) -> None:
    with pytest.raises(OutcomeUnknown) as unknown:
        play(create(shim), (PUT, Exists()), (LOOK, TryAgain(BUSY)), too_late(1))
    assert unknown.value.__cause__ is BUSY


# --- large bodies


def test_a_body_of_the_largest_put_is_sent_in_one(shim: Shim) -> None:
    assert play(shim.create(NAME, BODY, MINE, largest_put=BODY.size), (PUT, Created())) == Created()


def test_a_large_body_is_staged_then_completed(shim: Shim) -> None:
    assert play(create_large(shim), (STAGE, staged()), (Complete(staged()), Created("v1"))) == Created("v1")


def test_staging_is_tried_again(shim: Shim) -> None:
    script = (STAGE, TryAgain(BUSY)), later(1), (STAGE, staged()), (Complete(staged()), Created())
    assert play(create_large(shim), *script) == Created()


def test_a_refused_upload_is_raised_as_it_is(shim: Shim) -> None:
    with pytest.raises(PermissionError) as refused:
        play(create_large(shim), (STAGE, Refused(NO_RIGHTS)))
    assert refused.value is NO_RIGHTS


def test_staging_until_the_deadline_is_a_failure(shim: Shim) -> None:
    with pytest.raises(OSError, match=str(BUSY)) as failed:
        play(create_large(shim), (STAGE, TryAgain(BUSY)), too_late(1))
    assert not isinstance(failed.value, OutcomeUnknown)
    assert BUSY in (failed.value, failed.value.__cause__)


def test_a_proven_loss_discards_the_upload(shim: Shim) -> None:
    script = (
        (STAGE, staged()),
        (Complete(staged()), Exists()),
        (LOOK, held_by(OTHER)),
        (Discard(staged()), None),
    )
    with pytest.raises(NameTaken):
        play(create_large(shim), *script)


def test_a_refused_completion_discards_the_upload(shim: Shim) -> None:
    script = (STAGE, staged()), (Complete(staged()), Refused(NO_RIGHTS)), (Discard(staged()), None)
    with pytest.raises(PermissionError):
        play(create_large(shim), *script)


def test_a_lost_answer_to_a_completion_is_looked_up_first(shim: Shim) -> None:
    # The store forgets an upload that it has completed: sent again, it would only hear "gone".
    script = (STAGE, staged()), (Complete(staged()), Maybe(LOST)), (LOOK, held_by(ME))
    assert play(create_large(shim), *script) == Created("v1")


def test_a_lost_answer_to_a_completion_then_another_holder_discards_the_upload(shim: Shim) -> None:
    script = (STAGE, staged()), (Complete(staged()), Maybe(LOST)), held_since(-60), *SENT
    with pytest.raises(NameTaken):
        play(create_large(shim), *script, (Discard(staged()), None))


def test_a_lost_answer_to_a_completion_then_a_later_holder_leaves_the_upload(shim: Shim) -> None:
    script = (STAGE, staged()), (Complete(staged()), Maybe(LOST)), held_since(60), *SENT
    with pytest.raises(OutcomeUnknown):
        play(create_large(shim), *script)


def test_a_completion_that_never_arrived_is_sent_again_for_the_same_upload(shim: Shim) -> None:
    script = (STAGE, staged()), (Complete(staged()), Maybe(LOST)), (LOOK, Absent()), later(1)
    assert play(create_large(shim), *script, (Complete(staged()), Created())) == Created()


def test_gone_after_a_lost_completion_is_mine_where_the_look_says_so(shim: Shim) -> None:
    script = (STAGE, staged()), (Complete(staged()), Maybe(LOST)), (LOOK, Absent()), later(1)
    last = (Complete(staged()), Gone()), (LOOK, held_by(ME))
    assert play(create_large(shim), *script, *last) == Created("v1")


def test_gone_and_absent_after_a_lost_completion_is_unknown(shim: Shim) -> None:
    script = (STAGE, staged()), (Complete(staged()), Maybe(LOST)), (LOOK, Absent()), later(1)
    with pytest.raises(OutcomeUnknown):
        play(create_large(shim), *script, (Complete(staged()), Gone()), (LOOK, Absent()))


def test_gone_at_once_wants_the_bytes_anew(shim: Shim) -> None:
    first = (STAGE, staged(1)), (Complete(staged(1)), Gone()), (LOOK, Absent()), (Discard(staged(1)), None)
    second = later(1), (STAGE, staged(2)), (Complete(staged(2)), Created())
    assert play(create_large(shim), *first, *second) == Created()


def test_a_409_to_a_completion_wants_the_bytes_anew(shim: Shim) -> None:
    first = (STAGE, staged(1)), (Complete(staged(1)), TryAgain(BUSY)), (Discard(staged(1)), None)
    second = later(1), (STAGE, staged(2)), (Complete(staged(2)), Created())
    assert play(create_large(shim), *first, *second) == Created()


def test_a_409_after_a_lost_completion_keeps_the_upload(shim: Shim) -> None:
    first = (STAGE, staged()), (Complete(staged()), Maybe(LOST)), (LOOK, Absent()), later(1)
    second = (Complete(staged()), TryAgain(BUSY)), later(2), (Complete(staged()), Created())
    assert play(create_large(shim), *first, *second) == Created()


def test_on_unknown_the_upload_is_left(shim: Shim) -> None:
    script = (STAGE, staged()), (Complete(staged()), Maybe(LOST)), (LOOK, Absent()), too_late(1)
    with pytest.raises(OutcomeUnknown):
        play(create_large(shim), *script)


def test_on_an_unknown_holder_the_upload_is_left(shim: Shim) -> None:
    script = (STAGE, staged()), (Complete(staged()), Exists()), (LOOK, Refused(NO_RIGHTS))
    with pytest.raises(OutcomeUnknown):
        play(create_large(shim), *script)


def test_a_refusal_after_a_lost_completion_leaves_the_upload(shim: Shim) -> None:
    script = (STAGE, staged()), (Complete(staged()), Maybe(LOST)), (LOOK, Absent()), later(1)
    with pytest.raises(OutcomeUnknown):
        play(create_large(shim), *script, (Complete(staged()), Refused(NO_RIGHTS)))


# --- interruptions


@pytest.mark.parametrize("kind", INTERRUPTIONS)
def test_interrupted_while_it_sends_it_stays_an_interruption_with_its_token(
    shim: Shim, kind: type[BaseException]
) -> None:
    stop = kind()
    with pytest.raises(kind) as stopped:
        play(create(shim), (PUT, stop))
    assert stopped.value is stop
    assert isinstance(stop.__cause__, OutcomeUnknown)
    assert (stop.__cause__.name, stop.__cause__.token) == (PATH, ME)


def test_interrupted_after_a_lost_answer_it_carries_its_token(shim: Shim) -> None:
    stop = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        play(create(shim), (PUT, Maybe(LOST)), (Pause(1), stop))
    assert isinstance(stop.__cause__, OutcomeUnknown)


def test_interrupted_while_it_looks_after_a_lost_answer_it_carries_its_token(shim: Shim) -> None:
    stop = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        play(create(shim), (PUT, Maybe(LOST)), later(1), (PUT, Exists()), (LOOK, stop))
    assert isinstance(stop.__cause__, OutcomeUnknown)


def test_interrupted_after_an_answer_that_nothing_was_written_nothing_is_unknown(shim: Shim) -> None:
    stop = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        play(create(shim), (PUT, TryAgain(BUSY)), (Pause(1), stop))
    assert stop.__cause__ is None


def test_interrupted_while_it_stages_nothing_is_unknown(shim: Shim) -> None:
    stop = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        play(create_large(shim), (STAGE, stop))
    assert stop.__cause__ is None


def test_interrupted_while_it_completes_the_upload_is_left(shim: Shim) -> None:
    stop = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        play(create_large(shim), (STAGE, staged()), (Complete(staged()), stop))
    assert isinstance(stop.__cause__, OutcomeUnknown)


def test_interrupted_where_nothing_is_unknown_the_upload_is_discarded(shim: Shim) -> None:
    stop = KeyboardInterrupt()
    script = (STAGE, staged()), (Complete(staged()), Exists()), (LOOK, stop), (Discard(staged()), None)
    with pytest.raises(KeyboardInterrupt):
        play(create_large(shim), *script)
    assert stop.__cause__ is None


def test_an_unforeseen_error_of_a_client_is_unknown(shim: Shim) -> None:
    bug = RuntimeError("a bug of the client")
    with pytest.raises(OutcomeUnknown) as unknown:
        play(create(shim), (PUT, bug))
    assert unknown.value.__cause__ is bug


def test_an_abandoned_creation_asks_for_nothing_more(shim: Shim) -> None:
    protocol = create_large(shim)
    assert protocol.send(None) == STAGE
    assert protocol.send(staged()) == Complete(staged())
    protocol.close()
