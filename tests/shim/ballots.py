"""Ballots under test: the real protocol and wrong ones, and the schedules that they are played in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from putifabsent.backends.base import Creation
from putifabsent.backends.body import InMemory
from putifabsent.shim import ballot
from putifabsent.shim.names import ordinary
from putifabsent.testing.explore import Actor, Faults
from putifabsent.testing.imagined import ImaginedStore
from putifabsent.testing.linear import LinearName

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.shim.requests import Protocol

NAME = ordinary("bucket/t/name")


@dataclass(frozen=True)
class Scenario:
    """Who does what.

    Attributes
    ----------
    name
        For people.
    roles
        A word for each process: ``c`` creates, ``d`` deletes, ``r`` reads, ``x`` cleans up; one letter
        after another, each begins when the one before has ended.
    faults
        What may go wrong.
    """

    name: str
    roles: str
    faults: Faults

    def __str__(self) -> str:
        return self.name

    def actors(self, protocols: Any) -> list[Actor]:
        """Return the processes, which use these protocols."""
        found: list[Actor] = []
        for word in self.roles.split():
            before = None
            for letter in word:
                name = f"{letter}{len(found)}"
                role, make = _played(protocols, letter, name)
                found.append(Actor(name, role, make, name, before))
                before = name
        return found


def _played(protocols: Any, letter: str, token: str) -> tuple[str, Callable[[], Protocol[Any]]]:
    creation = Creation(token, "writer", NAME.state)
    body = InMemory(token.encode())
    return {
        "c": ("create", lambda: protocols.create(NAME, body, creation)),
        "d": ("delete", lambda: protocols.delete(NAME, creation)),
        "r": ("read", lambda: protocols.find(NAME, creation)),
        "x": ("other", lambda: protocols.clean(NAME, creation)),
    }[letter]


def judge(actors: list[Actor]) -> LinearName:
    """Judge by what the real reader says at last."""
    last = Creation("last", "writer", NAME.state)
    bodies = {each.token: each.token.encode() for each in actors}
    return LinearName(lambda: ballot.find(NAME, last), NAME.path, bodies)


def store(*, republishes: bool = True) -> ImaginedStore:
    """Return a store that honours no condition."""
    return ImaginedStore(conditions=False, republishes=republishes)


SHORT = (
    Scenario("a creator alone, whose requests come late", "c", Faults(lost=2, late=2, crashes=1)),
    Scenario("two creators, one lost answer, one crash", "c c", Faults(lost=1, crashes=1)),
    Scenario("two creators, one late request", "c c", Faults(late=1, pauses=1)),
    Scenario("three creators", "c c c", Faults(pauses=1)),
    Scenario("a creator after a deletion", "cdc", Faults(lost=1, late=1, crashes=1)),
    Scenario("a creator, and a creation that is deleted", "c cd", Faults(pauses=1)),
    Scenario("a creator, and a creation that is deleted and cleaned up", "c cdx", Faults(pauses=1)),
    Scenario("a creation that is deleted and cleaned up, and a creator", "cdx c", Faults(pauses=1)),
    Scenario("a reader who helps, and a creation that is deleted", "cd r", Faults(late=1, pauses=1)),
    Scenario("clean-up at any time", "c d x", Faults(lost=1, crashes=1, pauses=1)),
)
LONG = (
    Scenario("two creators and a deleter", "c c d", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("two creators, a deleter and a reader who helps", "c c d r", Faults(crashes=1, pauses=1)),
    Scenario("three creators, one lost answer, one crash", "c c c", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("deletion and re-creation", "cdc d", Faults(late=1, pauses=1)),
    Scenario("deleted twice, and a creator", "cdcd c", Faults(crashes=1, pauses=1)),
)


@dataclass(frozen=True)
class Mutant:
    """The protocol with one change in its text.

    Attributes
    ----------
    name
        What it gets wrong.
    old, new
        The text there, exactly once, and what it becomes.
    scenario
        The short one that finds it out.
    """

    name: str
    old: str
    new: str
    scenario: str

    def __str__(self) -> str:
        return self.name

    def protocols(self) -> ModuleType:
        """Return the module with this change.

        Raises
        ------
        LookupError
            The text is not there any more: the mutant must be brought up to date, or it tests nothing.
        """
        text = Path(ballot.__file__).read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise LookupError(f"{self.name!r}: ballot.py has {self.old!r} {text.count(self.old)} times")
        module = ModuleType(ballot.__name__)
        changed = compile(text.replace(self.old, self.new), f"<{self.name}>", "exec")
        exec(changed, module.__dict__)  # noqa: S102 - it is our own text
        return module
