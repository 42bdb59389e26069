"""Names by claims: found, deleted, cleaned up and forgotten, in scripted schedules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from putifabsent.backends.base import (
    Absent,
    Deleted,
    Holder,
    Listed,
    Maybe,
    Refused,
    TryAgain,
    Written,
)
from putifabsent.backends.registries import Claim, Claimed, Forgotten, FoundClaim, NotAsExpected
from putifabsent.errors import NameTaken, OutcomeUnknown
from putifabsent.shim import claims as real
from putifabsent.shim.requests import (
    Both,
    Delete,
    ForgetClaim,
    Head,
    List,
    Located,
)
from tests.shim.claim_requests import (
    ASK,
    FOLDER,
    IDENTITY,
    LOOK,
    MINE,
    NAME,
    NO_RIGHTS,
    PATH,
    REGISTRY,
    TABLE,
    THIRD,
    claim,
    clean,
    dead,
    delete,
    find,
    key,
    mark,
    publish,
    resolve,
    shows,
    write,
)
from tests.shim.scripted import BUSY, LOST, ME, NOON, OTHER, later, play, too_late

# --- finding

LIVES = (ASK, FoundClaim(claim(OTHER)))
SEES = Both(Head(key(OTHER)), LOOK)
SHOWN = (SEES, (shows(mark(OTHER), "s"), shows(mark(OTHER))))
THEIRS = Holder(OTHER, "a-writer", NOON, 8, "s")


def test_a_living_name_is_found_where_its_bytes_are() -> None:
    assert play(find(), LIVES, SHOWN) == Located(THEIRS, key(OTHER))


def test_the_claim_alone_may_be_asked() -> None:
    assert play(find(helps=False), LIVES) == Located(Holder(OTHER, "a-writer"), key(OTHER))


@pytest.mark.parametrize(
    "outcome", [Written(), Maybe(LOST), TryAgain(BUSY), Refused(NO_RIGHTS)], ids=lambda it: type(it).__name__
)
def test_a_name_that_is_not_published_is_published_as_well_as_that_can_be_done(outcome: Any) -> None:
    script = (SEES, (shows(mark(OTHER), "s"), Absent())), (publish(claim(OTHER)), outcome)
    assert play(find(), LIVES, *script) == Located(THEIRS, key(OTHER))


@pytest.mark.parametrize("guarded", [True, False])
def test_only_a_guarded_name_is_published_over_what_went_round_the_shim(guarded: bool) -> None:
    foreign = (SEES, (shows(mark(OTHER), "s"), shows(None)))
    published = [(publish(claim(OTHER)), Written())] if guarded else []
    found = play(find(NAME._replace(guarded=guarded)), LIVES, foreign, *published)
    assert found == Located(THEIRS, key(OTHER))


def test_what_has_ended_is_published_over() -> None:
    second = claim(OTHER, 2)
    script = (
        (ASK, FoundClaim(second)),
        (Both(Head(second.key), LOOK), (shows(mark(OTHER, 2), "s"), shows(mark(THIRD)))),
        (publish(second), Written()),
    )
    assert play(find(), *script) == Located(THEIRS, second.key)


def test_bytes_that_are_gone_are_looked_for_again() -> None:
    gone = (SEES, (Absent(), Absent())), (ASK, FoundClaim(dead()))
    assert play(find(), LIVES, *gone, (ASK, FoundClaim(dead())), (LOOK, Absent())) == Absent()


def test_bytes_that_others_have_removed_are_read_from_their_copy() -> None:
    script = (SEES, (Absent(), shows(mark(OTHER)))), LIVES
    assert play(find(), LIVES, *script) == Located(replace(THEIRS, version="v1"), PATH)


def test_a_name_of_which_nothing_is_left_is_not_there() -> None:
    assert play(find(), LIVES, (SEES, (Absent(), Absent())), LIVES) == Absent()


def test_bytes_that_others_have_removed_and_written_over_are_an_error() -> None:
    with pytest.raises(OSError, match="its bytes are gone"):
        play(find(), LIVES, (SEES, (Absent(), shows("foreign"))), LIVES)


def test_bytes_that_can_not_be_looked_at_are_unknown() -> None:
    script = (SEES, (Refused(NO_RIGHTS), Absent())), (Head(key(OTHER)), Refused(NO_RIGHTS))
    with pytest.raises(OutcomeUnknown):
        play(find(), LIVES, *script)


def test_a_registry_that_can_not_be_read_is_unknown_not_absent() -> None:
    with pytest.raises(OutcomeUnknown) as unknown:
        play(find(), (ASK, Refused(NO_RIGHTS)))
    assert unknown.value.__cause__ is NO_RIGHTS


def test_a_name_without_a_claim_is_older_than_the_shim() -> None:
    script = (ASK, Absent()), (LOOK, shows("native")), (ASK, Absent())
    assert play(find(), *script) == Located(shows("native").holder, PATH)


def test_a_name_that_is_nowhere_is_absent() -> None:
    assert play(find(), (ASK, Absent()), (LOOK, Absent())) == Absent()


@pytest.mark.parametrize("last", ["1~1~token.0", "of another kind"])
def test_a_claim_of_a_name_that_this_mount_does_not_know_is_not_this_one(last: str) -> None:
    theirs = FoundClaim(replace(claim(OTHER), key=f"{FOLDER}/{last}"))
    assert play(find(), (ASK, theirs), (LOOK, Absent())) == Absent()


def test_what_has_ended_is_absent_whatever_the_plain_name_shows() -> None:
    assert play(find(), (ASK, FoundClaim(dead())), (LOOK, shows(mark(OTHER)))) == Absent()


def test_a_name_that_is_created_meanwhile_is_looked_for_again() -> None:
    assert play(find(), (ASK, Absent()), (LOOK, shows(mark(OTHER))), LIVES, LIVES, SHOWN) == Located(
        THEIRS, key(OTHER)
    )


def test_an_unknown_outcome_is_answered_later() -> None:
    mine = (ASK, FoundClaim(claim())), (Both(Head(key()), LOOK), (shows(mark()), shows(mark())))
    assert play(resolve(), *mine).token == ME
    assert play(resolve(), (ASK, Absent()), (LOOK, Absent())) is None
    with pytest.raises(NameTaken):
        play(resolve(), LIVES, SHOWN, LIVES)


def test_whose_a_name_was_before_it_was_created_anew_can_not_be_known() -> None:
    second = FoundClaim(claim(OTHER, 2))
    sees = Both(Head(key(OTHER, 2)), LOOK), (shows(mark(OTHER, 2)), shows(mark(OTHER, 2)))
    with pytest.raises(OutcomeUnknown, match="created, and deleted since") as unknown:
        play(resolve(), (ASK, second), sees, (ASK, second))
    assert isinstance(unknown.value.__cause__, NameTaken)


# --- deleting

END = write(dead(), claim(OTHER))
ENDED = (END, Claimed())
BURIED = (Delete(key(OTHER)), Deleted())
HIDDEN = ((LOOK, shows(mark(OTHER), "old")), (Delete(PATH, "old"), Deleted()))


def test_a_deletion_ends_the_claim_then_removes_the_bytes_then_the_plain_name() -> None:
    assert play(delete(), LIVES, ENDED, BURIED, *HIDDEN, (ASK, FoundClaim(dead()))) is False


def test_a_name_that_was_never_published_is_deleted() -> None:
    assert play(delete(), LIVES, ENDED, BURIED, (LOOK, Absent())) is False


def test_a_deletion_that_others_have_begun_is_finished() -> None:
    assert play(delete(), (ASK, FoundClaim(dead())), BURIED, *HIDDEN, (ASK, FoundClaim(dead()))) is False


def test_a_name_older_than_the_shim_is_deleted_by_its_version() -> None:
    script = (LOOK, shows(None, "old")), (Delete(PATH, "old"), Deleted()), (ASK, Absent())
    assert play(delete(), (ASK, Absent()), *script) is False


def test_the_copy_of_a_table_made_elsewhere_has_names_that_can_be_deleted() -> None:
    seen = (LOOK, shows(mark(OTHER), "old"))
    script = seen, (ASK, Absent()), (Delete(PATH, "old"), Deleted()), (ASK, Absent())
    assert play(delete(), (ASK, Absent()), *script) is False


def test_a_lost_answer_to_the_end_is_asked_again() -> None:
    script = (END, Maybe(LOST)), later(1), (END, NotAsExpected(dead())), BURIED, (LOOK, Absent())
    assert play(delete(), LIVES, *script) is False


def test_an_end_without_an_answer_is_unknown() -> None:
    with pytest.raises(OutcomeUnknown):
        play(delete(), LIVES, (END, Maybe(LOST)), too_late(1))


def test_a_refused_end_after_a_lost_answer_is_unknown() -> None:
    with pytest.raises(OutcomeUnknown) as unknown:
        play(delete(), LIVES, (END, Maybe(LOST)), later(1), (END, Refused(NO_RIGHTS)))
    assert unknown.value.__cause__ is NO_RIGHTS


def test_a_refused_end_changes_nothing_and_is_raised_as_it_is() -> None:
    with pytest.raises(PermissionError):
        play(delete(), LIVES, (END, Refused(NO_RIGHTS)))


def test_a_later_incarnation_is_left_alone() -> None:
    second = claim(THIRD, 2)
    script = (END, NotAsExpected(second)), (LOOK, shows(mark(THIRD, 2)))
    assert play(delete(), LIVES, *script) is False


def test_a_later_incarnation_under_the_plain_name_is_left_alone() -> None:
    script = (LOOK, shows(mark(THIRD, 2))), (ASK, FoundClaim(claim(THIRD, 2)))
    assert play(delete(), LIVES, ENDED, BURIED, *script) is False


def test_a_later_incarnation_that_the_deletion_has_hidden_is_published_again() -> None:
    second = claim(THIRD, 2)
    script = (ASK, FoundClaim(second)), (LOOK, Absent()), (publish(second), Written())
    assert play(delete(), LIVES, ENDED, BURIED, *HIDDEN, *script) is False


def test_bytes_that_can_not_be_removed_are_unknown() -> None:
    with pytest.raises(OutcomeUnknown):
        play(delete(), LIVES, ENDED, (Delete(key(OTHER)), Refused(NO_RIGHTS)))


@pytest.mark.parametrize(
    ("outcome", "is_forgotten"),
    [
        (Forgotten(), True),
        (NotAsExpected(None), True),
        (NotAsExpected(claim(THIRD)), False),
        (Refused(NO_RIGHTS), False),
    ],
)
def test_the_last_deletion_says_whether_the_claim_is_forgotten(outcome: Any, is_forgotten: bool) -> None:
    script = BURIED, (LOOK, Absent()), (ForgetClaim(REGISTRY, IDENTITY, dead()), outcome)
    assert play(delete(last=True), (ASK, FoundClaim(dead())), *script) is is_forgotten


def test_the_last_deletion_of_what_has_no_claim_leaves_none() -> None:
    assert play(delete(last=True), (ASK, Absent()), (LOOK, Absent())) is True


def test_a_last_deletion_that_gets_no_answer_does_not_say_that_the_claim_is_forgotten() -> None:
    script = BURIED, (LOOK, Absent()), (ForgetClaim(REGISTRY, IDENTITY, dead()), Maybe(LOST)), too_late(1)
    assert play(delete(last=True), (ASK, FoundClaim(dead())), *script) is False


# --- cleaning up


def lists(*keys: str) -> tuple[List, Listed]:
    from putifabsent.backends.base import Entry

    return List(FOLDER), Listed(tuple(Entry(each, NOON) for each in keys))


def removed(path: str) -> tuple[Delete, Deleted]:
    return Delete(path), Deleted()


QUIET = (LOOK, Absent())


def forget() -> Any:
    return real.forget(TABLE, NAME, MINE)


FORGET = ForgetClaim(REGISTRY, IDENTITY, dead(ME))
MINE_ENDED = ((ASK, FoundClaim(claim())), (write(dead(ME), claim()), Claimed()))
KEYS = lists(key(), key(OTHER, 2))
KEYS_GONE = (removed(key()), removed(key(OTHER, 2)))


def test_what_is_forgotten_is_ended_then_its_bytes_go_then_its_claim_then_the_plain_name() -> None:
    script = (*MINE_ENDED, KEYS, *KEYS_GONE, (FORGET, Forgotten()), removed(PATH))
    assert play(forget(), *script) is None


def test_what_another_has_forgotten_meanwhile_is_forgotten() -> None:
    lost = ((FORGET, Maybe(LOST)), later(1), (FORGET, NotAsExpected(None)), removed(PATH))
    assert play(forget(), *MINE_ENDED, KEYS, *KEYS_GONE, *lost) is None


def test_what_another_has_forgotten_before_it_was_ended_is_forgotten() -> None:
    """A removal of a table meets its ledger's pruning."""
    gone = (write(dead(ME), claim()), NotAsExpected(None))
    twice = (FORGET, NotAsExpected(None))
    assert play(forget(), (ASK, FoundClaim(claim())), gone, lists(), twice, removed(PATH)) is None


