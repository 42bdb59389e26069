"""The schedule on which requests are sent again that publish nothing: parts, blocks, chunks, aborts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tenacity import retry_if_exception, stop_after_attempt, wait_random_exponential

from putifabsent.backends.base import Maybe, TryAgain

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SENDS", "schedule"]

SENDS = 5


def schedule(outcome_of: Callable[[Exception, str], object], sends: int = SENDS) -> dict[str, Any]:
    """Return tenacity's options: so many sends, while an error means that the answer was lost, or try again.

    Parameters
    ----------
    outcome_of
        Says what a client's exception means.
    sends
        At most.
    """

    def passes(error: BaseException) -> bool:
        return isinstance(error, Exception) and isinstance(outcome_of(error, ""), (Maybe, TryAgain))

    return {
        "retry": retry_if_exception(passes),
        "stop": stop_after_attempt(sends),
        "wait": wait_random_exponential(multiplier=0.05, max=2),
        "reraise": True,
    }
