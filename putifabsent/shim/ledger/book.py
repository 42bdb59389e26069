"""Where a ledger lies, how it is read, and what of it may go.

::

    <root>/.putifabsent/ledger/-life          the marker of the present life, and what it begins with
    <root>/.putifabsent/ledger/<life>.<number>  its records, each created by the mount's arbiter
    <root>/.putifabsent/bodies/<instant>~<token>.<try>
                                              the bytes of completions, before and after they are published
    <root>/.putifabsent/beats/<life>.<number>  a turn's last beat

A ledger lives and dies with its table: whoever removes the table removes the marker, and whoever makes one
there again begins a life of another name, with records of other names. What a session knows of a life that is
over is forgotten as soon as it lists the folder; what it appends to it, nobody reads. So no gap, and nothing
but an absent marker, permits to begin a life.

Listings come in the order of names, and the marker's sorts first: a marker that a listing shows was there
before all else was looked for.

Version 0.1.0 had records ``ledger/<number>`` and no lives. They are read, and end with a MOVE, which it can't
read; then a life begins with what they have come to. Its bodies were called ``<token>.<try>``.

It sees nothing of a life, and would begin records of its own in a table that is new. So there a MOVE is put
first, under a number that it takes for the newest checkpoint's, and where it stops.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.backends.base import STATE_FOLDER, Absent, Body, Holder, InMemory, Refused
from putifabsent.errors import NameTaken, OutcomeUnknown
from putifabsent.shim.create import create as native_create
from putifabsent.shim.ledger.facts import NAMES, Completion, State, TurnName
from putifabsent.shim.ledger.records import Checkpoint, Line, Move, decode, encode, fold, life_in, marker_of
from putifabsent.shim.names import Name, Role
from putifabsent.shim.requests import Create, Get, List, Located, Pause, Protocol, Publish, Put, read, removed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from putifabsent.backends.base import Created, CreateOutcome, Creation, Entry, Got, Listed
    from putifabsent.shim.arbiter import Arbiter, Sighting

_DIGITS = 10
_STOP = 9_999_999_936  # what version 0.1.0 takes for a checkpoint, beyond all that it may have read
_LOOKS_AT_A_GAP = 2
_MARKER = "-life"
_RECORD = re.compile(
    rf"(?P<table>.*?)(?P<hudi>/\.hoodie)?/{re.escape(STATE_FOLDER)}/ledger/"
    rf"({_MARKER}|([^/]+\.)?[0-9]{{{_DIGITS}}})",
    re.DOTALL,
)


class HalfRemoved(OSError):
    """A ledger's marker is there, and records are gone that no checkpoint has made needless."""


@dataclass(frozen=True, slots=True)
class Native:
    """The store itself decides about records; the rest of an arbiter's contract, no ledger asks for."""

    largest_put: int  # ``Store.largest_put``

    def create(self, name: Name, body: Body, creation: Creation) -> Protocol[Created]:
        """One request, and one look more where the number is taken."""
        return native_create(name, body, creation, largest_put=self.largest_put)

    def find(
        self, name: Name, _: Creation, *, helps: bool = True, is_decided: bool = False
    ) -> Protocol[Located | Absent]:
        """Its bytes lie under the plain name, if they do: no request."""
        del helps, is_decided
        yield from ()
        return Located(Holder(None), name.path)

    def forget(self, name: Name, _: Creation) -> Protocol[None]:
        """One request."""
        return removed(name.path)


@dataclass(slots=True)
class Lane:
    """One appender: it appends one record after the other, and is used no more by who was interrupted."""

    name: str  # a UUID
    lives: int = 0  # so many lives it has tried to begin

    def life(self) -> str:
        """Return the name of another life: one that nobody has named before."""
        self.lives += 1
        return f"{self.name}-{self.lives}"


class Watched(NamedTuple):
    """A turn as somebody else has seen it."""

    turn: TurnName
    beat: bytes | None  # its last beat; None: it has shown none
    silent: float  # for so many seconds, by the watcher's own clock, this was seen to be the last
    looked: float  # when it was looked for last


