"""A ledger over ballots, read by who may not write: what dead writers have left wedges nobody's timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.backends.base import Refused
from putifabsent.shim.arbiter import Balloting
from putifabsent.shim.ledger.book import Lane
from putifabsent.shim.ledger.facts import State
from putifabsent.shim.ledger.records import Open
from putifabsent.shim.requests import Both, Pause, Publish, Put
from putifabsent.testing.imagined import ImaginedStore
from tests.shim.ledger_runs import creation
from tests.shim.ledger_tables import NAME, REAL, SMALL
from tests.shim.ledgers import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from putifabsent.shim.requests import Protocol

NO_RIGHTS = PermissionError("403")


class Bucket:
    """A bucket that honours no condition, with one table's ledger, and who works on it.

    Attributes
    ----------
    sent
        What the last one has asked the store for.
    """

    def __init__(self, p: Any = REAL) -> None:
        self.p = p
        self.world = ImaginedStore(conditions=False)
        self.state: Any = self.world.initial
        self.sent: list[Any] = []

    def session(self, name: str, *, publishes: bool = True) -> Any:
        arbiter, lane = Balloting(SMALL), Lane(f"lane-{name}")
        return self.p.Ledger(NAME, name, arbiter, lane, publishes=publishes, state=State(every=64))

    def opens(self, ledger: Any, instant: str) -> Protocol[Any]:
        """Append an OPEN."""

        def draft(state: State) -> Open | None:
            return Open(instant, ledger.session, ledger.session)

        return self.p.append(ledger, draft, creation(ledger.session))  # type: ignore[no-any-return]

    def play(
        self, protocol: Protocol[Any], *, writes: bool = True, until: Callable[[Any], bool] | None = None
    ) -> Any:
        """Run a protocol to its end; or until it asks for something: then it dies, and that is returned."""
        self.sent = []
        outcome: Any = None
        while True:
            try:
                request = protocol.send(outcome)
            except StopIteration as end:
                return end.value
            if until is not None and until(request):
                protocol.close()
                return request
            outcome = self._outcome(request, writes=writes)

    def _outcome(self, request: Any, *, writes: bool) -> Any:
        if isinstance(request, Pause):
            return request.attempt < 5
        if isinstance(request, Both):
            return self._outcome(request.first, writes=writes), self._outcome(request.second, writes=writes)
        self.sent.append(request)
        if self.world.changes(request) and not writes:
            return Refused(NO_RIGHTS)
        self.state, outcome = self.world.apply(self.state, request)
        return outcome

    def reads(self, ledger: Any) -> Sequence[str]:
        """Return the instants that are open, as somebody sees them who may not write."""
        return sorted(self.play(ledger.current(creation("reading")), writes=False).open)

    def lands(self, request: Any) -> None:
        """Let a request of somebody who is dead land."""
        self.state, _ = self.world.apply(self.state, request)

    def is_published(self, number: int) -> bool:
        return any(name.endswith(f".{number:010}") and "/ledger/" in name for name, _ in self.state)


def is_prepare(request: Any) -> bool:
    """Whether a creator puts the bytes of a record."""
    return isinstance(request, Put) and "/P~" in request.name and request.body.size > 0


def is_ballot(request: Any) -> bool:
    """Whether a ballot begins that carries no bytes: above all others."""
    return isinstance(request, Put) and "/P~" in request.name and request.body.size == 0


def is_accept(request: Any) -> bool:
    """Whether a ballot stands for a value."""
    return isinstance(request, Put) and "/A~" in request.name


def decided_and_not_published(p: Any = REAL) -> tuple[Bucket, Any]:
    """Record 2 is decided, nobody has copied it, and above it somebody has begun a ballot, and died.

    Returns
    -------
    Bucket
        As it is then.
    Ledger
        That of a reader who had read record 2 before the ballot landed.
    """
    bucket = Bucket(p)
    bucket.play(bucket.opens(bucket.session("a"), "1"))
    accept = bucket.play(bucket.opens(bucket.session("b"), "2"), until=is_accept)
    prepare = bucket.play(bucket.opens(bucket.session("c"), "2"), until=is_prepare)
    bucket.lands(prepare)
    bucket.lands(accept)
    ballot = bucket.play(bucket.session("z").current(creation("z")), until=is_ballot)
    bucket.play(bucket.session("d", publishes=False).current(creation("d")))
    reader = bucket.session("early", publishes=False)
    assert bucket.reads(reader) == ["1", "2"]
    bucket.lands(ballot)
    assert not bucket.is_published(2)
    return bucket, reader


def test_who_may_not_write_reads_what_is_proven_where_nobody_has_gone_on() -> None:
    bucket, _ = decided_and_not_published()
    assert bucket.reads(bucket.session("reader", publishes=False)) == ["1"]


def test_who_has_read_a_record_needs_no_proof_of_it_again() -> None:
    bucket, reader = decided_and_not_published()
    assert bucket.reads(reader) == ["1", "2"]


def gone_on(p: Any = REAL) -> Bucket:
    """Return the bucket after another writer has appended record 3."""
    bucket, _ = decided_and_not_published(p)
    bucket.play(bucket.opens(bucket.session("w"), "3"))
    return bucket


def wedged(p: Any = REAL) -> Bucket:
    """Return it where that writer's copy has failed, and a ballot has begun above its own."""
    bucket, _ = decided_and_not_published(p)
    late = bucket.session("zz").current(creation("zz"))
    ballot = bucket.play(late, until=is_ballot)
    bucket.play(bucket.opens(bucket.session("w", publishes=False), "3"))
    bucket.lands(ballot)
    assert not bucket.is_published(2)
    return bucket


