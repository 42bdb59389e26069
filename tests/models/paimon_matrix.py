"""Which topologies of Paimon break: what is published, and the processes that are tried."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.testing.explore import Faults, explore
from tests.models.paimon import NEW, Compactor, Operation, Writer
from tests.models.paimon_checks import (
    DANGLING_VECTOR,
    DISORDER,
    LOST_COMMIT,
    LOST_UPDATE,
    TWO_ROWS,
    Checks,
)
from tests.models.storage import FileSystemWorld, State

if TYPE_CHECKING:
    from putifabsent.testing.explore import Explored

KINDS = (LOST_COMMIT, DISORDER, LOST_UPDATE, DANGLING_VECTOR, TWO_ROWS)


class Storage(NamedTuple):
    """What keeps two commits from one snapshot: the shim, a lock, both, or nothing."""

    mount: str
    lock: bool


STORAGES = {
    "neither": Storage("stock", lock=False),
    "lock": Storage("stock", lock=True),
    "shim": Storage("guarded", lock=False),
    "shim and lock": Storage("guarded", lock=True),
}


@dataclass(frozen=True)
class Topology:
    """Who writes where.

    Attributes
    ----------
    source, published
        Where its verdict is published, and what it is with PutIfAbsent as with a lock.
    breaks
        What breaks then, in the words of the checks.
    before
        Processes that have made the table as it is at first, one after the other.
    processes
        Those that run at once.
    """

    source: str
    published: str
    breaks: frozenset[str]
    processes: tuple[Writer | Compactor, ...]
    before: tuple[Writer | Compactor, ...] = ()

    def start(self) -> State:
        """Return the table at first."""
        return FileSystemWorld("stock", NEW).after(*(each.actor() for each in self.before))

    def explored(self, storage: str, *checks: str) -> Explored:
        """Play every schedule, and judge every state."""
        mount, lock = STORAGES[storage]
        actors = [replace(each, lock=lock).actor() for each in self.processes]
        return explore(
            actors, FileSystemWorld(mount, self.start()), Checks(*checks), Faults(crashes=len(actors))
        )


def _insert(key: str) -> Operation:
    return Operation("insert", key, ("red", "A"))


def _set(key: str, color: str | None, hobby: str | None) -> Operation:
    return Operation("set", key, (color, hobby))


def _replace(key: str, color: str) -> Operation:
    return Operation("replace", key, (color, "A"))


_JACK, _SARAH, _BLUE = _insert("jack"), _insert("sarah"), _set("jack", "blue", None)

TOPOLOGIES = {
    "1: a writer and a compactor a bucket": Topology(
        "part 2, Topology 1; part 3, Multiple writers, one writer per bucket",
        "OK",
        frozenset(),
        (Writer("w1", 0, (_JACK, _BLUE)), Writer("w2", 1, (_SARAH,)), Compactor("c1", 0, 0)),
    ),
    "1: a writer a bucket": Topology(
        "part 2, Topology 1; part 3, Multiple writers, one writer per bucket",
        "OK",
        frozenset(),
        (Writer("w1", 0, (_JACK, _BLUE)), Writer("w2", 1, (_SARAH, _set("sarah", None, "B")))),
    ),
    "2: writers of one bucket, each with its own sequence numbers": Topology(
        "part 2, Topology 2 issue #1; part 3, Multiple writers per bucket",
        "the merge order does not match the order of the writes",
        frozenset({DISORDER}),
        (
            Writer("w1", 0, (_replace("jack", "blue"), _replace("jack", "green"))),
            Writer("w2", 0, (_replace("jack", "yellow"),)),
        ),
        (Writer("w0", 0, (_JACK,)),),
    ),
    "2: writers of one bucket that change what they have read": Topology(
        "part 2, Topology 2 issue #2, and its Fig 14",
        "lost updates; a sequence field is best effort",
        frozenset({DISORDER, LOST_UPDATE}),
        (
            Writer("w1", 0, (_BLUE,), sequence_field=True),
            Writer("w2", 0, (_set("jack", None, "B"),), sequence_field=True),
        ),
        (Writer("w0", 0, (_JACK,), sequence_field=True),),
    ),
    "2: compactors of one level of one bucket": Topology(
        "part 2, Topology 2 issue #3: what the check of deleted files prevents",
        "OK, one of the two aborts",
        frozenset(),
        (Compactor("c1", 0, 0), Compactor("c2", 0, 0), Writer("w1", 0, (_BLUE,))),
        (Writer("w0", 0, (_JACK,)),),
    ),
    "2: compactors of one bucket, one adds a deletion vector to a file that the other rewrites": Topology(
        "part 2, Topology 2 issue #3; part 3, One writer, multiple compactors in a single bucket",
        "dangling deletion vectors, two valid rows of a key",
        frozenset({DANGLING_VECTOR, TWO_ROWS}),
        (Compactor("c1", 0, 1), Compactor("c2", 0, 0)),
        (Writer("v1", 0, (_JACK,)), Compactor("v2", 0, 0), Writer("v3", 0, (_BLUE,))),
    ),
    "2: compactors of one bucket, one adds a deletion vector, the other removes another": Topology(
        "part 2, Topology 2 issues #2 and #3",
        "lost updates of the deletion vector file",
        frozenset({DANGLING_VECTOR, TWO_ROWS}),
        (Compactor("c1", 0, 1), Compactor("c2", 0, 0)),
        (
            *(Writer("v1", 0, (_SARAH,)), Compactor("v2", 0, 0), Compactor("v3", 0, 1)),
            *(Writer("v4", 0, (_JACK,)), Compactor("v5", 0, 0), Writer("v6", 0, (_BLUE,))),
            *(Compactor("v7", 0, 0), Writer("v8", 0, (_set("sarah", "blue", None),))),
        ),
    ),
}


class Found(NamedTuple):
    """What all schedules have come to."""

    kinds: frozenset[str]
    states: int
    traces: str

    def __str__(self) -> str:
        return f"{', '.join(sorted(self.kinds)) or 'OK'} ({self.states} states)\n{self.traces}"


def found(topology: Topology, storage: str) -> Found:
    """Play every schedule, once for each thing that may break, and return what does."""
    explored = [topology.explored(storage)]
    if explored[0].violation is not None:
        explored = [topology.explored(storage, kind) for kind in KINDS]
    traces = [each.violation for each in explored if each.violation is not None]
    kinds = frozenset(trace.partition(":")[0] for trace in traces)
    return Found(kinds, sum(each.states for each in explored), "\n\n".join(traces))


def table() -> str:
    """Return what is published and found, for the documentation; a lock and the shim have one verdict."""
    head = ("topology", "published", "found")
    rows = [
        (name, each.published, ", ".join(kind for kind in KINDS if kind in each.breaks) or "OK")
        for name, each in TOPOLOGIES.items()
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))
