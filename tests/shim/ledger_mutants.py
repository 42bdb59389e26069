"""What the ledger must not leave out: each mutant leaves one thing out, and a schedule finds it."""

from __future__ import annotations

from tests.shim.ledgers import Mutant

COMMITS = "two commits"
TURNS = "two in turns, one is broken"
TAKEN = "an owner and a taker"
GONE_ON = "an owner who begins anew, and a taker"
BEGUN_ANEW = "an owner in a turn, its rollback, and the instant once more"
TAKEN_AND_ROLLED_BACK = "an owner, a taker and a rollback"
ROLLED_BACK = "an owner and a rollback"
OWN_ROLLBACK = "an owner's own rollback"
RESTORED = "a commit and its restore"
RESTORED_AND_NEXT = "a commit, its restore, and the next"
PRUNED = "two commits and a pruner"
TOO_LATE = "two who come too late, and a pruner"

LANDS_LATE = "a marker that lands late"
PASSED = "a commit, and two checkpoints pass it"
BEGUN_BIT_BY_BIT = "a new table's first commit, and the old one goes bit by bit"
REMOVED_BIT_BY_BIT = "a commit in a turn, and the table is removed bit by bit"
TWO_LIVES = "two turns of one session, and the table is removed"
REPLICAS = "a commit, and a rollback by two replicas of a service"

