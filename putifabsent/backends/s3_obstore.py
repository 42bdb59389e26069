"""obstore's single put, for creations that carry nothing but bytes, a token and a writer.

It is used where every option of the mount is understood, for keys that it does not alias, and never in a
process whose parent had used it before the fork, here or on its own: there it would hang.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import re
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

import obstore
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
from botocore.session import Session
from fsspec.asyn import sync
from obstore.exceptions import BaseError
from obstore.store import S3Store as Bucket

from putifabsent.backends import base
from putifabsent.backends.concurrency import AT_ONCE, Pool, in_thread
from putifabsent.backends.object_store import LONGEST_KEY, own_metadata, reading, unconditional
from putifabsent.backends.s3_client import is_s3s_tag, outcome_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Literal, TypeAlias

    from putifabsent.backends.s3_client import Sender

    _Mode: TypeAlias = Literal["create", "overwrite"]

T = TypeVar("T")

_OPTIONS = {
    "anon", "key", "secret", "token", "username", "password", "profile", "endpoint_url", "use_ssl",
    "client_kwargs", "config_kwargs", "cache_regions", "default_block_size", "default_fill_cache",
    "default_cache_type", "asynchronous", "loop", "max_concurrency", "fixed_upload_size",
    "local_expiry_check", "use_listings_cache", "listings_expiry_time", "max_paths",
    "skip_instance_cache", "batch_size",
}  # fmt: skip
_CLIENT_OPTIONS = {
    "endpoint_url", "region_name", "use_ssl", "aws_access_key_id", "aws_secret_access_key",
    "aws_session_token",
}  # fmt: skip
_CONFIG_OPTIONS = {
    "connect_timeout", "read_timeout", "retries", "max_pool_connections", "region_name", "s3",
    "signature_version", "user_agent_extra", "tcp_keepalive",
}  # fmt: skip
# obstore encrypts by these, and s3fs does not.
_ENCRYPTING = ("AWS_SERVER_SIDE_ENCRYPTION", "AWS_SSE_")
# A component that is empty, or one of dots.
_ODD = re.compile(r"(?:^|/)\.{0,2}(?:/|$)")
_NOT_S3 = "the answer's entity tag is none of these bytes, and the object is not there"
_IN_PARTS = re.compile(r"-\d+\"?$")
_NO_BUCKET = "<Code>NoSuchBucket</Code>"  # which is no missing object
_STATUS = re.compile(r"status code: ([45]\d\d)")
# Nobody took the connection, or nobody in time: then the kind is another.
_NOT_SENT = re.compile(r"kind: Connect\b|legacy::Error\(\s*Connect\b")
_NOT_SIGNED = "External AWS credential provider"
_FIELDS = re.compile(r"<(Code|Message)>([^<]*)<")
_FAILURES = (BaseError, OSError, ValueError)
_BOTO = (BotoCoreError, ClientError)
_REFRESH = timedelta(seconds=30)
# Its own limit for all of a request, 30 seconds else.
_FOR_EVER = timedelta(days=1)

_pool = Pool(AT_ONCE, "putifabsent-put")
_readers = Pool(AT_ONCE, "putifabsent-get")

_ITS_THREADS = "tokio-"  # what the threads of its runtime are called, and of others like it
_FORKED_ONLY = 0x40  # Linux's PF_FORKNOEXEC: a process that was forked, and has started no program since


def _inherited() -> bool:
    """Whether obstore may have come into this process by a fork, before this module did."""
    modules = list(sys.modules)
    if modules.index("obstore") > modules.index(__name__):
        return False
    try:
        # The flags are the ninth field; the second may have blanks in its brackets.
        return bool(int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[6]) & _FORKED_ONLY)
    except OSError:
        return True


def _runs() -> bool:
    """Whether this process may have used obstore: its threads come with the first request, and stay."""
    try:
        tasks = [task / "comm" for task in Path("/proc/self/task").iterdir()]
    except OSError:
        return True
    for task in tasks:
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if task.read_text().startswith(_ITS_THREADS):
                return True
    return not tasks


# Whether this process may descend, by fork, from one that used obstore.
_forked = _inherited()


def _before_fork() -> None:
    global _hangs_in_child  # noqa: PLW0603 - as below
    _hangs_in_child = _forked or FastBucket.used or _runs()


def _after_fork() -> None:
    global _forked  # noqa: PLW0603 - it is the process that was forked
    _forked = _hangs_in_child


_hangs_in_child = True
os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


async def off_loop(call: Callable[[], T], *, reads: bool = False) -> T:
    """Run a bucket's call in a thread; no other call waits for those that read, which may take long.

    obstore's own asynchronous calls cost double: its threads wait for the interpreter with each result.
    """
    if reads:
        return await (_readers.begin(call) or asyncio.to_thread(call))
    return await (_pool.begin(call) or in_thread(call))


def understands(options: Mapping[str, Any]) -> bool:
    """Whether every option of the mount means the same here as it does to s3fs."""
    given = {key for key, value in options.items() if value not in (None, False, {}, ())}
    config = options.get("config_kwargs") or {}
    return (
        given <= _OPTIONS
        and set(options.get("client_kwargs") or ()) <= _CLIENT_OPTIONS
        and set(config) <= _CONFIG_OPTIONS
        and set(config.get("s3") or ()) <= {"addressing_style"}
        and config.get("signature_version") in (None, "s3v4", "v4")
        and not any(each.startswith(_ENCRYPTING) for each in os.environ)
    )


def place_of(bucket: str, endpoint: str, presigned: str) -> tuple[str, bool] | None:
    """Return where requests about a bucket go, and whether its name begins the host there, not the path.

    None: elsewhere than obstore would send them.
    The ``endpoint`` is the client's, and ``presigned`` the address of its object ``key``, as botocore makes
    it. Those of AWS have another endpoint, which sends on those of other regions.
    """
    own, found = urlsplit(endpoint), urlsplit(presigned)
    path = own.path.rstrip("/")
    if found.path == f"{path}/{bucket}/key":
        return f"{own.scheme}://{own.netloc}{path}", False
    if found.path == f"{path}/key" and found.netloc.startswith(f"{bucket}."):
        return f"{own.scheme}://{bucket}.{own.netloc}{path}", True
    return None


class FastBucket:
    """One bucket, by a client that sends each request once.

    ``credentials`` returns botocore's frozen ones, refreshed; without it nothing is signed. ``used`` says
    whether there has been a client in this process.
    """

    used: ClassVar[bool] = False

    def __init__(
        self,
        bucket: str,
        place: tuple[str, bool],
        region: str,
        credentials: Callable[[], Any] | None,
        connect_timeout: float,
        timeout: float,
    ) -> None:
        FastBucket.used = True
        endpoint, is_host = place
        more: dict[str, Any] = {"skip_signature": credentials is None}
        if credentials is not None:
            more["credential_provider"] = lambda: self._signing(credentials)
        self._is_aws = _AWS in endpoint
        if self._is_aws:  # in buckets with Object Lock it wants one, which others may not know
            more["checksum_algorithm"] = "SHA256"
        self._unsigned: Exception | None = None
        self._bucket = Bucket(
            bucket,
            endpoint=endpoint,
            region=region,
            virtual_hosted_style_request=is_host,
            client_options={
                "allow_http": endpoint.startswith("http:"),
                "connect_timeout": timedelta(seconds=connect_timeout),
                "read_timeout": timedelta(seconds=timeout),
                "timeout": _FOR_EVER,
            },
            retry_config={"max_retries": 0, "retry_timeout": timedelta(0)},
            # Or obstore takes them from the environment, where s3fs does not look.
            conditional_put="etag",
            unsigned_payload=False,
            request_payer=False,
            s3_express=False,
            **more,
        )

    def create(self, key: str, name: str, body: base.Body, creation: base.Creation) -> base.CreateOutcome:
        """Put, only if the key is not there."""
        return self._put(key, name, body, creation, "create")

    def put(self, key: str, name: str, body: base.Body, creation: base.Creation) -> base.PutOutcome:
        """Put, whatever is there."""
        return unconditional(self._put(key, name, body, creation, "overwrite"), name)

    def _signing(self, credentials: Callable[[], Any]) -> dict[str, Any]:
        try:
            frozen = credentials()
        except Exception as error:
            self._unsigned = error
            raise
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            # botocore renews on its own schedule at a call; so call it again soon.
            "expires_at": datetime.now(timezone.utc) + _REFRESH,
        }

    def _put(
        self, key: str, name: str, body: base.Body, creation: base.Creation, mode: _Mode
    ) -> base.CreateOutcome:
        data = base.read_whole(body)
        if isinstance(data, base.Refused):
            return data
        try:
            answer = obstore.put(self._bucket, key, data, mode=mode, **_attributes(creation))
        except _FAILURES as error:
            return self._failed(error, name, "PutObject")
        if not self._tags(data, answer["e_tag"]):
            seen = self.head(key, name)
            if not (isinstance(seen, base.Found) and seen.holder.token == creation.token):
                return base.Maybe(OSError(errno.EPROTO, _NOT_S3, name))
        return base.Created(answer["version"])

    def _tags(self, data: bytes, tag: str | None) -> bool:
        """Whether an entity tag is that of a put of ``data``, and not of a page that a redirect has led to.

        The page may be kept on an S3. Nobody leads away from AWS, where encrypted objects show no digest.
        """
        if self._is_aws:
            return is_s3s_tag(tag)
        digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
        return tag is not None and tag.strip('"').lower() == digest

    def head(self, key: str, name: str) -> base.HeadOutcome | None:
        """Look at it; None: it may be another page, to which a redirect has led, as obstore follows each."""
        try:
            return _seen(obstore.get(self._bucket, key, options={"head": True}))
        except _FAILURES as error:
            return reading(self._failed(error, name, "HeadObject"), error)

    def get(self, key: str, name: str) -> base.GetOutcome | None:
        """Read it; None: as for :meth:`head`."""
        try:
            answer = obstore.get(self._bucket, key)
            return None if _seen(answer) is None else base.Got(bytes(answer.bytes()))
        except _FAILURES as error:
            outcome = self._failed(error, name, "GetObject")
            if isinstance(outcome, base.Refused) and _NO_BUCKET in str(error):
                return outcome
            return reading(outcome, error)

    def _failed(
        self, error: Exception, name: str, operation: str
    ) -> base.Exists | base.TryAgain | base.Refused | base.Maybe:
        """Say what a failure means for a creation; an answer means what it does to the other client."""
        text = str(error)
        if _NOT_SIGNED in text:
            # obstore tells only that it was not signed. A file that is not there is not the object.
            if not isinstance(self._unsigned, _BOTO):
                return base.TryAgain(error)
            outcome = outcome_of(self._unsigned, name)
            return outcome if isinstance(outcome, base.Refused) else base.TryAgain(self._unsigned)
        if status := _STATUS.search(text):
            # Nothing else of it: all of an answer may hold the session's token.
            fields = {"Code": status[1], **dict(_FIELDS.findall(text))}
            answer: Any = {"Error": fields, "ResponseMetadata": {"HTTPStatusCode": int(status[1])}}
            outcome = outcome_of(base.caused(ClientError(answer, operation), error), name)
            return base.Maybe(error) if isinstance(outcome, base.Gone) else outcome
        if _NOT_SENT.search(text):
            return base.TryAgain(error)
        if isinstance(error, ValueError):
            return base.refused(errno.EINVAL, text.split("\n", 1)[0], name, error)
        return base.Maybe(error)


_TYPE = "ContentType"
_DEFAULT_TYPE = (_TYPE, "binary/octet-stream")  # S3's own, of what was put with none
_HEADERS = {
    "Cache-Control": "CacheControl",
    "Content-Disposition": "ContentDisposition",
    "Content-Encoding": "ContentEncoding",
    "Content-Language": "ContentLanguage",
    "Content-Type": _TYPE,
}
"""What obstore calls attributes beside the user's own, and S3's clients parameters."""


def carries(extra: Mapping[str, Any]) -> bool:
    """Whether a put's parameters can go with it: obstore panics at a type that is no header."""
    if not extra:
        return True
    found = extra.get(_TYPE)
    return len(extra) == 1 and isinstance(found, str) and found.isascii() and found.isprintable()


