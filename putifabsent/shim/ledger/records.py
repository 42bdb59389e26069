"""The records of a ledger: each says when it is valid, and what it means, side by side.

Every one of them has a session (one process's life of a writer) and the token of the creation that wrote it.
It is written as one JSON object, which says who may read it::

    {"format": 3, "reader": 3, "lane": "…", "kind": "TAKE", "instant": "20260101120000000", "session": "…",
     "token": "…"}

The marker of a life is written likewise, and names it: ``{…, "kind": "LIFE", "state": {"life": "…", …}}``.

``format`` is its writer's, ``reader`` the oldest one that understands what it means. A later version may add
fields to a kind, which older readers don't see; whatever changes what a state is has a later ``reader``, and
whoever is older than that stops.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeAlias

from putifabsent.errors import PutIfAbsentError
from putifabsent.shim.formats.hudi import PLANNED
from putifabsent.shim.ledger.facts import Completion, Held, Last, Opened, State


@dataclass(frozen=True, slots=True)
class _OfInstant:
    instant: str
    session: str
    token: str


@dataclass(frozen=True, slots=True)
class Open(_OfInstant):
    """Before anything of an instant is put: it belongs to this session."""

    KIND: ClassVar[str] = "OPEN"
    action: str = ""  # what the instant is, in its format's words
    frees: str | None = None  # the instant that this one rolls back: if it is open, it is freed

    def why_not(self, state: State) -> str | None:
        """Valid where the instant is neither open, completed nor being rolled back, and above the horizon."""
        if self.instant in state.open:
            return f"{self.instant} is open, and belongs to session {state.open[self.instant].session}"
        if state.completed(self.instant) is not None:
            return f"{self.instant} is completed"
        for other, each in state.rollbacks_of(self.instant).items():
            what = f"is being rolled back by {other}, which session {each.session} has begun"
            return f"{self.instant} {what}: if nobody goes on with that, remove its requested name"
        if state.is_over(self.instant):
            return f"{self.instant} is over; no more is remembered of it (horizon {state.horizon or 'none'})"
        return None

    def after(self, state: State) -> State:
        """It is open; what it rolls back is freed."""
        state = _given_up(state, self.frees)
        freed = dict(state.freed)
        had = freed.pop(self.instant, ())
        # Who had it and begins anew has it rightly; who had it and goes on has lost what it wrote.
        before = tuple(session for session in had if session != self.session)
        mine = Opened(self.session, self.token, self.action, self.frees, before=before)
        return replace(
            state,
            open={**state.open, self.instant: mine},
            freed=freed,
            first=min(state.first or self.instant, self.instant),
        )


@dataclass(frozen=True, slots=True)
class Take(_OfInstant):
    """An open instant changes hands: its work is gone on with by another process."""

    KIND: ClassVar[str] = "TAKE"

    def why_not(self, state: State) -> str | None:
        """Valid where the instant is open, not its own, and this session has not lost it before."""
        held = state.open.get(self.instant)
        if held is None:
            return f"{self.instant} is not open"
        if held.session == self.session:
            return f"{self.instant} belongs to this session"
        if self.session in held.lost:
            return f"{self.instant} was taken from this session, by {held.session} at last"
        if self.session in held.before:
            return f"{self.instant} was rolled back since, and begun anew by session {held.session}"
        return None

    def after(self, state: State) -> State:
        """It belongs to this session, and can't go back to the one before."""
        held = state.open[self.instant]
        taken = replace(held, session=self.session, lost=(*held.lost, held.session))
        return replace(state, open={**state.open, self.instant: taken})


@dataclass(frozen=True, slots=True)
class Complete(_OfInstant):
    """The commit. Its body is stored before, under a key that nobody else writes."""

    KIND: ClassVar[str] = "COMPLETE"
    # name, body: the completed name and the key of its bytes, both from the ledger's root.
    name: str
    body: str
    turn: int | None = None  # the number of the turn in which it is made, or None

    def why_not(self, state: State) -> str | None:
        """Valid where it is open, its own or its to take, and the turn that it names is held now, or none.

        What would be refused must not take: so taking over and completing is one record.
        """
        held = state.open.get(self.instant)
        if held is None:
            return f"{self.instant} is not open: it was completed, or rolled back"
        if held.session != self.session and (reason := self._take().why_not(state)) is not None:
            return f"{self.instant} belongs to session {held.session}: {reason}"
        if (state.turn and state.turn.number) != self.turn:
            return f"it names turn {self.turn}, and {_whose(state)}"
        if state.turn is not None and state.turn.session != self.session:
            return f"it names the turn of another session, {state.turn.session}"
        return None

    def after(self, state: State) -> State:
        """It is completed; the turn goes on."""
        if state.open[self.instant].session != self.session:
            state = self._take().after(state)
        before, number = state.open[self.instant].had[:-1], state.number + 1
        made = Completion(self.instant, self.session, self.token, self.name, self.body, number, before=before)
        completions = {**state.completions, self.token: made}
        return replace(state, open=_without(state, self.instant), completions=completions, latest=self.token)

    def _take(self) -> Take:
        return Take(self.instant, self.session, self.token)


