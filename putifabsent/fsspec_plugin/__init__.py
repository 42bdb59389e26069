"""fsspec's door: a filesystem that is the wrapped one in every way but the creation of guarded names."""

from __future__ import annotations

from putifabsent.fsspec_plugin.filesystem import GuardedFileSystem
from putifabsent.fsspec_plugin.protocols import (
    GuardedAzureFileSystem,
    GuardedGCSFileSystem,
    GuardedLocalFileSystem,
    GuardedMemoryFileSystem,
    GuardedS3FileSystem,
    guard_protocol,
    unguard_protocol,
)

__all__ = [
    "GuardedAzureFileSystem",
    "GuardedFileSystem",
    "GuardedGCSFileSystem",
    "GuardedLocalFileSystem",
    "GuardedMemoryFileSystem",
    "GuardedS3FileSystem",
    "guard_protocol",
    "unguard_protocol",
]
