"""S3 and what speaks it: ``PutObject`` and ``CompleteMultipartUpload`` with ``If-None-Match: *``.

Two clients share the work. obstore sends the plain single put, in a fraction of the time that any other
Python client takes. aiobotocore, through a second s3fs instance that never sends twice, does the rest: parts,
completions, copies, and every put that carries more than bytes.

Source: the S3 API reference, and the S3 user guide's "conditional requests". Which server honours what, only
a probe can tell.
"""

from __future__ import annotations

import errno
from functools import partial
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Any, ClassVar, TypeVar

from botocore.exceptions import ClientError
from fsspec.asyn import sync

from putifabsent.backends import base
from putifabsent.backends import s3_client as client
from putifabsent.backends.aws_session import status_of
from putifabsent.backends.concurrency import PerProcess
from putifabsent.backends.interrupt import blocking_twin, done_or_undone
from putifabsent.backends.object_store import bad_key, deleting, unconditional
from putifabsent.backends.s3_obstore import EXPRESS, Buckets, carries, found, off_loop
from putifabsent.backends.streaming_upload import Ahead, FileBody, StagesAhead

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Awaitable, Callable, Coroutine, Mapping
    from datetime import datetime

    from s3fs import S3FileSystem


T = TypeVar("T")

_ONLY_IF_ABSENT = {"IfNoneMatch": "*"}
_PATIENCE = 10.0
# obstore's time-out is for all of a request: above this a slow line, and no client, is what takes the time.
_FAST = 2 * 2**20