@dataclass(frozen=True, slots=True)
class Free(_OfInstant):
    """Before any rollback removes anything of an open instant, its owner's own rollback too."""

    KIND: ClassVar[str] = "FREE"

    def why_not(self, state: State) -> str | None:
        """Valid where the instant is open."""
        return None if self.instant in state.open else f"{self.instant} is not open"

    def after(self, state: State) -> State:
        """It belongs to nobody, so that nobody can complete it."""
        return _given_up(state, self.instant)


@dataclass(frozen=True, slots=True)
class Undo(_OfInstant):
    """Before a restore or a rollback removes a completed name."""

    KIND: ClassVar[str] = "UNDO"

    def why_not(self, state: State) -> str | None:
        """Valid where the instant is completed."""
        return None if state.completed(self.instant) is not None else f"{self.instant} is not completed"

    def after(self, state: State) -> State:
        """It was completed once."""
        made = state.completed(self.instant)
        had = () if made is None else (*made.before, made.session)
        ended = {
            token: replace(each, undone=each.undone or each.instant == self.instant)
            for token, each in state.completions.items()
        }
        return replace(state, completions=ended, freed={**state.freed, self.instant: had})


@dataclass(frozen=True, slots=True)
class _OfTurn:
    number: int  # a turn is called after its own record
    session: str
    token: str


@dataclass(frozen=True, slots=True)
class Turn(_OfTurn):
    """Taking the lock."""

    KIND: ClassVar[str] = "TURN"
    thread: str  # which of its session's threads has it
    lease: float  # seconds without a beat after which others may break it

    def why_not(self, state: State) -> str | None:
        """Valid where none is held."""
        if state.turn is not None:
            return _whose(state)
        return None if self.number == state.number + 1 else "a turn is called after its own record"

    def after(self, state: State) -> State:
        """It is held, until it is released or broken."""
        return replace(state, turn=Held(self.number, self.session, self.thread, self.lease))


@dataclass(frozen=True, slots=True)
class Release(_OfTurn):
    """Giving the lock back."""

    KIND: ClassVar[str] = "RELEASE"

    def why_not(self, state: State) -> str | None:
        """Valid where this turn is held, by this session."""
        if (over := _over(state, self.number)) is not None:
            return over
        return None if state.turn and state.turn.session == self.session else _whose(state)

    def after(self, state: State) -> State:
        """It is over."""
        return replace(state, turn=None)


