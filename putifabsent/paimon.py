"""pypaimon's door: a Paimon warehouse in which no two commits ever share a snapshot.

Import it in every process that opens the warehouse, and name it as the catalog's metastore::

    import putifabsent.paimon
    from pypaimon import CatalogFactory

    catalog = CatalogFactory.create({"metastore": "putifabsent", "warehouse": "s3://bucket/warehouse"})

Nothing of pypaimon is patched: this is a catalog in its registry, whose files go through a guarded
filesystem. pypaimon's own S3 options (``s3.endpoint``, ``s3.access-key``, ...) are understood, so one line
is all that an existing configuration needs. Options of the filesystem go under ``putifabsent.``
(``putifabsent.profile``, ``putifabsent.deadline``), for every store.

What pypaimon 2.1 makes of an outcome
-------------------------------------

============================================  ========================  ===================================
who creates the name                          on ``False``              on an exception
============================================  ========================  ===================================
``FileStoreCommit._try_commit_once``:         looks for its own commit  the same; keeps every file, remembers
``snapshot-N``                                in the snapshots since,   that it is uncertain (so it rewrites
                                              then tries the next       no row ids), and fails with the cause
``SchemaManager.create_table``: ``schema-0``  "schema exists"           fails with the cause
``SchemaManager.commit_changes``:             applies the changes to    fails with the cause
``schema-N``                                  the newer schema
``RenamingSnapshotCommit``: ``LATEST``        writes the hint plainly   logs a warning
============================================  ========================  ===================================

So a proven loss is ``False`` here, and what proves nothing is raised as it is: any ``Exception`` is an
unknown outcome to pypaimon. Its own ``PyArrowFileIO`` and ``LocalFileIO`` say ``False`` to both.
"""

from __future__ import annotations

import errno
import json
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from glob import has_magic
from typing import TYPE_CHECKING, Any

from pyarrow import Schema, Table, types
from pyarrow.fs import FileType, FSSpecHandler, PyFileSystem
from pypaimon.catalog.catalog_context import CatalogContext
from pypaimon.catalog.catalog_factory import CatalogFactory
from pypaimon.catalog.catalog_loader import CatalogLoader
from pypaimon.catalog.filesystem_catalog import FileSystemCatalog
from pypaimon.common.file_io import FileIO
from pypaimon.common.options.config import CatalogOptions
from pypaimon.common.options.options_utils import OptionsUtils
from pypaimon.common.uri_reader import UriReaderFactory
from pypaimon.filesystem.caching_file_io import CachingFileIO
from pypaimon.filesystem.pyarrow_file_io import PyArrowFileIO

from putifabsent.errors import ConfigError, NameExpired, NameTaken
from putifabsent.fsspec_plugin import GuardedFileSystem, GuardedS3FileSystem
from putifabsent.fsspec_plugin.paths import refuse_pattern
from putifabsent.fsspec_plugin.protocols import BY_SCHEME, guarded
from putifabsent.fsspec_plugin.stores import GUARDED
from putifabsent.shim.formats.paimon import POINTERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pypaimon.common.identifier import Identifier
    from pypaimon.common.options import Options
    from pypaimon.table.file_store_table import FileStoreTable

__all__ = ["METASTORE", "GuardedCatalog", "GuardedFileIO"]

METASTORE = "putifabsent"  # the catalog's name in pypaimon's ``metastore`` option
_PREFIX = "putifabsent."
_KEPT = ".keep"  # an object store has no folders: an empty database is there while this is in it
_OF_TAGS = "/tag"  # in which stock pypaimon takes every file for a tag, and fails on one with no hyphen
_ABSENCES = (FileNotFoundError, NotADirectoryError)  # nothing is below a file


