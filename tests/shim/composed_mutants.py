"""What a ledger over an arbiter must not leave out: each mutant leaves a thing out, and is found out."""

from __future__ import annotations

from tests.shim.composed import Mutant

MUTANTS = (
    Mutant(
        "a marker that is decided, and in no listing, is not looked for",
        "ledger/book",
        "        base = None if isinstance(self.arbiter, Native) else (yield from self._decided(creation))\n",
        "        base = None\n",
        "a new table, and the old one goes, its ledger first, by ballot",
    ),
    Mutant(
        "a marker is there, though nobody has published it",
        "ledger/book",
        "            if is_used:\n",
        "            if True:\n",
        "two who begin, and all is removed in the order of names, by ballot",
    ),
    Mutant(
        "whoever finds a life begun does not publish its marker",
        "ledger/book",
        "                yield from self.arbiter.find(name, creation)\n            except",
        "                pass\n            except",
        "two who begin a ledger, nobody waits, by claims",
    ),
    Mutant(
        "a marker whose claim lives is there, though its bytes are gone",
        "ledger/book",
        "        return None if isinstance(got, Absent) else life_in(got.data, self.marker_path)\n",
        "        return self.state if isinstance(got, Absent) else life_in(got.data, self.marker_path)\n",
        "a new table's first commit, and the old one is removed, by claims",
    ),
    Mutant(
        "what is unknown of a record stays so, though its life is over",
        "ledger/appending",
        "        unknown = error\n",
        "        raise\n",
        "a commit, and the table is removed, by ballot",
    ),
    Mutant(
        "what is unknown of a record stays so, though a checkpoint tells",
        "ledger/appending",
        "        unknown = error\n",
        "        raise\n",
        "who comes too late, and a pruner, by claims",
    ),
    Mutant(
        "what is unknown of a record counts, where nothing is above it",
        "ledger/appending",
        """        if unknown is not None:
            raise unknown
        ledger.state""",
        """        ledger.state""",
        "two commits, by ballot",
    ),
    Mutant(
        "nothing is looked at after a win",
        "ledger/appending",
        "    if ledger.ended == ended and ledger.newest(numbers) < number:\n",
        "    if ledger.ended == ended:\n",
        "who comes too late, and a pruner, by ballot",
    ),
    Mutant(
        "nothing is looked at after a claim of what was forgotten",
        "ledger/appending",
        "    if ledger.ended == ended and ledger.newest(numbers) < number:\n",
        "    if ledger.ended == ended:\n",
        "who comes too late, and a pruner, by claims",
    ),
    Mutant(
        "who reads a record must know, and finishes its ballot",
        "ledger/book",
        "find(name, creation, helps=False, is_decided=is_decided)",
        "find(name, creation, is_decided=is_decided)",
        "two who open, and a reader who may not write, after one, by ballot",
    ),
    Mutant(
        "records of the newest checkpoint are forgotten",
        "ledger/book",
        "if number < newest)",
        "if number <= newest)",
        "a checkpoint, and a pruner, by claims",
    ),
    Mutant(
        "the ballots of the newest checkpoint are forgotten",
        "ledger/book",
        "if number < newest)",
        "if number <= newest)",
        "a checkpoint, and a pruner, by ballot",
    ),
    Mutant(
        "the records of a life that is not over are forgotten",
        "ledger/book",
        "            if life != present\n",
        "",
        "a pruner, and the next table, by ballot",
    ),
    Mutant(
        "what a claim that lives was for is not looked for",
        "claimant",
        "            if not isinstance(seen, Absent) or (yield from self.is_shown(there)):\n",
        "            if True:\n",
        "a new table's first commit, and the old one is removed, by claims",
    ),
    Mutant(
        "a ballot is decided without a last listing",
        "ballot_state",
        """                scene = yield from self.scene()
                if scene.incarnation > incarnation:
                    raise Ended(scene)
                # Not""",
        """                return value
                # Not""",
        "two commits, by ballot",
    ),
    Mutant(
        "all lives have one name",
        "ledger/book",
        '        return f"{self.name}-{self.lives}"',
        '        return "first"',
        "who was idle, and the table is removed, by claims",
    ),
    Mutant(
        "what a session knows outlives the table",
        "ledger/book",
        "        if self.state.life or self._is_removed",
        "        if False and self._is_removed",
        "a commit, and the table is removed, by claims",
    ),
    Mutant(
        "clean-up ends an undecided ballot without a vote",
        "ballot",
        """            yield from voter.called(scene, void_of(voter.creation.token))
""",
        """            yield from voter.put(End(scene.incarnation, void_of(voter.creation.token)))
""",
        "a commit, and clean-up, by ballot",
    ),
    Mutant(
        "a plain name that has ended is whatever it shows",
        "ballot_state",
        "        return was is not None and was[0] < self.incarnation\n",
        "        return False\n",
        "a new table, and the old one is removed by the shim, by ballot",
    ),
    Mutant(
        "half of a table is gone, though all went since it was listed",
        "ledger/book",
        "            if not is_decided and self.ended == ended:\n",
        "            if not is_decided:\n",
        "two who were idle, and the table is removed, by claims",
    ),
)
