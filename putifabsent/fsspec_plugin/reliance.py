"""Whether a mount may rely on its store's own decisions, found out before its first guarded create."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from putifabsent.backends.base import ConditionalCopy
from putifabsent.backends.probe import CREATES, NEEDED, verdicts_for
from putifabsent.fsspec_plugin.stores import store_of
from putifabsent.shim.probe_policy import BY_THE_STORE, check, needs_probe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fsspec.spec import AbstractFileSystem

    from putifabsent.backends.base import Store
    from putifabsent.backends.probe import Verdict

    Remade: TypeAlias = tuple[type[AbstractFileSystem], Mapping[str, Any], float]

__all__ = ["copies_safely", "rely_on", "verdicts_of"]

_COPY = "copy"


def rely_on(arbiter: str, needs: Sequence[str], store: Store, folder: str, remade: Remade) -> None:
    """Find out whether the store does what its arbiter rests on.

    Parameters
    ----------
    arbiter
        The mount's option.
    needs
        The operations that it rests on.
    store
        What it is going to rely on.
    folder
        An existing folder of the store, in which a probe may write.
    remade
        What makes another such store, whose client has room for a race: the wrapped filesystem's class, its
        options, and the deadline.

    Raises
    ------
    UnsafeStore
        A probe found that it doesn't.
    """
    if _wants_probe(arbiter, store):
        check(arbiter, verdicts_of(store, folder, remade, needs), store.endpoint() or store.kind)


def copies_safely(arbiter: str, store: Store, folder: str, remade: Remade) -> bool:
    """Return whether the store honours a condition on copies, too; parameters as for :func:`rely_on`."""
    if (
        arbiter not in BY_THE_STORE
        or not isinstance(store, ConditionalCopy)
        or not _wants_probe(arbiter, store)
    ):
        return False
    return verdicts_of(store, folder, remade, [_COPY])[_COPY].safe


def verdicts_of(
    store: Store, folder: str, remade: Remade, operations: Sequence[str] | None = None
) -> dict[str, Verdict]:
    """Return what a probe finds, or has found lately, of these operations of the store, or of all."""
    wrapped, options, deadline = remade

    def another() -> Store:
        roomy = {**options, "asynchronous": False, "skip_instance_cache": True}
        if store.kind == "s3":
            roomy["config_kwargs"] = {"max_pool_connections": CREATES, **(options.get("config_kwargs") or {})}
        if store.kind in ("local", "memory"):
            roomy = dict(options)
        return store_of(wrapped(**roomy), roomy, deadline)

    if operations is None:
        operations = [*NEEDED, *([_COPY] if isinstance(store, ConditionalCopy) else [])]
    return verdicts_for(store.kind, store.endpoint(), another, folder, operations=operations)


def _wants_probe(arbiter: str, store: Store) -> bool:
    endpoint = store.endpoint()
    return needs_probe(arbiter, store.kind, urlsplit(endpoint).netloc if endpoint else None)
