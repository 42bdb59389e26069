"""Which paths can be created at all, whatever the store: said before anything is sent."""

from __future__ import annotations

import errno
import posixpath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["check_path", "each_of", "spelled_out"]


def each_of(path: Any) -> Collection[Any]:
    """Return the paths that a call is about, which may be one or several."""
    return path if isinstance(path, (list, tuple, set)) else (path,)


def spelled_out(path: str, kind: str) -> str:
    """Return the one spelling of a full name: what else is said, the store or its client takes for the same.

    Parameters
    ----------
    path
        A path without protocol and trailing slashes.
    kind
        The kind of store. On a disk ``//`` and ``/./`` are ``/``; every filesystem of an object store drops
        slashes before the bucket, and some of their clients take the steps ``.`` and ``..``.
    """
    if kind == "memory":
        return path
    if kind != "local":
        path = path.lstrip("/")
        return _without_steps(path) if _has_steps(path) else path
    return "/" + posixpath.normpath(path).lstrip("/") if "//" in path or "/." in path else path


def check_path(said: str, path: str) -> None:
    """Refuse a path that names no file, or not the same one to every client and server.

    Parameters
    ----------
    said
        The path as the caller said it.
    path
        The same without protocol and trailing slashes.

    Raises
    ------
    IsADirectoryError
        It ends with a slash: that names a folder.
    ValueError
        It is empty, or has NUL, or has ``.`` or ``..`` for a component, which some servers resolve
        and others don't.
    """
    if not path.strip("/"):
        msg = f"{said!r} names no file"
        raise ValueError(msg)
    if said.endswith("/"):
        raise IsADirectoryError(errno.EISDIR, "a name that ends with a slash is a folder's", said)
    if "\0" in path:
        msg = f"{said!r} has a NUL character: no store takes it for what it is"
        raise ValueError(msg)
    if _has_steps(path):
        msg = f"{said!r} has a '.' or '..': say the name it stands for, since servers disagree about that"
        raise ValueError(msg)


def _has_steps(path: str) -> bool:
    # Asked of every name: most have no component that begins with a dot, and `.hoodie` is no step.
    return ("/." in path or path.startswith(".")) and not {".", ".."}.isdisjoint(path.split("/"))


def _without_steps(path: str) -> str:
    """Take the steps as an address does (RFC 3986): unlike on a disk, an empty component is one."""
    kept: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del kept[-1:]
        elif part != ".":
            kept.append(part)
    return "/".join(kept)
