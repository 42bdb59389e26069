"""An s3fs instance like the wrapped one, but one that sends every request once; and uploads by it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from weakref import ref

from botocore import UNSIGNED
from botocore.exceptions import ClientError
from botocore.utils import parse_timestamp
from s3fs import S3FileSystem
from s3fs.errors import translate_boto_error
from tenacity import AsyncRetrying

from putifabsent.backends import base
from putifabsent.backends.aws_session import ONCE, SingleSend, code_of, meaning_of, status_of
from putifabsent.backends.concurrency import or_undone
from putifabsent.backends.object_store import (
    Meaning,
    SourceGoneError,
    are_texts,
    by_status,
    reading,
    schedule,
    unimplemented,
)
from putifabsent.backends.streaming_upload import Growing
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Container, Mapping


_CODES: dict[str, Meaning] = {
    "ConditionalRequestConflict": "passes",
    "InternalError": "lost",
    "OperationAborted": "passes",
    "PreconditionFailed": "taken",
    "RequestTimeout": "lost",
    "ServiceUnavailable": "lost",
}
"""What an answer's code means, where its status does not say it."""

_ABSENT = {"NoSuchKey", "NoSuchVersion", "PreconditionFailed", "404"}
_STALE = {"ExpiredToken", "InvalidToken", "TokenRefreshRequired"}  # answers of 400 that are about rights

_CONDITIONS = {"IfMatch", "IfNoneMatch"}
_MANY_REGIONS = re.compile("arn:[^:]*:s3::")
_WRITES = {"copy_object", "create_multipart_upload", "put_object"}
_NEEDED = {"create_multipart_upload": "UploadId", "upload_part": "ETag", "upload_part_copy": "CopyPartResult"}
_UNTOLD = {"delete_object", "get_object", "head_object", "put_object"}
_OTHERS = {"x-goog-generation", f"x-amz-meta-{base.TOKEN_KEY}"}
"""Headers of an object without S3's tags, from who says no request's ID either: Google's XML API, s3s-fs."""
_S3S_TAG = re.compile(r'"?[0-9a-fA-F]{32}(-[0-9]+)?"?')


class Sender:
    """Sends single S3 requests with the wrapped filesystem's options, session and extra parameters."""

    def __init__(self, options: Mapping[str, Any], connect_timeout: float, timeout: float) -> None:
        self._remade = (dict(options), connect_timeout, timeout)
        self._is_a_callers = options.get("session") is not None
        self.added: Mapping[str, Any] = options.get("s3_additional_kwargs") or {}  # to puts, by the mount
        config = dict(options.get("config_kwargs") or {})
        config["connect_timeout"], config["read_timeout"] = connect_timeout, timeout
        config["retries"] = dict(ONCE)
        config["http_session_cls"] = SingleSend
        self.fs = S3FileSystem(**{**options, "config_kwargs": config, "skip_instance_cache": True})
        # What closes each client that was made on a loop of the caller's: s3fs closes those of its own loop.
        self._closing: dict[Any, AsyncGenerator[None, None]] = {}
        self._has_no_credentials = False

    def endpoint(self) -> str:
        """Return the address that requests go to, whoever has set it. No network."""
        # An option overrules the settings of AWS: its variables, its files, those of a caller's session.
        known = self.fs.endpoint_url or self.fs.client_kwargs.get("endpoint_url")
        if not known and self.fs._s3 is not None:
            known = self.fs._s3.meta.endpoint_url
        if not known:
            # By a client of its own on a loop of its own: this one's loop may be the caller's, or have all of
            # its threads waiting for this very answer. Nothing is signed, so no credentials are needed.
            options, *timeouts = self._remade
            alike = Sender({**options, "asynchronous": True, "loop": None, "anon": True}, *timeouts)
            with ThreadPoolExecutor(1, "putifabsent-endpoint") as apart:
                known = apart.submit(asyncio.run, alike._ask_endpoint()).result()
        return str(known)

    async def _ask_endpoint(self) -> str:
        return str((await self.client()).meta.endpoint_url)

    async def client(self, bucket: str | None = None) -> Any:
        """Return the client for a bucket, which is closed when its loop ends, or nobody has this any more."""
        await self.fs.set_session(refresh=self._has_no_credentials)
        if not self._is_a_callers:
            parsers = self.fs.session.get_component("response_parser_factory")
            parsers.set_parser_defaults(timestamp_parser=time_of)
        creator = self.fs._s3creator
        if self.fs.asynchronous and creator not in self._closing:
            self._closing[creator] = _until_closed(creator, ref(self))
            await anext(self._closing[creator])
        client = await self.fs.get_s3(bucket)
        if not self._is_a_callers:
            is_signing = client.meta.config.signature_version is not UNSIGNED
            # Made where none were to be had, it stays without: whoever gives a machine's may have been down.
            self._has_no_credentials = is_signing and client._request_signer._credentials is None
        return client

    async def call(self, method: str, without: Container[str] = (), **parameters: Any) -> dict[str, Any]:
        """Send one request, with what the mount adds to every request of its kind, ``without`` some of it.

        Whatever the client raises is passed on: :func:`outcome_of` says what it means.
        """
        bucket = parameters.get("Bucket")
        if method in _WRITES and _MANY_REGIONS.match(bucket or ""):
            raise ConfigError(
                f"{bucket} is a Multi-Region Access Point: each Region's bucket decides by itself who "
                "creates a name. Say the bucket of one Region, the same one in every mount of the table"
            )
        send = getattr(await self.client(bucket), method)
        # s3fs adds who pays to every request only since 2026.
        with_payer = self.fs._get_s3_method_kwargs(send, self.fs.req_kw, **parameters)
        # s3fs leaves out what this botocore does not know, and a request without its condition overwrites.
        if left_out := (parameters.keys() & _CONDITIONS) - with_payer.keys():
            what = ", ".join(sorted(left_out))
            raise ConfigError(f"this botocore knows no {what} of {method}: pip install -U 'putifabsent[s3]'")
        wanted = {key: value for key, value in with_payer.items() if key not in without}
        answer: dict[str, Any] = await send(**wanted)
        if not _is_from_s3(method, answer):
            if "Body" in answer:
                answer["Body"].close()
            raise ConnectionError(errno.EPROTO, "what answered is not S3, but some proxy's page")
        return answer

    async def accepts(self, method: str) -> frozenset[str]:
        """Return the parameters that the API method knows."""
        send = getattr(await self.client(), method)
        model = "".join(word.title() for word in send.__name__.split("_"))
        return frozenset(self.fs._kwargs_helper._get_valid_keys(model))


