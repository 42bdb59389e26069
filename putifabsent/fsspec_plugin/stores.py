"""What lies behind a mount: which store, which arbiter, and whether it may rely on the store's own decisions.

Each client library is imported where its store is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from putifabsent.backends.local import LocalStore
from putifabsent.backends.memory import MemoryStore
from putifabsent.backends.probe import CREATES, NEEDED, verdicts_for
from putifabsent.backends.registries import Claims, Lock
from putifabsent.backends.registry_urls import is_claims, open_claims, open_lock
from putifabsent.errors import ConfigError
from putifabsent.fsspec_plugin.options import this_session
from putifabsent.shim.arbiter import Arbiter, Balloting, Claiming, Locking
from putifabsent.shim.arbiter_choice import BY_THE_STORE, Terms, check, needs_probe

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

    from putifabsent.backends.base import Store, Verdict

    Remade: TypeAlias = tuple[type[AbstractFileSystem], Mapping[str, Any], float]

SCHEMES = {
    "s3": ("s3", "s3a"),
    "gcs": ("gs", "gcs"),
    "azure": ("az", "abfs", "abfss"),
    "local": ("file", "local"),
    "memory": ("memory",),
}
"""Of each kind of store, those that mean it; by the first one it is called."""

KINDS = {scheme: kind for kind, schemes in SCHEMES.items() for scheme in schemes}
GUARDED = {scheme: f"pia{SCHEMES[kind][0]}" for scheme, kind in KINDS.items()}
"""Under which a scheme's store is guarded."""


def kind_of(fs: AbstractFileSystem) -> str:
    """Return the kind of store behind ``fs``; ``ConfigError``, if there is none that could be guarded."""
    protocols = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
    for protocol in protocols:
        if protocol in KINDS:
            return KINDS[protocol]
    known = ", ".join(sorted(set(KINDS)))
    raise ConfigError(f"{type(fs).__name__} ({protocols[0]}://) can't be guarded: this version wraps {known}")


def store_of(fs: AbstractFileSystem, options: Mapping[str, Any], deadline: float) -> Store:
    """Make the store behind ``fs``, which was made with ``options``."""
    kind = kind_of(fs)
    if kind == "memory":
        return MemoryStore(fs)
    if kind == "local":
        return LocalStore()
    if kind == "s3":
        from putifabsent.backends.s3 import S3Store

        return S3Store(fs, options, deadline)
    if kind == "gcs":
        from putifabsent.backends.gcs import GCSStore

        return GCSStore(fs, options, deadline)
    from putifabsent.backends.azure import AzureStore

    return AzureStore(fs, options, deadline)


def store_like(remade: Remade, **more: Any) -> Store:
    """Make another such store, whose client is its own and answers whoever waits for it, in any thread.

    ``remade`` is the wrapped filesystem's class, its options, and the deadline; ``more`` are further options.
    """
    wrapped, options, deadline = remade
    own = {**options, "asynchronous": False, "loop": None, "skip_instance_cache": True, **more}
    return store_of(wrapped(**own), own, deadline)


# --- the arbiter


def registry_of(arbiter: str) -> Claims | Lock | None:
    """Return the registry that an arbiter queries, if it has an address. No request is sent yet.

    ``ConfigError`` says what is wrong with the address, without its credentials.
    """
    if "://" not in arbiter:
        return None
    if is_claims(arbiter):
        return open_claims(arbiter)
    lock = open_lock(arbiter)
    from putifabsent.backends.redis import RestingLock

    return RestingLock(lock)  # one that is lost costs one creation its time-out, not each


def arbiter_of(arbiter: str, registry: Claims | Lock | None, store: Store) -> Arbiter | None:
    """Return what decides beside the store; None: the store itself does."""
    if arbiter in BY_THE_STORE:
        return None
    if registry is None:
        return Balloting(store.largest_publish)
    if isinstance(registry, Lock):
        return Locking(store.largest_publish, registry, place_of(store))
    return Claiming(registry, place_of(store), store.largest_publish)


def unordered(arbiter: str, name: str) -> ConfigError:
    """Return the error for a place that lists in no order, where more than the store is to decide."""
    if arbiter in BY_THE_STORE:
        what, instead = "Hudi's timeline", "use a general purpose bucket"
    else:
        what = f"the arbiter {arbiter.partition(':')[0]}"
        instead = 'use arbiter="native", for it honours conditions'
    return ConfigError(
        f"{name.partition('/')[0]} is a directory bucket (S3 Express One Zone), which lists in no order: "
        f"{what} can't be relied on there; {instead}. Nothing was written"
    )


def terms_of(arbiter: Arbiter, state: str) -> Terms:
    """Return what all mounts of the table with this state must have in common.

    A registry is queried for its identity. ``ConfigError``, ``OSError``: it is not there, or not what it must
    be; or it can't be reached.
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
    scheme, endpoint = SCHEMES[store.kind][0], store.endpoint()
    if store.kind == "memory":
        return f"{scheme}://{this_session()}"
    if endpoint is None:
        return f"{scheme}://"
    address = urlsplit(endpoint)
    if store.kind != "azure" and not needs_probe("auto", store.kind, address.netloc):
        return f"{scheme}://"
    # Some emulators have the account in the path.
    return f"{scheme}://{address.netloc.lower()}{address.path.rstrip('/')}/"


# --- whether the store can be relied on


def rely_on(arbiter: str, needs: Sequence[str], store: Store, folder: str, remade: Remade) -> None:
    """Find out whether the store does what its arbiter rests on, its ``needs``; else ``UnsafeStore``.

    ``arbiter`` is the mount's option; ``folder`` is there, and the probe may write in it; ``remade`` makes
    another such store, whose client has room for a race.
    """
    endpoint = store.endpoint()
    if needs_probe(arbiter, store.kind, urlsplit(endpoint).netloc if endpoint else None):
        check(arbiter, verdicts_of(store, folder, remade, needs), endpoint or store.kind)


def verdicts_of(
    store: Store, folder: str, remade: Remade, operations: Sequence[str] = NEEDED
) -> dict[str, Verdict]:
    """Return what a probe finds, or has found lately, of these operations of the store."""
    more = {}
    if store.kind == "s3":
        more["config_kwargs"] = {"max_pool_connections": CREATES, **(remade[1].get("config_kwargs") or {})}
    another = partial(store_like, remade, **more)
    return verdicts_for(store.kind, store.endpoint(), another, folder, operations=operations)
