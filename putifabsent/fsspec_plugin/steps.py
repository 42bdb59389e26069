"""What takes calls of the wrapped filesystem and protocols in turn: written once, run in both colours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol

__all__ = ["Call", "Decide", "Steps", "walk", "walk_async"]

T = TypeVar("T")


class Call(NamedTuple):
    """A method of the wrapped filesystem."""

    method: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it


class Decide(NamedTuple):
    """A protocol of the shim; after one that changes ``name``, what was listed of it is forgotten."""

    protocol: Protocol[Any]
    name: Name | None = None


Steps: TypeAlias = Generator[Call | Decide, Any, T]


def walk(steps: Steps[T], perform: Callable[[Call | Decide], Any]) -> T:
    """Perform steps, one after the other; an error goes to the steps, which may know what to do."""
    try:
        step = next(steps)
        while True:
            try:
                outcome = perform(step)
            except BaseException as error:  # noqa: BLE001 - the steps decide what it means
                step = steps.throw(error)
            else:
                step = steps.send(outcome)
    except StopIteration as end:
        value: T = end.value
        return value


async def walk_async(steps: Steps[T], perform: Callable[[Call | Decide], Awaitable[Any]]) -> T:
    """:func:`walk`, asynchronously."""
    try:
        step = next(steps)
        while True:
            try:
                outcome = await perform(step)
            except BaseException as error:  # noqa: BLE001 - the steps decide what it means
                step = steps.throw(error)
            else:
                step = steps.send(outcome)
    except StopIteration as end:
        value: T = end.value
        return value
