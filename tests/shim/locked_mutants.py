"""What lock and ballot must not leave out: each mutant leaves one thing out, and is found out."""

from __future__ import annotations

from tests.shim.lockers import Mutant

GRANTED_TO_ALL = "two creators, all are granted the lock"
LOST_AT_ANY_TIME = "two creators, the lock is lost at any time"
NEVER_GRANTED = "two creators, nobody is granted it"
REFUSED = "two creators, it refuses"
TWO = "two creators"
LOST_ANSWER = "two creators, one lost answer, one crash"

_DECIDES = "        created = yield from create(name, body, creation)\n"
_ALONE = """        if turn.may_be_mine:
            from putifabsent.backends.base import Created, Found, Written
            from putifabsent.errors import NameTaken
            from putifabsent.shim.requests import Head, Put

            there = yield Head(name.path)
            if isinstance(there, Found):
                raise NameTaken(name.path, there.holder)
            while not isinstance((yield Put(name.path, body, creation)), Written):
                pass
            created = Created()
        else:
            created = yield from create(name, body, creation)
"""

MUTANTS = (
    Mutant("Redis alone decides: granted to several", "ballot", _DECIDES, _ALONE, GRANTED_TO_ALL),
    Mutant("Redis alone decides: lost while held", "ballot", _DECIDES, _ALONE, LOST_AT_ANY_TIME),
    Mutant(
        "release forgotten",
        "ballot",
        "                yield Release(turn.lock, turn.key, turn.owner)\n",
        "                yield from ()\n",
        TWO,
    ),
    Mutant(
        "no release after an error",
        "ballot",
        "        yield from _release(turn, error)\n        raise\n",
        "        raise\n",
        TWO,
    ),
    Mutant(
        "a lock that may be held is not released",
        "ballot",
        "(Acquired, Held, Maybe)",
        "(Acquired, Held)",
        "test_a_lock_whose_answer_was_lost_may_be_held_and_is_released",
    ),
    Mutant(
        "an interrupted wait does not release",
        "ballot",
        "        turn.may_be_mine = True\n",
        "",
        "test_an_interruption_while_the_lock_is_asked_for_releases_it",
    ),
    Mutant(
        "released in the name of whoever holds it",
        "ballot",
        "Release(turn.lock, turn.key, turn.owner)",
        'Release(turn.lock, turn.key, "somebody")',
        "test_eight_requests_create_a_name",
    ),
    Mutant(
        "wait without bound",
        "ballot",
        "        if not busy or not (yield Pause(attempt, PATIENCE)):\n            return\n",
        "        if not busy:\n            return\n        yield Pause(attempt, PATIENCE)\n",
        NEVER_GRANTED,
    ),
    Mutant(
        "waited for until the deadline",
        "ballot",
        "Pause(attempt, PATIENCE)",
        "Pause(attempt)",
        "test_a_busy_lock_is_waited_for_only_for_a_share_of_the_deadline",
    ),
    Mutant(
        "a busy lock is a loss",
        "ballot",
        "PATIENCE)):\n            return\n        yield",
        "PATIENCE)):\n            if busy:\n                from putifabsent.errors import NameTaken\n\n"
        "                raise NameTaken(name.path)\n            return\n        yield",
        NEVER_GRANTED,
    ),
    Mutant(
        "a refused lock refuses the creation",
        "ballot",
        "PATIENCE)):\n            return\n        yield",
        "PATIENCE)):\n            if hasattr(outcome, 'error'):\n                raise outcome.error\n"
        "            return\n        yield",
        REFUSED,
    ),
    Mutant(
        "one's own lock is waited for",
        "ballot",
        " and outcome.by != turn.owner",
        "",
        "test_a_lock_that_is_held_by_oneself_is_ones_own",
    ),
    Mutant(
        "nobody looks while waiting",
        "ballot",
        "        yield from glance(name, creation)\n",
        "",
        "test_whoever_waits_sees_that_another_has_created_the_name",
    ),
    Mutant(
        "a glance takes what is accepted for decided",
        "ballot",
        "    value = scene.decided(scene.incarnation)\n    if value is not None and not",
        "    accept = scene.highest(scene.incarnation)\n    value = accept and accept.value\n"
        "    if value is not None and not",
        "test_what_another_has_put_to_the_vote_is_not_taken_for_decided",
    ),
    Mutant(
        "an interruption of the release is swallowed",
        "ballot",
        "contextlib.suppress(Exception):  # the lease ends by itself",
        "contextlib.suppress(BaseException):",
        "test_an_interruption_of_the_release_says_what_it_interrupted",
    ),
)
