"""What Hudi's calls mean to its table's ledger: one rule a call, a pure function of the state.

An instant that nobody has opened through the shim is older than it, and goes by its names alone. So do
savepoints (they share ``T`` with the commit that they save), the metadata table beneath a table, and log
files below table version 8 (they carry the instant of their base file).

An upgrade or a downgrade gives completed instants other names, round the shim. An instant stays one
completion: whoever removes a completed name of it means that one, whatever it was completed as.

Hudi archives an instant and removes its names. What an arbiter keeps of a removed name (an end mark, a dead
claim, the ballots of a dead writer) says which incarnation comes next. None does once the instant is over,
for the ledger permits nobody to begin it again: then that goes, too. A writer who was paused for so long, and
creates the name all the same, goes no further with it, as where the store itself decides.

The names of the history's files, and of the metadata table, go by the instants in them.

A rollback may have taken what was completed meanwhile for pending, and be left by all: it is open still when
the instant is archived. Then nothing is undone, or whoever goes on with that rollback could remove the data.
Archival removes the pending names of an instant before its completed one; a rollback makes those anew that
are not there. For the same reason nobody goes on with another session's rollback of what is completed.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING

from putifabsent.backends.base import Absent, Creation, Listed
from putifabsent.errors import Fenced, Holder, NameTaken
from putifabsent.shim.formats.hudi import FORMAT, SAVEPOINT, Step, history_in, instant_in, step_of
from putifabsent.shim.formats.hudi_layout import parsed
from putifabsent.shim.ledger.book import Ledger, Native
from putifabsent.shim.ledger.calls import Append, ByName, Commit, Remove, Rule, Todo
from putifabsent.shim.ledger.records import Free, Open, Take, Undo
from putifabsent.shim.requests import Head, List, Protocol, read

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from putifabsent.shim.arbiter import Sighting
    from putifabsent.shim.ledger.facts import Completion, State
    from putifabsent.shim.names import Name
    from putifabsent.shim.policy import Policy

NEWEST = 9
"""The version of the newest tables."""

_FIRST_WITH_LOGS_OF_THEIR_OWN = 8
_PROPERTIES = "hoodie.properties"
_SLICES = ("base", "log")
_NOT_GONE_ON_WITH = "nobody goes on with another session's rollback of that"


@dataclass(frozen=True, slots=True)
class Asker:
    """Who calls."""

    session: str
    token: str  # of the creation, or made for the deletion: the records that it appends are called after it
    # The instants that are known not to be older than the ledger: the session has opened or taken them, or
    # has seen them open in a life that has ended.
    opened: AbstractSet[str]
    path: str  # the name that is created or deleted
    relative: str  # the same from the ledger's root
    frees: str | None = None  # the instant that the plan in a requested rollback names, or None
    archives: bool = False  # whether a completed name goes after the pending ones of its instant

    def fenced(self, reason: str) -> Fenced:
        return Fenced(errno.EPERM, reason, self.path)


def rule_for(asker: Asker, *, deletes: bool, version: int = NEWEST) -> Rule | None:
    """Return the rule of a call; None: the ledger has nothing to do with it.

    It ``deletes`` the name; else it creates it, or writes over it. ``version`` is the table's.
    """
    step = step_of(asker.path)
    if step is None or step.action == SAVEPOINT or is_nobodys(step, version):
        return None
    chosen = _RULES[step.state][deletes]
    return lambda state: chosen(state, step, asker)


def _create_requested(state: State, step: Step, asker: Asker) -> Todo:
    held = state.open.get(step.instant)
    if held is not None and held.token == asker.token:
        return ByName(cached=True)
    made = state.completed(step.instant)
    if held is None and made is not None and is_being_rolled_back(state, step.instant):
        return ByName()  # a completed instant is made to look pending, and then its completed name goes
    if other := held or made:
        raise NameTaken(asker.path, Holder(other.token))
    return Append(Open(step.instant, asker.session, asker.token, step.action, asker.frees))


def _create_inflight(state: State, step: Step, asker: Asker) -> Todo:
    held = state.open.get(step.instant)
    if held is not None and held.session == asker.session:
        return ByName(cached=True)
    if held is not None and asker.session in held.before:
        # It begins anew: nothing that it had written before the rollback does it go on with.
        return Append(Free(step.instant, asker.session, f"{asker.token}-free"))
    if held is not None and held.frees is not None and state.completed(held.frees) is not None:
        raise asker.fenced(f"{held.frees} is completed, and {_NOT_GONE_ON_WITH}: request another")
    if held is not None:
        return Append(Take(step.instant, asker.session, f"{asker.token}-take"))
    if state.completed(step.instant) is not None:
        if is_being_rolled_back(state, step.instant):
            return ByName()  # as its requested name
        raise asker.fenced(f"{step.instant} is completed")
    if _is_given_up(state, step):
        raise asker.fenced(
            f"the rollback {step.instant} was given up, and what it frees is not known any more"
        )
    if step.instant in state.freed:
        return Append(Open(step.instant, asker.session, asker.token, step.action))
    _refuse_removed(state, step, asker)
    return ByName()


def _create_completed(state: State, step: Step, asker: Asker) -> Todo:
    held = state.open.get(step.instant)
    if held is not None or asker.token in state.completions or state.completed(step.instant) is not None:
        return Commit()
    if step.instant in state.freed:
        raise asker.fenced(f"{step.instant} was rolled back")
    if step.instant in asker.opened:
        raise asker.fenced(f"{step.instant} was rolled back, or removed with its table")
    if _was_forgotten(state, step):
        raise asker.fenced(f"{step.instant} is older than all that the ledger remembers ({state.horizon})")
    return ByName()


def _delete_pending(state: State, step: Step, asker: Asker) -> Todo:
    if step.instant in state.open:
        return Append(Free(step.instant, asker.session, f"{asker.token}-free"))
    return ByName()


def _delete_completed(state: State, step: Step, asker: Asker) -> Todo:
    made = state.named(asker.relative) or _made_of(state, step.instant)
    if made is None:
        return Remove(step.instant, None) if state.is_over(step.instant) else ByName()
    is_rolled_back = not asker.archives and is_being_rolled_back(state, step.instant)
    if is_rolled_back and not (made.undone or _rolls_back(state, step.instant, asker.session)):
        raise asker.fenced(f"{step.instant} is completed, and {_NOT_GONE_ON_WITH}: request another")
    if made == state.unpublished and made.name != asker.relative and not is_rolled_back:
        return ByName()  # it may be no name of it, and its own may still be to come
    if not made.undone and (made == state.unpublished or is_rolled_back):
        return Append(Undo(step.instant, asker.session, f"{asker.token}-undo"))
    return Remove(step.instant, made)


def _made_of(state: State, instant: str) -> Completion | None:
    """Return the latest completion of an instant, undone or not: the table has given it another name."""
    found = [each for each in state.completions.values() if each.instant == instant]
    return max(found, key=lambda each: each.number, default=None)


def _create_slice(state: State, step: Step, asker: Asker) -> Todo:
    held = state.open.get(step.instant)
    if held is not None and held.session == asker.session:
        return ByName(cached=True)
    if held is not None:
        raise asker.fenced(f"{step.instant} belongs to session {held.session}")
    if state.knows(step.instant):
        raise asker.fenced(
            f"{step.instant} is completed, or was rolled back; who copies a table copies its .hoodie last"
        )
    _refuse_removed(state, step, asker)
    return ByName(cached=state.is_over(step.instant))


def _delete_slice(state: State, step: Step, asker: Asker) -> Todo:
    if not is_being_rolled_back(state, step.instant):
        return ByName()
    if step.instant in state.open or state.completed(step.instant) is not None:
        wrong = ", ".join(state.rollbacks_of(step.instant))
        raise asker.fenced(f"{step.instant} is no failed instant: rollback {wrong} takes it for one")
    return ByName()


def _was_forgotten(state: State, step: Step) -> bool:
    """Whether an instant is over that a session has had, which forgets it with its process.

    What is older than the ledger nobody has had.
    """
    return state.is_over(step.instant) and step.instant >= state.first


def _refuse_removed(state: State, step: Step, asker: Asker) -> None:
    """Refuse to go on with an instant that was begun in an earlier life of the table."""
    if step.instant in asker.opened and not (state.knows(step.instant) or state.is_over(step.instant)):
        raise asker.fenced(f"the table was removed since {step.instant} was begun")


def is_being_rolled_back(state: State, instant: str) -> bool:
    """Whether a rollback of it is open."""
    return bool(state.rollbacks_of(instant))


def in_the_way(ledger: Ledger, name: Name) -> list[str]:
    """Return the rollbacks that are open of a pending instant, so that nobody can begin it anew."""
    step = step_in(name)
    return list(ledger.state.rollbacks_of(step.instant)) if step is not None and is_pending(name) else []


def strange_to(ledger: Ledger, name: Name) -> list[str]:
    """Return the rollbacks that are open of a slice's completed instant, if this session has no part in any.

    One that has may remove it for a rollback, at any time: each of its tasks asks for itself.
    """
    step, state = step_in(name), ledger.state
    if step is None or step.state not in _SLICES or state.completed(step.instant) is None:
        return []
    return _rollbacks_of_others(state, step.instant, ledger.session)


def left_of_rollbacks(ledger: Ledger, name: Name) -> Protocol[list[str]]:
    """Return the pending names, which may be there still, of rollbacks that nobody may go on with.

    Of one that is given up, or was completed and removed: who removes its names, as a restore does in the
    end, may die before the last one. And of wrong ones: who reads the timeline anew, and goes on with them,
    would undo what is completed.
    """
    step, folder = step_in(name), timeline_of(ledger, name)
    if step is None or folder is None:
        return []
    is_over = _is_given_up(ledger.state, step) or (yield from _was_removed(ledger, step))
    over = [step.instant] if is_over else _wrong(ledger, step) or _others(ledger, step, name)
    return [f"{folder}/{each}.rollback.{state}" for each in over for state in ("inflight", "requested")]


def _was_removed(ledger: Ledger, step: Step) -> Protocol[bool]:
    """Whether the completed name of a rollback was removed, whatever it was called: its body goes first."""
    made = ledger.state.completed(step.instant) if step.action == "rollback" else None
    return made is not None and isinstance((yield from read(Head(ledger.path(made.body)))), Absent)


def _wrong(ledger: Ledger, step: Step) -> list[str]:
    """Return this session's rollbacks that take an instant for a failed one: it is completed, not undone.

    They remove its slices first. They stay open: others of their tasks may be about to.
    """
    if step.state not in _SLICES or ledger.state.completed(step.instant) is None:
        return []
    rollbacks = ledger.state.rollbacks_of(step.instant)
    return [each for each, opened in rollbacks.items() if ledger.session in opened.had]


def _others(ledger: Ledger, step: Step, name: Name) -> list[str]:
    """Return rollbacks of what is completed with which this session has wanted to go on, and can't."""
    state = ledger.state
    opened = state.open.get(step.instant)
    if opened is not None and opened.frees is not None and opened.session != ledger.session:
        return [] if state.completed(opened.frees) is None else [step.instant]
    made = state.completed(step.instant)
    if made is None or ledger.path(made.name) != name.path:
        return []
    return _rollbacks_of_others(state, step.instant, ledger.session)


