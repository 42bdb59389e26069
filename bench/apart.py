"""What a bench runs in a process of its own, so that it takes nothing from what is measured."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

__all__ = ["Apart"]


class Apart:
    """A process with a pipe, which ends when the pipe is closed: also with the process that started it.

    Parameters
    ----------
    target
        What it runs, with ``arguments`` and its end of the pipe. It first sends something through that.

    Attributes
    ----------
    said
        What it has sent first.
    """

    def __init__(self, target: Callable[..., None], *arguments: object) -> None:
        self._runs = (target, arguments)
        self.said: Any = None

    def __enter__(self) -> Self:
        """Start it."""
        target, arguments = self._runs
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=target, args=(*arguments, there), daemon=True)
        self._process.start()
        there.close()
        self.said = self._pipe.recv()
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._pipe.close()
        self._process.join()

    def ask(self, what: object) -> Any:
        """Send something through the pipe, and return the answer."""
        self._pipe.send(what)
        return self._pipe.recv()
