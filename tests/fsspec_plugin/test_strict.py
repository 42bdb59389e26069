"""Strict mounts: what a Hudi timeline has no step for is refused, nothing is written; all else goes on."""

from __future__ import annotations

import asyncio
import pickle
import uuid
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from putifabsent import ConfigError, Damaging, Fenced, InvalidTransition, NameTaken
from putifabsent.backends.probe import BESIDE, NEEDED
from putifabsent.fsspec_plugin.guard import Guard
from putifabsent.fsspec_plugin.hudi import Hudi
from putifabsent.fsspec_plugin.remote import Remote
from putifabsent.shim.formats.hudi_steps import Seen, State, fault_of
from tests.fsspec_plugin.grounds import by_turns
from tests.fsspec_plugin.hudi_tables import Writer, plan_of, records_of, table_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tests.fsspec_plugin.grounds import Ground
    from tests.stub import FaultStub

    Way = Callable[[Any, str, str, Path], Any]

T, C = "20260101120000001", "20260101120100001"
ZERO = "00000000000000010"
LATER, LATE = "20260101120000005", "20260101120100005"
COMMIT = (f"{T}.commit.requested", f"{T}.inflight", f"{T}_{C}.commit")
ROLLBACK = (f"{LATER}.rollback.requested", f"{LATER}.rollback.inflight", f"{LATER}_{LATE}.rollback")

TIMELINES = {8: ".hoodie/timeline", 6: ".hoodie"}
BENEATH = ".hoodie/metadata/.hoodie/timeline"
"""The timeline of a metadata table, which has no ledger."""

ELSEWHERE = ("local-claims", "s3-ballot")
"""The rule has tests of its own: here it is that nothing is left behind, by the store or another arbiter."""


def body_of(last: str) -> bytes:
    return plan_of(T) if last.endswith(".rollback.requested") else b"{}"


def put(fs: Any, folder: str, names: Iterable[str]) -> None:
    for last in names:
        fs.pipe_file(f"{folder}/{last}", body_of(last))


def shown(ground: Ground) -> dict[str, bytes]:
    """Return all that another program sees, but for what arbiters and ledgers keep."""
    return {each: ground.read(ground.name(each)) for each in ground.files() if "/.putifabsent/" not in each}


@pytest.fixture
def strict(ground: Ground, root: str) -> Writer:
    ground.around.makedirs(f"{root}/{BENEATH}", exist_ok=True)
    return Writer(ground.mount(writer_session="strict", strict=True), root)


# --- what Hudi does

WAYS = {
    "commit": COMMIT,
    "bootstrap": (f"{ZERO}.deltacommit.requested", f"{ZERO}.deltacommit.inflight", f"{ZERO}_{C}.deltacommit"),
    "digits appended": (f"{T}001.compaction.requested", f"{T}001.compaction.inflight", f"{T}001_{C}.commit"),
    "taken over": (f"{T}.compaction.requested", f"{T}.compaction.inflight", f"{T}.compaction.inflight",
                   f"{T}_{C}.commit"),
    "begun again": (f"{T}.clustering.requested", f"{T}.clustering.inflight", f"-{T}.clustering.inflight",
                    f"{T}.clustering.inflight", f"{T}_{C}.replacecommit"),
    "fallen back": (f"{T}.logcompaction.requested", f"{T}.logcompaction.inflight",
                    f"-{T}.logcompaction.requested", f"{T}.logcompaction.requested",
                    f"{T}.logcompaction.inflight", f"{T}_{C}.deltacommit"),
    "archived": (*COMMIT, f"{LATER}.commit.requested", *(f"-{last}" for last in COMMIT)),
    "savepoint": (*COMMIT, f"{T}.savepoint.inflight", f"{T}_{LATE}.savepoint", f"-{T}_{LATE}.savepoint",
                  f"-{T}.savepoint.inflight", f"{T}.savepoint.inflight", f"{T}_{LATE}.savepoint"),
    "rolled back when pending": (*COMMIT[:2], *ROLLBACK[:2], f"-{COMMIT[1]}", f"-{COMMIT[0]}", ROLLBACK[2]),
    # Archived but for its last name, it gets the others again before that one goes.
    "rolled back when completed": (*COMMIT, f"-{COMMIT[0]}", f"-{COMMIT[1]}", *ROLLBACK[:2], *COMMIT[:2],
                                   f"-{COMMIT[2]}", f"-{COMMIT[1]}", f"-{COMMIT[0]}", ROLLBACK[2]),
}  # fmt: skip


