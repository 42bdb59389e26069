"""The bucket alone decides: Disk Paxos with a single disk, on keys that are only ever added.

It wants puts that are atomic, a copy within the store, and a listing that shows what was put before. All that
is known of one identity lies in one folder (:mod:`putifabsent.shim.ballot_state`).

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
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, NoReturn

from putifabsent.backends.base import Absent, Created, Creation, Found, Holder
from putifabsent.backends.registries import Acquired, Held, Lock, Maybe
from putifabsent.errors import NameExpired, NameTaken, OutcomeUnknown, PutIfAbsentError, unknown_from
from putifabsent.shim.ballot_state import (
    End,
    Ended,
    Key,
    Prepare,
    Removed,
    Scene,
    Voter,
    is_copy,
    is_void,
    marked,
    rank_of,
    void_of,
)
from putifabsent.shim.expiry import check_number
from putifabsent.shim.requests import (
    Acquire,
    Delete,
    Head,
    Located,
    Pause,
    Protocol,
    Release,
    look,
    read,
    removed,
)
from putifabsent.shim.state_keys import creation_of

if TYPE_CHECKING:
    from datetime import datetime

    from putifabsent.backends.base import Body
    from putifabsent.shim.names import Name

_ENDS = 2
"""So many ends a deletion leaves: a creator who was paused past the one but last gets the answer "won"."""

LEASE = 5.0
"""Of a lock, seconds: many times what a ballot takes. A holder that dies is waited for no longer."""

PATIENCE = 1 / 3
"""The share of the time until the deadline for which a busy lock is waited for; the ballot has the rest."""


def create(name: Name, body: Body, creation: Creation) -> Protocol[Created]:
    """Bring ``name`` into being with these bytes, at most once; they must stay readable until it ends.

    Six requests where nobody else is there: prepare, list, look at the plain name, accept, list, publish.

    ``NameTaken``: another creation provably holds the name. ``OutcomeUnknown``: no decision until the
    deadline, or this creation's own was lost from sight. ``OSError``: the store refused, or others came
    between until the deadline, and it was never put to the vote.
    """
    voter = Voter(name, creation)
    try:
        created = yield from _create(voter, body)
    except GeneratorExit:
        raise
    except BaseException as error:
        if not voter.committed:
            # Nobody waits for that: what stays is litter.
            for path in voter.litter:
                yield Delete(path)
        if not voter.committed or isinstance(error, PutIfAbsentError):
            raise
        reason = f"a ballot had been sent, and then there was {type(error).__name__}: {error}"
        unknown_from(error, voter.unknown(reason))
    return created


def find(
    name: Name, creation: Creation, *, helps: bool = True, is_decided: bool = False
) -> Protocol[Located | Absent]:
    """Say who holds ``name`` and where its bytes lie, finishing what a dead writer has left.

    One listing, where nobody is in the middle of creating the name; one look more at a name that this
    protocol has never created, for it may be older than the shim, and where a ballot has begun above the last
    accept, for the plain name proves a decision that a listing does not. Only where nothing does is a ballot
    finished, which is to write: then the creation was not acknowledged, unless a deletion of the incarnation
    before has hidden the plain name. Where this reader may not, a name in its first incarnation is absent
    without ``helps``. What ``is_decided`` is for the value of the highest accept, whatever ballots have begun
    above that: each takes over the value that was decided.

    ``OutcomeUnknown``: a creator has died in the middle, and this reader may not finish what that has begun.
    ``OSError``: the store can't be read, or others came between until the deadline.
    """
    voter = Voter(name, creation)
    scene = yield from voter.scene()
    while True:
        try:
            accept = scene.highest(scene.incarnation) if is_decided else None
            value = (yield from voter.settled(scene)) if accept is None else accept.value
        except Ended as ended:
            yield from voter.pause("the name is being deleted and created meanwhile")
            scene = ended.scene
            continue
        except Exception as error:
            if error is not voter.refused:
                raise
            if not helps and scene.incarnation == 1:
                return Absent()
            reason = f"its creator stopped in the middle, and who reads it may not finish that: {error}"
            raise voter.unknown(reason) from error
        if value is not None and not is_void(value):
            if rank_of(value) != name.rank:
                return Absent()  # the identity is there, under another of its names
            prepare = Prepare(scene.incarnation, 0, value)
            return Located(Holder(creation_of(value), None, scene.prepares.get(prepare)), voter.path(prepare))
        seen = yield from look(name.path, name.path, creation.token, "its ballots say nothing of it")
        if isinstance(seen, Absent) or scene.has_ended(seen.holder.token):
            return Absent()
        scene = yield from voter.scene()
        if not scene.knows(seen.holder.token):
            return Located(_plain_holder(seen), name.path)
        yield from voter.pause("it was created meanwhile")


def resolve(name: Name, creation: Creation) -> Protocol[Holder | None]:
    """Answer an unknown outcome later, as :func:`putifabsent.shim.create.resolve` does.

    None also if it was created, and deleted since, though another creation holds the name now. ``NameTaken``:
    another holds the name, and this one never did. ``OutcomeUnknown``: also if another holds it, and whose it
    was before was cleaned up; NameTaken is its cause.
    """
    voter = Voter(name, creation)
    try:
        seen = yield from find(name, creation)
        # Listed after that: the ends of those who held it before are there by now, or were cleaned up.
        scene = yield from voter.scene()
    except OutcomeUnknown:
        raise
    except OSError as error:
        raise voter.unknown(f"its ballots can't be read: {error}") from error
    if isinstance(seen, Absent) or any(map(voter.is_mine, scene.ends.values())):
        return None
    if seen.holder.token != creation.token:
        taken = NameTaken(name.path, seen.holder)
        if not scene.is_whole:
            raise voter.unknown("it may have been created, and deleted since: another holds it") from taken
        raise taken
    made = seen.holder.created
    yield from check_number(name, creation.token, lost=True, put_at=lambda: _already(made))
    # Its ballots don't say who wrote it, nor how much.
    more = yield from look(seen.path, name.path, creation.token, "it was created")
    return replace(more.holder, token=creation.token) if isinstance(more, Found) else seen.holder


def delete(name: Name, creation: Creation, *, last: bool = False) -> Protocol[bool]:
    """Free ``name``: end its incarnation, then remove its bytes, then the plain name.

    Then what is needless goes, so that a name that is created and deleted again and again keeps no more than
    its last ends. What can't be removed stays for the next one, and for clean-up. After the ``last`` time no
    end stays, where all of them are there and of real creations: one that clean-up has voted for may be sent
    by anybody once more, who was paused.

    ``OutcomeUnknown``: its incarnation may have ended, or what is older than the shim been removed.
    ``OSError``: the store refuses, or does not answer in time, and nothing of it is gone.
    """
    voter = Voter(name, creation)
    scene = yield from voter.scene()
    try:
        value = yield from voter.finished(scene)
    except Ended as ended:
        scene, value = ended.scene, None
    if value is not None and rank_of(value) == name.rank:
        voter.committed.add(scene.incarnation)
        scene = yield from _end(voter, scene.incarnation, value)
    yield from voter.bury(scene)
    yield from _remove_plain(voter, name.path, older=True)
    scene = yield from _show(voter)
    goes_whole = last and scene.is_spent
    left = _needless(scene, 0 if goes_whole else _ENDS)
    with contextlib.suppress(OSError):
        while left:
            yield from voter.remove(voter.path(left[0]))
            left.pop(0)
    return goes_whole and not left


def clean(name: Name, creation: Creation) -> Protocol[int]:
    """Finish what dead writers and deleters have left; return how many keys were removed.

    The newest end stays, for it says which incarnation lives; and so does all of that one, which is published
    where it is not. One for which bytes were put, and nothing else, is ended: who put them takes the next.
    """
    voter = Voter(name, creation)
    scene = yield from voter.scene()
    try:
        yield from voter.finished(scene)
    except Ended as ended:  # clean-up that was killed had voted for nobody
        scene = ended.scene
    yield from voter.bury(scene)
    if scene.is_abandoned:
        scene = yield from _void(voter)
    for each in name.all_names:
        yield from _remove_plain(voter, each, older=False)
    yield from _show(voter)
    over = _needless(scene, 1)
    for key in over:
        yield from voter.remove(voter.path(key))
    return len(over)


def forget(name: Name, creation: Creation) -> Protocol[None]:
    """Remove all that is kept of an identity, its last end included, and its plain names.

    The bytes go first, for what is gone nobody publishes again; the plain names last, for whoever goes
    through them finds there what one who died in the middle has left.
    """
    voter = Voter(name, creation)
    scene = yield from voter.scene()
    ends = [End(*end) for end in sorted(scene.ends.items())]
    keys: list[Key] = [*sorted(scene.prepares, key=lambda each: each.round), *scene.accepts, *ends]
    left = [*map(voter.path, keys), *name.all_names]
    while left:
        yield from removed(left.pop(0))


def _create(voter: Voter, body: Body) -> Protocol[Created]:
    incarnation = 1
    while True:
        prepare = yield from voter.put_new(incarnation, 0, body)
        scene = yield from voter.scene()
        try:
            value = yield from _value_of(voter, scene, prepare)
        except Ended as ended:
            if (yield from _was_mine(voter, ended.scene, prepare)):
                return Created()
            incarnation = ended.scene.incarnation
            continue
        except Removed:
            yield from voter.pause("its ballots are being removed, by something that goes round the shim")
            continue
        if voter.is_mine(value):
            yield from voter.publish(incarnation, value)
            mine = Prepare(incarnation, 0, value)
            yield from check_number(
                voter.what,
                voter.creation.token,
                put_at=partial(_made, voter, mine),
                withdraw=partial(_free, voter, mine),
            )
            return Created(again=value != prepare.voter)
        yield from _withdraw(voter)
        if incarnation in voter.committed:
            yield from _refuse_unbacked(voter, incarnation, value)
        raise NameTaken(voter.name, (yield from _holder(voter, incarnation, value)))


def _refuse_unbacked(voter: Voter, incarnation: int, value: str) -> Protocol[None]:
    """Pass if another's value, which was decided, is there still, or has ended.

    What goes round the shim may have removed its bytes; then others may have taken over the value that I have
    voted for, before I withdrew it.
    """
    scene = yield from voter.scene()
    accept = scene.highest(incarnation)
    if scene.ends.get(incarnation) != value and (accept is None or accept.value != value):
        raise voter.unknown("its ballots were removed, by something that goes round the shim")
    voter.committed.discard(incarnation)


def _value_of(voter: Voter, scene: Scene, prepare: Prepare) -> Protocol[str]:
    """Return the value of the incarnation that ``prepare`` is for, after deciding it."""
    if scene.incarnation > prepare.incarnation:
        raise Ended(scene)
    value = scene.decided(prepare.incarnation)
    if value is not None:
        return (yield from voter.valid(prepare.incarnation, value))
    value = yield from _look_at_plain(voter, scene, prepare)
    return (yield from voter.decide(prepare, scene, prepare.voter)) if value is None else value


def _look_at_plain(voter: Voter, scene: Scene, prepare: Prepare) -> Protocol[str | None]:
    """Return the value that a plain name proves to be decided, as :meth:`Voter.proven`.

    ``NameTaken``: something is under it of which no ballot knows: it was there before.
    """
    accept = scene.highest(prepare.incarnation)
    for name in voter.what.all_names:
        seen: Found | Absent = yield from read(Head(name), voter.failure)
        if isinstance(seen, Absent) or scene.has_ended(seen.holder.token):
            continue
        if accept is not None and is_copy(seen, prepare.incarnation, accept.value):
            return accept.value
        # Listed after the look: what was published by then has its ballots by now.
        if marked(seen.holder.token) is not None and (yield from voter.scene()).knows(seen.holder.token):
            continue
        raise NameTaken(voter.name, _plain_holder(seen))
    return None


def _was_mine(voter: Voter, scene: Scene, prepare: Prepare) -> Protocol[bool]:
    """Say whether the incarnation that has ended was mine; clear up after it where it was not."""
    winner = scene.ends.get(prepare.incarnation)
    if winner is not None and voter.is_mine(winner):
        return True
    if winner is None and prepare.incarnation in voter.committed:
        raise voter.unknown("the incarnation in which it was put to the vote has ended, and been cleaned up")
    voter.committed.discard(prepare.incarnation)
    voter.helped.discard(prepare.incarnation)
    yield from voter.bury(scene)
    yield from _withdraw(voter)
    return False


def _withdraw(voter: Voter) -> Protocol[None]:
    """Remove my bytes, which can't become the name any more. What stays is litter."""
    with contextlib.suppress(OSError):
        for path in voter.litter:
            yield from voter.remove(path)
    voter.bodies.clear()


