"""Instants of many processes from one source: ``python -m bench.clocks [SOURCE ...] [--right]``.

Each process takes its instants call by call, and records each call with the moments that it began after and
ended before, by the machine's steady clock, which all of them share. Then it is checked, over all processes,
that no instant was given twice, and that a call which began after another was answered has a higher one.

The wall clock of every second process is wrong by ten minutes, to one side or the other, and set anew every
second. TrueTime promises nothing then, so its clocks are wrong by a quarter of the skew, and stay so; but two
seconds fast when their processes start, and mended before they take the first instant.
``local`` is one process, by threads, whose clock stays as it is. ``--right`` leaves all clocks alone;
``--wrong /path/to/libfaketime.so.1`` names another library than that of the package ``libfaketime``.

Without sources: all that are here, one after the other: this process's clock, TrueTime with a lock in Valkey,
local disk as the bucket, Valkey, and of those that tools/servers/install.sh puts there PostgreSQL, ZooKeeper
and DynamoDB Local. ``disk`` and ``valkey`` are two of their names; others are named by their URLs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import putifabsent
from bench.clock_sources import NAMES, libfaketime, source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PROCESSES = 16
INSTANTS = 10_000
TRUE_TIME_INSTANTS = 50
AT_ONCE = 10
SKEW = 0.2
WRONG = 600
FAST = 2
TIMEOUT = 600.0
_READY, _GO = b"r", b"g"


class Taken(NamedTuple):
    """One call: nanoseconds by the machine's steady clock, and what it got."""

    begun: int
    ended: int
    instants: list[str]


class Verdict(NamedTuple):
    """What was found in the calls of all processes."""

    instants: int
    duplicates: int
    late: int
    seconds: float
    a_second: float
    median_ms: float
    p99_ms: float