@by_turns("way", WAYS)
def test_what_hudi_does_goes_on(strict: Writer, way: str) -> None:
    timeline = f"{strict.root}/{TIMELINES[8]}"
    there: set[str] = set()
    for last in WAYS[way]:
        if last.startswith("-"):
            strict.fs.rm_file(f"{timeline}/{last[1:]}")
            there.remove(last[1:])
        else:
            put(strict.fs, timeline, [last])
            there.add(last)
    assert strict.timeline() == sorted(there)


@by_turns("action", ["commit", "deltacommit", "replacecommit", "clean", "rollback", "restore"], *ELSEWHERE)
def test_in_version_6_it_goes_on_too(ground: Ground, strict: Writer, action: str) -> None:
    ground.write(f"{strict.root}/.hoodie/hoodie.properties", b"hoodie.table.version=6\n")
    inflight = f"{T}.inflight" if action == "commit" else f"{T}.{action}.inflight"
    put(strict.fs, f"{strict.root}/.hoodie", [f"{T}.{action}.requested", inflight, f"{T}.{action}"])


@pytest.mark.parametrize("here", [6, 8])
def test_an_upgrade_moves_names_in_any_order(ground: Ground, strict: Writer, here: int) -> None:
    there = 14 - here
    completed = {6: f"{T}.commit", 8: f"{T}_{C}.commit"}
    old, new = (
        [*(f"{strict.root}/{TIMELINES[of]}/{last}" for last in COMMIT[:2]),
         f"{strict.root}/{TIMELINES[of]}/{completed[of]}"]
        for of in (here, there)
    )  # fmt: skip
    for name in old:
        ground.write(name, b"{}")
    strict.fs.pipe_file(new[2], b"{}")
    strict.fs.rm_file(old[2])
    strict.fs.mv(old[0], new[0])
    strict.fs.mv(old[1], new[1])
    assert [strict.fs.exists(name) for name in (*old, *new)] == [False] * 3 + [True] * 3


# --- what it doesn't

REFUSED = {
    "inflight unrequested": ((), f"{T}.commit.inflight", "unrequested"),
    "completed unrequested": ((), COMMIT[2], "unrequested"),
    "completed, never inflight": (COMMIT[:1], COMMIT[2], "skipped"),
    "completed as another action": (COMMIT[:2], f"{T}_{C}.clean", "changed"),
    "inflight as another action": (COMMIT[:1], f"{T}.clean.inflight", "changed"),
    "savepoint from nothing": (COMMIT, f"{T}_{LATE}.savepoint", "unrequested"),
    "a longer time is another instant": (COMMIT[:2], f"{T}001_{C}.commit", "unrequested"),
}
BENEATH_ALONE = {
    "inflight once more": (COMMIT, COMMIT[1], "reopened"),
    "requested once more": (COMMIT[2:], COMMIT[0], "reopened"),
    "completed once more": (COMMIT, f"{T}_{LATE}.commit", "repeated"),
    "reopened beside a rollback that is over": ((*COMMIT, ROLLBACK[2]), COMMIT[1], "reopened"),
    "a rollback does not undo itself": ((ROLLBACK[2],), ROLLBACK[1], "reopened"),
}
"""Of a table that has a ledger, that says so."""