def _void(voter: Voter) -> Protocol[Scene]:
    """End an incarnation in which nobody has voted, by a vote; a name that is older than the shim keeps it.

    That name's creator may have voted here before, and been acknowledged; and what carries it may be marked
    like a copy of this incarnation, if another table was its first.
    """
    for name in voter.what.all_names:
        seen = yield from look(name, voter.name, voter.creation.token, "nobody has voted for it")
        if isinstance(seen, Found):
            return (yield from voter.scene())
    # Listed after the looks: it may have been created, and deleted, by then.
    scene = yield from voter.scene()
    if scene.is_abandoned:
        try:
            yield from voter.called(scene, void_of(voter.creation.token))
        except Ended as ended:
            scene = ended.scene
        except Removed:
            scene = yield from voter.scene()
    return scene


def _end(voter: Voter, incarnation: int, value: str) -> Protocol[Scene]:
    yield from voter.put(End(incarnation, value))
    return (yield from voter.scene())


def _made(voter: Voter, prepare: Prepare) -> Protocol[datetime | None]:
    """Say when the bytes of a creation were put, by the store's time; None: they are gone."""
    path = voter.path(prepare)
    seen = yield from look(path, voter.name, voter.creation.token, "it was created")
    return None if isinstance(seen, Absent) else seen.holder.created or seen.holder.begun


