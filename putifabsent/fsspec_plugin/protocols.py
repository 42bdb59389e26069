"""The protocols: one class for each wrapped filesystem, and ``guard_protocol`` for the plain ones.

Letters only: with a ``+`` or ``-`` in a scheme, kedro and universal_pathlib silently write to a local folder.
"""

from __future__ import annotations

import io
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import fsspec
from fsspec.core import url_to_fs
from fsspec.implementations.chained import ChainedFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.registry import _registry as registry

from putifabsent.errors import ConfigError
from putifabsent.fsspec_plugin.filesystem import GuardedFileSystem
from putifabsent.fsspec_plugin.options import CachedToo, check_options, class_has, named, split
from putifabsent.fsspec_plugin.queries import read_by
from putifabsent.fsspec_plugin.stores import KINDS

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

    _Guarded = GuardedFileSystem
else:
    _Guarded = object  # what is mixed in has no base, and knows what it is mixed into

_ASYNC = ("asynchronous", "loop", "batch_size")
_WRAPPED = {
    "s3": "s3fs.S3FileSystem",
    "gcs": "gcsfs.GCSFileSystem",
    "azure": "adlfs.AzureBlobFileSystem",
    "local": "fsspec.implementations.local.LocalFileSystem",
    "memory": "fsspec.implementations.memory.MemoryFileSystem",
}
"""The classes, each imported where one is made: fsspec's own registry may have a guarded one instead."""


class OnDisk(_Guarded):
    """What the guarded filesystem of a local disk has beside: links and modes.

    It is a ``LocalFileSystem``, too. Others ask for that: fsspec's ``DirFileSystem`` refuses ``..`` there
    alone, since nowhere else it leads out of a folder.
    """

    root_marker = "/"

    def lexists(self, path: str, **kwargs: Any) -> bool:
        """Whether a name is there, be it a link to nothing."""
        is_there = self.fs.lexists(self.mount.paths.own(path), **kwargs)
        return bool(is_there) or bool(self.mount.walk(self.guard.reads.existing(path, {})))

    islink = LocalFileSystem.islink  # which strips paths as its instance does

    def chmod(self, path: str, mode: int) -> Any:
        return read_by(self, "chmod", path, mode)

    def link(self, src: str, dst: str, **kwargs: Any) -> Any:
        """Make another name for a file: a hard link.

        ``io.UnsupportedOperation``: one of them is guarded, and its bytes could be changed through the other.
        """
        self._refuse_links(src, dst)
        return self.fs.link(self.mount.paths.own(src), self.guard.written_as(dst), **kwargs)

    def symlink(self, src: str, dst: str, **kwargs: Any) -> Any:
        """Make a symbolic link at ``dst``, to ``src``; it raises as :meth:`link` does."""
        self._refuse_links(src, dst)
        return self.fs.symlink(self.mount.paths.own(src), self.guard.written_as(dst), **kwargs)

    def _refuse_links(self, src: str, dst: str) -> None:
        walk, guard = self.mount.walk, self.guard
        name = walk(guard.promoting(dst)) or walk(guard.guarded(src))
        if name is not None:
            msg = f"{name.path} is guarded: no link is made of it or to it. Copy the file"
            raise io.UnsupportedOperation(msg)


class GuardedDisk(OnDisk, GuardedFileSystem, LocalFileSystem):
    """Guards a local disk."""


class StandsFor(CachedToo):
    """Of a class that stands for the wrapped one.

    It has that one's public data: ``store`` of memory, S3's ``default_block_size``. And it is no
    ``ChainedFileSystem``: fsspec would take a root's empty path for one that the next link fills in.
    """

    def mro(cls) -> list[type]:  # noqa: N805 - of a metaclass
        return [base for base in super().mro() if base is not ChainedFileSystem]

    def __getattr__(cls, name: str) -> Any:  # noqa: N805 - of a metaclass
        if not _is_wrapped_class_s(cls, name):
            msg = f"type object {cls.__name__!r} has no attribute {name!r}"
            raise AttributeError(msg, name=name, obj=cls)
        return getattr(cls._class_to_wrap(), name)

    def __setattr__(cls, name: str, value: Any) -> None:  # noqa: N805 - of a metaclass
        if _is_wrapped_class_s(cls, name):
            setattr(cls._class_to_wrap(), name, value)
        else:
            super().__setattr__(name, value)


