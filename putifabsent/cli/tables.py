"""The verbs about tables: ``inspect``, ``fsck``, ``ledger``, ``turns``, ``migrate``, ``leave``, ``drop``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from posixpath import commonprefix
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from putifabsent import upkeep
from putifabsent.cli.arguments import (
    AsJson,
    Endpoint,
    Options,
    Url,
    Yes,
    a_file,
    a_master,
    ask,
    command_line,
    mount,
    mounted,
    session_at,
)
from putifabsent.cli.screen import Exit, Screen, answering, check_file, empty_table, write
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from putifabsent.inspection import Failed, Report

# Of a finding's names, of which a table may have any number.
_NAMES = 10

_HORIZON_AHEAD = (
    "The horizon itself is ahead of UTC. Unless the table's instants are in local time, those of right "
    "clocks are refused until time has passed it; with all writers stopped, `putifabsent drop` ends the "
    "ledger, and the next writer begins another."
)


def inspect(  # noqa: PLR0913 - one an option
    url: Url,
    *,
    format: Annotated[  # noqa: A002 - the option's name
        str | None,
        typer.Option(
            metavar="FORMAT", help="hudi, paimon, delta or iceberg; by default what the table shows."
        ),
    ] = None,
    no_data: Annotated[
        bool,
        typer.Option(
            "--no-data", help="Don't list data files: find only what the timeline proves by itself."
        ),
    ] = False,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Print the timeline, too, not only what is wrong.")
    ] = False,
    plot: Annotated[Path | None, a_file("Draw the timeline there, as SVG.")] = None,
    report: Annotated[Path | None, a_file("Write an HTML report, the picture inside.")] = None,
    master: Annotated[str | None, a_master("Look at a folder's tables by a Spark job")] = None,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a table was hurt: its format, its timeline, and what is wrong with it.

    Nothing is written, and writers may write meanwhile. It exits with 6 if something is damaged; notices
    alone don't prove that. Of a folder of tables each is looked at, and has a line.
    """
    with answering(as_json=as_json):
        check_file("--plot", plot, ".svg")
        check_file("--report", report, ".html")
    with answering(as_json=as_json) as screen, mounted(url, option, endpoint_url) as (fs, path):
        from putifabsent import inspection
        from putifabsent.timeline import is_table

        address = url.removeprefix("putifabsent::") if "://" in url else path
        if format is None and not is_table(path, fs=fs):
            if timeline or plot:
                raise ConfigError(f"{url} is no table: --timeline and --plot want one")
            if master is None:
                with screen.progress() as progress:
                    every = inspection.inspect_all(address, fs=fs, data=not no_data, progress=progress)
            else:
                every = _inspected_at(screen, master, address, fs=fs, data=not no_data)
            _show_all(screen, url, every, report)
            return
        if master is not None:
            raise ConfigError(f"{url} is one table: --master is for a folder of them")
        with screen.progress() as progress:
            found = inspection.inspect(address, fs=fs, format=format, data=not no_data, progress=progress)
        if plot or report:
            from putifabsent.inspection.picture import page, svg

            if plot:
                write(plot, svg(found))
            if report:
                write(report, page(found, command=command_line()))
        screen.answer(
            _report_row(url, found, timeline=timeline), _report_lines(url, found, timeline=timeline)
        )
        if found.damage:
            raise typer.Exit(Exit.DAMAGED)


def _inspected_at(screen: Screen, master: str, url: str, *, fs: Any, data: bool) -> list[Report | Failed]:
    from putifabsent.spark.tables import inspect_all

    with screen.waiting(f"a Spark job at {master}"), session_at(master, "putifabsent inspect") as session:
        return inspect_all(session, url, fs=fs, data=data)


