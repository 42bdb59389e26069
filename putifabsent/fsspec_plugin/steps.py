"""What takes calls of the wrapped filesystem and protocols in turn: written once, run in both colours."""

from __future__ import annotations

import errno
import inspect
import re
from collections.abc import Awaitable, Callable, Generator
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeAlias, TypeVar

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem
    from typing_extensions import Self

    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol

T = TypeVar("T")
P = ParamSpec("P")


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


def looked(call: Call) -> Steps[Any]:
    """Call what only looks, for the sake of a name: no error says then that the name is taken."""
    try:
        return (yield call)
    except FileExistsError as error:
        raise not_looked_at(call.args[0]) from error


def not_looked_at(path: str) -> OSError:
    """Return what to raise for a FileExistsError from a look: so s3fs calls a 412, which proves nothing."""
    return OSError(errno.EIO, "it can't be looked at", path)


# --- methods of them

if TYPE_CHECKING:

    def in_both_colours(like: int = 0) -> Callable[[Callable[P, Steps[T]]], Callable[P, T]]:
        """See below: to who reads types, a method."""
else:

    class in_both_colours:  # noqa: N801 - a decorator
        """Make two methods of a filesystem of a generator of steps: ``name``, and ``_name`` to await.

        Parameters
        ----------
        like
            How many parameters, the first, are known by their places, and by our names and those that the
            wrapped filesystem's own method has for them. The others are known by their names.
        """

        def __init__(self, like: int = 0) -> None:
            self._like = like

        def __call__(self, steps: Callable[..., Steps[Any]]) -> Self:
            self._steps = steps
            return self

        def __set_name__(self, owner: type, name: str) -> None:
            steps = self._steps
            ours = list(inspect.signature(steps).parameters)[1 : self._like + 1]

            def called(self: Any, *args: Any, **kwargs: Any) -> Any:
                if len(args) != len(ours):
                    args, kwargs = arranged(self.fs, name, ours, args, kwargs)
                return self.mount.walk(steps(self, *args, **kwargs))

            async def awaited(self: Any, *args: Any, **kwargs: Any) -> Any:
                if len(args) != len(ours):
                    args, kwargs = arranged(self.fs, f"_{name}", ours, args, kwargs)
                return await self.mount.walk_async(steps(self, *args, **kwargs))

            _pass_for(called, steps, name, owner)
            _pass_for(awaited, steps, f"_{name}", owner)
            setattr(owner, name, called)
            setattr(owner, f"_{name}", awaited)


def _pass_for(method: Any, steps: Callable[..., Any], name: str, owner: type) -> None:
    """Have a method say of itself what its generator says, and that it returns what that comes to."""
    update_wrapper(method, steps)
    del method.__wrapped__  # which is a generator, and nobody's to call
    method.__name__, method.__qualname__ = name, f"{owner.__qualname__}.{name}"
    signature = inspect.signature(steps)
    comes_to = re.sub(r"^Steps\[(.*)\]$", r"\1", str(signature.return_annotation))
    method.__signature__ = signature.replace(return_annotation=comes_to)
    method.__annotations__ = {**steps.__annotations__, "return": comes_to}


def arranged(
    wrapped: AbstractFileSystem, name: str, ours: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments so that the first come by our places, or by ``ours``, however a caller knows them."""
    if not ours:
        return args, kwargs
    method = getattr(wrapped, name, None) or getattr(wrapped, name.removeprefix("_"))
    parameters = inspect.signature(method).parameters.values()
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return args, kwargs  # it tells nothing of its own
    theirs = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    if len(args) > len(theirs):
        raise TypeError(f"{name}() takes {len(theirs)} positional arguments but {len(args)} were given")
    arguments = dict(zip(theirs, args, strict=False))
    if twice := arguments.keys() & kwargs.keys():
        raise TypeError(f"{name}() got multiple values for argument {min(twice)!r}")
    arguments |= kwargs
    named = zip(ours, theirs, strict=False)
    first = {own: arguments.pop(each) for own, other in named for each in {own, other} if each in arguments}
    # Those that are all there go by their places, for a method may be called by another way as well.
    return (tuple(first.values()), arguments) if len(first) == len(ours) else ((), {**first, **arguments})
