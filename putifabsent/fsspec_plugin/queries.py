"""The filesystem's methods that ask what is there, and all else that the wrapped one has; none creates.

Each is a function of a guarded filesystem, whose class has them as its methods. What counts as there is for
:mod:`putifabsent.fsspec_plugin.reads` to say; here are fsspec's signatures, and its own ways over many names.

The wrapped filesystem's other public names are those that its class has, and neither fsspec's own nor ours.

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
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, cast

from fsspec.asyn import AsyncFileSystem
from fsspec.spec import AbstractFileSystem

from putifabsent.fsspec_plugin.many import waited_for
from putifabsent.fsspec_plugin.options import class_has
from putifabsent.fsspec_plugin.paths import each_of, hide
from putifabsent.fsspec_plugin.steps import Call, Either, Steps, arranged, in_both_colours

if TYPE_CHECKING:
    from putifabsent.fsspec_plugin.filesystem import GuardedFileSystem
    from putifabsent.shim.names import Name

# --- one name


def read_by(fs: GuardedFileSystem, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
    """Call a method of the wrapped filesystem that reads one file, where its bytes lie."""
    return fs.mount.walk(fs.guard.reads.reading(method, path, args, kwargs))


@in_both_colours()
def cat_file(fs: GuardedFileSystem, path: str, *args: Any, **kwargs: Any) -> Steps[Any]:
    """Read a file, or a range of it."""
    return (yield from fs.guard.reads.reading("cat_file", path, args, kwargs))


@in_both_colours(like=1)
def info(fs: GuardedFileSystem, path: str, **kwargs: Any) -> Steps[Any]:
    """Say what a name is."""
    return (yield from fs.guard.reads.reading("info", path, (), kwargs))


@in_both_colours()
def exists(fs: GuardedFileSystem, path: str, **kwargs: Any) -> Steps[bool]:
    """Whether a name is there; a guarded one that is not published yet is published by the way.

    ``OSError``: it can't be known. Of a guarded name an error is no absence.
    """
    return (yield from fs.guard.reads.existing(path, kwargs))


@in_both_colours()
def isfile(fs: GuardedFileSystem, path: str) -> Steps[bool]:
    """Whether it is a file."""
    return (yield from fs.guard.reads.being_a_file(path))


@in_both_colours()
def isdir(fs: GuardedFileSystem, path: str) -> Steps[Any]:
    """Whether it is a folder, in which more is than an arbiter keeps of what was removed."""
    return (yield from fs.guard.reads.being_a_folder(path))


@in_both_colours()
def size(fs: GuardedFileSystem, path: str) -> Steps[Any]:
    """Return a file's size in bytes."""
    return (yield from fs.guard.reads.reading("size", path, (), {}))


def _reads(name: str, doc: str) -> Callable[..., Any]:
    """Return a method that reads one file as the wrapped filesystem's of this name does."""

    def read(fs: GuardedFileSystem, path: str, *args: Any, **kwargs: Any) -> Any:
        return read_by(fs, name, path, *args, **kwargs)

    read.__name__, read.__qualname__, read.__doc__ = name, f"GuardedFileSystem.{name}", doc
    return read


checksum = _reads("checksum", "Return what changes when the bytes change.")
ukey = _reads("ukey", "Return a hash of the file's properties.")
created = _reads("created", "Return when it was created.")
modified = _reads("modified", "Return when it was modified.")


def sign(fs: GuardedFileSystem, path: str, *args: Any, **kwargs: Any) -> str:
    """Return a signed address; of a guarded name, only to read it."""
    refuse_signed_write(fs, "sign", path, kwargs)
    return cast("str", read_by(fs, "sign", path, *args, **kwargs))


def invalidate_cache(fs: GuardedFileSystem, path: str | None = None) -> None:
    """Forget what was listed."""
    fs.fs.invalidate_cache(None if path is None else fs._own(path))


# --- several


def _own_way(fs: GuardedFileSystem, method: str, *args: Any, **kwargs: Any) -> Steps[Any]:
    """Go fsspec's own way over this filesystem's methods, in the wrapped one's colour."""
    awaited = partial(getattr(AsyncFileSystem, f"_{method}"), fs, *args, **kwargs)

    def called() -> Any:
        if fs.fs.async_impl:
            return waited_for(fs.loop, awaited)
        return getattr(AbstractFileSystem, method)(fs, *args, **kwargs)

    return (yield Either(called, awaited))


@in_both_colours()
def cat(fs: GuardedFileSystem, path: Any, *args: Any, **kwargs: Any) -> Steps[Any]:
    """Read files."""
    plain = fs._own(path)
    if not fs.guard.reads.plainly(path):
        return (yield from _own_way(fs, "cat", plain, *args, **kwargs))
    found = yield Call("cat", (plain, *args), kwargs)
    return hide(found, str(plain)) if isinstance(found, dict) else found