def _attributes(creation: base.Creation) -> dict[str, Any]:
    marks = {base.TOKEN_KEY: creation.token, base.WRITER_KEY: creation.writer}
    if creation.extra:
        marks["Content-Type"] = creation.extra[_TYPE]
    return {"attributes": marks, "use_multipart": False}


def found(
    marks: Mapping[str, Any],
    properties: Mapping[str, Any],
    etag: str | None,
    modified: datetime,
    size: int,
    version: str | None,
) -> base.Found:
    """Say who holds an object. Of one that came in parts, S3 says when that was begun, not when it ended."""
    in_parts = etag is not None and _IN_PARTS.search(etag) is not None
    times = (None, modified) if in_parts else (modified, None)
    kept = {key: value for key, value in properties.items() if value and (key, value) != _DEFAULT_TYPE}
    if marks.keys() - {base.TOKEN_KEY, base.WRITER_KEY}:
        kept["Metadata"] = own_metadata(marks)
    holder = base.Holder(
        marks.get(base.TOKEN_KEY), marks.get(base.WRITER_KEY), times[0], size, version, times[1]
    )
    return base.Found(holder, properties=kept)


def _seen(answer: obstore.GetResult) -> base.Found | None:
    meta, properties, marks = answer.meta, {}, {}
    for key, value in answer.attributes.items():
        if key in _HEADERS:
            properties[_HEADERS[key]] = value
        else:
            marks[key] = value
    seen = found(marks, properties, meta["e_tag"], meta["last_modified"], meta["size"], meta["version"])
    is_page = properties.get(_TYPE, "").startswith("text/html")  # which may be kept on an S3, too
    return seen if seen.holder.token or (is_s3s_tag(meta["e_tag"]) and not is_page) else None


