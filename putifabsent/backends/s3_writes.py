"""The requests that write, by aiobotocore: with everything that mount and caller add, and each sent once."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from putifabsent.backends.base import Absent, Created, Gone, Maybe, Refused
from putifabsent.backends.refusals import read_whole, unconditional
from putifabsent.backends.s3_sender import date_of, has_no_source, outcome_of
from putifabsent.backends.s3_words import OF_THE_SOURCE, of_a_copy, of_a_creation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from putifabsent.backends.base import (
        CompleteOutcome,
        CreateOutcome,
        Creation,
        PublishOutcome,
        Staged,
    )
    from putifabsent.backends.body import Body
    from putifabsent.backends.s3_sender import Sender
    from putifabsent.backends.s3_upload import Upload

    Place = tuple[str, str]

__all__ = ["Writes"]

_ONLY_IF_ABSENT = {"IfNoneMatch": "*"}


class Writes:
    """Writes objects through a sender.

    Parameters
    ----------
    sender
        Sends.
    added
        What the mount adds to puts; the sender does so, but a copy must know it.
    """

    def __init__(self, sender: Sender, added: Mapping[str, Any]) -> None:
        self._sender = sender
        self._added = added

    async def put(
        self, place: Place, name: str, body: Body, creation: Creation, *, only_if_absent: bool
    ) -> CreateOutcome:
        """Put a body in one request."""
        data = read_whole(body)
        if isinstance(data, Refused):
            return data
        bucket, key = place
        condition = _ONLY_IF_ABSENT if only_if_absent else {}

        async def send(parameters: dict[str, Any]) -> dict[str, Any]:
            return await self._sender.call(
                "put_object", Bucket=bucket, Key=key, Body=data, **condition, **parameters
            )

        return await self._creating(name, "put_object", creation, send)

    async def complete(self, staged: Staged, *, only_if_absent: bool) -> CompleteOutcome:
        """Complete an upload."""
        upload: Upload = staged.upload
        condition = _ONLY_IF_ABSENT if only_if_absent else {}
        parts = {"Parts": upload.parts}
        try:
            answer = await self._sender.call(
                "complete_multipart_upload", **upload.address, MultipartUpload=parts, **condition
            )
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return outcome_of(error, staged.name)
        return _created(answer, staged.name)

    async def copy(self, source: Place, place: Place, name: str, creation: Creation) -> CreateOutcome:
        """Copy an object's bytes, only if the target is not there, as a creation of its own."""
        (from_bucket, from_key), (bucket, key) = source, place

        async def send(parameters: dict[str, Any]) -> dict[str, Any]:
            return await self._sender.call(
                "copy_object",
                Bucket=bucket,
                Key=key,
                CopySource={"Bucket": from_bucket, "Key": from_key},
                MetadataDirective="REPLACE",
                **_ONLY_IF_ABSENT,
                **parameters,
            )

        return await self._creating(name, "copy_object", creation, send)

    async def publish(self, source: Place, place: Place, name: str, creation: Creation) -> PublishOutcome:
        """Copy an object as it is now, with what it says of itself.

        obstore could send this, too, but S3 may say "200" before it copies and tell of an error after it,
        which obstore does not read.
        """
        (from_bucket, from_key), (bucket, key) = source, place
        try:
            parameters = await of_a_copy(self._sender, self._added, creation)
            if isinstance(parameters, Refused):
                return parameters
            answer = await self._sender.call(
                "copy_object",
                OF_THE_SOURCE,
                Bucket=bucket,
                Key=key,
                CopySource={"Bucket": from_bucket, "Key": from_key},
                MetadataDirective="COPY",
                **parameters,
            )
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            if has_no_source(error):
                return Absent()
            return unconditional(outcome_of(error, name), name, error)
        return unconditional(_created(answer, name), name)

    async def _creating(
        self,
        name: str,
        method: str,
        creation: Creation,
        send: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]],
    ) -> CreateOutcome:
        try:
            parameters = await of_a_creation(self._sender, self._added, method, creation)
            if isinstance(parameters, Refused):
                return parameters
            answer = await send(parameters)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            outcome = outcome_of(error, name)
            return Maybe(error) if isinstance(outcome, Gone) else outcome
        return _created(answer, name)


def _created(answer: Mapping[str, Any], name: str) -> Created | Maybe:
    # What was applied has an entity tag; an answer without one is some proxy's.
    if answer.get("ETag") or answer.get("CopyObjectResult", {}).get("ETag"):
        return Created(answer.get("VersionId"), date_of(answer))
    return Maybe(OSError(errno.EIO, "the answer has no entity tag", name))
