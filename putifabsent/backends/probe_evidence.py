"""What a probe saw, in sentences with figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from putifabsent.backends.base import Created, Exists, Maybe, Refused, TryAgain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from putifabsent.backends.probe_operations import Attempt, Decision

__all__ = ["Seen", "Tally", "brief", "never"]


@dataclass(frozen=True, slots=True)
class Seen:
    """What is readable under a name; both None: nothing."""

    token: str | None
    data: bytes | None

    def is_of(self, attempt: Attempt) -> bool:
        """Whether it is what an attempt wrote, the token and every byte."""
        return attempt.is_in(self.token, self.data)


@dataclass(slots=True)
class Tally:
    """What came of the races of one operation.

    Attributes
    ----------
    creates
        Simultaneous creates of each name.
    raced
        Names so far.
    faults
        How many names had each fault.
    """

    creates: int
    raced: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    _decided: int = 0
    _uncertain: int = 0
    _most_winners: int = 0
    _cause: Exception | None = None

    def note(self, attempts: Sequence[Attempt], outcomes: Sequence[Decision], seen: Seen) -> None:
        """Count one race."""
        told = list(zip(attempts, outcomes, strict=True))
        winners = [attempt for attempt, outcome in told if isinstance(outcome, Created)]
        losers = [attempt for attempt, outcome in told if isinstance(outcome, (Exists, Refused, TryAgain))]
        fault = _fault(winners, losers, seen)
        if fault is not None:
            self.faults[fault] = self.faults.get(fault, 0) + 1
        self.raced += 1
        self._decided += fault is None and bool(winners)
        self._most_winners = max(self._most_winners, len(winners))
        causes = [outcome.cause for outcome in outcomes if isinstance(outcome, (TryAgain, Maybe))]
        self._uncertain += len(causes)
        self._cause = causes[-1] if causes else self._cause

    @property
    def is_safe(self) -> bool:
        """Whether there was no fault, in enough races that came to an end."""
        return not self.faults and self._decided * 2 >= self.raced

    def __str__(self) -> str:
        if self.faults:
            found = ", ".join(
                f"{times} of {self.raced} names {fault}" for fault, times in self.faults.items()
            )
            most = f" (up to {self._most_winners})" if self._most_winners > 1 else ""
            return f"{self.creates} creates at once: {found}{most}"
        unsure = f"{self._uncertain} of {self.raced * self.creates} creates had no certain answer"
        if not self.is_safe:
            return f"only {self._decided} of {self.raced} races had a winner; {unsure}: {brief(self._cause)}"
        return (
            f"{self.creates} creates at once: {self._decided} of {self.raced} names had one winner, and its "
            f"bytes and token; one after the other: a taken name was refused, and kept"
            f"{'; ' + unsure if self._uncertain else ''}"
        )


def never(what: str, outcome: Decision, seen: Seen) -> str:
    """Say why an operation, one at a time, never did ``what`` it must."""
    if isinstance(outcome, Exists):
        return f"one after the other: it never {what}, but said that the name exists"
    if isinstance(outcome, Refused):
        return f"refused: {brief(outcome.error)}"
    cause = brief(outcome.cause) if isinstance(outcome, (TryAgain, Maybe)) else type(outcome).__name__
    wrote = "wrote nothing" if seen.token is None else "gave no certain answer"
    return f"refused: it never {what}, and {wrote}: {cause}"


def brief(error: Exception | None) -> str:
    """Return the first line of an error: some clients go on with what only their authors can read."""
    return str(error or "no reason was given").split("\n", 1)[0]


def _fault(winners: Sequence[Attempt], losers: Sequence[Attempt], seen: Seen) -> str | None:
    if len(winners) > 1:
        return "had more than one winner"
    if winners and not seen.is_of(winners[0]):
        return "held other bytes, or another token, than their winner's"
    if any(seen.token == loser.token for loser in losers):
        return "were held by a creation that was told it had lost"
    return None
