"""The commit, and what takes it back.

The body goes first, under a key of its own; then the COMPLETE, which decides; then the store copies the body
to the plain name. Whoever completes after that sees to it that the copy is there, so at most the last
completion is ever unpublished. One whose table was upgraded or downgraded since lies under another name, and
is not published again. What is undone loses its body before its name: a copy that fails where its
source is gone can't bring it back.
"""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING

from putifabsent.backends.base import Absent, Created, Exists, Found, Refused, Written, caused
from putifabsent.errors import Fenced, Holder, NameTaken, OutcomeUnknown, unknown_from
from putifabsent.shim.formats.hudi_layout import was_moved
from putifabsent.shim.ledger.appending import about, append
from putifabsent.shim.ledger.records import Complete, Record
from putifabsent.shim.requests import (
    NOT_OURS,
    Both,
    Head,
    List,
    Pause,
    Protocol,
    Publish,
    Put,
    read,
    removed,
    unanswered,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.base import Body, Creation, HeadOutcome, Listed, PublishOutcome, PutOutcome
    from putifabsent.shim.ledger.book import Ledger
    from putifabsent.shim.ledger.facts import Completion, State, TurnName


def complete(
    ledger: Ledger,
    path: str,
    instant: str,
    body: Body,
    creation: Creation,
    *,
    turn: TurnName | None,
    largest_publish: int,
) -> Protocol[Created]:
    """Commit an instant: bring its completed name into being, at most once for all of its names.

    Five requests in four round trips, where this session has published the completion before: the body and a
    look at the plain name, the record, the listing, the copy. ``turn`` is the one in which this is done; more
    bytes than ``largest_publish`` the store can't copy.

    ``Fenced``: the instant was taken over or freed, or the turn was broken. ``NameTaken``: another creation
    has completed the instant. ``OutcomeUnknown``: it may be completed, or may still be; or it is, and can't
    be published. ``OSError``: the store refused, and nothing was completed.
    """
    if body.size > largest_publish:
        reason = f"the store copies no more than {largest_publish} bytes, and these are {body.size}"
        raise OSError(errno.EFBIG, reason, path)
    if creation.token in ledger.state.completions:
        yield from ledger.current(creation)
    if creation.token not in ledger.state.completions:
        yield from _decide(ledger, path, instant, body, creation, turn)
    made = ledger.state.completions.get(creation.token)
    if made is not None and ledger.path(made.name) != path:
        msg = f"the token {creation.token} is that of {ledger.path(made.name)}: each creation has its own"
        raise ValueError(msg)
    if made is None or made.undone:
        return Created()  # it was completed, and undone since
    try:
        return (yield from _publish(ledger, made, creation))
    except (GeneratorExit, OutcomeUnknown):
        raise
    except BaseException as error:  # noqa: BLE001 - it is raised, as what can't be known
        reason = f"it is completed, and then there was {type(error).__name__}: {error}"
        unknown_from(error, OutcomeUnknown(path, creation.token, reason))


def settle(ledger: Ledger, creation: Creation) -> Protocol[None]:
    """Publish what is completed and not published: a dead writer has left it."""
    yield from settled(ledger, creation, (yield from ledger.current(creation)))


def settled(ledger: Ledger, creation: Creation, state: State) -> Protocol[None]:
    """Publish what is completed in a state and not published."""
    made = ledger.unshown(state)
    if made is None:
        return
    path = ledger.path(made.name)
    seen: HeadOutcome = yield from read(Head(path), _refusal)
    is_there = isinstance(seen, Found) and seen.holder.token == made.token
    undone = {ledger.path(each.name) for each in state.completions.values() if each.undone}
    if is_there or (isinstance(seen, Absent) and (yield from was_moved(path, undone))):
        ledger.published = made.token
        return
    yield from _publish(ledger, made, creation, must=True)


def remove(ledger: Ledger, path: str, instant: str, made: Completion | None) -> Protocol[bool]:
    """Remove a completed name that was undone, or is archived: its body, then the plain name.

    ``made`` is its completion; None: it is forgotten, and the plain name itself tells whose body it is a copy
    of. Returns whether that was all; False: what is left goes by its name, like one that is older than the
    ledger. ``OSError``: the store refuses, or does not answer in time: something of it may still be there.
    """
    if made is not None:
        yield from removed(ledger.path(made.body))
    seen: HeadOutcome = yield from read(Head(path))
    if not isinstance(seen, Found):
        return made is not None
    token = seen.holder.token
    if made is None and token is not None:
        # Of which try, its record has said. Version 0.1.0 put no instant into a key.
        own = f"{ledger.bodies}/{instant}~{token}.", f"{ledger.bodies}/{token}."
        listed: Listed = yield from read(List(ledger.bodies))
        for body in (each.name for each in listed.entries if each.name.startswith(own)):
            yield from removed(body)
    there = ledger.state.completions.get(token or "")
    if there is not None and not there.undone and there != made:
        return True  # the same name, completed again since
    if made is not None:
        yield from removed(path, seen.holder.version)
    return made is not None


def resolve(ledger: Ledger, path: str, creation: Creation) -> Protocol[Holder | None]:
    """Answer an unknown outcome of :func:`complete` later: the creation itself, if it is completed.

    None: it is not *now*; it may have been undone, or its record may still land. A creation is never
    completed twice: a key that was sent is not sent again. ``NameTaken``: another creation holds the name.
    """
    state = yield from ledger.current(creation)
    made = state.named(ledger.relative(path))
    if made is not None and made.undone:
        return None
    holder = None if made is None else Holder(made.token)
    if made is None:
        # Its record is forgotten, or it is older than the ledger: its copy says whose it is.
        seen: HeadOutcome = yield from read(Head(path))
        holder = seen.holder if isinstance(seen, Found) else None
    if holder is not None and holder.token != creation.token:
        raise NameTaken(path, holder)
    return holder


def _decide(
    ledger: Ledger, path: str, instant: str, body: Body, creation: Creation, turn: TurnName | None
) -> Protocol[None]:
    """Store the body, and append the COMPLETE."""
    life, ended = ledger.state.life, ledger.ended
    key = yield from _put(ledger, path, instant, body, creation)
    try:
        draft = _completing(ledger, path, instant, key, creation.token, turn, life)
        appending = append(ledger, draft, creation, first=lambda state: settled(ledger, creation, state))
        yield from about(path, creation, appending)
        ledger.remember([instant])
        return
    except OutcomeUnknown:
        raise
    except Exception as failed:
        try:
            yield from removed(key)
            if ledger.ended != ended:
                yield from _withdraw(path, creation.token)
        except OSError as error:
            # In the life that is over a record may name it; else none does, and it is litter.
            if ledger.ended != ended:
                reason = f"{failed}; others may have read its record before; it can't be withdrawn: {error}"
                raise OutcomeUnknown(path, creation.token, reason) from failed
        raise


def _withdraw(path: str, token: str) -> Protocol[None]:
    """Remove the copy that others may have made of a completion in a life that is over; its body is gone."""
    seen: HeadOutcome = yield from read(Head(path))
    if isinstance(seen, Found) and seen.holder.token == token:
        yield from removed(path, seen.holder.version)


def _put(ledger: Ledger, path: str, instant: str, body: Body, creation: Creation) -> Protocol[str]:
    """Store the bytes, and see meanwhile that nobody who goes round the shim has the plain name.

    Of one creation that runs twice at once each run has a key of its own: one that fails removes its bytes.
    """
    tries = creation.first_try
    while True:
        key = ledger.body(instant, creation.token, tries)
        answers: tuple[PutOutcome, HeadOutcome] = yield Both(Put(key, body, creation), Head(path))
        put, seen = answers
        if isinstance(put, Written):
            break
        if isinstance(put, Refused):
            raise put.error
        tries += 1
        if not (yield Pause(tries)):
            reason = "the store did not take the bytes in time"
            raise TimeoutError(errno.ETIMEDOUT, reason, path) from put.cause
    try:
        yield from _see(ledger, path, seen, creation)
        return key
    except Exception:
        with contextlib.suppress(OSError):
            yield from removed(key)
        raise


def _see(ledger: Ledger, path: str, seen: HeadOutcome, creation: Creation) -> Protocol[None]:
    """Refuse a plain name that is there, and of which no record knows."""
    if not isinstance(seen, (Found, Absent)):
        seen = yield from read(Head(path))
    if not isinstance(seen, Found):
        return
    if seen.holder.token not in ledger.state.completions:
        state = yield from ledger.current(creation)
        if seen.holder.token not in state.completions:
            raise NameTaken(path, seen.holder)


def _completing(
    ledger: Ledger, path: str, instant: str, key: str, token: str, turn: TurnName | None, life: str
) -> Callable[[State], Record | None]:
    def draft(state: State) -> Record | None:
        if token in state.completions:
            return None
        if life not in ("", state.life):
            raise Fenced(errno.EPERM, f"the table was removed since {instant} was begun", path)
        if turn is not None and turn.life != state.life:
            raise Fenced(errno.EPERM, f"the table was removed since turn {turn.number} was taken", path)
        other = state.completed(instant)
        if other is not None and other.session != ledger.session:
            raise Fenced(errno.EPERM, f"{instant} was completed by session {other.session}", path)
        if other is not None:
            raise NameTaken(path, Holder(other.token))
        name, body = ledger.relative(path), ledger.relative(key)
        return Complete(instant, ledger.session, token, name, body, turn and turn.number)

    return draft


def _publish(
    ledger: Ledger, made: Completion, creation: Creation, *, must: bool = False
) -> Protocol[Created]:
    """Copy a body to its plain name. It may be gone: it was undone, or archived, since.

    With ``must``, no answer until the deadline is a failure; else it is completed all the same, and who comes
    next publishes it.
    """
    path = ledger.path(made.name)
    pauses = 0
    while True:
        outcome: PublishOutcome = yield Publish(ledger.path(made.body), path, creation)
        if isinstance(outcome, (Written, Absent)):
            ledger.published = made.token
            return Created(outcome.version if isinstance(outcome, Written) else None)
        why = _refusal(outcome.error) if isinstance(outcome, Refused) else None
        if isinstance(outcome, Exists):
            seen: HeadOutcome = yield from read(Head(path))
            if isinstance(seen, Found) and seen.holder.token == made.token:
                return Created(seen.holder.version)
            if isinstance(seen, Found):
                why = yield from _make_way(ledger, path, seen)
        if why is not None:
            if must:
                raise why
            raise OutcomeUnknown(path, made.token, f"it is completed, and can't be published: {why}") from why
        pauses += 1
        if not (yield Pause(pauses)):
            if must:
                raise TimeoutError(errno.ETIMEDOUT, "the completion before it could not be published", path)
            return Created()


def _refusal(error: Exception) -> OSError:
    """Return why a completion can't be shown, and what to do where a folder is in its place."""
    refusal = unanswered(error)
    if not isinstance(refusal, IsADirectoryError):
        return refusal
    reason = "a folder is in the place of a commit: move it away"
    return caused(OSError(errno.EBUSY, reason, refusal.filename), refusal)


def _make_way(ledger: Ledger, path: str, seen: Found) -> Protocol[OSError | None]:
    """Remove what was undone from a plain name, on a store that can't overwrite; return why that can't be."""
    was = ledger.state.completions.get(seen.holder.token or "")
    if was is None or not was.undone:
        return OSError(errno.EBUSY, NOT_OURS, path)
    yield from removed(path, seen.holder.version)
    return None
