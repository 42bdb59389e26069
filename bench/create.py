"""What a guarded create costs, beside s3fs, boto3 and bare obstore, in one run on one machine.

    python bench/create.py [--json] [--quick]

The server is a stub in a process of its own that keeps no rules (``stub_server.py``), so that what is
measured is the client. Absolute times are the machine's; read the ratios of medians,
of calls that took turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import boto3
import fsspec
import obstore
from botocore.config import Config
from obstore.store import S3Store
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.stub_server import BODY, StubServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

CONCURRENT = 32
GIB = 2**30
READS = ("cat_file", "info", "ls")


def clients(stub: StubServer) -> dict[str, Callable[[int], object]]:
    """Return one synchronous 1 KiB create by each client."""
    guarded = fsspec.filesystem("pias3", arbiter="native", **stub.storage_options)
    plain = fsspec.filesystem("s3", **stub.storage_options)
    bare = bucket(stub)
    boto = boto3.client(
        "s3",
        endpoint_url=stub.endpoint,
        region_name="us-east-1",
        aws_access_key_id="bench",
        aws_secret_access_key="bench-secret",
        config=Config(retries={"total_max_attempts": 1}),
    )
    return {
        "obstore.put": lambda i: obstore.put(bare, f"d/b{i}", BODY),
        "guarded fs.pipe_file": lambda i: guarded.pipe_file(f"bench/d/g{i}", BODY, mode="create"),
        "boto3 put_object": lambda i: boto.put_object(
            Bucket="bench", Key=f"d/o{i}", Body=BODY, IfNoneMatch="*"
        ),
        "s3fs pipe_file": lambda i: plain.pipe_file(f"bench/d/s{i}", BODY, mode="create"),
    }


def bucket(stub: StubServer) -> S3Store:
    """Return bare obstore's handle."""
    return S3Store(
        "bench",
        endpoint=stub.endpoint,
        region="us-east-1",
        access_key_id="bench",
        secret_access_key="bench-secret",
        client_options={"allow_http": True},
    )