def test_what_was_begun_anew_meanwhile_stays() -> None:
    anew = (FORGET, NotAsExpected(claim(OTHER, 2)))
    assert play(forget(), *MINE_ENDED, KEYS, *KEYS_GONE, anew) is None


def test_what_a_registry_refuses_to_forget_leaves_the_dead_claim_alone() -> None:
    with pytest.raises(PermissionError, match="403"):
        play(forget(), *MINE_ENDED, KEYS, *KEYS_GONE, (FORGET, Refused(NO_RIGHTS)), removed(PATH))


def test_clean_up_of_a_name_that_never_was_removes_nothing() -> None:
    assert play(clean(), lists(), (ASK, Absent()), QUIET, (ASK, Absent())) == 0


def test_the_living_bytes_stay_and_those_of_losers_go() -> None:
    script = lists(key(OTHER), key(THIRD)), LIVES, removed(key(THIRD))
    assert play(clean(), *script, (LOOK, shows(mark(OTHER))), LIVES, (LOOK, shows(mark(OTHER)))) == 1


def test_what_is_no_key_stays() -> None:
    script = lists(f"{FOLDER}/somebody-else's"), (ASK, FoundClaim(dead()))
    assert play(clean(), *script, QUIET, (ASK, FoundClaim(dead()))) == 0


