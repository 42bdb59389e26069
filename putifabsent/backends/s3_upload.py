"""Multipart uploads: parts sent a few at a time, by requests that may safely be sent again."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tenacity import AsyncRetrying

from putifabsent.backends.base import Absent, Refused, TryAgain
from putifabsent.backends.cancellation import or_undone
from putifabsent.backends.object_store import SourceGoneError, schedule
from putifabsent.backends.s3_client import is_absent, outcome_of, reading_of
from putifabsent.backends.streaming_upload import Growing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from putifabsent.backends.base import StageOutcome
    from putifabsent.backends.body import Body
    from putifabsent.backends.s3_client import Sender

_MOST_PARTS = 10_000
PART = 8 * 2**20  # bytes of a part, where the body does not want larger ones
_COPIED_PART = 256 * 2**20
_AT_ONCE = 4
_PATIENCE = 2.0


class UnreadableError(Exception):
    """The body can't be read; ``why`` says why. An OSError by itself would be taken for a lost answer."""

    def __init__(self, why: OSError) -> None:
        super().__init__(str(why))
        self.why = why


@dataclass
class Upload:
    """An open upload: where it is, and what it has.

    Each request takes what it knows of what it was opened with (``given``): a customer's key, say. The
    ``algorithm`` is of the checksums that the caller or the mount wants.
    """

    bucket: str
    key: str
    upload_id: str
    parts: list[dict[str, Any]] = field(default_factory=list)
    given: Mapping[str, Any] = field(default_factory=dict, repr=False)
    algorithm: str = ""

    @property
    def address(self) -> dict[str, Any]:
        """What every request about the upload says."""
        return {**self.given, "Bucket": self.bucket, "Key": self.key, "UploadId": self.upload_id}

    async def abort(self, sender: Sender) -> None:
        """Remove it, as well as that can be done."""
        with contextlib.suppress(Exception):
            await again(lambda: sender.call("abort_multipart_upload", **self.address))


async def open_upload(
    sender: Sender, bucket: str, key: str, parameters: Mapping[str, Any], algorithm: str
) -> Upload:
    """Open an upload. A cancellation waits a little for the answer: it alone says what is to be removed."""

    async def opened() -> Upload:
        answer = await sender.call("create_multipart_upload", Bucket=bucket, Key=key, **parameters)
        return Upload(bucket, key, answer["UploadId"], given=parameters, algorithm=algorithm)

    return await or_undone(opened(), lambda upload: upload.abort(sender), _PATIENCE)


async def send_parts(sender: Sender, upload: Upload, body: Body) -> None:
    """Send the body, so many parts at a time that memory stays bounded; a growing one as it grows."""

    async def send(number: int, start: int, stop: int) -> dict[str, Any]:
        try:
            data = await asyncio.to_thread(body.read, start, stop)
        except OSError as error:
            raise UnreadableError(error) from error
        return await _part(sender, "upload_part", upload, number, Body=data)

    pieces = body.pieces(PART) if isinstance(body, Growing) else _pieces(body.size, PART)
    await _parts(upload, pieces, send)


async def pinned(
    sender: Sender, bucket: str, key: str, size: int, version: str | None
) -> dict[str, Any] | Absent | TryAgain | Refused:
    """Return the parameters of a copy that reads this very object, or why there are none."""
    where = {"Bucket": bucket, "Key": key, **({"VersionId": version} if version else {})}
    if version and version != "null":
        return {"CopySource": where}
    # Where no versions are kept, another object takes the very place of this one.
    name = f"{bucket}/{key}"
    try:
        seen = await sender.call("head_object", **where)
    except Exception as error:  # noqa: BLE001 - what it means is decided in one place
        return reading_of(error, name)
    if seen["ContentLength"] != size:
        return Absent()
    if not seen.get("ETag"):
        return Refused(OSError(errno.ENOTSUP, "it has no entity tag to copy it by", name))
    return {"CopySource": where, "CopySourceIfMatch": seen["ETag"]}


async def copy_parts(sender: Sender, upload: Upload, source: Mapping[str, Any], size: int) -> None:
    """Have the store copy another object's bytes, part by part; ``source`` is from :func:`pinned`.

    Raises :class:`SourceGoneError` where that object is not there any more.
    """

    async def send(number: int, start: int, stop: int) -> dict[str, Any]:
        if start == stop:  # there is no range of no bytes
            return await _part(sender, "upload_part", upload, number, Body=b"")
        span = f"bytes={start}-{stop - 1}"
        try:
            answer = await _part(sender, "upload_part_copy", upload, number, CopySourceRange=span, **source)
        except Exception as error:
            if is_absent(error):
                raise SourceGoneError(str(error)) from error
            raise
        result: dict[str, Any] = answer["CopyPartResult"]
        return result

    await _parts(upload, _pieces(size, _COPIED_PART), send)


def staging_of(error: Exception, name: str) -> StageOutcome:
    """Say what a failure means for bytes that are not staged."""
    if isinstance(error, SourceGoneError):
        return Absent()
    if isinstance(error, UnreadableError):
        return Refused(error.why)
    outcome = outcome_of(error, name)
    return outcome if isinstance(outcome, Refused) else TryAgain(error)


async def _pieces(size: int, length: int) -> AsyncIterator[tuple[int, int]]:
    length = max(length, -(-size // _MOST_PARTS))
    for start in range(0, max(size, 1), length):
        yield start, min(start + length, size)


async def _parts(
    upload: Upload,
    pieces: AsyncIterator[tuple[int, int]],
    send: Callable[[int, int, int], Awaitable[dict[str, Any]]],
) -> None:
    tasks: list[asyncio.Task[dict[str, Any]]] = []
    pending: set[asyncio.Task[dict[str, Any]]] = set()
    checksum = f"Checksum{upload.algorithm}"

    async def one(number: int, start: int, stop: int) -> dict[str, Any]:
        answer = await send(number, start, stop)
        # The client has sent a checksum with each part already, and some servers refuse it a second time. S3
        # wants it at the end as well, where its algorithm was chosen.
        again = {checksum: answer[checksum]} if checksum in answer else {}
        return {"PartNumber": number, "ETag": answer["ETag"], **again}

    try:
        async for start, stop in pieces:
            if len(pending) == _AT_ONCE:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            if len(tasks) == _MOST_PARTS:
                # At its end it is staged anew. Parts that grow some stores would refuse (Cloudflare R2).
                raise UnreadableError(OSError(errno.EFBIG, "it grew beyond what so many parts can hold"))
            tasks.append(asyncio.ensure_future(one(len(tasks) + 1, start, stop)))
            pending.add(tasks[-1])
        upload.parts = await asyncio.gather(*tasks)
    finally:
        # A part that is still on its way would outlive the abort of its upload.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _part(sender: Sender, method: str, upload: Upload, number: int, **what: Any) -> dict[str, Any]:
    return await again(lambda: sender.call(method, **upload.address, PartNumber=number, **what))


async def again(send: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Send a request that publishes nothing until it is answered, a few times at most."""
    async for attempt in AsyncRetrying(**schedule(outcome_of)):
        with attempt:
            return await send()
    raise AssertionError