def interleaved(
    calls: dict[str, Callable[[int], object]], rounds: int, tick: Callable[[], None]
) -> dict[str, float]:
    """Return each call's median, in microseconds; the calls take turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for warm in (-1, -2, -3):
            call(warm)
    for i in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call(i)
            times[name].append(time.perf_counter() - start)
        tick()
    return {name: statistics.median(taken) * 1e6 for name, taken in times.items()}


def own(stub: StubServer, rounds: int) -> dict[str, float]:
    """Return the median microseconds of a guarded create whose request is answered at once, by no server.

    Between two of them the thread does nothing, or it sleeps, as it does while it waits for an answer:
    processors are slower just after that.
    """
    guarded = fsspec.filesystem("pias3", arbiter="native", **stub.storage_options)
    guarded.pipe_file("bench/d/w", BODY, mode="create")
    answer = obstore.put(bucket(stub), "d/w", BODY)
    found = {}
    with patch.object(obstore, "put", lambda *_, **__: answer):
        for between, seconds in (("at once", None), ("after a sleep", 0.0002)):
            taken = []
            for i in range(rounds):
                if seconds is not None:
                    time.sleep(seconds)
                start = time.perf_counter()
                guarded.pipe_file(f"bench/d/n{i}", BODY, mode="create")
                taken.append(time.perf_counter() - start)
            found[between] = statistics.median(taken) * 1e6
    return found


async def concurrent(stub: StubServer, rounds: int, tick: Callable[[], None]) -> dict[str, float]:
    """Return operations a second of each client, 32 at a time: the median of a few runs in turn."""
    guarded = fsspec.filesystem("pias3", arbiter="native", asynchronous=True, **stub.storage_options)
    plain = fsspec.filesystem("s3", asynchronous=True, **stub.storage_options)
    bare = bucket(stub)
    calls: dict[str, Callable[[int], Awaitable[object]]] = {
        "obstore.put_async": lambda i: obstore.put_async(bare, f"d/b{i}", BODY),
        "guarded fs._pipe_file": lambda i: guarded._pipe_file(f"bench/d/g{i}", BODY, mode="create"),  # noqa: SLF001 - fsspec's asynchronous interface
        "s3fs _pipe_file": lambda i: plain._pipe_file(f"bench/d/s{i}", BODY, mode="create"),  # noqa: SLF001 - fsspec's asynchronous interface
    }
    runs: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        await asyncio.gather(*(call(i) for i in range(CONCURRENT)))
    for _ in range(7):
        for name, call in calls.items():
            runs[name].append(await _rate(call, rounds))
        tick()
    return {name: statistics.median(rates) for name, rates in runs.items()}


async def _rate(call: Callable[[int], Awaitable[object]], count: int) -> float:
    numbers = iter(range(count))

    async def worker() -> None:
        for i in numbers:
            await call(i)

    start = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(CONCURRENT)))
    return count / (time.perf_counter() - start)


def reads(stub: StubServer, rounds: int, tick: Callable[[], None]) -> dict[str, tuple[float, float]]:
    """Return the medians of reads, wrapped and guarded, in microseconds, and the median difference."""
    guarded = fsspec.filesystem("pias3", arbiter="native", use_listings_cache=False, **stub.storage_options)
    plain = guarded.fs
    calls: dict[str, Callable[[Any], object]] = {
        "cat_file": lambda fs: fs.cat_file("bench/d/k"),
        "info": lambda fs: fs.info("bench/d/k"),
        "ls": lambda fs: fs.ls("bench/ls", detail=True),
    }
    found = {}
    for name, call in calls.items():
        base: list[float] = []
        over: list[float] = []
        for fs in (plain, guarded):
            call(fs)
        for _ in range(rounds):
            start = time.perf_counter()
            call(plain)
            between = time.perf_counter()
            call(guarded)
            base.append(between - start)
            over.append(time.perf_counter() - between)
        found[name] = (statistics.median(base) * 1e6, statistics.median(over) * 1e6)
        tick()
    return found


def alone(stub: StubServer) -> float:
    """Return what the stub can do by itself: requests a second, by bare sockets."""
    import socket

    host, port = stub.endpoint.removeprefix("http://").split(":")
    request = b"PUT /bench/k HTTP/1.1\r\nHost: b\r\nContent-Length: 1024\r\n\r\n" + BODY

    def worker(count: int) -> None:
        with socket.create_connection((host, int(port))) as connection:
            for _ in range(count):
                connection.sendall(request)
                connection.recv(4096)

    count = 2000
    start = time.perf_counter()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(worker, [count] * 4))
    return 4 * count / (time.perf_counter() - start)


UPLOAD = """
import fsspec, json, os, resource, sys, threading, time
options, how, path, size = json.loads(sys.argv[1])
fs = fsspec.filesystem(*options[:1], **options[1])
fs.pipe_file("bench/warm", b"x" * 1024, mode="create")
def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
idle, peak, done = resident(), 0, threading.Event()
def watch():
    global peak
    while not done.wait(0.01):
        peak = max(peak, resident())
watcher = threading.Thread(target=watch, daemon=True); watcher.start()
start = time.perf_counter()
if how == "put_file":
    fs.put_file(path, f"bench/new/{os.getpid()}", **({"mode": "create"} if options[0] == "pias3" else {}))
else:
    piece = b"x" * 2**20
    with fs.open(f"bench/new/{os.getpid()}", "xb" if options[0] == "pias3" else "wb") as f:
        for _ in range(size // 2**20):
            f.write(piece)
seconds = time.perf_counter() - start
done.set(); watcher.join()
print(json.dumps([seconds, peak - idle]))
"""


def uploads(
    stub: StubServer, size: int, runs: int, tick: Callable[[], None]
) -> dict[str, dict[str, tuple[float, float]]]:
    """Return MiB/s and peak memory above idle (MiB) of one large upload, each in a process of its own."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    with tempfile.NamedTemporaryFile() as file:
        os.posix_fallocate(file.fileno(), 0, size)
        for how in ("put_file", "open"):
            taken: dict[str, list[list[float]]] = {"s3": [], "pias3": []}
            for _ in range(runs):
                for protocol, results in taken.items():
                    options = dict(stub.storage_options)
                    if protocol == "pias3":
                        options["arbiter"] = "native"
                    arguments = json.dumps([[protocol, options], how, file.name, size])
                    answer = subprocess.run(
                        [sys.executable, "-c", UPLOAD, arguments],
                        check=True,
                        capture_output=True,
                        timeout=300,
                    )
                    results.append(json.loads(answer.stdout))
                    tick()
            found[how] = {
                protocol: (
                    size / 2**20 / statistics.median(seconds for seconds, _ in each),
                    max(peak for _, peak in each) / 2**20,
                )
                for protocol, each in taken.items()
            }
    return found


def imports(runs: int) -> dict[str, float]:
    """Return the median milliseconds of a process that imports fsspec, and putifabsent after it, in turn."""
    codes = {name: name for name in ("import fsspec", "import fsspec, putifabsent")}
    taken: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(runs):
        for name, code in codes.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
            taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) * 1e3 for name, each in taken.items()}


