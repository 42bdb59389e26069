"""Azure Blob Storage: ``If-None-Match: *``.

Small bodies go in one Put Blob, large ones in blocks whose list creates the blob. The client is
azure-storage-blob's synchronous one, without its retries.

Source: the Blob service REST API reference, and its "Specifying conditional headers".
"""

from __future__ import annotations

import errno
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, HttpResponseError
from azure.storage.blob import BlobBlock, BlobProperties, ContentSettings

from putifabsent.backends import base
from putifabsent.backends.azure_client import Sender, code_of, outcome_of
from putifabsent.backends.concurrency import stop_here
from putifabsent.backends.object_store import (
    FOR_FSSPEC,
    SourceGoneError,
    StoredBody,
    again,
    are_texts,
    bad_key,
    deleting,
    is_unpacked,
    own_metadata,
    reading,
    repeated_page,
    unconditional,
)
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from adlfs import AzureBlobFileSystem
    from azure.core.paging import ItemPaged
    from azure.storage.blob import BlobClient, ContainerClient


_FILE = {"is_directory": "false"}  # how adlfs marks a blob that is no folder
_WITH_BLOCKS = {"encryption_scope", "timeout", "validate_content"}
_WITH_BLOB = _WITH_BLOCKS | {
    "content_settings",
    "immutability_policy",
    "legal_hold",
    "metadata",
    "standard_blob_tier",
    "tags",
}
_FOR_THE_CLIENT = FOR_FSSPEC | {"connection_timeout", "max_concurrency", "overwrite", "read_timeout"}
# What a copy takes over from its source, and what goes with the bytes of a put alone.
_OF_THE_SOURCE = {"content_settings", "metadata", "validate_content"}
_NO_CONTAINER = {"ContainerBeingDeleted", "ContainerDisabled", "ContainerNotFound"}
_NOT_AZURE = "what answered is not Azure, but some proxy's page"
_LOST_BLOCKS = {"BlobNotFound", "InvalidBlobOrBlock", "InvalidBlockId", "InvalidBlockList"}


