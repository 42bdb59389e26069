"""The files of a table, through any fsspec filesystem: listed as they are now, read whole, and decoded.

What can't be read is reported beside what can, or raised where nobody wants a report.
"""

from __future__ import annotations

import errno
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import Enum
from glob import has_magic
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem

from putifabsent.errors import ConfigError

T = TypeVar("T")

_AT_ONCE = 256
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
_AVRO = b"Obj\x01"
_CODECS = ("null", "deflate", "bzip2", "xz")
_OTHERS = (b"ORC", b"PAR1", b"AGS1")
"""How files begin that are no Avro; the last one is Iceberg's sign of what it has encrypted."""
_SYNC = 16


class Content(NamedTuple):
    """What a file, or a field of the history, says."""

    kind: str  # the name of its Avro schema (``HoodieCommitMetadata``); of JSON empty
    value: Mapping[str, Any]


class Trouble(str, Enum):
    """Why something can't be read."""

    MISSING = "missing"  # another file names it, and it is not there
    EMPTY = "empty"  # it has no bytes, where its format always writes some
    UNREADABLE = "unreadable"  # it is torn, or not what its name says
    COPIED = "copied"  # it is another record, under a name that is not that one's
    UNKNOWN = "unknown"  # it is of a version that is not known


class Problem(NamedTuple):
    """One file, or one record of it, that can't be read. Nothing is guessed in its place."""

    path: str
    trouble: Trouble
    reason: str

    def error(self) -> OSError:
        """Return the error that says so."""
        number = errno.ENOENT if self.trouble is Trouble.MISSING else errno.EINVAL
        return OSError(number, self.reason, self.path)


Problems = list[Problem]
"""Takes what can't be read. A reader that is given none raises the first problem: an :class:`OSError`."""


def report(
    problems: Problems | None, path: str, trouble: Trouble, reason: str, cause: Exception | None = None
) -> None:
    """Add a problem to those reported, or raise it."""
    problem = Problem(path, trouble, reason)
    if problems is None:
        raise problem.error() from cause
    if problem not in problems:
        problems.append(problem)


