"""One process's part in the ballots about one identity: its requests, and how it decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from putifabsent.backends.base import Absent, Deleted, Exists, Maybe, Refused, Written
from putifabsent.backends.body import InMemory
from putifabsent.errors import OutcomeUnknown
from putifabsent.shim.reading import look, read, unanswered
from putifabsent.shim.requests import Delete, List, Pause, Publish, Put
from putifabsent.shim.scenes import (
    Accept,
    End,
    Prepare,
    Scene,
    creation_of,
    folder_of,
    is_void,
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

__all__ = ["Ended", "Voter"]

_NOTHING = InMemory(b"")


class Ended(Exception):
    """No error: the incarnation that a ballot was about has ended; ``scene`` shows it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene


@dataclass(slots=True)
class Voter:
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
    folder
        Where the ballots lie.
    """

    what: Name
    creation: Creation
    tries: int = 0
    pauses: int = 0
    committed: set[int] = field(default_factory=set)
    folder: str = field(init=False)

    def __post_init__(self) -> None:
        """Find out where the ballots lie."""
        self.folder = folder_of(self.what)

    @property
    def name(self) -> str:
        """The plain name."""
        return self.what.path

    @property
    def voter(self) -> str:
        """What its keys are called by now."""
        return voter_of(self.creation.token, self.tries, self.what.rank)

    def name_of(self, value: str) -> str:
        """Return the plain name that a value is for: its identity may have several."""
        return self.what.all_names[rank_of(value)]

    def is_mine(self, value: str) -> bool:
        """Whether a value is of this creation."""
        return creation_of(value) == self.creation.token

    def path(self, key: Key) -> str:
        """Return the full name of a key."""
        return f"{self.folder}/{written(key)}"

    def unknown(self, reason: str) -> OutcomeUnknown:
        """Return the error for an outcome that can't be known."""
        return OutcomeUnknown(self.name, self.creation.token, reason)

    def pause(self, reason: str) -> Protocol[None]:
        """Back off; raises OutcomeUnknown where there is no time for another attempt."""
        self.pauses += 1
        if not (yield Pause(self.pauses)):
            raise self.unknown(f"no decision in time: {reason}")

    def scene(self) -> Protocol[Scene]:
        """List the ballots."""
        listed: Listed = yield from read(List(self.folder), self.failure)
        return Scene.of(listed.entries)

    def failure(self, error: Exception) -> Exception:
        """Return what to raise where the store can't be read."""
        # Before it has voted nothing of it can be decided, ever: it has failed for certain.
        if not self.committed:
            return unanswered(error)
        return self.unknown(f"the store can't be read: {error}")

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
        """Put a key, once."""
        # The plain name is a copy, and tells by this of which incarnation it is.
        creation = self.creation._replace(token=mark(key.incarnation, self.voter))
        outcome: PutOutcome = yield Put(self.path(key), body, creation)
        return outcome

    def remove(self, path: str, version: str | None = None) -> Protocol[None]:
        """Remove an object, until that is certain."""
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
        Ended
            The incarnation has ended meanwhile.
        """
        incarnation = scene.incarnation
        if scene.highest(incarnation) is None:
            return None
        value = scene.decided(incarnation)
        if value is None:
            scene = yield from self._quiet(scene)
            value = scene.decided(incarnation)
        if value is None:
            value = yield from self.called(scene, None)
        return (yield from self.valid(incarnation, value))

    def called(self, scene: Scene, own: str | None) -> Protocol[str]:
        """Call a ballot above all of the living incarnation, and decide it as :meth:`decide`."""
        incarnation = scene.incarnation
        prepare = yield from self.put_new(incarnation, scene.next_round(incarnation), _NOTHING)
        seen = yield from self.scene()
        value = yield from self.decide(prepare, seen, own)
        return value

    def valid(self, incarnation: int, value: str) -> Protocol[str]:
        """Return a decided value; where it is void, end the incarnation.

        Raises
        ------
        Ended
            It was.
        """
        if is_void(value):
            yield from self.put(End(incarnation, value))
            raise Ended((yield from self.scene()))
        return value

    def decide(self, prepare: Prepare, scene: Scene, own: str | None) -> Protocol[str]:
        """Bring the incarnation's ballots to a decision, beginning with ``prepare``, which is there.

        Parameters
        ----------
        prepare
            Whose ballot.
        scene
            What a listing has shown since.
        own
            The value to stand for, where none was accepted.

        Raises
        ------
        Ended
            The incarnation has ended meanwhile.
        """
        value = yield from self._decide(prepare, scene, own)
        return (yield from self.valid(prepare.incarnation, value))

    def _decide(self, prepare: Prepare, scene: Scene, own: str | None) -> Protocol[str]:
        incarnation = prepare.incarnation
        while True:
            if scene.incarnation > incarnation:
                raise Ended(scene)
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
                    raise Ended(scene)
                if not scene.higher(incarnation, prepare.ballot):
                    return value
            scene = yield from self._quiet(scene)
            decided = scene.decided(incarnation)
            if decided is not None:
                return decided
            prepare = yield from self.put_new(incarnation, scene.next_round(incarnation), _NOTHING)
            scene = yield from self.scene()

    def _quiet(self, scene: Scene) -> Protocol[Scene]:
        """Back off until there is a decision, or no ballot has come from one listing to the next.

        The highest ballot's caller is the one that can bring the decision, if nobody comes between: of many
        who wait for it, none does until it seems to have stopped.

        Raises
        ------
        Ended
            The incarnation has ended meanwhile.
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
