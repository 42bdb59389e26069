"""A server that dies while clocks ask it, and comes back, gives no instant twice, and none too late."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import putifabsent
from bench.clocks import Taken, judged
from tests.faults.failover import until
from tests.servers import SERVERS, LastingServer, chosen

pytestmark = pytest.mark.servers

CLOCKS = 4
CALLS, DEATHS = (500, 5) if os.environ.get("LONG") else (40, 1)
LASTING = [name for name in chosen() if issubclass(SERVERS[name], LastingServer)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", LASTING)
def test_a_server_that_is_killed_while_it_is_asked_has_given_no_instant_twice(name: str) -> None:
    taken: list[Taken] = []
    over = threading.Event()
    running = SERVERS[name]()
    assert isinstance(running, LastingServer)
    with running, ThreadPoolExecutor(CLOCKS) as clocks:
        asked = [clocks.submit(_take, running.endpoint, taken, over) for _ in range(CLOCKS)]
        try:
            for _ in range(DEATHS):
                _goes_on(taken)
                running.kill()
                running.start_again()
            _goes_on(taken)
        finally:
            over.set()
        for each in asked:
            each.result()
    found = judged(taken)
    assert (found.duplicates, found.late) == (0, 0)


def _goes_on(taken: list[Taken]) -> None:
    before = len(taken)
    until(lambda: len(taken) >= before + CALLS, 120)


def _take(url: str, taken: list[Taken], over: threading.Event) -> None:
    clock = putifabsent.clock(url, timeout=120)
    while not over.is_set():
        begun = time.monotonic_ns()
        instants = clock.instants(3)
        taken.append(Taken(begun, time.monotonic_ns(), instants))
