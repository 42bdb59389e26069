"""Requests about one DynamoDB table: where it is, and what a failure means of it."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, TypeVar

from putifabsent.backends.dynamodb_sender import Sender, is_missing_table, outcome_of, reading_of
from putifabsent.backends.dynamodb_table import missing
from putifabsent.backends.per_process import PerProcess
from putifabsent.backends.refusals import caused
from putifabsent.backends.registries import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from putifabsent.backends.registries import Maybe, TryAgain

__all__ = ["TIMEOUT", "Table", "silent"]

TIMEOUT = 10.0
"""Seconds for one request, where nobody says otherwise."""

T = TypeVar("T")


class Table:
    """One table, and the way to it.

    Parameters
    ----------
    name
        Its name.
    region, endpoint_url, profile
        As AWS's own tools take them; None leaves it to AWS's settings.
    timeout
        Seconds, for one request.

    Attributes
    ----------
    name
        Its name.
    url
        Its address, as ``putifabsent init`` takes it.

    Raises
    ------
    ConfigError
        There is no such profile, or no region is known.
    """

    def __init__(
        self, name: str, region: str | None, endpoint_url: str | None, profile: str | None, timeout: float
    ) -> None:
        self.name = name
        said = {"region": region, "endpoint_url": endpoint_url, "profile": profile}
        query = "&".join(f"{key}={value}" for key, value in said.items() if value)
        self.url = f"dynamodb://{name}{'?' if query else ''}{query}"
        self._senders = PerProcess(lambda: Sender(region, endpoint_url, profile, timeout))
        # Here and now, for a wrong option should be met by who gives it.
        self._senders()

    def run(self, work: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        """Run ``work(*arguments)``, which sends, and wait for it."""
        return self._senders().run(work, *arguments)

    async def on_loop(self, work: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        """Run ``work(*arguments)``, which sends, and await it from any loop."""
        return await self._senders().on_loop(work, *arguments)

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one request about the table; within :meth:`run` or :meth:`on_loop` only."""
        return await self._senders().call(method, TableName=self.name, **parameters)

    async def ask(self, question: Callable[[Sender, str, str], Coroutine[Any, Any, T]]) -> T:
        """Ask for what the table is; within :meth:`run` or :meth:`on_loop` only."""
        return await question(self._senders(), self.name, self.url)

    def no_write(self, error: Exception, name: str) -> TryAgain | Refused | Maybe:
        """Say what one failed request means for a write about ``name``."""
        return self._absent(error, name) or outcome_of(error, name)

    def no_answer(self, error: Exception, name: str) -> TryAgain | Refused:
        """Say what one failed request means for a read about ``name``."""
        return self._absent(error, name) or reading_of(error, name)

    def _absent(self, error: Exception, name: str) -> Refused | None:
        if not is_missing_table(error):
            return None
        return Refused(caused(FileNotFoundError(errno.ENOENT, missing(self.name, self.url), name), error))


def silent(error: Exception, name: str) -> Refused:
    """Return the refusal of a server that says that a condition is not met, and not what it holds."""
    old = OSError(errno.ENOTSUP, "the server does not say which item it holds: it is too old", name)
    return Refused(caused(old, error))