def _rollbacks_of_others(state: State, instant: str, session: str) -> list[str]:
    """Return an instant's open rollbacks, if the session has had none of them."""
    return [] if _rolls_back(state, instant, session) else list(state.rollbacks_of(instant))


def _rolls_back(state: State, instant: str, session: str) -> bool:
    return any(session in each.had for each in state.rollbacks_of(instant).values())


def _is_given_up(state: State, step: Step) -> bool:
    if step.action != "rollback" or step.instant in state.open or state.completed(step.instant) is not None:
        return False
    return step.instant in state.freed or _was_forgotten(state, step)


def timeline_of(ledger: Ledger, name: Name) -> str | None:
    """Return the folder that an instant's pending names lie in, by one of them, or by its completed one."""
    step = step_in(name)
    if step is None or step.state in ("requested", "inflight", "completed"):
        return name.path.rpartition("/")[0]
    made = ledger.state.completed(step.instant)
    return None if made is None else ledger.path(made.name).rpartition("/")[0]


# What creates a name, and what deletes it.
_RULES: dict[str, tuple[Callable[[State, Step, Asker], Todo], Callable[[State, Step, Asker], Todo]]] = {
    "requested": (_create_requested, _delete_pending),
    "inflight": (_create_inflight, _delete_pending),
    "completed": (_create_completed, _delete_completed),
    "base": (_create_slice, _delete_slice),
    "log": (_create_slice, _delete_slice),
}


