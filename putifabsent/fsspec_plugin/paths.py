"""How a path is spelled, and whether any store can create it; nothing is sent for it."""

from __future__ import annotations

import errno
import posixpath
import re
from collections.abc import Collection
from glob import has_magic
from typing import TYPE_CHECKING, Any

from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path

from putifabsent.backends.base import STATE_FOLDER

if TYPE_CHECKING:
    from putifabsent.fsspec_plugin.mount import Mount

_INSIDE = f"/{STATE_FOLDER}/"
_ITSELF = f"/{STATE_FOLDER}"
_PLAIN = re.compile(r"(?!.*/\.)[^/.:?#\0][^:?#\0]*(?<!/)", re.DOTALL)
"""Nothing in it is a protocol, a version, a step, or a folder's slash."""


class Paths:
    """The paths of one mount; ``protocols`` are those of the guarded filesystem."""

    def __init__(self, mount: Mount, protocols: tuple[str, ...]) -> None:
        self._mount = mount
        self._protocols = protocols
        self._strip = mount.wrapped._strip_protocol
        plain = getattr(AbstractFileSystem._strip_protocol, "__func__", None)
        is_stripped_plainly = getattr(self._strip, "__func__", None) is plain
        self._may_be_plain = is_stripped_plainly and not mount.has_folders

    def is_plain(self, path: Any) -> bool:
        """Whether a path is its own full name, and one to create: nearly every one is, many times each."""
        return self._may_be_plain and type(path) is str and _PLAIN.fullmatch(path) is not None

    def own(self, path: Any) -> Any:
        return own(path, self._protocols)

    def strip(self, path: Any) -> Any:
        """Return paths without any protocol, as the wrapped filesystem strips them."""
        return path if self.is_plain(path) else self._strip(self.own(path))

    def full(self, path: Any) -> str:
        """Return the full name that a path, of no version, stands for."""
        if self.is_plain(path):
            return str(path)
        return spelled_out(self.strip(self.without_version(path)), self._mount.kind)

    def all_full(self, path: Any) -> list[str]:
        return [self.full(each) for each in each_of(path)]

    def is_a_version(self, path: Any) -> bool:
        return self.without_version(path) is not path

    def without_version(self, path: Any) -> Any:
        """Return ``path`` itself, unless the wrapped filesystem writes another name: what it cuts is gone."""
        text = path if isinstance(path, str) else str(path)
        if not ("?" in text or "#" in text) or self._mount.has_folders:
            return path
        stripped = self.strip(path).lstrip("/")
        bucket, key, _ = self._mount.fs.split_path(stripped)
        plain = stripped[: len(bucket) + 1 + len(key)]
        return path if plain == stripped or not key else plain


def own(path: Any, protocols: tuple[str, ...]) -> Any:
    """Return paths without these protocols."""
    if isinstance(path, str):
        for protocol in protocols:
            if path.startswith(protocol):
                for mark in ("://", "::"):
                    if path.startswith(mark, len(protocol)):
                        return path[len(protocol) + len(mark) :]
        return path
    if isinstance(path, dict):
        return {own(key, protocols): value for key, value in path.items()}
    if isinstance(path, (list, tuple, set)):
        return [own(one, protocols) for one in path]
    plain = stringify_path(path)
    if not isinstance(plain, str):
        raise TypeError(f"a path must be a str or an os.PathLike of one, not {path!r}")
    return own(plain, protocols)


def hide(found: Any, path: str) -> Any:
    """Drop the shim's own names from a listing of ``path``, unless they are what was requested.

    ``found`` are names, details, or details by name.
    """
    if STATE_FOLDER in path:
        return found
    if isinstance(found, dict):
        return {name: detail for name, detail in found.items() if not is_state(name)}
    return [one for one in found if not is_state(one if isinstance(one, str) else one["name"])]


def renamed(detail: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the details of an object under its plain name."""
    return {**detail, **{key: name for key in ("name", "Key") if key in detail}}


def is_state(name: str) -> bool:
    """Whether a full name is the shim's own."""
    return _ITSELF in name and (name.endswith(_ITSELF) or _INSIDE in name)


def each_of(path: Any) -> Collection[Any]:
    """Return the paths that a call is about, which may be one or several."""
    return path if isinstance(path, (list, tuple, set)) else (path,)


def refuse_pattern(path: str) -> None:
    """Refuse, by ``ValueError``, to move or remove all below a name that fsspec would take for a pattern."""
    if has_magic(path):
        raise ValueError(f"{path} has characters of a pattern: move or remove what is below it one by one")


def spelled_out(path: str, kind: str) -> str:
    """Return the one spelling of a full name; the store or its client takes the others for the same.

    On a disk ``//`` and ``/./`` are ``/``; every filesystem of an object store drops slashes before the
    bucket, and some of their clients take the steps ``.`` and ``..``.
    """
    if kind == "memory":
        return path
    if kind != "local":
        path = path.lstrip("/")
        return _without_steps(path) if _has_steps(path) else path
    return "/" + posixpath.normpath(path).lstrip("/") if "//" in path or "/." in path else path


def check_path(given: str, path: str) -> None:
    """Refuse a path that names no file, or not the same one to every client and server.

    ``given`` is as the caller spelled it, ``path`` without protocol and trailing slashes.
    ``IsADirectoryError``: it ends with a slash. ``ValueError``: it is empty, has NUL, or has ``.`` or ``..``
    for a component, which some servers resolve and others don't.
    """
    if not path.strip("/"):
        raise ValueError(f"{given!r} names no file")
    if given.endswith("/"):
        raise IsADirectoryError(errno.EISDIR, "a name that ends with a slash is a folder's", given)
    if "\0" in path:
        raise ValueError(f"{given!r} has a NUL character: no store takes it for what it is")
    if _has_steps(path):
        msg = f"{given!r} has a '.' or '..': say the name it stands for, since servers disagree about that"
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
