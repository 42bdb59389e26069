"""What is reported of each protocol that a mount has run: a log line for a creation, and metrics.

Nothing of it decides anything, and where nobody listens nothing is counted. No line holds bytes that were
written, an address of a registry, or a client library's own words, which may hold credentials.

Metrics are OpenTelemetry's, in a process that uses it: who has not imported its API imports nothing here. Who
sets a meter provider has imported it. It may be set at any time: until then, what is counted is dropped.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections import Counter
from collections.abc import Collection
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent import __version__
from putifabsent.errors import NameTaken, unknown_of
from putifabsent.shim import ballot_state, state_keys
from putifabsent.shim.requests import (
    Both,
    Complete,
    Create,
    Now,
    Pause,
    Publish,
    Put,
    Request,
    Since,
    WriteClaim,
    kind_of,
)

if TYPE_CHECKING:
    from putifabsent.shim.arbiter import Arbiter
    from putifabsent.shim.names import Name

log = logging.getLogger(__name__)

METRICS = "opentelemetry.metrics"  # whoever sets a meter provider has imported it

MANY_ROUNDS = 5  # whoever stands for a name so often meets others all the time, and waits more than it asks


def observe(
    arbiter: Arbiter | None,
    requests: Collection[Request],
    began: float,
    creates: Name | None,
    error: BaseException | None = None,
    *,
    listens: bool,
) -> None:
    """Say what came of a protocol, to whoever listens; where nobody does, an unknown outcome alone is told.

    ``began`` is by :func:`time.perf_counter`; ``creates`` is the name that it was to create, if it was a
    creation; ``error`` is what it raised.
    """
    seconds = perf_counter() - began
    unknown = None if error is None or creates is None else unknown_of(error)
    if unknown is None and not listens:
        return
    # Whoever listens badly must not contradict what was decided.
    with contextlib.suppress(Exception):
        kind = _kind_of(arbiter)
        counts = Counts.of(requests)
        outcome = None if creates is None else _outcome_of(error)
        if creates is not None:
            level, advice = logging.DEBUG, ""
            if unknown is not None:
                level = logging.WARNING
                advice = f". Delete nothing; ask later with fs.resolve(name, {unknown.token!r})"
            elif counts.rounds >= MANY_ROUNDS:
                level = logging.INFO
            log.log(
                level,
                "creation of %r: %s, arbiter %s, requests %d, pauses %d, rounds %d, helps %d, seconds %.6f%s",
                creates.path,
                outcome,
                kind,
                sum(counts.requests.values()),
                *counts[1:],
                seconds,
                advice,
            )
        if is_loaded():
            instruments().add(kind, counts, outcome, seconds)


def observe_wait(arbiter: Arbiter | None, seconds: float | None) -> None:
    """Say for how long somebody waited for others in a queue, for a commit or a slot; None: not at all."""
    if seconds is not None and is_loaded():
        with contextlib.suppress(Exception):
            instruments().wait(_kind_of(arbiter), seconds)


def _kind_of(arbiter: Arbiter | None) -> str:
    return "native" if arbiter is None else arbiter.kind


def _outcome_of(error: BaseException | None) -> str:
    if error is None:
        return "won"
    if unknown_of(error) is not None:
        return "unknown"
    return "taken" if isinstance(error, NameTaken) else "error"


# --- what a run has cost


class Counts(NamedTuple):
    """What a run has cost."""

    # How many of each kind: ``create``, ``head``, ``put``, ``write_claim``. Two that go out together are two;
    # a large body is staged by one, however many parts it has.
    requests: dict[str, int]
    # How often it was to back off, before it sent something again or looked again; at the deadline it does
    # not any more.
    pauses: int
    # How often it has stood for a decision: the ballots begun, the incarnations claimed. The same request
    # sent again is no further round; and where the store decides, each name has one.
    rounds: int
    # How many creations of others it has carried on: an accept for another's value, or a publication of
    # another's bytes.
    helps: int

    @classmethod
    def of(cls, requests: Collection[Request]) -> Counts:
        """Read them off the requests, which say by themselves what they are for."""
        sent = (each for each in requests if not isinstance(each, (Pause, Now, Since)))
        parts = (part for each in sent for part in (each if isinstance(each, Both) else (each,)))
        return cls(
            Counter(kind_of(type(part).__name__) for part in parts),
            sum(isinstance(each, Pause) for each in requests),
            len({*map(_round, requests)} - {None}),
            len({*map(_helped, requests)} - {None}),
        )


def _round(request: Request) -> tuple[object, ...] | None:
    """Return which decision a request begins to stand for, if it does."""
    if isinstance(request, Create):
        return (request.name,)
    if isinstance(request, Complete):
        return (request.staged.name,)
    if isinstance(request, WriteClaim):
        return (request.identity, request.claim.incarnation) if request.claim.live else None
    if isinstance(request, Put) and isinstance(
        key := ballot_state.parsed(request.name), ballot_state.Prepare
    ):
        return request.name.rpartition("/")[0], key.incarnation, key.round
    return None


def _helped(request: Request) -> str | None:
    """Return the token of another's creation that a request carries on, if it does."""
    whose: str | None
    if isinstance(request, Put):
        key = ballot_state.parsed(request.name)
        if not isinstance(key, ballot_state.Accept):
            return None
        by, whose = state_keys.creation_of(key.voter), state_keys.creation_of(key.value)
    elif isinstance(request, Publish):
        by, whose = request.creation.token, _creation_of(request.source)
    else:
        return None
    return None if whose in (None, by) else whose


