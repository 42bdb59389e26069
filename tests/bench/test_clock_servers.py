"""Processes of which half have a wrong wall clock take no instant twice, and none too late."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bench.clock_sources import libfaketime, source
from bench.clocks import TRUE_TIME_INSTANTS, WRONG, by_processes, judged
from tests.servers import chosen

pytestmark = pytest.mark.servers

PROCESSES, INSTANTS, TRUE_TIME = (16, 1000, TRUE_TIME_INSTANTS) if os.environ.get("LONG") else (4, 50, 5)
SOURCES = [
    "disk",
    "valkey",
    *(name for name in chosen() if name in {"dynamodb-local", "postgresql", "zookeeper"}),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SOURCES)
def test_no_instant_is_given_twice_or_late_though_half_of_the_clocks_are_wrong(name: str) -> None:
    with source(name) as url:
        found = judged(by_processes(url, PROCESSES, INSTANTS, 10, _library()))
    assert (found.instants, found.duplicates, found.late) == (PROCESSES * INSTANTS, 0, 0)


@pytest.mark.timeout(600)
def test_true_time_gives_none_twice_or_late_where_clocks_differ_by_less_than_the_skew() -> None:
    with source("truetime") as url:
        found = judged(by_processes(url, PROCESSES, TRUE_TIME, 1, _library()))
    assert (found.instants, found.duplicates, found.late) == (PROCESSES * TRUE_TIME, 0, 0)


def test_a_wrong_clock_is_one() -> None:
    """And the steady clock, by which calls are put in order, stays right."""
    program = "import time; print(time.time() - time.clock_gettime(time.CLOCK_MONOTONIC))"
    right, wrong = (
        float(
            subprocess.run([sys.executable, "-c", program], env=env, check=True, capture_output=True).stdout
        )
        for env in (
            {},
            {"LD_PRELOAD": _library(), "FAKETIME": f"+{WRONG}", "FAKETIME_DONT_FAKE_MONOTONIC": "1"},
        )
    )
    assert WRONG - 100 < wrong - right < WRONG + 100


def _library() -> str:
    library = libfaketime()
    assert library, "libfaketime is not installed: it is in the dependency group `bench`"
    return library