def _already(known: datetime | None) -> Protocol[datetime | None]:
    yield from ()
    return known


def _free(voter: Voter, prepare: Prepare) -> Protocol[NoReturn]:
    """Free the name again, and call my creation lost only once it is gone."""
    scene = yield from _end(voter, prepare.incarnation, prepare.voter)
    yield from voter.bury(scene)
    yield from _remove_plain(voter, voter.name, older=False)
    raise NameExpired(voter.name)


def _holder(voter: Voter, incarnation: int, value: str) -> Protocol[Holder]:
    """Say whose the decided value is; the plain name says more of it, or is published by the way."""
    name = voter.name_of(value)
    seen: Found | Absent = yield from read(Head(name), voter.failure)
    if isinstance(seen, Found) and marked(seen.holder.token) == (incarnation, value):
        return _plain_holder(seen)
    if isinstance(seen, Absent):
        with contextlib.suppress(OSError):
            yield from voter.publish(incarnation, value)
    return Holder(creation_of(value))


def _plain_holder(seen: Found) -> Holder:
    was = marked(seen.holder.token)
    return seen.holder if was is None else replace(seen.holder, token=creation_of(was[1]))


def _remove_plain(voter: Voter, name: str, *, older: bool) -> Protocol[None]:
    """Remove the plain name of an incarnation that has ended; with ``older``, any that no ballot knows."""
    seen = yield from look(name, voter.name, voter.creation.token, "it is being deleted")
    if isinstance(seen, Absent):
        return
    # Listed after the look: what was published by then has its ballots by now.
    scene = yield from voter.scene()
    is_older = older and not scene.knows(seen.holder.token)
    if is_older:
        # From here on it may be gone, and a failure is an unknown outcome.
        voter.committed.add(scene.incarnation)
    if is_older or scene.has_ended(seen.holder.token):
        yield from voter.remove(name, seen.holder.version)


