"""Instants side by side: where nothing can decide, each session keeps its own, and all are read in one order.

::

    .hoodie/timeline/<T>_<C>.commit             what a writer says, and others look for: the recorded name
    .hoodie/timeline/<T>_<C>.commit~<salt>      where it lies

Hudi takes for an instant only what ends in an action or a state that it knows; these it passes over.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.backends.base import Created, Found, Refused, Written
from putifabsent.errors import NameTaken, OutcomeUnknown
from putifabsent.shim.formats.hudi import FORMAT
from putifabsent.shim.formats.hudi_salt import salt_of
from putifabsent.shim.names import Role
from putifabsent.shim.reading import look
from putifabsent.shim.requests import Pause, Put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from putifabsent.backends.base import Creation, PutOutcome
    from putifabsent.backends.body import Body
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol

__all__ = ["Kept", "is_instant", "keep", "kept_as", "ordered", "parsed", "shown"]

_KEPT = re.compile(r"(?P<recorded>.*/(?P<t>[0-9]+)[^/~]*)(?:~(?P<salt>[0-9a-f]{32}))?", re.DOTALL)


class Kept(NamedTuple):
    """One session's instant; they sort in the order in which everybody reads them.

    Attributes
    ----------
    instant
        ``T``.
    salt
        Of the session; empty for one that is older than the option.
    path
        Where it lies.
    recorded
        What its writer calls it.
    """

    instant: str
    salt: str
    path: str
    recorded: str


def is_instant(name: Name) -> bool:
    """Whether a name is one that each session keeps for itself: requested, inflight or completed."""
    return name.format == FORMAT and name.role is Role.INSTANT


def kept_as(path: str, session: str) -> str:
    """Return where a session keeps what it calls ``path``."""
    return f"{path}~{salt_of(session)}"


def parsed(classify: Callable[[str], Name], path: str) -> Kept | None:
    """Return which instant a file is, whoever's; None: it is none."""
    match = _KEPT.fullmatch(path)
    if match is None or not is_instant(classify(match["recorded"])):
        return None
    return Kept(match["t"], match["salt"] or "", path, match["recorded"])


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
        each.recorded if each.salt == own or _is_alone(each, recorded) else each.path: each
        for each in instants
    }


def _is_alone(kept: Kept, recorded: list[str]) -> bool:
    return recorded.count(kept.recorded) == 1


def keep(name: Name, body: Body, creation: Creation) -> Protocol[Created]:
    """Put what nobody else writes: there is nothing to decide.

    Parameters
    ----------
    name
        Where it lies: :func:`kept_as`.
    body, creation
        As for :func:`putifabsent.shim.create.create`.

    Raises
    ------
    NameTaken
        This session has one of this name already.
    OutcomeUnknown
        No answer until the deadline.
    OSError
        The store refused, and nothing was written.
    """
    seen = yield from look(name.path, name.path, creation.token, "nothing was sent")
    if isinstance(seen, Found):
        raise NameTaken(name.path, seen.holder)
    pauses = 0
    while True:
        # The same bytes under the same name: it may be sent again.
        outcome: PutOutcome = yield Put(name.path, body, creation)
        if isinstance(outcome, Written):
            return Created(outcome.version)
        if isinstance(outcome, Refused):
            raise outcome.error
        pauses += 1
        if not (yield Pause(pauses)):
            raise OutcomeUnknown(name.path, creation.token) from outcome.cause
