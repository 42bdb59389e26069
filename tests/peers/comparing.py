"""What two runs of a suite differ in, against what ``differences.toml`` expects."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from tests.peers.suites import Outcomes

__all__ = ["Compared", "compare", "differences", "expected"]

_FILE = Path(__file__).with_name("differences.toml")


@dataclass(frozen=True)
class Compared:
    """A peer's two runs.

    Attributes
    ----------
    differing
        What each test that differs came to, stock and guarded.
    expected
        Which tests need to differ, by ``differences.toml``.
    """

    tests: int
    stock: int
    guarded: int
    differing: dict[str, tuple[str, str]]
    expected: frozenset[str]
    seconds: float

    def as_row(self) -> tuple[int, ...]:
        """Return the figures, in the order of the table's columns."""
        passed = (self.tests, self.stock, self.guarded)
        return (*passed, len(self.differing), len(self.expected), round(self.seconds))

    def complaints(self, peer: str) -> list[str]:
        """Return a line for each test that differs and need not, or need and does not."""
        return [
            f"{peer}: {test}: {stock} stock, {guarded} guarded, and {_FILE.name} gives no reason"
            for test, (stock, guarded) in sorted(self.differing.items())
            if test not in self.expected
        ] + [
            f"{peer}: {test} no longer differs: {_FILE.name} still has it"
            for test in sorted(self.expected - self.differing.keys())
        ]


def differences() -> dict[str, list[dict[str, Any]]]:
    """Return what ``differences.toml`` says: by peer, reasons with their tests."""
    said: dict[str, list[dict[str, Any]]] = tomllib.loads(_FILE.read_text())
    return said


def expected(peer: str) -> frozenset[str]:
    """Return the tests of a peer that need to differ."""
    return frozenset(test for each in differences().get(peer, []) for test in each["tests"])


def compare(stock: Outcomes, guarded: Outcomes, reasons: frozenset[str], seconds: float = 0) -> Compared:
    """Compare two runs, test by test; one that is not in both differs, too."""
    everything = stock | guarded
    came = {test: (stock.get(test, "absent"), guarded.get(test, "absent")) for test in everything}
    return Compared(
        tests=len(everything),
        stock=list(stock.values()).count("passed"),
        guarded=list(guarded.values()).count("passed"),
        differing={test: pair for test, pair in came.items() if pair[0] != pair[1]},
        expected=reasons,
        seconds=seconds,
    )
