"""The suite for any lock: what ``putifabsent.backends.registries`` promises of one, and in a race."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Literal

import pytest

from putifabsent.backends.registries import Acquired, Free, Held, Lock, Maybe, Refused, Released
from putifabsent.testing.asking import (
    InBothColours,
    Registry,
    answered,
    forked,
    together,
)

_LEASE = 600.0
_SHORT = 0.05
# A lease of 50 ms has ended before so many questions are answered, or it never will.
_QUESTIONS = 200_000


class LockTests(InBothColours):
    """What every lock promises. Subclass it, and give it the fixture ``lock``, perhaps ``key``."""

    @pytest.fixture
    def key(self) -> str:
        """Return a key that nobody holds; by default a new one."""
        return f"test://{uuid.uuid4()}/name"

    @pytest.fixture
    def ask(self, lock: Lock, colour: Literal["sync", "async"]) -> Registry:
        """Return the lock, in the colour of this run."""
        return Registry(lock, colour)

    # --- taking it

    def test_a_held_lock_is_not_taken(self, ask: Registry, key: str) -> None:
        """The answer says who holds it, and for how long at most."""
        assert ask.acquire(key, "one", _LEASE) == Acquired()
        assert 0 < _left(ask.acquire(key, "other", _LEASE), "one") <= _LEASE

    def test_a_holder_who_asks_again_finds_itself(self, ask: Registry, key: str) -> None:
        """So is a lost answer resolved; and the lease is not a new one."""
        ask.acquire(key, "one", _LEASE)
        assert _left(ask.acquire(key, "one", 2 * _LEASE), "one") <= _LEASE

    def test_each_key_is_a_lock_of_its_own(self, ask: Registry, key: str) -> None:
        """However odd, and however long."""
        odd = ("", " ", "~", "{a}", "{a}b", "a b", "caf\u00e9", "cafe\u0301", "\U0001f600", "x" * 5000)
        for number, name in enumerate(odd):
            assert ask.acquire(f"{key}{name}", str(number), _LEASE) == Acquired(), repr(name)
        for number, name in enumerate(odd):
            assert ask.release(f"{key}{name}", str(number)) == Released(), repr(name)

    @pytest.mark.parametrize("bad", ["a\0b", "\ud800"], ids=ascii)
    def test_a_key_that_cannot_be_kept_is_refused(self, ask: Registry, key: str, bad: str) -> None:
        """NUL, and what has no UTF-8 form."""
        assert isinstance(ask.acquire(f"{key}{bad}", "one", _LEASE), Refused)

    @pytest.mark.parametrize("lease", [0, -1, 0.0001, float("inf"), float("nan")])
    def test_a_lease_is_some_time(self, ask: Registry, key: str, lease: float) -> None:
        """What is none is the caller's mistake, and takes no lock."""
        with pytest.raises(ValueError, match="lease"):
            ask.acquire(key, "one", lease)
        assert ask.acquire(key, "other", _LEASE) == Acquired()

    # --- giving it back

    def test_a_released_lock_is_free(self, ask: Registry, key: str) -> None:
        """For anybody."""
        ask.acquire(key, "one", _LEASE)
        assert ask.release(key, "one") == Released()
        assert ask.release(key, "one") == Free()
        assert ask.acquire(key, "other", _LEASE) == Acquired()

    def test_another_owner_cannot_release_it(self, ask: Registry, key: str) -> None:
        """The answer says whose it is."""
        ask.acquire(key, "one", _LEASE)
        _left(ask.release(key, "other"), "one")
        assert isinstance(ask.acquire(key, "third", _LEASE), Held)

    def test_a_lease_ends_by_itself(self, lock: Lock, key: str) -> None:
        """And whoever overslept it can neither extend nor release what is another's now."""
        assert lock.acquire(key, "one", _SHORT) == Acquired()
        assert any(lock.acquire(key, "other", _LEASE) == Acquired() for _ in range(_QUESTIONS))
        for outcome in (lock.extend(key, "one", _LEASE), lock.release(key, "one")):
            _left(outcome, "other")
        assert lock.release(key, "other") == Released()

    # --- keeping it

    def test_a_holder_extends_its_lease(self, ask: Registry, key: str) -> None:
        """From now on."""
        ask.acquire(key, "one", _LEASE)
        assert ask.extend(key, "one", 10 * _LEASE) == Acquired()
        assert _LEASE < _left(ask.acquire(key, "other", _LEASE), "one") <= 10 * _LEASE

    def test_another_owner_cannot_extend_it(self, ask: Registry, key: str) -> None:
        """Its lease stays what it is."""
        ask.acquire(key, "one", _LEASE)
        _left(ask.extend(key, "other", 10 * _LEASE), "one")
        assert ask.acquire(key, "third", _LEASE).remaining <= _LEASE

    def test_a_free_lock_is_not_taken_by_extending_it(self, ask: Registry, key: str) -> None:
        """Its owner has lost it, and must ask again."""
        assert ask.extend(key, "one", _LEASE) == Free()
        assert ask.acquire(key, "other", _LEASE) == Acquired()

    # --- racing, and other processes

    def test_of_many_owners_one_goes_first(self, lock: Lock, key: str) -> None:
        """64 of them, released together; all others get its name."""
        for number in range(5):
            name = f"{key}{number}"
            outcomes = together(64, partial(_acquires, lock, name))
            winners = [owner for owner, outcome in outcomes if outcome == Acquired()]
            assert len(winners) == 1, f"{len(winners)} hold {name}"
            others = [outcome for owner, outcome in outcomes if owner != winners[0]]
            assert {outcome.by for outcome in others if isinstance(outcome, Held)} == set(winners)
            assert all(isinstance(outcome, Held) for outcome in others)

    def test_a_forked_child_can_lock_and_so_can_its_parent(self, ask: Registry, key: str) -> None:
        """With one lock, which the parent has used before."""
        assert _locks_and_releases(ask, key)
        assert forked(partial(_locks_and_releases, ask, key)) == 0
        assert _locks_and_releases(ask, key)

    def test_a_lock_that_can_be_used_passes_its_own_check(self, ask: Registry, lock: Lock) -> None:
        """Twice: it leaves nothing behind that would hinder the next."""
        ask.check()
        ask.check()
        assert lock.identity()