class Parsing(NamedTuple):
    """Reports a file whose bytes are not what they should be, or what was ``written`` to it is nothing.

    That shows by ``errors`` in the ``with``: by default by whatever a parser makes of torn bytes.
    """

    problems: Problems | None
    path: str
    what: str
    written: bytes | None = None
    errors: type[Exception] | tuple[type[Exception], ...] = Exception

    def __enter__(self) -> None:
        """Do nothing yet."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        """Report it, and go on; what is raised by the store, or is a problem that is raised, passes."""
        passes = isinstance(error, (ConfigError, FileNotFoundError)) or getattr(error, "errno", None)
        if passes or not isinstance(error, self.errors):
            return False
        trouble = Trouble.EMPTY if self.written == b"" else Trouble.UNREADABLE
        report(self.problems, self.path, trouble, f"it is torn, or no {self.what}: {error}", error)
        return True


def report_all(problems: Problems, found: Sequence[Problem]) -> None:
    """Add many problems, each once."""
    known = set(problems)
    problems += [each for each in dict.fromkeys(found) if each not in known]


class Listed(NamedTuple):
    """A file in a folder."""

    path: str
    last: str  # the last component of its full name
    size: int
    salt: str  # whose it is, where a mount shows it under the name that its writer calls it; else empty


def below(root: str, path: str) -> str:
    """Return the full name of a path within a folder, which may be the root of all."""
    return f"{root}/{path}" if root else path


@contextmanager
def of_a_bucket(fs: Any, path: str, address: str) -> Iterator[None]:
    """Have an error that says that there is no table say so of its bucket, if not even that is there."""
    try:
        yield
    except ConfigError as error:
        if not lacks_bucket(fs, path):
            raise
        bucket = path.partition("/")[0]
        raise ConfigError(f"there is no table at {address}: its bucket {bucket!r} is not there") from error


def lacks_bucket(fs: Any, path: str) -> bool:
    """Whether the store says that the bucket of a path is not there."""
    fs.invalidate_cache()
    # In a thread: an error that is handled here would take the place of what the store's was raised from.
    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(fs.ls, path, detail=False).exception()
    # GCS's client says so of the listing of a bucket, which is there if the bucket is.
    if str(error) == f"b/{path.partition('/')[0]}/o":
        return True
    while error is not None:
        if any(code in str(error) for code in _NO_BUCKET):
            return True
        error = error.__cause__ or error.__context__
    return False


def listed(fs: Any, folder: str) -> list[Listed]:
    """Return the files that are in a folder now; of one that isn't there: none."""
    fs.invalidate_cache(folder)  # others' files must be seen
    try:
        found = fs.ls(folder, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [
        Listed(each["name"], each["name"].rpartition("/")[2], each["size"], each.get("salt") or "")
        for each in found
        if is_file(fs, each)
    ]


def found_below(fs: Any, folder: str) -> dict[str, dict[str, Any]]:
    """Return the details of all files below a folder, by name; ``OSError``: some of it can't be listed.

    Where fsspec's own ``find`` goes from folder to folder, it leaves out those that can't be.
    """
    inner = getattr(fs, "fs", None)
    kind: Any = type(inner if isinstance(inner, AbstractFileSystem) else fs)
    usual: Any = AsyncFileSystem if issubclass(kind, AsyncFileSystem) else AbstractFileSystem
    verb = "_find" if usual is AsyncFileSystem else "find"
    if getattr(kind, verb) is not getattr(usual, verb):
        whole: dict[str, dict[str, Any]] = fs.find(folder, detail=True)
        return whole
    found: dict[str, dict[str, Any]] = {}
    folders = [folder]
    while folders:
        at = folders.pop()
        try:
            inside = fs.ls(at, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            continue
        for each in inside:
            if each["type"] != "directory":
                found[each["name"]] = each
            elif each["name"].rstrip("/") != at:
                folders.append(each["name"].rstrip("/"))
    return found


def is_file(fs: Any, info: Mapping[str, Any]) -> bool:
    """Whether what is listed is a file, or a link to one."""
    return bool(info["type"] == "file" or (info.get("islink") and fs.isfile(info["name"])))


def numbered(fs: Any, folder: str, number_in: Callable[[str], int | None]) -> dict[str, int]:
    """Return the files of a folder that have numbers, told from their last components, by their numbers."""
    numbers = ((each.path, number_in(each.last)) for each in listed(fs, folder))
    there = ((path, number) for path, number in numbers if number is not None)
    return dict(sorted(there, key=lambda item: item[1]))


def read(fs: Any, paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Read files, many at a time where the filesystem can; without those that have expired meanwhile."""
    for start in range(0, len(paths), _AT_ONCE):
        some = list(paths[start : start + _AT_ONCE])
        # `cat` would take a name for a pattern, and not all filesystems have ranges without ends.
        if any(map(has_magic, some)):
            found = {path: _cat(fs, path) for path in some}
        else:
            found = fs.cat(some, on_error="return")
        for path in some:
            written = found[path]
            if isinstance(written, FileNotFoundError):
                continue
            if isinstance(written, Exception):
                raise written
            yield path, written


def _cat(fs: Any, path: str) -> Any:
    try:
        return fs.cat_file(path)
    except FileNotFoundError as error:
        return error


class AvroFiles:
    """Avro files that never change once they are there: each is read once; ``problems``: what can't be."""

    def __init__(self, fs: Any) -> None:
        self.problems: Problems = []
        self._fs = fs
        self._read: dict[str, list[Any] | None] = {}
        self._wanted: set[str] = set()

    def load(self, paths: Mapping[str, Callable[[Any], Any]]) -> None:
        """Read files, many at a time; each comes with what makes something of a record."""
        self._wanted.update(paths)
        new = [path for path in paths if path not in self._read]
        found = dict(read(self._fs, new))
        for path in new:
            self._read[path] = self._parsed(path, found.get(path), paths[path])

    def records(self, paths: Sequence[str], parse: Callable[[Any], T]) -> list[T] | None:
        """Return what is made of the records of files, in order; None: one of them can't be read."""
        self.load(dict.fromkeys(paths, parse))
        records: list[T] = []
        for path in paths:
            found = self._read[path]
            if found is None:
                return None
            records += found
        return records

    def forget(self) -> int:
        """Forget what nobody has asked for since the last time, and what could not be read.

        Returns of how many records something is remembered.
        """
        kept = {path: found for path in self._wanted if (found := self._read.get(path)) is not None}
        self._read = dict(kept)
        self._wanted.clear()
        return sum(map(len, kept.values()))

    def _parsed(self, path: str, written: bytes | None, parse: Callable[[Any], T]) -> list[T] | None:
        if written is None:
            report(self.problems, path, Trouble.MISSING, "a snapshot leads to it, and it is not there")
        elif written.startswith(_OTHERS):
            report(self.problems, path, Trouble.UNKNOWN, "it is no Avro, which is known here")
        else:
            errors = (AttributeError, KeyError, TypeError, ValueError)
            try:
                with Parsing(self.problems, path, "manifest", written, errors):
                    return [parse(record) for record in records_of(written)]
            except NotImplementedError as error:
                report(self.problems, path, Trouble.UNKNOWN, str(error))
        return None


def avro() -> Any:
    """Return the package that reads Avro, fastavro; ``ConfigError``: it is not installed."""
    return _imported("fastavro", "what Hudi's instants say is written in Avro")


def arrow() -> Any:
    """Return pyarrow, its reader of Parquet loaded; ``ConfigError``: it is not installed."""
    reason = "the history of a table is in parquet files"
    package = _imported("pyarrow", reason)
    _imported("pyarrow.parquet", reason)
    return package


def roaring() -> Any:
    """Return the package that reads Roaring bitmaps, pyroaring; ``ConfigError``: it is not installed."""
    return _imported("pyroaring", "which rows a table has deleted is written in Roaring bitmaps")


def _imported(module: str, why: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(f"{why}: pip install 'putifabsent[timeline]'") from error


def content_of(written: bytes | None, path: str, problems: Problems | None = None) -> Content | None:
    """Return what a file says, or a field of the history; None: nothing, or it can't be read.

    No bytes are nothing: Hudi requests a commit by an empty file. Others are Avro with one record, or an
    object of JSON; else that is added to ``problems``, or raised.
    """
    if not written:
        return None
    with Parsing(problems, path, "instant's"):
        if written.startswith(_AVRO):
            reader = avro().reader(io.BytesIO(written))
            (record,) = reader
            return Content(str(reader.writer_schema["name"]).rpartition(".")[2], record)
        return Content("", {**json.loads(written)})
    return None


def records_of(written: bytes) -> list[dict[str, Any]]:
    """Return the records of an Avro file.

    ``ValueError``: they are torn, or no Avro. ``NotImplementedError``: they are packed in a way that is not
    known here.
    """
    fastavro, file = avro(), io.BytesIO(written)
    try:
        reader = fastavro.reader(file)
        if reader.codec == "zstandard":
            return list(_decompressed(file, fastavro.parse_schema(reader.writer_schema)))
        if reader.codec in _CODECS:
            return list(reader)
    except ConfigError:
        raise
    except Exception as error:
        # Whatever a parser makes of torn bytes.
        raise ValueError(f"it is torn, or no Avro: {error}") from error
    raise NotImplementedError(f"it is packed by {reader.codec}, which is not known")


def _decompressed(file: io.BytesIO, schema: Any) -> Iterator[dict[str, Any]]:
    """Return the records behind a header that pyarrow must decompress: fastavro wants a package for that."""
    read, pa = avro().schemaless_reader, arrow()
    file.seek(-_SYNC, io.SEEK_CUR)
    sync = file.read(_SYNC)
    while file.tell() < file.getbuffer().nbytes:
        count = read(file, "long", None)
        packed = read(file, "bytes", None)
        if file.read(_SYNC) != sync:
            raise ValueError("a block has no end")
        block = io.BytesIO(pa.CompressedInputStream(pa.BufferReader(packed), "zstd").read())
        yield from (read(block, schema, None) for _ in range(count))
