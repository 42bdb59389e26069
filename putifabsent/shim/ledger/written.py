"""How a record is written: one JSON object, which says who may read it.

::

    {"format": 2, "reader": 2, "kind": "TAKE", "instant": "20260101120000000", "session": "…", "token": "…"}

``format`` is its writer's, ``reader`` the oldest one that understands what it means. A later version may add
fields to a kind, which older readers don't see; whatever changes what a state is has a later ``reader``, and
whoever is older than that stops.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

from putifabsent.errors import PutIfAbsentError
from putifabsent.shim.ledger.facts import Completion, Held, Opened, State
from putifabsent.shim.ledger.records import KINDS, Checkpoint, Record

__all__ = ["FORMAT", "READER", "decode", "encode"]

FORMAT = 2
"""The form that this version writes, and the newest that it reads."""

READER = 2
"""The oldest form whose readers understand what this version writes."""


def encode(record: Record) -> bytes:
    """Return the bytes of a record."""
    said = asdict(record)
    whole = {"format": FORMAT, "reader": READER, "kind": record.KIND, **said}
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()


def decode(data: bytes, path: str) -> Record:
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
    try:
        said = json.loads(data)
        reader, kind = int(said["reader"]), str(said["kind"])
    except (ValueError, TypeError, LookupError) as error:
        raise PutIfAbsentError(f"{path} is no record of a ledger: {error!r}") from error
    if reader > FORMAT or kind not in KINDS:
        raise PutIfAbsentError(
            f"{path} was written by a later putifabsent: it wants a reader of format {reader} or later that "
            f"knows {kind}, and this one reads format {FORMAT}. Upgrade every writer of this table"
        )
    try:
        if kind == Checkpoint.KIND:
            said["state"] = _state(said["state"])
        record: Record = _made(KINDS[kind], said)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise PutIfAbsentError(f"{path} is no {kind} record: {error!r}") from error
    return record


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
        },
    )
    return state


def _made(kind: type[Any], said: dict[str, Any]) -> Any:
    """Make a frozen class of what is said of its fields; other words are a later version's."""
    return kind(**{each.name: said[each.name] for each in fields(kind) if each.name in said})