class AzureStore(base.Store):
    """The store behind an ``adlfs.AzureBlobFileSystem``.

    No single request is waited for longer than ``deadline`` seconds, unless ``read_timeout`` says so.
    """

    kind: ClassVar[str] = "azure"
    # What a lost answer sends again, and what is held in memory.
    largest_put = 16 * 2**20
    # What the service copies before it answers.
    largest_publish = 256 * 2**20

    def __init__(self, fs: AzureBlobFileSystem, options: Mapping[str, Any], deadline: float) -> None:
        self._sender = Sender(fs, options, deadline)
        # The service's own time-out, which adlfs adds to each put and each read.
        self._every = {"timeout": options["timeout"]} if options.get("timeout") is not None else {}

    def endpoint(self) -> str:
        return self._sender.endpoint

    def create(self, name: str, body: base.Body, creation: base.Creation) -> base.CreateOutcome:
        """``Put Blob`` with ``If-None-Match: *``."""
        try:
            return self._put(name, body, creation, overwrite=False)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return outcome_of(error, name)

    def head(self, name: str) -> base.HeadOutcome:
        """``Get Blob Properties``."""
        try:
            found = self._sender.blob(*_split(name)).get_blob_properties(**self._every)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return reading(outcome_of(error, name), error)
        if not found.blob_type:
            return base.TryAgain(OSError(errno.EPROTO, _NOT_AZURE, name))
        # Header names: whoever is between may have changed their case.
        metadata = {key.lower(): value for key, value in (found.metadata or {}).items()}
        marks = metadata.get(base.TOKEN_KEY), metadata.get(base.WRITER_KEY)
        holder = base.Holder(*marks, found.last_modified, found.size or 0, found.etag)
        # Of its digest a copy makes its own.
        found.content_settings.content_md5 = None
        if unpacked := is_unpacked(found.content_settings.content_encoding):
            found.content_settings.content_encoding = None
        kept = {"content_settings": found.content_settings, "metadata": own_metadata(metadata)}
        return base.Found(holder, properties=kept, is_unpacked=unpacked)

    def time(self, name: str) -> datetime | None:
        """The ``Date`` of an answer about the blob's properties."""
        dates: list[str | None] = []
        try:
            self._sender.blob(*_split(name)).get_blob_properties(
                raw_response_hook=lambda answer: dates.append(answer.http_response.headers.get("Date")),
                **self._every,
            )
        except Exception as error:  # noqa: BLE001 - without a time nothing is claimed
            answer = getattr(error, "response", None)
            dates.append(None if answer is None else answer.headers.get("Date"))
        return base.http_date(dates[-1]) if dates else None

    def get(self, name: str) -> base.GetOutcome:
        """``Get Blob``."""
        try:
            return base.Got(_download(self._sender.blob(*_split(name)), **self._every))
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return reading(outcome_of(error, name), error)

    def list(self, folder: str) -> base.ListOutcome:
        """``List Blobs``, page by page."""
        return self._listed(
            folder, lambda container, prefix: container.walk_blobs(prefix, delimiter="/", **self._every)
        )

    def walk(self, folder: str) -> base.ListOutcome:
        """``List Blobs`` with no delimiter, page by page."""
        return self._listed(folder, lambda container, prefix: container.list_blobs(prefix, **self._every))

    def _listed(
        self, folder: str, listing: Callable[[ContainerClient, str], ItemPaged[Any]]
    ) -> base.ListOutcome:
        container, _, prefix = (folder.rstrip("/") + "/").partition("/")
        entries: list[base.Entry] = []
        try:
            pages: Any = listing(self._sender.container(container), prefix).by_page()
            before = None
            for page in pages:
                entries += (
                    base.Entry(f"{container}/{each.name}", each.last_modified, each.etag)
                    for each in page
                    if isinstance(each, BlobProperties)
                )
                if before is not None and pages.continuation_token == before:
                    return repeated_page(folder)
                before = pages.continuation_token
            return base.Listed(tuple(entries))
        except AttributeError as error:  # of an answer that holds nothing the client makes no page
            return base.TryAgain(error)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            outcome = reading(outcome_of(error, folder), error)
            return base.Listed(()) if isinstance(outcome, base.Absent) else outcome

    def delete(self, name: str, version: str | None = None) -> base.DeleteOutcome:
        """``Delete Blob``; with ``version``, only while that is its entity tag."""
        same: dict[str, Any] = {"etag": version, "match_condition": MatchConditions.IfNotModified}
        try:
            self._sender.blob(*_split(name)).delete_blob(**(same if version else {}), **self._every)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            outcome, code = outcome_of(error, name), code_of(error)
            if not isinstance(outcome, base.Exists):
                return deleting(outcome, error)
            # The condition means that another blob is there by now; a lease or a policy keeps this one.
            if code == "ConditionNotMet":
                return base.Deleted()
            return base.refused(errno.EPERM, f"it can't be deleted: {code}", name, error)
        return base.Deleted()

    def put(self, name: str, body: base.Body, creation: base.Creation) -> base.PutOutcome:
        """``Put Blob`` with no condition; a large one as blocks."""
        try:
            if body.size <= self.largest_put:
                return unconditional(self._put(name, body, creation, overwrite=True), name)
            staged = self.stage(name, body, creation)
            if not isinstance(staged, base.Staged):
                return unconditional(staged, name)
            return unconditional(self._commit(staged), name)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return unconditional(outcome_of(error, name), name, error)

    def publish(self, source: str, name: str, creation: base.Creation) -> base.PublishOutcome:
        """``Copy Blob From URL``, with no metadata of its own: the source's go with it.

        The synchronous copy. The other one leaves an empty blob under the name until it is done.
        """
        try:
            params = self._params(creation)
            kept = {key: value for key, value in params.items() if key not in _OF_THE_SOURCE}
            origin = self._sender.blob(*_split(source))
            answer = self._sender.blob(*_split(name)).start_copy_from_url(
                **self._sender.readable(origin), requires_sync=True, **kept
            )
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            outcome = unconditional(outcome_of(error, name), name, error)
            return self._missing(source, outcome) if isinstance(outcome, base.Refused) else outcome
        status = answer.get("copy_status")
        if status != "success":
            return base.Maybe(OSError(errno.EIO, f"the copy's status is {status!r}", name))
        return unconditional(_created(answer, name), name)

    def stage(self, name: str, body: base.Body, creation: base.Creation) -> base.StageOutcome:
        """``Put Block``, a few at a time."""
        try:
            params = self._params(creation)
            client = self._sender.blob(*_split(name))
            with_blocks = {key: value for key, value in params.items() if key in _WITH_BLOCKS}
            return base.Staged(name, Blocks(_send_blocks(client, body, with_blocks), params))
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return _staging(error, name)

    def stage_copy(
        self, source: str, size: int, version: str | None, name: str, creation: base.Creation
    ) -> base.StageOutcome:
        """As :meth:`stage`, with bytes read from the source in ranges, all of the same entity tag.

        The service could read them itself, but only from a source that needs no credentials of ours.
        """
        if version is None:
            seen = self.head(source)
            if not isinstance(seen, base.Found):
                return seen
            size, version = seen.holder.size, str(seen.holder.version)
        try:
            body = _blob_body(self._sender.blob(*_split(source)), version, size)
        except OSError as error:
            return base.Refused(error)
        return self.stage(name, body, creation)

    def complete(self, staged: base.Staged) -> base.CompleteOutcome:
        """``Put Block List`` with ``If-None-Match: *``."""
        return self._commit(staged, match_condition=MatchConditions.IfMissing)

    def discard(self, staged: base.Staged) -> None:
        """Forget the blocks. No request removes them; the service does, after a week or at the next put."""
        blocks: Blocks = staged.upload
        blocks.over = True

    def _commit(self, staged: base.Staged, **condition: Any) -> base.CompleteOutcome:
        blocks: Blocks = staged.upload
        if blocks.over:
            return base.Gone()
        try:
            answer = self._sender.blob(*_split(staged.name)).commit_block_list(
                [BlobBlock(block_id=each) for each in blocks.ids], **condition, **blocks.params
            )
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            # Somebody's put, commit or deletion of the name has thrown the blocks away.
            return base.Gone() if code_of(error) in _LOST_BLOCKS else outcome_of(error, staged.name)
        return _created(answer, staged.name)

    def _missing(self, source: str, refused: base.Refused) -> base.Absent | base.TryAgain | base.Refused:
        """Say what a refused copy means: a source that it may not read, the service calls missing, too."""
        if not isinstance(refused.error, FileNotFoundError):
            return refused
        if code_of(refused.error.__cause__ or refused.error) in _NO_CONTAINER:
            return refused
        seen = self.head(source)
        if isinstance(seen, base.Found):
            return base.refused(errno.EACCES, "the service may not read it to copy it", source, refused.error)
        return seen

    def _put(
        self, name: str, body: base.Body, creation: base.Creation, *, overwrite: bool
    ) -> base.CreateOutcome:
        params, data = self._params(creation), body.whole()
        answer = self._sender.blob(*_split(name)).upload_blob(
            data, length=len(data), overwrite=overwrite, **params
        )
        return _created(answer, name)

    def _params(self, creation: base.Creation) -> dict[str, Any]:
        extra = {key: value for key, value in creation.extra.items() if key not in _FOR_THE_CLIENT}
        unknown = extra.keys() - _WITH_BLOB
        if unknown:
            raise base.unsupported(self.kind, unknown)
        texts = [extra.get(key) or {} for key in ("metadata", "tags")]
        if not all(map(are_texts, texts)):
            raise ConfigError("metadata and tags must map strings to strings")
        if isinstance(extra.get("content_settings"), dict):
            extra["content_settings"] = ContentSettings(**extra["content_settings"])
        marks = {base.TOKEN_KEY: creation.token, base.WRITER_KEY: creation.writer}
        return {**self._every, **extra, "metadata": {**_FILE, **texts[0], **marks}}


