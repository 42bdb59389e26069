"""Run the ledger's protocols one after another over one table, and write down what they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from putifabsent.backends.base import Creation, InMemory, Maybe
from putifabsent.shim.formats.hudi_ledger import Asker, rule_for
from putifabsent.shim.ledger import calls, completion, turns
from putifabsent.shim.ledger.appending import append
from putifabsent.shim.ledger.book import Lane, Ledger, Native
from putifabsent.shim.ledger.facts import State
from putifabsent.shim.ledger.records import Record, Undo
from putifabsent.shim.requests import Both, Now, Pause
from putifabsent.testing.imagined import Thing
from tests.shim.ledger_tables import (
    LIFE,
    NAME,
    REAL,
    ROOT,
    SMALL,
    STATE,
    TIMELINE,
    Table,
    no_clock,
    things_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from putifabsent.shim.ledger.calls import Rule
    from putifabsent.shim.ledger.facts import Completion, TurnName
    from putifabsent.shim.requests import Protocol


LOST = ConnectionResetError("the answer was lost")
_DELETION, _RELEASE = "deletion", "release"
APPLIED = "applied, answer lost"


class Run:
    """A table, and what was asked of it since it was last looked at.

    Parameters
    ----------
    before
        The records that are there at first.
    every
        Which of them are checkpoints.
    modules
        ``turns`` of a mutant, or the real one.
    """

    def __init__(self, *before: Any, every: int = 64, takes: Any = turns.take, **store: bool) -> None:
        self.every, self.take_by = every, takes
        self.world = Table(things=things_of(before, every=every), **store)
        self.state: Any = self.world.initial
        self.asked: list[str] = []
        self.time = 0.0
        self.patience = 3
        self.failing: list[tuple[str, Any, Callable[[], None] | None]] = []

    def session(self, name: str, *, has_read: bool = True) -> Ledger:
        """Return what a session knows, who has read the ledger or not."""
        ledger = Ledger(NAME, name, Native(SMALL), Lane(f"lane-{name}"), state=State(every=self.every))
        if has_read:
            self.play(ledger.current(creation("reading")))
            self.asked.clear()
        return ledger

    def play(self, protocol: Protocol[Any]) -> Any:
        """Run a protocol to its end."""
        self.asked.clear()
        return self.play_on(protocol, None)

    def play_on(self, protocol: Protocol[Any], outcome: Any) -> Any:
        """Run a protocol to its end, whose last request had this outcome; None: it has not begun."""
        try:
            request = protocol.send(outcome)
            while True:
                try:
                    outcome = self._outcome(request)
                except BaseException as error:  # noqa: BLE001 - the protocol decides what it means
                    request = protocol.throw(error)
                else:
                    request = protocol.send(outcome)
        except StopIteration as end:
            return end.value

    def play_aside(self, protocol: Protocol[Any]) -> Any:
        """Run another session's protocol in the middle of one: nothing of it fails, and nothing is noted."""
        asked, failing = self.asked, self.failing
        self.asked, self.failing = [], []
        try:
            return self.play(protocol)
        finally:
            self.asked, self.failing = asked, failing

    def things(self) -> dict[str, Thing]:
        """Return the objects, by their names from the table's root."""
        return {name.removeprefix("b/t/"): thing for name, thing in self.state}

    def remove_all(self) -> None:
        """Remove the table, with all that the shim keeps of it."""
        self.state = frozenset(each for each in self.state if not each[0].startswith("b/t/"))

    def put_marker(self, state: State) -> None:
        """Put another marker of the first life."""
        self.put(f"{STATE}/ledger/-life", "another", REAL.marker_of(state))

    def put(self, path: str, token: str = "", data: bytes = b"old") -> None:
        """Put an object, round the shim."""
        others = (each for each in self.state if each[0] != path)
        self.state = frozenset({*others, (path, Thing(token, data))})

    def _outcome(self, request: Any) -> Any:
        if isinstance(request, Both):
            return self._outcome(request.first), self._outcome(request.second)
        if isinstance(request, Now):
            return self.time
        if isinstance(request, Pause):
            self.asked.append("pause")
            self.time += 1
            return request.attempt < self.patience
        self.asked.append(said(request))
        for number, (text, outcome, first) in enumerate(self.failing):
            if text == self.asked[-1]:
                del self.failing[number]
                if first is not None:
                    first()
                if outcome is None or outcome is APPLIED:
                    break
                return outcome
        else:
            outcome = None
        self.state, answer = self.world.apply(self.state, request)
        return Maybe(LOST) if outcome is APPLIED else answer

    def fails(self, text: str, outcome: Any, first: Callable[[], None] | None = None) -> None:
        """Have the next request that reads so end like this, after something else has happened first.

        Like what: an outcome, APPLIED (only the answer is lost), or None (nothing is wrong).
        """
        self.failing.append((text, outcome, first))

    # --- what the doors will do ---------------------------------------------------------------------------

    def creates(self, ledger: Ledger, path: str, token: str, **more: Any) -> Any:
        """Create a name, as Hudi calls it."""
        rule = rule_for(asker(ledger, path, token, more.pop("frees", None)), deletes=False)
        assert rule is not None
        instant = path.rpartition("/")[2].partition(".")[0].partition("_")[0]
        by_name = more.pop("by_name", lambda: _by_name(path, token))
        body = InMemory(token.encode())
        return self.play(
            calls.create(
                ledger,
                rule,
                path,
                instant,
                body,
                creation(token),
                by_name,
                turn=more.pop("turn", None),
                largest_publish=SMALL,
            )
        )

    def deletes(self, ledger: Ledger, path: str, token: str = _DELETION) -> None:
        """Delete a name, as Hudi calls it."""
        rule = rule_for(asker(ledger, path, token), deletes=True)
        assert rule is not None
        self.play(_deletes(ledger, rule, path, creation(token)))

    def takes(
        self, ledger: Ledger, token: str, *, lease: float = 10.0, waits: bool = False
    ) -> TurnName | None:
        """Take the turn."""
        turn: TurnName | None = self.play(
            self.take_by(ledger, "main", lease, creation(token), clock=no_clock, waits=waits)
        )
        return turn

    def releases(self, ledger: Ledger, turn: TurnName, token: str = _RELEASE) -> bool:
        """Give it back."""
        return bool(self.play(turns.release(ledger, turn, creation(token))))

    def completes(self, ledger: Ledger, instant: str, token: str, turn: TurnName | None = None) -> Any:
        """Commit an instant that is open."""
        path = completed_name(instant)
        body = InMemory(token.encode())
        return self.play(
            completion.complete(
                ledger, path, instant, body, creation(token), turn=turn, largest_publish=SMALL
            )
        )


