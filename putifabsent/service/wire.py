"""What goes over the wire: calls, what each of them does, answers, and what an error is called there.

Each call is a POST of one JSON object, to ``/v1/<call>``; a creation's bytes are the body of its POST, and
its fields go into the address. It is parsed by its model, done on a filesystem, answered by a JSON object.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from putifabsent import errors
from putifabsent.fsspec_plugin.remote import Remote
from putifabsent.fsspec_plugin.tower import Begins
from putifabsent.service.mounts import Caller, Mounts, Outside
from putifabsent.shim.ledger.facts import LONGEST_LEASE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from threading import Semaphore

    from putifabsent.clocks import Clock
    from putifabsent.errors import Holder
    from putifabsent.fsspec_plugin import GuardedFileSystem

Address = Annotated[str, Field(min_length=1, max_length=4096)]
Token = Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
TurnName = Annotated[str, Field(pattern=r"^[^/]{1,100}\.[0-9]{1,18}$")]
Seconds = Annotated[float, Field(gt=0, le=LONGEST_LEASE, allow_inf_nan=False)]
MOST_INSTANTS = 1000  # they take a second to become past: no call should keep others waiting for longer


class Call(BaseModel):
    """What every call says: a name, with its scheme, as the caller's filesystem says it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Address


class Admit(Call):
    """Ask whether this name may be written to the store itself, where the writer asks to overwrite or not."""

    overwrite: bool = False


class Creation(Call):
    """Bring this name into being, maybe in a turn of its table, as that was called when it was taken.

    ``token`` is a UUID of this call alone, by which its outcome can be resolved.
    """

    token: Token
    turn: TurnName | None = None


class Create(Creation):
    """Create this name from the body; it is overwritten where its format has a command for that."""

    overwrite: bool = False


class Rename(Creation):
    """Create this name from another object, which goes after a win."""

    source: Address


class Resolve(Call):
    """Ask what became of a creation whose answer was lost."""

    token: Token


class Delete(Call):
    """Free this name, or ``recursive``: all that is below it, if anybody must hear of that."""

    recursive: bool = False


class Instants(Call):
    """Ask for instants, for the table that ``path`` is the folder of."""

    count: int = Field(default=1, ge=1, le=MOST_INSTANTS)


class TakeTurn(Call):
    """Try to take the turn of the table that ``path`` is the folder of."""

    token: Token  # a UUID: the same call again is answered with the same turn
    # What is begun in it, if anything that had better wait for others.
    begins: Literal["insert", "commit", "clustering"] | None = None
    # So many must be completed before a clustering is due; until then it waits for nobody.
    commits: int = Field(default=0, ge=0)
    thread: str = Field(default="", max_length=200)  # which of the session's threads asks
    lease: Seconds = 60.0  # seconds without a sign of life after which others may break it


class BeatTurn(Call):
    """Give a sign of life for a turn, or give it back, by what it was called when it was taken."""

    turn: TurnName


class Failure(NamedTuple):
    """What an error is over the wire: a status of HTTP, a word for clients, what Hadoop's adapter throws."""

    error: type[Exception]
    status: int
    kind: str
    java: str


FAILURES = (
    Failure(errors.NameTaken, 409, "taken", "org.apache.hadoop.fs.FileAlreadyExistsException"),
    Failure(errors.OutcomeUnknown, 504, "unknown", "org.putifabsent.hadoop.OutcomeUnknownException"),
    Failure(errors.Fenced, 403, "fenced", "org.apache.hadoop.security.AccessControlException"),
    Failure(errors.InvalidTransition, 409, "invalid", "java.io.IOException"),
    Failure(errors.Damaging, 422, "damaging", "java.io.IOException"),
    Failure(errors.UnsafeStore, 501, "unsafe", "java.io.IOException"),
    Failure(errors.ConfigError, 400, "config", "java.io.IOException"),
    Failure(errors.PutIfAbsentError, 500, "error", "java.io.IOException"),
    Failure(FileNotFoundError, 404, "absent", "java.io.FileNotFoundException"),
    # Not proven to be another creation's: nobody may take it for a loss.
    Failure(FileExistsError, 400, "exists", "java.io.IOException"),
    Failure(IsADirectoryError, 400, "folder", "org.apache.hadoop.fs.PathIsDirectoryException"),
    Failure(NotADirectoryError, 400, "no_folder", "org.apache.hadoop.fs.ParentNotDirectoryException"),
    Failure(PermissionError, 403, "denied", "org.apache.hadoop.security.AccessControlException"),
    Failure(TimeoutError, 503, "slow", "java.net.SocketTimeoutException"),
    Failure(OSError, 502, "store", "java.io.IOException"),
    Failure(ValueError, 400, "request", "java.io.IOException"),
    Failure(Exception, 500, "internal", "java.io.IOException"),
)
"""Every error there can be; the first that fits counts: an error's class stands before its parents."""


