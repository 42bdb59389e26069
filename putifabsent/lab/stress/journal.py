"""What writers under stress do: flat records, which any SQL engine can judge, and the journals of them.

A writer notes what it is about to do, and what came of it, so that its death hides nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import Self

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_LONGEST_ERROR = 500

TORN = "torn"  # for bytes that nobody offered
_SIZE = 1024

Action: TypeAlias = Literal["create", "read", "list", "plain", "kill", "pause"]
Purpose: TypeAlias = Literal["commit", "request", "slice"]
Outcome: TypeAlias = Literal["created", "taken", "unknown", "fenced", "failed", "found", "absent"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One creation or read of a name, what is found at the end beside a read, or one fault."""

    action: Action
    """``"list"``: its folder's listing leaves it out; ``"plain"``: the wrapped filesystem finds other bytes
    than were read; ``"kill"`` or ``"pause"``: what was done to the writer."""
    host: str  # the machine's boot, by its id. Times of one host can be compared, those of two can't.
    writer: int
    purpose: Purpose | Literal[""]
    """What the name is to its table: a commit, what announces one (a request), or data. Of a fault empty."""
    folder: str  # the table's
    name: str
    identity: str  # what must be unique; mostly the name
    offered: str | None = None  # of a creation: what tells its bytes from all others'
    saw: str | None = None
    """Of a creation: the commit that its writer took for the table's last one, where the format's rule rests
    on that."""
    begun: int = 0  # nanoseconds of the host's monotonic clock
    ended: int | None = None  # None where the writer did not live to see it
    outcome: Outcome | None = None
    """``"taken"``: another provably has it; ``"fenced"``: the step came too late; ``"failed"``: any other
    error, which promises nothing."""
    seen: str | None = None
    """Of a read that found, and of plain bytes: what whoever created it offered; or :data:`TORN`."""
    closing: bool = False  # whether it is one of the reads after all else has ended
    error: str | None = None


def body(offered: str) -> bytes:
    """Return the bytes of a creation: what it offers, filling, and the digest of both."""
    text = f"{offered}\n".encode().ljust(_SIZE, b".")
    return text + b"\n" + hashlib.sha256(text).hexdigest().encode()


def offered_in(data: bytes) -> str:
    """Return what whoever created this offered; :data:`TORN` if these are not the bytes of one creation."""
    text, _, digest = data.rpartition(b"\n")
    if hashlib.sha256(text).hexdigest().encode() != digest:
        return TORN
    return text.split(b"\n", 1)[0].decode()


@cache
def host() -> str:
    """Return what tells this machine, since it was started, from any other."""
    return _BOOT.read_text().strip() if _BOOT.exists() else os.uname().nodename


class Journal:
    """One process's journal, in the folder of a run's; its threads may share it.

    Each line is written by one call of the system, unbuffered: what a killed process has written is there.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._file = os.open(folder / f"{name}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._numbers = count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def begin(self, operation: Operation) -> int:
        """Note what is about to be done, and return the number by which its end is noted."""
        number = next(self._numbers)
        fields = {name: getattr(operation, name) for name in Operation.__slots__}
        fields["begun"] = time.monotonic_ns()
        self._write([number, fields])
        return number

    def end(self, number: int, **result: Any) -> None:
        """Note what came of it."""
        ended = time.monotonic_ns()
        if result.get("error"):
            result["error"] = result["error"][:_LONGEST_ERROR]
        self._write([number, result | {"ended": ended}])

    def _write(self, line: list[Any]) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")


def kept(folder: Path) -> Iterator[Operation]:
    """Give all operations in the journals of a folder, those that have no end included."""
    for file in sorted(folder.glob("*.jsonl")):
        begun: dict[int, Operation] = {}
        # What stands behind the last end of a line was not written to its end.
        for line in file.read_bytes().split(b"\n")[:-1]:
            number, fields = json.loads(line)
            begun[number] = replace(begun[number], **fields) if number in begun else Operation(**fields)
        yield from begun.values()