def time_of(text: str) -> datetime:
    """Read a time of an answer as botocore does, whose way takes most of the time of a long listing."""
    if text.endswith("Z"):
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(f"{text[:-1]}+00:00")
    time: datetime = parse_timestamp(text)
    return time


def _is_from_s3(method: str, answer: Mapping[str, Any]) -> bool:
    """Whether a success is S3's own; where nothing else in it would tell, it may be a proxy's page."""
    meta = answer["ResponseMetadata"]
    if method in _NEEDED:
        return _NEEDED[method] in answer
    if method == "delete_object" and meta["HTTPStatusCode"] == HTTPStatus.NO_CONTENT:
        return True
    says_so = meta.get("RequestId") or _OTHERS & meta["HTTPHeaders"].keys()
    return bool(says_so) or is_s3s_tag(answer.get("ETag")) or method not in _UNTOLD


def is_s3s_tag(tag: str | None) -> bool:
    """Whether it has the form of S3's entity tags, also of encrypted objects; a web page has another."""
    return tag is not None and _S3S_TAG.fullmatch(tag) is not None


async def _until_closed(creator: Any, sender: ref[Sender]) -> AsyncGenerator[None, None]:
    """Close a client in the end: a loop closes its generators when it ends, or when nobody has them."""
    try:
        yield
    finally:
        if (keeper := sender()) is not None:
            keeper._closing.pop(creator, None)  # by which the loop would be kept, too
        await creator.__aexit__(None, None, None)


def outcome_of(
    error: Exception, name: str
) -> base.Exists | base.TryAgain | base.Refused | base.Maybe | base.Gone:
    """Say what one failed request means for a creation."""
    return meaning_of(error, name, _answer)


def reading_of(error: Exception, name: str) -> base.Absent | base.TryAgain | base.Refused:
    """Say what one failed request means for a read."""
    return reading(outcome_of(error, name), error)


def is_absent(error: BaseException) -> bool:
    """Whether the store says that an object, or the requested one, is not there."""
    return isinstance(error, ClientError) and (code_of(error) in _ABSENT or status_of(error) == 412)