@by_turns(
    "wrong",
    [
        *((TIMELINES[8], case) for case in REFUSED),
        *((BENEATH, case) for case in (REFUSED | BENEATH_ALONE)),
    ],
    *ELSEWHERE,
)
def test_what_it_has_no_step_for_is_refused_and_nothing_is_written(
    ground: Ground, strict: Writer, wrong: tuple[str, str]
) -> None:
    folder, case = wrong
    names, last, fault = (REFUSED | BENEATH_ALONE)[case]
    timeline = f"{strict.root}/{folder}"
    if case in REFUSED:
        put(strict.fs, timeline, names)
    else:
        for each in names:
            ground.write(f"{timeline}/{each}", body_of(each))
    before, records = shown(ground), records_of(ground, strict.root)
    with pytest.raises(InvalidTransition, match=fault) as caught:
        strict.fs.pipe_file(f"{timeline}/{last}", b"wrong")
    assert caught.value.name == f"{timeline}/{last}"
    assert shown(ground) == before
    assert records_of(ground, strict.root) == records


def test_a_refused_step_leaves_the_instant_to_others(ground: Ground, strict: Writer, b: Writer) -> None:
    with pytest.raises(InvalidTransition):
        strict.fs.pipe_file(strict.inflight(T), b"")
    b.commits(T)
    assert records_of(ground, b.root) == ["OPEN", "COMPLETE"]


def test_without_the_option_nothing_is_refused(ground: Ground, a: Writer) -> None:
    a.fs.pipe_file(a.completed(T), b"{}")
    assert ground.is_there(a.completed(T))


@by_turns("last", [f"{T}.commit.wanted", "notes", f"{T}.parquet", "history/manifest_1"], *ELSEWHERE)
def test_what_is_no_instant_is_not_asked_about(strict: Writer, last: str) -> None:
    name = f"{strict.root}/{TIMELINES[8]}/{last}"
    strict.fs.makedirs(name.rpartition("/")[0], exist_ok=True)
    strict.fs.pipe_file(name, b"{}")
    assert strict.fs.cat_file(name) == b"{}"


# --- what is told as ever


def test_a_name_that_is_taken_is_told_so(strict: Writer) -> None:
    put(strict.fs, f"{strict.root}/{BENEATH}", COMMIT)
    for last in (COMMIT[0], COMMIT[2]):
        with pytest.raises(NameTaken):
            strict.fs.pipe_file(f"{strict.root}/{BENEATH}/{last}", b"{}")
    with pytest.raises(NameTaken):
        strict.fs.pipe_file(f"{strict.root}/{BENEATH}/{COMMIT[1]}", b"{}", mode="create")


def test_a_creation_that_is_said_again_by_its_token_has_won(strict: Writer) -> None:
    token = str(uuid.uuid4())
    strict.fs.pipe_file(strict.requested(T), b"")
    strict.fs.pipe_file(strict.inflight(T), b"")
    for _ in range(2):
        assert Remote(strict.fs).create_as(strict.completed(T), b"{}", token)


def test_who_was_rolled_back_is_told_by_the_ledger(strict: Writer, b: Writer) -> None:
    strict.begins(T)
    b.plans_rollback(LATER, of=T)
    b.fs.rm([b.inflight(T), b.requested(T)])
    with pytest.raises(Fenced, match="rolled back"):
        strict.completes(T)


def test_an_instant_of_another_s_is_told_by_the_ledger(strict: Writer, b: Writer) -> None:
    b.fs.pipe_file(b.requested(T), b"")
    with pytest.raises(NameTaken):
        strict.fs.pipe_file(strict.requested(T, "clean"), b"")


# --- what a plain listing does not show


@pytest.mark.parametrize("ground", ["s3-ballot", "local-claims", "memory-redis"], indirect=True)
def test_what_is_decided_and_not_published_counts(ground: Ground, strict: Writer) -> None:
    name = f"{strict.root}/{BENEATH}/{COMMIT[0]}"
    strict.fs.pipe_file(name, b"")
    ground.around.rm_file(name)  # as it is before it is published
    strict.fs.pipe_file(f"{strict.root}/{BENEATH}/{COMMIT[1]}", b"")


