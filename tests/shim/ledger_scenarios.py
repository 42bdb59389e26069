"""The schedules in which a ledger is played: the short ones each time, the long ones by ``make proof``."""

from __future__ import annotations

from putifabsent.shim.ledger.records import Open
from putifabsent.testing.explore import Faults
from tests.shim.ledger_tables import AT_ONCE, NEVER, completed
from tests.shim.ledgers import Process, Scenario

ONE = (Open("1", "A", "o1"),)
TWO = (*ONE, Open("2", "B", "o2"))
THREE = (*TWO, Open("3", "C", "o3"))
# A checkpoint is the fourth, so that records 2 and 3 are behind it.
BEHIND = (*TWO, Open("3", "C", "o3"), Open("4", "D", "o4"))
DONE = (*ONE, completed("1", "first")(session="A"), Open("2", "B", "o2"))

A = Process("commit", "1", "A")
B = Process("commit", "2", "B")
C = Process("commit", "3", "C")
A_TURN = Process("commit", "1", "A", lease=AT_ONCE)
B_TURN = Process("commit", "2", "B", lease=NEVER)
C_TURN = Process("commit", "3", "C", lease=NEVER)
TAKER = Process("go_on", "1", "T")
ROLLBACK = Process("rollback", "1", "R")
OWN_ROLLBACK = Process("rollback", "1", "A")
RESTORE = Process("restore", "1", "S")
READER = Process("read", session="L", warm=0)
ARCHIVER = Process("archive", "1", "Z")
PRUNER = Process("prune")
BREAKER = Process("breaks")
REMOVER = Process("remove")
SLOW_REMOVER = Process("remove_one_by_one")
IDLE = Process("commit", "5", "N", opens=True, lease=NEVER)
NEWCOMER = Process("commit", "6", "M", opens=True, warm=0)
LATE_ONCE = Faults(late=1, crashes=1, pauses=1)
LATE = (Process("commit", "1", "A", warm=1), Process("commit", "2", "B", warm=2), PRUNER)

SHORT = (
    Scenario(
        "a writer alone, who begins a ledger",
        (Process("commit", "1", opens=True, lease=NEVER, warm=0),),
        Faults(lost=1, late=1, crashes=1),
    ),
    Scenario("two commits", (A, B), Faults(lost=1, late=1, crashes=1, pauses=1), TWO, every=64),
    Scenario("two commits, and a checkpoint", (A, B), Faults(lost=1, crashes=1, pauses=1), TWO, every=3),
    Scenario("a commit, and two checkpoints pass it", (A, B_TURN), Faults(), TWO, every=2),
    Scenario("two in turns, one is broken", (A_TURN, B_TURN), Faults(crashes=1), TWO),
    Scenario("a turn, a breaker, and one without", (A_TURN, B, BREAKER), Faults(crashes=1, pauses=1), TWO),
    Scenario("two in turns, a late request", (A_TURN, B_TURN), Faults(late=1, crashes=1, pauses=1), TWO),
    Scenario("one in a turn, one without", (A_TURN, B), Faults(lost=1, late=1, crashes=1, pauses=1), TWO),
    Scenario("an owner and a taker", (A, TAKER), Faults(lost=1, late=1, crashes=1, pauses=1), ONE),
    Scenario(
        "an owner who begins anew, and a taker",
        (Process("go_on", "1", "A", warm=0), TAKER),
        Faults(lost=1, crashes=1, pauses=1),
        ONE,
    ),
    Scenario("an owner, a taker and a rollback", (A, TAKER, ROLLBACK), Faults(crashes=1), ONE),
    Scenario(
        "an owner in a turn, its rollback, and the instant once more",
        (A_TURN, ROLLBACK, TAKER),
        Faults(crashes=1),
        ONE,
    ),
    Scenario("an owner and a rollback", (A, ROLLBACK), Faults(lost=1, late=1, crashes=1, pauses=1), ONE),
    Scenario("an owner's own rollback", (A, OWN_ROLLBACK), Faults(lost=1, late=1, crashes=1, pauses=1), ONE),
    Scenario("a commit and its restore", (A, RESTORE), Faults(lost=1, late=1, crashes=1, pauses=1), ONE),
    Scenario("a restore, a rollback of the same", (RESTORE, ROLLBACK), Faults(crashes=1), DONE),
    Scenario("a restore, and the instant once more", (RESTORE, TAKER), LATE_ONCE, DONE),
    Scenario("a rollback, and the instant once more", (ROLLBACK, TAKER), LATE_ONCE, ONE),
    Scenario("a commit, its restore, and the next", (A, RESTORE, B), Faults(crashes=1), TWO),
    Scenario(
        "a commit, its restore, and the next, on disk",
        (A, RESTORE, B),
        Faults(crashes=1),
        TWO,
        store={"republishes": False},
    ),
    Scenario(
        "a commit, and the one before is archived", (B, ARCHIVER), Faults(lost=1, late=1, crashes=1), DONE
    ),
    Scenario("two commits and a reader", (A, B, READER), Faults(crashes=1), TWO),
    Scenario("two commits and a pruner", (A, B, PRUNER), Faults(crashes=1), TWO, every=3),
    Scenario(
        "two who come too late, and a pruner",
        LATE,
        Faults(crashes=1),
        BEHIND,
        every=4,
    ),
    Scenario(
        "a commit, and a rollback by two replicas of a service",
        (A, Process("rollback_by_replicas", "1", "R")),
        Faults(crashes=1),
        ONE,
    ),
    Scenario("a marker that lands late", (NEWCOMER, REMOVER), Faults(late=1, crashes=1, pauses=1)),
    Scenario(
        "a commit in a turn, and the table is removed", (A_TURN, REMOVER), Faults(lost=1, crashes=1), ONE
    ),
    Scenario("who was idle, and the table is removed", (IDLE, REMOVER), Faults(lost=1, crashes=1), TWO),
    Scenario(
        "a commit in a turn, and the table is removed bit by bit",
        (A_TURN, SLOW_REMOVER),
        Faults(crashes=1),
        ONE,
    ),
    Scenario(
        "a new table's first commit, and the old one goes bit by bit",
        (NEWCOMER, SLOW_REMOVER),
        Faults(crashes=1),
        DONE,
    ),
    Scenario(
        "two mounts of one session, and a pruner",
        (A, Process("commit", "2", "A"), PRUNER),
        Faults(crashes=1),
        (*ONE, Open("2", "A", "o2")),
        every=3,
    ),
)

