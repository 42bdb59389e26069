"""What the lab's verbs print: races, simulations, runs under stress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from putifabsent.cli.rendering import Screen, empty_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from putifabsent.lab.demo import Race
    from putifabsent.lab.simulate import Cell
    from putifabsent.lab.simulate.published import Published
    from putifabsent.lab.stress.running import Ran

__all__ = ["LabScreen"]

_ERRORS = 3
"""Kinds of them that are shown of each run, the most frequent ones."""


class LabScreen(Screen):
    """Prints what experiments have come to."""

    def races(self, races: Sequence[Race]) -> None:
        """Print what came of the demo's races."""
        if self._as_json:
            words = ("path", "store", "acknowledged", "readable", "lost", "seconds")
            return self.json([{word: getattr(race, word) for word in words} for race in races])
        table = empty_table("store", "path", "acknowledged", "readable", "lost", "seconds", right=4)
        for race in races:
            lost = Text(str(race.lost), "red" if race.lost else "green")
            counts = (str(race.acknowledged), str(race.readable), lost, f"{race.seconds:.1f}")
            table.add_row(race.store, race.path, *counts)
        self._out.print(table)
        for race in races:
            for error, times in race.errors.items():
                self._err.print(f"{race.path} on {race.store}: {times} x {error}", style="dim")
        return self._out.print(_summary(races))

    def simulated(self, cells: Sequence[Cell], published: Sequence[Published]) -> None:
        """Print how often writers collided; beside it what was published, if that is what was simulated."""
        from putifabsent.lab.durations import said

        if self._as_json:
            numbers = [{"experiment": each.number} for each in published] or [{} for _ in cells]
            return self.json([{**number, **cell.row()} for number, cell in zip(numbers, cells, strict=True)])
        told = ("writers", "interval", "jitter", "duration", "mean", "min", "max", "runs with one")
        theirs: list[tuple[str, ...]]
        theirs = [(f"{each.mean:.3f}", str(each.most), f"{each.percent:.1f} %") for each in published]
        columns = (*told, "published: mean", "max", "runs with one") if theirs else told
        table = empty_table(*columns, right=len(columns))
        for cell, beside in zip(cells, theirs or [()] * len(cells), strict=True):
            what, came = cell.experiment, (cell.mean, cell.fewest, cell.most, cell.percent)
            spans = (said(each) for each in (what.interval, what.jitter, what.duration))
            counts = ("{:.3f}", "{}", "{}", "{:.1f} %")
            ours = (text.format(each) for text, each in zip(counts, came, strict=True))
            table.add_row(str(what.writers), *spans, *ours, *beside)
        self._out.print(table)
        return self._out.print(_compared(cells, published), soft_wrap=True) if published else None

    def stressed(self, runs: Sequence[Ran]) -> None:
        """Print what came of runs under stress."""
        from putifabsent.lab.stress.summary import COLUMNS, cells, errors, row, verdict

        if self._as_json:
            return self.json([row(ran) for ran in runs])
        shown = empty_table(*COLUMNS, right=len(COLUMNS) - 1)
        for ran in runs:
            shown.add_row(*cells(ran), style=None if not ran.violations else "red")
        self._out.print(shown)
        for ran in runs:
            for error, times in errors(ran)[:_ERRORS]:
                self._err.print(f"{ran.contender.label}: {times} x {error}", style="dim")
        return self._out.print(verdict(runs), soft_wrap=True)


def _summary(races: Sequence[Race]) -> str:
    ours = [race for race in races if race.path == "putifabsent"]
    stock = [race for race in races if race.path == "stock"]
    lost = sum(race.lost for race in stock)
    of = sum(race.acknowledged for race in stock)
    first = (
        f"pypaimon as it is acknowledged {of} commits and lost {lost} of them in this run"
        if lost
        else f"pypaimon as it is lost none of {of} commits in this run; another run may"
    )
    lost = sum(race.lost for race in ours)
    of = sum(race.acknowledged for race in ours)
    if lost:
        return f"{first}. Through putifabsent {lost} of {of} were lost: that is a bug, please report it."
    return f"{first}. Through putifabsent it acknowledged {of}, and lost none."


def _compared(cells: Sequence[Cell], published: Sequence[Published]) -> str:
    from putifabsent.lab.simulate.published import LEVEL, differing

    other = differing(cells, published)
    if not other:
        return (
            f"All {len(cells)} published cells are reproduced: at {LEVEL:.1%}, noise explains what differs."
        )
    listed = "; ".join(str(cell.experiment) for cell in other)
    return f"{len(other)} of {len(cells)} cells differ from the published ones by more than noise: {listed}."