MUTANTS = (
    Mutant(
        "all lives have one name",
        "ledger/book",
        '        return f"{self.name}-{self.lives}"',
        '        return "life"',
        LANDS_LATE,
    ),
    Mutant(
        "a marker is sent twice",
        "ledger/book",
        "        self.lives += 1\n",
        "        self.lives = 1\n",
        LANDS_LATE,
    ),
    Mutant(
        "the marker is not the first of its folder",
        "ledger/book",
        '_MARKER = "-life"',
        '_MARKER = "~life"',
        BEGUN_BIT_BY_BIT,
    ),
    Mutant(
        "what a session knows outlives the table",
        "ledger/book",
        "        if self.state.life or self._is_removed",
        "        if False and self._is_removed",
        REMOVED_BIT_BY_BIT,
    ),
    Mutant(
        "a turn of the next life passes for one of the same number: it is given back",
        "ledger/turns",
        "held is not None and state.turn_name == turn",
        "held is not None and held.number == turn.number",
        TWO_LIVES,
    ),
    Mutant(
        "a turn of the next life passes for one of the same number: it is completed in",
        "ledger/completion",
        "        if turn is not None and turn.life != state.life:",
        "        if False:",
        TWO_LIVES,
    ),
    Mutant(
        "what was read earlier permits a deletion",
        "formats/hudi_ledger",
        """    if not is_being_rolled_back(state, step.instant):
        return ByName()
""",
        """    if not is_being_rolled_back(state, step.instant):
        return ByName(cached=True)
""",
        REPLICAS,
    ),
    Mutant(
        "a completion is valid when nobody else holds the turn",
        "ledger/records",
        "        if (state.turn and state.turn.number) != self.turn:",
        "        if state.turn is not None and state.turn.number != self.turn:",
        TURNS,
    ),
    Mutant(
        "a completion ends the turn",
        "ledger/records",
        "latest=self.token",
        "latest=self.token, turn=None",
        TURNS,
    ),
    Mutant(
        "a completion is valid for whoever wants it",
        "ledger/records",
        "        if held.session != self.session and (reason :=",
        "        if False and (reason :=",
        TAKEN,
    ),
    Mutant(
        "an owner's own rollback does not free",
        "formats/hudi_ledger",
        "step.action, asker.frees))",
        "step.action, asker.frees if asker.frees not in asker.opened | {\n"
        "        t for t, each in state.open.items() if each.session == asker.session} else None))",
        OWN_ROLLBACK,
    ),
    Mutant(
        "a rollback does not free",
        "ledger/records",
        "_given_up(state, self.frees)",
        "_given_up(state, None)",
        ROLLED_BACK,
    ),
    Mutant(
        "nothing is undone before it is removed",
        "formats/hudi_ledger",
        "    if not made.undone and (made",
        "    if False and (made",
        RESTORED,
    ),
    Mutant(
        "bodies are kept by instant",
        "ledger/completion",
        "        key = ledger.body(instant, creation.token, tries)",
        '        key = ledger.body(instant, "", tries)',
        TAKEN,
    ),
    Mutant(
        "the number below is looked at, not what is above",
        "ledger/appending",
        " and ledger.newest(numbers) < number:",
        " and (number == 1 or (yield from ledger.get(number - 1, creation)) is not None):",
        TOO_LATE,
    ),
    Mutant(
        "nothing is looked at after a win",
        "ledger/appending",
        " and ledger.newest(numbers) < number:",
        ":",
        TOO_LATE,
    ),
    Mutant(
        "what a checkpoint does not name counts",
        "ledger/appending",
        "        return last == (number, creation.token)",
        "        return last in (None, (number, creation.token))",
        TOO_LATE,
    ),
    Mutant(
        "the newest checkpoint is pruned",
        "ledger/book",
        "if number < newest)",
        "if number <= newest)",
        PRUNED,
    ),
    Mutant(
        "a body of which no completion knows is pruned",
        "ledger/book",
        "if instant and state.is_over(instant)]",
        "if instant not in {made.instant for made in state.completions.values()}]",
        PRUNED,
    ),
    Mutant(
        "a number that is taken is not read",
        "ledger/appending",
        """    except NameTaken:
        ledger.listed = max(ledger.listed, number)
        return None
""",
        """    except NameTaken:
        ledger.state = __import__("dataclasses").replace(ledger.state, number=number)
        return None
""",
        ROLLED_BACK,
    ),
    Mutant(
        "a checkpoint forgets what is open",
        "ledger/facts",
        "            number=self.number + 1,\n",
        "            number=self.number + 1,\n            open={},\n",
        "two commits, and a checkpoint",
    ),
    Mutant(
        "a checkpoint keeps no last record of a lane",
        "ledger/facts",
        """            lasts=dict(lasts[-self.lanes :]),
            dropped=max([self.dropped, *(last.number for _, last in lasts[: -self.lanes])]),
""",
        """            lasts={},
            dropped=self.number,
""",
        PASSED,
    ),
    Mutant(
        "completions before one's own stay unpublished",
        "ledger/completion",
        ", first=lambda state: settled(ledger, creation, state))",
        ")",
        COMMITS,
    ),
    Mutant(
        "published before it is decided",
        "ledger/completion",
        """        draft = _completing(""",
        """        yield Publish(key, path, creation)
        draft = _completing(""",
        ROLLED_BACK,
    ),
    Mutant(
        "the body comes after the record",
        "ledger/completion",
        "    key = yield from _put(ledger, path, instant, body, creation)\n",
        "    key = ledger.body(instant, creation.token, 0)\n",
        COMMITS,
    ),
    Mutant(
        "the plain name goes before the body",
        "ledger/completion",
        """    if made is not None:
        yield from removed(ledger.path(made.body))
    seen: HeadOutcome = yield from read(Head(path))
    if not isinstance(seen, Found):
        return made is not None
""",
        """    seen: HeadOutcome = yield from read(Head(path))
    if not isinstance(seen, Found):
        yield from removed(ledger.path(made.body))
        return True
""",
        RESTORED,
    ),
    Mutant(
        "a body that was not answered is sent again",
        "ledger/completion",
        "        key = ledger.body(instant, creation.token, tries)",
        "        key = ledger.body(instant, creation.token, 0)",
        RESTORED,
    ),
    Mutant(
        "an instant goes back to whom it was taken from",
        "ledger/records",
        "        if self.session in held.lost:",
        "        if False:",
        GONE_ON,
    ),
    Mutant(
        "an instant that was rolled back and begun anew goes back to who had it",
        "ledger/records",
        "        before = tuple(session for session in had if session != self.session)",
        "        before = ()",
        BEGUN_ANEW,
    ),
    Mutant(
        "an instant is opened while it is rolled back",
        "ledger/records",
        "        for other, each in state.rollbacks_of(self.instant).items():",
        "        for other, each in ():",
        TAKEN_AND_ROLLED_BACK,
    ),
    Mutant(
        "a rollback removes what is completed",
        "formats/hudi_ledger",
        "    if step.instant in state.open or state.completed(step.instant) is not None:\n",
        "    if False:\n",
        ROLLED_BACK,
    ),
)
