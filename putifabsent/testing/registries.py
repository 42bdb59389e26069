"""The suites for registries of claims, and for locks: what ``putifabsent.backends.registries`` promises."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import ClassVar, Literal

import pytest

from putifabsent.backends.registries import (
    Absent,
    Acquired,
    Claim,
    Claimed,
    ClaimPage,
    Claims,
    Forgotten,
    FoundClaim,
    Free,
    Held,
    Lock,
    Maybe,
    NotAsExpected,
    Refused,
    Released,
    TryAgain,
)
from putifabsent.testing.asking import (
    InBothColours,
    Registry,
    all_pages,
    answered,
    cancelled,
    first_claim,
    forked,
    together,
)

WRONG: dict[str, Callable[[Claim], Claim | None]] = {
    "none": lambda _: None,
    "incarnation": lambda there: replace(there, incarnation=there.incarnation + 1),
    "live": lambda there: replace(there, live=not there.live),
    "token": lambda there: replace(there, token=str(uuid.uuid4())),
}


class ClaimsTests(InBothColours):
    """What every registry of claims promises. Subclass it; its fixtures are ``claims``, perhaps ``place``.

    ``claims`` is the registry under test, ready to be used.

    Every test runs in both colours, by the methods and by their asynchronous twins, which are called on a
    loop that ends with the call.
    """

    several_pages: ClassVar[int] = 300  # claims of 4200 bytes each that make more than one page
    # What a careless registry takes for one another, or for a key of its own. Each must be kept, or refused.
    odd_names: ClassVar[tuple[str, ...]] = (
        "plain", "PLAIN", "with space", " leading", "trailing ", "a+b", "a b", "%41", "A", "a", "~", "a~1~b",
        "#", "##", "#plain", "?x=1", "*", "[x]", "{x}", "'quoted\"", "back\\slash", "tab\there", "new\nline",
        "\x7f", "\x01", ".", "..", "caf\u00e9", "cafe\u0301", "\u65e5\u672c", "\U0001f600", "\ufeff",
        "\uffff", "", "0", "1.0", "null", "None",
    )  # fmt: skip

    @pytest.fixture
    def place(self) -> str:
        """Return an address under which there is no claim; by default a new one of no store."""
        return f"test://{uuid.uuid4()}"

    @pytest.fixture
    def ask(self, claims: Claims, colour: Literal["sync", "async"]) -> Registry:
        return Registry(claims, colour)

    # --- one identity

    def test_an_identity_without_a_claim_is_absent(self, ask: Registry, place: str) -> None:
        assert ask.read(f"{place}/name") == Absent()

    def test_a_claim_is_kept_as_it_was_written(self, ask: Registry, place: str) -> None:
        """All of it, and for its identity alone."""
        claim = first_claim(f"{place}/name")
        assert ask.write(f"{place}/name", claim, None) == Claimed()
        assert ask.read(f"{place}/name") == FoundClaim(claim)
        assert ask.read(f"{place}/name2") == Absent()
        assert ask.read(f"{place}/folder/name") == Absent()

    def test_a_loser_gets_the_winner(self, ask: Registry, place: str) -> None:
        """By the answer itself; and nothing is changed."""
        winner, loser = first_claim(place), first_claim(place)
        ask.write(f"{place}/name", winner, None)
        assert ask.write(f"{place}/name", loser, None) == NotAsExpected(winner)
        assert ask.read(f"{place}/name") == FoundClaim(winner)

    def test_a_name_lives_through_its_incarnations(self, ask: Registry, place: str) -> None:
        """Live, dead, live again: each only after the one before it."""
        name = f"{place}/name"
        first = first_claim(name)
        dead = replace(first, live=False)
        second = replace(first_claim(name), incarnation=2)
        assert ask.write(name, first, None) == Claimed()
        assert ask.write(name, second, dead) == NotAsExpected(first)
        assert ask.write(name, dead, first) == Claimed()
        assert ask.write(name, dead, first) == NotAsExpected(dead)
        assert ask.write(name, second, dead) == Claimed()
        assert ask.write(name, dead, first) == NotAsExpected(second)
        assert ask.read(name) == FoundClaim(second)

    @pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
    def test_each_part_of_what_was_expected_counts(
        self, ask: Registry, place: str, wrong: Callable[[Claim], Claim | None]
    ) -> None:
        """Incarnation, live or dead, token; and that there is one at all."""
        name = f"{place}/name"
        there = replace(first_claim(name), incarnation=2)
        ask.write(name, there, None)
        assert ask.write(name, first_claim(name), wrong(there)) == NotAsExpected(there)
        assert ask.read(name) == FoundClaim(there)

    def test_what_is_expected_of_nothing_is_not_there(self, ask: Registry, place: str) -> None:
        claim = first_claim(place)
        assert ask.write(f"{place}/name", claim, claim) == NotAsExpected(None)
        assert ask.read(f"{place}/name") == Absent()

    def test_no_other_part_of_what_was_expected_counts(self, ask: Registry, place: str) -> None:
        """The token stands for the creation, with its key and its writer."""
        name = f"{place}/name"
        there = first_claim(name)
        ask.write(name, there, None)
        known = replace(there, key="elsewhere", writer="somebody")
        assert ask.write(name, replace(there, live=False), known) == Claimed()

    def test_a_write_sent_again_finds_itself(self, ask: Registry, place: str) -> None:
        """So is a lost answer resolved: not as expected, and the token says that it was me."""
        claim = first_claim(place)
        ask.write(f"{place}/name", claim, None)
        assert ask.write(f"{place}/name", claim, None) == NotAsExpected(claim)

    def test_a_claim_that_is_forgotten_is_as_if_it_had_never_been(self, ask: Registry, place: str) -> None:
        """Read, listed and decided anew; and its neighbour is not touched."""
        name, beside = f"{place}/name", f"{place}/name2"
        first, second = first_claim(name), first_claim(name)
        ask.write(name, first, None)
        ask.write(beside, first_claim(beside), None)
        assert ask.forget(name, first) == Forgotten()
        assert ask.read(name) == Absent()
        assert [entry.identity for entry in all_pages(ask.list, place)] == [beside]
        assert ask.write(name, second, None) == Claimed()

    @pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
    def test_only_the_claim_that_was_expected_is_forgotten(
        self, ask: Registry, place: str, wrong: Callable[[Claim], Claim | None]
    ) -> None:
        name = f"{place}/name"
        there = replace(first_claim(name), incarnation=2)
        ask.write(name, there, None)
        assert ask.forget(name, wrong(there) or first_claim(name)) == NotAsExpected(there)
        assert ask.read(name) == FoundClaim(there)

    def test_what_is_not_there_cannot_be_forgotten(self, ask: Registry, place: str) -> None:
        """So is a lost answer resolved."""
        assert ask.forget(f"{place}/name", first_claim(place)) == NotAsExpected(None)

    # --- identities

    def test_no_identity_is_taken_for_another(self, ask: Registry, place: str) -> None:
        """Kept as it is, or refused; and the listing has it as it was given."""
        kept: dict[str, Claim] = {}
        for odd in self.odd_names:
            identity = f"{place}/{odd}"
            claim = first_claim(identity)
            outcome = ask.write(identity, claim, None)
            assert isinstance(outcome, (Claimed, Refused)), f"{identity!r}: {outcome}"
            if isinstance(outcome, Claimed):
                kept[identity] = claim
        assert f"{place}/plain" in kept
        for identity, claim in kept.items():
            assert ask.read(identity) == FoundClaim(claim), repr(identity)
        assert dict(all_pages(ask.list, place)) == kept

    def test_no_folder_is_taken_for_another(self, ask: Registry, place: str) -> None:
        kept = {}
        for odd in (odd for odd in self.odd_names if odd not in ("", ".", "..")):
            identity = f"{place}/{odd}/name"
            kept[odd] = first_claim(identity)
            assert isinstance(ask.write(identity, kept[odd], None), (Claimed, Refused))
        for odd, claim in kept.items():
            listed = all_pages(ask.list, f"{place}/{odd}")
            assert listed in ([], [(f"{place}/{odd}/name", claim)]), repr(odd)

    @pytest.mark.parametrize(("folder", "name"), [(100, 1500), (3000, 10), (5000, 5000)])
    def test_an_identity_may_be_longer_than_any_key(
        self, ask: Registry, place: str, folder: int, name: int
    ) -> None:
        """Two that differ at their end are two; both are read, decided and listed by their full names."""
        where = f"{place}/{'f' * folder}"
        one, other = f"{where}/{'ü' * name}1", f"{where}/{'ü' * name}2"
        first, second = first_claim("one"), first_claim("other")
        assert ask.write(one, first, None) == Claimed()
        assert ask.read(other) == Absent()
        assert ask.write(other, second, None) == Claimed()
        assert ask.write(one, second, None) == NotAsExpected(first)
        assert ask.read(one) == FoundClaim(first)
        assert dict(all_pages(ask.list, where)) == {one: first, other: second}
        assert dict(all_pages(ask.sweep, place)) == {one: first, other: second}
        assert all_pages(ask.list, f"{where}f") == []

    @pytest.mark.parametrize("bad", ["a\0b", "\ud800", "a\udcffb"], ids=ascii)
    def test_what_cannot_be_kept_is_refused(self, ask: Registry, place: str, bad: str) -> None:
        identity = f"{place}/{bad}"
        assert isinstance(ask.write(identity, first_claim(place), None), Refused)
        assert isinstance(ask.read(identity), Refused)
        assert isinstance(ask.list(identity), Refused)
        assert all_pages(ask.list, place) == []

    def test_an_identity_without_a_folder_is_refused(self, ask: Registry) -> None:
        """It is no name of any store."""
        for identity in ("", "name"):
            assert isinstance(ask.write(identity, first_claim(identity), None), Refused)
            assert isinstance(ask.read(identity), Refused)
            assert isinstance(ask.forget(identity, first_claim(identity)), Refused)

    # --- listing

    def test_a_listing_has_the_claims_of_its_folder_alone(self, ask: Registry, place: str) -> None:
        """Live and dead; nothing deeper, nothing beside."""
        here = {f"{place}/here/{number}": first_claim(str(number)) for number in range(3)}
        for identity, claim in here.items():
            ask.write(identity, claim, None)
        ended = f"{place}/here/0"
        ask.write(ended, replace(here[ended], live=False), here[ended])
        here[ended] = replace(here[ended], live=False)
        for identity in (f"{place}/here/deeper/4", f"{place}/here-too/5", f"{place}/here", f"{place}/6"):
            ask.write(identity, first_claim(identity), None)
        assert dict(all_pages(ask.list, f"{place}/here")) == here

    def test_a_folder_without_claims_lists_nothing(self, ask: Registry, place: str) -> None:
        assert ask.list(f"{place}/nowhere") == ClaimPage(())

    def test_each_claim_is_in_one_page_of_a_long_listing(self, claims: Claims, place: str) -> None:
        written = {}
        for number in range(self.several_pages):
            written[f"{place}/{number}"] = claim = replace(first_claim(place), key=f"{number:04000}")
            assert claims.write(f"{place}/{number}", claim, None) == Claimed()
        for listing in (claims.list, claims.sweep):
            listed = all_pages(listing, place)
            assert len(listed) == len(written)
            assert dict(listed) == written

    def test_a_sweep_has_all_that_is_in_a_place_and_below(self, ask: Registry, place: str) -> None:
        inside = {f"{place}/here/{name}": first_claim(name) for name in ("1", "a/2", "a/b/3", "%")}
        for identity, claim in inside.items():
            ask.write(identity, claim, None)
        for identity in (f"{place}/here-too/5", f"{place}/here", f"{place}/6", f"{place}x/here/7"):
            ask.write(identity, first_claim(identity), None)
        assert dict(all_pages(ask.sweep, f"{place}/here")) == inside

    # --- racing, and other processes

    def test_of_many_writers_one_claims_each_identity(self, claims: Claims, place: str) -> None:
        """64 of them, released together at each name; all others get the winner."""
        for number in range(5):
            identity = f"{place}/{number}"
            _one_wins(claims, identity, [first_claim(identity) for _ in range(64)], None)

    def test_of_many_successors_one_claims_the_next_incarnation(self, claims: Claims, place: str) -> None:
        identity = f"{place}/name"
        dead = replace(first_claim(identity), live=False)
        claims.write(identity, dead, None)
        mine = [replace(first_claim(identity), incarnation=2) for _ in range(64)]
        _one_wins(claims, identity, mine, dead)

    def test_a_cancelled_write_is_whole_or_absent(self, claims: Claims, place: str) -> None:
        """It can be sent again, whenever the cancellation came."""
        for turns in range(8):
            identity = f"{place}/{turns}"
            claim = first_claim(identity)
            asyncio.run(cancelled(claims.write_async(identity, claim, None), turns))
            assert claims.write(identity, claim, None) in (Claimed(), NotAsExpected(claim))
            assert claims.read(identity) == FoundClaim(claim)

    def test_a_forked_child_can_claim_and_so_can_its_parent(self, ask: Registry, place: str) -> None:
        assert _claims_and_reads(ask, f"{place}/before")
        assert forked(partial(_claims_and_reads, ask, f"{place}/child")) == 0
        assert _claims_and_reads(ask, f"{place}/after")
        assert {identity for identity, _ in all_pages(ask.list, place)} == {
            f"{place}/{name}" for name in ("before", "child", "after")
        }

    # --- the registry itself

    def test_a_registry_has_an_identity_of_its_own(self, claims: Claims) -> None:
        known = claims.identity()
        assert known
        assert claims.identity() == known


class LostClaimTests:
    """A lost answer is never called a win, a loss or a failure; goes with ``ClaimsTests``."""

    def test_an_applied_write_without_an_answer_may_have_happened(
        self, ask: Registry, unanswered: Claims, place: str
    ) -> None:
        """The token tells, later."""
        claim = first_claim(place)
        assert isinstance(ask.of(unanswered).write(f"{place}/name", claim, None), Maybe)
        assert ask.read(f"{place}/name") == FoundClaim(claim)

    def test_a_write_that_never_arrived_may_have_happened(
        self, ask: Registry, unheard: Claims, place: str
    ) -> None:
        """Its sender can't tell it from one that did."""
        claim = first_claim(place)
        assert isinstance(ask.of(unheard).write(f"{place}/name", claim, None), Maybe)
        assert ask.read(f"{place}/name") == Absent()

    def test_a_lost_loss_may_have_been_a_win(self, ask: Registry, unanswered: Claims, place: str) -> None:
        winner = first_claim(place)
        ask.write(f"{place}/name", winner, None)
        assert isinstance(ask.of(unanswered).write(f"{place}/name", first_claim(place), None), Maybe)
        assert ask.read(f"{place}/name") == FoundClaim(winner)

    def test_reading_without_an_answer_is_to_be_tried_again(
        self, ask: Registry, unanswered: Claims, unheard: Claims, place: str
    ) -> None:
        for registry in (unanswered, unheard):
            other = ask.of(registry)
            for outcome in (other.read(f"{place}/name"), other.list(place), other.sweep(place)):
                assert isinstance(outcome, TryAgain), outcome