def test_what_was_undone_and_not_removed_counts_for_nothing(ground: Ground, strict: Writer) -> None:
    name = strict.commits(T)
    strict.plans_rollback(LATER, of=T)
    strict.fs.pipe_file(f"{strict.root}/{TIMELINES[8]}/{ROLLBACK[1]}", b"")
    strict.fs.rm([name, strict.inflight(T), strict.requested(T)])
    strict.fs.pipe_file(f"{strict.root}/{TIMELINES[8]}/{ROLLBACK[2]}", b"{}")
    ground.write(name, b"{}")  # whoever removed it has died before its last request
    strict.fs.pipe_file(strict.requested(T), b"")


# --- every door


def source(here: Path, last: str) -> str:
    (here / last).write_bytes(b"wrong")
    return str(here / last)


def written(fs: Any, name: str) -> None:
    with fs.open(name, "wb") as file:
        file.write(b"wrong")


def in_a_transaction(fs: Any, name: str) -> None:
    with fs.transaction:
        written(fs, name)


DOORS: dict[str, Way] = {
    "pipe_file": lambda fs, name, temporary, here: fs.pipe_file(name, b"wrong"),
    "pipe_file, create": lambda fs, name, temporary, here: fs.pipe_file(name, b"wrong", mode="create"),
    "pipe": lambda fs, name, temporary, here: fs.pipe({f"{name}.other": b"", name: b"wrong"}),
    "put_file": lambda fs, name, temporary, here: fs.put_file(source(here, "one"), name),
    "put": lambda fs, name, temporary, here: fs.put([source(here, "one")], [name]),
    "open": lambda fs, name, temporary, here: written(fs, name),
    "touch": lambda fs, name, temporary, here: fs.touch(name),
    "cp_file": lambda fs, name, temporary, here: fs.cp_file(temporary, name),
    "copy": lambda fs, name, temporary, here: fs.copy([temporary], [name]),
    "mv": lambda fs, name, temporary, here: fs.mv(temporary, name),
    "a transaction": lambda fs, name, temporary, here: in_a_transaction(fs, name),
    "create_as or admit": lambda fs, name, temporary, here: (
        Remote(fs).create_as(name, b"wrong", str(uuid.uuid4())) or Remote(fs).admit(name)
    ),
    "rename_as": lambda fs, name, temporary, here: Remote(fs).rename_as(temporary, name, str(uuid.uuid4())),
    "_pipe_file": lambda fs, name, temporary, here: asyncio.run(fs._pipe_file(name, b"wrong")),
    "_put_file": lambda fs, name, temporary, here: asyncio.run(fs._put_file(source(here, "one"), name)),
    "_cp_file": lambda fs, name, temporary, here: asyncio.run(fs._cp_file(temporary, name)),
    "_mv_file": lambda fs, name, temporary, here: asyncio.run(fs._mv_file(temporary, name)),
    "_touch": lambda fs, name, temporary, here: asyncio.run(fs._touch(name)),
}


def let_through(ground: Ground, here: Path) -> set[str]:
    """Return the doors of a strict mount by which an instant gets a name that it may not have."""
    root = table_in(ground)
    fs = ground.mount(writer_session="strict", strict=True, skip_instance_cache=True)
    through = set()
    for door, go in DOORS.items():
        for last in (COMMIT[1], COMMIT[2]):
            name, temporary = f"{root}/{TIMELINES[8]}/{last}", f"{root}/temporary"
            ground.write(temporary, b"wrong")
            try:
                go(fs, name, temporary, here)
            except InvalidTransition:
                pass
            except Damaging:
                through.add(door)  # refused, but by nobody who knows of steps
            else:
                through.add(door)
            if ground.is_there(name):
                through.add(door)
                ground.around.rm_file(name)
    return through


def test_no_door_leads_past_it(memory: Ground, tmp_path: Path) -> None:
    assert let_through(memory, tmp_path) == set()


