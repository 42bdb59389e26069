"""No false "exists", no false "won": each request of each arbiter may lose its answer, over a liar.

Whoever decides, a creation's requests to the store go wrong one at a time: each of them, in each way.
"""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

import fsspec
import pytest

from putifabsent import NameTaken, OutcomeUnknown
from tests.stub import Fault, FaultStub, Op, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.usefixtures("pauses_pass_at_once")

MINE, OTHERS = b"mine", b"another's"
SECONDS = {"read_timeout": 0.4, "connect_timeout": 0.4}

BEHIND = "request, behind a success"
LOST = {
    "answer": Step(Fault.DROP_AFTER_APPLY),
    "request": Step(Fault.DROP_BEFORE_APPLY),
    "answer, in time": Step(Fault.TIMEOUT_AFTER_APPLY),
    BEHIND: Step(Fault.OK_WITH_ERROR_BODY),
}


class Table(NamedTuple):
    """A folder on the liar whose mounts agree already; each writer has a mount of its own."""

    liar: FaultStub
    arbiter: str
    folder: str

    def mount(self, **options: Any) -> Any:
        options = {**self.liar.storage_options("s3"), "deadline": 20, **options}
        return fsspec.filesystem("pias3", arbiter=self.arbiter, **options)

    def name(self) -> str:
        return f"{self.folder}/{uuid.uuid4().hex}"

    def steps(self, create: Callable[[], object], how: str = "") -> list[tuple[Op, int]]:
        """Return the requests that a creation sends: each one's operation, and how many of it came before."""
        before = len(self.liar.ops)
        create()
        sent = self.liar.ops[before:]
        # A look has no body: nothing is behind its success.
        looks = Op.HEAD if how == BEHIND else None
        return [(op, sent[:place].count(op)) for place, op in enumerate(sent) if op is not looks]

    def holder(self, name: str) -> tuple[str, bytes]:
        """Return whose a name is, and its bytes, as a later writer and a later reader are told."""
        fs = self.mount()
        with pytest.raises(NameTaken) as taken:
            fs.pipe_file(name, b"a later one's", mode="create")
        assert taken.value.holder is not None
        return str(taken.value.holder.token), fs.cat_file(name)


@pytest.fixture
def table(liar: FaultStub, arbiter: str) -> Iterator[Table]:
    made = Table(liar, arbiter, f"bucket/{uuid.uuid4().hex}")
    made.mount().pipe_file(made.name(), b"first", mode="create")
    yield made
    liar.calm()
    liar.release()


def told(fs: Any, name: str, data: bytes = MINE) -> str:
    """Return what a writer is told: that it won, or whose the name is."""
    try:
        fs.pipe_file(name, data, mode="create")
    except NameTaken as taken:
        return str(taken.holder.token if taken.holder else None)
    return "won"


def _writes(fs: Any, name: str, heard: list[str]) -> None:
    heard.append(told(fs, name))


def lose(liar: FaultStub, step: tuple[Op, int], how: Step, *, forever: bool = False) -> None:
    op, before = step
    liar.script(op, *[None] * before, how, forever=forever)


@pytest.mark.parametrize("how", LOST)
def test_who_is_alone_wins_whatever_is_lost_once(table: Table, how: str) -> None:
    fs = table.mount(config_kwargs=SECONDS)
    for step in table.steps(lambda: fs.pipe_file(table.name(), MINE, mode="create"), how):
        name = table.name()
        lose(table.liar, step, LOST[how])
        assert told(fs, name) == "won", step
        assert table.liar.left() == [], f"{step} was not reached"
        table.liar.release()
        assert table.holder(name)[1] == MINE, step


@pytest.mark.parametrize("how", LOST)
def test_who_is_late_is_told_whose_it_is_whatever_is_lost_once(table: Table, how: str) -> None:
    first, fs = table.mount(), table.mount(config_kwargs=SECONDS)

    def taken() -> str:
        name = table.name()
        first.pipe_file(name, OTHERS, mode="create")
        return name

    known = taken()
    for step in table.steps(lambda: told(fs, known), how):
        name = taken()
        lose(table.liar, step, LOST[how])
        heard = told(fs, name)
        table.liar.calm()
        table.liar.release()
        assert (heard, OTHERS) == table.holder(name), step


@pytest.mark.parametrize("applies", [True, False])
def test_of_two_who_meet_at_any_step_one_wins_and_the_other_is_told_so(table: Table, applies: bool) -> None:
    """The first is held up at a step, whose request was applied or not, while the second comes and goes."""
    first, second = table.mount(), table.mount()
    for op, before in table.steps(lambda: first.pipe_file(table.name(), MINE, mode="create")):
        name = table.name()
        heard: list[str] = []
        arrived = table.liar.ops.count(op) + before + 1
        lose(table.liar, (op, before), Step(Fault.TIMEOUT_AFTER_APPLY, applies=applies))
        writing = threading.Thread(target=_writes, args=(first, name, heard))
        writing.start()
        table.liar.wait_for(op, arrived)
        heard.append(told(second, name, OTHERS))
        table.liar.release()
        writing.join(60)
        of_second, of_first = heard
        token, data = table.holder(name)
        assert sorted((of_first, of_second)) == sorted(("won", token)), (op, before)
        assert data == (MINE if of_first == "won" else OTHERS), (op, before)


def test_who_hears_nothing_more_knows_nothing_and_is_told_the_truth_later(table: Table) -> None:
    patient, fs = table.mount(), table.mount(config_kwargs=SECONDS, deadline=0.3)
    for how in (Step(Fault.DROP_AFTER_APPLY), Step(Fault.DROP_BEFORE_APPLY)):
        for step in table.steps(lambda: patient.pipe_file(table.name(), MINE, mode="create")):
            name = table.name()
            lose(table.liar, step, how, forever=True)
            token = told_at_last(fs, name)
            table.liar.calm()
            if token == "won":
                assert table.holder(name)[1] == MINE, step
            elif token is not None and table.mount().resolve(name, token) is not None:
                assert table.holder(name) == (token, MINE), step


def told_at_last(fs: Any, name: str) -> str | None:
    """Return what a writer is told: that it won, or by which token to ask later; None: that it failed."""
    try:
        fs.pipe_file(name, MINE, mode="create")
    except NameTaken:
        raise
    except OutcomeUnknown as unknown:
        return unknown.token
    except OSError:
        return None
    return "won"
