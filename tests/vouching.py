"""What mounts of the tests' servers know of them before they ask."""

from __future__ import annotations

from putifabsent.backends import probe_cache
from putifabsent.backends.base import Verdict
from putifabsent.backends.probe_cache import BESIDE, NEEDED, remember

__all__ = ["forget", "vouch"]


def vouch(endpoint: str, kind: str = "s3", bucket: str = "") -> None:
    """Have all mounts of a server rely on its listings and copies, in whatever process they are.

    And on its creations in ``bucket``, if one is given. No mount need race it for twenty seconds before.
    """
    forget(endpoint, kind)
    known = (*NEEDED, *BESIDE) if bucket else BESIDE
    verdicts = {word: Verdict(word, safe=True, evidence="a server of tests") for word in known}
    remember(kind, endpoint, bucket, verdicts)


def forget(endpoint: str, kind: str = "s3") -> None:
    """Have nothing known of a server that has just begun to listen, where another one may have listened.

    A run of the tests begins some hundred servers, and the system gives a port again.
    """
    server = probe_cache._key(kind, endpoint)
    known = probe_cache._read()
    others = {key: found for key, found in known.items() if not _is_of(key, server)}
    for key in [each for each in probe_cache._here if _is_of(each, server)]:
        del probe_cache._here[key]
    if others != known:
        probe_cache._write(others)


def _is_of(key: str, server: str) -> bool:
    return key == server or key.startswith(f"{server} ")
