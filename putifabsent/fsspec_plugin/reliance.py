"""Whether a mount may rely on its store's own decisions, found out before its first guarded create."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from putifabsent.backends.base import ConditionalCopy
from putifabsent.backends.probe import CREATES, NEEDED, verdicts_for
from putifabsent.fsspec_plugin.stores import store_of
from putifabsent.shim.arbiters import check, needs_probe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fsspec.spec import AbstractFileSystem

    from putifabsent.backends.base import Store
    from putifabsent.backends.probe import Verdict

__all__ = ["rely_on", "verdicts_of"]


def rely_on(
    arbiter: str,
    store: Store,
    folder: str,
    wrapped: type[AbstractFileSystem],
    options: Mapping[str, Any],
    deadline: float,
) -> bool:
    """Return whether the store honours a condition on copies, too.

    Parameters
    ----------
    arbiter
        The mount's option.
    store
        What it is going to rely on.
    folder
        An existing folder of the store, in which a probe may write.
    wrapped, options, deadline
        What makes another such store, whose client has room for a race.

    Raises
    ------
    UnsafeStore
        A probe found that the store can't decide.
    """
    endpoint = store.endpoint()
    if not needs_probe(arbiter, store.kind, urlsplit(endpoint).netloc if endpoint else None):
        return False
    verdicts = verdicts_of(store, folder, wrapped, options, deadline)
    check(verdicts, endpoint or store.kind)
    return verdicts["copy"].safe if "copy" in verdicts else False


def verdicts_of(
    store: Store,
    folder: str,
    wrapped: type[AbstractFileSystem],
    options: Mapping[str, Any],
    deadline: float,
) -> dict[str, Verdict]:
    """Return what a probe finds, or has found lately, of the store's operations."""

    def another() -> Store:
        roomy = {**options, "asynchronous": False, "skip_instance_cache": True}
        if store.kind == "s3":
            roomy["config_kwargs"] = {"max_pool_connections": CREATES, **(options.get("config_kwargs") or {})}
        if store.kind in ("local", "memory"):
            roomy = dict(options)
        return store_of(wrapped(**roomy), roomy, deadline)

    operations = [*NEEDED, *(["copy"] if isinstance(store, ConditionalCopy) else [])]
    return verdicts_for(store.kind, store.endpoint(), another, folder, operations=operations)
