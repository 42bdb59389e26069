"""What one call sends, arbiter by arbiter: requests as the wire counts them, and how many are waited for.

Nothing here is measured in time. Round trips are read off the protocol: what it asks for at once is one.
"""

from __future__ import annotations

import contextlib
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.arbiter_servers import ARBITERS, BUCKET
from bench.delta_log_store import DeltaLogStore
from putifabsent.backends.base import Creation, InMemory
from putifabsent.errors import NameTaken
from putifabsent.fsspec_plugin.stores import arbiter_of, registry_of
from putifabsent.shim.ballot_state import Accept, Prepare, folder_of, voter_of, written
from putifabsent.shim.drive import run
from putifabsent.shim.ledger.appending import append
from putifabsent.shim.ledger.book import Lane, Ledger, Native
from putifabsent.shim.ledger.records import Open
from putifabsent.shim.policy import Policy
from putifabsent.shim.requests import Now, Pause
from tests.stub import FaultStub, StoredObject

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from bench.arbiter_servers import Far
    from putifabsent.backends.base import Store
    from putifabsent.shim.arbiter import Arbiter
    from putifabsent.shim.ledger.facts import State
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol

    Sent = Counter[str]

__all__ = [
    "CREATION",
    "NUMBERED",
    "RECORD",
    "TAKEN",
    "TAKEN_ABOVE",
    "calls",
    "crowded",
    "delta_calls",
    "round_trips",
]

BODY = b"x" * 1024
GUARDED = ["**/manifest-*"]
LOWEST, HIGHEST = (str(uuid.UUID(int=each)) for each in (0, 2**128 - 1))
CREATION = "a creation"
NUMBERED = "a creation of a numbered name"
TAKEN = "a creation, the name is taken"
# A ballot's order among others is its token's, which is drawn.
TAKEN_ABOVE = "the same, its token above the winner's"
RECORD = "a record in the ledger"
DEADLINE = 60.0


def calls(far: Far, arbiter: str) -> dict[str, Sent]:
    """Return what is sent for each call, on a table of its own."""
    table = f"{BUCKET}/{uuid.uuid4()}"
    log = f"{table}/_delta_log"
    fs = far.mount(arbiter, guard=GUARDED)
    first = far.sent(lambda: fs.pipe_file(f"{table}/manifest-1", BODY))
    made = far.sent(lambda: fs.pipe_file(f"{table}/manifest-2", BODY))
    fs.pipe_file(_entry(log, 0), BODY)
    decides, taken = _decider(far, arbiter, fs.backend), f"{table}/manifest-2"
    one_more = _ledger(decides, fs.explain(f"{table}/.hoodie/timeline/1.commit.requested"))
    run(one_more(1), fs.backend, DEADLINE)
    return {
        CREATION: made,
        "the first one adds": first - made,
        NUMBERED: far.sent(lambda: fs.pipe_file(_entry(log, 1), BODY)),
        TAKEN: far.sent(lambda: _lost(decides, fs, taken, LOWEST)),
        TAKEN_ABOVE: far.sent(lambda: _lost(decides, fs, taken, HIGHEST)),
        "a read": far.sent(lambda: fs.cat_file(taken)),
        "whether it is there": far.sent(lambda: fs.exists(taken)),
        "listing a folder": far.sent(lambda: fs.ls(log, detail=False)),
        "a deletion": far.sent(lambda: fs.rm_file(taken)),
        RECORD: far.sent(lambda: run(one_more(2), fs.backend, DEADLINE)),
    }


def delta_calls(far: Far) -> dict[str, Sent]:
    """Return what Delta's log store sends, if each of its calls is one request."""
    log = DeltaLogStore(far.mount("native").backend, far.registry, f"{BUCKET}/{uuid.uuid4()}/_delta_log")
    log.write(0, BODY)
    return {
        NUMBERED: far.sent(lambda: log.write(1, BODY)),
        TAKEN: far.sent(lambda: _refused(log, 1)),
    }


def round_trips(far: Far, arbiter: str) -> dict[str, int]:
    """Return how many requests of a creation, and of a ledger's record, go out one after another."""
    table = f"{BUCKET}/{uuid.uuid4()}"
    fs = far.mount(arbiter, guard=GUARDED)
    decides = _decider(far, arbiter, fs.backend)

    def waited(path: str, token: str | None = None) -> int:
        name = fs.explain(path)
        return _waited(decides.create(name, InMemory(BODY), _creation(name.state, token)), fs.backend)

    log = f"{table}/_delta_log"
    waited(_entry(log, 0))
    one_more = _ledger(decides, fs.explain(f"{table}/.hoodie/timeline/1.commit.requested"))
    _waited(one_more(1), fs.backend)
    name = f"{table}/manifest-1"
    return {
        CREATION: waited(name),
        NUMBERED: waited(_entry(log, 1)),
        TAKEN: waited(name, LOWEST),
        TAKEN_ABOVE: waited(name, HIGHEST),
        RECORD: _waited(one_more(2), fs.backend),
    }


