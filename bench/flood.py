"""Strangers flood the coordination service, and honest callers work beside them: who is answered, and when.

    python -m bench.flood [--connections 5000] [--seconds 20] [--json]

A service on local disk is called by 64 threads of a JVM, which create names through the adapter, and by a
session that has a table's turn and shows that it lives, while another one tries to take it. By turns they
are alone, and beside connections that stay silent, stop in the middle of a request, send its head or its body
a byte at a time, or send garbage; who was dropped comes again. Then 16 JVMs begin at once.

Strangers are machines of their own: here they have the last core to themselves, in both phases, so that they
take of the service what they ask of it, and none of its time. Exits with 1 where a call was not answered, a
turn was broken, or the service keeps or logs too much.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.apart import Apart
from putifabsent.spark.settings import jar
from tests.service.callers import SECRET, Caller
from tests.service.processes import serving
from tests.spark.drivers import JAVA

if TYPE_CHECKING:
    from collections.abc import Mapping
    from multiprocessing.connection import Connection

    from typing_extensions import Self

THREADS = 64
JVMS = 16
CREATIONS = 10_000
PAUSE = 0.5
"""Seconds between two calls of a thread, on the average."""
LEASE = 3.0
LARGEST_MEMORY = 300 * 2**20
LARGEST_LOG = 10**6

_A_SECOND = 1000
"""So many connections are opened, or opened again."""
_LIVES = 30.0
_DRIP = 0.5
_HEAD = b"POST /v1/admit HTTP/1.1\r\nHost: service\r\n"


class Call(NamedTuple):
    """One call of a JVM's: when it began, by the machine's clock; its seconds; what came of it."""

    began: float
    seconds: float
    outcome: str


# --- strangers


async def _silent(_: asyncio.StreamWriter, __: int) -> None:
    pass


async def _half(writer: asyncio.StreamWriter, _: int) -> None:
    writer.write(_HEAD)
    writer.write_eof()


async def _slow_head(writer: asyncio.StreamWriter, _: int) -> None:
    writer.write(_HEAD)
    await _dripping(writer)


async def _slow_body(writer: asyncio.StreamWriter, number: int) -> None:
    """Send bytes slowly, though it has the secret."""
    writer.write(
        f"POST /v1/create?path=file:/flood/{number}.manifest&token={uuid.uuid4()} HTTP/1.1\r\n"
        f"Host: service\r\nAuthorization: Bearer {SECRET}\r\nputifabsent-session: {uuid.uuid4()}\r\n"
        f"putifabsent-writer: {uuid.uuid4()}\r\nContent-Length: 1024\r\n\r\n".encode()
    )
    await _dripping(writer)


async def _dripping(writer: asyncio.StreamWriter) -> None:
    """Send a byte now and then, while somebody takes it."""
    for _ in range(int(_LIVES / _DRIP)):
        if writer.is_closing():
            return
        writer.write(b"X")
        await asyncio.sleep(_DRIP)


async def _garbage(writer: asyncio.StreamWriter, number: int) -> None:
    writer.write(random.Random(number).randbytes(1024))


_KINDS = {
    "silent": _silent,
    "half a request": _half,
    "a slow head": _slow_head,
    "a slow body": _slow_body,
    "garbage": _garbage,
}


def _strangers(address: str, connections: int, core: int, pipe: Connection) -> None:
    """Keep so many connections open while ``True`` was said last; tell how often each kind was opened."""
    os.sched_setaffinity(0, {core})
    asyncio.run(_flooding(address, connections, pipe))


async def _flooding(address: str, connections: int, pipe: Connection) -> None:
    at = urlsplit(address)
    opened: Counter[str] = Counter()
    begins = asyncio.Lock()

    async def stranger(number: int) -> None:
        kind = list(_KINDS)[number % len(_KINDS)]
        while True:
            async with begins:
                await asyncio.sleep(1 / _A_SECOND)
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(at.hostname, at.port)
                opened[kind] += 1
                try:
                    await _KINDS[kind](writer, number)
                    while await reader.read(2**16):
                        pass
                finally:
                    writer.transport.abort()

    tasks: list[asyncio.Task[None]] = []
    pipe.send("ready")
    while True:
        try:
            floods = await asyncio.to_thread(pipe.recv)
        except EOFError:
            return
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        tasks = [asyncio.create_task(stranger(number)) for number in range(connections)] if floods else []
        pipe.send(dict(opened))


# --- honest callers


def _compiled(folder: Path) -> str:
    """Compile the callers; return the class path to run them by."""
    import pyspark

    spark = Path(pyspark.__file__).parent / "jars"
    path = os.pathsep.join((str(folder), jar(), f"{spark}/*"))
    source = Path(__file__).with_name("java") / "Callers.java"
    subprocess.run([JAVA / "javac", "-cp", path, "-d", folder, source], check=True)
    return path


class JVM:
    """A JVM whose threads create names. It begins when it is told to.

    Parameters
    ----------
    calls
        Of each thread.
    pause
        Seconds between two of them, on the average.
    """

    def __init__(self, path: str, folder: Path, address: str, threads: int, calls: int, pause: float) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with the process
        options = [f"file:{folder}", str(threads), str(calls), str(round(pause * 1000))]
        self._process = subprocess.Popen(
            [JAVA / "java", "-Xmx256m", "-cp", path, "Callers", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._settings = {
            "fs.file.impl": "org.putifabsent.hadoop.GuardedLocalFileSystem",
            "fs.putifabsent.address": address,
            "fs.putifabsent.secret": SECRET,
            "fs.putifabsent.session": str(uuid.uuid4()),
        }

    def prepare(self) -> None:
        """Wait until it could begin."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for key, value in self._settings.items():
            self._process.stdin.write(f"{key}={value}\n")
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        if self._process.stdout.readline() != "ready\n":
            self._errors.seek(0)
            raise RuntimeError(self._errors.read().decode(errors="replace"))

    def begin(self) -> None:
        """Have it begin."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def calls(self) -> list[Call]:
        """Wait for its end; return what it has done."""
        out, _ = self._process.communicate()
        parted = (line.split(" ", 2) for line in out.splitlines())
        return [Call(int(began) / 1e3, int(micros) / 1e6, outcome) for began, micros, outcome in parted]

    def __enter__(self) -> Self:
        """Let it run."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()


