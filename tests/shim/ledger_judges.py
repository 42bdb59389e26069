"""What a ledger promises, judged by its records alone: read once more here, in the plainest way."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from putifabsent.backends.base import Creation
from putifabsent.errors import Fenced, NameTaken, OutcomeUnknown
from putifabsent.shim.ledger.appending import append
from putifabsent.shim.ledger.book import Lane, Ledger, Native
from putifabsent.shim.ledger.calls import view
from putifabsent.shim.ledger.records import Open, life_in
from putifabsent.shim.requests import Both, Pause

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from putifabsent.shim.ledger.facts import State
    from putifabsent.shim.names import Name
    from putifabsent.testing.explore import ActorRun

WAS = "/was/"
"""Under this the world keeps who created each record first."""


@dataclass
class Story:
    """What happened, record by record.

    Attributes
    ----------
    owners
        Of each open instant.
    made
        COMPLETE records, by token, in their order.
    undone
        Tokens of those that were taken back.
    turn
        The TURN record of the turn that is held.
    lost
        The sessions that had an instant and can't go on with it, with it.
    before
        The table's lives that are over.
    number
        Of the last record.
    wrong
        What must not be.
    """

    owners: dict[str, str] = field(default_factory=dict)
    made: dict[str, dict[str, Any]] = field(default_factory=dict)
    undone: set[str] = field(default_factory=set)
    turn: dict[str, Any] | None = None
    lost: set[tuple[str, str]] = field(default_factory=set)
    before: list[Story] = field(default_factory=list)
    number: int = 0
    wrong: str | None = None

    def tell(self, number: int, said: dict[str, Any]) -> None:
        """Go on by one record."""
        kind = said["kind"]
        if kind in _TELLS:
            _TELLS[kind](self, number, said)

    @property
    def ended(self) -> set[str]:
        """The tokens of completions that have gone with their table."""
        return {token for life in self.before for token in life.made}

    def standing(self) -> list[dict[str, Any]]:
        """Return the completions that were not taken back."""
        return [made for token, made in self.made.items() if token not in self.undone]

    def _open(self, _: int, said: dict[str, Any]) -> None:
        instant, standing = said["instant"], [each["instant"] for each in self.standing()]
        if instant in self.owners or instant in standing:
            self.wrong = f"{instant} was opened twice: {said}"
        self._lose(said["frees"])
        self.owners[instant] = said["session"]
        self.lost.discard((instant, said["session"]))

    def _take(self, _: int, said: dict[str, Any]) -> None:
        instant, session = said["instant"], said["session"]
        if instant not in self.owners or (instant, session) in self.lost:
            self.wrong = f"it was not this session's to take: {said}"
        self._lose(instant)
        self.owners[instant] = session

    def _free(self, _: int, said: dict[str, Any]) -> None:
        self._lose(said["instant"])

    def _lose(self, instant: str) -> None:
        if instant in self.owners:
            self.lost.add((instant, self.owners.pop(instant)))

    def _complete(self, number: int, said: dict[str, Any]) -> None:
        instant, session = said["instant"], said["session"]
        if self.owners.pop(instant, None) is None or (instant, session) in self.lost:
            self.wrong = f"{said['session']} completed what is not its own: {said}"
        held = self.turn and self.turn["number"]
        if said["turn"] != held:
            self.wrong = f"turn {held} is held, and the completion names {said['turn']}: {said}"
        if self.turn is not None and self.turn["session"] != said["session"]:
            self.wrong = f"it was completed in another's turn: {said}"
        self._refuse_another_s(said)
        self.made[said["token"]] = said

    def _undo(self, _: int, said: dict[str, Any]) -> None:
        undone = [made for made in self.made.values() if made["instant"] == said["instant"]]
        self.undone |= {made["token"] for made in undone}
        self.lost |= {(made["instant"], made["session"]) for made in undone}

    def _turn(self, number: int, said: dict[str, Any]) -> None:
        if self.turn is not None:
            self.wrong = f"two have the turn: {self.turn} and {said}"
        self.turn = {**said, "number": number}

    def _release(self, number: int, said: dict[str, Any]) -> None:
        self._refuse_another_s(said)
        self._break(number, said)

    def _break(self, _: int, said: dict[str, Any]) -> None:
        if self.turn is None or self.turn["number"] != said["number"]:
            self.wrong = f"a turn ended that was not held: {said}"
        self.turn = None

    def _refuse_another_s(self, said: dict[str, Any]) -> None:
        """Note what is done in the turn of another thread of the session, where threads have names here."""
        thread = "main" if self.turn is None else self.turn["thread"]
        if thread not in ("main", said["token"].partition("-")[0]):
            self.wrong = f"it was done in the turn of another thread, {thread}: {said}"


_TELLS: dict[str, Callable[[Story, int, dict[str, Any]], None]] = {
    "OPEN": Story._open,
    "TAKE": Story._take,
    "FREE": Story._free,
    "COMPLETE": Story._complete,
    "UNDO": Story._undo,
    "TURN": Story._turn,
    "RELEASE": Story._release,
    "BREAK": Story._break,
}


class Judge:
    """Judges a table.

    Parameters
    ----------
    name
        Any name of it.
    first
        The state from which a reader begins.
    archived
        Instants whose completed name may be gone, though nobody has undone it.
    is_certain
        Whether no answer is lost or late: then nobody may hear of an unknown outcome.
    arbiter
        Decides about records; by default the store itself.
    """

    def __init__(
        self,
        name: Name,
        first: State,
        archived: Collection[str] = (),
        *,
        is_certain: bool = False,
        arbiter: Any = None,
    ) -> None:
        self._name, self._first, self._archived = name, first, archived
        self._is_certain = is_certain
        self._arbiter = arbiter or Native(99)
        self._known: dict[Any, tuple[Story, str | None]] = {}

    def judge(self, world: Any, state: Any, runs: tuple[ActorRun, ...]) -> str | None:
        """Return which promise is broken, or None."""
        if state not in self._known:
            self._known[state] = self._look(world, state)
        story, wrong = self._known[state]
        if self._is_certain and (unknown := _unknown(runs)) is not None:
            return unknown
        return (
            wrong or _contradiction(story, runs) or _gap(self._name, story, runs) or _left(state, story, runs)
        )

    def _look(self, world: Any, state: Any) -> tuple[Story, str | None]:
        things = dict(state)
        lives: dict[str, Story] = {}
        for name in sorted(name for name in things if name.startswith(WAS)):
            life, _, number = name.removeprefix(WAS).rpartition(".")
            story = lives.setdefault(life, Story())
            story.number += 1
            if int(number) != story.number:
                return story, f"record {story.number} of {life} is missing"
            story.tell(story.number, json.loads(things[name].data))
            if story.wrong is not None:
                return story, story.wrong
        story = lives.pop(self.present(things) or "", Story())
        story.before = list(lives.values())
        wrong = self._disagreement(world, state, story) or self._loss(things, story)
        return story, wrong or self._wedge(world, state)

    def present(self, things: dict[str, Any]) -> str | None:
        """Return the table's present life; None: it has none."""
        marker = things.get(f"{self._name.state}/ledger/-life")
        return None if marker is None else life_in(marker.data, "").life

    def _wedge(self, world: Any, state: Any) -> str | None:
        """Whether a session that nobody disturbs can't begin an instant, whatever others have left."""
        ledger = Ledger(self._name, "judge", self._arbiter, Lane("judge"), state=self._first)
        opening = append(ledger, lambda _: Open("z", "judge", "z"), Creation("z", "judge", ""))
        try:
            alone(opening, world, state)
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody could work any more
            return f"nobody can append any more: {error!r}"
        return None

    def _disagreement(self, world: Any, state: Any, story: Story) -> str | None:
        """Whether a reader who knows nothing yet comes to something else."""
        ledger = Ledger(self._name, "judge", self._arbiter, Lane("judge"), state=self._first)
        try:
            found, _ = alone(ledger.current(Creation("judge", "judge", "")), world, state)
        except Exception as error:  # noqa: BLE001 - a reader that can't read is a finding
            return f"a reader without any trouble fails: {error!r}"
        said = (
            {instant: each.session for instant, each in found.open.items()},
            {token: each.undone for token, each in found.completions.items()},
            found.turn and found.turn.number,
        )
        was = (
            story.owners,
            {token: token in story.undone for token in story.made},
            story.turn and story.turn["number"],
        )
        if said != was:
            return f"a reader comes to {said}, and the records say {was}"
        folder = f"{ledger.root}/timeline"
        # What is being removed bit by bit is shown as long as it is there.
        names = [
            name
            for name, thing in state
            if name.rpartition("/")[0] == folder and thing.token not in story.ended
        ]
        gone = {ledger.path(each["name"]) for each in self._over(story)}
        listed = [path for path in shown(ledger, folder, names) if path not in gone]
        meant = sorted({ledger.path(each["name"]) for each in story.standing()} - gone)
        return None if listed == meant else f"the timeline shows {listed}, and {meant} are completed"

    def _loss(self, things: dict[str, Any], story: Story) -> str | None:
        """Whether something of a completion is missing, or other bytes are there."""
        root = self._name.state.rpartition("/")[0]
        for made in story.standing():
            if made in self._over(story):
                continue
            token = made["token"]
            plain, body = things.get(f"{root}/{made['name']}"), things.get(f"{root}/{made['body']}")
            read = plain or body
            if read is None or read.data != token.encode():
                return f"{token} is completed, and its bytes are {read}"
            writes = not made["instant"].startswith("9")  # a rollback has no slice
            if writes and not any(name.endswith(f"_{made['instant']}.parquet") for name in things):
                return f"{token} is completed, and its slice is gone"
        return None

    def _over(self, story: Story) -> list[dict[str, Any]]:
        return [each for each in story.standing() if each["instant"] in self._archived]


