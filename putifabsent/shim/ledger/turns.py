"""Turns: a table's lock, which only records begin and end.

Whoever has the turn may be paused, and be broken. That does no harm: a COMPLETE names the turn that it is
made in, and is valid only while that is held. So no clock matters for safety. A beat is advisory; it only
keeps others from breaking the turn of somebody who lives.

Records name a turn by its number; whoever holds or watches one also keeps the life in which it was taken. The
next life of the table may have a turn of the same number, held by another thread of the same session.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from putifabsent.backends.base import Absent, Creation, Got, InMemory, PutOutcome, Refused
from putifabsent.errors import Fenced, OutcomeUnknown
from putifabsent.shim.ledger.appending import append
from putifabsent.shim.ledger.book import Ledger, Watched
from putifabsent.shim.ledger.completion import settled
from putifabsent.shim.ledger.facts import Held, State, TurnName
from putifabsent.shim.ledger.records import Break, Record, Release, Turn
from putifabsent.shim.requests import Get, Now, Pause, Protocol, Put, read

_LONGEST_WAIT = 4
"""Pauses grow up to this attempt's, and stay there: who waits should see soon that it is its turn."""

_LOOKS_A_LEASE = 16
"""So often, at most, is a sign of life looked for that is given three times in a lease."""

_LEAST_LOOKS = 8
"""Of the time between two looks at most this part of a lease counts as silence.

A watcher that did not look for longer may have stood still, and a service with it through which the holder's
signs of life go. A third of a lease may have counted before, and one more pass until the next sign of life is
given: a fifth is left for what is on its way.
"""


def take(
    ledger: Ledger,
    thread: str,
    lease: float,
    creation: Creation,
    *,
    clock: Callable[[], float],
    waits: bool = True,
    in_the_way: Callable[[Ledger], Protocol[Sequence[str]]] | None = None,
) -> Protocol[TurnName | None]:
    """Take the turn; None: somebody else has it, or is in the way.

    Two requests where it is free; one or two more where another has completed something since: whoever has it
    may list the store itself, and is to find there all that was completed before. One where another has it
    still, now and then two. By the creation's token the same call again returns the same turn.

    A turn that nobody gives signs of life for is broken, and then taken: after its lease and one pause more,
    where no two looks at its last sign of life are more than an eighth of the lease apart; else after nine of
    those pauses at most, for no more than that eighth counts of each. The ledger remembers from one call to
    the next what it has watched.

    After ``lease`` seconds without a beat others may break this turn; ``clock`` are seconds that only go on,
    by the caller's own clock. With ``waits`` it waits, up to the deadline, while somebody else has it.
    ``in_the_way`` says what is better over before it is taken, in words; None: nothing need be.

    ``Fenced``: it was taken, and others have broken it since. ``OutcomeUnknown``: it may have been taken: ask
    again with the same token, or let it be broken.
    """
    attempt = 0
    while True:
        ledger.waited_for, before = (), None
        is_held = yield from _is_held_still(ledger, creation, clock)
        if in_the_way is not None and not is_held:
            is_held = yield from _look(ledger, in_the_way, creation)
            before = ledger.state
        is_in_line = bool(ledger.waited_for)
        if not (is_held or is_in_line):
            draft = _turn(ledger, thread, lease, creation.token, before)
            number = yield from append(
                ledger, draft, creation, first=lambda state: settled(ledger, creation, state)
            )
            if number is not None:
                ledger.watched, turn = None, TurnName(ledger.state.life, number)
                if _holds(ledger, ledger.state, turn):
                    return turn
                # Who asks again may do so when it has been broken.
                reason = f"turn {number} was taken, and broken before that was answered: ask for another"
                raise Fenced(errno.EPERM, reason, ledger.root)
        if not is_in_line and (yield from _break(ledger, creation, clock)):
            continue
        attempt += 1
        if not waits or not (yield Pause(min(attempt, _LONGEST_WAIT))):
            return None


def release(ledger: Ledger, turn: TurnName, creation: Creation) -> Protocol[bool]:
    """Give a turn back; return whether it was held until then, and not broken. Two requests."""
    record = Release(turn.number, ledger.session, creation.token)
    number = yield from append(
        ledger, lambda state: record if _holds(ledger, state, turn) else None, creation
    )
    return number is not None


def give_up(ledger: Ledger, token: str, creation: Creation) -> Protocol[None]:
    """Give back the turn that a call of this token has got, if it has: nobody waits for its answer."""
    state = yield from ledger.current(creation)
    turn = state.turn_name
    if turn is not None and state.tokens.get(token) == turn.number:
        yield from release(ledger, turn, creation)