@dataclass(slots=True)
class Ledger:
    """What one session knows of a table's ledger. It is a cache: without it everything is read again.

    It is for one protocol at a time; threads take turns with it, or have one each.
    """

    name: Name  # any name of the table, which shows its root
    session: str  # one process's life of a writer: a UUID that is made when the process begins
    arbiter: Native | Arbiter  # who decides about records: the mount's
    lane: Lane  # what it appends by; no two protocols at a time have the same
    # Whether it publishes the records that it reads and that no listing shows: a writer does, and a reader,
    # who may have no right to, does not.
    publishes: bool = False
    # Finds out whether all mounts of the table let that arbiter decide; run when another life was begun.
    agrees: Callable[[], Protocol[None]] | None = None
    state: State = field(default_factory=State)  # what the records come to, as far as they were read
    # The instants that this session has opened or taken, and all that were open when a life has ended: none
    # of them is older than the ledger.
    opened: set[str] = field(default_factory=set)
    listed: int = 0  # the highest number that a listing has shown
    behind: int = 0  # how many objects the last listing has shown that pruning would remove
    # Whether this session has written a checkpoint since it pruned: others prune where none of these has.
    prunes: bool = False
    # The token of a completion that is known to be under its plain name, or to have been moved from there.
    published: str | None = None
    watched: Watched | None = None  # by this session, which waits for it
    waited_for: Sequence[str] = ()  # what it waits for before it begins an instant, in words
    marker: str | None = None  # the tag by which listings show the marker of the life that was read
    # The tags by which the last listing has shown records.
    shown: Mapping[str, str | None] = field(default_factory=dict)
    begun: int = 0  # the number that the life has begun with: its first record has the next one
    ended: int = 0  # how many lives this session has seen the end of
    agreed: int = 0  # after how many of them it has checked that all mounts agree
    others: int = 0  # how many records it has read, or passed over, that are or may be other sessions'

    @property
    def age(self) -> tuple[int, int]:
        """How much is known: of two of a session, the one with the higher age knows more."""
        return self.ended, self.state.number

    def remember(self, instants: Collection[str]) -> None:
        """Remember that these are not older than the ledger; of very many, the lowest are over by now.

        But for those that are open.
        """
        present = {*instants, *self.state.open}
        self.opened.update(instants)
        if len(self.opened) > 2 * NAMES:
            self.opened.difference_update(sorted(self.opened - present)[:-NAMES])

    def unshown(self, state: State) -> Completion | None:
        """Return what is completed in a state, and was not seen published here."""
        made = state.unpublished
        return None if made is None or made.token == self.published else made

    @property
    def root(self) -> str:
        """The folder from which names in records begin."""
        return self.name.state.rpartition("/")[0]

    @property
    def folder(self) -> str:
        return f"{self.name.state}/ledger"

    @property
    def marker_path(self) -> str:
        return f"{self.folder}/{_MARKER}"

    def path(self, relative: str) -> str:
        """Return the full name of what a record calls by a name from the root."""
        return f"{self.root}/{relative}"

    def relative(self, path: str) -> str:
        """Return a name as records say it, so that a table may be moved."""
        return path.removeprefix(f"{self.root}/")

    @property
    def bodies(self) -> str:
        return f"{self.name.state}/bodies"

    def body(self, instant: str, token: str, tries: int) -> str:
        """Return the key of a completion's bytes; it tells of which instant they are."""
        return f"{self.bodies}/{instant}~{token}.{tries}"

    @property
    def beats(self) -> str:
        """Where the signs of life of those who have turns lie."""
        return f"{self.name.state}/beats"

    def beat(self, turn: TurnName) -> str:
        return f"{self.beats}/{_numbered(*turn)}"

    def record(self, number: int, life: str | None = None) -> Name:
        """Return the name of a record; by default of the life that was read."""
        return self._entry(_numbered(self.state.life if life is None else life, number))

    def _entry(self, last: str) -> Name:
        path = f"{self.folder}/{last}"
        return Name(path, Role.LOG_ENTRY, self.name.format, self.name.table, path, guarded=True)

    def numbers(self, creation: Creation) -> Protocol[set[int]]:
        """List the records of the table's present life.

        Where that is another than was read, all that was known is forgotten. One request; some more where the
        marker is not the one of the last listing. ``HalfRemoved``: the ledger is there, its records are not.
        """
        before = self.shown
        found, life = yield from self._present(creation)
        if life == self.state.life:
            yield from self._leave_another(before, creation)
        numbers = found.get(life, set())
        newest, last = self.newest(numbers), self.state.number
        if newest < last != self.begun and last not in numbers:
            is_decided = not isinstance(self.arbiter, Native) and (
                yield from self.get(last, creation, is_decided=True)
            )
            ended = self.ended
            if not is_decided and not isinstance(self.arbiter, Native):
                # It may have gone since that listing, with its life.
                found, life = yield from self._present(creation)
                numbers = found.get(life, set())
                newest = self.newest(numbers)
            if not is_decided and self.ended == ended:
                raise self._half_removed(last)
        self.listed = max(self.listed, *numbers, 0)
        self.behind = sum(number < newest for number in numbers) if life else 0
        self.behind += sum(len(others) for other, others in found.items() if other not in (life, ""))
        return numbers

    def _present(self, creation: Creation) -> Protocol[tuple[dict[str, set[int]], str]]:
        """List the folder; return the numbers by their lives, and which life is the present one."""
        shown: str | None = None
        missed = 0
        while True:
            listed: Listed = yield from read(List(self.folder))
            marker = next((each for each in listed.entries if is_marker(each.name)), None)
            self.shown = {each.name: each.tag for each in listed.entries}
            found = by_life(each.name for each in listed.entries)
            if marker is None:
                self.marker = None
                life = yield from self._unlisted(found, creation)
                return found, life
            # That of the last listing; or the same before it was read and after.
            if marker.tag is not None and marker.tag in (self.marker, shown):
                self.marker = marker.tag
                return found, self.state.life
            got: Got | Absent = yield from read(Get(marker.name))
            if isinstance(got, Absent):
                missed += 1
                if missed > _LOOKS_AT_A_GAP and not (yield Pause(missed - _LOOKS_AT_A_GAP)):
                    reason = "the store lists the marker of the table's ledger, and has no such object"
                    raise HalfRemoved(errno.EIO, reason, marker.name)
                continue
            base = life_in(got.data, marker.name)
            if base.life != self.state.life:
                self._forget(base)
            if marker.tag is None:
                # Read after the listing: what that has shown of the life is of this one.
                return found, base.life
            shown = marker.tag

    def _leave_another(self, before: Mapping[str, str | None], creation: Creation) -> Protocol[None]:
        """Forget what was read where the last record is another now: an older copy was put in its place."""
        number = self.state.number
        path = self.record(number).path
        was, now = before.get(path), self.shown.get(path)
        if None in (was, now) or was == now:
            return
        line = yield from self.get(number, creation, is_decided=True)
        if line is None or self.state.tokens.get(line.record.token) == number:
            return  # the same bytes, published once more
        got: Got | Absent = yield from read(Get(self.marker_path))
        if not isinstance(got, Absent):
            self._forget(life_in(got.data, self.marker_path))

    def _unlisted(self, found: dict[str, set[int]], creation: Creation) -> Protocol[str]:
        """Return the life whose marker is decided and in no listing, and that has records; empty: none.

        A slow deletion of the marker before may have hidden it; or somebody removes the table round the shim,
        and has not come to what decides about it: who published it then would bring it back. One that has no
        record yet, for its creator has died, is published by whoever wants to begin.
        """
        base = None if isinstance(self.arbiter, Native) else (yield from self._decided(creation))
        if base is not None:
            # Its records may be in no listing either.
            decided = (each.name for each in (yield from self.sighted()) if each.key is not None)
            known = by_life(decided).get(base.life, set())
            is_used = base.life == self.state.life or base.life in found
            if known and not is_used:
                last = self.record(max(known), base.life)
                is_used = not isinstance((yield from self.arbiter.find(last, creation, helps=False)), Absent)
            if is_used:
                if base.life != self.state.life:
                    self._forget(base)
                found[base.life] = found.get(base.life, set()) | known
                return base.life
        if self.state.life or self._is_removed(found.get("", set())):
            self._forget(self.state.unborn())
        return ""

    def sighted(self) -> Protocol[list[Sighting]]:
        """Return what the arbiter knows of the marker and of records, of any life. One request, or some."""
        if isinstance(self.arbiter, Native):
            yield from ()
            return []
        state, folder = self.name.state, self.folder
        survey = self.arbiter.survey(lambda path: self._entry(path.rpartition("/")[2]), state, [folder])
        return (yield from survey)

    def _decided(self, creation: Creation) -> Protocol[State | None]:
        """Return what the life begins with whose marker the arbiter has decided; None: there is none."""
        found = yield from self.arbiter.find(self._entry(_MARKER), creation, helps=False)
        got: Got | Absent = found if isinstance(found, Absent) else (yield from read(Get(found.path)))
        return None if isinstance(got, Absent) else life_in(got.data, self.marker_path)

    def _is_removed(self, flat: set[int]) -> bool:
        last = self.state.number
        return last > 0 and last not in flat and self.newest(flat) < last

    def _forget(self, base: State) -> None:
        self.ended += bool(self.state.life or self.state.number)
        self.remember(self.state.open)
        self.state, self.begun = base, base.number
        self.published = self.watched = None
        self.listed = self.behind = 0

    def _half_removed(self, number: int) -> HalfRemoved:
        reason = (
            f"record {number} of the table's ledger is gone, and the ledger is not: somebody has removed the "
            "table half, or is removing it. Remove the rest; or, while nobody writes, end the ledger by "
            "`putifabsent drop`"
        )
        return HalfRemoved(errno.EIO, reason, self.folder)

    def newest(self, numbers: set[int]) -> int:
        """Return the number of the newest checkpoint among these; 0: there is none."""
        return max((number for number in numbers if number % self.state.every == 0), default=0)

    def get(
        self, number: int, creation: Creation, *, is_decided: bool = False, is_listed: bool = True
    ) -> Protocol[Line | None]:
        """Read one record; None: it is not there (any more).

        ``is_decided``: it was read before, or one above it is there. Where no listing has shown it, its
        creator may have died before it was published, and a writer does that for it, as well as it can be
        done: a ballot that somebody begins and leaves above it would keep readers from proving it, and its
        copy is a proof.
        """
        name = self.record(number)
        found = yield from self.arbiter.find(name, creation, helps=False, is_decided=is_decided)
        if isinstance(found, Absent):
            return None
        got: Got | Absent = yield from read(Get(found.path))
        if isinstance(got, Absent):
            return None
        if self.publishes and not is_listed:
            yield Publish(found.path, name.path, creation)
        return decode(got.data, name.path)

    def look(self, creation: Creation, *, is_again: bool = False) -> Protocol[bool]:
        """Read what is new; return whether nothing was: then the state was the table's when this look began.

        One that has read something can't say so; a record that it has read may have been one that comes too
        late, of a number behind a checkpoint that came meanwhile. ``is_again``: the state as the last look
        left it will do; then what others have appended since is not read, unless a checkpoint is among it.
        """
        ended = self.ended
        numbers = yield from self.numbers(creation)
        before, newest = self.state.number, self.newest(numbers)
        if is_again and self.ended == ended and newest <= before and before + 1 in numbers:
            return True
        if newest > before:
            line = yield from self.get(newest, creation)
            if line is None or not isinstance(line.record, Checkpoint):
                return False
            self.others += newest > before + 1  # whose those between are, is not read
            self._follow(line)
        # Of what others decide, a listing may not show what is decided last.
        last = max(numbers, default=0)
        while (number := self.state.number + 1) in numbers or not isinstance(self.arbiter, Native):
            # Who has appended one has read those below it.
            is_listed, is_decided = number in numbers, number < last
            line = yield from self.get(number, creation, is_decided=is_decided, is_listed=is_listed)
            if line is None:
                break
            self._follow(line)
        if self.ended != ended or self.state.number > before or any(number > before for number in numbers):
            return False
        self.listed = before
        return True

    def _follow(self, line: Line) -> None:
        self.others += line.record.session != self.session
        self.state = fold(self.state, *line)

    def catch_up(self, creation: Creation, *, is_again: bool = False) -> Protocol[bool]:
        """Read what is new, at least something of it; return whether nothing was, as :meth:`look` does."""
        for _ in range(_LOOKS_AT_A_GAP + 1):
            before = self.age
            if (yield from self.look(creation, is_again=is_again)):
                return True
            if self.age > before:
                return False
        raise self._half_removed(self.state.number + 1)

    def current(self, creation: Creation) -> Protocol[State]:
        """Return what the table's state was at some time since this began.

        That of the first look, if the second shows no checkpoint above it: what it has read was not behind
        one. So whoever is slower than the table's writers comes to an end.
        """
        is_again = False
        while not (yield from self.catch_up(creation, is_again=is_again)):
            is_again = True
        return self.state

    def agree(self) -> Protocol[None]:
        """Find out, where another life was begun, whether the mount's arbiter decides in it, too."""
        if self.agreed != self.ended and self.agrees is not None:
            yield from self.agrees()
        self.agreed = self.ended

    def begin(self, creation: Creation) -> Protocol[None]:
        """Try to begin a life with what is known, where a listing has shown no marker; then list again.

        A marker is sent once: one that lands late names a life that nobody has read. So whoever hears no
        answer, and does not find it in a listing, sends one of another name.
        """
        base = replace(self.state, life=self.lane.life(), moved=False)
        creation = creation._replace(token=base.life)
        if not self.state.number:  # else 0.1.0 stops at the MOVE, and would prune all that is below another
            yield from self._make_folder(creation)
        name, body = self._entry(_MARKER), InMemory(marker_of(base))
        if not isinstance(self.arbiter, Native):
            try:
                yield from self.arbiter.create(name, body, creation)
            except NameTaken:
                # Its winner may have died before any listing could show it.
                yield from self.arbiter.find(name, creation)
            except OutcomeUnknown:
                pass
            return
        outcome: CreateOutcome = yield Create(name.path, body, creation)
        if isinstance(outcome, Refused):
            raise outcome.error

    def _make_folder(self, creation: Creation) -> Protocol[None]:
        """Make the ledger's folder, where a store has folders, by what keeps version 0.1.0 from it."""
        stop = InMemory(encode(Move(self.session, creation.token)))
        late = TimeoutError(errno.ETIMEDOUT, "the ledger's folder could not be made in time", self.folder)
        yield from read(Put(self.record(_STOP, "").path, stop, creation), late=lambda _: late)

    def over(self, known: Mapping[str, set[int]]) -> Protocol[list[Name]]:
        """Return the records of lives that are over, which nobody reads any more.

        The marker is read after they were listed: a life that a listing shows, and that is not the marker's
        then, has ended before. ``known`` are more records, listed before, or known to the arbiter then.
        """
        listed: Listed = yield from read(List(self.folder))
        found = by_life(each.name for each in listed.entries)
        lives = (found.keys() | known.keys()) - {"", self.state.life}
        others = {life: found.get(life, set()) | known.get(life, set()) for life in sorted(lives)}
        if not others:
            return []
        got: Got | Absent = yield from read(Get(self.marker_path))
        if isinstance(got, Absent):
            return []
        present = life_in(got.data, self.marker_path).life
        return [
            self.record(number, life)
            for life, numbers in others.items()
            if life != present
            for number in sorted(numbers)
        ]


