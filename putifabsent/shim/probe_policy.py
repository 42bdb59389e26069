"""Who decides which creation wins a name, and whether its store can be relied on for that.

``auto`` and ``native`` let the store itself decide: ``auto`` takes its word where it is known to be good, and
wants a probe's verdict anywhere else; ``native`` takes the user's word for it. Any other arbiter asks less of
the store, but not nothing. Nothing falls back.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Protocol
from urllib.parse import urlsplit

from putifabsent.errors import ConfigError, UnsafeStore

BY_THE_STORE = ("auto", "native")
"""With these, the store itself decides."""

ARBITERS = (*BY_THE_STORE, "ballot")
"""The arbiters that need no address."""

# AWS's own endpoints of S3: what listens on its other hosts (``ec2-....compute``, ``....elb``) is its users'.
_NATIVE_HOSTS = {
    "s3": re.compile(
        r"(.+\.)?s3((express)?-[a-z0-9-]+)?(\.dualstack)?(\.(aws-global|[a-z-]+-[0-9]+))?(\.vpce)?\.amazonaws\.(com|com\.cn|eu)"
    ),
    "gcs": re.compile(r".+\.googleapis\.com"),
    "azure": re.compile(
        r".+\.blob\.(core\.windows\.net|core\.chinacloudapi\.cn|core\.usgovcloudapi\.net|storage\.azure\.net)"
    ),
}
_NATIVE_KINDS = ("local", "memory")

_ANOTHER_STORE = (
    "Keep the table on a store that can (AWS S3, Google Cloud Storage, Azure, or an S3-compatible one that "
    "`putifabsent probe` finds safe)"
)
_ANOTHER_ARBITER = (
    'Let another arbiter decide: arbiter="ballot" (the bucket alone) or "dynamodb://TABLE?region=...", the '
    f'same one in every mount of the table. {_ANOTHER_STORE}; arbiter="native" goes on without asking, only '
    "if you know better"
)


class _Verdict(Protocol):
    """What a probe says of one operation: :class:`putifabsent.backends.probe.Verdict`."""

    @property
    def safe(self) -> bool: ...
    @property
    def evidence(self) -> str: ...
    @property
    def needed(self) -> bool: ...


def validate(arbiter: str, schemes: Iterable[str]) -> None:
    """Refuse what is no arbiter, by a ``ConfigError`` that names the nearest one.

    ``schemes`` are what the address of a registry may begin with.
    """
    value: object = arbiter  # options come from configuration files, too
    if not isinstance(value, str):
        raise ConfigError(f"arbiter must be a word or an address, not {value!r}")
    scheme, is_address, _ = arbiter.partition("://")
    schemes = tuple(schemes)
    if arbiter in ARBITERS or (is_address and scheme.lower() in schemes):
        return
    # What is neither may hold a password: of an address, however it is written, only the scheme is repeated.
    word, colon, _ = arbiter.partition(":")
    shown = "..." if "@" in word else f"{word}:..." if colon else word
    near = difflib.get_close_matches(word.lower(), (*ARBITERS, *schemes), n=1)
    words = [repr(known) for known in ARBITERS] + [f"'{known}://...'" for known in schemes]
    spelt = [word for word in words if near and word.strip("'").partition(":")[0] == near[0]]
    hint = f"did you mean {spelt[0]}? " if spelt else ""
    raise ConfigError(f"unknown arbiter {shown!r}: {hint}There are {', '.join(words)}")


def needs_probe(arbiter: str, kind: str, host: str | None) -> bool:
    """Say whether a store wants a probe; ``host`` is its host or address, None for the kind's own cloud."""
    if arbiter == "native" or kind in _NATIVE_KINDS:
        return False
    known = _NATIVE_HOSTS.get(kind)
    if known is None:
        return True
    if host is None:
        return False
    found = urlsplit(host if "://" in host else f"//{host}").hostname
    return known.fullmatch((found or "").rstrip(".")) is None


def check(arbiter: str, verdicts: Mapping[str, _Verdict], where: str) -> None:
    """Refuse a store that a probe found unsafe in what a mount can't do without; say what to configure."""
    if arbiter in BY_THE_STORE:
        can_not, instead = "can't decide who creates a name", _ANOTHER_ARBITER
    else:
        can_not = f"does not do what the arbiter {arbiter.partition(':')[0]} rests on"
        instead = _ANOTHER_STORE
    unsafe = [f"{name}: {each.evidence}" for name, each in verdicts.items() if each.needed and not each.safe]
    if unsafe:
        found = "; ".join(unsafe)
        raise UnsafeStore(
            f"the store at {where} {can_not}. A probe found: {found}. Nothing was written. {instead}"
        )
