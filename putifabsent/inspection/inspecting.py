"""Inspects a table, or all below a folder: reads each timeline, lists its files, and judges both.

And judges a commit before it is created: whether it would hurt the table upon which it would come. The rules
are those that concern one commit. Whatever they do not know, passes; so do all names but those by which a
format commits, and what was wrong with the table before.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

from putifabsent.errors import ConfigError, Damaging, sentence_of
from putifabsent.inspection import delta, hudi, iceberg, paimon
from putifabsent.inspection.findings import Base, Files, Finding, Kind, Look, Result, Severity, mended
from putifabsent.shim.names import is_state
from putifabsent.timeline import Timeline, opened, read, tables_below
from putifabsent.timeline.files import avro, found_below, is_file, of_a_bucket, roaring

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from putifabsent.shim.names import Name

    Progress = Callable[[int, int, str], None]

_log = logging.getLogger(__name__)

# They wait for the store, most of the time.
_SIDE_BY_SIDE = 8

_RULES: dict[
    str, tuple[Callable[[Any, Look | None], Result], Callable[[Base, Name, bytes], list[Finding]]]
] = {
    "hudi": (hudi.judge, hudi.hurts),
    "paimon": (paimon.judge, paimon.hurts),
    "delta": (delta.judge, delta.hurts),
    "iceberg": (iceberg.judge, iceberg.hurts),
}
"""Of each format: what judges a table, and what a commit."""


@dataclass(frozen=True, repr=False)
class Report:
    """A table, its records by when they were requested, and what is wrong with it, damage first."""

    url: str
    format: str
    version: str
    timeline: Timeline[Any]
    records: Sequence[Any]
    findings: Sequence[Finding]
    files: int | None  # how many data files there are; None: they were not looked at

    @property
    def damage(self) -> list[Finding]:
        """What is proven to be wrong."""
        return [each for each in self.findings if each.severity is Severity.DAMAGE]

    @property
    def verdict(self) -> str:
        """What was found, in a sentence."""
        damage = len(self.damage)
        notices = len(self.findings) - damage
        files = "no data files looked at" if self.files is None else f"{self.files:,} data files"
        looked = f"{self.format}, {self.version}, {len(self.records):,} records, {files}"
        hurt = f"{damage:,} findings of damage" if damage > 1 else "a finding of damage"
        beside = f", {notices:,} notice{'s' if notices > 1 else ''}" if notices else ""
        return f"{looked}: {hurt if damage else 'no damage was found'}{beside}."

    def __repr__(self) -> str:
        return f"<Report of {self.url}: {self.verdict}>"

    def _repr_html_(self) -> str:
        """Show the whole report in a notebook."""
        from putifabsent.inspection.picture import body

        return body(self)


def inspect(
    url: str,
    *,
    fs: Any = None,
    format: str | None = None,  # noqa: A002 - as the timelines' reader calls it
    data: bool = True,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Say what is wrong with a table. Nothing is written, and writers may write meanwhile.

    Parameters
    ----------
    url, fs, format, options
        As for :func:`putifabsent.timeline.read`, which has the errors, too. ``ConfigError`` also: ``fs`` is
        guarded, and lets another arbiter decide than other mounts of the table do; or the ``data`` are to be
        looked at of a Hudi table with salted files, by an ``fs`` without the option, or of an Iceberg table
        whose metadata lie apart from it.
    data
        Whether to list the table's data files, and to compare them with what it says of them. Without, only
        what the timeline proves by itself is found.
    progress
        Called while the data files are listed: with how many folders in the table's root are done, of how
        many, and how many files that were.
    """
    return _inspected(*opened(url, fs, options), url, format=format, data=data, progress=progress)


