"""How a verb answers and ends: what it prints, for people and for programs, and its exit code.

With ``--json`` stdout has one JSON value and nothing else; without it, stdout has the answer as a table or a
sentence. Progress and errors always go to stderr. ``--quiet`` leaves out what is neither answer nor error,
``--verbose`` adds what has led to an error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import asdict
from datetime import datetime
from enum import IntEnum
from io import TextIOWrapper
from time import monotonic
from typing import IO, TYPE_CHECKING, NoReturn

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from putifabsent.doctor import install_of
from putifabsent.errors import ConfigError, NameTaken, OutcomeUnknown, UnsafeStore, sentence_of

if TYPE_CHECKING:
    from pathlib import Path

# Into a file or a pipe, where no line width is known.
_WIDTH = 160

_BETWEEN = 3  # from a column of a table to the next

_SECONDS = 10  # between two lines of progress, where no bar can be drawn

_FIRST_PART = 20
"""A twentieth, from which on there is an estimate: what comes first takes longer than the rest."""

QUIET: ContextVar[bool] = ContextVar("quiet", default=False)
VERBOSE: ContextVar[bool] = ContextVar("verbose", default=False)


class Screen:
    """Prints answers."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._is_quiet = QUIET.get()
        self._out, self._err = _console(sys.stdout), _console(sys.stderr)

    def answer(self, value: object, shown: Iterable[Table | Text | str]) -> None:
        """Print the answer: ``value`` where a program reads, else ``shown``, tables and lines."""
        if self._as_json:
            return self.json(value)
        with self._written():
            for each in shown:
                self._out.print(each, soft_wrap=not isinstance(each, Table))
        return None

    def json(self, value: object) -> None:
        """Print the JSON value, where a program reads; else nothing."""
        if self._as_json:
            with self._written():
                json.dump(value, sys.stdout, indent=2, default=datetime.isoformat)
                sys.stdout.write("\n")

    def note(self, line: str) -> None:
        """Print a line beside an answer, on stderr, for people only."""
        if not self._as_json and not self._is_quiet:
            self._tell(Text(line, "dim"), soft_wrap=False)

    def error(self, message: str, *more: str) -> None:
        """Print what went wrong, and what to do, on stderr."""
        self._tell(Text.assemble(("error: ", "bold red"), message), *more)

    def _tell(self, *lines: Text | str, soft_wrap: bool = True) -> None:
        """Print lines on stderr. Where nothing can be printed, the exit code says the same still."""
        try:
            for line in lines:
                self._err.print(line, soft_wrap=soft_wrap)
        except OSError:
            _give_up(sys.stderr)

    @contextmanager
    def _written(self) -> Iterator[None]:
        """Print what is printed inside; where that can't be, say so by the exit code, which is no answer's.

        If nobody reads it any more, end quietly, as a shell says of SIGPIPE.
        """
        try:
            yield
            sys.stdout.flush()
        except OSError as error:
            _give_up(sys.stdout)
            if not isinstance(error, BrokenPipeError):
                self.error(f"the answer can't be written: {sentence_of(error)}")
            raise typer.Exit(Exit.UNREAD) from None

    @contextmanager
    def progress(self) -> Iterator[Callable[[int, int, str], None]]:
        """Give a callback for (done, in all, what): a bar draws it, or, in a pipe, a line now and then."""
        if self._is_quiet or not self._err.is_terminal:
            yield (lambda *_: None) if self._is_quiet else self._by_lines()
            return
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        times = (TimeElapsedColumn(), TimeRemainingColumn())
        with Progress(*columns, *times, console=self._err, transient=True) as bars:
            task = bars.add_task("starting", total=None)
            before = (0, 0)

            def draw(done: int, total: int, what: str) -> None:
                nonlocal before
                if _begins(before, done, total):
                    bars.reset(task)
                before = (done, total)
                bars.update(task, completed=done, total=total, description=what)

            yield draw

    def _by_lines(self) -> Callable[[int, int, str], None]:
        before, began = (0, 0), monotonic()
        last = began

        def draw(done: int, total: int, what: str) -> None:
            nonlocal before, began, last
            now = monotonic()
            if _begins(before, done, total):
                began = now
            before = (done, total)
            if now - last < _SECONDS:
                return
            last = now
            line = f"{what}: {done:,} of {total:,}"
            if total / _FIRST_PART <= done < total:
                line += f", about {(now - began) * (total - done) / done:.0f} s left"
            self._tell(line)

        return draw

    def waiting(self, what: str) -> AbstractContextManager[object]:
        """Show that something is going on."""
        return nullcontext() if self._is_quiet else self._err.status(Text(what))


def _begins(before: tuple[int, int], done: int, total: int) -> bool:
    """Whether this is the beginning of another thing: an estimate is of what is done now."""
    return total != before[1] or done < before[0]


def _give_up(stream: IO[str]) -> None:
    # Else Python would try once more at its end, and complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        """Fail as where a disk is full: rich itself would exit with 1, which has a meaning here."""
        raise BrokenPipeError


def _console(stream: IO[str]) -> Console:
    if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="backslashreplace")  # a name is no reason to lose the answer
    # Names are printed as they are: what looks like markup or like an emoji's code in them is none.
    width = None if stream.isatty() else _WIDTH
    return _Console(file=stream, highlight=False, markup=False, emoji=False, width=width)


