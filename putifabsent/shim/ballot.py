"""The bucket alone decides: Disk Paxos with a single disk, on keys that are only ever added.

It wants no condition of the store: puts that are atomic, a copy within the store, and a listing that shows
what was put before. All that is known of one identity lies in one folder:

=====================================  ====================================================================
``P~<k>~<round>~<voter>``              *prepare*. Round 0 carries the bytes of a creation, which is its value
``A~<k>~<round>~<voter>~<value>``      *accept*: this ballot (round, voter) stands for that value
``X~<k>~<value>``                      the end of incarnation k, in which that value was the name
=====================================  ====================================================================

A ballot puts its prepare, lists, takes over the value of the highest accept (or its own, where there is
none), puts its accept, lists again: if no higher prepare and no end of the incarnation is there, its value is
decided. Whoever finds an accept can finish the ballot, and comes to the same value.

Eli Gafni and Leslie Lamport, "Disk Paxos", Distributed Computing 16 (2003). What is added: incarnations, so
that a name can be deleted and created again, and publishing under the plain name.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from urllib.parse import quote

from putifabsent.backends.base import Absent, Created, Deleted, Exists, Found, Holder, Maybe, Refused, Written
from putifabsent.backends.body import InMemory
from putifabsent.errors import NameTaken, OutcomeUnknown, PutIfAbsentError
from putifabsent.shim.reading import look, read
from putifabsent.shim.requests import Delete, Head, List, Pause, Publish, Put

if TYPE_CHECKING:
    from putifabsent.backends.base import Creation, DeleteOutcome, Listed, PublishOutcome, PutOutcome
    from putifabsent.backends.body import Body
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol

__all__ = ["clean", "create", "delete", "find", "folder_of", "resolve"]

_NOTHING = InMemory(b"")
_LONGEST = 200

Ballot: TypeAlias = "tuple[int, str]"


def folder_of(name: Name) -> str:
    """Return the folder in which the ballots about a name lie: a function of the name alone."""
    within = quote(name.canonical.removeprefix(name.state.rpartition("/")[0]).lstrip("/"), safe="")
    if len(within) > _LONGEST:
        # `quote` never makes an equals sign, so that no other name is written like this.
        within = f"sha256={hashlib.sha256(name.canonical.encode()).hexdigest()}"
    return f"{name.state}/ballot/{within}"


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
        """The ballot that it belongs to."""
        return self.round, self.voter


class End(NamedTuple):
    """The key that ends an incarnation."""

    incarnation: int
    value: str


Key: TypeAlias = Prepare | Accept | End
_LETTERS: dict[str, type[Key]] = {"P": Prepare, "A": Accept, "X": End}


def _written(key: Key) -> str:
    letter = {kind: letter for letter, kind in _LETTERS.items()}[type(key)]
    return "~".join([letter, *(f"{part:010d}" if isinstance(part, int) else part for part in key)])


def _parsed(last: str) -> Key | None:
    letter, *parts = last.split("~")
    kind = _LETTERS.get(letter)
    if kind is None or len(parts) != len(kind._fields):
        return None
    numbers = 1 if kind is End else 2
    return kind(*(int(part) for part in parts[:numbers]), *parts[numbers:])  # type: ignore[arg-type, misc]


def _creation_of(value: str) -> str:
    """Return the token of the creation whose value this is: a creation has one for each key it had to try."""
    return value.rpartition(".")[0]


@dataclass(slots=True)
class Scene:
    """What one listing shows."""

    prepares: list[Prepare] = field(default_factory=list)
    accepts: list[Accept] = field(default_factory=list)
    ends: dict[int, str] = field(default_factory=dict)

    @property
    def incarnation(self) -> int:
        """The one that lives, or may begin to."""
        return max(self.ends, default=0) + 1

    def ballots(self, incarnation: int) -> set[Ballot]:
        """Return the ballots of an incarnation, of which its accepts tell as well: a loser's prepare goes."""
        return {
            each.ballot for each in (*self.prepares, *self.accepts) if each.incarnation == incarnation
        }

    def higher(self, incarnation: int, than: Ballot) -> bool:
        """Whether a ballot of the incarnation is above another."""
        return any(each > than for each in self.ballots(incarnation))

    def highest_round(self, incarnation: int) -> int:
        """The highest round of the incarnation."""
        return max((round_ for round_, _ in self.ballots(incarnation)), default=0)

    def accepted(self, incarnation: int) -> str | None:
        """The value of the incarnation's highest accept."""
        accepts = [each for each in self.accepts if each.incarnation == incarnation]
        return max(accepts, key=lambda each: each.ballot).value if accepts else None

    def values(self, incarnation: int) -> set[str]:
        """The values that were accepted in an incarnation."""
        return {each.value for each in self.accepts if each.incarnation == incarnation}

    def creations_ended(self) -> set[str]:
        """The creations whose bytes were the name in an incarnation that has ended."""
        return {_creation_of(value) for value in self.ends.values()}

    def dead(self) -> list[Prepare]:
        """The prepares whose bytes were the name in an incarnation that has ended."""
        return [
            each
            for each in self.prepares
            if each.round == 0 and self.ends.get(each.incarnation) == each.voter
        ]


