"""Metrics by OpenTelemetry, in a process that uses it: who has not imported its API imports nothing here.

Who sets a meter provider has imported it. It may be set at any time: until then, what is counted is dropped.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from putifabsent.version import __version__

if TYPE_CHECKING:
    from putifabsent.shim.counts import Counts

__all__ = ["Instruments", "instruments", "is_loaded"]

_API = "opentelemetry.metrics"
_ARBITER = "putifabsent.arbiter"
_KIND = "putifabsent.request.kind"
_OUTCOME = "putifabsent.creation.outcome"

# Seconds. A creation in memory takes 0.0001, on S3 0.01 to 0.1; 30 is the deadline.
_BOUNDARIES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


def is_loaded() -> bool:
    """Whether this process could have a meter provider."""
    return _API in sys.modules


@cache
def instruments() -> Instruments:
    """Return what counts in this process. They take to a meter provider that is set later."""
    return Instruments(sys.modules[_API])


class Instruments:
    """What is counted, and measured, by the meter that OpenTelemetry's API, or a provider, gives."""

    def __init__(self, api: Any) -> None:
        meter = api.get_meter("putifabsent", __version__)
        self._requests = meter.create_counter(
            "putifabsent.requests", "{request}", "Requests to stores and registries."
        )
        self._pauses = meter.create_counter(
            "putifabsent.pauses", "{pause}", "Back-offs before something was sent or looked at again."
        )
        self._rounds = meter.create_counter(
            "putifabsent.rounds", "{round}", "Goes at a decision; one for a creation that meets nobody."
        )
        self._helps = meter.create_counter(
            "putifabsent.helps", "{creation}", "Creations of others that were carried on."
        )
        self._creations = meter.create_counter(
            "putifabsent.creations", "{creation}", "Creations, by what came of them."
        )
        self._duration = meter.create_histogram(
            "putifabsent.creation.duration",
            "s",
            "How long creations take.",
            explicit_bucket_boundaries_advisory=_BOUNDARIES,
        )

    def add(self, arbiter: str, counts: Counts, outcome: str | None, seconds: float) -> None:
        """Count what a protocol's run has cost; with an ``outcome`` it was a creation."""
        by = {_ARBITER: arbiter}
        for kind, number in counts.requests.items():
            self._requests.add(number, {**by, _KIND: kind})
        for counter, number in (
            (self._pauses, counts.pauses),
            (self._rounds, counts.rounds),
            (self._helps, counts.helps),
        ):
            if number:
                counter.add(number, by)
        if outcome is not None:
            ended = {**by, _OUTCOME: outcome}
            self._creations.add(1, ended)
            self._duration.record(seconds, ended)
