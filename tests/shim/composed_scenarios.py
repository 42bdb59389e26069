"""The schedules in which a ledger over ballots and over claims is played; `make proof` has the long ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from putifabsent.shim.ledger.records import Open
from putifabsent.testing.explore import Faults
from tests.shim.composed import Scenario
from tests.shim.ledger_scenarios import (
    A_TURN,
    B_TURN,
    BEHIND,
    DONE,
    IDLE,
    LATE,
    NEWCOMER,
    ONE,
    PRUNER,
    REMOVER,
    RESTORE,
    ROLLBACK,
    TAKER,
    THREE,
    TWO,
    A,
    B,
    C,
)
from tests.shim.ledgers import Process

if TYPE_CHECKING:
    from collections.abc import Iterator

CRASH = Faults(crashes=1, pauses=1)
AT_LAST = Faults(crashes=1, pauses=0)
TROUBLE = Faults(lost=1, late=1, crashes=1, pauses=1)
OF_ONE_SESSION = (*ONE, Open("2", "A", "o2"))
OPENS = Process("opens_one", "6", "M")
OPENS_TOO = Process("opens_one", "7", "N")
BEGINS = Process("opens_one", "6", "M", warm=0)
BEGINS_TOO = Process("opens_one", "7", "N", warm=0)
MENDER = Process("mends")
OTHER_MOUNT = Process("commit", "2", "A")
READS_ONLY = Process("read_only", session="L", warm=0)
READS_AFTER = Process("read_only", session="L", warm=0, follows="opens-one0")
IN_ORDER = Process("remove_in_order")
LEDGER_FIRST = Process("remove_ledger_first")
BACKWARDS = Process("remove_backwards")
BY_THE_SHIM = Process("remove_by_the_shim")


def each(name: str, *processes: Process, **more: Any) -> Iterator[Scenario]:
    """Yield a scenario by ballots and by claims."""
    for by in ("ballot", "claims"):
        yield by_one(by, name, *processes, **more)


def by_one(
    by: Any,
    name: str,
    *processes: Process,
    faults: Faults = CRASH,
    before: tuple[Any, ...] = ONE,
    every: int = 64,
    versions: bool = True,
) -> Scenario:
    """Return a scenario."""
    return Scenario(name, by, processes, faults, before, every, versions)


SHORT = (
    *each(
        "a writer alone, who begins a ledger",
        Process("commit", "1", opens=True, warm=0),
        faults=Faults(lost=1, crashes=1),
        before=(),
    ),
    *each("two commits", A, B, before=TWO),
    *each("two who begin a ledger, nobody waits", BEGINS, BEGINS_TOO, faults=AT_LAST, before=()),
    *each(
        "two who open, nobody waits, a reader who may not write",
        OPENS,
        OPENS_TOO,
        READS_ONLY,
        faults=AT_LAST,
    ),
    by_one("claims", "a commit, and clean-up", A, MENDER),
    by_one("claims", "who begins a ledger, and clean-up", BEGINS, MENDER, before=()),
    *each("an owner and a rollback", A, ROLLBACK),
    *each(
        "who comes too late, and a pruner",
        Process("commit", "1", "A", warm=1),
        PRUNER,
        before=BEHIND,
        every=4,
    ),
    *each("a checkpoint, and a pruner", A, PRUNER, before=TWO, every=3),
    by_one(
        "claims",
        "two mounts of one session, and a checkpoint",
        A,
        OTHER_MOUNT,
        before=OF_ONE_SESSION,
        every=3,
    ),
    *each("a commit, and the table is removed", A, REMOVER),
    *each("who was idle, and the table is removed", IDLE, REMOVER),
    *each("a new table's first commit, and the old one is removed", NEWCOMER, REMOVER),
    *each("a commit, and the table is removed in the order of names", A, IN_ORDER),
    *each("a commit, and the table is removed, its ledger first", A, LEDGER_FIRST),
    *each("a commit, and the table is removed backwards", A, BACKWARDS),
    *each("a commit, and the table is removed by the shim", A, BY_THE_SHIM),
    *each("a new table, and the old one goes in the order of names", BEGINS, IN_ORDER),
    *each("a new table, and the old one goes, its ledger first", BEGINS, LEDGER_FIRST),
    *each("a new table, and the old one is removed by the shim", BEGINS, BY_THE_SHIM),
    *each(
        "a new table, and the old one is removed by the shim, by names", BEGINS, BY_THE_SHIM, versions=False
    ),
)

LONG = (
    *each(
        "two who begin, and all is removed in the order of names",
        BEGINS,
        BEGINS_TOO,
        IN_ORDER,
        faults=AT_LAST,
        before=(),
    ),
    by_one("ballot", "a commit, and clean-up", A, MENDER),
    *each("a pruner, and the next table", BEGINS, PRUNER, REMOVER, before=TWO),
    *each("two who open, and a reader who may not write, after one", OPENS, OPENS_TOO, READS_AFTER),
    *each("two who begin a ledger", BEGINS, BEGINS_TOO, before=()),
    *each("two who open, and a reader who may not write", OPENS, OPENS_TOO, READS_ONLY),
    by_one("ballot", "who begins a ledger, and clean-up", BEGINS, MENDER, before=()),
    *each("two commits, in trouble", A, B, faults=TROUBLE, before=TWO),
    *each("two commits, and a checkpoint", A, B, before=TWO, every=3),
    *each("two commits, and a reader who may not write", A, B, READS_ONLY, before=TWO),
    *each("two who begin a ledger, and commit", IDLE, NEWCOMER, before=()),
    *each("two who begin a ledger, in trouble", BEGINS, BEGINS_TOO, faults=TROUBLE, before=()),
    *each("two commits and clean-up", A, B, MENDER, before=TWO),
    *each("two in turns", A_TURN, B_TURN, before=TWO),
    *each("an owner, a taker and a rollback", A, TAKER, ROLLBACK),
    *each("a commit, its restore, and the next", A, RESTORE, B, before=TWO),
    *each("two who come too late, and a pruner", *LATE, before=BEHIND, every=4),
    *each("a commit that another shows, and the table is removed by the shim", A, B, BY_THE_SHIM, before=TWO),
    *each("two commits and a pruner", A, B, PRUNER, before=TWO, every=3),
    *each("two mounts of one session, and a pruner", A, OTHER_MOUNT, PRUNER, before=OF_ONE_SESSION, every=3),
    *each("two who were idle, and the table is removed", IDLE, A_TURN, REMOVER),
    *each("who was idle, a new table, and the old one is removed", IDLE, NEWCOMER, REMOVER),
    *each("a new table's first commit, and the old one goes in the order of names", NEWCOMER, IN_ORDER),
    *each("a new table's first commit, and the old one goes, its ledger first", NEWCOMER, LEDGER_FIRST),
    *each(
        "a new table's first commit, and the old one is removed by the shim",
        NEWCOMER,
        BY_THE_SHIM,
        before=DONE,
    ),
    *each("who was idle, and the table is removed by the shim, by names", IDLE, BY_THE_SHIM, versions=False),
    *each(
        "a commit, and the old table is removed by the shim, by names", NEWCOMER, BY_THE_SHIM, versions=False
    ),
)

EVERYTHING = (
    *each(
        "everything",
        A_TURN,
        B_TURN,
        Process("commit", "3", "C", warm=1),
        TAKER,
        RESTORE,
        Process("rollback", "2", "R"),
        PRUNER,
        READS_ONLY,
        faults=Faults(lost=3, late=2, crashes=2, pauses=4),
        before=THREE,
        every=4,
    ),
    *each(
        "everything, and the table is removed",
        A_TURN,
        C,
        IDLE,
        NEWCOMER,
        PRUNER,
        REMOVER,
        READS_ONLY,
        faults=Faults(lost=2, late=1, crashes=2, pauses=4),
        before=THREE,
        every=4,
    ),
    *each(
        "everything, and the table is removed by the shim",
        A_TURN,
        C,
        IDLE,
        NEWCOMER,
        PRUNER,
        BY_THE_SHIM,
        MENDER,
        READS_ONLY,
        faults=Faults(lost=2, late=1, crashes=2, pauses=4),
        before=THREE,
        every=4,
    ),
)