def _one_wins(claims: Claims, identity: str, mine: list[Claim], expected: Claim | None) -> None:
    def write(number: int) -> tuple[Claim, object]:
        return mine[number], answered(lambda: claims.write(identity, mine[number], expected))

    outcomes = together(len(mine), write)
    winners = [claim for claim, outcome in outcomes if outcome == Claimed()]
    assert len(winners) == 1, f"{len(winners)} winners"
    others = [outcome for claim, outcome in outcomes if claim not in winners]
    assert others == [NotAsExpected(winners[0])] * (len(outcomes) - 1)
    assert claims.read(identity) == FoundClaim(winners[0])


def _claims_and_reads(ask: Registry, identity: str) -> bool:
    claim = first_claim(identity)
    written: object = ask.write(identity, claim, None)
    read: object = ask.read(identity)
    return (written, read) == (Claimed(), FoundClaim(claim))


# --- locks

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
        return Registry(lock, colour)

    # --- taking it

    def test_a_held_lock_is_not_taken(self, ask: Registry, key: str) -> None:
        """The answer says who holds it."""
        assert ask.acquire(key, "one", _LEASE) == Acquired()
        assert ask.acquire(key, "other", _LEASE) == Held("one")

    def test_a_held_lock_stays_so_until_its_lease_ends(self, lock: Lock, key: str) -> None:
        """So many questions take more than a thousandth of it, and less than all."""
        assert lock.acquire(key, "one", _LEASE / 10) == Acquired()
        assert {lock.acquire(key, "other", _LEASE) for _ in range(5000)} == {Held("one")}

    def test_a_holder_who_asks_again_finds_itself(self, ask: Registry, key: str) -> None:
        """So is a lost answer resolved."""
        ask.acquire(key, "one", _LEASE)
        assert ask.acquire(key, "one", _LEASE) == Held("one")

    def test_each_key_is_a_lock_of_its_own(self, ask: Registry, key: str) -> None:
        odd = ("", " ", "~", "{a}", "{a}b", "a b", "caf\u00e9", "cafe\u0301", "\U0001f600", "x" * 5000)
        for number, name in enumerate(odd):
            assert ask.acquire(f"{key}{name}", str(number), _LEASE) == Acquired(), repr(name)
        for number, name in enumerate(odd):
            assert ask.release(f"{key}{name}", str(number)) == Released(), repr(name)

    @pytest.mark.parametrize("bad", ["a\0b", "\ud800"], ids=ascii)
    def test_a_key_that_cannot_be_kept_is_refused(self, ask: Registry, key: str, bad: str) -> None:
        assert isinstance(ask.acquire(f"{key}{bad}", "one", _LEASE), Refused)

    @pytest.mark.parametrize("lease", [0, -1, 0.0001, float("inf"), float("nan")])
    def test_a_lease_is_some_time(self, ask: Registry, key: str, lease: float) -> None:
        """What is none is the caller's mistake, and takes no lock."""
        with pytest.raises(ValueError, match="lease"):
            ask.acquire(key, "one", lease)
        assert ask.acquire(key, "other", _LEASE) == Acquired()

    # --- giving it back

    def test_a_released_lock_is_free(self, ask: Registry, key: str) -> None:
        ask.acquire(key, "one", _LEASE)
        assert ask.release(key, "one") == Released()
        assert ask.release(key, "one") == Free()
        assert ask.acquire(key, "other", _LEASE) == Acquired()

    def test_another_owner_cannot_release_it(self, ask: Registry, key: str) -> None:
        ask.acquire(key, "one", _LEASE)
        assert ask.release(key, "other") == Held("one")
        assert isinstance(ask.acquire(key, "third", _LEASE), Held)

    def test_a_lease_ends_by_itself(self, lock: Lock, key: str) -> None:
        """And whoever overslept it can't release what is another's now."""
        assert lock.acquire(key, "one", _SHORT) == Acquired()
        assert any(lock.acquire(key, "other", _LEASE) == Acquired() for _ in range(_QUESTIONS))
        assert lock.release(key, "one") == Held("other")
        assert lock.release(key, "other") == Released()

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
        assert _locks_and_releases(ask, key)
        assert forked(partial(_locks_and_releases, ask, key)) == 0
        assert _locks_and_releases(ask, key)


