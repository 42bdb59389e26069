"""A dataset of committed sets, in a guarded filesystem: read, written to, and committed to by one create."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, Any

from putifabsent.errors import ConfigError, Fenced, NameTaken, OutcomeUnknown
from putifabsent.fsspec_plugin.protocols import guarded
from putifabsent.spark.sets import FILES, SETS, File, Record, Seen, State, carrier_of, name_of, number_of
from putifabsent.spark.stores import address_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from putifabsent.spark.sets import Offer

_ROUNDS = 100  # so often another may be faster; in every round somebody commits


class Dataset:
    """A folder of committed sets, ``root``, in a guarded filesystem, ``fs``; ``newest`` is its last record.

    Its address is a guarded one, or a plain one that means its guarded kind, as Hadoop spells it too
    (``s3a://...``, ``file:/...``); the options are of the filesystem and of its mount.
    """

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        own = dict(options or {})
        address = address_of(url)
        if address.startswith(("file:", "local:", "piafile:")):
            own.setdefault("auto_mkdir", True)
        guard = own.get("guard", ())
        # For readers, too: where a registry decides, a record may be committed and not yet published.
        own["guard"] = [*([guard] if isinstance(guard, str) else guard), f"**/{SETS}/*.json"]
        self.fs, self.root = guarded(address, **{"formats": "none", **own})
        self._url = url
        self._state = State()
        self.newest: Record | None = None

    def state(self) -> State:
        """Return what all records come to, now."""
        last = self._last()
        if last < self._state.last:
            self._state, self.newest = State(), None  # somebody has removed them, and begun again
        if last > self._state.last:
            first = carrier_of(last)
            upon = self._state if self._state.last >= first else State()
            records = self.records(max(first, upon.last + 1), last)
            self._state, self.newest = State.of(records, upon), records[-1]
        return self._state

    def records(self, first: int, last: int) -> list[Record]:
        """Return records by their numbers, both ends included; ``FileNotFoundError``: one was removed."""
        names = [f"{self.root}/{SETS}/{name_of(number)}" for number in range(first, last + 1)]
        # By their names: `cat` would take one for a pattern.
        found = self.fs.cat_ranges(names, None, None)
        if error := next((each for each in found if isinstance(each, Exception)), None):
            raise error
        return [Record.decode(name, content) for name, content in zip(names, found, strict=True)]

    def _last(self) -> int:
        folder = f"{self.root}/{SETS}"
        self.fs.fs.invalidate_cache(folder)  # others' records must be seen
        try:
            listed = self.fs.ls(folder, detail=False)
        except FileNotFoundError:
            return 0
        return max((number_of(name.rpartition("/")[2]) or 0 for name in listed), default=0)

    @property
    def seen(self) -> Seen | None:
        """The newest record, when it was looked for last; None: there was none."""
        return None if self.newest is None else Seen(self.newest.number, self.newest.offer.token)

    @property
    def address(self) -> str:
        """Its guarded address, however it was spelt."""
        return str(self.fs.unstrip_protocol(self.root))

    def commit(self, offer: Offer, *, seen: Seen | None = None) -> int | None:
        """Commit a set by one create, and return the record's number.

        ``seen`` is the newest record, as the job saw it that offers the set.

        None: this batch of the stream was committed before, and nothing is added. ``NameTaken``, ``Fenced``,
        ``ConfigError``: it was not committed, certainly; its files are removed. ``OutcomeUnknown``: it can't
        be known; nothing is removed.
        """
        try:
            number = self._commit(offer, seen)
        except (NameTaken, Fenced, ConfigError):
            self.discard(offer.files)
            raise
        if number is None:
            committed = {file.path for file in self._state.files}
            self.discard(file for file in offer.files if file.path not in committed)
        return number

    def admits(self, offer: Offer, seen: Seen | None) -> bool:
        """Whether a set may be committed to what was there last; see :meth:`State.admits` for the errors."""
        if seen is not None and not self._has(seen):
            raise Fenced(
                f"{self._url} was removed, or made again, since this job began, or has loaded it: nothing is "
                "committed. Run it again"
            )
        return self._state.admits(offer, self._url)

    def _has(self, seen: Seen) -> bool:
        if seen.number >= self._state.last:
            return self.seen == seen
        try:
            (record,) = self.records(seen.number, seen.number)
        except FileNotFoundError:
            return False
        return record.offer.token == seen.token

    def _commit(self, offer: Offer, seen: Seen | None) -> int | None:
        taken: NameTaken | None = None
        for _ in range(_ROUNDS):
            self.state()
            if not self.admits(offer, seen):
                return None
            if seen is None:
                self._refuse_lost(offer)
            record = Record.next(self._state, offer)
            try:
                self._create(record)
            except NameTaken as error:
                taken = error
            else:
                return record.number
        raise Fenced(
            f"others have committed to {self._url} {_ROUNDS} times in the meantime: run it again"
        ) from taken

    def _refuse_lost(self, offer: Offer) -> None:
        """Refuse a set whose files have gone with the dataset that they were written to.

        A stream, and who saw no record, can't tell that dataset from the one that is there.
        """
        looks = self.fs.cat_ranges([f"{self.root}/{file.path}" for file in offer.files], 0, 1)
        for error in (each for each in looks if isinstance(each, Exception)):
            if not isinstance(error, FileNotFoundError):
                raise error
            raise Fenced(f"{self._url} was removed since this was written: nothing is committed") from error

    def _create(self, record: Record) -> None:
        name = f"{self.root}/{SETS}/{record.name}"
        try:
            self.fs.pipe_file(name, record.encode(), mode="create")
        except OutcomeUnknown as unknown:
            if self.fs.resolve(name, unknown.token) is None:
                raise

    def write(self, batches: Iterable[pa.RecordBatch], part: int) -> File | None:
        """Write a file, with the task's number in its name, that no set names yet; None: it has no rows."""
        import pyarrow.parquet as pq

        rest = (batch for batch in batches if batch.num_rows)
        first = next(rest, None)
        if first is None:
            return None
        rows = 0
        path = f"{FILES}/part-{part:05d}-{uuid.uuid4()}.parquet"
        try:
            with self.fs.open(f"{self.root}/{path}", "wb") as file:
                with pq.ParquetWriter(file, first.schema) as writer:
                    for batch in (first, *rest):
                        writer.write_batch(batch)
                        rows += batch.num_rows
                size = file.tell()
        except BaseException:
            self.discard([File(path, 0, 0)])
            raise
        return File(path, rows, size)

    def read(self, path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read columns of a file."""
        import pyarrow.parquet as pq

        with self.fs.open(f"{self.root}/{path}", "rb") as file, pq.ParquetFile(file) as parquet:
            wanted = None if set(schema.names) == set(parquet.schema_arrow.names) else schema.names
            for batch in parquet.iter_batches(columns=wanted):
                yield batch.select(schema.names).cast(schema)

    def discard(self, files: Iterable[File]) -> None:
        """Remove files that no set names, as far as that can be done: what is left of them is harmless."""
        for file in files:
            with contextlib.suppress(Exception):
                self.fs.rm_file(f"{self.root}/{file.path}")
