"""Which store lies behind a filesystem. Each client library is imported where its store is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fsspec.spec import AbstractFileSystem

    from putifabsent.backends.base import Store

__all__ = ["kind_of", "store_of"]

_KINDS = {
    "s3": "s3", "s3a": "s3",
    "gs": "gcs", "gcs": "gcs",
    "az": "azure", "abfs": "azure", "abfss": "azure",
    "file": "local", "local": "local",
    "memory": "memory",
}  # fmt: skip


def kind_of(fs: AbstractFileSystem) -> str:
    """Return the kind of store behind ``fs``.

    Raises
    ------
    ConfigError
        There is none that could be guarded.
    """
    protocols = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
    for protocol in protocols:
        if protocol in _KINDS:
            return _KINDS[protocol]
    known = ", ".join(sorted(set(_KINDS)))
    msg = f"{type(fs).__name__} ({protocols[0]}://) can't be guarded: this version wraps {known}"
    raise ConfigError(msg)


def store_of(fs: AbstractFileSystem, options: Mapping[str, Any], deadline: float) -> Store:
    """Make the store behind ``fs``, which was made with ``options``."""
    kind = kind_of(fs)
    if kind == "memory":
        from putifabsent.backends.memory import MemoryStore

        return MemoryStore(fs)
    if kind == "local":
        from putifabsent.backends.local import LocalStore

        return LocalStore()
    if kind == "s3":
        from putifabsent.backends.s3 import S3Store

        return S3Store(fs, options, deadline)
    if kind == "gcs":
        from putifabsent.backends.gcs import GCSStore

        return GCSStore(fs, options, deadline)
    from putifabsent.backends.azure import AzureStore

    return AzureStore(fs, options, deadline)
