"""What writers that died have left of one identity, and other tools have broken: found, and mended.

Looking changes nothing. Mending is the arbiters' own clean-up (:func:`putifabsent.shim.ballot.clean`,
:func:`putifabsent.shim.claims.clean`), which is safe while writers are writing, and what that may not do.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.backends.base import Absent, Creation, Found, Listed
from putifabsent.errors import OutcomeUnknown
from putifabsent.shim import ballot
from putifabsent.shim.ballot_state import Accept, End, Prepare, Scene, Voter, is_copy, is_void
from putifabsent.shim.claimant import Claimant, has_ended
from putifabsent.shim.claims import clean
from putifabsent.shim.requests import List, Protocol, Publish, look, read
from putifabsent.shim.state_keys import folder_of as salted_folder_of
from putifabsent.shim.state_keys import parsed

if TYPE_CHECKING:
    from datetime import datetime

    from putifabsent.shim.arbiter import Claiming
    from putifabsent.shim.names import Name


class What(str, Enum):
    """What is left, or broken."""

    UNPUBLISHED = "unpublished"  # it is decided, and the plain name does not show it
    UNDECIDED = "undecided"  # a ballot that has begun, and that nobody has finished
    ABANDONED = "abandoned"  # bytes that were put, and never put to the vote, or never claimed
    ENDED = "ended"  # bytes and ballots of an incarnation that has ended
    COPY = "copy"  # the plain name shows an incarnation that has ended, or a commit that was undone
    REPLACED = "replaced"  # another tool has written over a guarded name
    # The same, or it is unpublished, where the store does not write over what lies in its place: on disk
    # whatever another tool has put there, in memory a folder.
    BLOCKED = "blocked"
    UNBACKED = "unbacked"  # the arbiter's bytes are gone, and their copy under the plain name is there
    LOST = "lost"  # the bytes of a name that lives are gone, and their copy as well
    TEMPORARY = "temporary"  # a temporary file of the local disk
    # The bytes of a commit of an instant that is over: its writer died, or it is published; or what somebody
    # left in a queue.
    NEEDLESS = "needless"
    REMOVED = "removed"  # another tool has removed a completed name of Hudi's, whose bytes the ledger keeps
    HALF_REMOVED = "half_removed"  # a ledger that has lost records: no write of its table can go on
    STRANGE = "strange"  # what is kept of a name that is unknown: by a mount with other formats, or hashed

    @property
    def repair(self) -> str:
        return _REPAIRS[self]


_REPAIRS = {
    What.UNPUBLISHED: "publish it",
    What.UNDECIDED: "finish the ballot, and publish it",
    What.ABANDONED: "end that incarnation, and remove the bytes",
    What.ENDED: "remove it",
    What.COPY: "remove it",
    What.REPLACED: "publish again what was decided",
    What.BLOCKED: "nothing: move away what lies there",
    What.UNBACKED: "copy the bytes back",
    What.LOST: "nothing: put the bytes back, or free the name",
    What.TEMPORARY: "remove it",
    What.NEEDLESS: "remove it",
    What.REMOVED: "nothing: copy the bytes to the name, or remove them",
    What.HALF_REMOVED: "nothing: end the ledger by `putifabsent drop`",
    What.STRANGE: "nothing",
}


class Leftover(NamedTuple):
    """Something that is left."""

    name: str  # the plain name that it is of; for a file that is of none, its own
    what: What
    path: str  # where it lies: an object, or a folder of them
    objects: int = 1
    newest: datetime | None = None  # when the store says the newest thing was made that is known of the name


def in_ballots(name: Name, creation: Creation) -> Protocol[list[Leftover]]:
    """Look what is left of ballots about an identity, and of its plain names."""
    voter = Voter(name, creation)
    listed: Listed = yield from read(List(voter.folder), voter.failure)
    scene = Scene.of(listed.entries)
    looks = yield from _looks(name, creation)
    times = [entry.created for entry in listed.entries]
    living = scene.incarnation
    votes: list[Prepare | Accept] = [*scene.prepares, *scene.accepts]
    over = sum(key.incarnation < living for key in votes) + sum(end < living - 1 for end in scene.ends)
    found = [(voter.name, What.ENDED, voter.folder, over)] if over else []
    there = {path: seen.holder.token for path, seen in looks.items() if isinstance(seen, Found)}
    ended = [path for path, token in there.items() if scene.has_ended(token)]
    found += [(path, What.COPY, path, 1) for path in ended]
    value = scene.decided(living) or scene.bare(living)
    is_older = len(there) > len(ended)
    if value is None and scene.is_abandoned and not is_older:
        found.append((voter.name, What.ABANDONED, voter.folder, len(scene.ballots(living))))
    elif scene.highest(living) is not None and (value is None or is_void(value)):
        found.append((voter.name, What.UNDECIDED, voter.folder, 1))
    elif value is not None:
        path, prepare = voter.name_of(value), Prepare(living, 0, value)
        seen, has_bytes = looks[path], prepare in scene.prepares
        is_it, hides = is_copy(seen, living, value), path in there and path not in ended
        what = _shown(is_it=is_it, hides=hides, has_bytes=has_bytes, guarded=name.guarded)
        if what is not None:
            found.append((path, what, voter.path(prepare), 1))
    return _leftovers(found, looks, times)


def in_claims(arbiter: Claiming, name: Name, creation: Creation) -> Protocol[list[Leftover]]:
    """Look what is left of claims of an identity, and of its plain names."""
    claimant = Claimant(arbiter, name, creation)
    folder = salted_folder_of(name)
    while True:
        listed: Listed = yield from read(List(folder))
        salted = {entry.name: part for entry in listed.entries if (part := parsed(entry.name)) is not None}
        claim = yield from claimant.read()
        looks = yield from _looks(name, creation)
        has_bytes = (
            claim is not None and claim.live and isinstance((yield from claimant.look(claim.key)), Found)
        )
        # What a deletion has removed in between is not lost.
        if has_bytes or claim is None or (yield from claimant.read()) == claim:
            break
    times = [entry.created for entry in listed.entries]
    used = 0 if claim is None else claim.incarnation
    living = None if claim is None or not claim.live else claim.key
    over = sum(part.incarnation <= used and key != living for key, part in salted.items())
    found = [(name.path, What.ENDED, folder, over)] if over else []
    there = {path: seen for path, seen in looks.items() if isinstance(seen, Found)}
    ended = [path for path, seen in there.items() if has_ended(seen, claim)]
    found += [(path, What.COPY, path, 1) for path in ended]
    free = sum(part.incarnation > used for part in salted.values())
    if free and living is None and len(there) == len(ended):
        found.append((name.path, What.ABANDONED, folder, free))
    shown = None if claim is None or living is None else claimant.path_of(claim)
    if claim is not None and shown is not None:
        part = parsed(claim.key)
        is_it = part is not None and shown in there and there[shown].holder.token == part.mark
        hides = shown in there and shown not in ended
        what = _shown(is_it=is_it, hides=hides, has_bytes=has_bytes, guarded=name.guarded)
        # Whoever finds the bytes of a claim gone takes their copy, and after the table was left that is all.
        if what is not None and what is not What.UNBACKED:
            found.append((shown, what, claim.key, 1))
    return _leftovers(found, looks, times)


def mend_ballots(name: Name, creation: Creation, *, free_lost: bool) -> Protocol[None]:
    """Finish and clean up what is left of an identity's ballots; with ``free_lost`` free it if it is lost."""
    voter = Voter(name, creation)
    left = yield from in_ballots(name, creation)
    whats = {each.what: each for each in left}
    scene = yield from voter.scene()
    value = scene.decided(scene.incarnation) or scene.bare(scene.incarnation)
    if value is not None and not is_void(value):
        if What.LOST in whats and free_lost and Prepare(scene.incarnation, 0, value) not in scene.prepares:
            # Says the same of this incarnation, whatever has become of it meanwhile.
            yield from voter.put(End(scene.incarnation, value))
        if What.UNBACKED in whats:
            yield Publish(whats[What.UNBACKED].name, whats[What.UNBACKED].path, creation)
        if What.REPLACED in whats:
            yield from voter.publish(scene.incarnation, value)
    yield from ballot.clean(name, creation)