def test_the_dead_go_with_what_they_left_under_the_plain_name() -> None:
    script = lists(key(OTHER)), (ASK, FoundClaim(dead())), removed(key(OTHER))
    assert play(clean(), *script, *HIDDEN, (ASK, FoundClaim(dead()))) == 2


def test_a_free_incarnation_is_ended_before_its_bytes_go() -> None:
    burnt = Claim(1, live=False, key=key(OTHER), token=ME, writer="my-writer")
    script = (
        lists(key(OTHER)),
        (ASK, Absent()),
        QUIET,
        (write(burnt), Claimed()),
        (ASK, FoundClaim(burnt)),
        removed(key(OTHER)),
        QUIET,
        (ASK, FoundClaim(burnt)),
    )
    assert play(clean(), *script) == 1


def test_no_incarnation_is_ended_under_a_name_that_no_claim_has_made() -> None:
    # It may be marked like a copy of that very incarnation, and would be taken for one that has ended.
    came = (LOOK, shows(mark(THIRD)))
    assert (
        play(clean(), lists(key(OTHER)), (ASK, Absent()), came, came, (ASK, Absent()), (ASK, Absent())) == 0
    )


def test_a_writer_who_is_faster_than_clean_up_keeps_its_bytes() -> None:
    burnt = Claim(1, live=False, key=key(OTHER), token=ME, writer="my-writer")
    script = (
        lists(key(OTHER)),
        (ASK, Absent()),
        QUIET,
        (write(burnt), NotAsExpected(claim(OTHER))),
        LIVES,
        (LOOK, shows(mark(OTHER))),
        LIVES,
        (LOOK, shows(mark(OTHER))),
    )
    assert play(clean(), *script) == 0


def test_the_living_is_never_ended_by_clean_up() -> None:
    # A table that was copied with its state brings keys along that no claim here has to do with.
    script = lists(key(OTHER), key(THIRD, 5)), LIVES, (LOOK, shows(mark(OTHER))), LIVES
    assert play(clean(), *script, (LOOK, shows(mark(OTHER)))) == 0


def test_clean_up_publishes_what_lives() -> None:
    script = lists(key(OTHER)), LIVES, QUIET, LIVES, QUIET, (publish(claim(OTHER)), Written())
    assert play(clean(), *script) == 0


def test_clean_up_leaves_what_is_older_than_the_shim() -> None:
    assert play(clean(), lists(), (ASK, Absent()), (LOOK, shows(None)), (ASK, Absent())) == 0


def test_a_folder_that_can_not_be_listed_is_unknown() -> None:
    with pytest.raises(OutcomeUnknown):
        play(clean(), (List(FOLDER), Refused(NO_RIGHTS)))
