"""Offers to commit, and schemas, as Spark's JSON says them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from putifabsent.spark.sets import Batch, Offer, Record, State

if TYPE_CHECKING:
    from putifabsent.spark.sets import File

__all__ = ["append", "batch", "history", "overwrite", "schema"]


def schema(**columns: Any) -> dict[str, Any]:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()
    ]
    return {"type": "struct", "fields": fields}


IDS = schema(id="long")


def append(*files: File, name: str | None = None, of: dict[str, Any] = IDS) -> Offer:
    return Offer(str(uuid.uuid4()), "a writer", of, files, name=name)


def overwrite(*files: File, seen: int, of: dict[str, Any] = IDS) -> Offer:
    return Offer(str(uuid.uuid4()), "a writer", of, files, replaces=seen)


def batch(*files: File, number: int, query: str = "q", stream: str = "stream") -> Offer:
    return Offer(str(uuid.uuid4()), "a writer", IDS, files, batch=Batch(stream, query, number))


def history(*offers: Offer) -> list[Record]:
    """Return the records of these offers, as they would be committed one after the other."""
    records: list[Record] = []
    state = State()
    for offer in offers:
        assert state.admits(offer, "here")
        records.append(Record.next(state, offer))
        state = state.after(records[-1])
    return records