def failed(error: Exception) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of the answer to a call that has raised ``error``."""
    failure = next(each for each in FAILURES if isinstance(error, each.error))
    # An error that is no answer of a store's may hold anything: its class is enough.
    ours = isinstance(error, (OSError, ValueError, errors.PutIfAbsentError))
    message = errors.sentence_of(error) if ours else type(error).__name__
    body: dict[str, Any] = {"error": failure.kind, "message": message}
    if isinstance(error, errors.NameTaken):
        body["holder"] = held_by(error.holder)
    if isinstance(error, errors.OutcomeUnknown):
        body["token"] = error.token
    return failure.status, body


def held_by(holder: Holder | None) -> dict[str, Any] | None:
    """Return a holder as JSON; None: it is not known."""
    if holder is None:
        return None
    created = None if holder.created is None else holder.created.isoformat()
    return {"token": holder.token, "writer": holder.writer, "created": created, "age": holder.age}


def wrong(error: ValidationError, whole: str) -> str:
    """Say which fields, or the ``whole``, are wrong; not what they say, which may be a credential."""
    found = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or whole}: {each['msg']}" for each in found)


# --- what each call does


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

    def shown(self) -> dict[str, bool]:
        """Say so where something is completed that the store does not show before the next turn."""
        return {} if self.remote.is_shown(self.path) else {"shown": False}


class Kind(NamedTuple):
    """A kind of call, and what does it, in a thread; what that raises is an answer, too.

    ``has_body``: bytes come with it, so that the call itself stands in the address.
    """

    model: type[Call]
    do: Callable[[Doing], dict[str, Any]]
    has_body: bool = False


def _names(doing: Doing) -> dict[str, Any]:
    """Say which names need a call at all, in the mount that a path is in."""
    patterns = {fs.policy.pattern for fs in doing.mounts.within(doing.call.path, doing.caller)}
    return {"pattern": "|".join(sorted(patterns)), "largest_body": doing.largest_body}


def _create(doing: Doing) -> dict[str, Any]:
    call: Create = doing.call
    with doing.in_turn():
        guarded = doing.remote.create_as(doing.path, doing.body, call.token, overwrite=call.overwrite)
    return {"guarded": guarded, **doing.shown()}


def _rename(doing: Doing) -> dict[str, Any]:
    fs, source = doing.mounts.find(doing.call.source, doing.caller)
    if fs is not doing.place[0]:
        raise Outside(f"{doing.call.source} lies in another store than {doing.call.path}")
    with doing.in_turn():
        guarded = doing.remote.rename_as(source, doing.path, doing.call.token)
    return {"guarded": guarded, **doing.shown()}


def _resolve(doing: Doing) -> dict[str, Any]:
    holder = held_by(doing.remote.resolve_as(doing.path, doing.call.token))
    return {"holder": holder, **doing.shown()}


def _delete(doing: Doing) -> dict[str, Any]:
    if doing.call.recursive and doing.mounts.is_apart(doing.call.path):
        return {"guarded": False}  # each folder that is removed is asked for
    return {"guarded": doing.remote.removed(doing.path, recursive=doing.call.recursive)}


def _instants(doing: Doing) -> dict[str, Any]:
    # One clock serves all tables; but who may not write there need not wait for it.
    doing.mounts.find(doing.call.path, doing.caller)
    if doing.clock is None:
        raise errors.ConfigError(
            'this service has no clock: name one in its settings, {"clock": {"source": ...}}'
        )
    return {"instants": doing.clock.instants(doing.call.count)}


def _take(doing: Doing) -> dict[str, Any]:
    call: TakeTurn = doing.call
    begins = call.begins and Begins(call.begins == "clustering", call.commits, call.begins == "insert")
    taken = doing.remote.take_turn(
        doing.path, call.token, thread=call.thread, lease=call.lease, begins=begins
    )
    return taken._asdict()


CALLS: Mapping[str, Kind] = {
    "names": Kind(Call, _names),
    "admit": Kind(
        Admit, lambda doing: doing.remote.admit(doing.path, overwrite=doing.call.overwrite)._asdict()
    ),
    "create": Kind(Create, _create, has_body=True),
    "rename": Kind(Rename, _rename),
    "resolve": Kind(Resolve, _resolve),
    "delete": Kind(Delete, _delete),
    "instants": Kind(Instants, _instants),
    "turns/take": Kind(TakeTurn, _take),
    "turns/beat": Kind(BeatTurn, lambda doing: {"held": doing.remote.beat_turn(doing.path, doing.call.turn)}),
    "turns/release": Kind(
        BeatTurn, lambda doing: {"held": doing.remote.release_turn(doing.path, doing.call.turn)}
    ),
}
"""The calls, by the last part of their addresses."""