def _show_all(screen: Screen, url: str, reports: Sequence[Report | Failed], page: Path | None) -> None:
    """Show the tables below a folder; exit with 6 if one is damaged, with 4 if one could not be inspected."""
    from putifabsent.inspection import Failed

    if page:
        from putifabsent.inspection.picture import page_of_all

        write(page, page_of_all(url, reports, command=command_line()))
    above = commonprefix([each.url for each in reports]).rpartition("/")[0] + "/"
    table = empty_table("table", "what was found")
    for each in reports:
        style = "bold red" if each.damage else "bold yellow" if each.findings else ""
        table.add_row(Text(each.url.removeprefix(above), style), Text(each.verdict))
    damaged = sum(bool(each.damage) for each in reports)
    failed = sum(isinstance(each, Failed) for each in reports)
    rows = [
        {"name": each.url, "error": each.verdict}
        if isinstance(each, Failed)
        else _report_row(each.url, each, timeline=False)
        for each in reports
    ]
    summary = f"{url}: {len(reports):,} tables, {damaged:,} damaged, {failed:,} could not be inspected."
    screen.answer({"name": url, "damaged": damaged, "failed": failed, "tables": rows}, [table, summary])
    if damaged or failed:
        raise typer.Exit(Exit.DAMAGED if damaged else Exit.FAILED)


def _report_row(url: str, report: Report, *, timeline: bool) -> dict[str, object]:
    row: dict[str, object] = {
        "name": url,
        "format": report.format,
        "version": report.version,
        "records": len(report.records),
        "files": report.files,
        "damage": len(report.damage),
        "findings": [each.row() for each in report.findings],
    }
    if timeline:
        row["timeline"] = [each.row() for each in report.records]
    return row


def _report_lines(url: str, report: Report, *, timeline: bool) -> Iterator[Table | Text | str]:
    if timeline and report.records:
        yield _timeline(report)
    for each in report.findings:
        style = "bold red" if each.severity.value == "damage" else "bold yellow"
        yield Text.assemble((f"{each.severity.value}: {each.kind.value}", style), f": {each.detail}")
        yield from (f"    {name}" for name in _some(each.names))
        yield f"  {each.means}."
        yield f"  What to do: {each.do}."
        yield from (f"    {command}" for command in each.commands)
    yield f"{url}: {report.verdict}"


def _timeline(report: Report) -> Table:
    """Return a line of at most 80 columns for each record; ``--json`` has all of it."""
    # An instant that has not got so far as to have an action has begun one.
    rows = [
        {**row, "action": row["action"] or row.get("began")}
        for row in (each.row() for each in report.records)
    ]
    columns = [each for each in _LINE if any(row.get(each) not in (None, "") for row in rows)]
    table = empty_table(*columns)
    for row in rows:
        table.add_row(*(Text(_short(row[each])) for each in columns))
    return table


_LINE = (
    *("time", "number", "action", "state", "completion", "committed"),
    *("read", "transaction", "user", "schema", "salt", "archived"),
)
"""What a line of a timeline has room for, of any format."""


def _short(value: object) -> str:
    """Return what a line has room for: seconds, a number, and the first digits of a UUID."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, bool):
        return "yes" if value else ""
    text = "" if value is None else str(value)
    return f"{text[:8]}..." if len(text) > len("20260101120000000") and not text.isdigit() else text


def _some(names: Sequence[str]) -> list[str]:
    more = len(names) - _NAMES
    return [*names[:_NAMES], *([f"and {more:,} more"] if more > 0 else [])]


def fsck(
    url: Url,
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Repair what is found.")] = False,
    free_lost: Annotated[
        bool, typer.Option("--free-lost", help="With --repair: free names whose bytes are gone, too.")
    ] = False,
    grace: Annotated[
        float,
        typer.Option(
            min=0, metavar="SECONDS", help="What is younger is left to its writers, who may be at it."
        ),
    ] = upkeep.GRACE,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Find what writers that died have left in a table, and what other tools have broken.

    It can be run while writers write, and mounts as they do (-o arbiter=...). It exits with 1 if something
    is left at its end.
    """
    with answering(as_json=as_json) as screen, mounted(url, option, endpoint_url) as (fs, path):
        with screen.progress() as progress:
            checked = upkeep.fsck(
                fs, path, repair=repair, free_lost=repair and free_lost, grace=grace, progress=progress
            )
        rows = [
            {**each._asdict(), "repair": each.what.repair, "left": each in checked.after}
            for each in checked.found
        ]
        row = {"names": checked.names, "busy": checked.busy, "found": rows, "refused": checked.refused}
        screen.answer(row, _checked_lines(url, checked, repaired=repair))
        if checked.after or checked.refused:
            raise typer.Exit(Exit.NO)


