"""What the verbs print, for people and for programs.

With ``--json`` stdout has one JSON value and nothing else; without it, stdout has the answer as a table or a
sentence. Progress and errors always go to stderr.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import IO, TYPE_CHECKING, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from putifabsent.backends.probe_cache import BESIDE, NEEDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from putifabsent.backends.probe_cache import Verdict
    from putifabsent.errors import Holder
    from putifabsent.inspection import Report
    from putifabsent.shim.leftovers import Leftover
    from putifabsent.shim.names import Name
    from putifabsent.upkeep import Checked, TableLedger

__all__ = ["Explained", "Screen", "empty_table"]

# Into a file or a pipe, where nobody has said how wide a line may be.
_WIDTH = 160
# Of a finding's names, of which a table may have any number.
_NAMES = 10

_HORIZON_AHEAD = (
    "The horizon itself is ahead: instants of right clocks are refused until time has passed it. "
    "With all writers stopped, `putifabsent drop` ends the ledger, and the next writer begins another."
)


@dataclass(frozen=True)
class Explained:
    """A name as it was said, and what it is.

    ``found`` is the evidence that a check came upon, ``against`` what shows that another format keeps it.
    """

    said: str
    name: Name
    checked: bool = False
    found: str | None = None
    against: str | None = None

    @property
    def guarded(self) -> bool | None:
        """Whether a plain write to it is a create; None where that depends on evidence not looked for."""
        if self.against is not None:
            return False
        if not (self.name.guarded and self.name.evidence):
            return self.name.guarded
        return self.found is not None if self.checked else None


class Screen:
    """Prints answers.

    Parameters
    ----------
    as_json
        Whether a program reads them.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._out = Console(highlight=False, markup=False, width=_width(sys.stdout))
        self._err = Console(highlight=False, markup=False, width=_width(sys.stderr), stderr=True)

    # Answers

    def verdicts(self, url: str, verdicts: Mapping[str, Verdict]) -> None:
        """Print what a probe found."""
        if self._as_json:
            return self.json(
                {word: {"safe": one.safe, "evidence": one.evidence} for word, one in verdicts.items()}
            )
        table = empty_table("operation", "verdict", "evidence")
        for word, one in verdicts.items():
            verdict = Text("safe", "green") if one.safe else Text("unsafe", "red")
            table.add_row(word, verdict, Text(one.evidence))
        self._out.print(table)
        return self._out.print(_conclusion(url, verdicts))

    def explained(self, explained: Sequence[Explained]) -> None:
        """Print what names are."""
        if self._as_json:
            return self.json([_explanation(one) for one in explained])
        table = empty_table("name", "role", "format", "identity", "guarded", "a plain write")
        for one in explained:
            table.add_row(
                Text(one.said),
                one.name.role.value,
                one.name.format or "",
                Text("the name" if one.name.identity == one.name.path else _in_table(one, one.name.identity)),
                _guarded(one),
                _write(one),
            )
        return self._out.print(table)

    def created(self, url: str, holder: Holder | None) -> None:
        """Print that a name was created; without a holder, it has been removed since."""
        token, version = (holder.token, holder.version) if holder else (None, None)
        if self._as_json:
            return self.json({"outcome": "created", "name": url, "token": token, "version": version})
        if holder is None:
            return self._out.print(f"created {url}; it has been removed or replaced since")
        self._out.print(f"created {url}")
        self._out.print(f"  token    {token}")
        return self._out.print(f"  version  {version or 'the store has none'}")

    def resolved(self, url: str, token: str, holder: Holder | None) -> None:
        """Print whose a name is, seen from a creation that is not known to have lost."""
        if self._as_json:
            outcome = "absent" if holder is None else "created"
            version = holder.version if holder else None
            return self.json({"outcome": outcome, "name": url, "token": token, "version": version})
        if holder is None:
            return self._out.print(
                f"{url} is not there now. The creation may never have happened, may have been deleted since, "
                f"or may still land: ask again, or create the name again"
            )
        return self._out.print(f"{url} was created by it, {holder.size} bytes: {holder}")

    def initialised(
        self, url: str, identity: str, *, outcome: Literal["made", "there", "nothing to make"]
    ) -> None:
        """Print what was made of a registry, and what tells it from any other."""
        if self._as_json:
            return self.json({"outcome": outcome, "registry": url, "identity": identity})
        if outcome == "nothing to make":
            return self._out.print(f"{url} gives locks: there is nothing to make", soft_wrap=True)
        did = "made" if outcome == "made" else "there already, and can be relied on:"
        self._out.print(f"{did} {url}", soft_wrap=True)
        return self._out.print(f"  identity  {identity}", soft_wrap=True)

    def checked(self, url: str, checked: Checked, *, repaired: bool) -> None:
        """Print what is left of writers that died, and what became of it."""
        if self._as_json:
            found = [{**_leftover(each), "left": each in checked.after} for each in checked.found]
            return self.json({"names": checked.names, "busy": checked.busy, "found": found})
        if checked.found:
            table = empty_table("name", "what", "objects", "repaired" if repaired else "--repair would")
            for each in checked.found:
                done = Text("no", "red") if each in checked.after else Text("yes", "green")
                row = (Text(each.name), each.what.value, str(each.objects))
                table.add_row(*row, done if repaired else each.what.repair)
            self._out.print(table)
        return self._out.print(_state_of(url, checked), soft_wrap=True)

    def parted(self, url: str, outcome: Literal["left", "dropped", "moved"], removed: int) -> None:
        """Print that a table has another arbiter, or none."""
        if self._as_json:
            return self.json({"outcome": outcome, "name": url, "removed": removed})
        return self._out.print(f"{outcome} {url}: {removed} objects of its arbiter's removed", soft_wrap=True)

    def inspected(self, url: str, report: Report, *, timeline: bool) -> None:
        """Print what is wrong with a table; ``timeline``: and what has happened to it."""
        if self._as_json:
            return self.json(_inspection(url, report, timeline=timeline))
        if timeline and report.records:
            rows = [each.row() for each in report.records]
            table = empty_table(*rows[0])
            for row in rows:
                table.add_row(*(Text("" if value is None else str(value)) for value in row.values()))
            self._out.print(table)
        for each in report.findings:
            is_damage = each.severity.value == "damage"
            head = Text(
                f"{each.severity.value}: {each.kind.value}", "bold red" if is_damage else "bold yellow"
            )
            self._out.print(head, Text(f": {each.detail}"), sep="", soft_wrap=True)
            for name in _some(each.names):
                self._out.print(f"    {name}", soft_wrap=True)
            self._out.print(f"  {each.means}.", soft_wrap=True)
            self._out.print(f"  What to do: {each.do}.", soft_wrap=True)
        return self._out.print(f"{url}: {report.verdict}", soft_wrap=True)

    def ledger(self, url: str, found: TableLedger | None) -> None:
        """Print what a table's ledger has come to; None: it has none."""
        if self._as_json:
            return self.json({"name": url, "ledger": None if found is None else _ledger(found)})
        if found is None:
            return self._out.print(f"{url}: the table has no ledger", soft_wrap=True)
        if found.open:
            table = empty_table("open instant", "action", "session", "since record")
            for each in found.open:
                since = "older than is remembered" if each.since is None else str(each.since)
                table.add_row(Text(each.instant), Text(each.action), Text(each.session), since)
            self._out.print(table)
        for line in _ledger_lines(found):
            self._out.print(line, soft_wrap=True)
        return None

    # While it goes on

    @contextmanager
    def progress(self) -> Iterator[Callable[[int, int, str], None]]:
        """Give a callback that draws a bar for (done, in all, what)."""
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=self._err, transient=True) as bars:
            task = bars.add_task("starting", total=None)

            def draw(done: int, total: int, what: str) -> None:
                bars.update(task, completed=done, total=total, description=what)

            yield draw

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Show that something is going on."""
        with self._err.status(Text(what)):
            yield

    # Ends

    def error(self, message: str, *more: str) -> None:
        """Print what went wrong, and what to do, on stderr."""
        self._err.print(Text.assemble(("error: ", "bold red"), message))
        for line in more:
            self._err.print(line, soft_wrap=True)

    def json(self, value: object) -> None:
        """Print the JSON value, where a program reads; else nothing."""
        if self._as_json:
            json.dump(value, sys.stdout, indent=2)
            sys.stdout.write("\n")


def _width(stream: IO[str]) -> int | None:
    return None if stream.isatty() else _WIDTH


def empty_table(*columns: str, right: int = 0) -> Table:
    """Return an empty table; its last ``right`` columns are numbers."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        is_number = number >= len(columns) - right
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    return table


