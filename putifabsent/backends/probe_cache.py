"""What probes have found, kept in the user's cache folder: a store is probed once a week, not once a mount.

What creates names is known by bucket: some stores honour no conditions in one that keeps versions.

``$XDG_CACHE_HOME/putifabsent/verdicts.json`` may be removed at any time, and a broken one counts as empty.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
import uuid
from ipaddress import ip_address
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from putifabsent import __version__
from putifabsent.backends.base import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NEEDED = ("put", "complete")  # what a mount can't do without
BESIDE = ("list", "publish")
"""What another arbiter than the store can't do without, nor a ledger; other mounts never ask for it."""

SAFE_FOR = 7 * 24 * 3600.0  # seconds for which verdicts count that let a mount go on
UNSAFE_FOR = 3600.0
"""Seconds for which verdicts count that stop a mount: whoever repairs a store need not wait for a week.

And any verdict on a port of this machine, where another server may listen tomorrow.
"""

LONGEST_WAIT = 120.0  # seconds for which a process waits for another one's probe before it probes itself
_BETWEEN_LOOKS = 0.1

# What this process knows, also where it has no folder to write to.
_here: dict[str, dict[str, Any]] = {}


def recall(kind: str, endpoint: str | None, folder: str) -> dict[str, Verdict]:
    """Return what is known of ``endpoint`` and the bucket of ``folder``, and not too old, by operation."""
    is_here = _is_here(urlsplit(endpoint or "").hostname or "")
    found: dict[str, Verdict] = {}
    kept, known = _read(), dict[str, Any]()
    for key in (_key(kind, endpoint), _bucket_key(kind, endpoint, folder)):
        known |= {**kept.get(key, {}), **_here.get(key, {})}
    for operation, record in known.items():
        # Whatever somebody else has made of the file, it is a cache.
        with contextlib.suppress(KeyError, TypeError):
            verdict = Verdict(operation, record["safe"] is True, str(record["evidence"]))
            limit = SAFE_FOR if verdict.safe and not is_here else UNSAFE_FOR
            if record["version"] == __version__ and 0 <= time.time() - record["time"] < limit:
                found[operation] = verdict
    return found


def remember(kind: str, endpoint: str | None, folder: str, verdicts: Mapping[str, Verdict]) -> None:
    """Keep what was found in ``folder``. Where nothing can be kept, the next process probes again."""
    found: dict[str, dict[str, Any]] = {}
    for operation, verdict in verdicts.items():
        key = _key(kind, endpoint) if operation in BESIDE else _bucket_key(kind, endpoint, folder)
        found.setdefault(key, {})[operation] = {
            "safe": verdict.safe,
            "evidence": verdict.evidence,
            "time": time.time(),
            "version": __version__,
        }
    for key, records in found.items():
        _here.setdefault(key, {}).update(records)
    # Two processes that write at once may lose one record: it is found out again.
    with contextlib.suppress(OSError, RuntimeError):
        content = {there: known for there, known in _read().items() if _is_of_use(known)}
        for key, records in found.items():
            content[key] = {**content.get(key, {}), **records}
        _write(content)


@contextlib.contextmanager
def turn(kind: str, endpoint: str | None) -> Iterator[None]:
    """Keep other processes of this machine and user from probing the same store meanwhile.

    Eight writers that start together would otherwise race the store eight times over, and each other.
    Where no lock can be had, or none in time, it goes on without: a probe too many is only slow.
    """
    name = hashlib.sha256(_key(kind, endpoint).encode()).hexdigest()[:16]
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError, RuntimeError):
            _file().parent.mkdir(parents=True, exist_ok=True)
            file = _file().with_name(f"probing-{name}.lock")
            lock = held.enter_context(file.open("wb"))
            ends = time.monotonic() + LONGEST_WAIT
            while not (locked := _locked(lock)) and time.monotonic() < ends:
                time.sleep(_BETWEEN_LOOKS)
            if locked:
                # Unlocked by word, not by closing: a child forked meanwhile holds the file open as well.
                held.callback(fcntl.flock, lock, fcntl.LOCK_UN)
                held.callback(file.unlink, missing_ok=True)
        yield


def _locked(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_of_use(records: Mapping[str, Any]) -> bool:
    try:
        return any(0 <= time.time() - record["time"] < SAFE_FOR for record in records.values())
    except (KeyError, TypeError):
        return False


def _is_here(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return "localhost" in host.split(".")
    return address.is_loopback or address.is_unspecified


def _key(kind: str, endpoint: str | None) -> str:
    # An address may carry a password, which is nobody's business in a cache.
    return f"{kind} {(endpoint or '').rpartition('@')[2].rstrip('/').lower()}"


def _bucket_key(kind: str, endpoint: str | None, folder: str) -> str:
    # Behind a space, which no address has: an endpoint with a path is no bucket's.
    return f"{_key(kind, endpoint)} {folder.lstrip('/').partition('/')[0]}"


def _file() -> Path:
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    cache = configured if configured.is_absolute() else Path.home() / ".cache"
    return cache / "putifabsent" / "verdicts.json"


def _read() -> dict[str, dict[str, Any]]:
    try:
        content = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, RuntimeError, ValueError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {key: records for key, records in content.items() if isinstance(records, dict)}


def _write(content: Mapping[str, Any]) -> None:
    file = _file()
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{uuid.uuid4().hex}")
    try:
        new.write_text(json.dumps(content, indent=1, sort_keys=True), encoding="utf-8")
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)