def _holder(address: str, table: str, pipe: Connection) -> None:
    """Hold a table's turn, which another session tries to take, until something is said.

    It tells how often it has looked, and how often the turn was not held.
    """

    async def holding() -> list[bool]:
        over = asyncio.get_running_loop().run_in_executor(None, pipe.recv)
        looks = []
        async with Caller.at(address) as holder, Caller.at(address) as other:
            taken = await holder.call("turns/take", table, token=str(uuid.uuid4()), lease=LEASE)
            wants = str(uuid.uuid4())
            while not over.done():
                beat = await holder.call("turns/beat", table, turn=taken.body["turn"])
                tries = await other.call("turns/take", table, token=wants, lease=LEASE)
                looks.append(beat.body.get("held") is True and tries.body.get("turn") is None)
                await asyncio.sleep(LEASE / 3)
        return looks

    pipe.send("ready")
    looks = asyncio.run(holding())
    pipe.send((len(looks), looks.count(False)))


# --- what is measured


def measure(connections: int, seconds: float, turns: int, tick: Any) -> dict[str, Any]:
    """Flood a service, by turns with its callers alone; then have many JVMs begin at once."""
    *others, last = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, others or {last})
    with tempfile.TemporaryDirectory() as at, ExitStack() as stack:
        folder = Path(at)
        path = _compiled(folder)
        table = folder / "table"
        (table / ".hoodie").mkdir(parents=True)
        (table / ".hoodie" / "hoodie.properties").write_text("hoodie.table.version=8\n")
        told = {"secret": SECRET, "mounts": [{"prefix": "file:/", "options": {"guard": ["**/*.manifest"]}}]}
        log = stack.enter_context((folder / "log").open("wb"))
        service, address = stack.enter_context(serving(told, log=log))
        calls = int(2 * turns * seconds / PAUSE) + 20
        strangers = stack.enter_context(Apart(_strangers, address, connections, last))
        jvm = stack.enter_context(JVM(path, folder / "names", address, THREADS, calls, PAUSE))
        jvm.prepare()
        with Apart(_holder, address, str(table)) as holder:
            jvm.begin()
            time.sleep(seconds / 4)  # it warms up
            phases: list[tuple[str, float, float]] = []
            for _ in range(turns):
                for what in ("alone", "beside the flood"):
                    strangers.ask(what != "alone")
                    begins = time.time()
                    time.sleep(seconds)
                    phases.append((what, begins, time.time()))
                    tick()
            opened = strangers.ask(False)  # noqa: FBT003 - a word of the pipe's
            done = jvm.calls()
            looks, broken = holder.ask("over")
        found: dict[str, Any] = {
            what: _summary([each for each in done if _is_in(each, phases, what)])
            for what in ("alone", "beside the flood")
        }
        tick()
        os.sched_setaffinity(0, {*others, last})
        found[f"{JVMS} JVMs at once"] = _summary(_at_once(path, folder / "at-once", address))
        tick()
        return {
            "calls": found,
            "connections": opened,
            "looks_at_the_turn": looks,
            "turns_broken": broken,
            "most_memory": _most_memory(service.pid),
            "log_bytes": (folder / "log").stat().st_size,
        }


