"""What is said of each protocol that a mount has run: a line of the log for a creation, and metrics.

Nothing of it decides anything, and where nobody listens nothing is counted. No line holds bytes that were
written, an address of a registry, or a client library's own words, which may hold credentials.
"""

from __future__ import annotations

import contextlib
import logging
from time import perf_counter
from typing import TYPE_CHECKING

from putifabsent.errors import NameTaken, unknown_of
from putifabsent.fsspec_plugin import metrics
from putifabsent.shim.counts import Counts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from putifabsent.shim.arbiter import Arbiter
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Request

__all__ = ["MANY_ROUNDS", "is_observed", "observe"]

_log = logging.getLogger(__name__)

MANY_ROUNDS = 5
"""Whoever stands for a name so often meets others all the time, and waits more than it asks."""


def is_observed() -> bool:
    """Whether anybody listens to what goes well."""
    return metrics.is_loaded() or _log.isEnabledFor(logging.INFO)


def observe(
    arbiter: Arbiter | None,
    requests: Iterable[Request],
    began: float,
    creates: Name | None,
    error: BaseException | None = None,
) -> None:
    """Say what came of a protocol, to whoever listens.

    Parameters
    ----------
    arbiter
        What decides beside the store; None: the store itself does.
    requests
        What the protocol has asked for.
    began
        When, by :func:`time.perf_counter`.
    creates
        The name that it was to create; None: it was no creation.
    error
        What it raised.
    """
    seconds = perf_counter() - began
    unknown = None if error is None or creates is None else unknown_of(error)
    if unknown is None and not is_observed():
        return
    # Whoever listens badly must not contradict what was decided.
    with contextlib.suppress(Exception):
        kind = "native" if arbiter is None else arbiter.kind
        counts = Counts.of(requests)
        outcome = None if creates is None else _outcome_of(error)
        if creates is not None:
            level, advice = logging.DEBUG, ""
            if unknown is not None:
                level = logging.WARNING
                advice = f". Delete nothing; ask later with fs.resolve(name, {unknown.token!r})"
            elif counts.rounds >= MANY_ROUNDS:
                level = logging.INFO
            _log.log(
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
        if metrics.is_loaded():
            metrics.instruments().add(kind, counts, outcome, seconds)


def _outcome_of(error: BaseException | None) -> str:
    if error is None:
        return "won"
    if unknown_of(error) is not None:
        return "unknown"
    return "taken" if isinstance(error, NameTaken) else "error"