def asker(ledger: Ledger, path: str, token: str, frees: str | None = None) -> Asker:
    """Return who asks."""
    return Asker(ledger.session, token, ledger.opened, path, ledger.relative(path), frees)


def creation(token: str) -> Creation:
    """Return a creation."""
    return Creation(token, "writer", STATE)


def requested(instant: str, action: str = "commit") -> str:
    """Return a name."""
    return f"{TIMELINE}/{instant}.{action}.requested"


def inflight(instant: str) -> str:
    """Return a name."""
    return f"{TIMELINE}/{instant}.inflight"


def completed_name(instant: str) -> str:
    """Return a name, as the records before have it."""
    return f"{TIMELINE}/{instant}_{instant}9.commit"


def said(request: Any) -> str:
    """Return a request in short."""
    verb = type(request).__name__.lower()
    path = getattr(request, "name", None) or request.folder
    short = path.removeprefix(f"{STATE}/").removeprefix(f"{ROOT}/").removeprefix("b/t/")
    number = short.removeprefix("ledger/").removeprefix(f"{LIFE}.")
    return f"{verb} {int(number) if number.isdecimal() else short}"


def _by_name(path: str, token: str) -> Protocol[Any]:
    from putifabsent.shim.create import create
    from putifabsent.shim.names import ordinary

    return create(ordinary(path), InMemory(token.encode()), creation(token), largest_put=SMALL)


def _deletes(ledger: Ledger, rule: Rule, path: str, own: Creation) -> Protocol[None]:
    from putifabsent.shim.requests import removed

    if not (yield from calls.delete(ledger, rule, path, own)):
        yield from removed(path)


def kinds(run: Run) -> Sequence[str]:
    """Return the kinds of the records that are there, of any life."""
    import json

    things = run.things()
    folder = ".hoodie/.putifabsent/ledger/"
    numbered = sorted(name for name in things if name.startswith(folder) and ".0" in name.rpartition("/")[2])
    return [json.loads(things[name].data)["kind"] for name in numbered]


def undo(ledger: Ledger, instant: str, creation: Creation) -> Protocol[Completion | None]:
    """Take a commit back, before anything of it is removed; None: it was none any more."""

    def draft(state: State) -> Record | None:
        is_there = state.completed(instant) is not None
        return Undo(instant, ledger.session, creation.token) if is_there else None

    yield from append(ledger, draft, creation)
    gone = [each for each in ledger.state.completions.values() if each.instant == instant and each.undone]
    return max(gone, key=lambda each: each.number, default=None)
