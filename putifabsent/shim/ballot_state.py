"""The ballots about one identity: keys that are only ever added, what a listing of them proves, and a voter.

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

import errno
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from putifabsent.backends.base import Absent, Body, Exists, Found, InMemory, Maybe, Refused, Written
from putifabsent.errors import OutcomeUnknown
from putifabsent.shim.requests import (
    NOT_OURS,
    Delete,
    List,
    Pause,
    Protocol,
    Publish,
    Put,
    look,
    read,
    unanswered,
)
from putifabsent.shim.state_keys import creation_of, folder_for

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from putifabsent.backends.base import Creation, Entry, Listed, PublishOutcome, PutOutcome
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


# --- one process's part: its requests, and how it decides

_NOTHING = InMemory(b"")


class Ended(Exception):
    """No error: the incarnation that a ballot was about has ended; ``scene`` shows it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene


class Removed(Exception):
    """No error: what was to be decided is gone, removed round the shim, and nothing of mine was decided."""


@dataclass(slots=True)
class Voter:
    """One process's part in the ballots about one identity."""

    what: Name
    creation: Creation  # its token makes ballots its own
    tries: int = field(init=False)  # goes up with each key: one that was not answered is never sent again
    pauses: int = 0  # how often it has backed off
    # The prepares with its own bytes that it has put, or may have.
    bodies: set[Prepare] = field(default_factory=set)
    # The incarnations in which its own value may have been accepted, or that it may have ended; of a name
    # that is older than the shim, the one in which it may have removed that.
    committed: set[int] = field(default_factory=set)
    # The incarnations in which it may have accepted another's value with its first ballot.
    helped: set[int] = field(default_factory=set)
    accepted: set[Accept] = field(default_factory=set)  # the accepts that it has put, or may have
    refused: Exception | None = None  # the store's refusal to take a ballot
    folder: str = field(init=False)  # where the ballots lie

    def __post_init__(self) -> None:
        self.tries, self.folder = self.creation.first_try, folder_of(self.what)

    @property
    def name(self) -> str:
        return self.what.path

    @property
    def voter(self) -> str:
        """What its keys are called by now."""
        return voter_of(self.creation.token, self.tries, self.what.rank)

    def name_of(self, value: str) -> str:
        """Return the plain name that a value is for: its identity may have several."""
        return self.what.all_names[rank_of(value)]

    def is_mine(self, value: str) -> bool:
        return creation_of(value) == self.creation.token

    def path(self, key: Key) -> str:
        return f"{self.folder}/{written(key)}"

    @property
    def litter(self) -> list[str]:
        """The keys of its bytes, as far as nothing rests on them, if they can't become the name."""
        # An accept says nothing without its prepare: of my own value it must not, of another's it must.
        return [self.path(each) for each in sorted(self.bodies) if each.incarnation not in self.helped]

    def unknown(self, reason: str) -> OutcomeUnknown:
        return OutcomeUnknown(self.name, self.creation.token, reason)

    def pause(self, reason: str, cause: Exception | None = None) -> Protocol[None]:
        """Back off; raise where there is no time for another attempt."""
        self.pauses += 1
        if not (yield Pause(self.pauses)):
            late = "no decision in time"
            if cause is None:
                raise self.failure(TimeoutError(errno.ETIMEDOUT, reason, self.name), late)
            raise self.failure(cause, f"{late}: {reason}")

    def scene(self) -> Protocol[Scene]:
        listed: Listed = yield from read(List(self.folder), self.failure)
        return Scene.of(listed.entries)

    def failure(self, error: Exception, reason: str = "the store can't be read") -> OSError:
        """Return what to raise where the store refuses, or the deadline has come."""
        # Before it has voted nothing of it can be decided, ever: it has failed for certain.
        if not self.committed:
            return unanswered(error)
        unknown = self.unknown(f"{reason}: {error}")
        unknown.__cause__ = error
        return unknown

    def put_new(self, incarnation: int, round_: int, body: Body) -> Protocol[Prepare]:
        """Put a prepare that nobody has put before; after no answer, another one."""
        while True:
            prepare = Prepare(incarnation, round_, self.voter)
            if round_ == 0:
                self.bodies.add(prepare)
            outcome = yield from self.sent(prepare, body)
            if isinstance(outcome, Written):
                return prepare
            if isinstance(outcome, Refused):
                self.refused = outcome.error
                raise outcome.error
            if isinstance(outcome, Maybe):
                self.tries += 1
            yield from self.pause("the store did not take the bytes", outcome.cause)

    def put(self, key: Accept | End) -> Protocol[None]:
        """Put a key that says the same however often it is put."""
        while True:
            outcome = yield from self.sent(key, _NOTHING)
            if isinstance(outcome, Written):
                return
            if isinstance(outcome, Refused):
                raise self.unknown(f"the store refuses a ballot: {outcome.error}") from outcome.error
            yield from self.pause("the store did not take a ballot", outcome.cause)

    def sent(self, key: Key, body: Body) -> Protocol[PutOutcome]:
        """Put a key, once."""
        # The plain name is a copy, and tells by this of which incarnation it is.
        creation = self.creation._replace(token=mark(key.incarnation, self.voter))
        outcome: PutOutcome = yield Put(self.path(key), body, creation)
        return outcome

    def remove(self, path: str, version: str | None = None) -> Protocol[None]:
        """Remove an object, until that is certain."""
        yield from read(Delete(path, version), lambda error: self.failure(error, f"{path} can't be removed"))

    def bury(self, scene: Scene) -> Protocol[None]:
        """Remove the bytes of ended incarnations, so that nobody can publish them any more."""
        for prepare in scene.dead():
            yield from self.remove(self.path(prepare))

    def publish(self, incarnation: int, value: str) -> Protocol[None]:
        """Copy the decided bytes to the plain name. They may be gone: it has been deleted since."""
        source = self.path(Prepare(incarnation, 0, value))
        while True:
            outcome: PublishOutcome = yield Publish(source, self.name_of(value), self.creation)
            if isinstance(outcome, (Absent, Written)):
                return
            if isinstance(outcome, Refused):
                raise self.unknown(
                    f"it was decided, and can't be published: {outcome.error}"
                ) from outcome.error
            if isinstance(outcome, Exists):
                if (yield from self.is_published(incarnation, value)):
                    return
                yield from self.pause("another object is under the plain name")
            else:
                yield from self.pause("it was decided, and not published", outcome.cause)

    def is_published(self, incarnation: int, value: str) -> Protocol[bool]:
        """See what a store that can't overwrite has under the plain name; make way for the value."""
        name = self.name_of(value)
        seen = yield from look(name, self.name, self.creation.token, "it was decided")
        if isinstance(seen, Absent):
            return False
        was = marked(seen.holder.token)
        if was is None:
            raise self.unknown(f"it was decided, and {NOT_OURS}")
        if was[0] < incarnation:
            yield from self.remove(name, seen.holder.version)
        # A later incarnation's: this one has ended, and nobody wants it published any more.
        return was == (incarnation, value) or was[0] > incarnation

    def finished(self, scene: Scene) -> Protocol[str | None]:
        """Return the living incarnation's value, its ballot finished; None: none. ``Ended``: it is over."""
        value = yield from self.settled(scene)
        return None if value is None else (yield from self.valid(scene.incarnation, value))

    def settled(self, scene: Scene) -> Protocol[str | None]:
        """Return what is decided of the living incarnation, which may be void; as :meth:`finished`.

        A ballot is only called, which is to write, where nothing proves a decision.
        """
        incarnation = scene.incarnation
        if scene.highest(incarnation) is None:
            return None
        value = yield from self.proven(scene)
        if value is None:
            scene = yield from self._quiet(scene)
            value = yield from self.proven(scene)
        while value is None:
            if scene.highest(incarnation) is None:
                return None
            try:
                value = yield from self.called(scene, None)
            except Removed:
                scene = yield from self._quiet(scene)
        return value

    def proven(self, scene: Scene) -> Protocol[str | None]:
        """Return what is decided of the living incarnation, as far as a listing and the plain name prove it.

        Only what is decided is ever published, and a copy carries its incarnation and its value: so it proves
        the decision whatever ballots have come after it.
        """
        value = scene.decided(scene.incarnation)
        accept = scene.highest(scene.incarnation)
        if value is not None or accept is None or is_void(accept.value):
            return value
        path = self.name_of(accept.value)
        seen = yield from look(path, self.name, self.creation.token, "its ballots don't tell who has it")
        return accept.value if is_copy(seen, scene.incarnation, accept.value) else None

    def called(self, scene: Scene, own: str | None) -> Protocol[str]:
        """Call a ballot above all of the living incarnation, and decide it as :meth:`decide`."""
        incarnation = scene.incarnation
        prepare = yield from self.put_new(incarnation, scene.latest(incarnation)[0] + 1, _NOTHING)
        return (yield from self.decide(prepare, (yield from self.scene()), own))

    def valid(self, incarnation: int, value: str) -> Protocol[str]:
        """Return a decided value; where it is void, end the incarnation: ``Ended``."""
        if is_void(value):
            yield from self.put(End(incarnation, value))
            raise Ended((yield from self.scene()))
        return value

    def decide(self, prepare: Prepare, scene: Scene, own: str | None) -> Protocol[str]:
        """Bring the incarnation's ballots to a decision, beginning with ``prepare``, which is there.

        ``scene`` is what a listing has shown since; ``own`` the value to stand for, where none was accepted.

        ``Ended``: the incarnation has ended meanwhile. ``Removed``: something that goes round the shim has
        removed what there was to decide, or my prepare. ``OutcomeUnknown``: it has done so when my own value
        may have been decided.
        """
        value = yield from self._decide(prepare, scene, own)
        return (yield from self.valid(prepare.incarnation, value))

    def _decide(self, prepare: Prepare, scene: Scene, own: str | None) -> Protocol[str]:
        incarnation = prepare.incarnation
        while True:
            if scene.incarnation > incarnation:
                raise Ended(scene)
            self.refuse_removed(prepare, scene, own)
            if not scene.higher(incarnation, prepare.ballot):
                highest = scene.highest(incarnation)
                value = own if highest is None else highest.value
                if value is None:
                    raise Removed
                if value == own:
                    self.committed.add(incarnation)
                elif prepare.round == 0:
                    self.helped.add(incarnation)
                accept = Accept(*prepare, value)
                self.accepted.add(accept)
                yield from self.put(accept)
                scene = yield from self.scene()
                if scene.incarnation > incarnation:
                    raise Ended(scene)
                # Not where my keys are gone: who did not see them may have decided.
                self.refuse_removed(prepare, scene, own)
                decided = scene.decided(incarnation)
                if decided is not None:
                    return decided
            scene = yield from self._quiet(scene)
            self.refuse_removed(prepare, scene, own)
            decided = scene.decided(incarnation)
            if decided is not None:
                return decided
            prepare = yield from self.put_new(incarnation, scene.latest(incarnation)[0] + 1, _NOTHING)
            scene = yield from self.scene()

    def refuse_removed(self, prepare: Prepare, scene: Scene, own: str | None) -> None:
        """Pass if all that I have put is there: this prepare, the bytes that I stand for, my accepts."""
        incarnation = prepare.incarnation
        mine = {prepare} if own is None or is_void(own) else {prepare, Prepare(incarnation, 0, own)}
        accepted = {each for each in self.accepted if each.incarnation == incarnation}
        if mine <= scene.prepares.keys() and accepted <= set(scene.accepts):
            return
        self.accepted -= accepted
        if incarnation in self.committed:
            raise self.unknown("its ballots were removed, by something that goes round the shim")
        # The key is never put again.
        self.tries += 1
        raise Removed

    def _quiet(self, scene: Scene) -> Protocol[Scene]:
        """Back off until there is a decision, or no ballot has come from one listing to the next.

        The highest ballot's caller is the one that can bring the decision, if nobody comes between: of many
        who wait for it, none does until it seems to have stopped. ``Ended``: the incarnation has ended
        meanwhile.
        """
        incarnation = scene.incarnation
        while True:
            before = scene.latest(incarnation)
            yield from self.pause("other writers' ballots come between")
            scene = yield from self.scene()
            if scene.incarnation > incarnation:
                raise Ended(scene)
            if scene.latest(incarnation) == before or scene.decided(incarnation) is not None:
                return scene


def is_copy(seen: Found | Absent, incarnation: int, value: str) -> bool:
    return isinstance(seen, Found) and marked(seen.holder.token) == (incarnation, value)