def _most_memory(pid: int) -> int:
    """Return the most bytes that a process has had in memory."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def _is_in(call: Call, phases: list[tuple[str, float, float]], what: str) -> bool:
    return any(kind == what and begins <= call.began < ends for kind, begins, ends in phases)


def _at_once(path: str, folder: Path, address: str) -> list[Call]:
    """Have JVMs create all names at once."""
    calls = -(-CREATIONS // (JVMS * THREADS))
    with ExitStack() as stack:
        jvms = [stack.enter_context(JVM(path, folder, address, THREADS, calls, 0)) for _ in range(JVMS)]
        for each in jvms:
            each.prepare()
        for each in jvms:
            each.begin()
        return [call for each in jvms for call in each.calls()]


def _summary(calls: list[Call]) -> dict[str, Any]:
    taken = sorted(each.seconds for each in calls)
    return {
        "calls": len(calls),
        "outcomes": dict(Counter(each.outcome[:200] for each in calls)),
        "median_milliseconds": statistics.median(taken) * 1e3,
        "p99_milliseconds": taken[int(len(taken) * 0.99)] * 1e3,
        "longest_milliseconds": taken[-1] * 1e3,
    }


def problems(found: Mapping[str, Any]) -> list[str]:
    """Return what must not be."""
    said = []
    for what, each in found["calls"].items():
        failed = each["calls"] - each["outcomes"].get("created", 0)
        said += [f"{what}: {failed} of {each['calls']} calls were not answered"] if failed else []
    if found["turns_broken"]:
        said.append(f"the turn was not held in {found['turns_broken']} of {found['looks_at_the_turn']} looks")
    if found["most_memory"] > LARGEST_MEMORY:
        said.append(f"the service has had {found['most_memory']:,} bytes in memory")
    if found["log_bytes"] > LARGEST_LOG:
        said.append(f"the service has logged {found['log_bytes']:,} bytes")
    return said


def show(found: Mapping[str, Any], console: Console) -> None:
    """Print the tables."""
    table = Table(title=f"{THREADS} threads of a JVM that create names by the service")
    for column in ("", "calls", "created", "median ms", "p99 ms", "longest ms", "p99 of alone"):
        table.add_column(column, justify="left" if not column else "right")
    alone = found["calls"]["alone"]["p99_milliseconds"]
    for what, each in found["calls"].items():
        table.add_row(
            what,
            f"{each['calls']:,}",
            f"{each['outcomes'].get('created', 0):,}",
            *(f"{each[f'{figure}_milliseconds']:.1f}" for figure in ("median", "p99", "longest")),
            f"{each['p99_milliseconds'] / alone:.2f}x",
        )
    console.print(table)
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in found["connections"].items())
    console.print(f"strangers' connections: {kinds}")
    console.print(
        f"the turn was held in {found['looks_at_the_turn'] - found['turns_broken']} of "
        f"{found['looks_at_the_turn']} looks; the service has had {found['most_memory'] / 2**20:.0f} MiB in "
        f"memory, and logged {found['log_bytes']:,} bytes"
    )


def main() -> int:
    """Run everything, and print it; return 1 where something is as it must not be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--connections", type=int, default=5000, help="strangers that are there at once")
    parser.add_argument("--seconds", type=float, default=20, help="of each phase")
    parser.add_argument("--turns", type=int, default=3, help="how often the callers are alone, and flooded")
    parser.add_argument("--json", action="store_true", help="print figures for machines, on standard output")
    options = parser.parse_args()
    console = Console(stderr=True)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("flooding", total=2 * options.turns + 2)
        found = measure(options.connections, options.seconds, options.turns, lambda: progress.advance(task))
    wrong = problems(found)
    if options.json:
        print(json.dumps({**found, "problems": wrong}, indent=2))
    show(found, console)
    for each in wrong:
        console.print(f"[red]{each}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
