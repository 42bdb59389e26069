"""Where a ledger lies, and how it is read.

::

    <root>/.putifabsent/ledger/0000000001     the records, each created by the mount's arbiter
    <root>/.putifabsent/bodies/<token>.<try>  the bytes of completions, before and after they are published
    <root>/.putifabsent/beats/<number>        a turn's last beat
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.backends.base import STATE_FOLDER, Absent, Deleted, Holder, Refused, Written
from putifabsent.backends.body import InMemory
from putifabsent.shim.create import create as native_create
from putifabsent.shim.ledger.facts import State
from putifabsent.shim.ledger.records import Checkpoint, fold
from putifabsent.shim.ledger.written import FORMAT, READER, decode
from putifabsent.shim.names import Name, Role
from putifabsent.shim.reading import Located, read
from putifabsent.shim.requests import Delete, Get, List, Pause, Put

if TYPE_CHECKING:
    from putifabsent.backends.base import Created, Creation, DeleteOutcome, Got, Listed, PutOutcome
    from putifabsent.backends.body import Body
    from putifabsent.shim.deciding import Arbiter
    from putifabsent.shim.ledger.records import Record
    from putifabsent.shim.requests import Protocol

__all__ = ["Ledger", "Native", "Watched", "record_at", "removed"]

_DIGITS = 10
_RECORD = re.compile(
    rf"(?P<table>.*?)(?P<hudi>/\.hoodie)?/{re.escape(STATE_FOLDER)}/ledger/[0-9]{{{_DIGITS}}}", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Native:
    """The store itself decides about records; the rest of an arbiter's contract, no ledger asks for.

    Attributes
    ----------
    largest_put
        ``Store.largest_put``.
    """

    largest_put: int

    def create(self, name: Name, body: Body, creation: Creation) -> Protocol[Created]:
        """One request, and one look more where the number is taken."""
        return native_create(name, body, creation, largest_put=self.largest_put)

    def find(self, name: Name, _: Creation, *, helps: bool = True) -> Protocol[Located | Absent]:
        """Its bytes lie under the plain name, if they do: no request."""
        del helps
        yield from ()
        return Located(Holder(None), name.path)

    def delete(self, name: Name, _: Creation) -> Protocol[None]:
        """One request."""
        return removed(name.path)


class Watched(NamedTuple):
    """A turn as somebody else has seen it.

    Attributes
    ----------
    number
        Which turn.
    beat
        Its last beat; None: it has shown none.
    since
        By the watcher's own clock, when this was seen first.
    """

    number: int
    beat: bytes | None
    since: float


@dataclass(slots=True)
class Ledger:
    """What one session knows of a table's ledger. It is a cache: without it everything is read again.

    It is for one protocol at a time; threads take turns with it, or have one each.

    Attributes
    ----------
    name
        Any name of the table, which shows its root.
    session
        One process's life of a writer: a UUID that is made when the process begins.
    arbiter
        Who decides about records: the mount's.
    state
        What the records come to, as far as they were read.
    opened
        The instants that this session has opened or taken.
    listed
        The highest number that a listing has shown.
    behind
        How many records the last listing has shown behind a checkpoint: what pruning would remove.
    published
        The token of a completion that is known to be under its plain name.
    watched
        The turn that this session waits for.
    life
        How many ledgers before this one were removed, with their tables.
    """

    name: Name
    session: str
    arbiter: Native | Arbiter
    state: State = field(default_factory=State)
    opened: set[str] = field(default_factory=set)
    listed: int = 0
    behind: int = 0
    published: str | None = None
    watched: Watched | None = None
    life: int = 0

    @property
    def age(self) -> tuple[int, int]:
        """How much is known: of two of a session, the one with the higher age knows more."""
        return self.life, self.state.number

    @property
    def root(self) -> str:
        """The folder from which names in records begin."""
        return self.name.state.rpartition("/")[0]

    @property
    def folder(self) -> str:
        """Where the records lie."""
        return f"{self.name.state}/ledger"

    def path(self, relative: str) -> str:
        """Return the full name of what a record calls by a name from the root."""
        return f"{self.root}/{relative}"

    def relative(self, path: str) -> str:
        """Return a name as records say it, so that a table may be moved."""
        return path.removeprefix(f"{self.root}/")

    def body(self, token: str, tries: int) -> str:
        """Return the key of a completion's bytes."""
        return f"{self.name.state}/bodies/{token}.{tries}"

    def beat(self, number: int) -> str:
        """Return the name of a turn's beat."""
        return f"{self.name.state}/beats/{number:0{_DIGITS}}"

    def record(self, number: int) -> Name:
        """Return the name of a record."""
        path = f"{self.folder}/{number:0{_DIGITS}}"
        table, format_ = self.name.table, self.name.format
        return Name(path, Role.LOG_ENTRY, format_, table, path, guarded=True)

    def numbers(self) -> Protocol[set[int]]:
        """List the records.

        Where the last one that was read is gone, and no checkpoint has come after it, somebody has removed
        the table: what was known of its ledger is forgotten.
        """
        listed: Listed = yield from read(List(self.folder))
        lasts = (entry.name.rpartition("/")[2] for entry in listed.entries)
        numbers = {int(last) for last in lasts if last.isdecimal()}
        newest, last = self.newest(numbers), self.state.number
        if newest < last and last not in numbers and isinstance(self.arbiter, Native):
            self.state = State(every=self.state.every, kept=self.state.kept)
            self.published = self.watched = None
            self.life += 1
            self.listed = 0
        self.listed = max(self.listed, *numbers, 0)
        self.behind = sum(number < newest for number in numbers)
        return numbers

    def newest(self, numbers: set[int]) -> int:
        """Return the number of the newest checkpoint among these; 0: there is none."""
        return max((number for number in numbers if number % self.state.every == 0), default=0)

    def get(self, number: int, creation: Creation) -> Protocol[Record | None]:
        """Read one record; None: it is not there (any more)."""
        name = self.record(number)
        found = yield from self.arbiter.find(name, creation, helps=False)
        if isinstance(found, Absent):
            return None
        got: Got | Absent = yield from read(Get(found.path))
        return None if isinstance(got, Absent) else decode(got.data, name.path)

    def look(self, creation: Creation) -> Protocol[bool]:
        """Read what is new.

        Returns
        -------
        bool
            Whether nothing was: then the state was the table's when this look began. One that has read
            something can't say so; a record that it has read may have been one that comes too late, of
            a number behind a checkpoint that came meanwhile.
        """
        numbers = yield from self.numbers()
        before, newest = self.state.number, self.newest(numbers)
        if newest > before:
            checkpoint = yield from self.get(newest, creation)
            if not isinstance(checkpoint, Checkpoint):
                return False
            self.state = checkpoint.state
        # Of what others decide, a listing may not show what is decided last.
        while self.state.number + 1 in numbers or not isinstance(self.arbiter, Native):
            record = yield from self.get(self.state.number + 1, creation)
            if record is None:
                break
            self.state = fold(self.state, record)
        return self.state.number == before and not any(number > before for number in numbers)

    def catch_up(self, creation: Creation) -> Protocol[bool]:
        """Read what is new, at least something of it; return whether nothing was, as :meth:`look` does."""
        pauses = 0
        while True:
            before = self.state.number
            if (yield from self.look(creation)):
                return True
            if self.state.number > before:
                return False
            pauses += 1
            if not (yield Pause(pauses)):
                raise TimeoutError(errno.ETIMEDOUT, "the ledger could not be read in time", self.folder)

    def current(self, creation: Creation) -> Protocol[State]:
        """Read until nothing is new, and return what the table's state was meanwhile."""
        while not (yield from self.catch_up(creation)):
            pass
        return self.state

    def begin(self, creation: Creation) -> Protocol[None]:
        """Make the ledger's folder, where a store has folders, by saying in it who may read it."""
        note = InMemory(b'{"format":%d,"reader":%d}' % (FORMAT, READER))
        pauses = 0
        while True:
            outcome: PutOutcome = yield Put(f"{self.folder}/format", note, creation)
            if isinstance(outcome, Written):
                return
            pauses += 1
            if isinstance(outcome, Refused):
                raise outcome.error
            if not (yield Pause(pauses)):
                reason = "the ledger's folder could not be made in time"
                raise TimeoutError(errno.ETIMEDOUT, reason, self.folder) from outcome.cause


def removed(path: str, version: str | None = None) -> Protocol[None]:
    """Remove an object of the ledger's own, until that is certain."""
    pauses = 0
    while True:
        outcome: DeleteOutcome = yield Delete(path, version)
        if isinstance(outcome, Deleted):
            return
        pauses += 1
        if isinstance(outcome, Refused):
            raise outcome.error
        if not (yield Pause(pauses)):
            raise TimeoutError(errno.ETIMEDOUT, "it could not be removed in time", path) from outcome.cause


def record_at(path: str) -> Name | None:
    """Return what a path is, if it is that of a ledger's record; None otherwise."""
    found = _RECORD.fullmatch(path)
    if found is None:
        return None
    format_ = "hudi" if found["hudi"] else None
    return Name(path, Role.LOG_ENTRY, format_, found["table"], path, guarded=True)