class LostLockTests:
    """A lost answer is never called a success or a failure; goes with ``LockTests``."""

    def test_a_lock_taken_without_an_answer_may_be_held(
        self, ask: Registry, unanswered: Lock, key: str
    ) -> None:
        """Asking again tells."""
        assert isinstance(ask.of(unanswered).acquire(key, "one", _LEASE), Maybe)
        _left(ask.acquire(key, "one", _LEASE), "one")

    def test_a_request_that_never_arrived_may_have_taken_it(
        self, ask: Registry, unheard: Lock, key: str
    ) -> None:
        """Its sender can't tell it from one that did."""
        assert isinstance(ask.of(unheard).acquire(key, "one", _LEASE), Maybe)
        assert ask.acquire(key, "other", _LEASE) == Acquired()

    def test_a_release_without_an_answer_may_have_happened(
        self, ask: Registry, unanswered: Lock, unheard: Lock, key: str
    ) -> None:
        """Lost on its way, or on the way back."""
        ask.acquire(key, "one", _LEASE)
        assert isinstance(ask.of(unheard).release(key, "one"), Maybe)
        assert isinstance(ask.acquire(key, "other", _LEASE), Held)
        assert isinstance(ask.of(unanswered).extend(key, "one", _LEASE), Maybe)
        assert isinstance(ask.of(unanswered).release(key, "one"), Maybe)
        assert ask.acquire(key, "other", _LEASE) == Acquired()


def _left(held: object, owner: str) -> float:
    """Return what is left of a lease, which must be this owner's."""
    assert isinstance(held, Held)
    assert held.by == owner
    return held.remaining


def _acquires(lock: Lock, key: str, number: int) -> tuple[str, object]:
    return str(number), answered(lambda: lock.acquire(key, str(number), _LEASE))


def _locks_and_releases(ask: Registry, key: str) -> bool:
    owner = str(uuid.uuid4())
    took: object = ask.acquire(key, owner, _LEASE)
    gave: object = ask.release(key, owner)
    return (took, gave) == (Acquired(), Released())