_AWS = ".amazonaws.com"
_PROXIES = {"http", "https", "all"}  # of the environment: each client has its own mind whom they are for

EXPRESS = ("--x-s3", "--xa-s3")  # how the names of directory buckets end, and of access points to them


class Buckets:
    """The clients of a mount's buckets, each made at its first use.

    The ``sender`` is the other client, which knows the mount's endpoint, region and addressing style.
    """

    def __init__(
        self, sender: Sender, options: Mapping[str, Any], connect_timeout: float, timeout: float
    ) -> None:
        self._sender = sender
        self._options = options
        self._timeouts = (connect_timeout, timeout)
        self._understood = understands(options)
        self._buckets: dict[str, FastBucket | None] = {}

    def bucket(self, bucket: str, key: str) -> FastBucket | None:
        """Return the client for ``key``, or None where it takes the other one."""
        if not self.takes(key):
            return None
        if bucket not in self._buckets:
            sync(self._sender.fs.loop, self._open, bucket)
        return self._buckets.get(bucket)

    async def bucket_async(self, bucket: str, key: str) -> FastBucket | None:
        if not self.takes(key):
            return None
        if bucket not in self._buckets:
            await self._open(bucket)
        return self._buckets.get(bucket)

    def takes(self, key: str) -> bool:
        """Whether a client of here means by ``key``, on this mount, what the other one does."""
        if not self._understood or _forked:
            return False
        return key.isprintable() and _ODD.search(key) is None and len(key.encode()) <= LONGEST_KEY

    async def _open(self, bucket: str) -> None:
        self._buckets[bucket] = None  # until it is there
        try:
            self._buckets[bucket] = await self._made(bucket)
        except BaseError:
            pass  # it can't be had on this machine: the system has no certificates, say
        except BaseException as error:
            self._buckets.pop(bucket, None)
            # The other client meets it, too, and says so with the name. The next request may not.
            if not isinstance(error, Exception):
                raise

    async def _made(self, bucket: str) -> FastBucket | None:
        if ":" in bucket or bucket.endswith(EXPRESS) or not _PROXIES.isdisjoint(getproxies_environment()):
            return None
        client = await self._sender.client(bucket)
        settings = self._sender.fs.session
        trusts = settings.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE")
        if trusts and client.meta.endpoint_url.startswith("https:"):
            return None
        region = client.meta.region_name or "us-east-1"
        if _AWS in client.meta.endpoint_url and await self._region_of(bucket) != region:
            # botocore follows the redirect to the bucket's own region; obstore would not.
            return None
        url = await client.generate_presigned_url("head_object", Params={"Bucket": bucket, "Key": "key"})
        place = place_of(bucket, client.meta.endpoint_url, url)
        if place is None:
            return None
        credentials = await asyncio.to_thread(self._credentials)
        return FastBucket(bucket, place, region, credentials, *self._timeouts)

    async def _region_of(self, bucket: str) -> str | None:
        try:
            answer = await self._sender.call("head_bucket", Bucket=bucket)
        except Exception:  # noqa: BLE001 - the other client meets the same error, and explains it
            return None
        region: str | None = answer.get("BucketRegion")
        return region

    def _credentials(self) -> Callable[[], Any] | None:
        options = self._options
        client = options.get("client_kwargs") or {}
        if options.get("anon"):
            return None
        key = options.get("key") or options.get("username") or client.get("aws_access_key_id")
        if key:
            secret = options.get("secret") or options.get("password") or client.get("aws_secret_access_key")
            token = options.get("token") or client.get("aws_session_token")
            frozen = ReadOnlyCredentials(key, secret, token)
            return lambda: frozen
        chain = Session(profile=options.get("profile")).get_credentials()
        if chain is None:
            raise NoCredentialsError
        found: Callable[[], Any] = chain.get_frozen_credentials
        return found