def _inspection(url: str, report: Report, *, timeline: bool) -> dict[str, object]:
    said: dict[str, object] = {
        "name": url,
        "format": report.format,
        "version": report.version,
        "records": len(report.records),
        "files": report.files,
        "damage": len(report.damage),
        "findings": [each.row() for each in report.findings],
    }
    if timeline:
        rows = (each.row().items() for each in report.records)
        said["timeline"] = [
            {key: value.isoformat() if isinstance(value, datetime) else value for key, value in row}
            for row in rows
        ]
    return said


def _some(names: Sequence[str]) -> list[str]:
    more = len(names) - _NAMES
    return [*names[:_NAMES], *([f"and {more:,} more"] if more > 0 else [])]


def _conclusion(url: str, verdicts: Mapping[str, Verdict]) -> str:
    unsafe = [one.operation for one in verdicts.values() if not one.safe]
    stopping = ", ".join(word for word in unsafe if word in NEEDED)
    if stopping:
        return f"Unsafe: a mount of {url} raises UnsafeStore, for {stopping} can't decide who creates a name."
    beside = ", ".join(word for word in unsafe if word in BESIDE)
    if beside:
        return f"Unsafe for an arbiter beside the store: it rests on {beside}. The store's own does not."
    if unsafe:
        return f"A mount of {url} goes on: it makes no conditional copies, and renames in another way."
    return "No fault was found. That is no proof: a probe can prove a store unsafe, never safe."