def _numbered(life: str, number: int) -> str:
    """Return what a record is called in its folder; version 0.1.0 knew of no lives."""
    return f"{life}.{number:0{_DIGITS}}" if life else f"{number:0{_DIGITS}}"


def by_life(names: Iterable[str]) -> dict[str, set[int]]:
    """Return the numbers of the records among these names by their lives; none is 0.1.0's."""
    found: dict[str, set[int]] = {}
    for name in names:
        life, _, number = name.rpartition("/")[2].rpartition(".")
        if number.isdecimal() and (life or int(number) != _STOP):
            found.setdefault(life, set()).add(int(number))
    return found


def is_marker(path: str) -> bool:
    return path.endswith(f"/{_MARKER}")


def record_at(path: str) -> Name | None:
    """Return what a path is, if it is that of a ledger's record or marker; None otherwise."""
    found = _RECORD.fullmatch(path)
    if found is None:
        return None
    format_ = "hudi" if found["hudi"] else None
    return Name(path, Role.LOG_ENTRY, format_, found["table"], path, guarded=True)


# --- what may go


def prune(ledger: Ledger, creation: Creation) -> Protocol[int]:
    """Remove what no writer and no reader needs any more; return how many records.

    Those are records behind the newest checkpoint, lowest number first, and records of lives that are over,
    bodies and beats of what is over; also those of which only an arbiter knows: their writers died before
    anything was shown of them, or they went with a table that was removed round the shim. A number that is
    free again may be won by somebody who comes too late: the newest checkpoint, which tells him so, stays
    always. So do the records of version 0.1.0: behind them a session of that version would begin anew.

    Nobody waits for it: a writer may do it in the background, whenever it has passed a checkpoint.
    """
    # As for bodies: listed before the state is read, so that no turn is taken later of which one was listed.
    beats: Listed = yield from read(List(ledger.beats))
    behind = yield from _behind(ledger, creation)
    for name in behind:
        yield from ledger.arbiter.forget(name, creation)
    bodies = yield from needless_bodies(ledger, creation)
    while bodies:
        yield from removed(bodies.pop(0).name)
    turn = ledger.state.turn_name
    held = None if turn is None else ledger.beat(turn)
    for entry in beats.entries:
        if entry.name != held:
            yield from removed(entry.name)
    return len(behind)


