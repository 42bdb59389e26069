"""A race says who won, and what is wrong with a store that has two winners, or none."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from putifabsent.backends.local import LocalStore
from putifabsent.testing.asking import Ask
from putifabsent.testing.races import body_of, race, through_requests


def told(*answers: Any) -> Any:
    """Return a contender whose nth writer of a name hears the nth answer."""
    waiting: dict[str, list[Any]] = {}
    lock = threading.Lock()

    def contend(name: str, body: bytes) -> Any:
        with lock:
            answer = waiting.setdefault(name, list(answers)).pop()

        def attempt() -> None:
            if answer is not None:
                raise answer

        return attempt

    return contend


def test_a_race_with_one_winner_has_no_problem() -> None:
    done = race(lambda: told(None, *[FileExistsError()] * 3), ["a", "b"], threads=4)
    assert [(len(raced.winners), raced.losers) for raced in done.names] == [(1, 3), (1, 3)]
    assert done.problems() == []
    assert done.problems(lambda name: body_of(name, done.names[name == "b"].winners[0], done.size)) == []
    assert (done.writers, done.errors) == (4, ())


def test_a_race_says_that_there_are_two_winners() -> None:
    done = race(lambda: told(None, None, FileExistsError(), FileExistsError()), ["a"], threads=4)
    assert [problem.partition(" winners")[0] for problem in done.problems()] == ["a: 2"]


def test_a_race_says_that_there_is_no_winner() -> None:
    done = race(lambda: told(*[FileExistsError()] * 4), ["a"], threads=4)
    assert done.problems() == ["a: 0 winners: []"]


def test_a_race_says_that_the_bytes_are_not_the_winner_s() -> None:
    done = race(lambda: told(None, *[FileExistsError()] * 3), ["a"], threads=4)
    assert done.problems(lambda _: b"other") == ["a: what can be read is not what its winner wrote"]
    assert done.problems(lambda _: None) == ["a: what can be read is not what its winner wrote"]


def test_a_race_keeps_what_else_happened() -> None:
    done = race(lambda: told(None, FileExistsError(), OSError("disk full")), ["a"], threads=3)
    assert done.problems() == []
    assert done.errors == ("a: OSError: disk full",)


def test_a_race_that_takes_too_long_says_who_had_no_answer() -> None:
    over = threading.Event()

    def waits_for_ever(name: str, body: bytes) -> Any:
        return lambda: over.wait(30)

    done = race(lambda: waits_for_ever, ["a", "b"], threads=2, seconds=0.2)
    over.set()
    assert [problem for problem in done.problems() if "no answer" in problem] == [
        "a: 2 of 2 writers had no answer",
        "b: 2 of 2 writers had no answer",
    ]


def cannot_be_made() -> Any:
    raise OSError("no such bucket")


def dies(name: str, body: bytes) -> Any:
    return lambda: os.kill(os.getpid(), signal.SIGKILL)


def test_a_race_says_which_processes_could_not_take_part() -> None:
    done = race(cannot_be_made, ["a"], threads=2, processes=2)
    assert done.failures == ("process 0: OSError: no such bucket", "process 1: OSError: no such bucket")
    assert done.failures[0] in done.problems()


def test_a_race_says_that_a_process_died() -> None:
    done = race(partial(_itself, dies), ["a"], threads=1, processes=2)
    assert done.failures == ("process 0: it died", "process 1: it died")


def _itself(contender: Any) -> Any:
    return contender


@pytest.mark.parametrize("mixed", [False, True])
def test_a_store_is_raced_by_creates_alone_and_by_completions_too(mixed: bool, tmp_path: Path) -> None:
    names = [f"{tmp_path}/{number}" for number in range(3)]
    done = race(lambda: through_requests(Ask(LocalStore(), "sync"), mixed=mixed), names, threads=8)
    assert done.problems(lambda name: Path(name).read_bytes()) == []


def test_processes_and_threads_race_together(tmp_path: Path) -> None:
    names = [f"{tmp_path}/{number}" for number in range(5)]
    done = race(LocalStore, names, threads=4, processes=4)
    assert done.writers == 16
    assert done.problems(lambda name: Path(name).read_bytes()) == []
    assert done.errors == ()


def test_a_filesystem_is_raced_by_creating() -> None:
    fs = MemoryFileSystem(skip_instance_cache=True)
    fs.store, fs.pseudo_dirs = {}, [""]
    done = race(lambda: fs, ["/a", "/b"], threads=2)
    assert {raced.losers + len(raced.winners) for raced in done.names} == {2}
