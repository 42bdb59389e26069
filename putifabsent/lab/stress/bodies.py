"""Bytes that say who offered them, and whether they are whole."""

from __future__ import annotations

import hashlib

__all__ = ["TORN", "body", "offered_in"]

TORN = "torn"
_SIZE = 1024


def body(offered: str) -> bytes:
    """Return the bytes of a creation: what it offers, filling, and the digest of both."""
    text = f"{offered}\n".encode().ljust(_SIZE, b".")
    return text + b"\n" + hashlib.sha256(text).hexdigest().encode()


def offered_in(data: bytes) -> str:
    """Return what whoever created this offered; :data:`TORN` if these are not the bytes of one creation."""
    text, _, digest = data.rpartition(b"\n")
    if hashlib.sha256(text).hexdigest().encode() != digest:
        return TORN
    return text.split(b"\n", 1)[0].decode()