def test_a_record_proves_to_who_may_not_write_that_those_below_it_are_decided() -> None:
    bucket = wedged()
    assert bucket.reads(bucket.session("reader", publishes=False)) == ["1", "2", "3"]
    assert not any(bucket.world.changes(each) for each in bucket.sent)


def test_a_writer_publishes_what_it_has_read_and_no_listing_shows_before_it_goes_on() -> None:
    bucket = gone_on()
    assert bucket.is_published(2)
    copies = [number for number, each in enumerate(bucket.sent) if isinstance(each, Publish)]
    own = next(number for number, each in enumerate(bucket.sent) if each == own_prepare(bucket, "w"))
    assert copies[0] < own


def own_prepare(bucket: Bucket, session: str) -> Any:
    """Return the request by which a creator has put the bytes of its record."""
    puts = (each for each in bucket.sent if isinstance(each, Put) and f"~{session}.0" in each.name)
    return next(each for each in puts if each.body.size > 0)


def test_a_reader_publishes_nothing() -> None:
    bucket, _ = decided_and_not_published()
    bucket.play(bucket.session("reader", publishes=False).current(creation("r")))
    assert not any(isinstance(each, Publish) for each in bucket.sent)


MUTANTS = (
    (
        Mutant(
            "what was read is proven again",
            "ledger/book",
            "self.get(last, creation, is_decided=True)",
            "self.get(last, creation)",
            "",
        ),
        lambda p: _read_by(*decided_and_not_published(p)),
    ),
    (
        Mutant(
            "a record above proves nothing",
            "ledger/book",
            "number in numbers, number < last",
            "number in numbers, False",
            "",
        ),
        lambda p: _read_by(wedged(p)),
    ),
    (
        Mutant(
            "a writer publishes nobody else's record",
            "ledger/book",
            "        if self.publishes and not is_listed:",
            "        if False:",
            "",
        ),
        lambda p: gone_on(p).is_published(2),
    ),
)


def _read_by(bucket: Bucket, reader: Any = None) -> bool:
    try:
        return "2" in bucket.reads(reader or bucket.session("reader", publishes=False))
    except OSError:
        return False


@pytest.mark.parametrize(("mutant", "holds"), MUTANTS, ids=[str(mutant) for mutant, _ in MUTANTS])
def test_each_mutant_is_found_out(mutant: Mutant, holds: Callable[[Any], bool]) -> None:
    assert holds(REAL)
    assert not holds(mutant.protocols())
