"""What one listing shows of the ballots about a name: keys that are only ever added, and what they prove.

=====================================  ====================================================================
``P~<k>~<round>~<voter>``              *prepare*. Round 0 carries the bytes of a creation, which is its value
``A~<k>~<round>~<voter>~<value>``      *accept*: this ballot (round, voter) stands for that value
``X~<k>~<value>``                      the end of incarnation k, in which that value was the name
=====================================  ====================================================================

A voter is a creation's token with the number of its try, for a key that was not answered is never put again,
and with the rank of its name, where the identity has several: ``<token>.<try>[.<rank>]``. A value is the
voter who put its bytes; or *void*, which is nobody's, and for which clean-up votes: where that is decided,
the incarnation ends before it has begun.

Something that goes round the shim may remove a table, object by object, while somebody votes. What it has
removed nobody puts again, so an accept whose own prepare is gone, or whose value's, says nothing: others may
have decided meanwhile what its voter could not see. And a key of an incarnation tells that the one before it
has ended, though its end is gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from putifabsent.shim.state_keys import folder_for

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from putifabsent.backends.base import Entry
    from putifabsent.shim.names import Name

# A slash, a letter, two numbers, two voters: UUIDs with the number of a try and a rank.
LONGEST_KEY = 130
"""Bytes of the longest key, with its slash."""

_NO_RANK = -1

Ballot: TypeAlias = tuple[int, str]


def folder_of(name: Name) -> str:
    return folder_for(name, "ballot", LONGEST_KEY)


class Prepare(NamedTuple):
    """A prepare's key, part by part."""

    incarnation: int
    round: int
    voter: str

    @property
    def ballot(self) -> Ballot:
        """Ballots are ordered by round, then by voter."""
        return self.round, self.voter


class Accept(NamedTuple):
    """An accept's key, part by part."""

    incarnation: int
    round: int
    voter: str
    value: str

    @property
    def ballot(self) -> Ballot:
        return self.round, self.voter


class End(NamedTuple):
    """The key that ends an incarnation."""

    incarnation: int
    value: str


Key: TypeAlias = Prepare | Accept | End
_NUMBERS = {Prepare: 2, Accept: 2, End: 1}
_LETTERS = {Prepare: "P", Accept: "A", End: "X"}
_KINDS: dict[str, type[Prepare | Accept | End]] = {letter: kind for kind, letter in _LETTERS.items()}


def written(key: Key) -> str:
    """Return the last component of a key's name."""
    parts = (f"{part:010d}" if isinstance(part, int) else part for part in key)
    return "~".join([_LETTERS[type(key)], *parts])


@lru_cache(maxsize=4096)  # the same ones are listed again and again
def parsed(name: str) -> Key | None:
    """Return the parts of a key, from its full name; None for what is none."""
    letter, *parts = name.rpartition("/")[2].split("~")
    kind = _KINDS.get(letter)
    if kind is None or len(parts) != len(kind._fields):
        return None
    numbers = _NUMBERS[kind]
    try:
        return kind(*map(int, parts[:numbers]), *parts[numbers:])  # type: ignore[arg-type]
    except ValueError:
        return None


def voter_of(token: str, tries: int, rank: int) -> str:
    """Return the voter of a creation's try, which is its value as well."""
    return f"{token}.{tries}.{rank}" if rank else f"{token}.{tries}"


def void_of(token: str) -> str:
    """Return the value by which a process has an incarnation end before it begins."""
    return voter_of(token, 0, _NO_RANK)


def is_void(value: str) -> bool:
    return rank_of(value) == _NO_RANK


def rank_of(value: str) -> int:
    """Return which of its identity's names a value is for; below zero: for none."""
    return int((*value.split("."), "0")[2])


def mark(incarnation: int, value: str) -> str:
    """Return the token that is kept with the bytes of a value, and with their copy under the plain name."""
    return f"{value}~{incarnation}"


def marked(token: str | None) -> tuple[int, str] | None:
    """Return the incarnation and the value that a token speaks of; None for a name older than the shim."""
    value, tilde, incarnation = (token or "").rpartition("~")
    return (int(incarnation), value) if tilde and incarnation.isdecimal() else None