class S3Store(base.Store, base.Describes, StagesAhead):
    """The store behind an ``s3fs.S3FileSystem``, whose loop runs the asynchronous client.

    No single request is waited for longer than ``deadline`` seconds, unless ``read_timeout`` says so.
    """

    kind: ClassVar[str] = "s3"
    largest_put = 16 * 2**20
    # What S3 copies in one request; a copy by parts is no single step from source to name.
    largest_publish = 5 * 2**30

    def __init__(self, fs: S3FileSystem, options: Mapping[str, Any], deadline: float) -> None:
        self._fs = fs
        self._options = dict(options)
        config = self._options.get("config_kwargs") or {}
        read = float(config.get("read_timeout", deadline))
        self._timeouts = (float(config.get("connect_timeout", min(fs.connect_timeout, read))), read)
        self._endpoint: str | None = None
        self._clients = PerProcess(self._connect)
        # Here and now, for a wrong option should be met by who gives it.
        self._clients()

    def _connect(self) -> tuple[client.Sender, Buckets]:
        sender = client.Sender(self._options, *self._timeouts)
        return sender, Buckets(sender, self._options, *self._timeouts)

    @property
    def _sender(self) -> client.Sender:
        return self._clients()[0]

    @property
    def _fast(self) -> Buckets:
        return self._clients()[1]

    @property
    def _loop(self) -> AbstractEventLoop:
        loop: AbstractEventLoop = self._sender.fs.loop
        return loop

    def _wait(self, work: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        outcome: T = sync(self._loop, work, *arguments)
        return outcome

    def endpoint(self) -> str:
        if self._endpoint is None:
            self._endpoint = self._sender.endpoint()
        return self._endpoint

    def lists_in_order(self, name: str) -> bool:
        """A directory bucket of S3 Express One Zone lists in no order."""
        return not self._split(name)[0].endswith(EXPRESS)

    def create(self, name: str, body: base.Body, creation: base.Creation) -> base.CreateOutcome:
        """``PutObject`` with ``If-None-Match: *``."""
        bucket, key = self._split(name)
        if self._is_plain(body, creation) and (fast := self._fast.bucket(bucket, key)) is not None:
            return fast.create(key, name, body, creation)
        return self._wait(self._put_once, name, body, creation, _ONLY_IF_ABSENT)

    async def create_async(self, name: str, body: base.Body, creation: base.Creation) -> base.CreateOutcome:
        bucket, key = self._split(name)
        is_plain = self._is_plain(body, creation)
        if is_plain and (fast := await self._fast.bucket_async(bucket, key)) is not None:
            return await off_loop(partial(fast.create, key, name, body, creation))
        return await self._put_once(name, body, creation, _ONLY_IF_ABSENT)

    def head(self, name: str) -> base.HeadOutcome:
        """``HeadObject``."""
        bucket, key = self._split(name)
        fast = self._fast.bucket(bucket, key)
        seen = None if fast is None else fast.head(key, name)
        return self._wait(self._look, name) if seen is None else seen

    async def head_async(self, name: str) -> base.HeadOutcome:
        bucket, key = self._split(name)
        fast = await self._fast.bucket_async(bucket, key)
        seen = None if fast is None else await off_loop(partial(fast.head, key, name))
        return await self._look(name) if seen is None else seen

    async def _look(self, name: str) -> base.HeadOutcome:
        bucket, key = self._split(name)
        try:
            return _found(await self._sender.call("head_object", Bucket=bucket, Key=key))
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return client.reading_of(error, name)

    async def time_async(self, name: str) -> datetime | None:
        """``HeadObject``, by the client that shows the ``Date`` of an answer."""
        bucket, key = self._split(name)
        try:
            return client.date_of(await self._sender.call("head_object", Bucket=bucket, Key=key))
        except Exception as error:  # noqa: BLE001 - without a time nothing is claimed
            return client.date_of(error.response) if isinstance(error, ClientError) else None

    time = blocking_twin(time_async)

    def get(self, name: str) -> base.GetOutcome:
        """``GetObject``."""
        bucket, key = self._split(name)
        fast = self._fast.bucket(bucket, key)
        got = None if fast is None else fast.get(key, name)
        return self._wait(self._get, name) if got is None else got

    async def get_async(self, name: str) -> base.GetOutcome:
        bucket, key = self._split(name)
        fast = await self._fast.bucket_async(bucket, key)
        got = None if fast is None else await off_loop(partial(fast.get, key, name), reads=True)
        return await self._get(name) if got is None else got

    async def _get(self, name: str) -> base.GetOutcome:
        bucket, key = self._split(name)
        try:
            answer = await self._sender.call("get_object", Bucket=bucket, Key=key)
            return base.Got(await answer["Body"].read())
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return client.reading_of(error, name)

    def answers_for(self, name: str) -> bool:
        """Whether every option of the mount is understood: none that asks for versions, keys, or who pays."""
        return self._fast.takes(self._split(name)[1])

    async def describe_async(self, name: str) -> base.DescribeOutcome:
        """``HeadObject``, by the client that shows the storage class."""
        bucket, key = self._split(name)
        try:
            answer = await self._sender.call("head_object", Bucket=bucket, Key=key)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return client.reading_of(error, name)
        return base.Described(
            {
                "ETag": answer.get("ETag", ""),
                "LastModified": answer.get("LastModified", ""),
                "size": answer["ContentLength"],
                "name": name,
                "type": "file",
                "StorageClass": answer.get("StorageClass", "STANDARD"),
                "VersionId": answer.get("VersionId"),
                "ContentType": answer.get("ContentType"),
            }
        )

    describe = blocking_twin(describe_async)

    async def list_async(self, folder: str) -> base.ListOutcome:
        """``ListObjectsV2``, page by page."""
        return await self._listed(folder, {"Delimiter": "/"})

    list = blocking_twin(list_async)

    async def walk_async(self, folder: str) -> base.ListOutcome:
        """``ListObjectsV2`` with no delimiter, page by page."""
        return await self._listed(folder, {})

    walk = blocking_twin(walk_async)

    async def _listed(self, folder: str, where: dict[str, str]) -> base.ListOutcome:
        bucket, prefix = self._split(folder.rstrip("/") + "/")
        entries: list[base.Entry] = []
        more: dict[str, str] = {}
        while True:
            try:
                page = await self._sender.call(
                    "list_objects_v2", Bucket=bucket, Prefix=prefix, **where, **more
                )
            except Exception as error:  # noqa: BLE001 - what it means is decided in one place
                outcome = client.reading_of(error, folder)
                return base.Listed(()) if isinstance(outcome, base.Absent) else outcome
            if "IsTruncated" not in page:
                return base.TryAgain(OSError(errno.EPROTO, "the answer is no listing", folder))
            entries += (
                base.Entry(f"{bucket}/{o['Key']}", o["LastModified"], o.get("ETag"))
                for o in page.get("Contents", ())
            )
            if not page["IsTruncated"]:
                return base.Listed(tuple(entries))
            before, more = more, {"ContinuationToken": page.get("NextContinuationToken", "")}
            if more in (before, {"ContinuationToken": ""}):
                why = "the store says that there is more, and not where: it has no ListObjectsV2"
                return base.refused(errno.EPROTO, why, folder)

    async def delete_async(self, name: str, version: str | None = None) -> base.DeleteOutcome:
        """``DeleteObject``: that version in a versioned bucket, else whatever is there.

        What was published twice is there twice: a copy of the same creation that would come back goes, too.
        A version that may not go (Object Lock) is hidden by a delete marker, as by any client.
        """
        bucket, key = self._split(name)
        where = {"Bucket": bucket, "Key": key}
        try:
            if version is None:
                await self._sender.call("delete_object", **where)
                return base.Deleted()
            seen = await self._seen(where)
            await self._deleted(name, where, version)
            token = seen.token if seen is not None and seen.version == version else None
            while token is not None and (seen := await self._seen(where)) is not None:
                if seen.token != token or seen.version in (None, version):
                    break
                version = seen.version
                await self._deleted(name, where, version)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return deleting(client.outcome_of(error, name), error)
        return base.Deleted()

    delete = blocking_twin(delete_async)

    def put(self, name: str, body: base.Body, creation: base.Creation) -> base.PutOutcome:
        """``PutObject`` with no condition; a large body as an upload."""
        bucket, key = self._split(name)
        if self._is_plain(body, creation) and (fast := self._fast.bucket(bucket, key)) is not None:
            return fast.put(key, name, body, creation)
        return done_or_undone(self._loop, _stays, self._put, name, body, creation, patience=_PATIENCE)

    async def put_async(self, name: str, body: base.Body, creation: base.Creation) -> base.PutOutcome:
        bucket, key = self._split(name)
        is_plain = self._is_plain(body, creation)
        if is_plain and (fast := await self._fast.bucket_async(bucket, key)) is not None:
            return await off_loop(partial(fast.put, key, name, body, creation))
        return await self._put(name, body, creation)

    async def publish_async(self, source: str, name: str, creation: base.Creation) -> base.PublishOutcome:
        """``CopyObject`` of the source as it is now, with its own metadata.

        obstore could send this, too, but S3 may say "200" before it copies and tell of an error after it,
        which obstore does not read.
        """
        (bucket, key), (from_bucket, from_key) = self._split(name), self._split(source)
        if refused := bad_key(name, key) or bad_key(source, from_key):
            return refused
        try:
            answer = await self._sender.call(
                "copy_object",
                client.OF_THE_SOURCE,
                Bucket=bucket,
                Key=key,
                CopySource={"Bucket": from_bucket, "Key": from_key},
                MetadataDirective="COPY",
                **await client.copy_params(self._sender, creation),
            )
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            if client.has_no_source(error):
                return base.Absent()
            return unconditional(client.outcome_of(error, name), name, error)
        return unconditional(_created(answer, name), name)

    publish = blocking_twin(publish_async)

    def stage(self, name: str, body: base.Body, creation: base.Creation) -> base.StageOutcome:
        """``CreateMultipartUpload`` with the token, and ``UploadPart``."""
        staging = (name, body, creation)
        return done_or_undone(self._loop, self._drop, self.stage_async, *staging, patience=_PATIENCE)

    async def stage_async(self, name: str, body: base.Body, creation: base.Creation) -> base.StageOutcome:
        ahead = body.ahead if isinstance(body, FileBody) else None
        if ahead is not None and ahead.is_for(name, creation):
            staged = await ahead.staged(body.size)
            if staged is not None:
                return staged
        return await self._send(name, body, creation)

    def ahead(self, name: str, file: IO[bytes], creation: base.Creation) -> Ahead | None:
        """``CreateMultipartUpload`` with the token at once, and each ``UploadPart`` when it is complete."""
        if self._fs.asynchronous:
            return None  # the loop is the caller's, who may be waiting in its thread

        def stage(body: base.Body) -> Coroutine[Any, Any, base.StageOutcome]:
            return self._send(name, body, creation)

        return Ahead(self._loop, file, name, creation, stage, self._drop, client.PART)

    async def _send(self, name: str, body: base.Body, creation: base.Creation) -> base.StageOutcome:
        return await self._stage(name, creation, lambda upload: client.send_parts(self._sender, upload, body))

    def stage_copy(
        self, source: str, size: int, version: str | None, name: str, creation: base.Creation
    ) -> base.StageOutcome:
        """``CreateMultipartUpload`` with the token, and ``UploadPartCopy``: no byte passes through here."""
        copying = (source, size, version, name, creation)
        return done_or_undone(self._loop, self._drop, self.stage_copy_async, *copying, patience=_PATIENCE)

    async def stage_copy_async(
        self, source: str, size: int, version: str | None, name: str, creation: base.Creation
    ) -> base.StageOutcome:
        origin = await client.pinned(self._sender, *self._split(source), size, version)
        if not isinstance(origin, dict):
            return origin
        origin |= client.source_params(self._sender)
        return await self._stage(
            name, creation, lambda upload: client.copy_parts(self._sender, upload, origin, size)
        )

    async def complete_async(self, staged: base.Staged) -> base.CompleteOutcome:
        """``CompleteMultipartUpload`` with ``If-None-Match: *``."""
        return await self._complete(staged, _ONLY_IF_ABSENT)

    complete = blocking_twin(complete_async)

    async def discard_async(self, staged: base.Staged) -> None:
        """``AbortMultipartUpload``."""
        await staged.upload.abort(self._sender)

    discard = blocking_twin(discard_async)

    async def _deleted(self, name: str, where: Mapping[str, str], version: str) -> None:
        # Not by the caller, who does not know any more whose copies are looked for.
        try:
            await client.again(lambda: self._sender.call("delete_object", **where, VersionId=version))
        except ClientError as error:
            is_kept = isinstance(client.outcome_of(error, name), base.Refused)
            if not (is_kept and await self._hidden(where, version)):
                raise

    async def _hidden(self, where: Mapping[str, str], version: str) -> bool:
        """Hide a version that may not go behind a delete marker; False: another has come, or one may not."""
        try:
            newest = await self._sender.call("head_object", **where)
            if newest.get("VersionId") != version:
                return False
            # A server that knows the condition hides nothing that comes now.
            await client.again(lambda: self._sender.call("delete_object", **where, IfMatch=newest["ETag"]))
        except ClientError as error:
            return status_of(error) == HTTPStatus.NOT_FOUND
        return True

    async def _seen(self, where: Mapping[str, str]) -> base.Holder | None:
        """Say who holds a key; None: nobody, or one may not know."""
        try:
            return _found(await client.again(lambda: self._sender.call("head_object", **where))).holder
        except Exception as error:
            if isinstance(client.reading_of(error, where["Key"]), base.TryAgain):
                raise
            return None

    def _is_plain(self, body: base.Body, creation: base.Creation) -> bool:
        return body.size <= min(_FAST, self.largest_put) and carries(creation.extra)

    async def _put(self, name: str, body: base.Body, creation: base.Creation) -> base.PutOutcome:
        if body.size <= self.largest_put:
            return unconditional(await self._put_once(name, body, creation, {}), name)
        staged = await self.stage_async(name, body, creation)
        if not isinstance(staged, base.Staged):
            return unconditional(staged, name)
        try:
            outcome = await self._complete(staged, {})
        except BaseException:
            await self.discard_async(staged)
            raise
        if not isinstance(outcome, base.Created):
            # Nobody completes it again: what is in doubt is put under another name.
            await self.discard_async(staged)
        return unconditional(outcome, name)

    async def _put_once(
        self, name: str, body: base.Body, creation: base.Creation, condition: Mapping[str, str]
    ) -> base.CreateOutcome:
        bucket, key = self._split(name)
        data = base.read_whole(body)
        if isinstance(data, base.Refused):
            return data
        if refused := bad_key(name, key):
            return refused
        try:
            params = await client.creation_params(self._sender, "put_object", creation)
            answer = await self._sender.call(
                "put_object", Bucket=bucket, Key=key, Body=data, **condition, **params
            )
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            outcome = client.outcome_of(error, name)
            return base.Maybe(error) if isinstance(outcome, base.Gone) else outcome
        return _created(answer, name)

    async def _complete(self, staged: base.Staged, condition: Mapping[str, str]) -> base.CompleteOutcome:
        upload: client.Upload = staged.upload
        parts = {"Parts": upload.parts}
        try:
            answer = await self._sender.call(
                "complete_multipart_upload", **upload.address, MultipartUpload=parts, **condition
            )
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return client.outcome_of(error, staged.name)
        return _created(answer, staged.name)

    async def _stage(
        self, name: str, creation: base.Creation, fill: Callable[[client.Upload], Awaitable[None]]
    ) -> base.StageOutcome:
        bucket, key = self._split(name)
        if refused := bad_key(name, key):
            return refused
        upload: client.Upload | None = None
        try:
            parameters = await client.creation_params(self._sender, "create_multipart_upload", creation)
            algorithm = {**self._sender.added, **parameters}.get("ChecksumAlgorithm", "")
            upload = await client.open_upload(self._sender, bucket, key, parameters, algorithm)
            await fill(upload)
        except BaseException as error:
            if upload is not None:
                await upload.abort(self._sender)
            if not isinstance(error, Exception):
                raise
            return client.staging_of(error, name)
        return base.Staged(name, upload)

    def _split(self, name: str) -> tuple[str, str]:
        if name.startswith("arn:"):
            bucket, key, _ = self._fs.split_path(name)
            return bucket, key
        bucket, _, key = name.partition("/")
        return bucket, key


def _found(answer: Mapping[str, Any]) -> base.Found:
    # Some servers capitalise what are HTTP headers, after all.
    metadata = {key.lower(): value for key, value in answer.get("Metadata", {}).items()}
    properties = {key: answer[key] for key in client.OF_THE_SOURCE & answer.keys() if key != "Metadata"}
    size, modified = answer["ContentLength"], answer["LastModified"]
    return found(metadata, properties, answer.get("ETag"), modified, size, answer.get("VersionId"))


async def _stays(_: base.PutOutcome) -> None:
    """What was put stays, though nobody waits for it any more: its name is nobody's."""


def _created(answer: Mapping[str, Any], name: str) -> base.Created | base.Maybe:
    # What was applied has an entity tag; an answer without one is some proxy's.
    if answer.get("ETag") or answer.get("CopyObjectResult", {}).get("ETag"):
        return base.Created(answer.get("VersionId"), client.date_of(answer))
    return base.Maybe(OSError(errno.EIO, "the answer has no entity tag", name))