def _inspected(
    fs: Any,
    root: str,
    url: str,
    *,
    format: str | None = None,  # noqa: A002
    data: bool,
    progress: Progress | None = None,
) -> Report:
    # A mount by another arbiter than the table's may not see what that has decided.
    if (refuse_other_arbiters := getattr(fs, "refuse_other_arbiters", None)) is not None:
        refuse_other_arbiters(root)
    timeline = read(root, fs=fs, format=format)
    judge, _ = _RULES[timeline.format]
    walk = _Walk(timeline.fs, progress) if data else None
    before = _state_of(timeline)
    result = judge(timeline, walk)
    findings = result.findings
    if findings and _state_of(timeline) != before:
        # It went on while it was looked at: what it was in the middle of is not there a second time.
        result = judge(timeline, walk)
        before_too = {about for each in findings for about in _abouts(each)}
        findings = [each for each in result.findings if not before_too.isdisjoint(_abouts(each))]
    address = url if "://" in url else fs.unstrip_protocol(root)
    findings = [mended(timeline.format, address, each, result.records) for each in findings]
    return Report(
        url,
        timeline.format,
        result.version,
        timeline,
        result.records,
        sorted(findings, key=lambda each: each.severity is not Severity.DAMAGE),
        walk.files if walk is not None else None,
    )


@dataclass(frozen=True)
class Failed:
    """A table that could not be inspected: of a version that is not known, say, or its store refuses."""

    url: str
    error: Exception
    findings: ClassVar[Sequence[Finding]] = ()
    damage: ClassVar[Sequence[Finding]] = ()

    @property
    def verdict(self) -> str:
        """Why not, in a sentence."""
        return f"could not be inspected: {sentence_of(self.error)}"


def inspect_all(
    url: str,
    *,
    fs: Any = None,
    data: bool = True,
    progress: Progress | None = None,
    **options: Any,
) -> list[Report | Failed]:
    """Say what is wrong with the tables below a folder, some of them side by side.

    Parameters
    ----------
    url
        The folder's address, or with ``fs`` the folder in there: where
        :func:`~putifabsent.timeline.tables_below` looks for tables.
    fs, data, options
        As for :func:`inspect`, for each of them.
    progress
        Called with how many tables are done, of how many, and the last one's address.

    Returns them in the order of their names; one that can't be inspected keeps the others from nothing.
    ``ConfigError``: there is no table.
    """
    folder = Folder(url, fs, options)
    tables = folder.tables()
    found: list[Report | Failed] = []
    for each in folder.inspected(tables, data=data):
        found.append(each)
        if progress is not None:
            progress(len(found), len(tables), each.url)
    return found


class Folder:
    """A folder of tables, as :func:`inspect_all` is told of it; other processes may have a copy."""

    def __init__(self, url: str, fs: Any, options: dict[str, Any]) -> None:
        self.fs, self._root = opened(url, fs, options)
        self._url = url.rstrip("/") if "://" in url else self._root

    def tables(self) -> list[str]:
        """Return the tables below it, in the filesystem's own words; ``ConfigError``: there is none."""
        tables = list(tables_below(self._root, fs=self.fs))
        if not tables:
            with of_a_bucket(self.fs, self._root, self._url):
                raise ConfigError(f"there is no table at {self._url!r}, and none below it")
        return tables

    def inspected(self, tables: Sequence[str], *, data: bool) -> Iterator[Report | Failed]:
        """Inspect some of its tables, a few side by side; their reports come in this order."""
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            yield from pool.map(partial(self._inspected, data=data), tables)

    def _inspected(self, table: str, *, data: bool) -> Report | Failed:
        address = self._url + table.removeprefix(self._root)
        try:
            return _inspected(self.fs, table, address, data=data)
        except Exception as error:  # noqa: BLE001 - no table keeps the others from being inspected
            return Failed(address, error)


