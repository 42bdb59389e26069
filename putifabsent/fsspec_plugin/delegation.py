"""The wrapped filesystem's other public names: what its class has, and neither fsspec's own nor ours.

=============  =============================================================================================
``OF_A_NAME``  read a name, or change what is no bytes of it: its tags, who may read it
``WRITES``     write a name: refused where it is guarded
``RENAMES``    ours are run instead
``HANDED_ON``  clients, buckets, uploads under way: are about no name, or go round the guard as ``fs.fs``
=============  =============================================================================================

Data is handed on. A method in none of these tables is not there: what is not known may write guarded names.
"""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Callable, Mapping
from functools import partial, update_wrapper, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from putifabsent.fsspec_plugin.many import waited_for
from putifabsent.fsspec_plugin.options import class_has
from putifabsent.fsspec_plugin.steps import Call, Steps

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem
    from typing_extensions import Self

    from putifabsent.fsspec_plugin.filesystem import GuardedFileSystem
    from putifabsent.shim.names import Name

Method = TypeVar("Method", bound="Callable[..., Any]")
T = TypeVar("T")
P = ParamSpec("P")

OF_A_NAME = frozenset({
    "chmod", "get_tags", "getxattr", "metadata", "object_version_info", "put_tags",
    "sync_process_limits_to_offset_and_length", "url",
})  # fmt: skip
WRITES = frozenset({"merge", "setxattr", "setxattrs"})
RENAMES = frozenset({"mv_file"})
HANDED_ON = frozenset({
    "abort_mpu", "call", "call_s3", "clear_multipart_uploads", "close_session", "connect", "do_connect",
    "get_delegated_s3pars", "get_s3", "invalidate_region_cache", "is_bucket_versioned",
    "list_multipart_uploads", "make_bucket_requester_pays", "make_bucket_versioned", "set_session",
    "split_path",
})  # fmt: skip

_OF_FSSPEC = {"storage_args", "storage_options"}  # what fsspec gives each filesystem that it has made

_READING = {"get_object", "head_object", "GET", "HEAD"}


def delegated(fs: GuardedFileSystem, name: str) -> Any:
    """Return a public name of the wrapped filesystem, or the asynchronous method of one.

    ``AttributeError``: it has none, or one that may write guarded names.
    """
    public = name.removeprefix("_")
    if name in RENAMES and hasattr(fs.fs, name):
        return partial(waited_for, fs.loop, getattr(fs, f"_{name}"))
    if name == public or public in OF_A_NAME | WRITES | HANDED_ON:
        found = getattr(fs.fs, name)
        if public in OF_A_NAME | WRITES:
            return _of_a_name(fs, found, name)
        if public in HANDED_ON:
            return _handed_on(fs, found)
        if not callable(getattr(type(fs.fs), name, None)):
            return found
    msg = f"{type(fs).__name__!r} object has no attribute {name!r}"
    if hasattr(fs.fs, name):
        msg += f": that of {type(fs.fs).__name__} may write guarded names. Round the guard it is fs.fs.{name}"
    raise AttributeError(msg, name=name, obj=fs)


def is_wrapped_data(fs: GuardedFileSystem, name: str) -> bool:
    """Whether a public name is data that the wrapped filesystem has and the guarded one has not."""
    if name.startswith("_") or name in _OF_FSSPEC or name in vars(fs) or class_has(type(fs), name):
        return False
    return name in vars(fs.fs) and not callable(getattr(type(fs.fs), name, None))


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
                    args, kwargs = _arranged(self.fs, name, ours, args, kwargs)
                return self.mount.walk(steps(self, *args, **kwargs))

            async def awaited(self: Any, *args: Any, **kwargs: Any) -> Any:
                if len(args) != len(ours):
                    args, kwargs = _arranged(self.fs, f"_{name}", ours, args, kwargs)
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


def _arranged(
    wrapped: AbstractFileSystem, name: str, ours: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
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


def refuse_signed_write(fs: GuardedFileSystem, method: str, path: Any, options: Mapping[str, Any]) -> None:
    """Refuse an address by which a guarded name could be written with no condition."""
    methods = {str(options.get(each) or "GET") for each in ("client_method", "method")}
    if not methods <= _READING:
        _refuse(fs.mount.walk(fs.guard.promoting(path)), method)


def _of_a_name(fs: GuardedFileSystem, found: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a method about one name, of either colour: what reads it, or what is refused to write it."""
    public = name.removeprefix("_")

    @wraps(found)
    def call(*args: Any, **kwargs: Any) -> Any:
        named, options = _arranged(fs.fs, name, ["path"], args, kwargs)
        if not named:
            inspect.signature(found).bind(**options)  # says what is missing
        (path,) = named
        if public == "url":
            refuse_signed_write(fs, name, path, options)
        if public in WRITES:
            steps = _writing(fs, name, path, options)
        else:
            steps = fs.guard.reads.reading(public, path, (), options)
        return fs.mount.walk(steps) if name == public else fs.mount.walk_async(steps)

    return call


def _writing(fs: GuardedFileSystem, name: str, path: Any, options: dict[str, Any]) -> Steps[Any]:
    _refuse((yield from fs.guard.promoting(path)), name)
    own = fs.mount.paths.own
    others = {key: own(value) if isinstance(value, list) else value for key, value in options.items()}
    return (yield Call(name.removeprefix("_"), (fs.guard.written_as(path),), others))


def _handed_on(fs: GuardedFileSystem, found: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(found)
    def call(*args: Any, **kwargs: Any) -> Any:
        own = fs.mount.paths.own
        return found(*(own(each) if isinstance(each, (str, list)) else each for each in args), **kwargs)

    return call


def _refuse(name: Name | None, method: str) -> None:
    if name is not None:
        msg = f"{name.path} is guarded, and {method} would write it: read the bytes, and pipe them"
        raise io.UnsupportedOperation(msg)