# --- what a door must know ------------------------------------------------------------------------------


def step_in(name: Name) -> Step | None:
    """Return which step of which instant a name is, if it is one that a ledger may have a word in."""
    return step_of(name.path) if name.format == FORMAT else None


def is_completed(name: Name) -> bool:
    step = step_in(name)
    return step is not None and step.state == "completed"


def is_pending(name: Name) -> bool:
    step = step_in(name)
    return step is not None and step.state in ("requested", "inflight")


def is_nobodys(step: Step, version: int) -> bool:
    """Whether it is of a log file that instants share, in tables of this version."""
    return step.state == "log" and version < _FIRST_WITH_LOGS_OF_THEIR_OWN


def is_pending_beside(path: str, instant: str) -> Protocol[bool]:
    """Whether a pending name of an instant is there, in the folder of its completed one."""
    listed: Listed = yield from read(List(path.rpartition("/")[0]))
    steps = (step_of(entry.name) for entry in listed.entries)
    pending = (each for each in steps if each and each.state != "completed" and each.action != SAVEPOINT)
    return any(each.instant == instant for each in pending)


def timeline_in(classify: Callable[[str], Name], folder: str) -> Name | None:
    """Return a name of the table whose completed instants lie in ``folder``; None: it is no timeline's."""
    if not folder.endswith(("/.hoodie", "/.hoodie/timeline")) or "/.hoodie/metadata/" in folder:
        return None
    name = classify(f"{folder}/{_PROPERTIES}")
    return name if name.format == FORMAT else None