@dataclass(slots=True)
class Scene:
    """What one listing shows."""

    # prepares, accepts: all of them, of every incarnation; of the former, when they were put.
    prepares: dict[Prepare, datetime] = field(default_factory=dict)
    accepts: list[Accept] = field(default_factory=list)
    # The value of each incarnation that has ended, as far as clean-up has left it.
    ends: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Scene:
        """Read a listing; what is no key is somebody else's."""
        scene = cls()
        for entry in entries:
            key = parsed(entry.name)
            if isinstance(key, Prepare):
                scene.prepares[key] = entry.created
            elif isinstance(key, Accept):
                scene.accepts.append(key)
            elif key is not None:
                scene.ends[key.incarnation] = key.value
        return scene

    @property
    def incarnation(self) -> int:
        """The one that lives, or may begin to."""
        votes: list[Prepare | Accept] = [*self.prepares, *self.accepts]
        begun = (each.incarnation for each in votes)
        return max((1, *(ended + 1 for ended in self.ends), *begun))

    def has_ended(self, token: str | None) -> bool:
        """Whether what carries this token was the name once, and is not any more."""
        was = marked(token)
        return was is not None and was[0] < self.incarnation

    def knows(self, token: str | None) -> bool:
        """Whether what carries this token is, or was, decided here, and not in another place or before."""
        was = marked(token)
        return was is not None and (was[0] < self.incarnation or self.highest(was[0]) is not None)

    def ballots(self, incarnation: int) -> set[Ballot]:
        return {each.ballot for each in self.prepares if each.incarnation == incarnation}

    def latest(self, incarnation: int) -> Ballot:
        """Return the highest ballot of the incarnation; one below all others where it has none."""
        return max(self.ballots(incarnation), default=(0, ""))

    def higher(self, incarnation: int, than: Ballot) -> bool:
        return self.latest(incarnation) > than

    def highest(self, incarnation: int) -> Accept | None:
        """Return the accept of the incarnation's highest ballot that has one."""
        accepts = [each for each in self.accepts if each.incarnation == incarnation and self.stands(each)]
        return max(accepts, key=lambda each: each.ballot, default=None)

    def stands(self, accept: Accept) -> bool:
        """Whether nothing that an accept rests on was removed round the shim: its prepare, and its bytes."""
        own = Prepare(accept.incarnation, *accept.ballot)
        return own in self.prepares and (is_void(accept.value) or self.has_bytes(accept))

    def bare(self, incarnation: int) -> str | None:
        """Return the value that the incarnation had, as its accepts tell, where its bytes are gone."""
        accepts = [each for each in self.accepts if each.incarnation == incarnation]
        last = max(accepts, key=lambda each: each.ballot, default=None)
        is_bare = last is not None and not is_void(last.value) and not self.has_bytes(last)
        return last.value if last is not None and is_bare and self.highest(incarnation) is None else None

    def has_bytes(self, accept: Accept) -> bool:
        return Prepare(accept.incarnation, 0, accept.value) in self.prepares

    @property
    def is_abandoned(self) -> bool:
        """Whether bytes were put for the living incarnation, and nothing was ever accepted."""
        incarnation = self.incarnation
        return bool(self.ballots(incarnation)) and self.highest(incarnation) is None

    @property
    def is_whole(self) -> bool:
        """Whether the ends of all incarnations before the living one are there."""
        return self.ends.keys() == set(range(1, self.incarnation))

    @property
    def is_spent(self) -> bool:
        """Whether all incarnations have ended, each in a creation, and none has begun to live since."""
        is_whole, nobodys = self.is_whole, map(is_void, self.ends.values())
        return is_whole and not self.ballots(self.incarnation) and not any(nobodys)

    def decided(self, incarnation: int) -> str | None:
        """Return the value that is decided, as far as one listing tells: no ballot is above its accept.

        A ballot above it that is not there yet lists after its prepare: it will see this accept, and take its
        value over. One below it will see it as well, and not decide. This is what the last listing of a
        ballot tells its own voter.
        """
        accept = self.highest(incarnation)
        return None if accept is None or self.higher(incarnation, accept.ballot) else accept.value

    def dead(self) -> list[Prepare]:
        """Return the prepares whose bytes were the name in an incarnation that has ended."""
        return [
            each
            for each in self.prepares
            if each.round == 0 and self.ends.get(each.incarnation) == each.voter
        ]