class _Ended(Exception):  # noqa: N818 - no error: it says where a ballot ended
    """The incarnation that a ballot was about has ended."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene


@dataclass(slots=True)
class _Voter:
    """One process's part in the ballots about one identity.

    Attributes
    ----------
    folder, name
        Where they lie, and the plain name.
    creation
        Its token makes ballots its own.
    tries
        How often it had to take another key: one whose put was not answered is never sent again.
    pauses
        How often it has backed off.
    committed
        The incarnations in which its own value may have been accepted.
    """

    folder: str
    name: str
    creation: Creation
    tries: int = 0
    pauses: int = 0
    committed: set[int] = field(default_factory=set)

    @property
    def voter(self) -> str:
        return f"{self.creation.token}.{self.tries}"

    def is_mine(self, value: str) -> bool:
        return _creation_of(value) == self.creation.token

    def path(self, key: Key) -> str:
        return f"{self.folder}/{_written(key)}"

    def unknown(self, reason: str) -> OutcomeUnknown:
        return OutcomeUnknown(self.name, self.creation.token, reason)

    def pause(self, reason: str) -> Protocol[None]:
        self.pauses += 1
        if not (yield Pause(self.pauses)):
            raise self.unknown(f"no decision in time: {reason}")

    def scene(self) -> Protocol[Scene]:
        listed: Listed = yield from read(
            List(self.folder), lambda error: self.unknown(f"{self.folder} can't be listed: {error}")
        )
        scene = Scene()
        for entry in listed.entries:
            key = _parsed(entry.name.rpartition("/")[2])
            if key is None:
                continue
            if isinstance(key, Prepare):
                scene.prepares.append(key)
            elif isinstance(key, Accept):
                scene.accepts.append(key)
            else:
                scene.ends[key.incarnation] = key.value
        return scene

    def put_new(self, incarnation: int, round_: int, body: Body) -> Protocol[Prepare]:
        """Put a prepare that nobody has put before; after no answer, another one."""
        while True:
            prepare = Prepare(incarnation, round_, self.voter)
            outcome: PutOutcome = yield Put(self.path(prepare), body, self.creation)
            if isinstance(outcome, Written):
                return prepare
            if isinstance(outcome, Refused):
                raise outcome.error
            if isinstance(outcome, Maybe):
                self.tries += 1
            yield from self.pause(f"the store did not take the bytes: {outcome.cause}")

    def put(self, key: Key) -> Protocol[None]:
        """Put a key that says the same however often it is put."""
        while True:
            outcome: PutOutcome = yield Put(self.path(key), _NOTHING, self.creation)
            if isinstance(outcome, Written):
                return
            if isinstance(outcome, Refused):
                raise self.unknown(f"the store refuses a ballot: {outcome.error}") from outcome.error
            yield from self.pause(f"the store did not take a ballot: {outcome.cause}")

    def remove(self, path: str, version: str | None = None) -> Protocol[None]:
        while True:
            outcome: DeleteOutcome = yield Delete(path, version)
            if isinstance(outcome, Deleted):
                return
            if isinstance(outcome, Refused):
                raise self.unknown(f"{path} can't be removed: {outcome.error}") from outcome.error
            yield from self.pause(f"{path} could not be removed: {outcome.cause}")

    def bury(self, scene: Scene) -> Protocol[None]:
        """Remove the bytes of ended incarnations, so that nobody can publish them any more."""
        for prepare in scene.dead():
            yield from self.remove(self.path(prepare))

    def publish(self, incarnation: int, value: str) -> Protocol[bool]:
        """Copy the decided bytes to the plain name; return False where they are gone: it has ended."""
        source = self.path(Prepare(incarnation, 0, value))
        while True:
            outcome: PublishOutcome = yield Publish(source, self.name, self.creation)
            if isinstance(outcome, Absent):
                return False
            if isinstance(outcome, Written):
                return True
            if isinstance(outcome, Refused):
                raise self.unknown(f"it was decided, and can't be published: {outcome.error}") from outcome.error
            if isinstance(outcome, Exists):
                if (yield from self.make_way(value)):
                    return True
                yield from self.pause("the plain name is in the way")
            else:
                yield from self.pause(f"it was decided, and not published: {outcome.cause}")

    def make_way(self, value: str) -> Protocol[bool]:
        """See what a store that can't overwrite has under the plain name; return True if it is the value.

        What an ended incarnation has left there is removed.
        """
        seen = yield from look(self.name, self.name, self.creation.token, "it was decided")
        if isinstance(seen, Absent):
            return False
        if seen.holder.token == _creation_of(value):
            return True
        scene = yield from self.scene()
        if seen.holder.token not in scene.creations_ended():
            raise self.unknown("it was decided, and something that went round the shim is under the plain name")
        yield from self.remove(self.name, seen.holder.version)
        return False

    def decide(self, prepare: Prepare, scene: Scene, own: str | None) -> Protocol[str]:
        """Bring the incarnation's ballots to a decision, beginning with ``prepare``, which is there.

        Raises
        ------
        _Ended
            The incarnation has ended meanwhile.
        """
        incarnation = prepare.incarnation
        while True:
            if scene.incarnation > incarnation:
                raise _Ended(scene)
            if not scene.higher(incarnation, prepare.ballot):
                value = scene.accepted(incarnation) or own
                if value is None:
                    raise LookupError("there is nothing to decide")
                if value == own:
                    self.committed.add(incarnation)
                yield from self.put(Accept(*prepare, value))
                scene = yield from self.scene()
                if scene.incarnation > incarnation:
                    raise _Ended(scene)
                if not scene.higher(incarnation, prepare.ballot):
                    return value
            round_ = scene.highest_round(incarnation) + 1
            yield from self.pause("other writers' ballots come between")
            prepare = yield from self.put_new(incarnation, round_, _NOTHING)
            scene = yield from self.scene()


def create(name: Name, body: Body, creation: Creation) -> Protocol[Created]:
    """Bring ``name`` into being with these bytes, at most once.

    Six requests where nobody else is there: prepare, list, look at the plain name, accept, list, publish.

    Parameters
    ----------
    name
        What the policy says of the name.
    body
        The bytes; they must stay readable until the protocol ends.
    creation
        Its token decides "was it me?".

    Raises
    ------
    NameTaken
        Another creation provably holds the name.
    OutcomeUnknown
        No decision until the deadline, or this creation's own was lost from sight.
    OSError
        The store refused the bytes, and nothing was written under the name.
    """
    voter = _Voter(folder_of(name), name.path, creation)
    try:
        created = yield from _create(voter, body)
    except GeneratorExit:
        raise
    except BaseException as error:
        if not voter.committed or isinstance(error, PutIfAbsentError):
            raise
        unknown = voter.unknown(f"a ballot had been sent, and then there was {type(error).__name__}: {error}")
        if isinstance(error, Exception):
            raise unknown from error
        raise error from unknown
    return created


def _create(voter: _Voter, body: Body) -> Protocol[Created]:
    incarnation = 1
    while True:
        prepare = yield from voter.put_new(incarnation, 0, body)
        scene = yield from voter.scene()
        try:
            if scene.incarnation > incarnation:
                raise _Ended(scene)
            yield from _look_at_plain(voter, scene, prepare)
            value = yield from voter.decide(prepare, scene, prepare.voter)
            yield from voter.publish(incarnation, value)
        except _Ended as ended:
            incarnation = yield from _after_the_end(voter, ended.scene, prepare)
            if incarnation == 0:
                return Created()
            continue
        if voter.is_mine(value):
            return Created()
        yield from _withdraw(voter, prepare)
        raise NameTaken(voter.name, (yield from _holder(voter, value)))


def _look_at_plain(voter: _Voter, scene: Scene, prepare: Prepare) -> Protocol[None]:
    """See whether the name is there already: published in this incarnation, or older than the shim."""
    seen = yield from look(voter.name, voter.name, voter.creation.token, "a prepare was put")
    if isinstance(seen, Absent):
        return
    token = seen.holder.token
    if token in scene.creations_ended():
        return  # of an incarnation that has ended: not removed yet, or about to be published over
    if token == voter.creation.token:
        return
    yield from _withdraw(voter, prepare)
    raise NameTaken(voter.name, seen.holder)


def _after_the_end(voter: _Voter, scene: Scene, prepare: Prepare) -> Protocol[int]:
    """Return the incarnation to go on with, or 0 where the one that has ended was mine."""
    incarnation = prepare.incarnation
    winner = scene.ends.get(incarnation)
    if winner is not None and voter.is_mine(winner):
        return 0
    if winner is None and incarnation in voter.committed:
        raise voter.unknown("the incarnation in which it was put to the vote has ended, and been cleaned up")
    voter.committed.discard(incarnation)
    yield from voter.bury(scene)
    yield from _withdraw(voter, prepare)
    return scene.incarnation


def _withdraw(voter: _Voter, prepare: Prepare) -> Protocol[None]:
    """Remove my bytes where they can't become the name any more. What stays is litter."""
    if prepare.incarnation not in voter.committed:
        with contextlib.suppress(OutcomeUnknown):
            yield from voter.remove(voter.path(prepare))