def _creation_of(source: str) -> str | None:
    """Return the token of the creation whose bytes lie there, if they are the shim's own."""
    if (claimed := state_keys.parsed(source)) is not None:
        return claimed.token
    key = ballot_state.parsed(source)
    return state_keys.creation_of(key.voter) if isinstance(key, ballot_state.Prepare) else None


# --- metrics

_ARBITER = "putifabsent.arbiter"
_KIND = "putifabsent.request.kind"
_OUTCOME = "putifabsent.creation.outcome"

_COUNTERS = {
    "requests": ("{request}", "Requests to stores and registries."),
    "pauses": ("{pause}", "Back-offs before something was sent or looked at again."),
    "rounds": ("{round}", "Goes at a decision; one for a creation that meets nobody."),
    "helps": ("{creation}", "Creations of others that were carried on."),
    "creations": ("{creation}", "Creations, by what came of them."),
}
# Seconds: for one commit of another's, or several.
_WAITS = (1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
# Seconds. A creation in memory takes 0.0001, on S3 0.01 to 0.1; 30 is the deadline.
_BOUNDARIES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_DURATIONS = {
    "creation": ("How long creations take.", _BOUNDARIES),
    "queue": ("How long writers wait for others' commits before they begin one.", _WAITS),
}


def is_loaded() -> bool:
    """Whether this process could have a meter provider."""
    return METRICS in sys.modules


@cache
def instruments() -> Instruments:
    """Return what counts in this process. They take to a meter provider that is set later."""
    return Instruments(sys.modules[METRICS])


class Instruments:
    """What is counted, and measured, by the meter that OpenTelemetry's API, or a provider, gives."""

    def __init__(self, api: Any) -> None:
        meter = api.get_meter("putifabsent", __version__)
        self._counters = {
            name: meter.create_counter(f"putifabsent.{name}", *about) for name, about in _COUNTERS.items()
        }
        self._durations = {
            name: meter.create_histogram(
                f"putifabsent.{name}.duration", "s", about, explicit_bucket_boundaries_advisory=boundaries
            )
            for name, (about, boundaries) in _DURATIONS.items()
        }

    def wait(self, arbiter: str, seconds: float) -> None:
        self._durations["queue"].record(seconds, {_ARBITER: arbiter})

    def add(self, arbiter: str, counts: Counts, outcome: str | None, seconds: float) -> None:
        """Count what a protocol's run has cost; with an ``outcome`` it was a creation."""
        by = {_ARBITER: arbiter}
        for kind, number in counts.requests.items():
            self._counters["requests"].add(number, {**by, _KIND: kind})
        for name in ("pauses", "rounds", "helps"):
            if number := getattr(counts, name):
                self._counters[name].add(number, by)
        if outcome is not None:
            ended = {**by, _OUTCOME: outcome}
            self._counters["creations"].add(1, ended)
            self._durations["creation"].record(seconds, ended)
