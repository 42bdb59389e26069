"""What claims must not leave out: each mutant leaves one thing out, and a schedule finds it."""

from __future__ import annotations

from tests.shim.claimants import Mutant

MUTANTS = (
    # The order of things
    Mutant(
        "claim before bytes",
        "claims",
        """    there = yield from _look_and_put(claimant, body)
    expected = None
    while True:
        if there is None:
            there = yield from claimant.claim(expected)
""",
        """    there = expected = None
    while True:
        if there is None:
            claimant.salted(1, body)
            there = yield from claimant.claim(expected)
            if there is not None and there.live and claimant.is_mine(there):
                yield from _look_and_put(claimant, body)
""",
        "a creator alone, in all kinds of trouble",
    ),
    Mutant(
        "publish before claim",
        "claims",
        """            there = yield from claimant.claim(expected)
""",
        """            yield from claimant.publish(claimant, claimant.name.path)
            there = yield from claimant.claim(expected)
""",
        "a creator beside a deletion",
    ),
    Mutant(
        "the plain name is removed before the bytes",
        "claims",
        """    if claim is not None and not claim.live:
        yield from claimant.remove(claim.key)
    if (yield from claimant.hide(name.path, claim, older=True)):
        yield from claimant.repair()
""",
        """    if (yield from claimant.hide(name.path, claim, older=True)):
        yield from claimant.repair()
    if claim is not None and not claim.live:
        yield from claimant.remove(claim.key)
""",
        "deletion and re-creation",
    ),
    Mutant(
        "the bytes are removed before the claim is ended",
        "claims",
        """        claim = yield from claimant.end(claim)
    if""",
        """        yield from claimant.remove(claim.key)
        claim = yield from claimant.end(claim)
    if""",
        "deletion and re-creation",
    ),
    # Creating
    Mutant(
        "a claim that is not tied to its incarnation",
        "claimant",
        "        incarnation = 1 if expected is None else expected.incarnation + 1\n",
        "        incarnation = 1\n",
        "a creator beside a deletion",
    ),
    Mutant(
        "a condition that is not tied to the incarnation",
        "claims",
        """        expected, there = there, None
""",
        """        expected, there = (yield from claimant.read()), None
""",
        "clean-up by name",
    ),
    Mutant(
        "the same salted key is sent again",
        "claimant",
        "            self.attempts += 1\n",
        "            pass\n",
        "a creator beside a deletion, late",
    ),
    Mutant(
        "whatever is claimed is mine",
        "claims",
        "            if there.live and claimant.is_mine(there):\n",
        "            if there.live:\n",
        "a creator beside a deletion",
    ),
    Mutant(
        "after a lost answer my token is not looked for",
        "claimant",
        "        return claim.token == self.creation.token\n",
        "        return claim.token == self.creation.token and self.pauses == 0\n",
        "a creator alone, in all kinds of trouble",
    ),
    Mutant(
        "an absent claim after a lost answer is a failure",
        "claimant",
        """            yield from self.pause("the registry gave no certain answer in time", outcome.cause)
""",
        """            if isinstance((yield ReadClaim(self.arbiter.claims, self.identity)), Absent):
                self.may_hold = None
                raise OSError("failed")
            yield from self.pause("the registry gave no certain answer in time", outcome.cause)
""",
        "a creator alone, in all kinds of trouble",
    ),
    Mutant(
        "a lost answer is forgotten",
        "claimant",
        "            if not isinstance(outcome, Maybe):\n                self.may_hold = before\n",
        "            self.may_hold = None\n",
        "a creator alone, in all kinds of trouble",
    ),
    Mutant(
        "a loser removes what may be claimed",
        "claims",
        "        if claimant.may_hold is None and claimant.key is not None:\n",
        "        if claimant.key is not None:\n",
        "a creator alone, in all kinds of trouble",
    ),
    Mutant(
        "a creation that was deleted begins again",
        "claimant",
        """            raise self.unknown("it was created, and deleted since")
""",
        "",
        "a creator beside a deletion",
    ),
    Mutant(
        "another incarnation after a lost answer is a loss",
        "claimant",
        "        if self.may_hold is not None and there.incarnation > self.may_hold:\n",
        "        if False:\n",
        "a creator who was seen, and deleted",
    ),
    Mutant(
        "the next incarnation begins before the bytes of the dead are gone",
        "claimant",
        "        yield from self.remove(there.key)\n",
        "",
        "a creator beside a deletion, late",
    ),
    Mutant(
        "the bytes of the dead are taken for gone",
        "claimant",
        "yield from read(Delete(path, version), lambda error: self.failure(",
        "(yield Delete(path, version)), (lambda error: self.failure(",
        "deletion and re-creation",
    ),
    Mutant(
        "a name that is older than the shim is nobody's",
        "claims",
        "    for each in older:\n",
        "    for each in ():\n",
        "older than the shim",
    ),
    Mutant(
        "what a deletion has left holds the name",
        "claimant",
        "    return was < claim.incarnation or (was == claim.incarnation and not claim.live)\n",
        "    return False\n",
        "a creator beside a deletion",
    ),
    Mutant(
        "what the living has published has ended",
        "claimant",
        "    return was < claim.incarnation or (was == claim.incarnation and not claim.live)\n",
        "    return was <= claim.incarnation\n",
        "a creator beside a deletion, on disk",
    ),
    # Publishing
    Mutant(
        "acknowledged before it is published",
        "claims",
        "(yield from claimant.show(claim, name.path)) or (yield from _gone(claimant, claim))\n",
        "Created()\n",
        "three creators",
    ),
    Mutant(
        "a publication without an answer is taken for done",
        "claimant",
        "            if not isinstance(outcome, (Maybe, TryAgain)):\n",
        "            if True:\n",
        "three creators",
    ),
    Mutant(
        "what has ended does not make way",
        "claimant",
        "            yield Delete(path, seen.holder.version)\n",
        "",
        "a creator beside a deletion, on disk",
    ),
    Mutant(
        "a reader publishes nothing",
        "claimant",
        "            yield from self.publish(claim, path)\n",
        "            pass\n",
        "a creator alone, in all kinds of trouble",
    ),
    Mutant(
        "a reader takes anything under the plain name for the copy",
        "claimant",
        "        if isinstance(shown, Absent) or has_ended(shown, claim):\n            return True\n",
        "        if isinstance(shown, Absent):\n            return True\n",
        "a creator beside a deletion, slow copies",
    ),
    # Reading
    Mutant(
        "a claim is found, dead or alive",
        "claims",
        """        if claim is not None and claim.live and claimant.path_of(claim) == name.path:
            if not helps""",
        """        if claim is not None and claimant.path_of(claim) == name.path:
            if not helps""",
        "clean-up at any time",
    ),
    Mutant(
        "a reader does not ask again",
        "claims",
        """        if (yield from claimant.read()) == claim:
            return Located""",
        """        if True:
            return Located""",
        "a reader who helps beside a deletion",
    ),
    Mutant(
        "bytes that are gone are an error at once",
        "claimant",
        """            if (yield from self.read()) != claim:
                return None
""",
        "",
        "a reader who helps beside a deletion",
    ),
    # Deleting
    Mutant(
        "a deletion ends nothing",
        "claims",
        """        claim = yield from claimant.end(claim)
    if""",
        """        pass
    if""",
        "deletion and re-creation",
    ),
    Mutant(
        "the bytes of the dead stay",
        "claims",
        """    if claim is not None and not claim.live:
        yield from claimant.remove(claim.key)
    if (yield""",
        """    if (yield""",
        "deletion and re-creation",
    ),
    Mutant(
        "whatever is under the plain name is removed",
        "claimant",
        """        if claim is not None and claim.live and was == claim.incarnation:
            return False
""",
        "",
        "a creator beside a deletion",
    ),
    Mutant(
        "what is newer than the claim that was read is removed",
        "claimant",
        """            claim = yield from self.read()
        if claim""",
        """            pass
        if claim""",
        "clean-up and deletion at any time",
    ),
    Mutant(
        "what the deletion has hidden stays so",
        "claims",
        """    if (yield from claimant.hide(name.path, claim, older=True)):
        yield from claimant.repair()
""",
        """    yield from claimant.hide(name.path, claim, older=True)
""",
        "a creator beside a deletion by name",
    ),
    # Cleaning up
    Mutant(
        "cleaned up without ending the incarnation",
        "claims",
        "        yield from claimant.burn(claim, left)\n",
        "        yield from claimant.remove_all(list(left))\n        break\n",
        "clean-up at any time",
    ),
    Mutant(
        "the bytes of the living are cleaned up",
        "claims",
        "in left.items() if salted.incarnation <= used and key != living]\n",
        "in left.items() if salted.incarnation <= used]\n",
        "clean-up at any time",
    ),
    Mutant(
        "bytes that may still be claimed are cleaned up",
        "claims",
        "in left.items() if salted.incarnation <= used and key != living]\n",
        "in left.items() if key != living]\n",
        "clean-up at any time",
    ),
    Mutant(
        "what clean-up has hidden stays so",
        "claims",
        "    yield from claimant.repair()\n    return removed\n",
        "    return removed\n",
        "clean-up by name",
    ),
    Mutant(
        "an incarnation is ended under a name that no claim has made",
        "claims",
        """        if (yield from claimant.is_older(claim)):
            break
""",
        "",
        "copied with its marks",
    ),
    # What goes round the shim
    Mutant(
        "a claim of which nothing is left lives on",
        "claimant",
        "            if not isinstance(seen, Absent) or (yield from self.is_shown(there)):\n",
        "            if True:\n",
        "a creator, and a removal, and a creator",
    ),
)
