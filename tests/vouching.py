"""Servers of tests are known: no mount need race them for twenty seconds before it relies on them."""

from __future__ import annotations

from putifabsent.backends.verdicts import BESIDE, Verdict, remember

__all__ = ["vouch"]


def vouch(endpoint: str) -> None:
    """Have all mounts of an S3 server rely on its listings and copies, in whatever process they are."""
    remember(
        "s3", endpoint, {word: Verdict(word, safe=True, evidence="a server of tests") for word in BESIDE}
    )
