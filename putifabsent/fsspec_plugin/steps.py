"""What takes calls of the wrapped filesystem and protocols in turn: written once, run in both colours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol

T = TypeVar("T")


class Call(NamedTuple):
    """A method of the wrapped filesystem."""

    method: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it


class Decide(NamedTuple):
    """A protocol of the shim; after one that changes ``name``, what was listed of it is forgotten.

    It has the mount's deadline, unless it has its own. With ``creates`` it is a creation of the name.
    """

    protocol: Protocol[Any]
    name: Name | None = None
    deadline: float | None = None
    creates: bool = False


class Together(NamedTuple):
    """Protocols of which none waits for another, several at once.

    After one has failed no other begins, and its error is raised when those under way have ended.
    """

    decisions: list[Decide]


class Aside(NamedTuple):
    """What takes a while, and has one colour: where nobody may wait, a thread does.

    If it is ``once`` for all, one thread does it at a time: who comes next finds the answer.
    """

    work: Callable[[], Any]
    once: bool = False


class Either(NamedTuple):
    """What has its own way in each colour."""

    called: Callable[[], Any]
    awaited: Callable[[], Awaitable[Any]]


Step: TypeAlias = Call | Decide | Together | Aside | Either
Steps: TypeAlias = Generator[Step, Any, T]
"""A generator of them; what they come to is sent back, and errors are thrown."""
