"""What writers have called of a filesystem, as text: one call a line, in JSON.

Only calls that bring a name into being, or remove one, are kept. Names are relative to the folder that the
writer was given. A line with ``step`` says which command the calls after it belong to.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["TRACES", "Call", "Step", "load", "save"]

FIXTURES = Path(__file__).parent / "fixtures"
TRACES = sorted(path.stem for path in FIXTURES.glob("*.jsonl"))


@dataclass(frozen=True)
class Step:
    """A command."""

    step: str


@dataclass(frozen=True)
class Call:
    """A call, and what came of it.

    Attributes
    ----------
    verb
        ``create``, ``rename`` or ``delete``.
    name
        What is written, renamed or removed.
    flag
        Of a create: it may overwrite. Of a delete: it is recursive.
    body
        Of a create: which bytes; equal numbers are equal bytes. Of a rename: the target.
    outcome
        ``done``; ``false``, nothing was renamed or removed; ``exists``, the file was there.
    role
        Who calls: the driver of a job, or an executor.
    content
        The bytes, in Base64, where what becomes of later calls hangs on them.
    """

    verb: str
    name: str
    flag: bool = False
    body: str | int = ""
    outcome: str = "done"
    role: str = "driver"
    content: str = ""

    @property
    def data(self) -> bytes:
        """The bytes to write: the writer's own, or others that differ where those did."""
        return base64.b64decode(self.content) if self.content else f"body {self.body}".encode()


def load(name: str) -> list[Call | Step]:
    """Return a trace."""
    lines = map(json.loads, (FIXTURES / f"{name}.jsonl").read_text().splitlines())
    return [Step(**line) if "step" in line else Call(**line) for line in lines]


def save(name: str, trace: Iterable[Call | Step]) -> None:
    """Keep a trace; what is as it mostly is isn't said."""
    usual = asdict(Call("", ""))
    with (FIXTURES / f"{name}.jsonl").open("w") as file:
        for each in trace:
            said = {key: value for key, value in asdict(each).items() if value != usual.get(key, "")}
            file.write(json.dumps(said) + "\n")