def mend_claims(arbiter: Claiming, name: Name, creation: Creation, *, free_lost: bool) -> Protocol[None]:
    """Finish and clean up what is left of an identity's claims; with ``free_lost`` free it if it is lost."""
    claimant = Claimant(arbiter, name, creation)
    claim = yield from claimant.read()
    if free_lost and claim is not None and claim.live:
        left = yield from in_claims(arbiter, name, creation)
        # Only this claim: of one that came meanwhile the bytes are there.
        if any(each.what is What.LOST and each.path == claim.key for each in left):
            yield from claimant.end(claim)
    yield from clean(arbiter, name, creation)


def _looks(name: Name, creation: Creation) -> Protocol[dict[str, Found | Absent]]:
    looks: dict[str, Found | Absent] = {}
    for path in name.all_names:
        try:
            looks[path] = yield from look(path, name.path, creation.token, "it is looked after")
        except OutcomeUnknown as error:
            if not isinstance(error.__cause__, IsADirectoryError):
                raise
            looks[path] = Absent()
    return looks


def _shown(*, is_it: bool, hides: bool, has_bytes: bool, guarded: bool) -> What | None:
    """Say what is wrong with the plain name of an incarnation that lives; None: nothing.

    It shows the incarnation itself, or ``hides`` it behind another thing, which is not one that has ended.
    """
    if is_it:
        return None if has_bytes else What.UNBACKED
    if not hides:
        return What.UNPUBLISHED if has_bytes else What.LOST
    if not guarded:
        return None  # whoever wrote over it may
    return What.REPLACED if has_bytes else What.LOST


def _leftovers(
    found: list[tuple[str, What, str, int]], looks: dict[str, Found | Absent], times: list[datetime]
) -> list[Leftover]:
    """Say of each how old all is that is known of the name: a writer may be busy with it."""
    shown = [seen.holder.created for seen in looks.values() if isinstance(seen, Found)]
    newest = max([*times, *(each for each in shown if each is not None)], default=None)
    return [Leftover(*each, newest) for each in found]