class _Walk:
    """Lists a table's data files, by one walk through its folders, and keeps how many there were."""

    def __init__(self, fs: Any, progress: Progress | None) -> None:
        self._fs = fs
        self._progress = progress
        self.files = 0

    def __call__(self, root: str, skipped: Collection[str]) -> Files:
        """Return all files below a root, but those in some folders of it; ``OSError``: the store refuses."""
        self._fs.invalidate_cache()  # others' files must be seen
        try:
            top = self._fs.ls(root, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            top = []
        paths = {each["name"]: each.get("size") for each in top if is_file(self._fs, each)}
        folders = [each["name"].rstrip("/") for each in top if each["name"] not in paths]
        wanted = [each for each in folders if _last(each) not in skipped and not is_state(each)]
        for done, folder in enumerate(wanted):
            self._report(done, wanted, paths)
            inside = self._below(folder)
            paths.update((path, info.get("size")) for path, info in inside.items() if not is_state(path))
        self._report(len(wanted), wanted, paths)
        self.files = len(paths)
        return Files(paths, {_last(path): path for path in paths})

    def _below(self, folder: str, *on_the_way: Path) -> dict[str, dict[str, Any]]:
        """Return the details of all files below a folder, and of those in folders that links lead to.

        ``on_the_way`` are the folders of the links that led here: one that leads back to them has no end.
        """
        found = found_below(self._fs, folder)
        for link in [path for path, info in found.items() if info.get("islink") and self._fs.isdir(path)]:
            del found[link]
            target, folders = Path(link).resolve(), (*on_the_way, Path(link).parent.resolve())
            if not any(each.is_relative_to(target) for each in folders):
                found.update(self._below(link, *folders))
        return found

    def _report(self, done: int, wanted: Collection[str], paths: Collection[str]) -> None:
        if self._progress is not None:
            self._progress(done, len(wanted), f"{len(paths):,} files")


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _abouts(finding: Finding) -> set[tuple[Kind, str]]:
    """Return what a finding is about, each for itself: meanwhile, files may have been archived or removed.

    Of one commit's files others may have been removed each time.
    """
    moments = () if finding.kind is Kind.DANGLING_REFERENCE else finding.moments
    return {(finding.kind, each) for each in (*finding.names, *moments)}


def _state_of(timeline: Timeline[Any]) -> list[Any]:
    """Return what changes whenever the table goes on."""
    return [(each.identity, each.row().get("state")) for each in timeline.active(problems=[])]


# --- commits

_TABLES = 64
_RECORDS = 500_000
"""So many records of manifests and instants are remembered of tables other than the one committed to last.

One is some hundred bytes. The last one's are what its next commit is judged by, however many these are.
"""
_ADVICE = "Read the table again, and make the commit anew, upon the table as it is now"


class Commits:
    """Judges the commits of one filesystem's tables; ``fs`` returns it, and threads may call it."""

    def __init__(self, fs: Callable[[], Any]) -> None:
        # Without either, there is a ConfigError now.
        avro()
        roaring()
        self._open = fs
        self._fs: Any = None
        self.forget_process()

    def forget_process(self) -> None:
        """In a forked child: whoever holds a lock of the parent's will not give it back here."""
        # A folder may be the table of several formats, each of which has a memory of its own.
        self._bases: OrderedDict[tuple[str, str], tuple[Base, Lock]] = OrderedDict()
        self._lock = Lock()

    def judges(self, name: Name) -> bool:
        """Whether there are rules for a name; for what a command writes in place there are none."""
        is_command = name.replaced and name.series is None
        return name.format in _RULES and name.table is not None and not is_command

    def check(self, name: Name, written: bytes, seconds: float = 30.0) -> None:
        """Refuse a commit that would hurt its table, of a name that :meth:`judges`.

        In half of the ``seconds`` its files may be asked for; the rest passes. Who has waited for longer may
        have given up: then nothing is created. Nor is it after an error. ``Damaging`` says how it would hurt;
        ``OSError``: the store refuses to show the table, or that took too long.
        """
        began = monotonic()
        _, hurts = _RULES[str(name.format)]
        base, lock = self._base(str(name.format), str(name.table))
        with lock:
            base.until = began + seconds / 2
            try:
                findings = hurts(base, name, written)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                _log.warning("%s is created unjudged: %r is not what is known of it", name.path, error)
                return
            finally:
                self._forget()
        for each in findings:
            if each.severity is Severity.DAMAGE:
                raise Damaging(name.path, f"{each.detail}. {_ADVICE}")
        if monotonic() - began > seconds:
            raise TimeoutError(
                f"{name.path}: its table could not be looked at in {seconds:g} s, and nothing was created. "
                f"Try again, when some of it is known; or mount with a longer deadline, or without inspect"
            )

    def _base(self, of: str, table: str) -> tuple[Base, Lock]:
        with self._lock:
            self._fs = self._fs or self._open()
            found = self._bases.get((of, table)) or (Base(self._fs, table), Lock())
            self._bases[of, table] = found
            self._bases.move_to_end((of, table))
            return found

    def _forget(self) -> None:
        """Forget the tables that nobody has committed to for longest, as many as are too many."""
        with self._lock:
            others = sum(base.remembered for base, _ in list(self._bases.values())[:-1])
            while len(self._bases) > _TABLES or (others > _RECORDS and len(self._bases) > 1):
                _, (base, _) = self._bases.popitem(last=False)
                others -= base.remembered