def _contradiction(story: Story, runs: tuple[ActorRun, ...]) -> str | None:
    """Whether somebody was told what the records deny."""
    for each in runs:
        if each.ended is None or each.actor.role not in ("commit", "commit_in_a_turn", "go_on"):
            continue
        how, value = each.ended
        made = each.actor.token in story.made
        if how == "returned" and value == "done" and not made and each.actor.token not in story.ended:
            return f"{each.actor.name} was told that it has completed, and no record says so"
        if how == "raised" and made and not _is_unknown(value):
            return f"{each.actor.name} was told {value!r}, and it has completed"
        if how == "raised" and not isinstance(value, (OSError, NameTaken, Fenced)):
            return f"{each.actor.name} ended with {value!r}"
    return None


def _unknown(runs: tuple[ActorRun, ...]) -> str | None:
    """Whether somebody was told that nobody knows, and no answer was lost."""
    for each in runs:
        if each.ended is not None and each.ended[0] == "raised" and isinstance(each.ended[1], OutcomeUnknown):
            return f"{each.actor.name} was told {each.ended[1]!r}, and every request was answered"
    return None


def _gap(name: Name, story: Story, runs: tuple[ActorRun, ...]) -> str | None:
    """Whether a reader saw a completion and not one before it. Where nothing is undone, it can't."""
    lives = [story, *story.before]
    if any(life.undone for life in lives):
        return None
    root = name.state.rpartition("/")[0]
    orders = [[f"{root}/{made['name']}" for made in life.made.values()] for life in lives]
    for each in runs:
        if (
            each.actor.role in ("read", "read_only")
            and each.ended is not None
            and each.ended[0] == "returned"
        ):
            seen = set(each.ended[1])
            if all(seen != set(order[: len(seen)]) for order in orders):
                return f"{each.actor.name} saw {sorted(seen)} of {orders}"
    return None