class GuardedFileIO(FileIO):
    """pypaimon's files, where a name that Paimon never overwrites is created at most once.

    The warehouse is a URL or a folder, whose scheme chooses the guarded filesystem, ``fs``; the options are
    the catalog's. ``filesystem`` is the same for pyarrow, which pypaimon's readers ask for by this name.
    """

    def __init__(self, warehouse: str, options: Options) -> None:
        scheme = warehouse.partition("://")[0] if "://" in warehouse else "file"
        if scheme not in BY_SCHEME:
            known = ", ".join(f"{scheme}://" for scheme in GUARDED)
            raise ConfigError(f"a warehouse is a folder or one of {known}, not {warehouse}")
        self.properties = options
        self.uri_reader_factory = UriReaderFactory(options)
        self._kind = BY_SCHEME[scheme]
        self.fs, _ = guarded(warehouse, **_storage_options(self._kind, options.to_map()))
        self.filesystem = PyFileSystem(FSSpecHandler(self.fs))
        self._folders = self.fs.mount.has_folders

    # pypaimon's writers of data files ask no more of a FileIO than the methods below.
    write_parquet = PyArrowFileIO.write_parquet
    write_orc = PyArrowFileIO.write_orc
    write_row = PyArrowFileIO.write_row
    write_blob = PyArrowFileIO.write_blob
    write_mosaic = PyArrowFileIO.write_mosaic

    def write_avro(self, path: str, data: Table, *args: Any, **kwargs: Any) -> None:
        PyArrowFileIO.write_avro(self, path, _InUtc(data), *args, **kwargs)

    def to_filesystem_path(self, path: str) -> str:
        """Return a path without scheme and empty components, as Paimon's own files take it.

        ``ConfigError``: it is in another store than the warehouse.
        """
        scheme, separator, _ = path.partition("://")
        if separator and BY_SCHEME.get(scheme) is not self._kind:
            raise ConfigError(f"{path} is in another store than the warehouse: this door is to one")
        here = re.sub("^file://localhost(?=/)", "file://", path)
        return re.sub("/+", "/", self.fs._strip_protocol(here))  # noqa: SLF001 - fsspec's name for it

    def try_to_write_atomic(self, path: str, content: str) -> bool:
        """Create ``path`` with ``content``: in one request, where the default would write, look and rename.

        False where another creation provably holds the name; ``OutcomeUnknown``: it can't be known.
        """
        target = self._target(path)  # a file in the way of a folder is no proof of anything
        try:
            self.fs.pipe_file(target, content.encode(), mode="create")
        except NameTaken:
            return False
        return True

    def rename(self, src: str, dst: str) -> bool:
        """Move a file or a folder.

        False where ``src`` is not there, or ``dst`` is already, or another creation of it won.
        ``OutcomeUnknown``: ``dst`` is a guarded name, and it can't be known whether this created it; ``src``
        is kept.
        """
        source = self.to_filesystem_path(src)
        try:
            is_folder = self.fs.info(source)["type"] == "directory"
        except _ABSENCES:
            return False
        if self.exists(dst) and not self._is_left(self.to_filesystem_path(dst)):
            return False
        target = self._target(dst)
        try:
            if is_folder:
                refuse_pattern(source)
                # What is in it: on disk, the folder of a table that is gone may still be there.
                self.fs.mv(f"{source}/", target, recursive=True)
                self._remove_markers(source)
            elif has_magic(source):  # `mv` would take it for a pattern
                self.fs.cp_file(source, target)
                self.fs.rm_file(source)
            else:
                self.fs.mv(source, target)
        except FileExistsError:
            return False
        return True

    def copy_file(self, source_path: str, target_path: str, overwrite: bool = False) -> None:
        """Copy a file; to a guarded name that is taken only where there is nothing to change."""
        if not overwrite and self.exists(target_path):
            raise FileExistsError(errno.EEXIST, "it is there, and may not be overwritten", target_path)
        source, target = self.to_filesystem_path(source_path), self._target(target_path)
        try:
            self.fs.cp_file(source, target)
        except FileExistsError as error:
            if isinstance(error, NameExpired) or self.fs.cat_file(source) != self.fs.cat_file(target):
                raise

    def new_input_stream(self, path: str) -> Any:
        return self.fs.open(self.to_filesystem_path(path), "rb")

    def new_output_stream(self, path: str) -> Any:
        return self.fs.open(self._target(path), "wb")

    def read_file_utf8(self, path: str) -> str:
        """Read a small file in one request: a hint that is overwritten meanwhile is never read in halves."""
        content: bytes = self.fs.cat_file(self.to_filesystem_path(path))
        return content.decode()

    def exists(self, path: str) -> bool:
        """Whether ``path`` is there; an error is no answer, and is raised.

        A table whose snapshots "are not there" for a moment would be begun anew.
        """
        try:
            self.fs.info(self.to_filesystem_path(path))
        except _ABSENCES:
            return False
        return True

    def get_file_status(self, path: str) -> FileStatus:
        return FileStatus.of(self.fs.info(self.to_filesystem_path(path)))

    def list_status(self, path: str) -> list[FileStatus]:
        """List a folder, ``snapshot-9`` before ``snapshot-10``; what is not there is empty.

        In this order a fast-forward meets the first snapshot that main has otherwise before it has
        copied a later one, or the pointers, which come last.
        """
        folder = self.to_filesystem_path(path)
        try:
            infos = self.fs.ls(folder, detail=True)
        except _ABSENCES:
            return []
        found = [FileStatus.of(info) for info in infos]
        inside = [status for status in found if status.path != folder and status.base_name != _KEPT]
        inside = [each for each in inside if each.type is FileType.File or not self._is_left(each.path)]
        return sorted(
            inside, key=lambda status: (status.base_name in POINTERS, len(status.path), status.path)
        )

    def _is_left(self, folder: str) -> bool:
        """Whether a folder is of what was removed: an arbiter keeps something of that."""
        return self.fs.mount.walk(self.fs.guard.reads.is_left(folder))

    def delete(self, path: str, recursive: bool = False) -> bool:
        target = self.to_filesystem_path(path)
        try:
            is_file = self.fs.info(target)["type"] != "directory"
        except _ABSENCES:
            return False
        if not (is_file or recursive) and self.list_status(path):
            raise OSError(errno.ENOTEMPTY, "the folder is not empty", path)
        try:
            if is_file:
                self.fs.rm_file(target)
            elif recursive or not self._folders:
                refuse_pattern(target)
                self.fs.rm(target, recursive=True)
                self._remove_markers(target)
            else:
                self._rmdir(target)
        except FileNotFoundError:
            return False
        return True

    def _remove_markers(self, folder: str) -> None:
        """Remove what stock pypaimon's client leaves for folders: a table that is gone would be listed."""
        if not self._folders:
            self.fs.mount.walk(self.fs.guard.removals.removing_markers(folder))
            self.fs.mount.forget_listed(folder)

    def _rmdir(self, folder: str) -> None:
        try:
            self.fs.rmdir(folder)  # others may write into it meanwhile
        except OSError as error:
            # What is the shim's own may be left in it, and shows in no listing.
            if error.errno != errno.ENOTEMPTY or self.fs.ls(folder, detail=False):
                raise
            self.fs.rm(folder, recursive=True)

    def mkdirs(self, path: str) -> bool:
        folder = self.to_filesystem_path(path)
        try:
            if self.fs.info(folder)["type"] != "directory":
                raise FileExistsError(errno.EEXIST, "it is there, and is no folder", path)
        except FileNotFoundError:
            if self._folders:
                self.fs.makedirs(folder, exist_ok=True)
            elif not folder.endswith(_OF_TAGS):
                self.fs.pipe_file(f"{folder}/{_KEPT}", b"")
        return True

    def _target(self, path: str) -> str:
        """Where to write, with the folder it needs."""
        target = self.to_filesystem_path(path)
        if self._folders:
            self.fs.makedirs(target.rpartition("/")[0], exist_ok=True)
        return target


