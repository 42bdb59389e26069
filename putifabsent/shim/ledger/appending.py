"""One record more: only by one who has read all before it, and only where it is valid then.

Its number is the next one, and the mount's arbiter decides who gets it. Who loses it reads on, asks itself
again what it wants to say, and tries the next.

A writer that pauses before its create may come so late that its number is behind a checkpoint, and free
again. So whoever has won a number lists what is above it. A checkpoint there says which tokens have come into
it: the record counts if its own is among them. Where the checkpoint can't tell any more, nobody can.

"No" is said only of what was listed after the call began: a cache may be old.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from putifabsent.backends.body import InMemory
from putifabsent.errors import Fenced, NameTaken, OutcomeUnknown, PutIfAbsentError
from putifabsent.shim.ledger.book import removed
from putifabsent.shim.ledger.records import Checkpoint, Complete, fold, valid
from putifabsent.shim.ledger.written import encode
from putifabsent.shim.requests import Pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.base import Creation
    from putifabsent.shim.ledger.book import Ledger
    from putifabsent.shim.ledger.facts import State
    from putifabsent.shim.ledger.records import Record
    from putifabsent.shim.requests import Protocol

    Draft: TypeAlias = Callable[[State], Record | None]
    """Says what to append after a state; None: nothing. It may raise why it can't be."""

__all__ = ["append", "unknown_from"]

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

    Two requests where nobody else has appended since this session last read: create, list.

    Parameters
    ----------
    ledger
        What the session knows; it knows more afterwards.
    draft
        Is asked anew after whatever is read on the way.
    creation
        Its token makes the record its own, and is no other record's. Once it counts, the same call again
        returns the same number.
    first
        What must be done about a state before a record follows on it.

    Returns
    -------
    int or None
        The record's number (0: it counts, and the number is forgotten); None where ``draft`` wants nothing
        of the table's present state.

    Raises
    ------
    Fenced
        The record is not valid, because of another's step.
    OutcomeUnknown
        It may have been appended, or may still be.
    OSError
        The store refused or did not answer, and nothing was appended.
    """
    looked, losses = False, 0
    while creation.token not in ledger.state.tokens:
        state = ledger.state
        if ledger.listed > state.number or (state.number == 0 and not looked):
            looked = yield from ledger.catch_up(creation)
            continue
        record, no = _wanted(ledger, draft, creation)
        if record is None:
            if not looked:
                looked = yield from ledger.catch_up(creation)
                continue
            if no is not None:
                raise no
            return None
        looked = False
        if first is not None:
            yield from first(state)
        if (yield from _append(ledger, record, creation)):
            break
        losses += 1
        if losses > _UNWAITED and not (yield Pause(losses - _UNWAITED)):
            reason = "nothing was appended: others were always faster"
            raise TimeoutError(errno.ETIMEDOUT, reason, ledger.folder)
    return ledger.state.tokens.get(creation.token, 0)


def _wanted(
    ledger: Ledger, draft: Draft, creation: Creation
) -> tuple[Record | None, PutIfAbsentError | None]:
    """Return what is to be appended now, or why nothing can be: a checkpoint, where one is due."""
    state = ledger.state
    try:
        record = draft(state)
    except PutIfAbsentError as error:
        return None, error
    if record is not None and state.is_due:
        record = Checkpoint(ledger.session, creation.token, state.condensed())
    reason = None if record is None else valid(state, record)
    return (record, None) if reason is None else (None, Fenced(errno.EPERM, reason, ledger.root))


def _append(ledger: Ledger, record: Record, creation: Creation) -> Protocol[bool]:
    """Try to get the next number; say whether what was wanted counts by now."""
    if ledger.state.number == 0:
        yield from ledger.begin(creation)
    if isinstance(record, Checkpoint):
        yield from _checkpoint(ledger, record, creation)
        return False
    number = ledger.state.number + 1
    name = ledger.record(number)
    try:
        yield from ledger.arbiter.create(name, InMemory(encode(record)), creation)
    except NameTaken:
        ledger.listed = max(ledger.listed, number)
        return False
    try:
        counts = yield from _counts(ledger, record, number, creation)
    except GeneratorExit:
        raise
    except BaseException as error:
        if isinstance(error, OutcomeUnknown):
            raise
        reason = f"its record {number} is written, and what may have come before it can't be read: {error}"
        unknown_from(error, OutcomeUnknown(name.path, creation.token, reason))
    return counts


def unknown_from(error: BaseException, unknown: OutcomeUnknown) -> NoReturn:
    """Raise an unknown outcome, which an error has led to. A cancellation stays one, and carries it."""
    if isinstance(error, Exception):
        raise unknown from error
    raise error from unknown


def _counts(ledger: Ledger, record: Record, number: int, creation: Creation) -> Protocol[bool]:
    """Say whether a number that was won is one that others read, and bring the state up to it."""
    numbers = yield from ledger.numbers()
    if ledger.state.number != number - 1:
        # What it was to follow on was removed with its table.
        yield from removed(ledger.record(number).path)
        ledger.listed = 0
        return False
    if ledger.newest(numbers) < number:
        ledger.state = fold(ledger.state, record)
        return True
    state = yield from ledger.current(creation)
    token = creation.token
    if token in state.tokens or token in state.completions:
        return True
    remembered = min(state.tokens.values(), default=state.number + 1)
    if number >= remembered or (isinstance(record, Complete) and record.instant > state.horizon):
        return False
    reason = (
        f"its record {number} was written when others were far beyond it: nobody can tell if it came first"
    )
    raise OutcomeUnknown(ledger.record(number).path, token, reason)


def _checkpoint(ledger: Ledger, checkpoint: Checkpoint, creation: Creation) -> Protocol[None]:
    """Say what all records come to. Whoever else does it says the same."""
    name = ledger.record(checkpoint.state.number)
    try:
        yield from ledger.arbiter.create(name, InMemory(encode(checkpoint)), creation)
    except NameTaken:
        pass
    except OutcomeUnknown as error:
        reason = "nothing was appended, for there is no checkpoint yet where one is due"
        raise TimeoutError(errno.ETIMEDOUT, reason, name.path) from error
    # It is read, whosever it is: a newer one may be there already.
    ledger.listed = max(ledger.listed, checkpoint.state.number)