class _Table(Table):
    """A table that breaks no word: where a line has no room for a row, what is in it comes line by line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Give the columns what their words need, and the first ones more while there is room."""
        wanted = [
            [Measurement.get(console, options, each) for each in (column.header, *column.cells)]
            for column in self.columns
        ]
        # A number and its unit are one word.
        least = [
            max(
                each.maximum if at and column.justify == "right" else each.minimum
                for at, each in enumerate(of)
            )
            for column, of in zip(self.columns, wanted, strict=True)
        ]
        spare = options.max_width - sum(least) - _BETWEEN * len(least) + 1
        if spare < 0:
            yield from self._records()
            return
        for column, least_of, of in zip(self.columns, least, wanted, strict=True):
            column.width = min(max(each.maximum for each in of), least_of + spare)
            spare -= column.width - least_of
        yield from super().__rich_console__(console, options)

    def _records(self) -> Iterator[Table | str]:
        names = [str(column.header) for column in self.columns]
        for row, *cells in zip(self.rows, *(column.cells for column in self.columns), strict=True):
            yield ""
            record = Table.grid(padding=(0, _BETWEEN, 0, 1))
            record.add_column()
            record.add_column(overflow="fold")
            for name, cell in zip(names, cells, strict=True):
                if cell:
                    record.add_row(name, cell, style=row.style)
            yield record
        yield ""


def empty_table(*columns: str, right: int = 0) -> Table:
    """Return an empty table; its last ``right`` columns are numbers."""
    table = _Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        is_number = number >= len(columns) - right
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    return table


class Exit(IntEnum):
    """What a verb exits with, for scripts; 130 if it is interrupted, as by Ctrl-C."""

    DONE = 0
    NO = 1  # a taken name, a lost commit, a broken promise, leftovers, a wrong setting
    USAGE = 2  # an argument, an option, a missing package
    UNKNOWN = 3  # whether the name was created: keep the bytes, resolve the token
    FAILED = 4  # it could not be done, and nothing was created
    UNSAFE = 5  # the store can't decide who creates a name
    DAMAGED = 6  # the table, or its ledger
    UNREAD = 141  # nobody has read the answer to its end, as after `| head`, or it could not be written


@contextmanager
def answering(url: str = "URL", *, as_json: bool) -> Iterator[Screen]:
    """Give a verb's screen; turn what is raised into a sentence, with ``--json`` a value, and an exit code.

    ``url`` is the name that it is about.
    """
    screen = Screen(as_json=as_json)
    try:
        yield screen
    except typer.Exit:
        raise
    except KeyboardInterrupt as error:
        # Interrupted after a request had gone out: the cause has the token.
        if not isinstance(error.__cause__, OutcomeUnknown):
            raise
        _unknown(screen, url, error.__cause__)
    except OutcomeUnknown as error:
        _unknown(screen, url, error)
    except NameTaken as error:
        holder = error.holder and asdict(error.holder)
        _end(screen, Exit.NO, {"outcome": "taken", "name": url, "holder": holder}, error)
    except Exception as error:  # noqa: BLE001 - Python's own exit code is 1, which has a meaning here
        code, more = Exit.FAILED, []
        if isinstance(error, UnsafeStore):
            code = Exit.UNSAFE
        elif isinstance(error, (ImportError, ValueError)):
            code = Exit.USAGE
        if isinstance(error, ImportError):
            more = [] if (install := install_of(error)) in str(error) else [install]
        _end(screen, code, {"outcome": code.name.lower(), "message": sentence_of(error)}, error, *more)


def _unknown(screen: Screen, url: str, error: OutcomeUnknown) -> NoReturn:
    value = {"outcome": "unknown", "name": url, "token": error.token, "message": sentence_of(error)}
    later = f"ask later, with the same options: putifabsent resolve {url} {error.token}"
    _end(screen, Exit.UNKNOWN, value, error, f"token: {error.token}", later)


def _end(screen: Screen, code: Exit, value: object, error: BaseException, *more: str) -> NoReturn:
    screen.error(sentence_of(error), *more, *(_causes(error) if VERBOSE.get() else ()))
    screen.json(value)
    raise typer.Exit(code) from error


def _causes(error: BaseException) -> Iterator[str]:
    """Return, in full, what an error was raised from."""
    cause = error.__cause__ or error.__context__
    while cause is not None:
        yield f"caused by {type(cause).__name__}: {cause}"
        cause = cause.__cause__ or cause.__context__


def check_file(option: str, file: Path | None, ending: str) -> None:
    """Refuse, before anything is done, a file that can't be written, or whose name promises something else.

    Its folder is made, if it is not there.
    """
    if file is None:
        return
    if file.suffix.lower() != ending:
        raise ConfigError(f"{option} {file}: what it writes is {ending}, say {file.with_suffix(ending)}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{option} {file}: {sentence_of(error)}") from error
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise ConfigError(f"{option} {file}: this user may not write there")


def write(file: Path, text: str) -> None:
    """Write a report. On local disk, a name may have bytes that are no text."""
    file.write_text(text, encoding="utf-8", errors="backslashreplace")
