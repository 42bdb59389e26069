"""What a table's records come to: its open instants, its turn, its completions since the horizon.

A state is a value. Nothing in it is anybody's opinion: whoever has read the same records has the same state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

EVERY = 64
"""A checkpoint has every such number. All readers must agree on it: another one is another form."""

KEPT = 256
"""So many completions a checkpoint remembers whole, and as many instants that were given up."""

NAMES = 4096
"""So many more instants it remembers by their names. Of all others, those up to the horizon are over."""

LANES = 256
"""Of so many lanes it remembers the last record."""


class Last(NamedTuple):
    """The last record of a lane.

    A lane is one appender, which appends one record after the other: whether each counts is known, however
    many records others have appended since. Whoever was interrupted uses its lane no more.
    """

    number: int
    token: str


@dataclass(frozen=True, slots=True)
class Opened:
    """An instant that somebody is writing."""

    session: str  # its owner
    token: str  # of the creation that opened it
    action: str = ""  # what it is, in its format's words; empty where its name does not say
    frees: str | None = None  # the instant that this one rolls back, or None
    lost: tuple[str, ...] = ()  # the sessions that it was taken from
    # The sessions that had it before it was rolled back, and opened once more: what they wrote is gone.
    before: tuple[str, ...] = ()

    @property
    def had(self) -> tuple[str, ...]:
        """All sessions that have had it, its owner the last."""
        return (*self.before, *self.lost, self.session)


@dataclass(frozen=True, slots=True)
class Completion:
    """A commit."""

    # instant, session, token: what was completed, by whom, in which creation.
    instant: str
    session: str
    token: str
    name: str  # its completed name, from the ledger's root
    body: str  # the key under which its bytes lie, from the ledger's root
    number: int  # of its record
    undone: bool = False  # whether it was rolled back since
    before: tuple[str, ...] = ()  # the sessions that had the instant before this one


class TurnName(NamedTuple):
    """What a turn is called outside the records of its life: each life counts its own from 1."""

    life: str  # the life of the table in which it was taken
    number: int  # of its record there

    def __str__(self) -> str:
        return f"{self.life}.{self.number}"


LONGEST_LEASE = 3600.0
"""Seconds: whoever dies in a turn holds the table up for so long."""


@dataclass(frozen=True, slots=True)
class Held:
    """The turn that somebody has."""

    number: int  # of its record: no two turns of a life are called the same
    # session, thread: whose it is.
    session: str
    thread: str
    lease: float  # seconds without a beat after which others may break it


@dataclass(frozen=True, slots=True)
class State:
    """What the first ``number`` records come to."""

    number: int = 0  # of the last of them
    open: Mapping[str, Opened] = field(default_factory=dict)  # the instants that are being written
    # Those that were given up, and are neither open nor completed since; with all sessions that had them.
    freed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    planned: frozenset[str] = frozenset()  # those of them that may be begun anew at any time, by their plans
    # By token, in the order of their records.
    completions: Mapping[str, Completion] = field(default_factory=dict)
    turn: Held | None = None
    first: str = ""  # the lowest instant that was ever opened: what is below is older than the ledger
    # Of instants up to this one, what the state does not show is forgotten. It rises by the lowest instant
    # first: one that a wrong clock has put ahead of all others does not move it.
    horizon: str = ""
    # Instants above the horizon that are over, and of which only the name is remembered.
    past: frozenset[str] = frozenset()
    # The numbers of the latest records, by token: a writer asks of these whether its own counts.
    tokens: Mapping[str, int] = field(default_factory=dict)
    # The last record of each lane that has appended lately.
    lasts: Mapping[str, Last] = field(default_factory=dict)
    dropped: int = 0  # the lanes that are not in ``lasts`` have appended nothing above this number
    latest: str | None = None  # the token of the last completion: only that one can still be unpublished
    # Which of the table's lives this is, one after the other; empty: none was begun, or it is a ledger of
    # version 0.1.0.
    life: str = ""
    moved: bool = False  # whether nothing follows: the records of version 0.1.0 go on in a life
    # every, kept, names, lanes: when checkpoints are due, and what they remember.
    every: int = EVERY
    kept: int = KEPT
    names: int = NAMES
    lanes: int = LANES

    @property
    def is_due(self) -> bool:
        """Whether the next record must be a checkpoint."""
        return (self.number + 1) % self.every == 0

    @property
    def turn_name(self) -> TurnName | None:
        return None if self.turn is None else TurnName(self.life, self.turn.number)

    @property
    def unpublished(self) -> Completion | None:
        """The one completion that may not be under its plain name yet.

        Nobody appends another before it has seen to the ones before.
        """
        last = None if self.latest is None else self.completions[self.latest]
        return None if last is None or last.undone else last

    def completed(self, instant: str) -> Completion | None:
        """Return the completion of an instant that stands; None: there is none."""
        standing = (each for each in self.completions.values() if not each.undone)
        return next((each for each in standing if each.instant == instant), None)

    def named(self, name: str) -> Completion | None:
        """Return the latest completion of a name from the root, undone or not."""
        found = [each for each in self.completions.values() if each.name == name]
        return max(found, key=lambda each: each.number, default=None)

    def knows(self, instant: str) -> bool:
        """Whether the instant was ever opened, as far as the state remembers more than its name."""
        return (
            instant in self.open
            or instant in self.freed
            or any(each.instant == instant for each in self.completions.values())
        )

    def rollbacks_of(self, instant: str) -> dict[str, Opened]:
        """Return its rollbacks that are open, whosever: one that crashed is gone on with by others."""
        return {each: opened for each, opened in self.open.items() if opened.frees == instant}

    def is_over(self, instant: str) -> bool:
        """Whether nothing but the name is remembered, or not even that: nobody may begin it any more."""
        return (instant in self.past or instant <= self.horizon) and not self.knows(instant)

    def unborn(self) -> State:
        """Return the state of a ledger that has no record, which remembers as much."""
        return State(every=self.every, kept=self.kept, names=self.names, lanes=self.lanes)

    def condensed(self) -> State:
        """Return what a checkpoint after this state remembers of it."""
        ordered = sorted(self.completions.values(), key=lambda each: each.number)
        freed = sorted(self.freed, key=lambda each: (each in self.planned, each))
        # Of what is being rolled back it must be known for as long whether it was completed.
        named = {each.frees for each in self.open.values()}
        older = [each for each in ordered[: -self.kept] if each.instant in named]
        whole = replace(
            self,
            freed={instant: self.freed[instant] for instant in freed[-self.kept :]},
            planned=self.planned.intersection(freed[-self.kept :]),
            completions={each.token: each for each in (*older, *ordered[-self.kept :])},
        )
        dropped = {*(each.instant for each in ordered[: -self.kept]), *freed[: -self.kept]}
        past = sorted(self.past | {each for each in dropped if not whole.knows(each)})
        lasts = sorted(self.lasts.items(), key=lambda lane: lane[1].number)
        first = self.number + 1 - self.every
        return replace(
            whole,
            number=self.number + 1,
            horizon=max([self.horizon, *past[: -self.names]]),
            past=frozenset(past[-self.names :]),
            tokens={token: number for token, number in self.tokens.items() if number > first},
            lasts=dict(lasts[-self.lanes :]),
            dropped=max([self.dropped, *(last.number for _, last in lasts[: -self.lanes])]),
        )
