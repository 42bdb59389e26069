"""The protocols: one class for each wrapped filesystem, and ``guard_protocol`` for the plain ones.

Letters only: with a ``+`` or ``-`` in a scheme, kedro and universal_pathlib silently write to a local folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import fsspec
from fsspec.core import url_to_fs
from fsspec.registry import _registry as registry

from putifabsent.errors import ConfigError
from putifabsent.fsspec_plugin.disk import GuardedDisk
from putifabsent.fsspec_plugin.filesystem import GuardedFileSystem
from putifabsent.fsspec_plugin.options import check_options, split

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

__all__ = [
    "GuardedAzureFileSystem",
    "GuardedGCSFileSystem",
    "GuardedLocalFileSystem",
    "GuardedMemoryFileSystem",
    "GuardedS3FileSystem",
    "guard_protocol",
    "guarded",
    "unguard_protocol",
]

_ASYNC = ("asynchronous", "loop", "batch_size")


class _ByProtocol(GuardedFileSystem):
    """A guarded filesystem that takes the wrapped one's options as its own."""

    wraps: ClassVar[str]
    _strip_tokenize_options = ("target_protocol",)

    def __init__(self, target_protocol: str | None = None, **options: Any) -> None:
        del target_protocol  # given by fsspec, as _get_kwargs_from_urls has it
        wrapped = self._class_to_wrap()
        own, others = split(options)
        check_options(others, wrapped, self.wraps)
        asyn = {key: others.pop(key) for key in _ASYNC if key in others}
        self._start(wrapped, others, own, **asyn)

    def _with_configuration(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**options, **self._configured(options)}

    @classmethod
    def _class_to_wrap(cls) -> type[AbstractFileSystem]:
        raise NotImplementedError  # abstract

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return cls._class_to_wrap()._strip_protocol(cls._own(path))

    @classmethod
    def _get_kwargs_from_urls(cls, path: str) -> dict[str, Any]:
        options: dict[str, Any] = cls._class_to_wrap()._get_kwargs_from_urls(cls._own(path))
        # Else fsspec would take the empty path of a root for one that the next link of a chain fills in.
        return options if cls._strip_protocol(path) else {**options, "target_protocol": cls.wraps}

    @classmethod
    def clear_instance_cache(cls) -> None:
        """Forget the filesystems that were made, and the wrapped ones."""
        cls._class_to_wrap().clear_instance_cache()
        super().clear_instance_cache()

    def unstrip_protocol(self, name: str) -> str:
        """Return the address of a name."""
        return f"{self._protocols()[0]}://{self._strip_protocol(name)}"


class GuardedS3FileSystem(_ByProtocol):
    """``pias3://``: S3 by s3fs, whose options it takes."""

    protocol: ClassVar[str | tuple[str, ...]] = "pias3"
    wraps = "s3"

    @classmethod
    def _class_to_wrap(cls) -> type[AbstractFileSystem]:
        from s3fs import S3FileSystem

        found: type[AbstractFileSystem] = S3FileSystem
        return found


class GuardedGCSFileSystem(_ByProtocol):
    """``piags://``: Google Cloud Storage by gcsfs, whose options it takes."""

    protocol: ClassVar[str | tuple[str, ...]] = "piags"
    wraps = "gcs"

    @classmethod
    def _class_to_wrap(cls) -> type[AbstractFileSystem]:
        from gcsfs import GCSFileSystem

        found: type[AbstractFileSystem] = GCSFileSystem
        return found


class GuardedAzureFileSystem(_ByProtocol):
    """``piaaz://``: Azure Blob Storage by adlfs, whose options it takes."""

    protocol: ClassVar[str | tuple[str, ...]] = "piaaz"
    wraps = "azure"

    @classmethod
    def _class_to_wrap(cls) -> type[AbstractFileSystem]:
        from adlfs import AzureBlobFileSystem

        found: type[AbstractFileSystem] = AzureBlobFileSystem
        return found


class GuardedLocalFileSystem(_ByProtocol, GuardedDisk):
    """``piafile://``: local disk."""

    protocol: ClassVar[str | tuple[str, ...]] = "piafile"
    wraps = "local"

    @classmethod
    def _class_to_wrap(cls) -> type[AbstractFileSystem]:
        from fsspec.implementations.local import LocalFileSystem

        found: type[AbstractFileSystem] = LocalFileSystem
        return found


class GuardedMemoryFileSystem(_ByProtocol):
    """``piamemory://``: this process's memory."""

    protocol: ClassVar[str | tuple[str, ...]] = "piamemory"
    wraps = "memory"
    root_marker = "/"

    @classmethod
    def _class_to_wrap(cls) -> type[AbstractFileSystem]:
        from fsspec.implementations.memory import MemoryFileSystem

        found: type[AbstractFileSystem] = MemoryFileSystem
        return found


class PlainS3(GuardedS3FileSystem):
    """Guarded under its plain protocol: what ``guard_protocol("s3")`` registers."""

    protocol = ("s3", "s3a")


class PlainGCS(GuardedGCSFileSystem):
    """Guarded under its plain protocol."""

    protocol = ("gs", "gcs")


class PlainAzure(GuardedAzureFileSystem):
    """Guarded under its plain protocol."""

    protocol = ("abfs", "az", "abfss")


class PlainLocal(GuardedLocalFileSystem):
    """Guarded under its plain protocol."""

    protocol = ("file", "local")


class PlainMemory(GuardedMemoryFileSystem):
    """Guarded under its plain protocol."""

    protocol = "memory"


_PLAIN = {
    protocol: cls
    for cls in (PlainS3, PlainGCS, PlainAzure, PlainLocal, PlainMemory)
    for protocol in cls._protocols()
}

_GUARDED = {
    protocol: cls
    for cls in (
        GuardedS3FileSystem,
        GuardedGCSFileSystem,
        GuardedAzureFileSystem,
        GuardedLocalFileSystem,
        GuardedMemoryFileSystem,
    )
    for protocol in (cls.protocol, *(plain for plain, kind in _PLAIN.items() if issubclass(kind, cls)))
}


def guarded(url: str, **options: Any) -> tuple[GuardedFileSystem, str]:
    """Return the guarded filesystem that an address means, and the path in it.

    Parameters
    ----------
    url
        A guarded address, or a plain one (``"s3://..."``, a local path), which means its guarded kind.
    options
        Of the mount and of the wrapped filesystem.
    """
    protocol, separator, _ = url.partition("://")
    cls = _GUARDED.get(protocol if separator else "file")
    if cls is None:
        fs, path = url_to_fs(url, **options)
        return fs if isinstance(fs, GuardedFileSystem) else GuardedFileSystem(fs=fs), path
    made = cls(**{**cls._get_kwargs_from_urls(url), **options})
    return made, made._strip_protocol(url)


# What was registered for a protocol that is guarded now; None where fsspec had not been asked for it yet.
_replaced: dict[str, type[AbstractFileSystem] | None] = {}


def guard_protocol(protocol: str) -> None:
    """Make a plain protocol guarded in this process, for code that names it itself.

    Parameters
    ----------
    protocol
        ``"s3"``, ``"gs"``, ``"az"``, ``"file"``, ``"memory"``, or another name of theirs.

    Raises
    ------
    ConfigError
        It can't be guarded.

    Notes
    -----
    Filesystems made before stay as they were. Only what goes through fsspec is guarded.
    """
    if protocol not in _PLAIN:
        known = ", ".join(sorted(_PLAIN))
        msg = f"{protocol!r} can't be guarded: choose one of {known}"
        raise ConfigError(msg)
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
