"""``python -m tests.peers [NAME...] [--short] [--json]``: peers' suites, stock and guarded, test by test."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from tests.peers.comparing import Compared, compare, expected
from tests.peers.suites import runner
from tests.peers.table import PEERS, Peer

_COLUMNS = ("peer", "tests", "stock passed", "guarded passed", "differing", "expected", "seconds")


def main() -> int:
    """Return 1 where a test differs that need not, or one doesn't that should."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which peers: all, if none is named")
    parser.add_argument("--short", action="store_true", help="only those of a few minutes")
    parser.add_argument("--json", action="store_true", help="each test's outcomes, too")
    said = parser.parse_args()
    known = {peer.name: peer for peer in PEERS}
    if unknown := set(said.names) - set(known):
        parser.error(f"no peer named {min(unknown)!r}: there are {', '.join(known)}")
    chosen = [
        peer
        for peer in PEERS
        if (peer.name in said.names if said.names else peer.short or not said.short)
    ]  # fmt: skip
    logs = Path(tempfile.mkdtemp(prefix="peers-"))
    found = {peer.name: _played(peer, logs) for peer in chosen}
    if said.json:
        print(json.dumps({name: [each.as_row(), each.differing] for name, each in found.items()}, indent=1))  # noqa: T201
    else:
        _print_table([(name, *each.as_row()) for name, each in found.items()])
    wrong = [line for name, each in found.items() for line in each.complaints(name)]
    for line in wrong:
        print(line, file=sys.stderr)  # noqa: T201
    print(f"what pytest printed: {logs}", file=sys.stderr)  # noqa: T201
    return bool(wrong)


def _played(peer: Peer, logs: Path) -> Compared:
    began = perf_counter()
    with runner(peer) as suite:
        stock = suite.run(guarded=False, log=logs / f"{peer.name}-stock.log")
        guarded = suite.run(guarded=True, log=logs / f"{peer.name}-guarded.log")
    return compare(stock, guarded, expected(peer.name), perf_counter() - began)


def _print_table(rows: list[tuple[Any, ...]]) -> None:
    lines = [_COLUMNS, *(tuple(map(str, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(each.rjust(width) for each, width in zip(line, widths, strict=True)))  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