def _needless(scene: Scene, ends: int) -> list[Key]:
    """Return the keys of ended incarnations, without their last ends, of which so many stay.

    The ends come last: without them, what is left of their incarnations would seem to live.
    """
    newest = scene.incarnation - 1
    keys: list[Key] = [*scene.prepares, *scene.accepts]
    over = [key for key in keys if key.incarnation <= newest]
    return [*over, *(End(*end) for end in sorted(scene.ends.items()) if end[0] <= newest - ends)]


def _show(voter: Voter) -> Protocol[Scene]:
    """Publish the living incarnation where nothing shows it: a deletion of the one before may have hit it.

    Returns what a listing has shown by then.
    """
    scene = yield from voter.scene()
    with contextlib.suppress(Ended):
        value = yield from voter.finished(scene)
        if value is not None:
            seen = yield from look(voter.name_of(value), voter.name, voter.creation.token, "it lives")
            if isinstance(seen, Absent):
                yield from voter.publish(scene.incarnation, value)
    return scene


# --- behind a lock: progress from the one, safety from the other
#
# Writers who meet in a ballot cost each other rounds. So a creation may ask for a lock first, and whoever
# finds it held waits a while. But a lock can be lost, unnoticed: its lease ends while its holder is
# paused, its server fails over and has never heard of it, its answer goes astray. So nothing is ever
# concluded from it: with the lock, without it, or with one that somebody else believes to hold as well,
# the same ballot decides. What a bad lock costs is time. Readers and deletions do not ask for it.