def _left(state: Any, story: Story, runs: tuple[ActorRun, ...]) -> str | None:
    """Whether a restore, or archiving, that has ended well, or who was refused, has left a plain name."""
    plain = {name: thing.token for name, thing in state if "/timeline/" in name}
    for each in runs:
        how, value = each.ended or ("", Exception())
        if how == "raised" and each.actor.token in plain.values() and not _is_unknown(value):
            return f"{each.actor.name} was told {value!r}, and it is published"
        if each.actor.role == "restore" and each.ended == ("returned", "restored"):
            left = set(plain.values()) & story.undone
            if left:
                return f"{left} was undone, and is published"
        if each.actor.role == "archive" and each.ended == ("returned", "archived"):
            left = {name for name, token in plain.items() if token == "first"}
            if left:
                return f"{left} was archived, and is published"
    return None


def _is_unknown(error: Exception) -> bool:
    return isinstance(error, OutcomeUnknown)


def alone(protocol: Any, world: Any, state: Any) -> tuple[Any, Any]:
    """Run a protocol alone, to its end; return what it returns, and the state after it."""
    try:
        request = next(protocol)
        for _ in range(1000):
            if isinstance(request, Pause):
                outcome: Any = request.attempt < 5
            elif isinstance(request, Both):
                state, first = world.apply(state, request.first)
                state, second = world.apply(state, request.second)
                outcome = first, second
            else:
                state, outcome = world.apply(state, request)
            request = protocol.send(outcome)
    except StopIteration as end:
        return end.value, state
    raise AssertionError("it does not end")


def shown(ledger: Ledger, folder: str, paths: Collection[str]) -> list[str]:
    """Return the names in a folder that a listing shows, of which the plain ones are ``paths``."""
    known = view(ledger, folder)
    every = {*paths, *known.late}
    return sorted(every - known.hidden(every))
