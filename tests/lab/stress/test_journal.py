"""A journal keeps what a writer has begun, whatever becomes of the writer."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from putifabsent.lab.stress.writers import Journal, Operation, host, kept

if TYPE_CHECKING:
    from pathlib import Path

    from putifabsent.lab.stress.writers import Outcome

KILLED = """
import sys, time
from pathlib import Path

from putifabsent.lab.stress.writers import Journal
from putifabsent.lab.stress.writers import Operation

def creation(offered):
    return Operation("create", "here", 1, "commit", "t", "t/1", "t/1", offered)

journal = Journal(Path(sys.argv[1]), "1.0")
journal.end(journal.begin(creation("a")), outcome="created")
journal.end(journal.begin(creation("b")), outcome="taken")
journal.begin(creation("c"))
print("has begun", flush=True)
time.sleep(600)
"""


def creation(offered: str) -> Operation:
    return Operation("create", host(), 1, "commit", "t", "t/1", "t/1", offered)


def told(folder: Path) -> list[tuple[str | None, Outcome | None]]:
    return [(each.offered, each.outcome) for each in kept(folder)]


def test_what_a_killed_process_has_begun_and_ended_is_there(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = writer.stdout.readline()
        writer.kill()
    assert said == "has begun\n"
    assert writer.returncode == -signal.SIGKILL
    assert told(tmp_path) == [("a", "created"), ("b", "taken"), ("c", None)]
    *complete, last = kept(tmp_path)
    assert all(each.ended is not None for each in complete)
    assert last.ended is None


def test_an_operation_is_kept_as_it_was_told(tmp_path: Path) -> None:
    with Journal(tmp_path, "1.0") as journal:
        journal.end(
            journal.begin(Operation("read", "here", 3, "slice", "t", "t/1", "t/1", closing=True)),
            outcome="found",
            seen="a",
        )
        journal.begin(Operation("create", "here", 3, "commit", "t", "t/2", "t/2 completed", "b", "1"))
    read, create = kept(tmp_path)
    assert read == Operation(
        "read", "here", 3, "slice", "t", "t/1", "t/1",
        begun=read.begun, ended=read.ended, outcome="found", seen="a", closing=True,
    )  # fmt: skip
    assert create == Operation(
        "create", "here", 3, "commit", "t", "t/2", "t/2 completed", "b", "1", begun=create.begun
    )


def test_an_operation_begins_before_it_ends_and_before_the_next(tmp_path: Path) -> None:
    with Journal(tmp_path, "1.0") as journal:
        for offered in "ab":
            journal.end(journal.begin(creation(offered)), outcome="created")
    first, second = kept(tmp_path)
    assert first.ended is not None
    assert second.ended is not None
    assert first.begun <= first.ended <= second.begun <= second.ended


def test_threads_share_a_journal(tmp_path: Path) -> None:
    offers = [f"{number}" for number in range(1_000)]
    with Journal(tmp_path, "1.0") as journal, ThreadPoolExecutor(8) as threads:
        list(
            threads.map(
                lambda offered: journal.end(
                    journal.begin(creation(offered)), outcome="failed", error=offered
                ),
                offers,
            )
        )
    operations = list(kept(tmp_path))
    assert sorted(str(each.offered) for each in operations) == sorted(offers)
    assert all(each.error == each.offered for each in operations)


def test_operations_may_overlap(tmp_path: Path) -> None:
    with Journal(tmp_path, "1.0") as journal:
        first, second = journal.begin(creation("a")), journal.begin(creation("b"))
        journal.end(second, outcome="created")
        journal.end(first, outcome="taken")
    assert told(tmp_path) == [("a", "taken"), ("b", "created")]


def test_each_life_of_each_writer_has_numbers_of_its_own(tmp_path: Path) -> None:
    for name, offered in (("1.0", "a"), ("1.1", "b"), ("2.0", "c")):
        with Journal(tmp_path, name) as journal:
            journal.end(journal.begin(creation(offered)), outcome="created")
    assert told(tmp_path) == [("a", "created"), ("b", "created"), ("c", "created")]


@pytest.mark.parametrize("left", [1, 10, -1])
def test_a_line_that_was_cut_off_at_the_end_is_left_out(tmp_path: Path, left: int) -> None:
    with Journal(tmp_path, "1.0") as journal:
        journal.end(journal.begin(creation("a")), outcome="created")
        journal.end(journal.begin(creation("b")), outcome="created")
    file = tmp_path / "1.0.jsonl"
    *whole, last = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(whole) + last[:left])
    assert told(tmp_path) == [("a", "created"), ("b", None)]


def test_a_journal_in_which_nothing_was_written_is_empty(tmp_path: Path) -> None:
    with Journal(tmp_path, "1.0"):
        pass
    assert told(tmp_path) == []


def test_a_long_error_is_cut(tmp_path: Path) -> None:
    with Journal(tmp_path, "1.0") as journal:
        journal.end(journal.begin(creation("a")), outcome="failed", error="the server said: " + "x" * 10_000)
    [operation] = kept(tmp_path)
    assert operation.error is not None
    assert operation.error.startswith("the server said: xxx")
    assert len(operation.error) == 500


def test_an_error_of_several_lines_is_one_line_of_the_journal(tmp_path: Path) -> None:
    said = "first\nsecond\u2028third \udcff"
    with Journal(tmp_path, "1.0") as journal:
        journal.end(journal.begin(creation("a")), outcome="failed", error=said)
    assert [json.loads(line)[0] for line in (tmp_path / "1.0.jsonl").open()] == [0, 0]
    [operation] = kept(tmp_path)
    assert operation.error == said


def test_this_machine_has_one_id() -> None:
    ask = [sys.executable, "-c", "from putifabsent.lab.stress.writers import host; print(host())"]
    assert subprocess.run(ask, capture_output=True, text=True, check=True).stdout == f"{host()}\n"