def version_in(properties: bytes) -> int:
    """Return a table's version; that of the newest tables where the properties don't say it."""
    version = parsed(properties).get("hoodie.table.version", "")
    return int(version) if version.isdecimal() else NEWEST


# --- what an arbiter need not keep ----------------------------------------------------------------------


_METAS = ("", "/metadata/.hoodie")
_FOLDERS = ("", "/timeline", "/timeline/history")


def forget_over(ledger: Ledger, creation: Creation, policy: Policy) -> Protocol[int]:
    """Have the arbiter forget the names of instants that are over, but for those that are there.

    Nobody waits for it: it goes with :func:`putifabsent.shim.ledger.book.prune`. Returns how many names.
    """
    if isinstance(ledger.arbiter, Native) or ledger.name.format != FORMAT:
        return 0
    sighted = []
    for meta in _METAS:
        for folder in (f"{ledger.root}{meta}{each}" for each in _FOLDERS):
            place = policy.classify(f"{folder}/_").state
            found = yield from ledger.arbiter.survey(policy.classify, place, [folder])
            sighted += [(folder, meta == "", each) for each in found]
    # After that: whoever has begun one of them through a mount had opened its instant before.
    state = yield from ledger.current(creation)
    over: dict[str, list[Sighting]] = {}
    for folder, is_the_tables, each in sighted:
        if _is_over(state, each, is_the_tables=is_the_tables):
            over.setdefault(folder, []).append(each)
    forgotten = 0
    for folder, sightings in over.items():
        for name in (yield from _left_in(folder, sightings, policy)):
            if isinstance((yield from ledger.arbiter.find(name, creation)), Absent):
                yield from ledger.arbiter.forget(name, creation)
                forgotten += 1
    return forgotten


def _left_in(folder: str, over: list[Sighting], policy: Policy) -> Protocol[list[Name]]:
    """Return those names in a folder that are not shown, or have ended and still are; one an identity."""
    listed: Listed = yield from read(List(folder))
    shown = {policy.classify(entry.name).identity for entry in listed.entries}
    names = {}
    for each in over:
        name = policy.classify(each.name)
        if name.identity not in shown or (each.key is None and not each.open):
            names[name.identity] = name
    return list(names.values())


def _is_over(state: State, sighting: Sighting, *, is_the_tables: bool) -> bool:
    """Whether nobody begins a name's instant any more.

    It is forgotten: the ledger refuses it. So is each that was decided in an earlier life, and that a ledger
    read later has never heard of, however late its time: a clock was fast. Of the metadata table's own
    instants no ledger hears. What was pending before the ledger began is still completed, by its name.
    """
    instant = instant_of(sighting.name)
    if instant is None or state.knows(instant):
        return False
    is_of_another_life = is_the_tables and bool(state.life) and sighting.key is not None
    return (state.is_over(instant) and instant >= state.first) or is_of_another_life


def instant_of(path: str) -> str | None:
    """Return the instant that a name in a timeline or its history dies with; None: it is of none."""
    if "/.hoodie/" not in path:
        return None
    last = path.rpartition("/")[2]
    history = history_in(last)
    if history is not None:
        return history.last
    step = instant_in(last)
    return None if step is None or step.action == SAVEPOINT else step.instant
