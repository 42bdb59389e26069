"""Which arbiter a mount's option names, and the registry that it asks."""

from __future__ import annotations

import uuid
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from putifabsent.backends.circuit_breaker import RestingLock
from putifabsent.backends.registries import Lock
from putifabsent.backends.registry_urls import is_claims, open_claims, open_lock
from putifabsent.shim.agreement import Terms
from putifabsent.shim.arbiter import Balloting, Claiming, Locking
from putifabsent.shim.probe_policy import BY_THE_STORE, needs_probe

if TYPE_CHECKING:
    from putifabsent.backends.base import Store
    from putifabsent.backends.registries import Claims
    from putifabsent.shim.arbiter import Arbiter

__all__ = ["arbiter_of", "place_of", "registry_of", "terms_of"]

_SCHEMES = {"s3": "s3", "gcs": "gs", "azure": "az", "local": "file", "memory": "memory"}


def registry_of(arbiter: str) -> Claims | Lock | None:
    """Return what an arbiter asks, if it is one that has an address. Nothing is asked yet.

    Raises
    ------
    ConfigError
        What is wrong with the address, without its credentials.
    """
    if "://" not in arbiter:
        return None
    # One that is lost costs one creation its time-out, not each.
    return open_claims(arbiter) if is_claims(arbiter) else RestingLock(open_lock(arbiter))


def arbiter_of(arbiter: str, registry: Claims | Lock | None, store: Store) -> Arbiter | None:
    """Return what decides beside the store; None: the store itself does."""
    if arbiter in BY_THE_STORE:
        return None
    if registry is None:
        return Balloting(store.largest_publish)
    if isinstance(registry, Lock):
        return Locking(store.largest_publish, registry, place_of(store))
    return Claiming(registry, place_of(store), store.largest_publish)


def terms_of(arbiter: Arbiter, state: str) -> Terms:
    """Return what all mounts of the table with this state must have in common.

    A registry is asked which one it is.

    Raises
    ------
    ConfigError, OSError
        The registry is not there, or not what it must be; or it can't be reached.
    """
    if isinstance(arbiter, Claiming):
        return Terms(
            arbiter.claims.kind, arbiter.claims.identity(), f"{arbiter.place}{state.rpartition('/')[0]}"
        )
    # With a lock or without, ballots decide: such mounts agree.
    return Terms("ballot")


def place_of(store: Store) -> str:
    """Return the store's canonical address, up to where its names begin: what registries know it by.

    A cloud's own buckets are known by their names alone; those of another endpoint by its host, too, and an
    Azure container by its account. A disk is known by its paths: a registry serves one machine's, or a disk
    that all machines mount in one place. Memory is this process's.
    """
    scheme, endpoint = _SCHEMES[store.kind], store.endpoint()
    if store.kind == "memory":
        return f"{scheme}://{_this_process()}"
    if endpoint is None:
        return f"{scheme}://"
    address = urlsplit(endpoint)
    if store.kind != "azure" and not needs_probe("auto", store.kind, address.netloc):
        return f"{scheme}://"
    # Some emulators have the account in the path.
    return f"{scheme}://{address.netloc.lower()}{address.path.rstrip('/')}/"


@lru_cache(maxsize=1)
def _this_process() -> str:
    return str(uuid.uuid4())
