"""A real filesystem as the explorer's world: each request is a call of it, from one state to the next.

The state is a value: the files, what stands beside a store (locks, counters, indexes), and the history of
what was committed, which no process sees. The filesystem is the one under test, guarded or not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from putifabsent.errors import NameTaken
from putifabsent.fsspec_plugin import GuardedFileSystem

if TYPE_CHECKING:
    from collections.abc import Hashable

    from fsspec import AbstractFileSystem

    from putifabsent.testing.graph import Actor


@dataclass(frozen=True)
class Done:
    """It happened."""

    def __str__(self) -> str:
        return "done"


@dataclass(frozen=True)
class Taken:
    """Another holds the name: what the guarded filesystem raised."""

    name: str

    def __str__(self) -> str:
        return f"NameTaken: {self.name}"


@dataclass(frozen=True)
class Lost:
    """The connection broke."""

    def __str__(self) -> str:
        return "no answer"


DONE, LOST = Done(), Lost()


class State(NamedTuple):
    """A table and what stands beside it."""

    files: frozenset[tuple[str, bytes]] = frozenset()
    facts: frozenset[tuple[str, Hashable]] = frozenset()
    log: tuple[Any, ...] = ()


@dataclass
class Place:
    """Where requests are made: a filesystem, the services beside it, and who listens to commits."""

    fs: AbstractFileSystem
    root: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    log: list[Any] = field(default_factory=list)

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


class Request:
    """One step of a process."""

    loses: ClassVar[bool] = False

    def at(self, place: Place) -> Any:
        """Make it, and return its outcome."""
        raise NotImplementedError


@dataclass(frozen=True)
class Put(Request):
    """Write a file. Where that commits something, say what."""

    name: str
    data: bytes
    commits: Any = None

    def at(self, place: Place) -> Done | Taken:
        try:
            place.fs.pipe_file(place.root + self.name, self.data)
        except NameTaken:
            return Taken(self.name)
        if self.commits is not None:
            place.log.append(self.commits)
        return DONE

    def __str__(self) -> str:
        return f"put {self.name} {self.data.decode()}"


@dataclass(frozen=True)
class ShakyPut(Put):
    """Write a file over a connection that may break."""

    loses: ClassVar[bool] = True


@dataclass(frozen=True)
class PutAll(Request):
    """Write files that carry a UUID, which nobody else ever names."""

    files: tuple[tuple[str, bytes], ...]

    def at(self, place: Place) -> Done:
        for name, data in self.files:
            place.fs.pipe_file(place.root + name, data)
        return DONE

    def __str__(self) -> str:
        return "put " + ", ".join(f"{name} {data.decode()}" for name, data in self.files)


@dataclass(frozen=True)
class Rename(Request):
    """Move a file, which commits something."""

    source: str
    target: str
    commits: Any

    def at(self, place: Place) -> Done | Taken:
        try:
            place.fs.mv(place.root + self.source, place.root + self.target)
        except NameTaken:
            return Taken(self.target)
        place.log.append(self.commits)
        return DONE

    def __str__(self) -> str:
        return f"rename {self.source} to {self.target}"


@dataclass(frozen=True)
class Remove(Request):
    """Remove files."""

    names: tuple[str, ...]

    def at(self, place: Place) -> Done:
        for name in self.names:
            place.fs.rm_file(place.root + name)
        return DONE

    def __str__(self) -> str:
        return "remove " + ", ".join(self.names)


@dataclass(frozen=True)
class Read(Request):
    """Read a file."""

    name: str

    def at(self, place: Place) -> bytes:
        data: bytes = place.fs.cat_file(place.root + self.name)
        return data

    def __str__(self) -> str:
        return f"read {self.name}"


@dataclass(frozen=True)
class Load(Request):
    """Read all that folders hold, as one step: what the publications call loading the timeline."""

    folders: tuple[str, ...]

    def at(self, place: Place) -> tuple[tuple[str, bytes], ...]:
        return tuple(each for folder in self.folders for each in place.read(folder))

    def __str__(self) -> str:
        return "load " + ", ".join(self.folders)


@dataclass(frozen=True)
class Exists(Request):
    """Look whether a file is there."""

    name: str

    def at(self, place: Place) -> bool:
        found: bool = place.fs.exists(place.root + self.name)
        return found

    def __str__(self) -> str:
        return f"look for {self.name}"


@dataclass(frozen=True)
class Acquire(Request):
    """Try to take a lock, of a service beside the store."""

    lock: str
    owner: str

    def at(self, place: Place) -> bool:
        return bool(place.facts.setdefault(f"lock {self.lock}", self.owner) == self.owner)

    def __str__(self) -> str:
        return f"take the lock of {self.lock}"


@dataclass(frozen=True)
class Release(Request):
    """Give back all locks of one owner."""

    owner: str

    def at(self, place: Place) -> Done:
        for name in [name for name, value in place.facts.items() if value == self.owner]:
            if name.startswith("lock "):
                del place.facts[name]
        return DONE

    def __str__(self) -> str:
        return "give back the lock"


@dataclass(frozen=True)
class Next(Request):
    """Take the next number of a counter, which no two ever share."""

    counter: str

    def at(self, place: Place) -> int:
        number: int = place.facts.get(self.counter, 0) + 1
        place.facts[self.counter] = number
        return number

    def __str__(self) -> str:
        return f"take the next {self.counter}"


@dataclass(frozen=True)
class LookUp(Request):
    """Ask an index."""

    key: str

    def at(self, place: Place) -> Any:
        return place.facts.get(self.key)

    def __str__(self) -> str:
        return f"look up {self.key}"


@dataclass(frozen=True)
class Assign(Request):
    """Set an entry of an index; with ``only_if_free`` not over another value."""

    key: str
    value: Any
    only_if_free: bool

    def at(self, place: Place) -> bool:
        if self.only_if_free and place.facts.get(self.key, self.value) != self.value:
            return False
        place.facts[self.key] = self.value
        return True

    def __str__(self) -> str:
        return f"index {self.key} under {self.value}"


def stock(memory: MemoryFileSystem) -> AbstractFileSystem:
    """Leave the filesystem as it is: it overwrites."""
    return memory


def guarded(memory: MemoryFileSystem) -> AbstractFileSystem:
    """Guard the names that the formats never overwrite."""
    return GuardedFileSystem(fs=memory)


def create_only(memory: MemoryFileSystem) -> AbstractFileSystem:
    """Guard every name, as storage does that knows nothing but PutIfAbsent."""
    return GuardedFileSystem(fs=memory, guard="**")


def with_slices(memory: MemoryFileSystem) -> AbstractFileSystem:
    """Guard what the formats never overwrite, and the data as well."""
    return GuardedFileSystem(fs=memory, guard="/t/data/*")


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

    def after(self, *actors: Actor) -> State:
        """Return the state that processes leave, which run one after the other."""
        place = self._place(self.initial)
        for actor in actors:
            run(actor, place)
        return self._state(place)

    def _state(self, place: Place) -> State:
        files = frozenset((name, file.getvalue()) for name, file in self._memory.store.items())
        return State(files, frozenset(place.facts.items()), tuple(place.log))

    def _place(self, state: State) -> Place:
        self._memory.store.clear()
        for name, data in state.files:
            self._memory.store[name] = MemoryFile(self._memory, name, data)
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