def _split(name: str) -> tuple[str, str]:
    container, _, key = name.partition("/")
    if refused := bad_key(name, key):
        raise refused.error
    # In an address these steps lead to another blob.
    if not {".", ".."}.isdisjoint(key.split("/")):
        raise OSError(errno.EINVAL, "a name with '.' or '..' in its path is another blob's on Azure", name)
    return container, key


def _download(client: BlobClient, *span: int, **options: Any) -> bytes:
    try:
        return bytes(client.download_blob(*span, **options).readall())
    except ValueError as error:  # what it wants of a range is not in the answer
        raise AzureError(_NOT_AZURE) from error


def _created(answer: Mapping[str, Any], name: str) -> base.Created | base.Maybe:
    # What was applied has an entity tag; an answer without one is some proxy's.
    if etag := answer.get("etag"):
        return base.Created(str(etag), answer.get("date"))
    return base.Maybe(OSError(errno.EIO, "the answer has no ETag", name))


def _staging(error: Exception, name: str) -> base.StageOutcome:
    """Say what a failure means for bytes that are not staged."""
    if isinstance(error, SourceGoneError):
        return base.Absent()
    if code_of(error) == "InvalidBlobOrBlock":
        why = (
            "another program has left loose blocks under this name, with ids of another length: "
            "they go within a week of the last one, or with the next put of the name"
        )
        return base.refused(errno.EBUSY, why, name, error)
    outcome = outcome_of(error, name)
    if isinstance(outcome, base.Exists):
        # A leased blob refuses its blocks: whoever completes will look who holds the name.
        return base.Staged(name, Blocks([], {}, over=True))
    return outcome if isinstance(outcome, base.Refused) else base.TryAgain(error)