def _checked_lines(url: str, checked: upkeep.Checked, *, repaired: bool) -> Iterator[Table | str]:
    if checked.found:
        table = empty_table("name", "what", "objects", "repaired" if repaired else "--repair would")
        for each in checked.found:
            done = Text("no", "red") if each in checked.after else Text("yes", "green")
            row = (Text(each.name), each.what.value, str(each.objects))
            table.add_row(*row, done if repaired else each.what.repair)
        yield table
    found, left = len(checked.found), len(checked.after)
    state = f"{found} findings, {left} left" if found else "nothing is left of dead writers"
    busy = f" Of {checked.busy} more something is young: a writer may be at it." if checked.busy else ""
    yield f"{url}: {checked.names} names, {state}.{busy}"
    if checked.refused is not None:
        yield f"Some of it may not be repaired from here: {checked.refused}"


def ledger(
    url: Url, *, option: Options = None, endpoint_url: Endpoint = None, as_json: AsJson = False
) -> None:
    """Show a table's ledger: who writes what, who has the turn, and which instants are remembered.

    Nothing is written, and writers may write meanwhile. It exits with 6 if the ledger was removed half.
    """
    with answering(as_json=as_json) as screen, mounted(url, option, endpoint_url) as (fs, path):
        with screen.waiting(f"reading the ledger of {url}"):
            found = upkeep.ledger_of(fs, path)
        if found is None:
            screen.answer({"name": url, "ledger": None}, (f"{url}: the table has no ledger",))
            return
        screen.answer({"name": url, "ledger": asdict(found)}, _ledger_lines(found))
        if found.half_removed is not None:
            raise typer.Exit(Exit.DAMAGED)


def _ledger_lines(found: upkeep.TableLedger) -> Iterator[Table | str]:
    if found.open:
        yield _open_instants(found.open)
    newest = f"the newest checkpoint is {found.checkpoint}" if found.checkpoint else "no checkpoint yet"
    ended = f", and {found.ended} of lives that are over" if found.ended else ""
    yield f"folder   {found.folder}"
    yield f"life     {found.life or 'none: its records are of version 0.1.0'}"
    yield f"records  {found.number}; {newest}; {found.listed} are listed{ended}"
    if found.half_removed is not None:
        yield f"{found.half_removed}."
        return
    turn, counts = found.turn, (found.whole, found.by_name, len(found.open))
    held = turn and f"{turn.number}, session {turn.session}, thread {turn.thread}, lease {turn.lease:g} s"
    above = "above it {} instants are remembered whole, {} by name, {} are open".format(*counts)
    time = "of which no listing tells" if found.written is None else _time(found.written)
    yield f"turn     {held or 'none is held'}"
    yield f"horizon  {found.horizon or 'none'}; {above}"
    yield f"ahead    {len(found.ahead)} instants are later than the store's time ({time})"
    yield from (f"    {instant}" for instant in _some(found.ahead))
    if found.horizon in found.ahead:
        yield _HORIZON_AHEAD


def _open_instants(begun: Iterable[upkeep.Begun]) -> Table:
    table = empty_table("open instant", "action", "session", "since record")
    for each in begun:
        since = "older than is remembered" if each.since is None else str(each.since)
        table.add_row(Text(each.instant), Text(each.action), Text(each.session), since)
    return table


