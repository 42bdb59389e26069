"""One record more: only by one who has read all before it, and only where it is valid then.

Its number is the next one, and the mount's arbiter decides who gets it. Who loses it reads on, asks itself
again what it wants to say, and tries the next.

A writer that pauses before its create may come so late that its number is behind a checkpoint, and free
again; or that its table is gone. So whoever has won a number lists the folder once more. If the marker is
another's, the life is over, and the record void. If a checkpoint is above the number, it says which record
was the last of each lane: the record counts if it is that, and else is void. A void record stays where it is,
and whoever wrote it begins again.

The answer "no" needs a listing made after the call began: a cache may be old. A record that was read, and not
won, counts only after another listing: it may have landed when the life was over.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from putifabsent.backends.base import InMemory
from putifabsent.errors import (
    Fenced,
    NameTaken,
    OutcomeUnknown,
    PutIfAbsentError,
    unknown_from,
    unknown_of,
)
from putifabsent.shim.ledger.records import Checkpoint, Line, Move, Record, encode, fold
from putifabsent.shim.requests import Pause, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.base import Creation
    from putifabsent.shim.ledger.book import Ledger
    from putifabsent.shim.ledger.facts import State

    Draft: TypeAlias = Callable[[State], Record | None]
    """Says what to append after a state; None: nothing. It may raise why it can't be."""

T = TypeVar("T")

_UNWAITED = 3
"""So many numbers are lost before it backs off."""


def append(
    ledger: Ledger,
    draft: Draft,
    creation: Creation,
    *,
    first: Callable[[State], Protocol[None]] | None = None,
) -> Protocol[int | None]:
    """Append what ``draft`` says, after all that is there.

    Two requests where nobody else has appended since this session last read: create, list. The draft is
    called anew after whatever is read on the way. The creation's token is no other record's: once it counts,
    the same call again returns the same number. ``first`` does what must be done about a state before a
    record follows on it. None: ``draft`` wants nothing of the table's present state.

    ``Fenced``: the record is not valid, because of another's step. ``OutcomeUnknown``: it may have been
    appended, or may still be. ``OSError``: the store refused or did not answer, and nothing was appended.
    """
    looked, losses = False, 0
    while True:
        state = ledger.state
        number = state.tokens.get(creation.token)
        if number is not None and looked:
            return number
        is_behind = ledger.listed > state.number or not (state.life or looked)
        try:
            record = None if is_behind or number is not None else _wanted(ledger, draft, creation)
        except PutIfAbsentError:
            if looked:
                raise
            record = None  # what may be old refuses nothing yet
        if record is None and not looked:
            looked = yield from ledger.catch_up(creation)
            continue
        if record is None:
            return None
        looked = False
        yield from ledger.agree()
        if first is not None:
            yield from first(state)
        number = yield from _append(ledger, record, creation)
        if number is not None:
            return number
        losses += 1
        if losses > _UNWAITED and not (yield Pause(losses - _UNWAITED)):
            reason = "nothing was appended: others were always faster"
            raise TimeoutError(errno.ETIMEDOUT, reason, ledger.folder)


def about(path: str, creation: Creation, appending: Protocol[T]) -> Protocol[T]:
    """Append for a name that a caller gave: an unknown outcome of a record is one of that name."""
    try:
        return (yield from appending)
    except GeneratorExit:
        raise
    except BaseException as error:
        unknown = unknown_of(error)
        if unknown is not None:
            unknown_from(error, OutcomeUnknown(path, creation.token, unknown.reason))
        raise


def _wanted(ledger: Ledger, draft: Draft, creation: Creation) -> Record | None:
    """Return what is to be appended now: a checkpoint, where one is due. It may raise why nothing can be."""
    state = ledger.state
    record = draft(state)
    if record is not None and not state.moved:
        reason = record.why_not(state)
        if reason is not None:
            raise Fenced(errno.EPERM, reason, ledger.root)
        if state.is_due:
            record = Checkpoint(ledger.session, creation.token, state.condensed())
        elif not state.life and state.number > 0:
            record = Move(ledger.session, f"{creation.token}-move")
    return record


def _append(ledger: Ledger, record: Record, creation: Creation) -> Protocol[int | None]:
    """Try to get the next number; return it, if what was wanted counts by now."""
    state, number = ledger.state, ledger.state.number + 1
    if not state.life and (state.moved or state.number == 0):
        yield from ledger.begin(creation)
        return None
    if isinstance(record, (Checkpoint, Move)):
        yield from _append_first(ledger, record, number, creation)
        return None
    name = ledger.record(number)
    line, is_again = Line(record, ledger.lane.name), False
    unknown: OutcomeUnknown | None = None
    try:
        is_again = (yield from ledger.arbiter.create(name, InMemory(encode(*line)), creation)).again
    except NameTaken:
        ledger.listed = max(ledger.listed, number)
        return None
    except OutcomeUnknown as error:
        unknown = error
    try:
        if is_again and creation.first_try:
            # Another run of the same call may have written it: by its own lane, and with its own body.
            line = (yield from ledger.get(number, creation, is_decided=True)) or line
        counts = yield from _counts(ledger, line, number, creation, unknown)
    except (GeneratorExit, OutcomeUnknown):
        raise
    except BaseException as error:  # noqa: BLE001 - it is raised, as what can't be known
        if unknown is not None:
            unknown_from(error, unknown)
        reason = f"its record {number} is written, and what may have come before it can't be read: {error}"
        unknown_from(error, OutcomeUnknown(name.path, creation.token, reason))
    return number if counts else None


def _counts(
    ledger: Ledger, line: Line, number: int, creation: Creation, unknown: OutcomeUnknown | None
) -> Protocol[bool]:
    """Say whether a number that was won is one that others read, and bring the state up to it.

    Where it is unknown whether it was won, a checkpoint above it tells that, too; and in a life that is over
    nothing counts.
    """
    ended = ledger.ended
    numbers = yield from ledger.numbers(creation)
    if ledger.ended == ended and ledger.newest(numbers) < number:
        if unknown is not None:
            raise unknown
        ledger.state = fold(ledger.state, *line)
        return creation.token in ledger.state.tokens
    state = yield from ledger.current(creation)
    if ledger.ended != ended:
        return False
    last = state.lasts.get(line.lane)
    if last is not None or number > state.dropped:
        return last == (number, creation.token)
    if unknown is not None:
        raise unknown
    reason = (
        f"its record {number} was written when others were far beyond it: nobody can tell if it came first"
    )
    raise OutcomeUnknown(ledger.record(number).path, creation.token, reason)


def _append_first(
    ledger: Ledger, record: Checkpoint | Move, number: int, creation: Creation
) -> Protocol[None]:
    """Append what must come first. Whoever else does it says the same."""
    name = ledger.record(number)
    try:
        yield from ledger.arbiter.create(
            name, InMemory(encode(record)), creation._replace(token=record.token)
        )
        ledger.prunes = True
    except NameTaken:
        pass
    except OutcomeUnknown as error:
        reason = f"nothing was appended, for there is no {record.KIND} yet where one is due"
        raise TimeoutError(errno.ETIMEDOUT, reason, name.path) from error
    # It is read, whosever it is: a checkpoint above it may be there already.
    ledger.listed = max(ledger.listed, number)