def _is_wrapped_class_s(cls: Any, name: str) -> bool:
    if name.startswith("_") or class_has(cls, name) or not class_has(cls, "wraps"):
        return False
    try:
        wrapped = cls._class_to_wrap()
    except ImportError:  # its client's library is not installed
        return False
    return hasattr(wrapped, name) and not callable(getattr(wrapped, name))


class ByProtocol(_Guarded, metaclass=StandsFor):
    """A guarded filesystem that takes the wrapped one's options as its own."""

    wraps: ClassVar[str]  # a key of _WRAPPED

    def __init__(self, *by_position: Any, **options: Any) -> None:
        own, others = split(named(self._class_to_wrap(), by_position, options))
        check_options(others, self._class_to_wrap(), self.wraps)
        asyn = {key: others.pop(key) for key in _ASYNC if key in others}
        self._start(self._class_to_wrap(), others, own, **asyn)

    def _with_configuration(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**options, **self._configured(options)}

    @classmethod
    def _class_to_wrap(cls) -> type[AbstractFileSystem]:
        module, _, name = _WRAPPED[cls.wraps].rpartition(".")
        try:
            found: type[AbstractFileSystem] = getattr(import_module(module), name)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            what = f"{cls._protocols()[0]}:// wraps {module}, which is not installed"
            raise ModuleNotFoundError(
                f"{what}: pip install 'putifabsent[{cls.wraps}]'", name=module
            ) from error
        return found

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return cls._class_to_wrap()._strip_protocol(cls._own(path))

    @classmethod
    def _get_kwargs_from_urls(cls, path: str) -> dict[str, Any]:
        wrapped, plain = cls._class_to_wrap(), cls._own(path)
        if plain != path:  # an account may be in what is no path, and is seen in an address alone
            protocol = wrapped.protocol if isinstance(wrapped.protocol, str) else wrapped.protocol[0]
            path = f"{protocol}://{plain}"
        options: dict[str, Any] = wrapped._get_kwargs_from_urls(path)
        return options

    @classmethod
    def clear_instance_cache(cls) -> None:
        cls._class_to_wrap().clear_instance_cache()
        super().clear_instance_cache()

    def unstrip_protocol(self, name: str) -> str:
        return f"{self._protocols()[0]}://{self._strip_protocol(name)}"


class GuardedS3FileSystem(ByProtocol, GuardedFileSystem):
    """``pias3://``: S3 by s3fs, whose options it takes."""

    protocol: ClassVar[str | tuple[str, ...]] = "pias3"
    wraps = "s3"


class GuardedGCSFileSystem(ByProtocol, GuardedFileSystem):
    """``piags://``: Google Cloud Storage by gcsfs, whose options it takes."""

    protocol: ClassVar[str | tuple[str, ...]] = "piags"
    wraps = "gcs"


class GuardedAzureFileSystem(ByProtocol, GuardedFileSystem):
    """``piaaz://``: Azure Blob Storage by adlfs, whose options it takes."""

    protocol: ClassVar[str | tuple[str, ...]] = "piaaz"
    wraps = "azure"


class GuardedLocalFileSystem(ByProtocol, OnDisk, GuardedFileSystem, LocalFileSystem):
    """``piafile://``: local disk."""

    protocol: ClassVar[str | tuple[str, ...]] = "piafile"
    wraps = "local"


