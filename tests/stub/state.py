"""What the stub holds: objects and their history, open uploads. One for all three clouds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Name: TypeAlias = tuple[str, str]
"""A bucket (Azure: a container) and a key."""


@dataclass(frozen=True)
class StoredObject:
    """An object as it was written once; it is replaced, never changed.

    Attributes
    ----------
    generation
        Counts every write of the stub: what GCS shows, and what tells two objects of a name apart.
    version_id
        What S3 shows where the stub is versioned, else None.
    encoding
        What GCS keeps compressed, it unpacks for who reads it; of Azure the client does.
    """

    data: bytes = field(repr=False)
    metadata: dict[str, str]
    etag: str
    generation: int
    last_modified: datetime
    version_id: str | None = None
    content_type: str = "application/octet-stream"
    encoding: str = ""


@dataclass
class Upload:
    """What a writer has sent and not published: S3's uploads, GCS's sessions, Azure's loose blocks.

    Azure's blocks belong to a blob's name, whoever sent them: such an upload's ``id`` is the name.

    Attributes
    ----------
    spent
        S3 wants a new upload after a 409 to the completion of one; it must still be aborted.
    generation_match
        What GCS's session was asked to check when it ends.
    begun
        When it was opened: AWS dates by that what came in parts.
    customer_key
        Headers that each of S3's parts must have, too.
    checksum
        The algorithm of which S3 wants each part's checksum, with the part and at the end.
    """

    id: str
    bucket: str
    key: str
    metadata: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/octet-stream"
    parts: dict[str, bytes] = field(default_factory=dict)
    spent: bool = False
    generation_match: str | None = None
    begun: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    customer_key: dict[str, str] = field(default_factory=dict)
    checksum: str = ""


class Page(NamedTuple):
    """One page of a listing; ``more`` is where the next one starts, or empty."""

    objects: list[tuple[str, StoredObject]]
    prefixes: list[str]
    more: str


class State:
    """Everything that requests change. Only the stub's loop may touch it.

    Attributes
    ----------
    objects
        What is readable now.
    history
        By name: every object that was ever written, and None for each deletion, in order.
    versions
        By name, oldest first: S3's versions; None in place of an object is a delete marker.
    uploads
        By id: what is open.
    committed
        By name: the blocks of which an Azure blob consists.
    """

    def __init__(self, buckets: Iterable[str], *, versioned: bool = False, largest_page: int = 1000) -> None:
        self.buckets = set(buckets)
        self.largest_page = largest_page
        self.versioned = versioned
        self.objects: dict[Name, StoredObject] = {}
        self.history: dict[Name, list[StoredObject | None]] = {}
        self.versions: dict[Name, dict[str, StoredObject | None]] = {}
        self.uploads: dict[str, Upload] = {}
        self.committed: dict[Name, dict[str, bytes]] = {}
        self._generations = count(1)

    def put(
        self,
        bucket: str,
        key: str,
        data: bytes,
        metadata: Mapping[str, str] | None = None,
        *,
        content_type: str = "application/octet-stream",
        encoding: str = "",
        etag: str | None = None,
        last_modified: datetime | None = None,
    ) -> StoredObject:
        """Write, whatever was there."""
        generation = next(self._generations)
        written = StoredObject(
            bytes(data),
            dict(metadata or {}),
            etag or hashlib.md5(data, usedforsecurity=False).hexdigest(),
            generation,
            last_modified or datetime.now(timezone.utc),
            f"version-{generation}" if self.versioned else None,
            content_type,
            encoding,
        )
        self.objects[bucket, key] = written
        self.history.setdefault((bucket, key), []).append(written)
        self.committed.pop((bucket, key), None)
        if written.version_id:
            self.versions.setdefault((bucket, key), {})[written.version_id] = written
        return written

    def delete(self, bucket: str, key: str, version_id: str | None = None) -> str | None:
        """Remove the name, or one version of it.

        Returns
        -------
        str or None
            The id of the delete marker that was put instead, where the stub is versioned.
        """
        name = (bucket, key)
        before = self.objects.pop(name, None)
        marker = None
        if self.versioned:
            versions = self.versions.setdefault(name, {})
            if version_id is None:
                marker = f"version-{next(self._generations)}"
                versions[marker] = None
            else:
                versions.pop(version_id, None)
            newest = next(reversed(versions.values()), None)
            if newest is not None:
                self.objects[name] = newest
        if before is not self.objects.get(name):
            self.history[name].append(self.objects.get(name))
        self.committed.pop(name, None)
        return marker

    def clear(self) -> None:
        """Forget all but the buckets."""
        for held in (self.objects, self.history, self.versions, self.uploads, self.committed):
            held.clear()

    def new_upload(self, bucket: str, key: str, metadata: Mapping[str, str], content_type: str) -> Upload:
        """Open an upload with an id of its own."""
        upload = Upload(f"upload-{next(self._generations)}", bucket, key, dict(metadata), content_type)
        self.uploads[upload.id] = upload
        return upload

    def page(self, bucket: str, prefix: str, delimiter: str, after: str, limit: int) -> Page:
        """List the keys above ``after``, those with a common folder as that folder."""
        limit = min(limit, self.largest_page)
        objects: list[tuple[str, StoredObject]] = []
        prefixes: list[str] = []
        last = ""
        for key in sorted(k for b, k in self.objects if b == bucket and k.startswith(prefix) and k > after):
            rest = key[len(prefix) :]
            folder = prefix + rest.split(delimiter)[0] + delimiter if delimiter and delimiter in rest else ""
            if folder in prefixes:
                last = key
                continue
            if len(objects) + len(prefixes) == limit:
                return Page(objects, prefixes, last)
            if folder:
                prefixes.append(folder)
            else:
                objects.append((key, self.objects[bucket, key]))
            last = key
        return Page(objects, prefixes, "")
