"""The S3 bucket policy that has the store itself refuse an unconditional put to a guarded name.

Reference: the S3 user guide, "Enforce conditional writes on Amazon S3 buckets".
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from putifabsent.errors import ConfigError
from putifabsent.shim.policy import ENFORCED

if TYPE_CHECKING:
    from collections.abc import Iterable

_LARGEST = 20 * 1024
_SPECIAL = re.compile(r"[*?$]")


def bucket_policy(place: str, formats: Iterable[str]) -> dict[str, Any]:
    """Return the policy for the tables in a folder and below it: a bucket, or ``lake/warehouse``.

    ``ConfigError``: no format is named, or S3 takes no policy as large as this one.
    """
    # What is special in a policy is escaped so.
    folder = _SPECIAL.sub(lambda found: f"${{{found[0]}}}", place.strip("/"))
    resources = [
        f"arn:aws:s3:::{folder}/{below}{pattern}"
        for each in formats
        for pattern in ENFORCED[each].patterns
        for below in ("", "*/")
    ]
    if not resources:
        raise ConfigError(f"name the formats of the tables: {', '.join(ENFORCED)}")
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "GuardedNamesAreCreatedOnce",
                "Effect": "Deny",
                "Principal": "*",
                "Action": "s3:PutObject",
                "Resource": resources,
                "Condition": {
                    "Null": {"s3:if-none-match": "true"},
                    "Bool": {"s3:ObjectCreationOperation": "true"},
                },
            }
        ],
    }
    size = len(json.dumps(policy, separators=(",", ":")).encode())
    if size > _LARGEST:
        raise ConfigError(
            f"the policy has {size} bytes, and S3 takes {_LARGEST}: name fewer formats, or a shorter prefix"
        )
    return policy
