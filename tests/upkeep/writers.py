"""Writers of a table that die at a chosen step: killed on disk, stopped for ever elsewhere."""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import fsspec

# Imported here, so that a writer who is forked need not: it lives for a few requests only.
import putifabsent.backends.dynamodb
import putifabsent.backends.local
import putifabsent.backends.redis
import putifabsent.fsspec_plugin  # noqa: F401
from putifabsent.backends.base import Creation, InMemory
from putifabsent.errors import NameTaken
from putifabsent.testing.deaths import doomed
from tests.stepped import Course, stepped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from putifabsent.backends.base import Store
    from putifabsent.shim.requests import Protocol
    from tests.fsspec_plugin.grounds import Ground

GUARD = "**/name-*"
DEADLINE = 60.0


@dataclass(frozen=True)
class Deed:
    """What a writer does to a name; it pickles.

    Attributes
    ----------
    verb
        ``"create"``, or ``"delete"``.
    ground
        Where.
    path, token
        Of which name, and by which creation.
    """

    verb: str
    ground: Ground
    path: str
    token: str

    def protocol(self) -> Protocol[Any]:
        fs = mounted(self.ground)
        name = fs.policy.classify(self.path)
        creation = Creation(self.token, fs.writer, name.state)
        if self.verb == "delete":
            deletion: Protocol[Any] = fs.decider.delete(name, creation)
            return deletion
        return _created(fs.decider.create(name, InMemory(self.token.encode()), creation))

    def store(self) -> Store:
        return store_of(self.ground)


def _created(protocol: Protocol[Any]) -> Protocol[None]:
    with contextlib.suppress(NameTaken):
        yield from protocol


def mounted(ground: Ground) -> Any:
    return ground.mount(guard=GUARD)


def store_of(ground: Ground) -> Store:
    store: Store = mounted(ground).backend
    return store


class Stopped(BaseException):
    """The writer takes no further step."""


def _stop_before(last: int, taken: list[int], number: int) -> None:
    taken[0] = number
    if number == last:
        raise Stopped


class Writers:
    """Writers that die, each just before one of its steps.

    Parameters
    ----------
    ground
        Their table.
    killed
        Whether they are processes that are killed: a second each, and only on disk.
    """

    def __init__(self, ground: Ground, *, killed: bool = False) -> None:
        self.ground = ground
        self.killed = killed and ground.kind == "local"

    def each_death(self, verb: str, before: Callable[[str], object]) -> list[tuple[str, str]]:
        """Have a writer die at each step, each with a name of its own; return the names and tokens."""
        deaths = []
        with self._doomed() as die:
            alive = f"name-{verb}-alive"
            before(alive)
            steps = die(self.deed(verb, alive), 0)
            for step in range(1, 1 + steps):
                deed = self.deed(verb, f"name-{verb}-{step}")
                before(f"name-{verb}-{step}")
                die(deed, step)
                deaths.append((deed.path, deed.token))
        assert len(deaths) >= 6
        return deaths

    def deed(self, verb: str, last: str) -> Deed:
        return Deed(verb, self.ground, self.ground.name(last), str(uuid.uuid4()))

    @contextlib.contextmanager
    def _doomed(self) -> Iterator[Callable[[Deed, int], int]]:
        if not self.killed:
            yield self._stopped
            return
        with doomed(partial(store_of, self.ground)) as writers:

            def die(deed: Deed, step: int) -> int:
                course = Course(deed.protocol, DEADLINE)
                if not step:
                    return writers.steps(course)
                assert writers.die(course, step) == -9
                return step

            yield die

    def _stopped(self, deed: Deed, step: int) -> int:
        taken = [0]
        with contextlib.suppress(Stopped):
            mounted(self.ground).perform(stepped(deed.protocol(), partial(_stop_before, step, taken)))
        return taken[0]


def all_readers_agree(ground: Ground) -> dict[str, bytes]:
    """Return what a reader who goes round the shim finds, after comparing it with what others find."""
    fs = mounted(fresh(ground))
    plain = {
        name: ground.read(name) for name in ground.around.find(ground.folder) if "/.putifabsent/" not in name
    }
    assert {name: fs.cat_file(name) for name in fs.find(ground.folder)} == plain
    assert all(fs.exists(name) for name in plain)
    return plain


def fresh(ground: Ground) -> Ground:
    fsspec.filesystem(ground.protocol).clear_instance_cache()
    return ground