def _holder(voter: _Voter, value: str) -> Protocol[Holder]:
    """Say whose the decided value is; the plain name says more of it, while it is there."""
    seen = yield from look(voter.name, voter.name, voter.creation.token, "it was decided for another")
    token = _creation_of(value)
    return seen.holder if isinstance(seen, Found) and seen.holder.token == token else Holder(token)


def _finished(voter: _Voter, scene: Scene) -> Protocol[str | None]:
    """Return the value of the living incarnation, after finishing its ballot; None where there is none."""
    incarnation = scene.incarnation
    if scene.accepted(incarnation) is None:
        return None
    prepare = yield from voter.put_new(incarnation, scene.highest_round(incarnation) + 1, _NOTHING)
    seen = yield from voter.scene()
    value = yield from voter.decide(prepare, seen, None)
    return value


def find(name: Name, creation: Creation) -> Protocol[Found | Absent]:
    """Say who holds ``name``, finishing what a dead writer left.

    Parameters
    ----------
    name
        What the policy says of the name.
    creation
        Whose token makes this reader's ballots its own.
    """
    voter = _Voter(folder_of(name), name.path, creation)
    while True:
        scene = yield from voter.scene()
        incarnation = scene.incarnation
        plain = yield from look(name.path, name.path, creation.token, "the store was asked who holds the name")
        published = plain.holder.token if isinstance(plain, Found) else None
        if published is not None and published in map(_creation_of, scene.values(incarnation)):
            return plain
        try:
            value = yield from _finished(voter, scene)
            if value is None:
                return Absent() if published in scene.creations_ended() else plain
            if (yield from voter.publish(incarnation, value)):
                return Found((yield from _holder(voter, value)))
        except _Ended:
            pass
        yield from voter.pause("the name is being deleted and created meanwhile")