@dataclass(frozen=True)
class FileStatus:
    """What pypaimon asks about a file or folder."""

    path: str
    type: FileType
    size: int | None
    mtime: float | None

    @property
    def base_name(self) -> str:
        return self.path.rpartition("/")[2]

    @staticmethod
    def of(info: Mapping[str, Any]) -> FileStatus:
        """Say the same of a file as fsspec's ``info`` does."""
        path = info["name"].rstrip("/")
        # s3fs, adlfs, and everyone else; most folders of object stores have none.
        changed = info.get("LastModified") or info.get("last_modified") or info.get("mtime")
        mtime = changed.timestamp() if isinstance(changed, datetime) else changed
        if info["type"] == "directory":
            return FileStatus(path, FileType.Directory, None, mtime)
        return FileStatus(path, FileType.File, info["size"], mtime)


@dataclass(frozen=True)
class _InUtc:
    """A table whose naive times say that they are UTC, for Avro's writer takes nested ones for local time."""

    table: Table

    @property
    def schema(self) -> Schema:
        return self.table.schema

    def to_pydict(self) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = self.table.to_pydict()
        nested = [field.name for field in self.schema if types.is_nested(field.type)]
        return {**columns, **{name: _in_utc(columns[name]) for name in nested}}


def _in_utc(value: Any) -> Any:
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=timezone.utc)
    if isinstance(value, dict):
        return {key: _in_utc(each) for key, each in value.items()}
    return type(value)(map(_in_utc, value)) if isinstance(value, (list, tuple)) else value


