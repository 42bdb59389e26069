"""Which arbiter decides who wins a name: whether its store can be relied on for that, and mounts agree.

``auto`` and ``native`` let the store itself decide: ``auto`` takes its word where it is known to be good, and
wants a probe's verdict anywhere else; ``native`` takes the user's word for it. Any other arbiter asks less of
the store, but not nothing. Nothing falls back.

All mounts of a table must let the same arbiter decide: two that don't would both be right, and both win.

So each mount leaves a record in the table, and goes on only where no other one is. Equal mounts write equal
records, under one key. A record is never removed by those who find another: somebody may rely on it already.

Mounts by which the store itself decides leave nothing in a table, and so no record; but they look for one.
Who moves a table to them leaves theirs, so that a writer that was forgotten, and begins anew, finds it.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from itertools import count
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from putifabsent.backends.base import STATE_FOLDER, Absent, Creation, Got, InMemory, Listed, TryAgain
from putifabsent.errors import ConfigError, UnsafeStore
from putifabsent.shim.requests import Get, List, Pause, Protocol, Put, read, unanswered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from putifabsent.backends.base import Verdict

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


def check(arbiter: str, verdicts: Mapping[str, Verdict], where: str) -> None:
    """Refuse a store that a probe found unsafe in what a mount can't do without; say what to configure."""
    if arbiter in BY_THE_STORE:
        can_not, instead = "can't decide who creates a name", _ANOTHER_ARBITER
    else:
        can_not = f"does not do what the arbiter {arbiter.partition(':')[0]} rests on"
        instead = _ANOTHER_STORE
    unsafe = [f"{name}: {each.evidence}" for name, each in verdicts.items() if not each.safe]
    if unsafe:
        found = "; ".join(unsafe)
        raise UnsafeStore(
            f"the store at {where} {can_not}. A probe found: {found}. Nothing was written. {instead}"
        )


# --- the agreement of mounts

_FORMAT = 1
_RECORDS = "/arbiters"


class Terms(NamedTuple):
    """What the mounts of a table must have in common."""

    arbiter: str  # the kind of arbiter
    registry: str | None = None  # which registry it asks, without credentials; None for none
    place: str | None = None  # by which address the registry knows the table; None where no registry does

    def __str__(self) -> str:
        if self == NATIVE:
            return "the store itself"
        by = "" if self.registry is None else f" by {self.registry}, which knows the table as {self.place}"
        return f"{self.arbiter}{by}"

    @property
    def record(self) -> bytes:
        """The bytes of the record, equal for equal terms."""
        return json.dumps({"format": _FORMAT, **self._asdict()}, sort_keys=True).encode()


NATIVE = Terms("native")
"""Of mounts by which the store itself decides."""


def agree(state: str, terms: Terms, creation: Creation) -> Protocol[None]:
    """Return where all mounts of a table have these terms; ``state`` is its state folder.

    One listing, where the record is there; two and a put, where it is not. Where it fails, no name was
    touched. ``ConfigError``: there is another record; it names both.
    """
    mine = record_of(state, terms)
    for is_written in (False, True):
        listed: Listed = yield from read(List(_folder(state)))
        names = {entry.name for entry in listed.entries}
        for other in sorted(names - {mine}):
            raise ConfigError((yield from _differing(terms, mine, other)))
        if mine in names:
            return
        if is_written:
            raise OSError(f"what was written is not listed: {mine}")
        yield from leave_record(state, terms, creation)


def look_for_others(state: str, *agreed: Terms) -> Protocol[None]:
    """Return where no mount lets another arbiter decide than these, this mount's first. One listing.

    ``ConfigError``: there is a record; it names the arbiter. A store that refuses the listing gets no second
    request: whoever can't list can't be warned.
    """
    for attempt in count(1):
        listed = yield List(_folder(state))
        if not isinstance(listed, TryAgain):
            break
        if not (yield Pause(attempt)):
            raise unanswered(listed.cause)
    mine = [record_of(state, terms) for terms in agreed]
    for other in sorted(entry.name for entry in listed.entries) if isinstance(listed, Listed) else ():
        if other not in mine:
            raise ConfigError((yield from _differing(agreed[0], mine[0], other)))


def record_of(state: str, terms: Terms) -> str:
    return f"{_folder(state)}/{hashlib.sha256(terms.record).hexdigest()[:32]}"


def state_of_record(path: str) -> str | None:
    """Return the state folder whose record this is; None for what is no record."""
    folder = path.rpartition("/")[0]
    state = folder.removesuffix(_RECORDS)
    return state if state != folder and state.endswith(f"/{STATE_FOLDER}") else None


def leave_record(state: str, terms: Terms, creation: Creation) -> Protocol[None]:
    """Write the record of these terms, whatever others are there."""
    yield from read(Put(record_of(state, terms), InMemory(terms.record), creation))


def _folder(state: str) -> str:
    return f"{state}{_RECORDS}"


def _differing(terms: Terms, mine: str, other: str) -> Protocol[str]:
    got: Got | Absent = yield from read(Get(other))
    try:
        record = {} if isinstance(got, Absent) else json.loads(got.data)
        theirs = str(Terms(record["arbiter"], record["registry"], record["place"]))
    except (KeyError, TypeError, ValueError):
        theirs = "something that this version can't read"
    return (
        f"this mount lets {terms} decide, and another mount of the table {theirs}: all must let the same one "
        f"decide. The other's record is {other}; this one's would be {mine.rpartition('/')[2]}. Mount the "
        "table as the others do"
    )