@dataclass(frozen=True, slots=True)
class Break(_OfTurn):
    """Ending the turn of somebody who has shown no life for longer than its lease."""

    KIND: ClassVar[str] = "BREAK"

    def why_not(self, state: State) -> str | None:
        """Valid where this turn is held; that its holder is dead, the breaker has watched."""
        return _over(state, self.number)

    def after(self, state: State) -> State:
        """It is over; its holder may not know it yet."""
        return replace(state, turn=None)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the records before it come to, so that they can be removed."""

    KIND: ClassVar[str] = "CHECKPOINT"
    session: str
    token: str
    state: State  # including the checkpoint itself

    def why_not(self, state: State) -> str | None:
        """Valid where it says just that."""
        return None if self.state == state.condensed() else "it says something else than the records before"

    def after(self, _: State) -> State:
        """It remembers what matters."""
        return self.state


@dataclass(frozen=True, slots=True)
class Move:
    """The last of the records that version 0.1.0 wrote in no life; who knows no lives stops at it."""

    KIND: ClassVar[str] = "MOVE"
    session: str
    token: str

    def why_not(self, state: State) -> str | None:
        """Valid in no life, once."""
        return "the ledger has moved" if state.life or state.moved else None

    def after(self, state: State) -> State:
        """What it has come to is what the life begins with."""
        return replace(state, moved=True)


Record: TypeAlias = Open | Take | Complete | Free | Undo | Turn | Release | Break | Checkpoint | Move

KINDS: Mapping[str, type[Record]] = {
    each.KIND: each for each in (Open, Take, Complete, Free, Undo, Turn, Release, Break, Checkpoint, Move)
}


def valid(state: State, record: Record) -> str | None:
    """Return why a record may not follow on this state; None: it may."""
    if isinstance(record, Checkpoint) != state.is_due:
        return f"number {state.number + 1} is {'' if state.is_due else 'not '}a checkpoint's"
    if state.moved:
        return "the ledger has moved"
    return record.why_not(state)


def fold(state: State, record: Record, lane: str = "") -> State:
    """Return the state after one record more, of a lane.

    It was valid when it was appended. One that is not is void, and all readers agree on that: its writer
    had read records that somebody has removed since.
    """
    if isinstance(record, Checkpoint):
        return record.state
    number = state.number + 1
    if valid(state, record) is not None:
        return replace(state, number=number)
    after = record.after(state)
    lasts = {**after.lasts, lane: Last(number, record.token)} if lane else after.lasts
    return replace(after, number=number, tokens={**after.tokens, record.token: number}, lasts=lasts)


def _without(state: State, instant: str | None) -> dict[str, Opened]:
    """Return what is open beside an instant."""
    return {other: each for other, each in state.open.items() if other != instant}


def _given_up(state: State, instant: str | None) -> State:
    """Return a state in which nobody has an instant that was open."""
    held = None if instant is None else state.open.get(instant)
    if instant is None or held is None:
        return state
    planned = state.planned | {instant} if held.action in PLANNED else state.planned
    freed = {**state.freed, instant: held.had}
    return replace(state, open=_without(state, instant), freed=freed, planned=planned)


def _over(state: State, number: int) -> str | None:
    """Say why a turn is not held any more; None: it is."""
    if state.turn is None or state.turn.number != number:
        return f"turn {number} is not held any more: {_whose(state)}"
    return None


def _whose(state: State) -> str:
    turn = state.turn
    return "no turn is held" if turn is None else f"session {turn.session} has turn {turn.number}"


# --- how records are written


FORMAT = 3
"""The form that this version writes, and the newest that it reads."""

READER = 3
"""The oldest form whose readers understand what this version writes."""


_LIFE = "LIFE"


class Line(NamedTuple):
    """A record as it was read, and the lane that has appended it; empty: version 0.1.0 knew of none."""

    record: Record
    lane: str


def encode(record: Record, lane: str = "") -> bytes:
    return _bytes(lane=lane, kind=record.KIND, **_fields_of(record))


def marker_of(state: State) -> bytes:
    return _bytes(kind=_LIFE, state=state)


def decode(data: bytes, path: str) -> Line:
    """Return the record that was written, from its bytes; where they lie is for people.

    ``PutIfAbsentError``: a later version wrote it, or it is no record.
    """
    kind, values = _read(data, path, KINDS)
    try:
        if kind == Checkpoint.KIND:
            values["state"] = _state(values["state"])
        record: Record = _made(KINDS[kind], values)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise PutIfAbsentError(f"{path} is no {kind} record: {error!r}") from error
    return Line(record, str(values.get("lane", "")))


def life_in(data: bytes, path: str) -> State:
    """Return the state that a life begins with, from its marker; parameters and errors as :func:`decode`."""
    _, values = _read(data, path, (_LIFE,))
    try:
        return _state(values["state"])
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise PutIfAbsentError(f"{path} is no marker of a ledger's life: {error!r}") from error


def _bytes(**values: Any) -> bytes:
    whole = {"format": FORMAT, "reader": READER, **values}
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False, default=_plain).encode()


def _plain(value: Any) -> Any:
    # dataclasses.asdict copies all that is in it, which takes most of the time that a checkpoint does.
    return _fields_of(value) if is_dataclass(value) else sorted(value)


def _fields_of(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}


def _read(data: bytes, path: str, kinds: Container[str]) -> tuple[str, dict[str, Any]]:
    try:
        values = json.loads(data)
        reader, kind = int(values["reader"]), str(values["kind"])
    except (ValueError, TypeError, LookupError) as error:
        raise PutIfAbsentError(f"{path} is no record of a ledger: {error!r}") from error
    if reader > FORMAT or kind not in kinds:
        raise PutIfAbsentError(
            f"{path} was written by a later putifabsent: it wants a reader of format {reader} or later that "
            f"knows {kind}, and this one reads format {FORMAT}. Upgrade every writer of this table"
        )
    return kind, values


def _state(values: dict[str, Any]) -> State:
    turn = values["turn"]
    state: State = _made(
        State,
        {
            **values,
            "open": {
                key: _made(Opened, {**each, "lost": tuple(each["lost"]), "before": tuple(each["before"])})
                for key, each in values["open"].items()
            },
            "freed": {key: tuple(each) for key, each in values["freed"].items()},
            "completions": {
                key: _made(Completion, {**each, "before": tuple(each["before"])})
                for key, each in values["completions"].items()
            },
            "turn": turn and _made(Held, turn),
            "planned": frozenset(values.get("planned", ())),
            "past": frozenset(values.get("past", ())),
            "lasts": {lane: Last(*each) for lane, each in values.get("lasts", {}).items()},
        },
    )
    return state


def _made(kind: type[Any], values: dict[str, Any]) -> Any:
    """Make an instance of a frozen class from its fields' values; unknown keys are a later version's."""
    return kind(**{each.name: values[each.name] for each in fields(kind) if each.name in values})
