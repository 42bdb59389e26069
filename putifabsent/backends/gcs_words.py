"""What a GCS request says of an object beside its bytes: what the caller adds, the token, the writer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.backends.base import TOKEN_KEY, WRITER_KEY, Refused
from putifabsent.backends.refusals import unsupported
from putifabsent.backends.single_send import are_texts
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from putifabsent.backends.base import Creation

__all__ = ["Words", "words_of"]

_TYPE = "application/octet-stream"
_FIXED_KEYS = {
    "cache_control": "cacheControl",
    "content_disposition": "contentDisposition",
    "content_encoding": "contentEncoding",
    "content_language": "contentLanguage",
    "custom_time": "customTime",
}
# gcsfs writes them in small letters.
_ACLS = {
    acl.lower(): acl
    for acl in (
        "authenticatedRead",
        "bucketOwnerFullControl",
        "bucketOwnerRead",
        "private",
        "projectPrivate",
        "publicRead",
    )
}
_CARRIED = {"acl", "consistency", "content_type", "fixed_key_metadata", "kms_key_name", "metadata"}
_FOR_THE_CLIENT = {
    "autocommit",
    "block_size",
    "cache_options",
    "cache_type",
    "callback",
    "chunksize",
    "concurrency",
    "finalize_on_close",
    "mode",
    "timeout",
}


class Words(NamedTuple):
    """What a creation says beside its bytes: of the object, in the address, and the checksum to send."""

    resource: dict[str, Any]
    params: dict[str, str]
    checksum: str

    @property
    def of_a_copy(self) -> dict[str, str]:
        """What goes into the address of a copy."""
        changed = {"predefinedAcl": "destinationPredefinedAcl", "kmsKeyName": "destinationKmsKeyName"}
        return {changed[key]: value for key, value in self.params.items()}


def words_of(creation: Creation, consistency: str) -> Words | Refused:
    """Return what goes with the bytes of ``creation``, or why it can't; ``consistency`` is the mount's."""
    extra = {key: value for key, value in creation.extra.items() if key not in _FOR_THE_CLIENT}
    unknown = extra.keys() - _CARRIED
    if unknown:
        return Refused(unsupported("gcs", unknown))
    metadata, fixed = (extra.get(key) or {} for key in ("metadata", "fixed_key_metadata"))
    if not (are_texts(metadata) and are_texts(fixed)):
        return Refused(ConfigError("metadata and fixed_key_metadata must map strings to strings"))
    unknown = fixed.keys() - _FIXED_KEYS.keys()
    if unknown:
        return Refused(unsupported("gcs", (f"fixed_key_metadata[{key!r}]" for key in unknown)))
    params = {}
    if extra.get("acl"):
        acl = _ACLS.get(str(extra["acl"]).lower())
        if acl is None:
            known = ", ".join(_ACLS.values())
            return Refused(ConfigError(f"there is no acl {extra['acl']!r}: there are {known}"))
        params["predefinedAcl"] = acl
    if extra.get("kms_key_name"):
        params["kmsKeyName"] = str(extra["kms_key_name"])
    marks = {TOKEN_KEY: creation.token, WRITER_KEY: creation.writer}
    resource = {
        "contentType": str(extra.get("content_type") or _TYPE),
        "metadata": {**metadata, **marks},
        **{_FIXED_KEYS[key]: value for key, value in fixed.items()},
    }
    wanted = extra.get("consistency") or consistency
    return Words(resource, params, wanted if wanted in {"md5", "crc32c"} else "")
