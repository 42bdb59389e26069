"""What one call sends, arbiter by arbiter: requests as the wire counts them, and how many are waited for.

Nothing here is measured in time. Round trips are read off the protocol: what it asks for at once is one.
"""

from __future__ import annotations

import contextlib
import uuid
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.arbiter_servers import ARBITERS, BUCKET
from bench.delta_log_store import DeltaLogStore
from putifabsent.backends.base import Creation
from putifabsent.backends.body import InMemory
from putifabsent.errors import NameTaken
from putifabsent.fsspec_plugin.deciders import arbiter_of, registry_of
from putifabsent.shim.drive import run
from putifabsent.shim.ledger.appending import append
from putifabsent.shim.ledger.book import Ledger, Native
from putifabsent.shim.ledger.records import Open
from putifabsent.shim.requests import Now, Pause
from putifabsent.shim.scenes import Accept, Prepare, folder_of, voter_of, written
from tests.stub.state import StoredObject

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.arbiter_servers import Far
    from putifabsent.shim.ledger.facts import State
    from putifabsent.shim.policy import Policy
    from putifabsent.shim.requests import Protocol
    from tests.stub import FaultStub

    Sent = Counter[str]
    Trips = Callable[[Protocol[Any]], Protocol[Any]]

__all__ = ["CROWD", "calls", "crowded", "delta_calls", "round_trips"]

CROWD = 100_000
BODY = b"x" * 1024
GUARDED = ["**/manifest-*"]
DEADLINE = 60.0


def calls(far: Far, arbiter: str) -> dict[str, Sent]:
    """Return what is sent for each call, on a table of its own."""
    table = f"{BUCKET}/{uuid.uuid4()}"
    log = f"{table}/_delta_log"
    fs = far.mount(arbiter, guard=GUARDED)
    first = far.sent(lambda: fs.pipe_file(f"{table}/manifest-1", BODY))
    made = far.sent(lambda: fs.pipe_file(f"{table}/manifest-2", BODY))
    fs.pipe_file(_entry(log, 0), BODY)
    return {
        "a creation": made,
        "the first one adds": first - made,
        "a creation of a numbered name": far.sent(lambda: fs.pipe_file(_entry(log, 1), BODY)),
        "a creation, the name is taken": far.sent(lambda: _lost(fs, f"{table}/manifest-2")),
        "a read": far.sent(lambda: fs.cat_file(f"{table}/manifest-2")),
        "whether it is there": far.sent(lambda: fs.exists(f"{table}/manifest-2")),
        "listing a folder": far.sent(lambda: fs.ls(log, detail=False)),
        "a deletion": far.sent(lambda: fs.rm_file(f"{table}/manifest-2")),
        "a record in the ledger": _appended(far, fs, f"{BUCKET}/{uuid.uuid4()}"),
    }


def delta_calls(far: Far) -> dict[str, Sent]:
    """Return what Delta's log store sends, if each of its calls is one request."""
    log = DeltaLogStore(far.mount("native").store, far.registry, f"{BUCKET}/{uuid.uuid4()}/_delta_log")
    log.write(0, BODY)
    return {
        "a creation of a numbered name": far.sent(lambda: log.write(1, BODY)),
        "a creation, the name is taken": far.sent(lambda: _refused(log, 1)),
    }


def round_trips(far: Far) -> dict[str, int]:
    """Return how many requests of a creation, or of a ledger's record, wait for an answer before them."""
    found = {}
    for arbiter in ARBITERS:
        fs = far.mount(arbiter, guard=GUARDED)
        told = far.arbiters[arbiter]
        decides = arbiter_of(told, registry_of(told), fs.store) or Native(fs.store.largest_put)
        name = fs.explain(f"{BUCKET}/{uuid.uuid4()}/manifest")
        waited: list[object] = []
        protocol = decides.create(name, InMemory(BODY), _creation(name.state))
        run(_noted(protocol, waited), fs.store, DEADLINE)
        found[arbiter] = len(waited)
    return found


def crowded(far: Far, names: int = CROWD) -> dict[str, dict[str, int]]:
    """Return the pages that are listed for each call, in a folder of many names, arbiter by arbiter."""
    found = {}
    for arbiter in ARBITERS:
        log = f"{BUCKET}/{uuid.uuid4()}/_delta_log"
        ballots = arbiter in ("ballot", "redis")
        far.store.call(partial(_fill, log, names, ballots=ballots))
        fs = far.mount(arbiter)
        acts: dict[str, Callable[[], object]] = {
            "the first creation": partial(fs.pipe_file, _entry(log, names), BODY),
            "a creation": partial(fs.pipe_file, _entry(log, names + 1), BODY),
            "a creation, the name is taken": partial(_lost, fs, _entry(log, names + 1)),
            "a read": partial(fs.cat_file, _entry(log, names // 2)),
            "a creation, the entry before it is gone": partial(fs.pipe_file, _entry(log, names + 3), BODY),
        }
        found[arbiter] = {call: far.sent(act)["LIST"] for call, act in acts.items()}
    far.store.call(_empty)
    return found


def _entry(log: str, number: int) -> str:
    return f"{log}/{number:020d}.json"


def _lost(fs: Any, name: str) -> None:
    with contextlib.suppress(NameTaken):
        fs.pipe_file(name, BODY)
        raise AssertionError(f"{name} was created twice")


def _refused(log: DeltaLogStore, number: int) -> None:
    with contextlib.suppress(FileExistsError):
        log.write(number, BODY)
        raise AssertionError(f"{number} was written twice")


def _creation(state: str) -> Creation:
    return Creation(str(uuid.uuid4()), str(uuid.uuid4()), state)


def _noted(protocol: Protocol[Any], waited: list[object]) -> Protocol[Any]:
    """Pass on what a protocol asks for, and note what goes out."""
    try:
        request = next(protocol)
        while True:
            if not isinstance(request, (Now, Pause)):
                waited.append(request)
            request = protocol.send((yield request))
    except StopIteration as end:
        return end.value


def _appended(far: Far, fs: Any, table: str) -> Sent:
    """Return what one record costs a session that has read all before it."""
    told = fs._mount.arbiter  # noqa: SLF001
    decides = arbiter_of(told, registry_of(told), fs.store) or Native(fs.store.largest_put)
    ledger = Ledger(fs.explain(f"{table}/.hoodie/timeline/1.commit.requested"), str(uuid.uuid4()), decides)

    def one_more(number: int) -> None:
        creation = _creation(ledger.name.state)
        record = Open(f"{number:017}", ledger.session, creation.token, "commit")

        def draft(state: State) -> Open | None:
            return None if state.knows(record.instant) else record

        run(append(ledger, draft, creation), fs.store, DEADLINE)

    one_more(1)
    return far.sent(partial(one_more, 2))


def _fill(log: str, names: int, stub: FaultStub, *, ballots: bool) -> None:
    """Leave a folder as that many creations have left it, one life each."""
    from putifabsent.shim.policy import Policy

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


def _empty(stub: FaultStub) -> None:
    stub.reset()