def judged(taken: Iterable[Taken]) -> Verdict:
    """Return how many instants were given more than once, and how many calls have one that is too low."""
    calls = sorted(taken, key=lambda each: each.begun)
    every = [instant for each in calls for instant in each.instants]
    highest, late, ended, at = "", 0, sorted(calls, key=lambda each: each.ended), 0
    for each in calls:
        while ended[at].ended < each.begun:
            highest = max(highest, *ended[at].instants)
            at += 1
        late += min(each.instants) <= highest
    seconds = (ended[-1].ended - calls[0].begun) / 1e9
    took = sorted((each.ended - each.begun) / 1e6 for each in calls)
    return Verdict(
        len(every),
        len(every) - len(set(every)),
        late,
        seconds,
        len(every) / seconds,
        took[len(took) // 2],
        took[len(took) * 99 // 100],
    )


def take(url: str, instants: int, at_once: int) -> list[Taken]:
    """Take so many, as one caller."""
    clock = putifabsent.clock(url, timeout=TIMEOUT)
    taken = []
    for _ in range(instants // at_once):
        begun = time.monotonic_ns()
        given = clock.instants(at_once)
        taken.append(Taken(begun, time.monotonic_ns(), given))
    return taken


def by_threads(url: str, threads: int, instants: int, at_once: int) -> list[Taken]:
    """Take them by threads of this process: its own clock is no other's."""
    taken: list[Taken] = []
    each = [
        threading.Thread(target=lambda: taken.extend(take(url, instants, at_once))) for _ in range(threads)
    ]
    for thread in each:
        thread.start()
    for thread in each:
        thread.join()
    return taken


def by_processes(url: str, processes: int, instants: int, at_once: int, wrong: str | None) -> list[Taken]:
    """Take them by processes that begin together."""
    jumps = not url.startswith("truetime+")
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for number in range(processes):
            environment = dict(os.environ)
            if wrong is not None and number % 2:
                file = Path(folder) / f"wrong-{number}"
                file.write_text(_offset(number, jumps=True) if jumps else f"+{FAST}")
                environment |= {
                    "LD_PRELOAD": wrong,
                    "FAKETIME_TIMESTAMP_FILE": str(file),
                    "FAKETIME_NO_CACHE": "1",
                    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                }
            children.append(
                subprocess.Popen(
                    [sys.executable, "-m", "bench.clocks", "--child", url, str(instants), str(at_once)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=environment,
                )
            )
        for child in children:
            assert child.stdout is not None
            assert child.stdout.read(1) == _READY
        for file in Path(folder).glob("wrong-*") if not jumps else ():
            _replace(file, _offset(int(file.name.rpartition("-")[2]), jumps=False))
        over = threading.Event()
        jumping = threading.Thread(target=_jump, args=(Path(folder), over if jumps else None), daemon=True)
        jumping.start()
        told: list[bytes] = [b""] * processes
        readers = [
            threading.Thread(target=_read, args=(child, number, told))
            for number, child in enumerate(children)
        ]
        for child in children:
            assert child.stdin is not None
            child.stdin.write(_GO)
            child.stdin.close()
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        over.set()
        jumping.join()
        if any(child.wait() for child in children):
            raise SystemExit("a process has failed: see above")
    return [Taken(*each) for lines in told for each in json.loads(lines)]


def _offset(number: int, *, jumps: bool) -> str:
    sign = "+" if number % 4 == 1 else "-"
    return f"{sign}{WRONG if jumps else SKEW / 4}"


def _jump(folder: Path, over: threading.Event | None) -> None:
    """Set wrong clocks to the other side, once a second."""
    other = {"+": "-", "-": "+"}
    while over is not None and not over.wait(1):
        for file in folder.glob("wrong-*"):
            said = file.read_text()
            _replace(file, other[said[0]] + said[1:])


def _replace(file: Path, text: str) -> None:
    # In one step: nobody reads half of it.
    fresh = file.with_name(f"fresh-{file.name}")
    fresh.write_text(text)
    fresh.replace(file)


def _read(child: subprocess.Popen[bytes], number: int, told: list[bytes]) -> None:
    assert child.stdout is not None
    told[number] = child.stdout.read()


def _child(url: str, instants: int, at_once: int) -> None:
    putifabsent.clock(url)
    os.write(1, _READY)
    os.read(0, 1)
    print(json.dumps(take(url, instants, at_once)))


def _measured(url: str, said: argparse.Namespace) -> dict[str, Any]:
    instants, at_once = said.instants, said.at_once
    if url.startswith("truetime+"):
        instants, at_once = min(instants, TRUE_TIME_INSTANTS), 1
    if url == "local":
        taken = by_threads(url, said.processes, instants, at_once)
    else:
        taken = by_processes(url, said.processes, instants, at_once, said.wrong)
    shown = repr(putifabsent.clock(url))
    run = {"clock": shown, "processes": said.processes, "at_once": at_once}
    return {**run, "wrong": url != "local" and said.wrong is not None, **judged(taken)._asdict()}


def _all(said: argparse.Namespace) -> Iterator[dict[str, Any]]:
    from tests.servers import NotInstalledError

    for each in said.sources or NAMES:
        try:
            with source(each) if each in NAMES else nullcontext(each) as url:
                yield _measured(url, said)
        except NotInstalledError as error:
            print(f"{each} is left out: {error}", file=sys.stderr)


def _shown(found: list[dict[str, Any]], write: Callable[[str], object] = print) -> None:
    counts = f"{'wrong':6} {'instants':>9} {'twice':>6} {'late':>5}"
    write(f"{'clock':60} {counts} {'a second':>9} {'median ms':>10} {'p99 ms':>9}")
    for each in found:
        wrong = "half" if each["wrong"] else "none"
        write(
            f"{each['clock'][:60]:60} {wrong:6} {each['instants']:9} {each['duplicates']:6} {each['late']:5} "
            f"{each['a_second']:9.0f} {each['median_ms']:10.2f} {each['p99_ms']:9.2f}"
        )


def main() -> None:
    """Measure each source; exit with 1 where an instant was given twice, or too low."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "sources", nargs="*", metavar="SOURCE", help="a name, or what putifabsent.clock takes"
    )
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--instants", type=int, default=INSTANTS, help="of each process")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="how many a call takes")
    parser.add_argument("--wrong", metavar="LIBRARY", default=libfaketime(), help="what makes clocks wrong")
    parser.add_argument("--right", dest="wrong", action="store_const", const=None, help="leave clocks alone")
    parser.add_argument("--json", action="store_true")
    said = parser.parse_args()
    found = list(_all(said))
    if said.json:
        print(json.dumps(found, indent=2))
    else:
        _shown(found)
    if any(each["duplicates"] or each["late"] for each in found):
        raise SystemExit(1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _child(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