def crowded(far: Far, names: int) -> dict[str, dict[str, int]]:
    """Return the pages that are listed for each call, in a folder of many names, arbiter by arbiter."""
    found = {}
    for arbiter in ARBITERS:
        log = f"{BUCKET}/{uuid.uuid4()}/_delta_log"
        ballots = arbiter in ("ballot", "redis")
        far.store.call(partial(_fill, log, names, ballots=ballots))
        fs = far.mount(arbiter)
        decides = _decider(far, arbiter, fs.backend)
        acts: dict[str, Callable[[], object]] = {
            "the first creation": partial(fs.pipe_file, _entry(log, names), BODY),
            CREATION: partial(fs.pipe_file, _entry(log, names + 1), BODY),
            TAKEN: partial(_lost, decides, fs, _entry(log, names + 1), LOWEST),
            TAKEN_ABOVE: partial(_lost, decides, fs, _entry(log, names + 1), HIGHEST),
            "a read": partial(fs.cat_file, _entry(log, names // 2)),
            "a creation, the number before it is gone": partial(fs.pipe_file, _entry(log, names + 3), BODY),
        }
        found[arbiter] = {call: far.sent(act)["LIST"] for call, act in acts.items()}
    far.store.call(FaultStub.reset)
    return found


def _entry(log: str, number: int) -> str:
    return f"{log}/{number:020d}.json"


def _lost(decides: Arbiter | Native, fs: Any, path: str, token: str) -> None:
    name = fs.explain(path)
    with contextlib.suppress(NameTaken):
        run(decides.create(name, InMemory(BODY), _creation(name.state, token)), fs.backend, DEADLINE)
        raise AssertionError(f"{path} was created twice")


def _refused(log: DeltaLogStore, number: int) -> None:
    with contextlib.suppress(FileExistsError):
        log.write(number, BODY)
        raise AssertionError(f"{number} was written twice")


def _creation(state: str, token: str | None = None) -> Creation:
    return Creation(token or str(uuid.uuid4()), str(uuid.uuid4()), state)


def _decider(far: Far, arbiter: str, store: Store) -> Arbiter | Native:
    told = far.arbiters[arbiter]
    return arbiter_of(told, registry_of(told), store) or Native(store.largest_put)


def _ledger(decides: Arbiter | Native, name: Name) -> Callable[[int], Protocol[Any]]:
    """Return what appends to a ledger of its own, as one session that reads only what is new to it."""
    ledger = Ledger(name, str(uuid.uuid4()), decides, Lane(str(uuid.uuid4())))

    def one_more(number: int) -> Protocol[Any]:
        creation = _creation(name.state)
        record = Open(f"{number:017}", ledger.session, creation.token, "commit")

        def draft(state: State) -> Open | None:
            return None if state.knows(record.instant) else record

        return append(ledger, draft, creation)

    return one_more


def _waited(protocol: Protocol[Any], store: Store) -> int:
    """Run a protocol, and return how often it waits for an answer: what goes out at once is one."""
    waits = 0

    def noted() -> Protocol[None]:
        nonlocal waits
        with contextlib.suppress(StopIteration, NameTaken):
            request = next(protocol)
            while True:
                waits += not isinstance(request, (Now, Pause))
                request = protocol.send((yield request))

    run(noted(), store, DEADLINE)
    return waits


def _fill(log: str, names: int, stub: FaultStub, *, ballots: bool) -> None:
    """Leave a folder as that many creations have left it, one life each."""
    stub.reset()
    stub.call(lambda state: state.put(BUCKET, "model", BODY))
    model = stub.objects[BUCKET, "model"]
    policy = Policy()
    made: dict[tuple[str, str], StoredObject] = {}
    for number in range(names):
        keys = [_entry(log, number)]
        if ballots:
            keys += _ballot(policy, keys[0])
        made |= {(BUCKET, key.partition("/")[2]): model for key in keys}
    stub.call(lambda state: state.objects.update(made))


def _ballot(policy: Policy, path: str) -> list[str]:
    folder, voter = folder_of(policy.classify(path)), voter_of(str(uuid.uuid4()), 0, 0)
    return [f"{folder}/{written(key)}" for key in (Prepare(1, 0, voter), Accept(1, 0, voter, voter))]
