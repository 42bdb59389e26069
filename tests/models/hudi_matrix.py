"""Which configurations of Hudi break: what is published, and the schedules that are tried."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.testing.explore import Faults, explore
from tests.models.hudi import DUPLICATE, LOST_WRITE, UNCOMMITTED, ConsistentRead, Control, Rules, Write
from tests.models.storage import FileSystemWorld, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from putifabsent.testing.explore import Explored

OK = "OK"
CONTROLS: tuple[Control, ...] = ("none", "optimistic", "pessimistic")


class Published(NamedTuple):
    """A row of the tables in part 3: its Id there, and its verdict."""

    row: int
    verdict: str


@dataclass(frozen=True)
class Configuration:
    """A configuration, but for the storage."""

    monotonic: bool
    rules: Rules

    def words(self) -> tuple[str, str, str, str]:
        """Return the configuration as the tables say it."""
        return (
            "monotonic" if self.monotonic else "colliding",
            self.rules.control,
            "yes" if self.rules.salted else "no",
            "yes" if self.rules.key_check else "no",
        )

    def published(self, *, put_if_absent: bool) -> Published | None:
        """Return the verdict of part 3: rows 1-4 are "conformant", 5-11 are not; None: not listed."""
        rules = self.rules
        if rules.control == "none":
            return Published(5, LOST_WRITE)
        pessimistic = rules.control == "pessimistic"
        if self.monotonic and not rules.salted:
            row = 1 + 2 * pessimistic
            return Published(row, OK) if rules.key_check else Published(row + 1, DUPLICATE)
        if self.monotonic or not rules.key_check or (put_if_absent and rules.salted):
            return None
        if put_if_absent:
            return Published(8 + pessimistic, OK)
        return Published(10 + pessimistic, OK) if rules.salted else Published(6 + pessimistic, LOST_WRITE)

    def expected(self, *, put_if_absent: bool) -> str:
        """Return the verdict; where none is listed, that which follows from those that are."""
        if (published := self.published(put_if_absent=put_if_absent)) is not None:
            return published.verdict
        if not (self.monotonic or self.rules.salted or put_if_absent):
            return LOST_WRITE
        return OK if self.rules.key_check else DUPLICATE


CONFIGURATIONS = [
    Configuration(monotonic, Rules(control, salted, key_check))
    for monotonic, control in product((True, False), CONTROLS)
    # Of a salt without the key check nothing is published but that it needs concurrency control.
    for salted, key_check in ((False, True), (False, False), (True, True))
]


class Scenario(NamedTuple):
    """Writes that run at once, on a table with or without an earlier commit of ``k1`` at time 1."""

    writes: tuple[Write, ...]
    earlier: bool = False

    def explored(self, rules: Rules, mount: str, judge: Any) -> Explored:
        """Play every schedule of them, and judge every state: whoever is under way may stop there."""
        start = State()
        if self.earlier:
            first = Write("w0", "k1", "first", 1)
            start = FileSystemWorld("stock", start).after(first.actor(rules))
        actors = [write.actor(rules) for write in self.writes]
        return explore(actors, FileSystemWorld(mount, start), judge, Faults(crashes=len(actors)))


def scenarios(*, monotonic: bool, thrice: bool) -> Iterator[Scenario]:
    """Yield what the writers may be about: which keys, file groups and times, and who fails."""
    for w1, w2, earlier in _pairs():
        for times in _times(earlier=earlier, monotonic=monotonic):
            yield Scenario(_at(times, w1, w2), earlier)
    three = (Write("w1", "k1", "by w1", 1), Write("w2", "k2", "by w2", 1), Write("w3", "k1", "by w3", 1))
    if thrice and monotonic:
        yield Scenario(three)
    elif thrice:
        for colliding in ((1, 1, 1), (1, 1, 2), (2, 1, 2)):
            yield Scenario(_at(colliding, *three))


def _at(times: Iterable[int | None], *writes: Write) -> tuple[Write, ...]:
    return tuple(replace(write, time=time) for write, time in zip(writes, times, strict=True))


def _pairs() -> Iterator[tuple[Write, Write, bool]]:
    for key, group, stops in product(("k1", "k2"), (1, 2), (False, True)):
        yield Write("w1", "k1", "by w1", 1, stops=stops), Write("w2", key, "by w2", group), False
    seconds = [Write("w2", key, "by w2", group) for key, group in (("k1", 1), ("k2", 1), ("k2", 2))]
    for value, second in product(("by w1", None), seconds):
        yield Write("w1", "k1", value, 1), second, True
    for group in (1, 2):
        yield Write("w1", "k2", "by w1", group), Write("w2", "k2", "by w2", 2), True


def _times(*, earlier: bool, monotonic: bool) -> tuple[tuple[int | None, int | None], ...]:
    if monotonic:
        return ((None, None),)
    return ((1, 1), (1, 2), (2, 2), (2, 3), (3, 2)) if earlier else ((1, 1), (1, 2), (2, 1))


class Found(NamedTuple):
    """What all schedules of all scenarios have come to."""

    verdict: str
    states: int
    trace: str

    def __str__(self) -> str:
        return f"{self.verdict} ({self.states} states)\n{self.trace}"


def found(configuration: Configuration, mount: str, judge: Any = None) -> Found:
    """Play every schedule, and return the gravest verdict with the shortest schedule that leads to it."""
    states = 0
    worst: dict[str, Explored] = {}
    rules = configuration.rules
    # Three writers multiply the schedules by forty: where the publication has a verdict, and both storages.
    thrice = judge is None and rules.key_check and not rules.salted and mount != "create-only"
    for scenario in scenarios(monotonic=configuration.monotonic, thrice=thrice):
        explored = scenario.explored(rules, mount, judge or ConsistentRead())
        states += explored.states
        if explored.violation is not None:
            kind = explored.violation.partition(":")[0]
            if kind not in worst or len(explored.schedule) < len(worst[kind].schedule):
                worst[kind] = explored
    for kind in (LOST_WRITE, DUPLICATE, UNCOMMITTED, *worst):
        if kind in worst:
            return Found(kind, states, worst[kind].violation or "")
    return Found(OK, states, "")


def table() -> str:
    """Return what is published and found, which is the same, for the documentation."""
    head = (
        "timestamps",
        "concurrency control",
        "salt",
        "key check",
        "without PutIfAbsent",
        "with PutIfAbsent",
    )
    alike: dict[tuple[str, ...], list[Configuration]] = {}
    for each in CONFIGURATIONS:
        clocks, control, *others = each.words()
        controlled = (clocks, "yes", *others)
        alike.setdefault(("any", "no", "any", "any") if control == "none" else controlled, []).append(each)
    rows = [
        (*words, *(_verdict(some, put_if_absent=absent) for absent in (False, True)))
        for words, some in alike.items()
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


def _verdict(configurations: list[Configuration], *, put_if_absent: bool) -> str:
    """Return the one verdict of all of these, and the rows that it has in part 3."""
    [verdict] = {each.expected(put_if_absent=put_if_absent) for each in configurations}
    listed = [each.published(put_if_absent=put_if_absent) for each in configurations]
    numbers = sorted({published.row for published in listed if published})
    return f"{verdict} ({', '.join(map(str, numbers))})" if numbers else verdict
