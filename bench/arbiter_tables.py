"""The tables of ``bench/arbiters.py``, for people."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from rich.table import Table

from bench.arbiter_servers import ARBITERS
from bench.contention import CONTESTANTS, DELTA

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["tables"]


def tables(found: Mapping[str, Any]) -> list[Table]:
    """Return what a run has found."""
    return [
        _sent(found["requests"], found["round_trips"]),
        _listed(found["pages_listed"], found["names_in_the_folder"]),
        *_contended(found["contention"], found["delay_milliseconds"]),
    ]


def _table(title: str, first: str, *columns: str) -> Table:
    table = Table(title=title)
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _sent(requests: Mapping[str, Any], trips: Mapping[str, Any]) -> Table:
    table = _table("requests of one call, nobody else there; in how many round trips", "call", *CONTESTANTS)
    for call in requests[ARBITERS[0]]:
        row = []
        for name in CONTESTANTS:
            kinds = requests[name].get(call)
            in_trips = trips.get(name, {}).get(call)
            row.append("" if kinds is None else _cell(kinds, in_trips))
        table.add_row(call, *row, end_section=True)
    return table


def _cell(kinds: Mapping[str, int], trips: int | None) -> str:
    words = " ".join(f"{kind} {count}" if count > 1 else kind for kind, count in kinds.items())
    return f"{sum(kinds.values())}{'' if trips is None else f' in {trips}'}\n{words}"


def _listed(pages: Mapping[str, Any], names: int) -> Table:
    table = _table(f"pages of listings for one call, in a folder of {names:,} names", "call", *ARBITERS)
    for call in pages[ARBITERS[0]]:
        table.add_row(call, *(str(pages[arbiter][call]) for arbiter in ARBITERS))
    return table


def _contended(runs: Mapping[int, Mapping[str, list[Any]]], delay: float) -> list[Table]:
    far = f"each request {delay:.0f} ms away"
    rates = _table(f"many writers of one log, {far}: acknowledged creations/s", "writers", *CONTESTANTS)
    prices = _table("requests for each acknowledged creation", "writers", *CONTESTANTS)
    answers = _table("told: won / lost / unknown (/ failed)", "writers", *CONTESTANTS)
    for writers, of in runs.items():
        rate = {name: median(run["acknowledged"] / run["seconds"] for run in of[name]) for name in of}
        price = {name: _price(of[name]) for name in of}
        rates.add_row(str(writers), *(_beside(rate, name, ".2g") for name in CONTESTANTS))
        prices.add_row(str(writers), *(_beside(price, name, ".0f") for name in CONTESTANTS))
        answers.add_row(str(writers), *(_answers(of[name]) for name in CONTESTANTS))
    return [rates, prices, answers]


def _price(runs: list[Any]) -> float:
    acknowledged = sum(run["acknowledged"] for run in runs)
    return sum(run["requests"] for run in runs) / acknowledged if acknowledged else float("inf")


def _beside(values: Mapping[str, float], name: str, digits: str) -> str:
    said = format(values[name], digits)
    if name == DELTA or not values[DELTA]:
        return said
    return f"{said} ({values[name] / values[DELTA]:.2g}x)"


def _answers(runs: list[Any]) -> str:
    said = [str(sum(run[what] for run in runs)) for what in ("acknowledged", "taken", "unknown")]
    failed = {kind: count for run in runs for kind, count in run["failed"].items() if count}
    return " / ".join([*said, *(f"{kind}: {count}" for kind, count in failed.items())])
