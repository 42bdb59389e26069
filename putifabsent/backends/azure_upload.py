"""Large blobs: blocks that nobody can read, and the list of them that creates the blob.

Loose blocks belong to a blob's name, whoever sent them, and differ by their ids alone. The client's
own parallel upload numbers them by offset: two writers of one name would commit a mixture of their bytes.
Here every staging has ids of its own, so a list can hold no other's block, and a late one changes nothing.

A commit of the name, or a single put, throws all other loose blocks away; what nobody commits the service
removes after a week. No request removes them.

Source: "Put Block" and "Put Block List" in the Blob service REST API reference.
"""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobBlock
from tenacity import Retrying

from putifabsent.backends.azure_client import code_of, outcome_of
from putifabsent.backends.cancellation import stop_here
from putifabsent.backends.object_store import SourceGoneError, StoredBody, schedule

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from azure.storage.blob import BlobClient

    from putifabsent.backends.body import Body

    T = TypeVar("T")

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

    def listed(self) -> list[BlobBlock]:
        """Return the list to commit."""
        return [BlobBlock(block_id=each) for each in self.ids]


def blob_body(client: BlobClient, etag: str, size: int) -> Body:
    """Return the bytes of a blob as it was found, all of the same entity tag."""
    same: dict[str, Any] = {"etag": etag, "match_condition": MatchConditions.IfNotModified}

    def fetch(start: int, stop: int) -> bytes:
        try:
            return bytes(client.download_blob(start, stop - start, **same).readall())
        except HttpResponseError as error:
            if code_of(error) in _REPLACED:
                raise SourceGoneError(f"{client.blob_name} was removed or replaced") from error
            raise

    return StoredBody(client.blob_name, size, lambda start, stop: _again(lambda: fetch(start, stop)))


def send_blocks(client: BlobClient, body: Body, params: dict[str, Any]) -> list[str]:
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

        _again(put)
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


def _again(send: Callable[[], T]) -> T:
    """Send what publishes nothing, a few times at most."""
    return Retrying(**schedule(outcome_of))(send)
