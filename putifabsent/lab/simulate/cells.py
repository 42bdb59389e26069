"""Cells that a file lists."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

from putifabsent.errors import ConfigError
from putifabsent.lab.simulate.experiment import Experiment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["read"]

_COLUMNS = ("writers", "interval_ms", "jitter_ms", "duration_ms")


def read(path: Path) -> list[Experiment]:
    """Return the experiments that a file lists: a list of JSON objects, or CSV with a line of column names.

    The columns are the published table's: ``writers``, ``interval_ms``, ``jitter_ms``, ``duration_ms``.
    Others are passed over, so what ``putifabsent simulate --json`` prints can be read again.

    Raises
    ------
    ConfigError
        Where the file is none of both, has no cell, or has a cell that can't be run: it names which.
    """
    text = path.read_text(encoding="utf-8")
    cells = _from_json(path, text) if text.lstrip().startswith(("[", "{")) else _from_csv(text)
    if not cells:
        raise ConfigError(f"{path} has no cells: give one a line under {','.join(_COLUMNS)}, or a JSON list")
    return [_experiment(f"{path}, cell {number}", cell) for number, cell in enumerate(cells, 1)]


def _from_json(path: Path, text: str) -> list[Mapping[str, Any]]:
    try:
        cells = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path} is no JSON: {error}") from error
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise ConfigError(f"{path} is no JSON list of objects: give one object a cell")
    return cells


def _from_csv(text: str) -> list[Mapping[str, Any]]:
    return [
        {column: _number(value) for column, value in row.items()}
        for row in csv.DictReader(text.splitlines(), skipinitialspace=True)
    ]


def _number(value: str | None) -> int | str | None:
    return int(value) if value is not None and value.strip().lstrip("-").isdecimal() else value


def _experiment(where: str, cell: Mapping[str, Any]) -> Experiment:
    missing = [column for column in _COLUMNS if cell.get(column) is None]
    if missing:
        raise ConfigError(f"{where} has no {missing[0]}: give {', '.join(_COLUMNS)}")
    try:
        return Experiment(*(cell[column] for column in _COLUMNS))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
