"""Journals: a writer notes what it is about to do, and what came of it, so that its death hides nothing."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from putifabsent.lab.stress.records import Operation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

__all__ = ["Journal", "host", "kept"]

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SAID = 500


@cache
def host() -> str:
    """Return what tells this machine, since it was started, from any other."""
    return _BOOT.read_text().strip() if _BOOT.exists() else os.uname().nodename


class Journal:
    """One process's journal; its threads may share it.

    Each line is written by one call of the system, unbuffered: what a killed process has written is there.

    Parameters
    ----------
    folder
        Where the journals of a run are.
    name
        Its own, in there.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._file = os.open(folder / f"{name}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._numbers = count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def begin(self, operation: Operation) -> int:
        """Note what is about to be done, and return the number by which its end is told."""
        number = next(self._numbers)
        said = {name: getattr(operation, name) for name in Operation.__slots__}
        said["begun"] = time.monotonic_ns()
        self._write([number, said])
        return number

    def end(self, number: int, **told: Any) -> None:
        """Note what came of it."""
        ended = time.monotonic_ns()
        if told.get("error"):
            told["error"] = told["error"][:_SAID]
        self._write([number, {**told, "ended": ended}])

    def _write(self, line: list[Any]) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")


def kept(folder: Path) -> Iterator[Operation]:
    """Give all operations in the journals of a folder, those that have no end included."""
    for file in sorted(folder.glob("*.jsonl")):
        begun: dict[int, Operation] = {}
        # What stands behind the last end of a line was not written to its end.
        for line in file.read_bytes().split(b"\n")[:-1]:
            number, told = json.loads(line)
            begun[number] = replace(begun[number], **told) if number in begun else Operation(**told)
        yield from begun.values()
