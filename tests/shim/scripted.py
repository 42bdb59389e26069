"""Protocols driven by hand: each request is expected, each outcome given."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from putifabsent.backends.base import Body, Creation, Entry, Found, Holder, InMemory, Listed, Staged
from putifabsent.shim import create as create_module
from putifabsent.shim import expiry as expiry_module
from putifabsent.shim.names import Series, ordinary
from putifabsent.shim.requests import Pause

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol, Request

NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
ME = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"
MINE = Creation(ME, "my-writer", "bucket/.putifabsent")
PATH = "bucket/name"
NAME = ordinary(PATH)
BODY = InMemory(b"my bytes")
SMALL = 2**20
"""A store's largest put that :data:`BODY` fits."""
LOST = ConnectionResetError("the answer was lost")
BUSY = OSError("503")


@dataclass(frozen=True)
class Shim:
    """The protocols under test: the real ones, or a mutant of them."""

    create: Callable[..., Protocol[Any]]
    copy: Callable[..., Protocol[Any]]
    rename: Callable[..., Protocol[Any]]
    resolve: Callable[..., Protocol[Any]]
    check_win: Callable[..., Protocol[Any]]


REAL = Shim(
    create_module.create,
    create_module.copy,
    partial(create_module.copy, keep=False),
    create_module.resolve,
    expiry_module.check_win,
)


class SameBytes(Body):
    """Equal to any body of the same bytes: what a protocol sends is not an object that a test can hold."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)

    def read(self, start: int, stop: int) -> bytes:
        return self.data[start:stop]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Body) and other.whole() == self.data

    def __hash__(self) -> int:
        return hash(self.data)


def play(protocol: Protocol[Any], *script: tuple[Request, Any]) -> Any:
    """Give a protocol the scripted outcomes; an outcome that is an exception is thrown into it.

    Returns
    -------
    Any
        What the protocol returns after exactly these requests; what it raises then is raised.

    Raises
    ------
    AssertionError
        It asked for something else, or for more, or ended before.
    """
    outcome: Any = None
    for step, (expected, answer) in enumerate(script, 1):
        try:
            request = _step(protocol, outcome)
        except StopIteration as end:
            raise AssertionError(f"it returned {end.value!r} before step {step}, {expected}") from None
        except BaseException as error:
            raise AssertionError(f"it raised {error!r} before step {step}, {expected}") from error
        assert request == expected, f"step {step}: it asked for {request}, not for {expected}"
        outcome = answer
    try:
        request = _step(protocol, outcome)
    except StopIteration as end:
        return end.value
    raise AssertionError(f"after step {len(script)} it asked for more: {request}")


def _step(protocol: Protocol[Any], outcome: Any) -> Request:
    return protocol.throw(outcome) if isinstance(outcome, BaseException) else protocol.send(outcome)


def held_by(token: str | None, *, after: timedelta = timedelta(), version: str | None = "v1") -> Found:
    return Found(Holder(token, "a-writer", NOON + after, 8, version))


def staged(number: int = 1) -> Staged:
    return Staged(PATH, f"upload {number}")


def numbered(
    name: Name, number: int, pattern: re.Pattern[str], *predecessors: str, has_gaps: bool = False
) -> Name:
    return name._replace(series=Series(number, 1, predecessors, pattern, has_gaps))


def listing(**files: timedelta | None) -> Listed:
    """Return the listing of ``bucket/t/snapshot``; a name's time is how much later than noon it was made."""
    return Listed(
        tuple(
            Entry(f"bucket/t/snapshot/{name.replace('_', '-')}", NOON + after)
            for name, after in files.items()
            if after is not None
        )
    )


def later(attempt: int = 1) -> tuple[Pause, bool]:
    """A pause, after which there is time for another attempt."""
    return Pause(attempt), True


def too_late(attempt: int = 1) -> tuple[Pause, bool]:
    """A pause for which there is no time."""
    return Pause(attempt), False
