"""The cases of each file: which verb, in which colour, on which name, in which state."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from tests.golden.verbs import BODY, CREATING, FOLDERS, LARGE, MANY, READING, REMOVING
from tests.golden.wording import error_line, normal, value_line
from tests.golden.worlds import ALWAYS, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.golden.verbs import Verb

STORES = {
    "s3": ("native", "ballot", "dynamodb", "redis"),
    "memory": ("native", "ballot", "dynamodb"),
    "local": ("native",),
}
FILES = tuple(f"{store}-{arbiter}" for store, arbiters in STORES.items() for arbiter in arbiters)

_NAMES = {"guarded": "t/_delta_log/00000000000000000000.json", "ordinary": "t/data/name"}
_LOSSES = {"lost": 1, "unknown": ALWAYS}


def text_of(file: str) -> str:
    """Return what a file must say."""
    store, arbiter = file.split("-")
    with World(store, arbiter) as world:
        return grouped(Cases(world).sections())


def grouped(sections: Iterator[tuple[str, tuple[str, ...]]]) -> str:
    """Return the text of sections: those that say the same stand as one, at the first of their places."""
    titles: dict[tuple[str, ...], list[str]] = {}
    for title, lines in sections:
        titles.setdefault(lines, []).append(title)
    return "\n".join(
        f"== {' | '.join(each)}\n" + "".join(f"{line}\n" for line in lines) for lines, each in titles.items()
    )


class Cases:
    """Runs the verbs in a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._folder = world.ground.folder
        (world.disk / "log").mkdir(parents=True)
        (world.disk / "file").write_bytes(BODY)
        for number in range(2):
            (world.disk / "log" / f"{number:020d}.json").write_bytes(BODY)
            world.ground.put(f"t/log/{number:020d}.json", BODY)
        world.ground.put("t/source", BODY)
        world.ground.put("t/large", LARGE)
        for name in _NAMES.values():
            world.ground.put(f"{name.rpartition('/')[0]}/beside", BODY)
        self._restore: dict[tuple[str, str], Callable[[], None]] = {}
        self._mounts: dict[str, Any] = {}

    def sections(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Return each verb on each kind of name, with the lines of its states."""
        world = self._world
        base = world.snapshot()
        self._mounts = {
            "sync": world.mount("mine"),
            "async": world.mount("mine", asynchronous=True),
        }
        for kind in _NAMES:
            self._restore[kind, "first"] = base
            yield self._verb(
                "first pipe_file create of a mount", CREATING["pipe_file create"], kind, ("first",)
            )
        another = world.mount("another")
        for kind, name in _NAMES.items():
            base()
            self._restore |= dict.fromkeys([(kind, "free"), (kind, "lost"), (kind, "unknown")], base)
            another.pipe_file(f"{self._folder}/{name}", BODY, mode="create")
            self._restore[kind, "there"] = world.snapshot()
            world.ground.remove(name)
            self._restore[kind, "unpublished"] = world.snapshot()
        absent = ("there", "free") if world.arbiter == "native" else ("there", "free", "unpublished")
        for label, verb in CREATING.items():
            yield self._verb(label, verb, "guarded", ("free", "there", "lost", "unknown"))
            explicit = "create" in label or "xb" in label
            yield self._verb(
                label,
                verb,
                "ordinary",
                ("free", "there", "lost", "unknown") if explicit else ("free", "there"),
            )
        for label, verb in MANY.items():
            yield self._verb(label, verb, "guarded", ("free", "there", "unknown"))
        for label, verb in {**REMOVING, **READING}.items():
            yield self._verb(label, verb, "guarded", absent)
            yield self._verb(label, verb, "ordinary", ("there", "free"))
        for label, verb in FOLDERS.items():
            yield self._verb(label, verb, "ordinary", ("free",))

    def _verb(
        self, label: str, verb: Verb, kind: str, states: tuple[str, ...]
    ) -> tuple[str, tuple[str, ...]]:
        section: list[str] = []
        for state in states:
            found: dict[str, list[str]] = {}
            for colour in verb.colours:
                found[colour] = self._ran(verb, colour, kind, state)
            if len(found) == 2 and found["sync"] == found["async"]:
                found = {"sync, async": found["sync"]}
            for colours, lines in found.items():
                section += [f"-- {state}: {colours}", *(f"   {line}" for line in lines)]
        return f"{label}, {kind}", tuple(section)

    def _ran(self, verb: Verb, colour: str, kind: str, state: str) -> list[str]:
        world, fs = self._world, self._mounts[colour]
        self._restore[kind, state]()
        got = world.disk / "got"
        shutil.rmtree(got) if got.is_dir() else got.unlink(missing_ok=True)
        name = f"{self._folder}/{_NAMES[kind]}"
        at = {last: f"{self._folder}/t/{last}" for last in ("source", "large", "log", "away")}
        fill = {"name": name, "folder": name.rpartition("/")[0], "disk": str(world.disk), **at}
        world.record.begin(_LOSSES.get(state, 0))
        try:
            outcome = verb.sync(fs, fill) if colour == "sync" else world.run(verb.asynchronous(fs, fill))
            end = value_line(outcome)
        except Exception as error:  # noqa: BLE001 - an error is an answer, too
            end = error_line(error)
        world.record.on = False
        disk = [line.replace(str(world.disk), "<disk>") for line in (*world.record.lines, end)]
        return normal(disk, self._folder)
