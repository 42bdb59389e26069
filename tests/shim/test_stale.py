"""A writer that is paused past the expiry of its number, at random, is never told that it has won."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.shim.mutants import MUTANTS, Mutant
from tests.shim.scripted import REAL, Shim
from tests.shim.test_histories import NumberedNames

if TYPE_CHECKING:
    from tests.conftest import Note

SCHEDULES = 1000
MISHAPS = ("lost", "applied", "busy", "conflict")
LONGEST = 60
"""Requests; far more than a writer sends whose store answers at all."""

CONVICTED = (
    "nobody looks whether a win counts",
    "a predecessor that is gone proves nothing",
    "about as old is a win",
    "a next number that is gone proves nothing",
    "what came in parts is as old as its upload",
)


def pause(history: NumberedNames, chance: Random, *, past: int) -> None:
    """Have others commit, at least two beyond ``past``, and all up to there expire, and perhaps some more."""
    while history.numbers()[-1] < past + 2 or chance.random() < 1 / 2:
        history.world.now += timedelta(minutes=chance.choice([0, 1, 7, 60]))
        history.others_go_on(1)
    spared = {each.name.path for each in history.writers if chance.random() < 1 / 2}
    newest = history.numbers()[-1]
    last = chance.randint(past, newest - 1)
    for number in history.numbers():
        if number <= last and history.path_of(number) not in spared:
            del history.world.objects[history.path_of(number)]


def ended(shim: Shim, seed: int) -> str:
    """Play a writer that is paused once or twice, first before its number is there; say how it ends."""
    chance = Random(seed)
    history = NumberedNames(shim)
    for _ in range(chance.randrange(4)):
        history.others_go_on(1)
    in_parts = seed % 2
    history.a_writer_begins_the_next_number(in_parts)
    (writer,) = history.writers
    assert writer.name.series is not None
    pauses = {chance.randint(0, in_parts)}
    if seed // 2 % 2:
        pauses.add(chance.randint(2, 5))
    for step in range(LONGEST):
        if step in pauses:
            pause(history, chance, past=writer.name.series.number)
        history.step(
            0, chance.choice(MISHAPS) if step >= min(pauses) and chance.random() < 1 / 8 else "answered"
        )
        if writer.ended is not None:
            return writer.ended
    raise AssertionError(f"schedule {seed} does not end")


def acknowledged(shim: Shim) -> list[int]:
    """Return the schedules in which the stale writer has won, or was told what is not so."""
    found = []
    for seed in range(SCHEDULES):
        try:
            if ended(shim, seed) == "won":
                found.append(seed)
        except AssertionError:
            found.append(seed)
    return found


def test_no_stale_writer_is_acknowledged(note: Note) -> None:
    ends = Counter(ended(REAL, seed) for seed in range(SCHEDULES))
    note(dict(ends))
    assert set(ends) == {"taken", "unknown"}
    assert ends["taken"] > SCHEDULES / 4, "too few of them find out for certain"


@pytest.mark.parametrize("name", CONVICTED)
def test_a_protocol_that_acknowledges_one_is_convicted(name: str) -> None:
    (mutant,) = (each for each in MUTANTS if each.name == name)
    assert isinstance(mutant, Mutant)
    assert acknowledged(mutant.shim())
