"""What each call does: parsed by its model, done on a filesystem, answered by a JSON object."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.errors import ConfigError
from putifabsent.fsspec_plugin.remote import Remote
from putifabsent.fsspec_plugin.tower import Begins
from putifabsent.service import wire
from putifabsent.service.mounts import Caller, Mounts, Outside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from threading import Semaphore

    from putifabsent.clocks import Clock
    from putifabsent.fsspec_plugin import GuardedFileSystem


@dataclass(frozen=True)
class Doing:
    """A call that is being done, with the bytes that came with it."""

    call: Any
    body: bytes
    mounts: Mounts
    caller: Caller
    largest_body: int
    clock: Clock | None
    waiters: Semaphore  # counts the calls that may still wait for other writers

    @cached_property
    def place(self) -> tuple[GuardedFileSystem, str]:
        """The filesystem, and the name in it; ``Outside``: there is none."""
        return self.mounts.find(self.call.path, self.caller)

    @property
    def path(self) -> str:
        """The name in the filesystem."""
        return self.place[1]

    @property
    def remote(self) -> Remote:
        """What answers for the filesystem."""
        return Remote(self.place[0], self.waiters)

    def in_turn(self) -> AbstractContextManager[None]:
        """Do the rest in the turn that the caller names."""
        return nullcontext() if self.call.turn is None else self.remote.in_turn(self.path, self.call.turn)


class Kind(NamedTuple):
    """A kind of call, and what does it, in a thread; what that raises is an answer, too.

    ``has_body``: bytes come with it, so that the call itself stands in the address.
    """

    model: type[wire.Call]
    do: Callable[[Doing], dict[str, Any]]
    has_body: bool = False


def _names(doing: Doing) -> dict[str, Any]:
    patterns = {fs.policy.pattern for fs in doing.mounts.within(doing.call.path, doing.caller)}
    return {"pattern": "|".join(sorted(patterns)), "largest_body": doing.largest_body}


def _create(doing: Doing) -> dict[str, Any]:
    call: wire.Create = doing.call
    with doing.in_turn():
        guarded = doing.remote.create_as(doing.path, doing.body, call.token, overwrite=call.overwrite)
    return {"guarded": guarded}


def _rename(doing: Doing) -> dict[str, Any]:
    fs, source = doing.mounts.find(doing.call.source, doing.caller)
    if fs is not doing.place[0]:
        raise Outside(f"{doing.call.source} lies in another store than {doing.call.path}")
    with doing.in_turn():
        return {"guarded": doing.remote.rename_as(source, doing.path, doing.call.token)}


def _delete(doing: Doing) -> dict[str, Any]:
    if doing.call.recursive and doing.mounts.is_apart(doing.call.path):
        return {"guarded": False}  # each folder that is removed is asked for
    return {"guarded": doing.remote.removed(doing.path, recursive=doing.call.recursive)}


def _instants(doing: Doing) -> dict[str, Any]:
    # One clock serves all tables; but who may not write there need not wait for it.
    doing.mounts.find(doing.call.path, doing.caller)
    if doing.clock is None:
        raise ConfigError('this service has no clock: name one in its settings, {"clock": {"source": ...}}')
    return {"instants": doing.clock.instants(doing.call.count)}


def _take(doing: Doing) -> dict[str, Any]:
    call: wire.TakeTurn = doing.call
    begins = call.begins and Begins(call.begins == "clustering", call.commits, call.begins == "insert")
    taken = doing.remote.take_turn(
        doing.path, call.token, thread=call.thread, lease=call.lease, begins=begins
    )
    return taken._asdict()


CALLS: Mapping[str, Kind] = {
    "names": Kind(wire.Names, _names),
    "admit": Kind(
        wire.Admit, lambda doing: doing.remote.admit(doing.path, overwrite=doing.call.overwrite)._asdict()
    ),
    "create": Kind(wire.Create, _create, has_body=True),
    "rename": Kind(wire.Rename, _rename),
    "resolve": Kind(
        wire.Resolve,
        lambda doing: {"holder": wire.held_by(doing.remote.resolve_as(doing.path, doing.call.token))},
    ),
    "delete": Kind(wire.Delete, _delete),
    "instants": Kind(wire.Instants, _instants),
    "turns/take": Kind(wire.TakeTurn, _take),
    "turns/beat": Kind(
        wire.BeatTurn, lambda doing: {"held": doing.remote.beat_turn(doing.path, doing.call.turn)}
    ),
    "turns/release": Kind(
        wire.BeatTurn, lambda doing: {"held": doing.remote.release_turn(doing.path, doing.call.turn)}
    ),
}
"""The calls, by the last part of their addresses."""