@in_both_colours()
def cat_ranges(fs: GuardedFileSystem, paths: list[str], *args: Any, **kwargs: Any) -> Steps[Any]:
    """Read ranges of files."""
    plain = fs._own(paths)
    if not fs.guard.reads.plainly(paths):
        return (yield from _own_way(fs, "cat_ranges", plain, *args, **kwargs))
    return (yield Call("cat_ranges", (plain, *args), kwargs))


@in_both_colours()
def ls(fs: GuardedFileSystem, path: str, *args: Any, **kwargs: Any) -> Steps[Any]:
    """List a folder: in detail or not, as the wrapped filesystem has it by default."""
    if fs.guard.reads.as_it_is(path, kwargs):
        plain = fs._own(path)
        return hide((yield Call("ls", (plain, *args), kwargs)), plain)
    bound = inspect.signature(fs.fs.ls).bind_partial("", *args, **kwargs)
    bound.apply_defaults()
    options = {**bound.arguments, **bound.arguments.get("kwargs", {})}
    options = {key: value for key, value in options.items() if key not in ("path", "kwargs")}
    return (yield from fs.guard.reads.listing(path, options))


@in_both_colours(like=1)
def find(
    fs: GuardedFileSystem,
    path: str,
    maxdepth: int | None = None,
    withdirs: bool = False,
    detail: bool = False,
    **kwargs: Any,
) -> Steps[Any]:
    """List all files below a folder."""
    reads = fs.guard.reads
    if reads.as_it_is(path, kwargs):
        plain = fs._own(path)
        options = {"maxdepth": maxdepth, "withdirs": withdirs, "detail": detail, **kwargs}
        found = hide((yield Call("find", (plain,), options)), plain)
        return (yield from reads.found(found, detail=detail))
    prefix = kwargs.pop("prefix", "")
    if maxdepth is not None or kwargs:
        found = yield from _own_way(fs, "find", path, maxdepth, withdirs, detail=True, **kwargs)
    else:
        found = yield from reads.finding(path, withdirs=withdirs)
    if prefix:  # by which fsspec's patterns ask object stores
        start = f"{fs.mount.paths.full(path).rstrip('/')}/{prefix}"
        found = {name: each for name, each in found.items() if name.startswith(start)}
    return found if detail else list(found)


@in_both_colours()
def glob(fs: GuardedFileSystem, path: str, *args: Any, **kwargs: Any) -> Steps[Any]:
    """List what matches a pattern."""
    plain = fs._own(path)
    if fs.guard.reads.as_it_is(path, {}):
        found = hide((yield Call("glob", (plain, *args), kwargs)), plain)
        if not fs.guard.reads.shows_instants(found):
            return found
    return (yield from _own_way(fs, "glob", plain, *args, **kwargs))


@in_both_colours()
def expand_path(fs: GuardedFileSystem, path: Any, *args: Any, **kwargs: Any) -> Steps[Any]:
    """Turn patterns and folders into names."""
    return (yield from expanding(fs, path, *args, **kwargs))


def expanding(fs: GuardedFileSystem, path: Any, *args: Any, **kwargs: Any) -> Steps[Any]:
    """Turn patterns and folders into names, as :func:`expand_path`."""
    plain = fs._own(path)
    # A version is cut from its name by some, and what is found is the newest one.
    versions = any(map(fs.mount.paths.is_a_version, each_of(plain)))
    if fs.guard.reads.plainly(plain) and not versions:
        found = hide((yield Call("expand_path", (plain, *args), kwargs)), str(plain))
        if not fs.guard.reads.shows_instants(found):
            return found
    return (yield from _own_way(fs, "expand_path", plain, *args, **kwargs))


def literally(fs: GuardedFileSystem, path: Any, *, recursive: bool, maxdepth: int | None) -> Steps[list[str]]:
    """Return names, and what is below them if asked for: local disk takes none for a pattern."""
    found: set[str] = set()
    for each in each_of(fs._own(path)):
        found.add(each)
        if recursive:
            found.update((yield from _own_way(fs, "find", each, maxdepth=maxdepth, withdirs=True)))
    return sorted(found)


def du(fs: GuardedFileSystem, path: str, *args: Any, **kwargs: Any) -> Any:
    """Return the size of all files below a folder, in bytes."""
    return fs.mount.walk(_own_way(fs, "du", fs._own(path), *args, **kwargs))


# --- what the wrapped filesystem has beside

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
        named, options = arranged(fs.fs, name, ["path"], args, kwargs)
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
