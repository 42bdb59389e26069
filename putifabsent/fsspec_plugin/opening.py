"""How a file is opened: to read it as the wrapped filesystem does, to write a guarded name whole.

Each is a function of a guarded filesystem, whose class has them as its methods.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from fsspec.compression import compr
from fsspec.core import get_compression
from fsspec.spec import AbstractFileSystem

from putifabsent.fsspec_plugin.files import CompressedFile, GuardedFile, GuardedText, ReadOnlyBytes
from putifabsent.fsspec_plugin.queries import read_by

if TYPE_CHECKING:
    from putifabsent.fsspec_plugin.filesystem import GuardedFileSystem
    from putifabsent.shim.names import Name


def open(  # noqa: A001 - fsspec's name for it
    fs: GuardedFileSystem,
    path: Any,
    mode: str = "rb",
    block_size: int | None = None,
    cache_options: dict[str, Any] | None = None,
    compression: str | None = None,
    **kwargs: Any,
) -> Any:
    """Open a file; for writing, a guarded name is created, complete, when it is closed.

    ``NameTaken``: at once, where the name is seen to be taken, and for certain when the file is closed.
    ``io.UnsupportedOperation``: to append to a guarded name, or to change it, for its bytes don't change.
    """
    common = {"block_size": block_size, "cache_options": cache_options, **kwargs}
    name = _name_to_write(fs, path, mode)
    if name is not None:
        return _opened(partial(_begun, fs, name), name.path, mode, compression, common)
    if _would_give_itself(fs, path, mode):
        return AbstractFileSystem.open(fs, path, mode, compression=compression, **common)
    if "r" in mode:
        return read_by(fs, "open", path, mode, compression=compression, **common)
    return fs.fs.open(fs.guard.written_as(path), mode, compression=compression, **common)


def open_binary(fs: GuardedFileSystem, path: str, mode: str = "rb", **kwargs: Any) -> Any:
    """Open in binary mode; other wrapping filesystems call this one."""
    name = _name_to_write(fs, path, mode)
    if name is not None:
        return _begun(fs, name, mode, **kwargs)
    if "r" not in mode:
        return fs.fs._open(fs.guard.written_as(path), mode, **kwargs)
    file = read_by(fs, "_open", path, mode, **kwargs)
    return ReadOnlyBytes(file.path, file.getvalue()) if _would_give_itself(fs, path, mode) else file


async def open_async(fs: GuardedFileSystem, path: str, mode: str = "rb", **kwargs: Any) -> Any:
    """Open asynchronously; guarded names are written with ``_pipe_file`` or ``_put_file`` instead."""
    if "r" not in mode or "+" in mode:
        name = await fs.mount.walk_async(fs.guard.promoting(path, explicit="x" in mode))
        if name is not None:
            msg = f"{name.path} is guarded: write it whole, by _pipe_file or _put_file"
            raise io.UnsupportedOperation(msg)
        path = fs.guard.written_as(path)
    elif not fs.guard.reads.plainly(path):
        located = await fs.mount.walk_async(fs.guard.reads.seek(path, helps=True))
        path = path if located is None else located.path
    return await fs.fs.open_async(fs._own(path), mode, **kwargs)


def _would_give_itself(fs: GuardedFileSystem, path: Any, mode: str) -> bool:
    # What memory hands out for reading is the object itself, and can be written.
    return fs.mount.kind == "memory" and "r" in mode and "+" not in mode and fs.explain(path).guarded


def _name_to_write(fs: GuardedFileSystem, path: Any, mode: str) -> Name | None:
    if "r" in mode and "+" not in mode:
        return None
    name: Name | None = fs.mount.walk(fs.guard.promoting(path, explicit="x" in mode))
    if name is not None:
        _check_mode(name.path, mode)
    return name


def _begun(
    fs: GuardedFileSystem, name: Name, mode: str, autocommit: bool | None = None, **options: Any
) -> GuardedFile:
    extra = {key: value for key, value in options.items() if key not in _HOW_IT_IS_READ}
    fs.guard.look_early(name)
    fs.guard.refuse_orphan(name)
    under_way = fs.mount.transaction if fs._intrans else None
    commits = under_way is None if autocommit is None else autocommit
    file = GuardedFile(
        name.path,
        mode,
        lambda body: fs.mount.walk(fs.guard.creating(name, body, extra)),
        autocommit=commits,
        ahead=lambda file: fs.guard.stage_ahead(name, file, extra),
    )
    if not commits and under_way is not None:
        under_way.files.append(file)
    return file


_HOW_IT_IS_READ = ("block_size", "cache_type", "cache_options")
"""Options of fsspec's that mean nothing to who writes."""


def _check_mode(path: str, mode: str) -> None:
    """Refuse a mode in which nobody can open a guarded name to write it.

    ``ValueError``: it is none; ``io.UnsupportedOperation``: it appends, or changes what is there.
    """
    letters = {*mode}
    is_known = len(letters) == len(mode) and letters <= {*"rwxabt+"}
    if not is_known or len(letters & {*"rwxa"}) != 1 or letters >= {*"bt"}:
        raise ValueError(f"invalid mode: {mode!r}")
    if "a" in mode or "r" in mode:
        msg = f"{path} is guarded: its bytes don't change, so it can't be opened with mode {mode!r}"
        raise io.UnsupportedOperation(msg)


def _opened(
    begin: Callable[..., GuardedFile], path: str, mode: str, compression: str | None, options: dict[str, Any]
) -> Any:
    """Return a file as ``open`` gives it: of text, or compressed, if that is requested."""
    text = {key: options.pop(key) for key in ("encoding", "errors", "newline") if key in options}
    file: Any = begin(mode.replace("t", "").replace("b", "") + "b", **options)
    if compression is not None:
        file = CompressedFile(compr[get_compression(path, compression)](file, mode="w"), file)
    return file if "b" in mode else GuardedText(file, **text)
