"""Protocols that are run step by step: a step is half a request, sending it or hearing the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from putifabsent.shim.drive import run
from putifabsent.testing.deaths import die

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.base import Store
    from putifabsent.shim.requests import Protocol

T = TypeVar("T")


class Course(NamedTuple):
    """A protocol that a doomed writer is to run."""

    make: Callable[[], Protocol[Any]]  # makes the protocol, in the writer's process; it must pickle
    deadline: float

    def live(self, make: Callable[[], Store], _: frozenset[str], last: int) -> int:
        """Run it, and return how many steps that took; die before the ``last``."""
        taken = 0

        def step(number: int) -> None:
            nonlocal taken
            taken = number
            if number == last:
                die()

        run(stepped(self.make(), step), make(), self.deadline)
        return taken


def stepped(protocol: Protocol[T], act: Callable[[int], None]) -> Protocol[T]:
    """Return the same protocol, which calls ``act`` with the number of each step before it takes it.

    The first step sends the first request, the second one hears its answer, and so on; a pause has two, too.
    """
    number = 0
    try:
        request = next(protocol)
        while True:
            act(number := number + 1)
            try:
                outcome = yield request
            except GeneratorExit:
                protocol.close()
                raise
            except BaseException as error:  # noqa: BLE001 - the protocol decides what it means
                request = protocol.throw(error)
                continue
            act(number := number + 1)
            request = protocol.send(outcome)
    except StopIteration as end:
        value: T = end.value
        return value