def create_in_turn(
    name: Name, body: Body, creation: Creation, *, lock: Lock, place: str, lease: float = LEASE
) -> Protocol[Created]:
    """Bring ``name`` into being as :func:`create`, in turn with those who ask for the same lock.

    Eight requests where nobody else is there: the lock, the six of the ballot, the lock again. It may be
    lost, or grant everybody all at once; no fault of it is an error. ``place`` is the store's canonical
    address, up to where its names begin (``s3://``): one lock serves many. After ``lease`` seconds it is free
    again, should this writer die.
    """
    turn = _Turn(lock, f"{place}{name.canonical}", creation.token, lease)
    try:
        yield from _wait(turn, name, creation)
        created = yield from create(name, body, creation)
    except GeneratorExit:
        raise
    except BaseException as error:
        yield from _release(turn, error)
        raise
    reason = "it was created, and interrupted while it gave back the lock"
    yield from _release(turn, OutcomeUnknown(name.path, creation.token, reason))
    return created


@dataclass(slots=True)
class _Turn:
    """A lock that one creation asks for, and whether it may have been granted."""

    lock: Lock
    key: str
    owner: str
    lease: float
    may_be_mine: bool = False


def _wait(turn: _Turn, name: Name, creation: Creation) -> Protocol[None]:
    """Wait for the lock, but not for long.

    ``NameTaken``: somebody has created the name meanwhile: most who wait hear this, and need no lock for it.
    """
    for attempt in count(1):
        # An interruption may come when it was just granted.
        turn.may_be_mine = True
        outcome = yield Acquire(turn.lock, turn.key, turn.owner, turn.lease)
        busy = isinstance(outcome, Held) and outcome.by != turn.owner
        turn.may_be_mine = isinstance(outcome, (Acquired, Held, Maybe)) and not busy
        if not busy or not (yield Pause(attempt, PATIENCE)):
            return
        yield from glance(name, creation)


def glance(name: Name, creation: Creation) -> Protocol[None]:
    """See by one listing whether ``name`` is decided for another: ``NameTaken``. Put nothing to the vote."""
    voter = Voter(name, creation)
    scene = yield from voter.scene()
    value = scene.decided(scene.incarnation)
    if value is not None and not voter.is_mine(value) and not is_void(value):
        raise NameTaken(voter.name, (yield from _holder(voter, scene.incarnation, value)))


def _release(turn: _Turn, before: BaseException) -> Protocol[None]:
    """Give back a lock that may be mine; an interruption of that carries what was known ``before``."""
    try:
        with contextlib.suppress(Exception):  # the lease ends by itself
            if turn.may_be_mine:
                yield Release(turn.lock, turn.key, turn.owner)
    except GeneratorExit:
        raise
    except BaseException as stop:
        # Of two interruptions the first one counts.
        if isinstance(before, Exception):
            raise stop from before
