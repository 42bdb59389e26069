"""What the ballot must not leave out: each mutant leaves one thing out, and a schedule finds it."""

from __future__ import annotations

from tests.shim.ballots import Mutant

MUTANTS = (
    Mutant(
        "a ballot is decided without a last listing",
        """                scene = yield from self.scene()
                if scene.incarnation > incarnation:
                    raise _Ended(scene)
                if not scene.higher(incarnation, prepare.ballot):
                    return value
""",
        """                return value
""",
        "two creators, one lost answer, one crash",
    ),
    Mutant(
        "the last listing is not asked for the end of the incarnation",
        """                scene = yield from self.scene()
                if scene.incarnation > incarnation:
                    raise _Ended(scene)
                if not scene.higher""",
        """                scene = yield from self.scene()
                if not scene.higher""",
        "a creation that is deleted and cleaned up, and a creator",
    ),
    Mutant(
        "listed before it is put",
        """        prepare = yield from voter.put_new(incarnation, 0, body)
        scene = yield from voter.scene()
""",
        """        scene = yield from voter.scene()
        prepare = yield from voter.put_new(incarnation, 0, body)
""",
        "two creators, one lost answer, one crash",
    ),
    Mutant(
        "its own value, whatever was accepted",
        "value = scene.accepted(incarnation) or own",
        "value = own or scene.accepted(incarnation)",
        "two creators, one lost answer, one crash",
    ),
    Mutant(
        "the value of the lowest accept",
        "return max(accepts, key",
        "return min(accepts, key",
        "three creators",
    ),
    Mutant(
        "an accept tells of no ballot",
        "each.ballot for each in (*self.prepares, *self.accepts) if each.incarnation == incarnation",
        "each.ballot for each in self.prepares if each.incarnation == incarnation",
        "three creators",
    ),
    Mutant(
        "decided before it is accepted",
        """                yield from self.put(Accept(*prepare, value))
                scene""",
        """                scene""",
        "two creators, one lost answer, one crash",
    ),
    Mutant(
        "a key that was not answered is put again",
        """            if isinstance(outcome, Maybe):
                self.tries += 1
""",
        "",
        "a reader who helps, and a creation that is deleted",
    ),
    Mutant(
        "the plain name is removed before the bytes",
        """    yield from voter.bury(scene)
    yield from _remove_plain(voter)
""",
        """    yield from _remove_plain(voter)
    yield from voter.bury(scene)
""",
        "a reader who helps, and a creation that is deleted",
    ),
    Mutant(
        "the bytes of an ended incarnation stay",
        """        for prepare in scene.dead():
            yield from self.remove(self.path(prepare))
""",
        """        return
        yield
""",
        "a reader who helps, and a creation that is deleted",
    ),
    Mutant(
        "the newest end is cleaned up as well",
        "if incarnation < newest)",
        "if incarnation <= newest)",
        "a creation that is deleted and cleaned up, and a creator",
    ),
    Mutant(
        "acknowledged before it is published",
        """            yield from voter.publish(incarnation, value)
        except""",
        """        except""",
        "?",
    ),
    Mutant(
        "a win is claimed by whoever has voted",
        """        if voter.is_mine(value):
            return Created()
""",
        """        return Created()
""",
        "two creators, one lost answer, one crash",
    ),
    Mutant(
        "an incarnation that has ended is a loss",
        """    if winner is not None and voter.is_mine(winner):
        return 0
""",
        "",
        "a creator, and a creation that is deleted",
    ),
    Mutant(
        "a deletion does not finish the ballot",
        """    try:
        value = yield from _finished(voter, scene)
    except _Ended as ended:
        scene, value = ended.scene, None
    if value is not None:""",
        """    value = scene.accepted(scene.incarnation)
    if value is not None:""",
        "?",
    ),
    Mutant(
        "what was removed by mistake is not published again",
        """        if following is not None:
            seen""",
        """        if False:
            seen""",
        "?",
    ),
    Mutant(
        "what was voted for is withdrawn",
        "    if prepare.incarnation not in voter.committed:\n",
        "    if True:\n",
        "?",
    ),
    Mutant(
        "a vote is forgotten",
        "                    self.committed.add(incarnation)",
        "                    pass",
        "?",
    ),
    Mutant(
        "nobody looks for a name that is older than the shim",
        "            yield from _look_at_plain(voter, scene, prepare)\n",
        "",
        "?",
    ),
)
