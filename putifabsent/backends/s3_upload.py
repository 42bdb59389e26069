"""Multipart uploads: parts sent a few at a time, by requests that may safely be sent again."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from putifabsent.backends.base import Maybe, TryAgain
from putifabsent.backends.s3_sender import outcome_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from putifabsent.backends.body import Body
    from putifabsent.backends.s3_sender import Sender

__all__ = ["Upload", "copy_parts", "send_parts"]

_MOST_PARTS = 10_000
_PART = 8 * 2**20
_COPIED_PART = 256 * 2**20
_AT_ONCE = 4
_SENDS = 5


@dataclass
class Upload:
    """An open upload: where it is, and what it has."""

    bucket: str
    key: str
    upload_id: str
    parts: list[dict[str, Any]] = field(default_factory=list)

    @property
    def address(self) -> dict[str, str]:
        """What every request about the upload says."""
        return {"Bucket": self.bucket, "Key": self.key, "UploadId": self.upload_id}

    async def abort(self, sender: Sender) -> None:
        """Remove it, as well as that can be done."""
        with contextlib.suppress(Exception):
            await _again(self.key, lambda: sender.call("abort_multipart_upload", **self.address))


async def send_parts(sender: Sender, upload: Upload, body: Body) -> None:
    """Send the body, so many parts at a time that memory stays bounded."""

    async def send(number: int, start: int, stop: int) -> dict[str, Any]:
        data = await asyncio.to_thread(body.read, start, stop)
        return await sender.call("upload_part", **upload.address, PartNumber=number, Body=data)

    await _parts(upload, body.size, _PART, send)


async def copy_parts(sender: Sender, upload: Upload, source: dict[str, str], size: int) -> None:
    """Have the store copy another object's bytes, part by part."""

    async def send(number: int, start: int, stop: int) -> dict[str, Any]:
        if start == stop:  # there is no range of no bytes
            return await sender.call("upload_part", **upload.address, PartNumber=number, Body=b"")
        answer = await sender.call(
            "upload_part_copy",
            **upload.address,
            PartNumber=number,
            CopySource=source,
            CopySourceRange=f"bytes={start}-{stop - 1}",
        )
        result: dict[str, Any] = answer["CopyPartResult"]
        return result

    await _parts(upload, size, _COPIED_PART, send)


async def _parts(
    upload: Upload,
    size: int,
    length: int,
    send: Callable[[int, int, int], Awaitable[dict[str, Any]]],
) -> None:
    length = max(length, -(-size // _MOST_PARTS))
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(number: int, start: int) -> dict[str, Any]:
        async with places:
            answer = await _again(upload.key, lambda: send(number, start, min(start + length, size)))
        # The client has sent a checksum with each part already; some servers refuse it a second time.
        return {"PartNumber": number, "ETag": answer["ETag"]}

    tasks = [
        asyncio.ensure_future(one(number, start))
        for number, start in enumerate(range(0, max(size, 1), length), start=1)
    ]
    try:
        upload.parts = await asyncio.gather(*tasks)
    finally:
        # A part that is still on its way would outlive the abort of its upload.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _again(name: str, send: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Send a request that publishes nothing until it is answered, a few times at most."""
    schedule = AsyncRetrying(
        retry=retry_if_exception(lambda error: isinstance(outcome_of(error, name), (Maybe, TryAgain))),
        stop=stop_after_attempt(_SENDS),
        wait=wait_random_exponential(multiplier=0.05, max=2),
        reraise=True,
    )
    async for attempt in schedule:
        with attempt:
            return await send()
    raise AssertionError
