"""Salted base files: what each session writes is a file of its own, under the name that all of them record.

::

    <file id>_<write token>_<T>.parquet             what Hudi asks for, and records: the recorded name
    <file id>_<write token>-<salt>_<T>.parquet      what is written

The salt is a function of the session, so that who knows from the ledger whose T is knows which file counts.
To Hudi the write token of a base file is any text without an underscore; that of a log file is three numbers,
and stays as it is. So do the metadata table's files, which share T with what the data table writes.

Where nothing can decide, each session keeps its own instants, and all are read in one order::

    .hoodie/timeline/<T>_<C>.commit             what a writer says, and others look for: the recorded name
    .hoodie/timeline/<T>_<C>.commit~<salt>      where it lies

Hudi takes for an instant only what ends in an action or a state that it knows; these it passes over.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.backends.base import Created, Creation, Found, Written
from putifabsent.errors import NameTaken, OutcomeUnknown
from putifabsent.shim.formats.hudi import FORMAT, instant_in, step_of
from putifabsent.shim.ledger.facts import Completion, Opened, State
from putifabsent.shim.names import Name, Role
from putifabsent.shim.requests import Protocol, Put, look, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from putifabsent.backends.base import Body

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LENGTH = 32


@lru_cache(maxsize=1024)
def salt_of(session: str) -> str:
    """Return a session's salt: the UUID without its hyphens; of what is no UUID, as much of its hash."""
    if _UUID.fullmatch(session):
        return session.replace("-", "")
    return hashlib.sha256(session.encode()).hexdigest()[:_LENGTH]


def is_recorded(name: Name) -> bool:
    """Whether a name is one that is written with a salt: a base file's, of a data table, that has none."""
    step = step_of(name.path) if name.format == FORMAT else None
    return step is not None and step.state == "base" and step.salt is None


def salted(path: str, session: str) -> str:
    """Return the file that a session writes under a recorded name."""
    start, _, rest = path.rpartition("_")
    return f"{start}-{salt_of(session)}_{rest}"


def recorded(path: str) -> str:
    """Return the name under which a file was recorded; any other name as it is."""
    step = step_of(path)
    if step is None or step.salt is None:
        return path
    start, _, rest = path.rpartition("_")
    return f"{start[: -_LENGTH - 1]}_{rest}"


def beginning_of(path: str) -> str:
    """Return how the last components of a recorded name and of all its files begin."""
    return path.rpartition("/")[2].rpartition("_")[0]


def variants(path: str, found: Iterable[str]) -> list[str]:
    """Return those of the names found that were recorded as ``path``, in one order."""
    return sorted(each for each in found if recorded(each) == path)


# --- whose file counts ----------------------------------------------------------------------------------


def owner_of(state: State, instant: str) -> Opened | Completion | None:
    """Return who has opened or completed an instant; None: nobody, as far as the ledger remembers."""
    return state.open.get(instant) or state.completed(instant)


def is_settled(state: State, instant: str, session: str) -> bool:
    """Whether a state that was read earlier says enough to who reads a file.

    Completed it stays, or its files go; a session that has opened it reads what it has written; and below
    the horizon nothing is opened any more.
    """
    owner = owner_of(state, instant)
    if isinstance(owner, Opened):
        return owner.session == session
    return owner is not None or instant <= state.horizon


def likeliest(path: str, owner: Opened | Completion | None) -> list[str]:
    """Return which files count if they are there, the first of them before all others."""
    return [path] if owner is None else [salted(path, owner.session), path]


def counting(path: str, there: Sequence[str], owner: Opened | Completion | None) -> str | None:
    """Return which of the files under a recorded name, at least one, counts; None: it can't be known.

    The owner's. Where it has none, the plain one, which was written without a salt. Where that is not there
    either, the only one: of a session that another has completed the instant for, or that the ledger has
    forgotten, or that it never knew.
    """
    best = next((each for each in likeliest(path, owner) if each in there), None)
    return there[0] if best is None and len(there) == 1 else best


def removable(path: str, there: Sequence[str], owner: Opened | Completion | None, session: str) -> list[str]:
    """Return which of the files under a recorded name a session may remove.

    ``there`` must have been listed before the ledger was read: what a later owner writes is not in it then.

    While the instant is open: its owner's own, and what sessions have left from which it was taken, for they
    do not go on with it; of anybody else, its own alone. Later, too, a session removes its own first, where
    another has completed the instant: it is one that was taken over, and has not heard of it. Else all: a
    cleaner's, or a rollback's.
    """
    own = salted(path, session)
    if isinstance(owner, Opened):
        mine = owner.session == session
        allowed = {path, own, *(salted(path, each) for each in owner.lost)} if mine else {own}
        return [each for each in there if each in allowed]
    if owner is not None and owner.session != session and own in there:
        return [own]
    return list(there)


# --- instants side by side


class Kept(NamedTuple):
    """One session's instant; they sort in the order in which everybody reads them."""

    instant: str  # ``T``
    salt: str  # of the session; empty for one that is older than the option
    path: str  # where it lies
    recorded: str  # what its writer calls it


def is_instant(name: Name) -> bool:
    """Whether a name is one that each session keeps for itself: requested, inflight or completed."""
    return name.format == FORMAT and name.role is Role.INSTANT


def kept_as(path: str, session: str) -> str:
    """Return where a session keeps what it calls ``path``."""
    return f"{path}~{salt_of(session)}"


def parsed(classify: Callable[[str], Name], path: str) -> Kept | None:
    """Return which instant a file is, whoever's; None: it is none."""
    step = instant_in(path.rpartition("/")[2])
    recorded = path if step is None else path.removesuffix(f"~{step.salt}")
    if step is None or not is_instant(classify(recorded)):
        return None
    return Kept(step.instant, step.salt or "", path, recorded)


def ordered(classify: Callable[[str], Name], found: Iterable[str]) -> list[Kept]:
    """Return the instants among names, by ``(T, salt)``: one order for all who see the same names."""
    return sorted(kept for path in found if (kept := parsed(classify, path)) is not None)


def shown(kept: Iterable[Kept], session: str) -> dict[str, Kept]:
    """Return the same under the names by which a session may read them, in the same order.

    What it calls them itself where it has made them, or one session alone has made one of this name;
    where they lie, where several have.
    """
    instants = list(kept)
    recorded = [each.recorded for each in instants]
    own = salt_of(session)
    return {
        each.recorded if each.salt == own or recorded.count(each.recorded) == 1 else each.path: each
        for each in instants
    }


def keep(name: Name, body: Body, creation: Creation) -> Protocol[Created]:
    """Put what nobody else writes, where :func:`kept_as` says: there is nothing to decide.

    ``NameTaken``: this session has one of this name already. ``OutcomeUnknown``: no answer until the
    deadline. ``OSError``: the store refused, and nothing was written.
    """
    seen = yield from look(name.path, name.path, creation.token, "nothing was sent")
    if isinstance(seen, Found):
        raise NameTaken(name.path, seen.holder)
    # The same bytes under the same name: it may be sent again.
    put = Put(name.path, body, creation)
    written: Written = yield from read(put, late=lambda _: OutcomeUnknown(name.path, creation.token))
    return Created(written.version)
