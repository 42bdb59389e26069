"""The bucket alone decides: Disk Paxos with a single disk, on keys that are only ever added.

It wants no condition of the store: puts that are atomic, a copy within the store, and a listing that shows
what was put before. All that is known of one identity lies in one folder (:mod:`putifabsent.shim.scenes`).

A ballot puts its prepare, lists, takes over the value of the highest accept (or its own, where there is
none), puts its accept, and lists again: if no higher ballot and no end of the incarnation is there, its value
is decided. Whoever finds an accept can finish the ballot, and comes to the same value.

Readers take the bytes from the prepare that carries them, never from the plain name: they can't change, and
nobody publishes over them. The plain name is for readers without the shim.

Eli Gafni and Leslie Lamport, "Disk Paxos", Distributed Computing 16 (2003). What is added: incarnations, so
that a name can be deleted and created again, and publishing under the plain name.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from putifabsent.backends.base import (
    Absent,
    Created,
    Deleted,
    Exists,
    Found,
    Holder,
    Maybe,
    Refused,
    Written,
)
from putifabsent.backends.body import InMemory
from putifabsent.errors import NameTaken, OutcomeUnknown, PutIfAbsentError
from putifabsent.shim.reading import Located, look, read
from putifabsent.shim.requests import Delete, List, Pause, Publish, Put
from putifabsent.shim.scenes import (
    Accept,
    End,
    Prepare,
    Scene,
    creation_of,
    folder_of,
    mark,
    marked,
    rank_of,
    voter_of,
    written,
)

if TYPE_CHECKING:
    from putifabsent.backends.base import Creation, DeleteOutcome, Listed, PublishOutcome, PutOutcome
    from putifabsent.backends.body import Body
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol
    from putifabsent.shim.scenes import Key

__all__ = ["clean", "create", "delete", "find", "resolve"]

_NOTHING = InMemory(b"")


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
    voter = _Voter(name, creation)
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
        # A cancellation stays one: its cause carries the token.
        raise error from unknown
    return created


def find(name: Name, creation: Creation) -> Protocol[Located | Absent]:
    """Say who holds ``name`` and where its bytes lie, finishing what a dead writer has left.

    One listing, where nobody is in the middle of creating the name; one look more at a name that this
    protocol has never created, for it may be older than the shim.

    Parameters
    ----------
    name
        What the policy says of the name.
    creation
        Whose token makes this reader's ballots its own.
    """
    voter = _Voter(name, creation)
    scene = yield from voter.scene()
    while True:
        try:
            value = yield from voter.finished(scene)
        except _Ended as ended:
            yield from voter.pause("the name is being deleted and created meanwhile")
            scene = ended.scene
            continue
        if value is not None:
            if rank_of(value) != name.rank:
                return Absent()  # the identity is there, under another of its names
            prepare = Prepare(scene.incarnation, 0, value)
            return Located(Holder(creation_of(value), None, scene.made.get(prepare)), voter.path(prepare))
        seen = yield from look(name.path, name.path, creation.token, "its ballots say nothing of it")
        if isinstance(seen, Absent) or scene.has_ended(seen.holder.token):
            return Absent()
        scene = yield from voter.scene()
        if not scene.knows(seen.holder.token):
            return Located(_plain_holder(seen), name.path)
        yield from voter.pause("it was created meanwhile")


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
    voter = _Voter(name, creation)
    scene = yield from voter.scene()
    try:
        value = yield from voter.finished(scene)
    except _Ended as ended:
        scene, value = ended.scene, None
    if value is not None and rank_of(value) == name.rank:
        voter.committed.add(scene.incarnation)
        yield from voter.put(End(scene.incarnation, value))
        scene = yield from voter.scene()
    yield from voter.bury(scene)
    yield from _remove_plain(voter, name.path, older=True)
    yield from _show(voter)


def clean(name: Name, creation: Creation) -> Protocol[int]:
    """Finish what dead writers and deleters have left; return how many keys were removed.

    The newest end stays, for it says which incarnation lives; and so does all of that one, which is published
    where it is not.
    """
    voter = _Voter(name, creation)
    scene = yield from voter.scene()
    yield from voter.bury(scene)
    for each in name.all_names:
        yield from _remove_plain(voter, each, older=False)
    yield from _show(voter)
    newest = scene.incarnation - 1
    # The ends come last: without them, what is left of their incarnations would seem to live.
    keys: list[Key] = [*scene.prepares, *scene.accepts]
    over = [key for key in keys if key.incarnation <= newest]
    over += [End(*end) for end in sorted(scene.ends.items()) if end[0] < newest]
    for key in over:
        yield from voter.remove(voter.path(key))
    return len(over)


class _Ended(Exception):
    """No error: the incarnation that a ballot was about has ended."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene


@dataclass(slots=True)
class _Voter:
    """One process's part in the ballots about one identity.

    Attributes
    ----------
    what
        What the policy says of the name.
    creation
        Its token makes ballots its own.
    tries
        How often it had to take another key: one whose put was not answered is never sent again.
    pauses
        How often it has backed off.
    committed
        The incarnations in which its own value may have been accepted, or that it may have ended.
    """

    what: Name
    creation: Creation
    tries: int = 0
    pauses: int = 0
    committed: set[int] = field(default_factory=set)

    @property
    def folder(self) -> str:
        return folder_of(self.what)

    @property
    def name(self) -> str:
        return self.what.path

    @property
    def voter(self) -> str:
        return voter_of(self.creation.token, self.tries, self.what.rank)

    def name_of(self, value: str) -> str:
        """Return the plain name that a value is for: its identity may have several."""
        return self.what.all_names[rank_of(value)]

    def is_mine(self, value: str) -> bool:
        return creation_of(value) == self.creation.token

    def path(self, key: Key) -> str:
        return f"{self.folder}/{written(key)}"

    def unknown(self, reason: str) -> OutcomeUnknown:
        return OutcomeUnknown(self.name, self.creation.token, reason)

    def pause(self, reason: str) -> Protocol[None]:
        self.pauses += 1
        if not (yield Pause(self.pauses)):
            raise self.unknown(f"no decision in time: {reason}")

    def scene(self) -> Protocol[Scene]:
        def failure(error: Exception) -> Exception:
            # Before it has voted nothing of it can be decided, ever: it has failed for certain.
            return self.unknown(f"{self.folder} can't be listed: {error}") if self.committed else error

        listed: Listed = yield from read(List(self.folder), failure)
        return Scene.of(listed.entries)

    def put_new(self, incarnation: int, round_: int, body: Body) -> Protocol[Prepare]:
        """Put a prepare that nobody has put before; after no answer, another one."""
        while True:
            prepare = Prepare(incarnation, round_, self.voter)
            outcome = yield from self.sent(prepare, body)
            if isinstance(outcome, Written):
                return prepare
            if isinstance(outcome, Refused):
                raise outcome.error
            if isinstance(outcome, Maybe):
                self.tries += 1
            yield from self.pause(f"the store did not take the bytes: {outcome.cause}")

    def put(self, key: Accept | End) -> Protocol[None]:
        """Put a key that says the same however often it is put."""
        while True:
            outcome = yield from self.sent(key, _NOTHING)
            if isinstance(outcome, Written):
                return
            if isinstance(outcome, Refused):
                raise self.unknown(f"the store refuses a ballot: {outcome.error}") from outcome.error
            yield from self.pause(f"the store did not take a ballot: {outcome.cause}")

    def sent(self, key: Key, body: Body) -> Protocol[PutOutcome]:
        # The plain name is a copy, and tells by this of which incarnation it is.
        creation = self.creation._replace(token=mark(key.incarnation, self.voter))
        outcome: PutOutcome = yield Put(self.path(key), body, creation)
        return outcome

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
                yield from self.pause(f"it was decided, and not published: {outcome.cause}")

    def is_published(self, incarnation: int, value: str) -> Protocol[bool]:
        """See what a store that can't overwrite has under the plain name; make way for the value."""
        name = self.name_of(value)
        seen = yield from look(name, self.name, self.creation.token, "it was decided")
        if isinstance(seen, Absent):
            return False
        was = marked(seen.holder.token)
        if was is None:
            raise self.unknown("it was decided, and something that went round the shim is in its place")
        if was[0] < incarnation:
            yield from self.remove(name, seen.holder.version)
        # A later incarnation's: this one has ended, and nobody wants it published any more.
        return was == (incarnation, value) or was[0] > incarnation

    def finished(self, scene: Scene) -> Protocol[str | None]:
        """Return the value of the living incarnation, after finishing its ballot; None where it has none.

        Raises
        ------
        _Ended
            The incarnation has ended meanwhile.
        """
        incarnation = scene.incarnation
        if scene.highest(incarnation) is None:
            return None
        value = scene.decided(incarnation)
        if value is None:
            prepare = yield from self.put_new(incarnation, scene.next_round(incarnation), _NOTHING)
            seen = yield from self.scene()
            value = yield from self.decide(prepare, seen, None)
        return value

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
                highest = scene.highest(incarnation)
                value = own if highest is None else highest.value
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
            round_ = scene.next_round(incarnation)
            yield from self.pause("other writers' ballots come between")
            prepare = yield from self.put_new(incarnation, round_, _NOTHING)
            scene = yield from self.scene()