class _Cached(CachingFileIO):
    """Keeps blocks of what is read, and leaves copies to the guarded files; its own writes the bytes anew."""

    def copy_file(self, *args: Any, **kwargs: Any) -> None:
        self._delegate.copy_file(*args, **kwargs)


class GuardedCatalog(FileSystemCatalog):
    """pypaimon's catalog of tables in a filesystem, with guarded files."""

    def __init__(self, options: Options | CatalogContext) -> None:  # pypaimon gives the one or the other
        # FileSystemCatalog's own constructor would open the warehouse unguarded, as far as it can.
        context = (
            options if isinstance(options, CatalogContext) else CatalogContext.create_from_options(options)
        )
        if not context.options.contains(CatalogOptions.WAREHOUSE):
            raise ConfigError("the option 'warehouse' must say where the warehouse is")
        self.warehouse: str = context.options.get(CatalogOptions.WAREHOUSE)
        self.catalog_options = context.options
        self.catalog_context = context
        self._cache_manager = CachingFileIO.create_cache_manager(context.options)
        files = GuardedFileIO(self.warehouse, context.options)
        self.file_io = CachingFileIO.wrap_with_caching_if_needed(files, context.options, self._cache_manager)
        if self.file_io is not files:
            self.file_io = _Cached(files, self._cache_manager, self.file_io._whitelist)  # noqa: SLF001

    def _load_data_table(self, identifier: Identifier) -> FileStoreTable:
        table = super()._load_data_table(identifier)
        # A table asks its catalog for snapshots, in other processes too: it must find this one.
        table.catalog_environment.catalog_loader = _Loader(self.catalog_context)
        return table


@dataclass(frozen=True)
class _Loader(CatalogLoader):
    loaded_from: CatalogContext

    def context(self) -> CatalogContext:
        return self.loaded_from

    def load(self) -> GuardedCatalog:
        return GuardedCatalog(self.loaded_from)


def _storage_options(kind: type[GuardedFileSystem], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filesystem's options: pypaimon's own for S3, then what is under our prefix."""
    own = {
        key.removeprefix(_PREFIX): _parsed(value) for key, value in options.items() if key.startswith(_PREFIX)
    }
    return {
        # Other writers' snapshots must be seen at once; and what is in a Paimon warehouse is Paimon's.
        "use_listings_cache": False,
        "formats": ["paimon"],
        **(_s3_options(options) if kind is GuardedS3FileSystem else {}),
        **own,
    }


def _s3_options(options: Mapping[str, Any]) -> dict[str, Any]:
    def setting(legacy: str, *names: str) -> Any:
        spelt = (f"{prefix}{name}" for prefix in ("s3.", "s3a.", "fs.s3.", "fs.s3a.") for name in names)
        return next((options[key] for key in (legacy, *spelt) if options.get(key)), None)

    endpoint = setting("fs.s3.endpoint", "endpoint")
    region = setting("fs.s3.region", "region")
    said = setting("s3.path-style-access", "path-style-access", "path.style.access") or False
    style = {"s3": {"addressing_style": "path"}} if OptionsUtils.convert_to_boolean(said) else None
    found = {
        "key": setting("fs.s3.accessKeyId", "access-key", "access.key"),
        "secret": setting("fs.s3.accessKeySecret", "secret-key", "secret.key"),
        "token": setting(
            "fs.s3.securityToken", "session-token", "session.token", "security-token", "security.token"
        ),
        # pyarrow takes a bare host, and speaks https to it.
        "endpoint_url": endpoint if endpoint is None or "://" in endpoint else f"https://{endpoint}",
        "client_kwargs": {"region_name": region} if region else None,
        "config_kwargs": style,
    }
    return {key: value for key, value in found.items() if value is not None}


def _parsed(value: Any) -> Any:
    """Read what a configuration file can only say as text; a number may be a password, and stays text."""
    if isinstance(value, str) and (value.lower() in ("true", "false") or value[:1] in ("{", "[")):
        try:
            return json.loads(value.lower() if value[:1] not in ("{", "[") else value)
        except json.JSONDecodeError as error:
            # It may be a password that begins so.
            raise ConfigError(f"an option that begins with {value[:1]} is no JSON: {error.msg}") from None
    return value


CatalogFactory.CATALOG_REGISTRY[METASTORE] = GuardedCatalog
