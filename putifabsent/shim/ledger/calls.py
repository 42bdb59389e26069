"""A call on a table's name, after its format's rule: what is appended first, and what is done then.

A rule is a pure function from a state to what is to be done. It is called again after everything that is read
or appended, until it wants no record more.

A listing shows plain names, and what is decided and not published yet, without what is undone and not removed
yet. Read the ledger first, then list the plain names: completions are published in their order, and only the
last one of a state can be unpublished, so nobody sees a completion without those before it.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import dropwhile
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from putifabsent.errors import Fenced, NameTaken, OutcomeUnknown, PutIfAbsentError
from putifabsent.shim.formats.hudi_layout import completed_by
from putifabsent.shim.ledger.appending import about, append
from putifabsent.shim.ledger.completion import complete, remove, settled
from putifabsent.shim.ledger.facts import Completion, State, TurnName
from putifabsent.shim.ledger.records import Free, Open, Record, Take

if TYPE_CHECKING:
    from putifabsent.backends.base import Body, Created, Creation
    from putifabsent.shim.ledger.book import Ledger
    from putifabsent.shim.requests import Protocol

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Append:
    """Append this, and ask again."""

    record: Record


@dataclass(frozen=True, slots=True)
class ByName:
    """Go on by the name alone."""

    cached: bool = False  # whether a state that was read earlier may say so


@dataclass(frozen=True, slots=True)
class Commit:
    """The call is the commit."""


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a completion that is over: its body, then its name."""

    instant: str  # what it has completed
    # The completion; None: its record is forgotten, and the plain name tells where the body is.
    made: Completion | None


Todo: TypeAlias = Append | ByName | Commit | Remove
Rule: TypeAlias = Callable[[State], Todo]
"""What is to be done in a state. It may raise why nothing can be: Fenced, NameTaken."""


def decide(ledger: Ledger, rule: Rule, creation: Creation, *, is_old: bool = False) -> Protocol[Todo]:
    """Append what a rule wants, until it wants no record more; return what is to be done then.

    No request, where the rule wants none and trusts what was read earlier; one that may fail, where that
    ``is_old``. Else it is called on what was listed after the call began. Raises what the rule does, and as
    :func:`~putifabsent.shim.ledger.appending.append`.
    """
    return _showing(ledger, creation, _decided(ledger, rule, creation, is_old=is_old))


def _decided(ledger: Ledger, rule: Rule, creation: Creation, *, is_old: bool) -> Protocol[Todo]:
    while True:
        todo: Todo | None = None
        with contextlib.suppress(PutIfAbsentError):  # the state may be old: a refusal is nothing yet
            todo = rule(ledger.state)
        if isinstance(todo, Commit) or (isinstance(todo, ByName) and todo.cached and not is_old):
            return todo
        if isinstance(todo, ByName) and todo.cached:
            is_old = False
            with contextlib.suppress(OSError):  # a store that lists nothing now has contradicted nobody
                yield from ledger.current(creation)
            continue
        record = todo.record if isinstance(todo, Append) else None
        token = creation.token if record is None else record.token
        if record is not None and token in ledger.state.tokens:
            reason = f"what it appended as {ledger.state.tokens[token]} was taken back by another since"
            raise Fenced(errno.EPERM, reason, ledger.root)
        appended = yield from append(ledger, _draft(rule, token), creation._replace(token=token))
        if appended is None:
            todo = rule(ledger.state)
            if not isinstance(todo, Append):
                return todo
        elif isinstance(record, (Open, Take)):
            ledger.remember([record.instant])


def create(  # noqa: PLR0913 - what a creation takes, and a commit
    ledger: Ledger,
    rule: Rule,
    path: str,
    instant: str,
    body: Body,
    creation: Creation,
    by_name: Callable[[], Protocol[Created]],
    *,
    turn: TurnName | None,
    largest_publish: int,
) -> Protocol[Created]:
    """Create a name of an instant, after its format's rule for this call.

    ``by_name`` creates it by its name alone, or puts it, where that is all that is wanted. ``turn`` is the
    one in which it is completed; None: it is in none, or is no completed name. ``NameTaken``:
    another creation holds the name, or the instant. All else as for
    :func:`~putifabsent.shim.ledger.completion.complete`.
    """
    todo = yield from about(path, creation, decide(ledger, rule, creation))
    if isinstance(todo, Commit):
        committing = complete(
            ledger, path, instant, body, creation, turn=turn, largest_publish=largest_publish
        )
        return (yield from _showing(ledger, creation, committing))
    if turn is not None and turn.life != ledger.state.life:
        # Who was started again since knows of nothing that was begun before.
        raise Fenced(errno.EPERM, f"the table was removed since turn {turn.number} was taken", path)
    try:
        return (yield from by_name())
    except OutcomeUnknown:
        raise
    except Exception:
        held = ledger.state.open.get(instant)
        if held is not None and held.token == creation.token:
            # It was opened by this very call: for a name that is older than the ledger, or was refused.
            with contextlib.suppress(OSError):
                yield from _freed(ledger, instant, creation)
        raise