def _leftover(each: Leftover) -> dict[str, object]:
    return {
        "name": each.name,
        "what": each.what.value,
        "path": each.path,
        "objects": each.objects,
        "newest": each.newest.isoformat() if each.newest else None,
        "repair": each.what.repair,
    }


def _state_of(url: str, checked: Checked) -> str:
    found, left = len(checked.found), len(checked.after)
    busy = f" Of {checked.busy} more something is young: a writer may be at it." if checked.busy else ""
    if not found:
        return f"{url}: {checked.names} names, nothing is left of dead writers.{busy}"
    return f"{url}: {checked.names} names, {found} findings, {left} left.{busy}"


def _ledger(found: TableLedger) -> dict[str, object]:
    return {**asdict(found), "written": found.written.isoformat()}


def _ledger_lines(found: TableLedger) -> list[str]:
    life = found.life or "none: its records are of version 0.1.0"
    newest = f"the newest checkpoint is {found.checkpoint}" if found.checkpoint else "no checkpoint yet"
    ended = f", and {found.ended} of lives that are over" if found.ended else ""
    lines = [
        f"folder   {found.folder}",
        f"life     {life}",
        f"records  {found.number}; {newest}; {found.listed} are listed{ended}",
    ]
    if found.half_removed is not None:
        return [*lines, f"{found.half_removed}."]
    turn, counts = found.turn, (found.whole, found.by_name, len(found.open))
    held = turn and f"{turn.number}, session {turn.session}, thread {turn.thread}, lease {turn.lease:g} s"
    above = "above it {} instants are remembered whole, {} by name, {} are open".format(*counts)
    time = f"{found.written:%Y-%m-%d %H:%M:%S %Z}"
    return [
        *lines,
        f"turn     {held or 'none is held'}",
        f"horizon  {found.horizon or 'none'}; {above}",
        f"ahead    {len(found.ahead)} instants are later than the store's time ({time})",
        *(f"    {instant}" for instant in _some(found.ahead)),
        *([_HORIZON_AHEAD] if found.horizon in found.ahead else []),
    ]


def _explanation(one: Explained) -> dict[str, object]:
    return {
        "name": one.said,
        "path": one.name.path,
        "role": one.name.role.value,
        "format": one.name.format,
        "table": one.name.table,
        "identity": one.name.identity,
        "guarded": one.guarded,
        "evidence": list(one.name.evidence),
        "found": one.found,
        "unless": list(one.name.unless),
        "against": one.against,
        "write": _write(one),
    }


def _guarded(one: Explained) -> Text:
    if one.against is not None:
        return Text(f"no: {_in_table(one, one.against)} is there")
    wanted = " or ".join(_in_table(one, path) for path in one.name.evidence)
    if one.guarded is None:
        return Text(f"with evidence: {wanted}", "yellow")
    if one.guarded:
        return Text(f"yes: {_in_table(one, one.found)} is there" if one.found else "yes", "green")
    return Text(f"no: {wanted} is not there" if one.checked and wanted else "no")


def _in_table(one: Explained, path: str) -> str:
    """Return a path as seen from the table's root, which is all that a line has room for."""
    return path.removeprefix(f"{one.name.table}/")


def _write(one: Explained) -> str:
    if one.guarded is None:
        return "depends on that"
    return "creates, or fails" if one.guarded else "overwrites"
