"""What an S3 request says of an object beside its bytes: what mount and caller add, the token, the writer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from putifabsent.backends.base import TOKEN_KEY, WRITER_KEY, Refused
from putifabsent.backends.refusals import unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from putifabsent.backends.base import Creation
    from putifabsent.backends.s3_sender import Sender

__all__ = ["OF_THE_SOURCE", "of_a_copy", "of_a_creation"]

_FOR_THE_CLIENT = {"chunksize", "max_concurrency", "callback", "block_size", "fill_cache", "cache_type"}
_CUSTOMER_KEY = ("SSECustomerAlgorithm", "SSECustomerKey", "SSECustomerKeyMD5")

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


async def of_a_creation(
    sender: Sender, mount: Mapping[str, Any], method: str, creation: Creation
) -> dict[str, Any] | Refused:
    """Return the parameters of a put or an upload; what ``mount`` adds, the sender sends."""
    extra = _extra(creation)
    metadata = {
        **mount.get("Metadata", {}),
        **extra.pop("Metadata", {}),
        **extra.pop("metadata", {}),
        TOKEN_KEY: creation.token,
        WRITER_KEY: creation.writer,
    }
    unknown = extra.keys() - await sender.accepts(method)
    if unknown:
        return Refused(unsupported("s3", unknown))
    return {**extra, "Metadata": metadata}


async def of_a_copy(sender: Sender, mount: Mapping[str, Any], creation: Creation) -> dict[str, Any] | Refused:
    """Return the parameters of a copy whose source was put with the same words."""
    extra = _extra(creation)
    extra.pop("metadata", None)
    unknown = extra.keys() - await sender.accepts("put_object")
    if unknown:
        return Refused(unsupported("s3", unknown))
    # What only a put knows speaks of the bytes that it carries.
    wanted = await sender.accepts("copy_object") - OF_THE_SOURCE
    said = {**mount, **extra}
    reading = {f"CopySource{key}": said[key] for key in _CUSTOMER_KEY if key in said}
    return {**{key: value for key, value in extra.items() if key in wanted}, **reading}


def _extra(creation: Creation) -> dict[str, Any]:
    extra = {key: value for key, value in creation.extra.items() if key not in _FOR_THE_CLIENT}
    if "acl" in extra:
        extra["ACL"] = extra.pop("acl")
    return extra