# Tens of thousands of states each.
MIDDLE = (
    Scenario("two who begin a ledger", (IDLE, NEWCOMER), Faults(crashes=1)),
    Scenario(
        "two turns of one session, and the table is removed",
        (
            Process("commit_in_a_turn", "5", "N", warm=0),
            REMOVER,
            Process("breaks", session="N", warm=0, follows="remove1"),
        ),
        Faults(),
    ),
)
LONG = (
    Scenario("a commit, and others pass a checkpoint", (A, B_TURN, PRUNER), Faults(crashes=1), TWO, every=3),
    Scenario("two who begin a ledger, in trouble", (IDLE, NEWCOMER), Faults(lost=1, crashes=1, pauses=1)),
    Scenario("a new table's first commit, and who was idle", (NEWCOMER, IDLE, REMOVER), Faults(), ONE),
    Scenario(
        "two mounts of one session, one paused past checkpoints",
        (Process("commit", "1", "A", warm=1), Process("commit", "2", "A"), PRUNER),
        Faults(crashes=1, pauses=1),
        (*ONE, Open("2", "A", "o2"), *THREE[2:], Open("4", "D", "o4")),
        every=4,
    ),
    Scenario("two who were idle, and the table is removed", (IDLE, A_TURN, REMOVER), Faults(crashes=1), ONE),
    Scenario(
        "two who were idle, and the table is removed, in trouble",
        (IDLE, A, REMOVER),
        Faults(lost=1, late=1, crashes=1, pauses=1),
        ONE,
    ),
    Scenario(
        "a pruner, who was idle, and the table is removed",
        (IDLE, PRUNER, REMOVER),
        Faults(lost=1, crashes=1, pauses=1),
        BEHIND,
        every=4,
    ),
    Scenario(
        "who was idle, a new table, and the old one goes bit by bit",
        (IDLE, NEWCOMER, SLOW_REMOVER),
        Faults(crashes=1, pauses=1),
        ONE,
    ),
    Scenario("two in turns, and a breaker", (A_TURN, B_TURN, BREAKER), Faults(crashes=1, pauses=1), TWO),
    Scenario("three in turns", (A_TURN, B_TURN, C_TURN), Faults(crashes=1, pauses=1), THREE),
    Scenario(
        "two in turns, one broken, in trouble",
        (A_TURN, B_TURN),
        Faults(lost=1, late=1, crashes=1, pauses=1),
        TWO,
    ),
    Scenario(
        "two in turns, one without, in trouble", (A_TURN, B_TURN, C), Faults(crashes=2, pauses=1), THREE
    ),
    Scenario(
        "two in turns from the beginning",
        (
            Process("commit", "1", "A", lease=AT_ONCE, warm=0, opens=True),
            Process("commit", "2", "B", lease=AT_ONCE, warm=0, opens=True),
        ),
        Faults(crashes=1, pauses=1),
    ),
    Scenario(
        "an owner, a taker and a rollback, in trouble",
        (A, TAKER, ROLLBACK),
        Faults(lost=1, crashes=1, pauses=1),
        ONE,
    ),
    Scenario(
        "an owner, a taker and a rollback, late",
        (A, TAKER, ROLLBACK),
        Faults(late=1, crashes=1, pauses=1),
        ONE,
    ),
    Scenario(
        "a commit, its restore, and the next, in trouble",
        (A, RESTORE, B),
        Faults(lost=1, crashes=1, pauses=1),
        TWO,
    ),
    Scenario(
        "a commit, its restore, and the next, late", (A, RESTORE, B), Faults(late=1, crashes=1, pauses=1), TWO
    ),
    Scenario(
        "two commits, and the one before is archived",
        (Process("commit", "3", "C"), B, ARCHIVER),
        Faults(late=1, crashes=1, pauses=1),
        (*DONE, Open("3", "C", "o3")),
    ),
    Scenario("a restore, a rollback of the same, a commit", (B, RESTORE, ROLLBACK), Faults(crashes=1), DONE),
    Scenario("a commit, its restore, the next, a reader", (A, RESTORE, B, READER), Faults(crashes=1), TWO),
    Scenario(
        "two commits and a pruner, in trouble",
        (A, B, PRUNER),
        Faults(lost=1, crashes=1, pauses=1),
        TWO,
        every=3,
    ),
    Scenario(
        "two commits and a pruner, late", (A, B, PRUNER), Faults(late=1, crashes=1, pauses=1), TWO, every=3
    ),
    Scenario("two commits, a pruner and a reader", (A, B, PRUNER, READER), Faults(crashes=1), TWO, every=3),
    Scenario(
        "two who come too late, a lost answer", LATE, Faults(lost=1, crashes=1, pauses=1), BEHIND, every=4
    ),
    Scenario("two who come too late, later", LATE, Faults(late=1, crashes=1, pauses=1), BEHIND, every=4),
    Scenario("three commits and a pruner", (A, B, C, PRUNER), Faults(crashes=1), THREE, every=4),
)
