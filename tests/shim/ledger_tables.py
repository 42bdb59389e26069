"""A table with a ledger, for tests: an imagined store, what is there at first, and the modules at work."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.backends.base import Maybe
from putifabsent.shim.formats import hudi, hudi_ledger
from putifabsent.shim.ledger import (
    appending,
    book,
    calls,
    completion,
    facts,
    records,
    turns,
)
from putifabsent.shim.requests import Create, Delete, Now
from putifabsent.testing.imagined import LOST, ImaginedStore, Thing
from tests.mutation import public_in
from tests.shim.ledger_judges import WAS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = "b/t/.hoodie"
TIMELINE = f"{ROOT}/timeline"
STATE = f"{ROOT}/.putifabsent"
_found = hudi.classify(f"{TIMELINE}/1.commit.requested", TIMELINE, "1.commit.requested")
assert _found is not None
NAME = _found

AT_ONCE = -1.0
"""The lease of a turn that whoever has looked twice may break: the worst of all clocks."""
NEVER = 1e9
LIFE = "first"
"""The life of a table that is there at first."""
SMALL = 2**20


class RemoveAll(NamedTuple):
    """The table is removed, with all that the shim keeps of it, at one moment."""


class Table(ImaginedStore):
    """A store that remembers who created each record first: removed records have been read by somebody.

    A slice is removed at once, or never: what is late may hit one that is written again since under the same
    name, and no ledger can help that.
    """

    def apply(self, state: Any, request: Any) -> tuple[Any, Any]:
        if isinstance(request, Now):
            return state, 0.0
        if isinstance(request, RemoveAll):
            return frozenset(each for each in state if each[0].startswith(WAS)), None
        after, outcome = super().apply(state, request)
        last = request.name.removeprefix(f"{STATE}/ledger/") if isinstance(request, Create) else ""
        if "." in last and after != state and last.startswith(f"{life_of(dict(state))}."):
            things = dict(after)
            things.setdefault(f"{WAS}{last}", things[request.name])
            after = frozenset(things.items())
        return after, outcome

    def unanswered(self, request: Any) -> Any:
        if isinstance(request, (Now, RemoveAll)):
            return None
        return Maybe(LOST) if _removes_slice(request) else super().unanswered(request)

    def changes(self, request: Any) -> bool:
        return super().changes(request) and not _removes_slice(request)


def _removes_slice(request: Any) -> bool:
    return isinstance(request, Delete) and request.name.endswith(".parquet")


def life_of(things: Mapping[str, Thing]) -> str | None:
    """Return the table's present life; None: it has none."""
    marker = things.get(f"{STATE}/ledger/-life")
    return None if marker is None else REAL.life_in(marker.data, "").life


def no_clock() -> float:
    raise AssertionError("the schedule has the clock")


def family(modules: dict[str, Any]) -> Any:
    """Return what actors use of the modules, the real ones or a mutant's."""
    every = SimpleNamespace()
    for module in modules.values():
        vars(every).update({name: vars(module)[name] for name in public_in(module)})
    every.create_by_rule, every.delete_by_rule = modules["calls"].create, modules["calls"].delete
    return every


REAL = family(
    {
        "facts": facts,
        "records": records,
        "book": book,
        "appending": appending,
        "turns": turns,
        "completion": completion,
        "calls": calls,
        "hudi_ledger": hudi_ledger,
    }
)


def history(before: Sequence[Any], *, every: int, p: Any = REAL) -> Iterator[tuple[Any, Any]]:
    """Yield the states that records come to, each with its last record, and with checkpoints where due."""
    state = p.State(every=every, life=LIFE)
    for record in before:
        if state.is_due:
            checkpoint = p.Checkpoint("before", "before", state.condensed())
            state = p.fold(state, checkpoint)
            yield checkpoint, state
        assert p.valid(state, record) is None, p.valid(state, record)
        state = p.fold(state, record)
        yield record, state


def things_of(before: Sequence[Any], *, every: int) -> Iterator[tuple[str, Thing]]:
    """Return the objects of a ledger with these records, and the bodies and names of what is completed."""
    if before:
        yield f"{STATE}/ledger/-life", Thing(LIFE, REAL.marker_of(facts.State(every=every, life=LIFE)))
    for record, state in history(before, every=every):
        thing = Thing(record.token, REAL.encode(record))
        yield f"{STATE}/ledger/{LIFE}.{state.number:010}", thing
        yield f"{WAS}{LIFE}.{state.number:010}", thing
        if record.KIND == "COMPLETE":
            body = Thing(record.token, record.token.encode())
            yield f"{ROOT}/{record.body}", body
            yield f"{ROOT}/{record.name}", body


def slice_of(instant: str) -> str:
    """Return the only slice of an instant."""
    return f"b/t/f-0_1-0-1_{instant}.parquet"


def completed(instant: str, token: str) -> Any:
    """Return a COMPLETE as ``complete`` writes it."""
    name = f"timeline/{instant}_{instant}9.commit"
    return partial(
        records.Complete, instant, token=token, name=name, body=f".putifabsent/bodies/{instant}~{token}.0"
    )
