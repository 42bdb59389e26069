"""How a record is written: one JSON object, which says who may read it.

::

    {"format": 3, "reader": 3, "lane": "…", "kind": "TAKE", "instant": "20260101120000000", "session": "…",
     "token": "…"}

The marker of a life is written likewise, and names it: ``{…, "kind": "LIFE", "state": {"life": "…", …}}``.

``format`` is its writer's, ``reader`` the oldest one that understands what it means. A later version may add
fields to a kind, which older readers don't see; whatever changes what a state is has a later ``reader``, and
whoever is older than that stops.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.errors import PutIfAbsentError
from putifabsent.shim.ledger.facts import Completion, Held, Last, Opened, State
from putifabsent.shim.ledger.records import KINDS, Checkpoint, Record

if TYPE_CHECKING:
    from collections.abc import Container

__all__ = ["FORMAT", "READER", "Line", "decode", "encode", "life_in", "marker_of"]

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
    """Return the bytes of a record that a lane appends."""
    return _bytes(lane=lane, kind=record.KIND, **_fields_of(record))


def marker_of(state: State) -> bytes:
    """Return the bytes of the marker of a life that begins with this state."""
    return _bytes(kind=_LIFE, state=state)


def decode(data: bytes, path: str) -> Line:
    """Return the record that was written.

    Parameters
    ----------
    data
        Its bytes.
    path
        Where they lie, for people.

    Raises
    ------
    PutIfAbsentError
        A later version wrote it, or it is no record.
    """
    kind, said = _read(data, path, KINDS)
    try:
        if kind == Checkpoint.KIND:
            said["state"] = _state(said["state"])
        record: Record = _made(KINDS[kind], said)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise PutIfAbsentError(f"{path} is no {kind} record: {error!r}") from error
    return Line(record, str(said.get("lane", "")))


def life_in(data: bytes, path: str) -> State:
    """Return the state that a life begins with, from its marker; parameters and errors as :func:`decode`."""
    _, said = _read(data, path, (_LIFE,))
    try:
        return _state(said["state"])
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise PutIfAbsentError(f"{path} is no marker of a ledger's life: {error!r}") from error


def _bytes(**said: Any) -> bytes:
    whole = {"format": FORMAT, "reader": READER, **said}
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False, default=_plain).encode()


def _plain(value: Any) -> Any:
    # dataclasses.asdict copies all that is in it, which takes most of the time that a checkpoint does.
    return _fields_of(value) if is_dataclass(value) else sorted(value)


def _fields_of(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}


def _read(data: bytes, path: str, kinds: Container[str]) -> tuple[str, dict[str, Any]]:
    try:
        said = json.loads(data)
        reader, kind = int(said["reader"]), str(said["kind"])
    except (ValueError, TypeError, LookupError) as error:
        raise PutIfAbsentError(f"{path} is no record of a ledger: {error!r}") from error
    if reader > FORMAT or kind not in kinds:
        raise PutIfAbsentError(
            f"{path} was written by a later putifabsent: it wants a reader of format {reader} or later that "
            f"knows {kind}, and this one reads format {FORMAT}. Upgrade every writer of this table"
        )
    return kind, said


def _state(said: dict[str, Any]) -> State:
    turn = said["turn"]
    state: State = _made(
        State,
        {
            **said,
            "open": {
                key: _made(Opened, {**each, "lost": tuple(each["lost"]), "before": tuple(each["before"])})
                for key, each in said["open"].items()
            },
            "freed": {key: tuple(each) for key, each in said["freed"].items()},
            "completions": {
                key: _made(Completion, {**each, "before": tuple(each["before"])})
                for key, each in said["completions"].items()
            },
            "turn": turn and _made(Held, turn),
            "past": frozenset(said.get("past", ())),
            "lasts": {lane: Last(*each) for lane, each in said.get("lasts", {}).items()},
        },
    )
    return state


def _made(kind: type[Any], said: dict[str, Any]) -> Any:
    """Make a frozen class of what is said of its fields; other words are a later version's."""
    return kind(**{each.name: said[each.name] for each in fields(kind) if each.name in said})
