"""Random histories: other writers, deletions, lost and late requests. Nobody is ever told what is not so."""

from __future__ import annotations

import random
import re
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from putifabsent.backends.base import Creation, InMemory
from putifabsent.shim.names import ordinary
from tests.shim.scripted import REAL, Shim, numbered
from tests.shim.world import MISHAPS, Thing, World, Writer

if TYPE_CHECKING:
    from putifabsent.shim.names import Name

PATH = "bucket/t/name"
SNAPSHOT = re.compile(r"snapshot-(?P<n>\d+)")
ALIASES = ("bucket/t/v3.a", "bucket/t/v3.b", "bucket/t/v3.c")
KINDS = ("small", "large", "rename", "large rename", "copy", "large copy")
WRITERS = 2
"""At work at the same time; a history has as many as it likes, one after the other."""


class History:
    """Writers that take steps, requests that land late, and time; a move that can't be made is none.

    Attributes
    ----------
    moves
        The methods that a history is made of; one that is here twice is twice as likely.
    """

    moves: ClassVar[tuple[str, ...]] = (*["a_request_is_answered"] * 8, *["a_request_meets_a_mishap"] * 5)

    def __init__(self, shim: Shim = REAL, *, resends: bool = False) -> None:
        self.shim = shim
        self.world = World(resends=resends)
        self.writers: list[Writer] = []
        self.count = 0

    def play(self, moves: list[tuple[str, int]]) -> None:
        for move, number in moves:
            getattr(self, move)(number)

    def creating(self, name: Name, kind: str) -> None:
        """Start a writer of ``name``, unless enough are at work."""
        if len(self.writers) == WRITERS:
            return
        self.count += 1
        token = f"token-{self.count}"
        data = f"bytes of {token}".encode()
        creation = Creation(token, "writer", "bucket/.putifabsent")
        most = 1 if "large" in kind else 2**20
        source = None
        if "rename" in kind or "copy" in kind:
            source = f"bucket/sources/{token}"
            self.world.place(source, data, None)
            protocol = (self.shim.rename if "rename" in kind else self.shim.copy)(
                source, name, creation, largest_put=most
            )
        else:
            protocol = self.shim.create(name, InMemory(data), creation, largest_put=most)
        writer = Writer(self.world, name, token, data, protocol, source)
        writer.begin()
        self.writers.append(writer)

    def step(self, number: int, fate: str) -> None:
        if self.writers:
            writer = self.writers[number % len(self.writers)]
            writer.step(fate)
            if writer.ended is not None:
                self.writers.remove(writer)
                self.ended(writer)

    def ended(self, writer: Writer) -> None:
        """Check what an ended writer means for the others."""

    def a_request_is_answered(self, number: int) -> None:
        self.step(number, "answered")

    def a_request_meets_a_mishap(self, number: int) -> None:
        self.step(number, MISHAPS[number // WRITERS % len(MISHAPS)])

    def a_late_request_lands(self, number: int) -> None:
        if self.world.late:
            self.world.land(number % len(self.world.late))

    def time_passes(self, number: int) -> None:
        self.world.now += timedelta(minutes=(0, 7)[number % 2], seconds=1)


class PlainNames(History):
    """One name, which anybody creates, deletes and creates again."""

    moves = (
        *History.moves,
        *("a_writer_begins", "a_writer_begins", "somebody_deletes", "somebody_deletes", "somebody_creates"),
        *("a_late_request_lands", "a_store_tells_who_holds_a_name"),
    )

    def a_writer_begins(self, number: int) -> None:
        self.creating(ordinary(PATH), KINDS[number % len(KINDS)])

    def a_store_tells_who_holds_a_name(self, number: int) -> None:
        self.world.tells = number % 2 == 0

    def somebody_deletes(self, _: int) -> None:
        self.world.objects.pop(PATH, None)

    def somebody_creates(self, _: int) -> None:
        if PATH not in self.world.objects:
            self.world.place(PATH, b"foreign", None)

    def ended(self, writer: Writer) -> None:
        if writer.source is not None and not writer.is_born():
            assert writer.source in self.world.objects, "the source is gone, and nothing was created from it"


class NumberedNames(History):
    """A series that grows and expires, and writers that may be paused past the expiry of their number.

    They may be paused between any two of their requests; what comes in parts shows when it was begun.

    Not searched for: *two* paused writers of consecutive numbers, where the second takes what the first
    has left behind for its living predecessor.
    """

    moves = (
        *History.moves,
        *("a_writer_begins_the_next_number",) * 3,
        *("the_oldest_expires", "others_go_on", "time_passes", "whole_retentions_pass") * 2,
        "a_late_request_lands",
    )

    def __init__(self, shim: Shim = REAL, *, resends: bool = False) -> None:
        super().__init__(shim, resends=resends)
        self.world.place(self.path_of(1), b"first", "token-0")
        self.acknowledged = {1: "token-0"}

    @staticmethod
    def path_of(number: int) -> str:
        return f"bucket/t/snapshot-{number}"

    def numbers(self) -> list[int]:
        found = (SNAPSHOT.fullmatch(name.rpartition("/")[2]) for name in self.world.objects)
        return sorted(int(match["n"]) for match in found if match)

    def births(self, number: int) -> list[str | None]:
        return [thing.token for thing in self.world.born if thing.name == self.path_of(number)]

    def a_writer_begins_the_next_number(self, number: int) -> None:
        following = self.numbers()[-1] + 1
        name = numbered(ordinary(self.path_of(following)), following, SNAPSHOT, self.path_of(following - 1))
        self.creating(name, ("small", "large")[number % 2])

    def whole_retentions_pass(self, number: int) -> None:
        """Others commit, and all that was there before expires: a writer that is paused sees none of it."""
        before = self.numbers()
        self.others_go_on(1 + number % 2)
        if self.numbers() != before:
            for each in before:
                del self.world.objects[self.path_of(each)]

    def others_go_on(self, number: int) -> None:
        """Other writers, who are never in trouble, commit a few."""
        for _ in range(number % 3):
            following = self.numbers()[-1] + 1
            self.acknowledged[following] = f"other-{following}"
            self.world.place(self.path_of(following), b"other", f"other-{following}")

    def the_oldest_expires(self, number: int) -> None:
        for _ in range(1 + number % 3):
            if len(numbers := self.numbers()) > 1:
                del self.world.objects[self.path_of(numbers[0])]

    def ended(self, writer: Writer) -> None:
        assert writer.name.series is not None
        number = writer.name.series.number
        if writer.ended == "won":
            if len(self.births(number - 1)) == 1:
                assert self.acknowledged.get(number) is None, "a number is acknowledged twice"
            self.acknowledged[number] = writer.token
        if writer.ended == "taken" and writer.withdrew:
            assert self.births(number)[0] != writer.token, (
                "the first creation of a number is told that it lost"
            )
            there = self.world.objects.get(self.path_of(number))
            assert there is None or there.token != writer.token, "a loser's number is still there"


class AliasedNames(History):
    """Several names of one identity."""

    moves = (
        *History.moves,
        *("a_writer_begins",) * 3,
        "somebody_deletes",
        "time_passes",
        "a_late_request_lands",
    )

    def __init__(self, shim: Shim = REAL, *, resends: bool = False) -> None:
        super().__init__(shim, resends=resends)
        self.acknowledged: set[str | None] = set()

    def a_writer_begins(self, number: int) -> None:
        rank = number % len(ALIASES)
        others = (*ALIASES[:rank], *ALIASES[rank + 1 :])
        self.creating(
            ordinary(ALIASES[rank])._replace(aliases=others, rank=rank), ("small", "large")[number % 2]
        )

    def first(self, token: str | None) -> Thing:
        return next(thing for thing in self.world.born if thing.token == token)

    def somebody_deletes(self, number: int) -> None:
        self.world.objects.pop(ALIASES[number % len(ALIASES)], None)

    def ended(self, writer: Writer) -> None:
        # Where a late request has brought back what was deleted, only the store could have kept it out.
        there = {thing.token for thing in self.world.objects.values() if thing == self.first(thing.token)}
        if writer.ended == "won":
            self.acknowledged.add(writer.token)
        assert len(self.acknowledged & there) <= 1, "two names of one identity are acknowledged"
        if writer.ended == "taken":
            assert writer.token not in there or not writer.withdrew, "a loser's name is still there"


HISTORIES: tuple[type[History], ...] = (PlainNames, NumberedNames, AliasedNames)
LONGEST = 60
SEARCH = settings(max_examples=300, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("history", HISTORIES)
def test_no_history_makes_a_writer_hear_what_is_not_so(history: type[History]) -> None:
    @SEARCH
    @given(st.lists(st.tuples(st.sampled_from(history.moves), st.integers(0, 99)), max_size=LONGEST))
    def play(moves: list[tuple[str, int]]) -> None:
        history(REAL).play(moves)

    play()


@pytest.mark.parametrize("history", HISTORIES)
def test_none_of_many_more_histories_does(history: type[History]) -> None:
    # hypothesis shows the shortest history; this shows many more in the same time.
    assert found_out(history, REAL, most=3000) is None


def found_out(history: type[History], shim: Shim, *, most: int, resends: bool = False) -> str | None:
    """Play random histories until a protocol lies, or does harm; return what it did."""
    for seed in range(most):
        chance = random.Random(seed)
        moves = [(move, chance.randrange(100)) for move in chance.choices(history.moves, k=LONGEST)]
        try:
            history(shim, resends=resends).play(moves)
        except AssertionError as error:
            return f"history {seed}: {error}"
    return None