def main() -> None:
    """Run everything, and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print figures for machines, on standard output")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rounds")
    options = parser.parse_args()
    rounds, size, runs = (200, GIB // 8, 1) if options.quick else (2000, GIB, 3)
    console = Console(stderr=True)
    with StubServer() as stub, Progress(console=console, transient=True) as progress:
        task = progress.add_task("measuring", total=rounds + 7 + 3 + 4 * runs)

        def tick() -> None:
            progress.advance(task)

        stub_alone = alone(stub)
        creates = interleaved(clients(stub), rounds, tick)
        ours = own(stub, rounds)
        stub.counts()
        wire = requests_on_the_wire(stub)
        rates = asyncio.run(concurrent(stub, rounds, tick))
        read = reads(stub, max(100, rounds // 4), tick)
        large = uploads(stub, size, runs, tick)
        imported = imports(15)
    found = {
        "stub_requests_per_second": stub_alone,
        "create_microseconds": creates,
        "own_microseconds": ours,
        "requests_per_create": wire,
        "concurrent_creates_per_second": rates,
        "read_microseconds": read,
        "upload_mib_per_second_and_peak_mib": large,
        "import_milliseconds": imported,
        "peak_of_this_process_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    if options.json:
        print(json.dumps(found, indent=2))
    show(found, console)


def requests_on_the_wire(stub: StubServer) -> dict[str, dict[str, int]]:
    """Return the requests of one create by each client."""
    found = {}
    for name, call in clients(stub).items():
        call(0)
        stub.counts()
        call(1)
        found[name] = stub.counts()
    return found


def show(found: dict[str, Any], console: Console) -> None:
    """Print the tables."""
    creates, rates = found["create_microseconds"], found["concurrent_creates_per_second"]
    table = Table(title="1 KiB create of an unnumbered name, one at a time (median)")
    for column in ("client", "µs", "of obstore.put", "of s3fs", "requests"):
        table.add_column(column, justify="left" if column == "client" else "right")
    for name, median in creates.items():
        sent = sum(found["requests_per_create"][name].values())
        table.add_row(
            name,
            f"{median:.0f}",
            f"{median / creates['obstore.put']:.2f}x",
            f"{median / creates['s3fs pipe_file']:.2f}x",
            str(sent),
        )
    console.print(table)
    ours = found["own_microseconds"]
    console.print(
        f"Of our own, where no server is asked: {ours['at once']:.0f} µs; "
        f"{ours['after a sleep']:.0f} µs just after the thread has slept."
    )
    table = Table(title=f"the same, {CONCURRENT} at a time, asynchronously")
    for column in ("client", "creates/s", "of obstore", "of s3fs"):
        table.add_column(column, justify="left" if column == "client" else "right")
    for name, rate in rates.items():
        table.add_row(
            name,
            f"{rate:.0f}",
            f"{rate / rates['obstore.put_async']:.2f}x",
            f"{rate / rates['s3fs _pipe_file']:.2f}x",
        )
    console.print(table)
    table = Table(title="reads, paired with the wrapped filesystem's own (median)")
    for column in ("call", "wrapped µs", "guarded µs", "more"):
        table.add_column(column, justify="left" if column == "call" else "right")
    for name, (base, over) in found["read_microseconds"].items():
        more = f"{over - base:+.0f} µs, {100 * (over / base - 1):+.1f} %"
        table.add_row(name, f"{base:.0f}", f"{over:.0f}", more)
    console.print(table)
    table = Table(title="one large upload, in a process of its own")
    for column in ("by", "s3fs MiB/s", "guarded MiB/s", "ratio", "s3fs peak MiB", "guarded peak MiB"):
        table.add_column(column, justify="left" if column == "by" else "right")
    for how, each in found["upload_mib_per_second_and_peak_mib"].items():
        (rate, peak), (guarded, most) = each["s3"], each["pias3"]
        table.add_row(
            how, f"{rate:.0f}", f"{guarded:.0f}", f"{guarded / rate:.2f}x", f"{peak:.0f}", f"{most:.0f}"
        )
    console.print(table)
    imported = found["import_milliseconds"]
    console.print(
        f"import putifabsent: {imported['import fsspec, putifabsent'] - imported['import fsspec']:+.0f} ms "
        f"above import fsspec. The stub alone answers {found['stub_requests_per_second']:.0f} requests/s."
    )


if __name__ == "__main__":
    main()