def beat(ledger: Ledger, turn: TurnName, creation: Creation, *, clock: Callable[[], float]) -> Protocol[bool]:
    """Show that the holder of a turn lives; return whether it held it still. Two requests.

    What a beat says is the holder's clock, which nobody compares with a clock of theirs.
    """
    if not _holds(ledger, (yield from ledger.current(creation)), turn):
        return False
    now = yield Now(clock)
    outcome: PutOutcome = yield Put(ledger.beat(turn), InMemory(repr(now).encode()), creation)
    if isinstance(outcome, Refused):
        raise outcome.error
    return True


def _is_held_still(ledger: Ledger, creation: Creation, clock: Callable[[], float]) -> Protocol[bool]:
    """Whether somebody else has the turn that was seen last, for there is no record after it. One request.

    It costs less than a listing, and says no more than that the wait may go on: in a life that is over, or
    behind a checkpoint, the next record never comes. So listings follow as often as looks for a sign of life.
    """
    held, watched = ledger.state.turn, _watched(ledger)
    if held is None or watched is None or creation.token in ledger.state.tokens:
        return False
    if _is_due(watched, held, (yield Now(clock))):
        return False
    got: Got | Absent = yield from read(Get(ledger.record(ledger.state.number + 1).path))
    return isinstance(got, Absent)


def _look(
    ledger: Ledger, in_the_way: Callable[[Ledger], Protocol[Sequence[str]]], creation: Creation
) -> Protocol[bool]:
    """Find out what is in the way of a turn that is free; return whether it is another's.

    Who knows of no others' instants and turn has nothing to read anew: what has come since is seen by who
    appends. Nothing is in the way of a turn that the same call has got before.
    """
    is_alone = ledger.state.turn is None and all(
        each.session == ledger.session for each in ledger.state.open.values()
    )
    if not is_alone:
        yield from ledger.current(creation)
    if ledger.state.turn is None:
        found = yield from in_the_way(ledger)
        if found and is_alone:
            yield from ledger.current(creation)
        if creation.token not in ledger.state.tokens:
            ledger.waited_for = found
        return False
    return creation.token not in ledger.state.tokens


def _holds(ledger: Ledger, state: State, turn: TurnName) -> bool:
    held = state.turn
    return held is not None and state.turn_name == turn and held.session == ledger.session


def _turn(
    ledger: Ledger, thread: str, lease: float, token: str, before: State | None
) -> Callable[[State], Record | None]:
    """Say what takes the turn while none is held.

    After ``before``, in which somebody was asked what is in the way: only if nothing was opened since.
    """

    def draft(state: State) -> Record | None:
        is_new = before is not None and not before.open.keys() >= state.open.keys()
        if state.turn is not None or is_new:
            return None
        return Turn(state.number + 1, ledger.session, token, thread, lease)

    return draft


def _watched(ledger: Ledger) -> Watched | None:
    """Return what was seen of the turn that is held; None: it has not been looked at."""
    watched = ledger.watched
    return watched if watched is not None and watched.turn == ledger.state.turn_name else None


def _is_due(watched: Watched, held: Held, now: float) -> bool:
    return now - watched.looked > held.lease / _LOOKS_A_LEASE


def _break(ledger: Ledger, creation: Creation, clock: Callable[[], float]) -> Protocol[bool]:
    """End the turn that others have, if it was silent for longer than its lease; return whether it is over.

    What counts is how long it was seen to be silent, as :func:`take` says.
    """
    held, turn = ledger.state.turn, ledger.state.turn_name
    if held is None or turn is None:
        return True
    now = yield Now(clock)
    watched, silent = _watched(ledger), 0.0
    if watched is not None:
        silent = watched.silent + min(now - watched.looked, held.lease / _LEAST_LOOKS)
        if silent <= held.lease and not _is_due(watched, held, now):
            return False
    got: Got | Absent = yield from read(Get(ledger.beat(turn)))
    shown = None if isinstance(got, Absent) else got.data
    if watched is None or watched.beat != shown:
        # The clock is read after the first look, and before each other: what lies between is no more.
        ledger.watched = Watched(turn, shown, 0.0, (yield Now(clock)))
        return False
    ledger.watched = watched._replace(silent=silent, looked=now)
    if silent <= held.lease:
        return False
    token = f"{creation.token}-{turn.number}"
    record = Break(turn.number, ledger.session, token)
    try:
        yield from append(
            ledger,
            lambda state: None if state.turn_name != turn else record,
            creation._replace(token=token),
        )
    except OutcomeUnknown:
        return False  # the next look tells, if there is time for one
    return True  # by this breaker, or by another