class GuardedMemoryFileSystem(ByProtocol, GuardedFileSystem):
    """``piamemory://``: this process's memory."""

    protocol: ClassVar[str | tuple[str, ...]] = "piamemory"
    wraps = "memory"
    root_marker = "/"


def _plain(name: str, like: type[ByProtocol], *protocols: str) -> Any:
    """Return a class like one of these, guarded under its plain protocols, which ``guard_protocol`` takes."""
    members = {"__module__": __name__, "wraps": like.wraps}
    protocol = protocols[0] if len(protocols) == 1 else protocols
    return StandsFor(name, like.__bases__, {**members, "protocol": protocol, "root_marker": like.root_marker})


PlainS3 = _plain("PlainS3", GuardedS3FileSystem, "s3", "s3a")
PlainGCS = _plain("PlainGCS", GuardedGCSFileSystem, "gs", "gcs")
PlainAzure = _plain("PlainAzure", GuardedAzureFileSystem, "abfs", "az", "abfss")
PlainLocal = _plain("PlainLocal", GuardedLocalFileSystem, "file", "local")
PlainMemory = _plain("PlainMemory", GuardedMemoryFileSystem, "memory")

_PLAIN: dict[str, type[GuardedFileSystem]] = {
    protocol: cls
    for cls in (PlainS3, PlainGCS, PlainAzure, PlainLocal, PlainMemory)
    for protocol in cls._protocols()
}

_BY_WRAPPED = {
    cls.wraps: cls
    for cls in (
        GuardedS3FileSystem,
        GuardedGCSFileSystem,
        GuardedAzureFileSystem,
        GuardedLocalFileSystem,
        GuardedMemoryFileSystem,
    )
}
BY_SCHEME: dict[Any, type[GuardedFileSystem]] = {
    **{cls.protocol: cls for cls in _BY_WRAPPED.values()},
    **{scheme: _BY_WRAPPED[kind] for scheme, kind in KINDS.items()},
}
"""The guarded filesystem that an address means."""


def guarded(url: str | os.PathLike[str], **options: Any) -> tuple[GuardedFileSystem, str]:
    """Return the guarded filesystem that an address means, and the path in it.

    A plain address (``"s3://..."``, a local path) means its guarded kind. The options are of the mount and of
    the wrapped filesystem.
    """
    url = os.fspath(url)
    protocol, separator, _ = url.partition("://")
    cls = BY_SCHEME.get(protocol if separator else "file")
    if cls is None:
        fs, path = url_to_fs(url, **options)
        return fs if isinstance(fs, GuardedFileSystem) else GuardedFileSystem(fs=fs), path
    made = cls(**{**cls._get_kwargs_from_urls(url), **options})
    return made, made._strip_protocol(url)


# What was registered for a protocol that is guarded now; None where fsspec had not loaded it yet.
_replaced: dict[str, type[AbstractFileSystem] | None] = {}


def guard_protocol(protocol: str) -> None:
    """Make a plain protocol guarded in this process, for code that names it itself.

    It is ``"s3"``, ``"gs"``, ``"az"``, ``"file"``, ``"memory"``, or another name of theirs; all else is a
    ``ConfigError``. Filesystems made before stay as they were. Only what goes through fsspec is guarded.
    """
    if protocol not in _PLAIN:
        known = ", ".join(sorted(_PLAIN))
        raise ConfigError(f"{protocol!r} can't be guarded: choose one of {known}")
    if registry.get(protocol) is not _PLAIN[protocol]:
        _replaced[protocol] = registry.get(protocol)
    fsspec.register_implementation(protocol, _PLAIN[protocol], clobber=True)


def unguard_protocol(protocol: str) -> None:
    """Undo :func:`guard_protocol`. Filesystems made meanwhile stay guarded."""
    if protocol not in _replaced or registry.get(protocol) is not _PLAIN[protocol]:
        return
    before = _replaced.pop(protocol)
    if before is None:
        del registry[protocol]  # fsspec finds it by name again
    else:
        registry[protocol] = before
