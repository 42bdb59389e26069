"""The requests of claims of one name, and outcomes, to be scripted."""

from __future__ import annotations

from typing import Any

from putifabsent.backends.base import (
    Absent,
    Creation,
    Deleted,
    Found,
    Holder,
    Written,
)
from putifabsent.backends.registries import Claim, Claimed, NotAsExpected
from putifabsent.shim import claims as real
from putifabsent.shim.arbiter import Claiming
from putifabsent.shim.names import Name, ordinary
from putifabsent.shim.requests import (
    Both,
    Delete,
    Head,
    Publish,
    Put,
    ReadClaim,
    WriteClaim,
)
from tests.shim.scripted import BODY, ME, NOON, OTHER

PATH = "bucket/t/name"
NAME = ordinary(PATH)
FOLDER = "bucket/t/.putifabsent/claims/=/name"
REGISTRY: Any = "the registry"
IDENTITY = f"s3://{PATH}"
MINE = Creation(ME, "my-writer", NAME.state)
NO_RIGHTS = PermissionError("403")
TABLE = Claiming(REGISTRY, "s3://", 2**20)
THIRD = "33333333-3333-4333-8333-333333333333"
LOOK = Head(PATH)
ASK = ReadClaim(REGISTRY, IDENTITY)


def key(token: str = ME, incarnation: int = 1, attempt: int = 0) -> str:
    return f"{FOLDER}/0~{incarnation}~{token}.{attempt}"


def mark(token: str = ME, incarnation: int = 1, attempt: int = 0) -> str:
    return f"{token}.{attempt}~{incarnation}"


def claim(token: str = ME, incarnation: int = 1, *, live: bool = True, attempt: int = 0) -> Claim:
    writer = "my-writer" if token == ME else "a-writer"
    return Claim(incarnation, live=live, key=key(token, incarnation, attempt), token=token, writer=writer)


def dead(token: str = OTHER, incarnation: int = 1) -> Claim:
    return claim(token, incarnation, live=False)


def put(incarnation: int = 1, attempt: int = 0) -> Put:
    token = mark(ME, incarnation, attempt)
    return Put(key(ME, incarnation, attempt), BODY, MINE._replace(token=token))


def put_and_look(attempt: int = 0) -> Both:
    return Both(put(1, attempt), LOOK)


def write(mine: Claim, expected: Claim | None = None) -> WriteClaim:
    return WriteClaim(REGISTRY, IDENTITY, mine, expected)


def publish(mine: Claim, creation: Creation = MINE) -> Publish:
    return Publish(mine.key, PATH, creation)


def shows(token: str | None, version: str = "v1") -> Found:
    return Found(Holder(token, "a-writer", NOON, 8, version))


def create(name: Name = NAME) -> Any:
    return real.create(TABLE, name, BODY, MINE)


def find(name: Name = NAME, *, helps: bool = True) -> Any:
    return real.find(TABLE, name, MINE, helps=helps)


def resolve(name: Name = NAME) -> Any:
    return real.resolve(TABLE, name, MINE)


def delete(name: Name = NAME, *, last: bool = False) -> Any:
    return real.delete(TABLE, name, MINE, last=last)


def clean(name: Name = NAME) -> Any:
    return real.clean(TABLE, name, MINE)


PUT = (put_and_look(), (Written("s1"), Absent()))
"""The bytes are put, and nobody is there."""
CLAIM = write(claim())
CLAIMED = (CLAIM, Claimed())
PUBLISH = publish(claim())
PUBLISHED = (PUBLISH, Written("v1"))
REMOVED = (Delete(key()), Deleted())
HELD = (CLAIM, NotAsExpected(claim(OTHER)))
WHEN = (Head(key(OTHER)), shows(mark(OTHER)))
"""A look at the winner's bytes says when it was."""