# --- blocks
#
# Loose blocks belong to a blob's name, whoever sent them, and differ by their ids alone. The client's own
# parallel upload numbers them by offset: two writers of one name would commit a mixture of their bytes. Here
# every staging has ids of its own, so a list can hold no other's block, and a late one changes nothing.
#
# A commit of the name, or a single put, throws all other loose blocks away; what nobody commits the service
# removes after a week. No request removes them. Source: "Put Block" and "Put Block List" in the reference.

_BLOCK = 8 * 2**20
_MOST_BLOCKS = 50_000
_AT_ONCE = 4
_REPLACED = {"BlobNotFound", "ConditionNotMet", "ContainerNotFound"}


@dataclass
class Blocks:
    """What a staging has sent, and ``params``, what the blob is to say of itself.

    Nothing can come of one that is ``over``: it was discarded, or an answer was that the name is there.
    """

    ids: list[str]
    params: dict[str, Any]
    over: bool = False


def _blob_body(client: BlobClient, etag: str, size: int) -> base.Body:
    """Return the bytes of a blob as it was found, all of the same entity tag."""
    same: dict[str, Any] = {"etag": etag, "match_condition": MatchConditions.IfNotModified}

    def fetch(start: int, stop: int) -> bytes:
        try:
            return _download(client, start, stop - start, **same)
        except HttpResponseError as error:
            if code_of(error) in _REPLACED:
                raise SourceGoneError(f"{client.blob_name} was removed or replaced") from error
            raise

    return StoredBody(client.blob_name, size, lambda *span: again(outcome_of, lambda: fetch(*span)))


def _send_blocks(client: BlobClient, body: base.Body, params: dict[str, Any]) -> list[str]:
    """Send the body, so many blocks at a time that memory stays bounded, and return their ids."""
    # All blocks of a name must have ids of one length: 32 is that of adlfs' own, which may lie there.
    staging = uuid.uuid4().hex[:27]
    length = max(_BLOCK, -(-body.size // _MOST_BLOCKS))
    stopped = stop_here()

    def send(number: int, start: int, stop: int) -> str:
        block = f"{staging}{number:05d}"
        data = body.read(start, stop)

        def put() -> None:
            stopped.heed()
            client.stage_block(block, data, len(data), **params)

        again(outcome_of, put)
        return block

    threads = ThreadPoolExecutor(_AT_ONCE, "putifabsent-block")
    try:
        sent = [
            threads.submit(send, number, start, stop)
            for number, (start, stop) in enumerate(body.ranges(length))
            if stop > start
        ]
        ids = [each.result() for each in sent]
    except BaseException as error:
        stopped.set()
        # A late block changes nothing: whoever interrupts need not wait for it.
        threads.shutdown(wait=isinstance(error, Exception), cancel_futures=True)
        raise
    threads.shutdown()
    return ids