def date_of(answer: Mapping[str, Any]) -> datetime | None:
    """Return the store's time of an answer, or of a client's error."""
    return base.http_date(answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date"))


def has_no_source(error: BaseException) -> bool:
    """Whether the store says that the object to copy is not there: not its bucket, nor the target's."""
    return isinstance(error, ClientError) and code_of(error) == "NoSuchKey" and status_of(error) == 404


def _answer(
    error: ClientError, name: str
) -> base.Exists | base.TryAgain | base.Refused | base.Maybe | base.Gone:
    code, status = code_of(error), status_of(error)
    if code == "NoSuchUpload":
        return base.Gone()
    if status == HTTPStatus.NOT_FOUND and code in ("", "404") and error.operation_name != "HeadObject":
        # Only a look is answered without S3's own word. This is some proxy's, which does not find the store.
        return base.Maybe(error)
    # A 200 may carry an error, too: Complete and Copy send their status before they are done.
    outcome = by_status(error, status, _CODES.get(code))
    if outcome is not None:
        return outcome
    if status == HTTPStatus.NOT_IMPLEMENTED:
        return unimplemented(error, name)
    if status in (401, 403) or code in _STALE:
        return base.refused(errno.EACCES, str(error), name, error)
    refused = translate_boto_error(error)
    if isinstance(refused, OSError):
        number = refused.errno or (errno.ENOENT if isinstance(refused, FileNotFoundError) else errno.EIO)
        refused = base.caused(type(refused)(number, str(error), name), error)
    return base.Refused(refused)


_FOR_THE_CLIENT = {"chunksize", "max_concurrency", "callback", "block_size", "fill_cache", "cache_type"}
_SAID_HERE = {"Body", "Bucket", "IfMatch", "IfNoneMatch", "Key", "MultipartUpload", "UploadId"}
_CUSTOMER_KEY = ("SSECustomerAlgorithm", "SSECustomerKey", "SSECustomerKeyMD5")
_KEY_OF_A_CALL = (
    "a customer's key of one call would be missing wherever the name is looked at: give SSECustomerAlgorithm "
    "and SSECustomerKey to the mount, in s3_additional_kwargs"
)

OF_THE_SOURCE = frozenset(
    {
        "CacheControl",
        "ContentDisposition",
        "ContentEncoding",
        "ContentLanguage",
        "ContentType",
        "Expires",
        "Metadata",
        "Tagging",
    }
)
"""What a copy takes over from its source. Said beside that, some are refused, or count on some servers."""


async def creation_params(sender: Sender, method: str, creation: base.Creation) -> dict[str, Any]:
    """Return the parameters of a put or an upload, or raise ConfigError; the sender adds the mount's."""
    extra, mount = _extra(creation), sender.added
    given = (mount.get("Metadata", {}), extra.pop("Metadata", {}), extra.pop("metadata", {}))
    if not all(map(are_texts, given)):
        raise ConfigError("Metadata must map strings to strings")
    metadata = {key: value for each in given for key, value in each.items()}
    metadata |= {base.TOKEN_KEY: creation.token, base.WRITER_KEY: creation.writer}
    unknown = (extra.keys() - await sender.accepts(method)) | (extra.keys() & _SAID_HERE)
    if unknown:
        raise base.unsupported("s3", unknown)
    # Nothing that looks at the name later would have it, and to S3 that is no look at all.
    if any(extra.get(key, mount.get(key)) != mount.get(key) for key in _CUSTOMER_KEY):
        raise ConfigError(_KEY_OF_A_CALL)
    return {**extra, "Metadata": metadata}


async def copy_params(sender: Sender, creation: base.Creation) -> dict[str, Any]:
    """Return the parameters of a copy whose source was put with the same ones, or raise ConfigError."""
    extra = _extra(creation)
    extra.pop("metadata", None)
    unknown = extra.keys() - await sender.accepts("put_object")
    if unknown:
        raise base.unsupported("s3", unknown)
    # What only a put knows speaks of the bytes that it carries.
    wanted = await sender.accepts("copy_object") - OF_THE_SOURCE
    return {key: value for key, value in extra.items() if key in wanted} | source_params(sender)


def source_params(sender: Sender) -> dict[str, Any]:
    """Return what reads a copy's source: the customer's key that it was put with."""
    return {f"CopySource{key}": sender.added[key] for key in _CUSTOMER_KEY if key in sender.added}


def _extra(creation: base.Creation) -> dict[str, Any]:
    extra = {key: value for key, value in creation.extra.items() if key not in _FOR_THE_CLIENT}
    if "acl" in extra:
        extra["ACL"] = extra.pop("acl")
    if extra.get("IfNoneMatch") == "*":  # which is said anyway
        del extra["IfNoneMatch"]
    return extra


# --- uploads: parts sent a few at a time, by requests that may safely be sent again

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


async def send_parts(sender: Sender, upload: Upload, body: base.Body) -> None:
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
) -> dict[str, Any] | base.Absent | base.TryAgain | base.Refused:
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
        return base.Absent()
    if not seen.get("ETag"):
        return base.refused(errno.ENOTSUP, "it has no entity tag to copy it by", name)
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


def staging_of(error: Exception, name: str) -> base.StageOutcome:
    """Say what a failure means for bytes that are not staged."""
    if isinstance(error, SourceGoneError):
        return base.Absent()
    if isinstance(error, UnreadableError):
        return base.Refused(error.why)
    outcome = outcome_of(error, name)
    return outcome if isinstance(outcome, base.Refused) else base.TryAgain(error)


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
