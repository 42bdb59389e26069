"""A real filesystem as the explorer's world: each request is a call of it, from one state to the next.

The state is a value: the files, what stands beside a store (locks, counters, indexes), and the history of
what was committed, which no process sees. The filesystem is the one under test, guarded or not.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from putifabsent.fsspec_plugin import GuardedFileSystem
from tests.models.requests import LOST

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from fsspec import AbstractFileSystem

    from putifabsent.testing.explore import Actor
    from tests.models.requests import Request


class State(NamedTuple):
    """A table and what stands beside it."""

    files: frozenset[tuple[str, bytes]] = frozenset()
    facts: frozenset[tuple[str, Hashable]] = frozenset()
    log: tuple[Any, ...] = ()


@dataclass
class Place:
    """Where requests are made: a filesystem, the services beside it, and who listens to commits.

    Each writer may have a filesystem of its own, over the same files.
    """

    fs: AbstractFileSystem
    root: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    log: list[Any] = field(default_factory=list)
    mount: Callable[[str], AbstractFileSystem] | None = None

    def of(self, writer: str) -> Place:
        """Return the place as one writer has it."""
        return self if self.mount is None else replace(self, fs=self.mount(writer))

    def read(self, folder: str) -> tuple[tuple[str, bytes], ...]:
        """Return the files of a folder, in the order of their names."""
        try:
            listed = self.fs.ls(self.root + folder, detail=False)
        except FileNotFoundError:
            return ()
        return tuple((name[len(self.root) :], self.fs.cat_file(name)) for name in sorted(listed))

    def files(self) -> dict[str, bytes]:
        """Return all files."""
        found = self.fs.find(self.root or "/")
        return {name[len(self.root) :]: self.fs.cat_file(name) for name in found}


def stock(memory: MemoryFileSystem) -> AbstractFileSystem:
    """Leave the filesystem as it is: it overwrites."""
    return memory


def guarded(memory: MemoryFileSystem) -> AbstractFileSystem:
    """Guard the names that the formats never overwrite, each by itself: no ledger has a word in it."""
    return GuardedFileSystem(fs=memory, formats=["paimon"], guard=INSTANTS)


def create_only(memory: MemoryFileSystem) -> AbstractFileSystem:
    """Guard every name, as storage does that knows nothing but PutIfAbsent."""
    return GuardedFileSystem(fs=memory, formats="none", guard="**")


def with_slices(memory: MemoryFileSystem) -> AbstractFileSystem:
    """Guard what the formats never overwrite, and the data as well."""
    return GuardedFileSystem(fs=memory, formats=["paimon"], guard=[*INSTANTS, "/t/data/*"])


def whole(memory: MemoryFileSystem, writer: str) -> AbstractFileSystem:
    """Guard as every mount does, for one of several writers: Hudi's instants have owners."""
    return GuardedFileSystem(fs=memory, writer_session=writer)


INSTANTS = ["**/.hoodie/*.requested", "**/.hoodie/*.commit"]
MOUNTS = {"stock": stock, "guarded": guarded, "create-only": create_only, "guarded with slices": with_slices}


def own_memory() -> MemoryFileSystem:
    """Return a memory filesystem whose files are its own: fsspec's are the whole process's."""
    memory = MemoryFileSystem(skip_instance_cache=True)
    memory.store, memory.pseudo_dirs = {}, [""]
    return memory


class FileSystemWorld:
    """What requests are applied to: a memory filesystem, given the files of a state each time."""

    def __init__(self, mount: str, initial: State) -> None:
        self.initial = initial
        self._memory = own_memory()
        self._made: dict[tuple[str, bytes], MemoryFile] = {}
        self._fs = MOUNTS[mount](self._memory)

    def apply(self, state: State, request: Request) -> tuple[State, Any]:
        """Return the state after a request, and its outcome."""
        place = self._place(state)
        outcome = request.at(place)
        return self._state(place), outcome

    def unanswered(self, request: Request) -> Any:
        """Return what a process makes of a broken connection, where the model has one."""
        return LOST if request.loses else None

    def changes(self, request: Request) -> bool:
        """Return false: nothing is applied late here."""
        return False

    def begun(self, state: State, request: Request) -> None:
        """Leave nothing: nothing is applied late here."""

    def after(self, *actors: Actor) -> State:
        """Return the state that processes leave, which run one after the other."""
        place = self._place(self.initial)
        for actor in actors:
            run(actor, place)
        return self._state(place)

    def _state(self, place: Place) -> State:
        files = frozenset((name, file.getvalue()) for name, file in self._memory.store.items())
        return State(files, frozenset(place.facts.items()), tuple(place.log))

    def _file(self, name: str, data: bytes) -> MemoryFile:
        # Made once: a file here is replaced, never changed.
        if (name, data) not in self._made:
            self._made[name, data] = MemoryFile(self._memory, name, data)
        return self._made[name, data]

    def _place(self, state: State) -> Place:
        self._memory.store.clear()
        self._memory.store.update((name, self._file(name, data)) for name, data in state.files)
        return Place(self._fs, "", dict(state.facts), list(state.log))


def run(actor: Actor, place: Place) -> Any:
    """Let one process do all its work."""
    process = actor.make()
    try:
        request = next(process)
        while True:
            request = process.send(request.at(place))
    except StopIteration as end:
        return end.value