class LostLockTests:
    """A lost answer is never called a success or a failure; goes with ``LockTests``."""

    def test_a_lock_taken_without_an_answer_may_be_held(
        self, ask: Registry, unanswered: Lock, key: str
    ) -> None:
        assert isinstance(ask.of(unanswered).acquire(key, "one", _LEASE), Maybe)
        assert ask.acquire(key, "one", _LEASE) == Held("one")

    def test_a_request_that_never_arrived_may_have_taken_it(
        self, ask: Registry, unheard: Lock, key: str
    ) -> None:
        """Its sender can't tell it from one that did."""
        assert isinstance(ask.of(unheard).acquire(key, "one", _LEASE), Maybe)
        assert ask.acquire(key, "other", _LEASE) == Acquired()

    def test_a_release_without_an_answer_may_have_happened(
        self, ask: Registry, unanswered: Lock, unheard: Lock, key: str
    ) -> None:
        ask.acquire(key, "one", _LEASE)
        assert isinstance(ask.of(unheard).release(key, "one"), Maybe)
        assert isinstance(ask.acquire(key, "other", _LEASE), Held)
        assert isinstance(ask.of(unanswered).release(key, "one"), Maybe)
        assert ask.acquire(key, "other", _LEASE) == Acquired()


def _acquires(lock: Lock, key: str, number: int) -> tuple[str, object]:
    return str(number), answered(lambda: lock.acquire(key, str(number), _LEASE))


def _locks_and_releases(ask: Registry, key: str) -> bool:
    owner = str(uuid.uuid4())
    took: object = ask.acquire(key, owner, _LEASE)
    gave: object = ask.release(key, owner)
    return (took, gave) == (Acquired(), Released())
