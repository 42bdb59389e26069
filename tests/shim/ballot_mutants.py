"""What the ballot must not leave out: each mutant leaves one thing out, and a schedule finds it."""

from __future__ import annotations

from tests.shim.ballots import Mutant

TWO = "two creators, one lost answer, one crash"
THREE = "three creators"
DELETED = "a creator, and a creation that is deleted"
CLEANED = "a creation that is deleted and cleaned up, and a creator"
LATE = "a creator, and a deletion, and one late request"
OLD = "a name older than the shim"
CLEAN = "clean-up at any time"
COPY = "a copy of the table, cleaned up"
COPIED = "a name that came with a copy of the table"
COPIED_CLEANED = "copied, and clean-up at any time"
LATE_END = "an end that comes late, after clean-up, and a creator"
REMOVED = "two creators, and a removal"
AT_ONCE = "two creators, and a removal at once"
READ_ONLY = "a reader who may not write"

MUTANTS = (
    Mutant(
        "a ballot is decided without a last listing",
        "ballot_state",
        """                scene = yield from self.scene()
                if scene.incarnation > incarnation:
                    raise Ended(scene)
                # Not""",
        """                return value
                # Not""",
        TWO,
    ),
    Mutant(
        "the last listing is not asked for the end of the incarnation",
        "ballot_state",
        """                scene = yield from self.scene()
                if scene.incarnation > incarnation:
                    raise Ended(scene)
                # Not""",
        """                scene = yield from self.scene()
                # Not""",
        DELETED,
    ),
    Mutant(
        "its own value, whatever was accepted",
        "ballot_state",
        "value = own if highest is None else highest.value",
        "value = own if own is not None else highest.value",
        TWO,
    ),
    Mutant(
        "the value of the lowest accept",
        "ballot_state",
        "return max(accepts, key",
        "return min(accepts, key",
        THREE,
    ),
    Mutant(
        "whatever is accepted is decided",
        "ballot_state",
        "return None if accept is None or self.higher(incarnation, accept.ballot) else accept.value",
        "return None if accept is None else accept.value",
        THREE,
    ),
    Mutant(
        "whoever has backed off takes what is accepted for decided",
        "ballot_state",
        "self.refuse_removed(prepare, scene, own)\n            decided = scene.decided(incarnation)\n",
        "accept = scene.highest(incarnation)\n            decided = accept and accept.value\n",
        THREE,
    ),
    Mutant(
        "a key that was not answered is put again",
        "ballot_state",
        """            if isinstance(outcome, Maybe):
                self.tries += 1
""",
        "",
        LATE,
    ),
    Mutant(
        "the plain name is removed before the bytes",
        "ballot",
        """    yield from voter.bury(scene)
    yield from _remove_plain(voter, name.path, older=True)
""",
        """    yield from _remove_plain(voter, name.path, older=True)
    yield from voter.bury(scene)
""",
        DELETED,
    ),
    Mutant(
        "the bytes of an ended incarnation stay",
        "ballot_state",
        """        for prepare in scene.dead():
            yield from self.remove(self.path(prepare))
""",
        """        return
        yield
""",
        DELETED,
    ),
    Mutant(
        "the newest end is cleaned up as well",
        "ballot",
        "if end[0] <= newest - ends)]",
        "if end[0] <= newest)]",
        LATE_END,
    ),
    Mutant(
        "acknowledged before it is published",
        "ballot",
        """            yield from voter.publish(incarnation, value)
            mine = Prepare""",
        """            mine = Prepare""",
        TWO,
    ),
    Mutant(
        "a win is claimed by whoever has voted",
        "ballot",
        """        if voter.is_mine(value):
            yield""",
        """        if True:
            yield""",
        TWO,
    ),
    Mutant(
        "an incarnation that has ended is a loss",
        "ballot",
        """    if winner is not None and voter.is_mine(winner):
        return True
""",
        "",
        DELETED,
    ),
    Mutant(
        "a deletion does not finish the ballot",
        "ballot",
        """    try:
        value = yield from voter.finished(scene)
    except Ended as ended:
        scene, value = ended.scene, None
    if value""",
        """    accept = scene.highest(scene.incarnation)
    value = None if accept is None else accept.value
    if value""",
        LATE,
    ),
    Mutant(
        "what a deletion has hit by mistake is not published again",
        "ballot",
        """    yield from _remove_plain(voter, name.path, older=True)
    scene = yield from _show(voter)
""",
        """    yield from _remove_plain(voter, name.path, older=True)
    scene = yield from voter.scene()
""",
        DELETED,
    ),
    Mutant(
        "the plain name is removed, whosever it is",
        "ballot",
        "    if is_older or scene.has_ended(seen.holder.token):",
        "    if True:",
        COPY,
    ),
    Mutant(
        "a deletion that fails once an older name is gone has failed for certain",
        "ballot",
        "        voter.committed.add(scene.incarnation)\n    if is_older",
        "        pass\n    if is_older",
        COPIED_CLEANED,
    ),
    Mutant(
        "what came with a copy of the table is taken for the ballot's own",
        "ballot_state",
        "return was is not None and (was[0] < self.incarnation or self.highest(was[0]) is not None)",
        "return was is not None",
        COPIED,
    ),
    Mutant(
        "what was there before is overwritten",
        "ballot",
        "    value = yield from _look_at_plain(voter, scene, prepare)\n",
        "    value = None\n",
        OLD,
    ),
    Mutant(
        "an incarnation in which nobody has voted ends without a vote",
        "ballot",
        """            yield from voter.called(scene, void_of(voter.creation.token))
""",
        """            yield from voter.put(End(scene.incarnation, void_of(voter.creation.token)))
""",
        CLEAN,
    ),
    Mutant(
        "bytes that nobody has voted for are removed, and their incarnation goes on",
        "ballot",
        """            yield from voter.called(scene, void_of(voter.creation.token))
""",
        """            for each in scene.prepares:
                yield from voter.remove(voter.path(each))
""",
        CLEAN,
    ),
    Mutant(
        "void is somebody's value",
        "ballot_state",
        "        if is_void(value):\n",
        "        if False:\n",
        CLEAN,
    ),
    Mutant(
        "an incarnation ends under a name that is older",
        "ballot",
        """        if isinstance(seen, Found):
            return (yield from voter.scene())
""",
        "",
        COPY,
    ),
    # What goes round the shim, and who may only read
    Mutant(
        "what was removed after my vote is put again",
        "ballot_state",
        """        if incarnation in self.committed:
            raise self.unknown("its ballots""",
        """        if False:
            raise self.unknown("its ballots""",
        AT_ONCE,
    ),
    Mutant(
        "an accept whose prepare or bytes are gone stands",
        "ballot_state",
        "        return own in self.prepares and (is_void(accept.value) or self.has_bytes(accept))\n",
        "        return True\n",
        REMOVED,
    ),
    Mutant(
        "whoever has helped another takes its prepare away",
        "ballot_state",
        "for each in sorted(self.bodies) if each.incarnation not in self.helped]",
        "for each in sorted(self.bodies)]",
        THREE,
    ),
    Mutant(
        "the plain name proves nothing",
        "ballot_state",
        "return accept.value if is_copy(seen, scene.incarnation, accept.value) else None",
        "return None",
        READ_ONLY,
    ),
)