def _create(voter: _Voter, body: Body) -> Protocol[Created]:
    incarnation = 1
    while True:
        prepare = yield from voter.put_new(incarnation, 0, body)
        scene = yield from voter.scene()
        try:
            value = yield from _value_of(voter, scene, prepare)
        except _Ended as ended:
            if (yield from _was_mine(voter, ended.scene, prepare)):
                return Created()
            incarnation = ended.scene.incarnation
            continue
        if voter.is_mine(value):
            yield from voter.publish(incarnation, value)
            return Created()
        yield from _withdraw(voter, prepare)
        raise NameTaken(voter.name, (yield from _holder(voter, incarnation, value)))


def _value_of(voter: _Voter, scene: Scene, prepare: Prepare) -> Protocol[str]:
    """Return the value of the incarnation that ``prepare`` is for, after deciding it."""
    if scene.incarnation > prepare.incarnation:
        raise _Ended(scene)
    value = scene.decided(prepare.incarnation)
    if value is None:
        yield from _look_at_plain(voter, scene, prepare)
        value = yield from voter.decide(prepare, scene, prepare.voter)
    return value


def _look_at_plain(voter: _Voter, scene: Scene, prepare: Prepare) -> Protocol[None]:
    """See whether something is under a plain name of which no ballot knows: it was there before."""
    for name in voter.what.all_names:
        seen = yield from look(name, voter.name, voter.creation.token, "a prepare was put")
        if isinstance(seen, Absent) or scene.has_ended(seen.holder.token):
            continue
        # Listed after the look: what was published by then has its ballots by now.
        if marked(seen.holder.token) is not None and (yield from voter.scene()).knows(seen.holder.token):
            continue
        yield from _withdraw(voter, prepare)
        raise NameTaken(voter.name, _plain_holder(seen))


def _was_mine(voter: _Voter, scene: Scene, prepare: Prepare) -> Protocol[bool]:
    """Say whether the incarnation that has ended was mine; clear up after it where it was not."""
    winner = scene.ends.get(prepare.incarnation)
    if winner is not None and voter.is_mine(winner):
        return True
    if winner is None and prepare.incarnation in voter.committed:
        raise voter.unknown("the incarnation in which it was put to the vote has ended, and been cleaned up")
    voter.committed.discard(prepare.incarnation)
    yield from voter.bury(scene)
    yield from _withdraw(voter, prepare)
    return False


def _withdraw(voter: _Voter, prepare: Prepare) -> Protocol[None]:
    """Remove my bytes, which can't become the name any more. What stays is litter."""
    with contextlib.suppress(OutcomeUnknown):
        yield from voter.remove(voter.path(prepare))


def _holder(voter: _Voter, incarnation: int, value: str) -> Protocol[Holder]:
    """Say whose the decided value is; the plain name says more of it, or is published by the way."""
    name = voter.name_of(value)
    seen = yield from look(name, voter.name, voter.creation.token, "it was decided for another")
    if isinstance(seen, Found) and marked(seen.holder.token) == (incarnation, value):
        return _plain_holder(seen)
    if isinstance(seen, Absent):
        with contextlib.suppress(OutcomeUnknown):
            yield from voter.publish(incarnation, value)
    return Holder(creation_of(value))


def _plain_holder(seen: Found) -> Holder:
    was = marked(seen.holder.token)
    return seen.holder if was is None else replace(seen.holder, token=creation_of(was[1]))


def _remove_plain(voter: _Voter, name: str, *, older: bool) -> Protocol[None]:
    """Remove the plain name of an incarnation that has ended; with ``older``, any that no ballot knows."""
    seen = yield from look(name, voter.name, voter.creation.token, "it is being deleted")
    if isinstance(seen, Absent):
        return
    # Listed after the look: what was published by then has its ballots by now.
    scene = yield from voter.scene()
    if scene.has_ended(seen.holder.token) or (older and not scene.knows(seen.holder.token)):
        yield from voter.remove(name, seen.holder.version)


def _show(voter: _Voter) -> Protocol[None]:
    """Publish the living incarnation where nothing shows it: a deletion of the one before may have hit it."""
    scene = yield from voter.scene()
    with contextlib.suppress(_Ended):
        value = yield from voter.finished(scene)
        if value is not None:
            seen = yield from look(voter.name_of(value), voter.name, voter.creation.token, "it lives")
            if isinstance(seen, Absent):
                yield from voter.publish(scene.incarnation, value)