def turns(
    url: Url, *, option: Options = None, endpoint_url: Endpoint = None, as_json: AsJson = False
) -> None:
    """Show who writes a table now: who has its turn, what is being written, who waits to begin.

    Nothing is written. Who waits, or has a slot, is in a queue, but where the writers are mounted with
    tower=False. It exits with 6 if the ledger was removed half.
    """
    with answering(as_json=as_json) as screen, mounted(url, option, endpoint_url) as (fs, path):
        with screen.waiting(f"reading the ledger of {url}"):
            found = upkeep.turns_of(fs, path)
        if found is None:
            screen.answer(
                {"name": url, "turns": None}, (f"{url}: the table has no ledger, and nobody waits",)
            )
            return
        screen.answer({"name": url, "turns": asdict(found)}, _turns_lines(found))
        if found.half_removed is not None:
            raise typer.Exit(Exit.DAMAGED)


def _turns_lines(found: upkeep.TableTurns) -> Iterator[Table | str]:
    if found.half_removed is not None:
        yield f"{found.half_removed}."
        return
    sign = "no sign of life yet" if found.beat is None else f"last sign of life {_time(found.beat)}"
    held = found.turn and f"session {found.turn.session}, thread {found.turn.thread}; {sign}"
    yield f"turn     {held or 'none is held'}"
    yield f"open     instants that are being written: {len(found.open)}"
    if found.open:
        yield _open_instants(found.open)
    yield f"waiting  in the queue: {len(found.waiting)}"
    if found.waiting:
        table = empty_table("session", "wants to write", "said so last")
        for each in found.waiting:
            table.add_row(Text(each.session), Text(_wanted(each)), _time(each.written))
        yield table


def _wanted(waiting: upkeep.Waiting) -> str:
    if waiting.groups is None:
        return "anything"
    groups = sorted(waiting.groups.items())
    named = [f"{'any' if many is None else many} of {folder or 'the table'}" for folder, many in groups]
    return ", ".join(_some(named))


def _time(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S %Z}"


def migrate(
    url: Url,
    *,
    to: Annotated[str, typer.Option(metavar="ARBITER", help="The new one: native, ballot, or an address.")],
    yes: Yes = False,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Have another arbiter decide of a table.

    All that the old one has decided is published, and what it keeps is removed. The writers must be stopped,
    and mount the table with the new arbiter afterwards.
    """
    ask(f"Another arbiter will decide of {url}.", yes=yes)
    with answering(as_json=as_json) as screen, mounted(url, option, endpoint_url) as (fs, path):
        others = [each for each in option or () if not each.startswith("arbiter=")]
        new, _ = mount(url, [*others, f"arbiter={to}"], endpoint_url)
        with screen.progress() as progress:
            removed = upkeep.migrate(fs, new, path, progress=progress)
        _parted(screen, "moved", url, removed)


def leave(
    url: Url,
    *,
    yes: Yes = False,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Publish all that is decided in a table, and remove what its arbiter keeps there.

    From then on the table's plain names are all there is of it. Its writers must be stopped.
    """
    ask(f"{url} will have no arbiter beside its store.", yes=yes)
    with answering(as_json=as_json) as screen, mounted(url, option, endpoint_url) as (fs, path):
        with screen.progress() as progress:
            removed = upkeep.leave(fs, path, progress=progress)
        _parted(screen, "left", url, removed)


def drop(
    url: Url,
    *,
    yes: Yes = False,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Remove what an arbiter keeps of a table that was removed, end marks included; and its ledger.

    It refuses where a name lives that another arbiter than the store itself has decided. Where the store
    decides, it ends the ledger of a table that is there, too, whose names stay. The writers must be stopped.
    """
    ask(f"What the arbiter keeps of {url} will be removed, and its ledger.", yes=yes)
    with answering(as_json=as_json) as screen, mounted(url, option, endpoint_url) as (fs, path):
        with screen.waiting(f"removing what is kept of {url}"):
            removed = upkeep.drop(fs, path)
        if not removed:
            raise ConfigError(f"nothing is kept of names in {url}: there is nothing to drop")
        _parted(screen, "dropped", url, removed)


def _parted(screen: Screen, outcome: str, url: str, removed: int) -> None:
    row = {"outcome": outcome, "name": url, "removed": removed}
    screen.answer(row, (f"{outcome} {url}: {removed} objects of its arbiter's removed",))
