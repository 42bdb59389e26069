"""pyiceberg's door: ``py-io-impl = putifabsent.iceberg.GuardedFileIO``.

It is pyiceberg's own fsspec FileIO over guarded filesystems. ``OutputFile.create(overwrite=False)``, which
there looks first and then overwrites, is a create here on every name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from pyiceberg.io import S3_SIGNER, InputFile, OutputFile
from pyiceberg.io.fsspec import SIGNERS, FsspecFileIO, FsspecOutputFile, S3RequestSigner

from putifabsent.errors import ConfigError
from putifabsent.fsspec_plugin.filesystem import GuardedFileSystem
from putifabsent.fsspec_plugin.options import Options

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

__all__ = ["GuardedFileIO"]

_PREFIX = "putifabsent."


class GuardedOutputFile(FsspecOutputFile):
    """An output file that never replaces another, except with ``overwrite``."""

    def create(self, overwrite: bool = False) -> Any:
        """Open the location for writing; ``NameTaken``, at once or at close, is a ``FileExistsError``."""
        return self._fs.open(self.location, "wb" if overwrite else "xb")


class GuardedFileIO(FsspecFileIO):
    """pyiceberg's fsspec FileIO over guarded filesystems.

    The catalog's properties are pyiceberg's own; ``putifabsent.arbiter``, ``putifabsent.formats``,
    ``putifabsent.guard``, ``putifabsent.writer`` and ``putifabsent.deadline`` are the mount's.
    """

    def new_output(self, location: str) -> GuardedOutputFile:
        return GuardedOutputFile(location=location, fs=self._get_fs_from_uri(urlparse(location), location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file. Its name is no pattern, which would take others along."""
        where = location.location if isinstance(location, (InputFile, OutputFile)) else location
        self._get_fs_from_uri(urlparse(where), where).rm_file(where)

    def _get_fs(self, scheme: str, hostname: str | None = None) -> AbstractFileSystem:
        given = {key: value for key, value in self.properties.items() if value is not None}
        own = {key.removeprefix(_PREFIX): given[key] for key in given if key.startswith(_PREFIX)}
        # A filesystem, and how it works, are pyiceberg's to say.
        if strange := own.keys() - Options.__dataclass_fields__.keys():
            known = ", ".join(f"{_PREFIX}{option}" for option in Options.__dataclass_fields__)
            raise ConfigError(f"unknown property {_PREFIX}{min(strange)}: the mount's are {known}")
        fs = super()._get_fs(scheme, hostname)
        if S3_SIGNER not in given or "s3" not in fs.protocol:
            return GuardedFileSystem(fs=fs, **own)
        # Each table that is loaded has a signer of its own: none outlives its FileIO, in fsspec's cache.
        fs = _signing(fs, SIGNERS[given[S3_SIGNER]](self.properties))
        return GuardedFileSystem(fs=fs, skip_instance_cache=True, **own)


def _signing(fs: AbstractFileSystem, signer: S3RequestSigner) -> AbstractFileSystem:
    """Return its like whose session has the signer: every client of that, not only the filesystem's own."""
    from aiobotocore.session import AioSession

    session = AioSession(**fs.kwargs)
    # What S3 is takes most of a session's time and memory.
    session.register_component("data_loader", fs.session.get_component("data_loader"))
    session.register("before-sign.s3", signer)
    return type(fs)(**fs.storage_options, session=session, skip_instance_cache=True)
