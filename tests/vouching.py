"""Servers of tests are known: no mount need race them for twenty seconds before it relies on them."""

from __future__ import annotations

from putifabsent.backends.probe_cache import BESIDE, Verdict, remember

__all__ = ["vouch"]


def vouch(endpoint: str, kind: str = "s3") -> None:
    """Have all mounts of a server rely on its listings and copies, in whatever process they are."""
    remember(
        kind, endpoint, {word: Verdict(word, safe=True, evidence="a server of tests") for word in BESIDE}
    )