CREATED = {"pipe_file", "put_file", "open", "touch", "_pipe_file", "_put_file", "_touch", "a transaction"}


@pytest.mark.parametrize(
    ("room", "way", "found"),
    [
        (Hudi, None, {"pipe_file", "mv", "_pipe_file", "create_as or admit", "a transaction"}),
        (Hudi, "permitting", {"pipe_file", "put", "open", "_put_file", "create_as or admit"}),
        (Guard, "creating", CREATED | {"create_as or admit"}),
        (Guard, "creating_from", {"cp_file", "mv", "_cp_file", "_mv_file", "rename_as"}),
    ],
)
def test_a_mount_that_forgets_to_ask_is_convicted(
    room: Any,
    way: str | None,
    found: set[str],
    memory: Ground,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It asks nothing on one of the ways to a name, or on none of them."""

    def asks_nothing(*_: Any, **__: Any) -> Any:
        yield from ()

    if way is None:
        monkeypatch.setattr(Hudi, "_stepping", asks_nothing)
    else:
        whole = getattr(room, way)

        def forgets(*args: Any, **kwargs: Any) -> Any:
            with patch.object(Hudi, "_stepping", asks_nothing):
                return (yield from whole(*args, **kwargs))

        monkeypatch.setattr(room, way, forgets)
    assert let_through(memory, tmp_path) >= found


def test_of_many_names_the_wrong_one_is_refused(strict: Writer) -> None:
    """The others may have been created by then, or not: a call ends with its first error."""
    right, wrong = strict.requested(T), strict.inflight(LATER)
    with pytest.raises(InvalidTransition) as refused:
        strict.fs.pipe({right: b"", wrong: b""})
    assert refused.value.name == wrong
    assert not strict.fs.exists(wrong)


@pytest.mark.parametrize("ground", ["s3-native", "s3-ballot"], indirect=True)
def test_an_asynchronous_mount_refuses_and_allows_the_same(ground: Ground, root: str) -> None:
    from tests.fsspec_plugin.test_async import closed

    async def steps() -> None:
        fs = ground.mount(strict=True, asynchronous=True, skip_instance_cache=True)
        timeline = f"{root}/{TIMELINES[8]}"
        try:
            for last in COMMIT:
                for wrong in COMMIT[COMMIT.index(last) + 1 :]:
                    with pytest.raises(InvalidTransition):
                        await fs._pipe_file(f"{timeline}/{wrong}", b"{}")
                await fs._pipe_file(f"{timeline}/{last}", b"{}")
        finally:
            await closed(fs)

    asyncio.run(steps())


# --- any sequence of steps

STEPS = st.tuples(
    st.sampled_from(["commit", "compaction", "rollback", "savepoint"]),
    st.sampled_from([None, *State]),
    st.sampled_from(["", "9"]),
)
COMPLETED_AS = {"compaction": "commit"}
TIMES = {"commit": T, "savepoint": T, "compaction": "20260101120000003", "rollback": LATER}


def named(action: str, state: State, completion: str) -> str:
    time = TIMES[action]
    if state is State.COMPLETED:
        return f"{time}_{C}{completion}.{COMPLETED_AS.get(action, action)}"
    return (
        f"{time}.inflight"
        if (action, state) == ("commit", State.INFLIGHT)
        else f"{time}.{action}.{state.value}"
    )


@given(st.lists(STEPS, max_size=12))
def test_of_any_sequence_those_steps_are_taken_that_are_valid(
    sequence: list[tuple[str, State | None, str]],
) -> None:
    fs = fsspec.filesystem("piamemory", strict=True)
    timeline = f"/{uuid.uuid4().hex}/t/{BENEATH}"
    fs.makedirs(timeline)
    names: dict[str, dict[str, State]] = {action: {} for action in TIMES}

    def reached(action: str) -> State | None:
        return max(names[action].values(), key=lambda state: state.rank, default=None)

    for action, after, completion in sequence:
        before = reached(action)
        if after is None:
            for last in names[action]:
                fs.rm_file(f"{timeline}/{last}")
            names[action] = {}
            continue
        last = named(action, after, completion)
        is_taken = last in names[action] and after is not State.INFLIGHT
        undoing = action != "rollback" and reached("rollback") in (State.REQUESTED, State.INFLIGHT)
        fault = fault_of(Seen("", action, before), Seen("", action, after), undoing=undoing)
        name = f"{timeline}/{last}"
        if is_taken:
            with pytest.raises(NameTaken):
                fs.pipe_file(name, b"{}")
        elif fault is not None:
            with pytest.raises(InvalidTransition, match=fault.value):
                fs.pipe_file(name, b"{}")
        else:
            fs.pipe_file(name, b"{}")
            names[action][last] = after
    there = {each.rpartition("/")[2] for each in fs.ls(timeline, detail=False)}
    assert there == {last for each in names.values() for last in each}
    fs.rm(timeline.partition("/t/")[0], recursive=True)


# --- what it costs


@pytest.mark.parametrize("folder", [TIMELINES[8], BENEATH])
def test_an_instant_s_name_costs_one_listing_more_and_nothing_else_does(
    folder: str, stub: FaultStub, on_stub: Any
) -> None:
    def sent(*, strict: bool) -> dict[str, list[str]]:
        fs = on_stub(strict=strict, use_listings_cache=False, skip_instance_cache=True)
        fs.mount.relied["bucket"] = {*NEEDED, *BESIDE}
        table = f"bucket/{uuid.uuid4()}"
        others = [
            f"{table}/dt=1/part",
            f"{table}/_delta_log/{0:020d}.json",
            f"{table}/.hoodie/timeline/history/manifest_1",
        ]
        put(fs, f"{table}/{folder}", COMMIT)  # so that mounts have agreed, and the ledger is known
        made = {}
        for name in (*others, *(f"{table}/{folder}/{last.replace(T, LATER)}" for last in COMMIT)):
            before = len(stub.requests)
            fs.pipe_file(name, b"{}")
            # Some go out together.
            made[name[len(table) :]] = sorted(each.method for each in stub.requests[before:])
        return made

    off, on = sent(strict=False), sent(strict=True)
    assert on == {name: ["GET"] * (f"{folder}/2026" in name) + off[name] for name in off}
    if folder == BENEATH:  # where no ledger has a word
        assert [made for name, made in off.items() if folder in name] == [["PUT"]] * 3


# --- the option


@pytest.mark.parametrize("strict", ["", 1, "1", None, "yes"])
def test_it_is_said_by_true_or_false(strict: Any) -> None:
    with pytest.raises(ConfigError, match="strict must be True or False"):
        fsspec.filesystem("piamemory", strict=strict)


def test_so_is_who_waits_or_that_only_inserts_do() -> None:
    assert fsspec.filesystem("piamemory", tower="inserts").mount.options.tower == "inserts"
    assert fsspec.filesystem("piamemory", tower="false").mount.options.tower is False
    with pytest.raises(ConfigError, match="tower must be True, False or 'inserts', not 'upserts'"):
        fsspec.filesystem("piamemory", tower="upserts")


def test_it_is_not_for_mounts_that_keep_both() -> None:
    with pytest.raises(ConfigError, match="keep-both"):
        fsspec.filesystem("piamemory", salt="keep-both", strict=True)


def test_it_goes_along_with_a_pickled_filesystem(memory: Ground) -> None:
    root = table_in(memory)
    fs = pickle.loads(pickle.dumps(memory.mount(strict=True)))
    with pytest.raises(InvalidTransition):
        fs.pipe_file(f"{root}/{TIMELINES[8]}/{COMMIT[1]}", b"")


def test_the_error_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(InvalidTransition("name", "reason")))
    assert (error.name, error.reason, str(error)) == (
        "name",
        "reason",
        str(InvalidTransition("name", "reason")),
    )