def resolve(name: Name, creation: Creation) -> Protocol[Holder | None]:
    """Answer an unknown outcome later, as :func:`putifabsent.shim.create.resolve` does."""
    seen = yield from find(name, creation)
    if isinstance(seen, Absent):
        return None
    if seen.holder.token != creation.token:
        raise NameTaken(name.path, seen.holder)
    return seen.holder


def delete(name: Name, creation: Creation) -> Protocol[None]:
    """Free ``name``: end its incarnation, then remove its bytes, then the plain name.

    Raises
    ------
    OutcomeUnknown
        Whether it is gone can't be known.
    """
    voter = _Voter(folder_of(name), name.path, creation)
    scene = yield from voter.scene()
    try:
        value = yield from _finished(voter, scene)
    except _Ended as ended:
        scene, value = ended.scene, None
    if value is not None:
        yield from voter.put(End(scene.incarnation, value))
        scene = yield from voter.scene()
    yield from voter.bury(scene)
    yield from _remove_plain(voter)
    scene = yield from voter.scene()
    with contextlib.suppress(_Ended):
        following = yield from _finished(voter, scene)
        if following is not None:
            seen = yield from look(name.path, name.path, creation.token, "it was deleted")
            if isinstance(seen, Absent):
                yield from voter.publish(scene.incarnation, following)


def _remove_plain(voter: _Voter) -> Protocol[None]:
    """Remove the plain name, unless it is of the incarnation that lives."""
    seen = yield from look(voter.name, voter.name, voter.creation.token, "it is being deleted")
    if isinstance(seen, Absent):
        return
    # Listed after the look: what had been published by then shows its accept.
    scene = yield from voter.scene()
    living = {_creation_of(value) for value in scene.values(scene.incarnation)}
    if seen.holder.token is None or seen.holder.token not in living:
        yield from voter.remove(voter.name, seen.holder.version)


def clean(name: Name, creation: Creation) -> Protocol[int]:
    """Remove what ended incarnations have left; return how many keys.

    The newest end stays, for it says which incarnation lives; and so does all of that one.
    """
    voter = _Voter(folder_of(name), name.path, creation)
    scene = yield from voter.scene()
    newest = scene.incarnation - 1
    over: list[Key] = [
        *(each for each in scene.dead() if each.incarnation <= newest),
        *(each for each in scene.prepares if each.incarnation <= newest),
        *(each for each in scene.accepts if each.incarnation <= newest),
        *(End(incarnation, value) for incarnation, value in scene.ends.items() if incarnation < newest),
    ]
    number = 0
    for number, key in zip(count(1), dict.fromkeys(over)):
        yield from voter.remove(voter.path(key))
    return number