def _behind(ledger: Ledger, creation: Creation) -> Protocol[list[Name]]:
    """Return the records that nobody needs any more, seen or not, the lowest number first."""
    known = by_life(each.name for each in (yield from ledger.sighted()))
    numbers = yield from ledger.numbers(creation)
    life = ledger.state.life
    newest = ledger.newest(numbers) if life else 0
    numbers |= known.pop(life, set())
    ended = yield from ledger.over(known)
    return [*(ledger.record(number, life) for number in sorted(numbers) if number < newest), *ended]


def needless_bodies(ledger: Ledger, creation: Creation) -> Protocol[list[Entry]]:
    """Return the bodies of instants that are over, which nobody needs any more.

    Two requests, where nothing is new. A body's key tells its instant, for nothing else about it tells
    whether its writer was killed or is paused, for however long, before its COMPLETE. An instant that is over
    is never opened again, so nobody completes it; and if it was completed, that was published before the next
    completion was appended, and nobody publishes it any more. The bodies are listed before the state is read:
    a body that is put later may be of another life, in which its instant is not over; and a COMPLETE says in
    which life its body was put. So no clock is read. What a killed writer has left stays as long as the
    ledger remembers its instant.
    """
    listed: Listed = yield from read(List(ledger.bodies))
    state = yield from ledger.current(creation)
    # Version 0.1.0's keys tell of no instant.
    instants = [(each, each.name.rpartition("/")[2].rpartition("~")[0]) for each in listed.entries]
    return [each for each, instant in instants if instant and state.is_over(instant)]
