"""Who decides which creation wins a name, and whether that one can be relied on.

In this version the store itself decides, everywhere. ``auto`` takes its word where it is known to be good,
and wants a probe's verdict anywhere else; ``native`` takes the user's word for it. Nothing falls back.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from putifabsent.errors import ConfigError, UnsafeStore

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ARBITERS", "check", "needs_probe", "validate"]

ARBITERS = ("auto", "native")
"""The arbiters of this version."""

_NOT_YET = ("ballot", "dynamodb", "redis", "rediss", "valkey")

# An S3 endpoint of another cloud may lie on a host of any name; these are AWS's own.
_NATIVE_HOSTS = {
    "s3": (".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu"),
    "gcs": (".googleapis.com",),
    "azure": (
        ".blob.core.windows.net",
        ".blob.core.chinacloudapi.cn",
        ".blob.core.usgovcloudapi.net",
        ".blob.storage.azure.net",
    ),
}
_NATIVE_KINDS = ("local", "memory")


class Verdict(Protocol):
    """What a probe says of one operation: :class:`putifabsent.backends.verdicts.Verdict`."""

    @property
    def operation(self) -> str:
        """``"put"``, ``"complete"`` or ``"copy"``."""

    @property
    def safe(self) -> bool:
        """Whether no fault was found."""

    @property
    def evidence(self) -> str:
        """What was seen."""

    @property
    def needed(self) -> bool:
        """Whether a mount can't do without the operation."""


def validate(arbiter: str) -> None:
    """Refuse an arbiter that this version does not have.

    Raises
    ------
    ConfigError
        It names the nearest one, or says that it is still to come.
    """
    if arbiter in ARBITERS:
        return
    here = " and ".join(repr(known) for known in ARBITERS)
    scheme = arbiter.partition(":")[0].lower()
    if scheme in _NOT_YET:
        raise ConfigError(
            f"arbiter={arbiter!r}: this version has no {scheme} arbiter yet, only {here}: "
            f"keep the table on a store that can decide by itself"
        )
    near = difflib.get_close_matches(arbiter, ARBITERS, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ConfigError(f"unknown arbiter {arbiter!r}: {hint}This version has {here}")


def needs_probe(arbiter: str, kind: str, host: str | None) -> bool:
    """Say whether the store's own decision wants a probe before it is relied on.

    Parameters
    ----------
    arbiter
        The mount's option.
    kind
        ``Store.kind``.
    host
        Where requests go, a host or an address; None for the kind's own cloud.

    Raises
    ------
    ConfigError
        This version has no such arbiter.
    """
    validate(arbiter)
    if arbiter == "native" or kind in _NATIVE_KINDS:
        return False
    known = _NATIVE_HOSTS.get(kind)
    if known is None:
        return True
    return host is not None and not _host_of(host).endswith(known)


def check(verdicts: Mapping[str, Verdict], where: str) -> None:
    """Refuse a store that a probe found unsafe in something that a mount can't do without.

    Parameters
    ----------
    verdicts
        What the probe found, an operation each.
    where
        The store, for people: its endpoint.

    Raises
    ------
    UnsafeStore
        It gives the operations and the evidence, and what to configure.
    """
    unsafe = [verdict for verdict in verdicts.values() if verdict.needed and not verdict.safe]
    if unsafe:
        found = "; ".join(f"{verdict.operation}: {verdict.evidence}" for verdict in unsafe)
        raise UnsafeStore(
            f"the store at {where} can't decide who creates a name. A probe found: {found}. Nothing was "
            f"written. Keep the table on a store that can (AWS S3, Google Cloud Storage, Azure, or an "
            f'S3-compatible one that `putifabsent probe` finds safe); arbiter="native" goes on without '
            f"asking, only if you know better"
        )


def _host_of(address: str) -> str:
    found = urlsplit(address if "://" in address else f"//{address}").hostname
    return (found or "").rstrip(".")
