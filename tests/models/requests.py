"""What the writers ask for: calls of a filesystem, and of the services that stand beside one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from putifabsent.errors import Fenced, NameTaken

if TYPE_CHECKING:
    from tests.models.storage import Place


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
class Stopped:
    """The instant is not this writer's: what the guarded filesystem raised."""

    name: str

    def __str__(self) -> str:
        return f"Fenced: {self.name}"


@dataclass(frozen=True)
class Lost:
    """The connection broke."""

    def __str__(self) -> str:
        return "no answer"


DONE, LOST = Done(), Lost()


@dataclass(frozen=True)
class Files:
    """What a folder holds."""

    files: tuple[tuple[str, bytes], ...]

    def __str__(self) -> str:
        return ", ".join(name.rpartition("/")[2] for name, _ in self.files) or "nothing"


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

    def at(self, place: Place) -> Done | Taken | Stopped:
        try:
            place.fs.pipe_file(place.root + self.name, self.data)
        except NameTaken:
            return Taken(self.name)
        except Fenced:
            return Stopped(self.name)
        if self.commits is not None:
            place.log.append(self.commits)
        return DONE

    def __str__(self) -> str:
        return f"put {self.name} {self.data.decode()}".rstrip()


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
    """Read all that a folder holds, as one step: what the publication calls loading the timeline."""

    folder: str

    def at(self, place: Place) -> Files:
        return Files(place.read(self.folder))

    def __str__(self) -> str:
        return f"load {self.folder}"


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
