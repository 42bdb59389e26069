"""The requests of ballots about one name, and outcomes, to be scripted."""

from __future__ import annotations

from typing import Any

from putifabsent.backends.base import (
    Absent,
    Deleted,
    Entry,
    InMemory,
    Listed,
    Written,
)
from putifabsent.shim.ballot import create
from putifabsent.shim.names import ordinary
from putifabsent.shim.requests import Delete, Head, List, Publish, Put
from tests.shim.scripted import ME, MINE, NOON, OTHER, SameBytes

NAME = ordinary("bucket/t/name")
FOLDER = "bucket/t/.putifabsent/ballot/=/name"
BODY = InMemory(b"my bytes")
EMPTY = InMemory(b"")
NO_RIGHTS = PermissionError("403")
LISTED = List(FOLDER)
LOOK = Head(NAME.path)


def prepare(token: str = ME, tries: int = 0, *, k: int = 1, round_: int = 0) -> str:
    return f"{FOLDER}/P~{k:010d}~{round_:010d}~{token}.{tries}"


def accept(token: str = ME, value: str = f"{ME}.0", *, k: int = 1, round_: int = 0) -> str:
    return f"{FOLDER}/A~{k:010d}~{round_:010d}~{token}.0~{value}"


def end(value: str, *, k: int = 1) -> str:
    return f"{FOLDER}/X~{k:010d}~{value}"


def put(path: str, data: bytes = b"", *, tries: int = 0, k: int = 1) -> Put:
    return Put(path, SameBytes(data), MINE._replace(token=f"{ME}.{tries}~{k}"))


def shows(*paths: str) -> Listed:
    return Listed(tuple(Entry(path, NOON) for path in paths))


MY_PUT = (put(prepare(), b"my bytes"), Written())
ALONE = (LISTED, shows(prepare()))
UNSEEN = (LOOK, Absent())
MY_VOTE = (put(accept()), Written())
DECIDED = (LISTED, shows(prepare(), accept()))
PUBLISH = Publish(prepare(), NAME.path, MINE)
THEIRS = (prepare(OTHER), accept(OTHER, f"{OTHER}.0"))
WITHDRAW = (Delete(prepare()), Deleted())


def creating() -> Any:
    return create(NAME, BODY, MINE)
