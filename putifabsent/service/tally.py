"""What a service has answered, for whoever collects metrics.

In the text format of Prometheus, version 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

__all__ = ["CONTENT_TYPE", "Tally"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds: from a request to a store nearby to a mount's deadline."""


@dataclass
class Tally:
    """Counts answers.

    Attributes
    ----------
    inside
        Calls that are being worked on, or wait.
    """

    inside: int = 0
    _answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    _below: Counter[tuple[str, float]] = field(default_factory=Counter)
    _seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _bytes: Counter[str] = field(default_factory=Counter)

    def add(self, call: str, status: int, seconds: float) -> None:
        """Count an answer.

        Parameters
        ----------
        call
            ``create``.
        status
            Of HTTP.
        seconds
            From the call to its answer.
        """
        self._answers[call, status] += 1
        self._seconds[call] += seconds
        for bound in _BOUNDS:
            self._below[call, bound] += seconds <= bound

    def read(self, call: str, size: int) -> None:
        """Count the bytes of a call's body."""
        self._bytes[call] += size

    def text(self) -> str:
        """Return all counts, as Prometheus reads them."""
        lines = [
            "# HELP putifabsent_calls_inside Calls that are being worked on, or wait.",
            "# TYPE putifabsent_calls_inside gauge",
            f"putifabsent_calls_inside {self.inside}",
            "# HELP putifabsent_calls_total Calls that were answered, by the status of HTTP.",
            "# TYPE putifabsent_calls_total counter",
        ]
        lines += [
            f'putifabsent_calls_total{{call="{call}",status="{status}"}} {count}'
            for (call, status), count in sorted(self._answers.items())
        ]
        lines += [
            "# HELP putifabsent_call_bytes_total Bytes of the bodies of calls.",
            "# TYPE putifabsent_call_bytes_total counter",
        ]
        lines += [
            f'putifabsent_call_bytes_total{{call="{call}"}} {size}'
            for call, size in sorted(self._bytes.items())
        ]
        lines += [
            "# HELP putifabsent_call_seconds From a call to its answer.",
            "# TYPE putifabsent_call_seconds histogram",
        ]
        for call in sorted(self._seconds):
            number = sum(count for (of, _), count in self._answers.items() if of == call)
            for bound in _BOUNDS:
                below = self._below[call, bound]
                lines.append(f'putifabsent_call_seconds_bucket{{call="{call}",le="{bound}"}} {below}')
            lines += [
                f'putifabsent_call_seconds_bucket{{call="{call}",le="+Inf"}} {number}',
                f'putifabsent_call_seconds_sum{{call="{call}"}} {self._seconds[call]}',
                f'putifabsent_call_seconds_count{{call="{call}"}} {number}',
            ]
        return "\n".join(lines) + "\n"
