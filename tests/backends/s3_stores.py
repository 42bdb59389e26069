"""S3 stores for the suites, in either lane, here or in a process that a suite starts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from s3fs import S3FileSystem

from putifabsent.backends.s3 import S3Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Lane = Literal["plain", "full"]


def made_store(options: Mapping[str, Any]) -> S3Store:
    return S3Store(S3FileSystem(**options), options, deadline=30)


def maker(options: Mapping[str, Any], lane: Lane) -> Callable[[], S3Store]:
    """What makes a store: obstore can't send what ``s3_additional_kwargs`` adds, so that is the full lane."""
    more = {"s3_additional_kwargs": {"StorageClass": "STANDARD"}} if lane == "full" else {}
    return partial(made_store, {**options, **more})