def _freed(ledger: Ledger, instant: str, creation: Creation) -> Protocol[int | None]:
    """Free an instant again that this creation has opened."""
    token = f"{creation.token}-free"

    def free(state: State) -> Record | None:
        still = state.open.get(instant)
        is_mine = still is not None and still.token == creation.token
        return Free(instant, ledger.session, token) if is_mine else None

    return append(ledger, free, creation._replace(token=token))


def delete(
    ledger: Ledger,
    rule: Rule,
    path: str,
    creation: Creation,
    *,
    rather: Callable[[State], Protocol[Rule | None]] | None = None,
) -> Protocol[bool]:
    """Remove a name of an instant, or allow that one of its slices is removed.

    ``rather`` may say another rule, for a state in which more than that has to be looked at.

    False: it goes by its name alone, which is left to the caller. ``Fenced``: it is not this session's to
    remove. ``OutcomeUnknown``, ``OSError``: it may still be there.
    """
    todo = yield from about(path, creation, decide(ledger, rule, creation))
    other = None if rather is None else (yield from rather(ledger.state))
    if other is not None:
        todo = yield from about(path, creation, decide(ledger, other, creation))
    if not isinstance(todo, Remove):
        return False
    return (yield from remove(ledger, path, todo.instant, todo.made))


def _showing(ledger: Ledger, creation: Creation, call: Protocol[T]) -> Protocol[T]:
    """Make a call; who is refused finds in the store what it was refused for.

    A dead writer may have left that unpublished; who lists the store itself would try again for ever.
    """
    try:
        return (yield from call)
    except (Fenced, NameTaken):
        with contextlib.suppress(OSError, PutIfAbsentError):
            yield from settled(ledger, creation, ledger.state)
        raise


def _draft(rule: Rule, token: str) -> Callable[[State], Record | None]:
    def draft(state: State) -> Record | None:
        todo = rule(state)
        return todo.record if isinstance(todo, Append) and todo.record.token == token else None

    return draft


# --- what a listing shows


class View(NamedTuple):
    """What a ledger says of the names in a folder."""

    folder: str  # full, without a slash at its end
    # Names that are decided, and may not be published yet, with the keys of their bytes.
    late: Mapping[str, str]
    # Names that are decided, and were published before the last one was decided; in that order.
    published: tuple[str, ...]
    undone: frozenset[str]  # names that may still be there, and don't count
    # Those that a rollback has undone and is not done with: no completed name of theirs counts, whichever the
    # table has given them.
    instants: frozenset[str]

    def lacks(self, paths: Collection[str]) -> bool:
        """Whether names are missing among these, which were listed before the ledger was read.

        Those that are archived go in their order.
        """
        newer = dropwhile(lambda path: path not in paths, self.published)
        return any(path not in paths for path in (*newer, *self.late))

    def hidden(self, paths: Collection[str]) -> AbstractSet[str]:
        """Return which of these names don't count."""
        if not self.instants:
            return self.undone.intersection(paths)
        inside = [path for path in paths if path.rpartition("/")[0] == self.folder]
        return {path for path in inside if path in self.undone or completed_by(path) in self.instants}


def view(ledger: Ledger, folder: str) -> View:
    """Return what is known of a folder (without a slash at its end), read before that is listed."""
    latest: dict[str, Completion] = {}
    for each in sorted(ledger.state.completions.values(), key=lambda each: each.number):
        latest[ledger.path(each.name)] = each
    inside = {path: made for path, made in latest.items() if path.rpartition("/")[0] == folder}
    state, late = ledger.state, ledger.state.unpublished
    undone = {made.instant for made in state.completions.values() if made.undone}
    return View(
        folder,
        {path: ledger.path(made.body) for path, made in inside.items() if made == late},
        tuple(path for path, made in inside.items() if made != late and not made.undone),
        frozenset(path for path, made in inside.items() if made.undone),
        frozenset(
            each.frees
            for each in state.open.values()
            if each.frees in undone and state.completed(each.frees) is None
        ),
    )
