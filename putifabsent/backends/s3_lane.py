"""Where a mount's requests for a bucket go, and whether obstore can send them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import NoCredentialsError
from botocore.session import Session
from fsspec.asyn import sync

from putifabsent.backends import s3_fast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from putifabsent.backends.s3_sender import Sender

__all__ = ["FastLane"]

_AWS = ".amazonaws.com"


class FastLane:
    """Finds, once a bucket, the client that sends its plain puts.

    Parameters
    ----------
    sender
        The other client, which knows the mount's endpoint, region and addressing style.
    options
        The options of the wrapped filesystem.
    connect_timeout, timeout
        Seconds, for one request.
    """

    def __init__(
        self, sender: Sender, options: Mapping[str, Any], connect_timeout: float, timeout: float
    ) -> None:
        self._sender = sender
        self._options = options
        self._timeouts = (connect_timeout, timeout)
        self._understood = s3_fast.understands(options)
        self._buckets: dict[str, s3_fast.FastBucket | None] = {}

    def bucket(self, bucket: str, key: str) -> s3_fast.FastBucket | None:
        """Return the client for ``key``, or None where it takes the other one."""
        if not self._takes(key):
            return None
        if bucket not in self._buckets:
            sync(self._sender.fs.loop, self._open, bucket)
        return self._buckets[bucket]

    async def bucket_async(self, bucket: str, key: str) -> s3_fast.FastBucket | None:
        """:meth:`bucket`, asynchronously."""
        if not self._takes(key):
            return None
        if bucket not in self._buckets:
            await self._open(bucket)
        return self._buckets[bucket]

    def _takes(self, key: str) -> bool:
        return self._understood and not s3_fast.forked() and s3_fast.takes(key)

    async def _open(self, bucket: str) -> None:
        await self._sender.fs.set_session()
        client = await self._sender.fs.get_s3(bucket)
        region = client.meta.region_name or "us-east-1"
        self._buckets[bucket] = None
        if _AWS in client.meta.endpoint_url and await self._region_of(bucket) != region:
            # botocore follows the redirect to the bucket's own region; obstore would not.
            return
        try:
            url = await client.generate_presigned_url("head_object", Params={"Bucket": bucket, "Key": "key"})
            credentials = await asyncio.to_thread(self._credentials)
        except NoCredentialsError:
            # The other client meets the same error, and says so with the name.
            return
        self._buckets[bucket] = s3_fast.FastBucket(bucket, url, region, credentials, *self._timeouts)

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
