"""What a call does: the same as the filesystem would, for a caller who may not hear the answer."""

from __future__ import annotations

import asyncio
import errno
import re
import uuid
from typing import TYPE_CHECKING

import pytest

from putifabsent.backends.base import Refused, TryAgain
from putifabsent.backends.local import LocalStore
from tests.fsspec_plugin.hudi_tables import Writer, plan_of, records_of
from tests.service.callers import SECRET, Caller, answering, manifest

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from putifabsent.backends.base import PublishOutcome
    from tests.fsspec_plugin.grounds import Ground
    from tests.service.callers import Answer

T = "20260101000000000"
FOLDERS = (".hoodie/metadata/files", "dt=1/.hoodie/metadata/files", "/dt=1", "./dt=1", "dt=1/x", "dt=2")
NOT_GUARDED = (200, {"guarded": False})
GUARDED = (200, {"guarded": True})


async def test_a_name_is_created_once(caller: Caller, other: Caller, ground: Ground) -> None:
    token = str(uuid.uuid4())
    assert (await caller.create(ground.log(), b"mine", token))[:2] == GUARDED
    lost = await other.create(ground.log(), b"theirs")
    assert (lost.status, lost.body["error"], lost.body["holder"]["token"]) == (409, "taken", token)
    assert lost.body["holder"]["writer"] == caller.writer
    assert ground.read(ground.log()) == b"mine"


async def test_of_many_callers_one_creates_each_name(caller: Caller, ground: Ground) -> None:
    def creating(number: int, who: int) -> Awaitable[Answer]:
        return caller.create(manifest(ground, number), b"%d" % who)

    answers = await asyncio.gather(*(creating(number, who) for number in range(4) for who in range(16)))
    for number in range(4):
        of = answers[16 * number : 16 * number + 16]
        (winner,) = [who for who, answer in enumerate(of) if answer.status == 200]
        assert {answer.status for answer in of} == {200, 409}
        assert ground.read(manifest(ground, number)) == b"%d" % winner


@pytest.mark.parametrize("call", ["create", "rename"])
async def test_what_nothing_guards_is_left_to_the_caller(call: str, caller: Caller, ground: Ground) -> None:
    ground.write(ground.name("source"), b"bytes")
    name = ground.name("data.parquet")
    token = str(uuid.uuid4())
    if call == "create":
        answer = await caller.create(name, b"bytes", token)
    else:
        answer = await caller.call("rename", name, source=f"file:{ground.name('source')}", token=token)
    assert answer[:2] == NOT_GUARDED
    assert ground.files() == ["source"]


async def test_a_guarded_name_is_admitted_while_nobody_holds_it(caller: Caller, ground: Ground) -> None:
    assert await caller.admitted(ground.log()) is True
    assert ground.files() == []
    await caller.create(ground.log(), b"mine")
    answer = await caller.call("admit", ground.log())
    assert (answer.status, answer.body["error"]) == (409, "taken")
    assert await caller.admitted(ground.name("data.parquet")) is False


async def test_a_rename_takes_its_source_along_after_a_win(
    caller: Caller, other: Caller, ground: Ground
) -> None:
    for source in ("a", "b"):
        ground.write(ground.name(source), source.encode())
    token = str(uuid.uuid4())
    won = await caller.call("rename", ground.log(), source=f"file:{ground.name('a')}", token=token)
    assert won[:2] == GUARDED
    lost = await other.call(
        "rename", ground.log(), source=f"file:{ground.name('b')}", token=str(uuid.uuid4())
    )
    assert (lost.status, lost.body["holder"]["token"]) == (409, token)
    assert ground.files() == [f"_delta_log/{0:020d}.json", "b"]
    assert ground.read(ground.log()) == b"a"


async def test_a_source_that_is_not_there_is_absent(caller: Caller, ground: Ground) -> None:
    source = f"file:{ground.name('nothing')}"
    answer = await caller.call("rename", ground.log(), source=source, token=str(uuid.uuid4()))
    assert (answer.status, answer.body["error"]) == (404, "absent")


async def test_whoever_heard_no_answer_asks_by_its_token(
    caller: Caller, other: Caller, ground: Ground
) -> None:
    mine, theirs = str(uuid.uuid4()), str(uuid.uuid4())
    before = await caller.call("resolve", ground.log(), token=mine)
    assert before[:2] == (200, {"holder": None})
    await caller.create(ground.log(), b"mine", mine)
    won = await caller.call("resolve", ground.log(), token=mine)
    assert (won.status, won.body["holder"]["token"]) == (200, mine)
    lost = await other.call("resolve", ground.log(), token=theirs)
    assert (lost.status, lost.body["error"]) == (409, "taken")


async def test_a_deletion_that_nobody_need_hear_of_is_left_to_the_caller(
    caller: Caller, ground: Ground
) -> None:
    await caller.create(ground.log(), b"bytes")
    assert (await caller.call("delete", ground.log()))[:2] == NOT_GUARDED
    assert (await caller.call("delete", f"{ground.folder}/_delta_log", recursive=True))[:2] == NOT_GUARDED
    assert ground.read(ground.log()) == b"bytes"


async def test_a_name_whose_deletion_an_arbiter_heard_of_is_free_again(ground: Ground) -> None:
    mount = {"prefix": f"file:{ground.folder}", "options": {"arbiter": "ballot"}}
    async with answering({"secret": SECRET, "mounts": [mount]}) as url, Caller.at(url) as caller:
        for value in (b"first", b"second"):
            assert (await caller.create(ground.log(), value))[:2] == GUARDED
            assert ground.read(ground.log()) == value
            assert (await caller.call("delete", ground.log()))[:2] == GUARDED
        assert (await caller.create(ground.log(), b"third"))[:2] == GUARDED
        folder = f"{ground.folder}/_delta_log"
        assert (await caller.call("delete", folder, recursive=True))[:2] == GUARDED
        assert not ground.around.exists(ground.log())
        ground.around.makedirs(folder, exist_ok=True)
        assert (await caller.create(ground.log(), b"fourth"))[:2] == GUARDED


async def test_where_an_arbiter_decides_a_folder_is_the_callers_to_move(ground: Ground) -> None:
    """Not every name that is asked about is guarded: many a partition looks like one."""
    folder = ground.name("event_type_id=5")
    ground.around.makedirs(folder)
    ground.write(f"{folder}/part", b"rows")
    mount = {"prefix": f"file:{ground.folder}", "options": {"arbiter": "ballot"}}
    async with answering({"secret": SECRET, "mounts": [mount]}) as url, Caller.at(url) as caller:
        fields = {"source": f"file:{folder}", "token": str(uuid.uuid4())}
        assert (await caller.call("rename", ground.name("elsewhere"), **fields))[:2] == NOT_GUARDED
        # Of a file that was moved there by its own name nobody can tell who it is.
        ground.write(ground.name("1.delta"), b"state")
        resolved = await caller.call("resolve", ground.name("1.delta"), token=str(uuid.uuid4()))
        assert resolved[:2] == (200, {"holder": None})
    assert ground.files() == ["1.delta", "event_type_id=5/part"]


async def test_a_dead_winner_is_published_by_who_loses_against_it(ground: Ground) -> None:
    mount = {"prefix": f"file:{ground.folder}", "options": {"arbiter": "ballot"}}
    async with answering({"secret": SECRET, "mounts": [mount]}) as url, Caller.at(url) as caller:
        assert (await caller.create(ground.log(), b"bytes"))[:2] == GUARDED
        ground.around.rm_file(ground.log())  # as if it had died before it published
        assert await caller.admitted(ground.log()) is True
        assert (await caller.create(ground.log(), b"others")).status == 409
    assert ground.read(ground.log()) == b"bytes"


async def test_whoever_has_completed_an_instant_unheard_finds_it(
    caller: Caller, root: str, ground: Ground
) -> None:
    writer, token = Writer(None, root), str(uuid.uuid4())
    await caller.create(writer.requested(T), b"")
    assert (await caller.create(writer.completed(T), b"{}", token))[:2] == GUARDED
    ground.around.rm_file(writer.completed(T))  # as if the service had been killed before it published
    mount = {"prefix": f"file:{ground.folder}"}
    async with answering({"secret": SECRET, "mounts": [mount]}) as url, Caller.at(url) as again:
        answer = await again.call("resolve", writer.completed(T), token=token)
        assert answer.body["holder"]["token"] == token
    assert ground.read(writer.completed(T)) == b"{}"


@pytest.mark.parametrize(
    ("store_says", "hears"),
    [
        (TryAgain(OSError(errno.EIO, "no answer")), (200, False)),
        (Refused(OSError(errno.ENOSPC, "the disk is full")), (504, None)),
    ],
    ids=["silent", "full"],
)
async def test_who_has_completed_what_the_store_does_not_show_hears_so(
    store_says: PublishOutcome,
    hears: tuple[int, bool | None],
    ground: Ground,
    root: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever has its turn next without taking it, and lists the store, would miss it."""
    writer, token = Writer(None, root), str(uuid.uuid4())
    mount = {"prefix": f"file:{ground.folder}", "options": {"deadline": 0.5}}
    async with answering({"secret": SECRET, "mounts": [mount]}) as url, Caller.at(url) as caller:
        await caller.create(writer.requested(T), b"")
        turn = (await caller.call("turns/take", root, token=str(uuid.uuid4()))).body["turn"]
        with monkeypatch.context() as store:
            store.setattr(LocalStore, "publish", lambda *_: store_says)
            answer = await caller.create(writer.completed(T), b"{}", token, turn=turn)
            assert (answer.status, answer.body.get("shown")) == hears
            late = await caller.call("resolve", writer.completed(T), token=token)
            assert (late.body["holder"]["token"], late.body["shown"]) == (token, False)
        assert not ground.is_there(writer.completed(T))
        late = await caller.call("resolve", writer.completed(T), token=token)
        assert "shown" not in late.body
    assert ground.is_there(writer.completed(T))


@pytest.mark.parametrize("call", ["create", "rename"])
@pytest.mark.parametrize("format_", ["delta", "hudi"])
async def test_half_a_file_is_refused_for_certain_and_the_name_stays_free(
    format_: str, call: str, caller: Caller, root: str, ground: Ground
) -> None:
    writer, token = Writer(None, root), str(uuid.uuid4())
    name, body = (ground.log(), b'{"add":{}}\n') if format_ == "delta" else (writer.completed(T), plan_of(T))
    await caller.create(writer.requested(T), b"")
    ground.write(ground.name("source"), body[:-3])
    refused = (
        await caller.create(name, body[:-3], token)
        if call == "create"
        else await caller.call("rename", name, source=f"file:{ground.name('source')}", token=token)
    )
    assert (refused.status, refused.body["error"]) == (422, "damaging")
    assert not ground.is_there(name)
    assert ground.read(ground.name("source")) == body[:-3]
    assert records_of(ground, root) == ["OPEN"]
    assert (await caller.create(name, body))[:2] == GUARDED
    assert ground.read(name) == body


async def test_a_filesystem_hears_of_the_names_of_all_its_mounts(ground: Ground) -> None:
    mounts = [
        {"prefix": f"file:{ground.folder}/one", "options": {"guard": ["**/*.first"]}},
        {"prefix": f"file:{ground.folder}/one/two", "options": {"guard": ["**/*.second"]}},
    ]
    async with answering({"secret": SECRET, "mounts": mounts}) as url, Caller.at(url) as caller:
        known = re.compile((await caller.call("names", "/")).body["pattern"])
        assert known.fullmatch(ground.name("one/a.first"))
        assert known.fullmatch(ground.name("one/two/a.second"))
        assert not known.fullmatch(ground.name("one/a.third"))
        assert (await caller.call("names", "/nowhere/near")).status == 403


async def test_a_ledger_hears_of_an_instant_that_is_deleted(
    caller: Caller, root: str, ground: Ground
) -> None:
    writer = Writer(None, root)
    await caller.create(writer.requested(T), b"")
    assert (await caller.call("delete", writer.requested(T)))[:2] == GUARDED
    assert records_of(ground, root) == ["OPEN", "FREE"]


async def test_a_ledger_hears_of_an_instant_that_is_moved_away(
    caller: Caller, root: str, ground: Ground
) -> None:
    writer = Writer(None, root)
    await caller.create(writer.requested(T), b"bytes")
    fields = {"source": f"file:{writer.requested(T)}", "token": str(uuid.uuid4())}
    assert (await caller.call("rename", f"{root}/elsewhere", **fields))[:2] == GUARDED
    assert records_of(ground, root) == ["OPEN", "FREE"]
    assert ground.read(f"{root}/elsewhere") == b"bytes"


async def test_what_is_moved_away_replaces_nothing(caller: Caller, root: str, ground: Ground) -> None:
    writer = Writer(None, root)
    await caller.create(writer.requested(T), b"")
    ground.write(f"{root}/elsewhere", b"there")
    fields = {"source": f"file:{writer.requested(T)}", "token": str(uuid.uuid4())}
    for there, why in ((f"{root}/elsewhere", "exists"), (root, "folder")):
        answer = await caller.call("rename", there, **fields)
        assert (answer.status, answer.body["error"]) == (400, why)
    assert records_of(ground, root) == ["OPEN"]
    assert ground.read(f"{root}/elsewhere") == b"there"


# --- ledgers


async def test_a_slice_is_its_sessions_whose_instant_it_is(caller: Caller, other: Caller, root: str) -> None:
    writer = Writer(None, root)
    assert (await caller.create(writer.requested(T), b""))[:2] == GUARDED
    assert await caller.admitted(writer.slice_of(T)) is False
    answer = await other.call("admit", writer.slice_of(T))
    assert (answer.status, answer.body["error"]) == (403, "fenced")


async def test_a_session_whose_instant_was_taken_over_commits_nothing(
    caller: Caller, other: Caller, root: str, ground: Ground
) -> None:
    writer = Writer(None, root)
    await caller.create(writer.requested(T), b"")
    assert await other.admitted(writer.inflight(T)) is False
    refused = await caller.create(writer.completed(T), b"{}")
    assert (refused.status, refused.body["error"]) == (403, "fenced")
    assert (await other.create(writer.completed(T), b"{}"))[:2] == GUARDED
    assert records_of(ground, root) == ["OPEN", "TAKE", "COMPLETE"]


async def test_what_a_strict_mount_refuses_is_no_step_and_leaves_nothing(ground: Ground, root: str) -> None:
    mount = {"prefix": f"file:{ground.folder}", "options": {"strict": True}}
    writer, token = Writer(None, root), str(uuid.uuid4())
    ground.write(ground.name("source"), b"{}")
    async with (
        answering({"secret": SECRET, "mounts": [mount]}) as url,
        Caller.at(url) as caller,
    ):
        refused = [
            await caller.call("admit", writer.inflight(T)),
            await caller.create(writer.completed(T), b"{}"),
            await caller.call(
                "rename", writer.completed(T), source=f"file:{ground.name('source')}", token=token
            ),
        ]
        assert [(each.status, each.body["error"]) for each in refused] == [(409, "invalid")] * 3
        assert (await caller.create(writer.requested(T), b""))[:2] == GUARDED
        assert await caller.admitted(writer.inflight(T)) is False
    assert records_of(ground, root) == ["OPEN"]
    assert not ground.is_there(writer.completed(T))


async def test_one_session_has_the_turn_of_a_table(caller: Caller, other: Caller, root: str) -> None:
    mine, theirs = str(uuid.uuid4()), str(uuid.uuid4())
    taken = await caller.call("turns/take", root, thread="main", token=mine)
    turn = taken.body["turn"]
    again = await caller.call("turns/take", root, thread="main", token=mine)
    assert again.body["turn"] == turn
    waits = await other.call("turns/take", root, token=theirs)
    behind = f"turn 1, session {caller.session}"
    assert waits[:2] == (200, {"turn": None, "behind": behind, "alone": False})
    for call, held in (("beat", True), ("release", True), ("release", False), ("beat", False)):
        assert (await caller.call(f"turns/{call}", root, turn=turn))[:2] == (200, {"held": held})
    assert (await other.call("turns/take", root, token=theirs)).body["turn"] not in (None, turn)


async def test_what_is_completed_in_a_turn_says_so(caller: Caller, other: Caller, root: str) -> None:
    writer = Writer(None, root)
    await caller.create(writer.requested(T), b"")
    late = (await other.call("turns/take", root, token=str(uuid.uuid4()))).body["turn"]
    await other.call("turns/release", root, turn=late)
    held = (await caller.call("turns/take", root, token=str(uuid.uuid4()))).body["turn"]
    for turn in (None, late):
        fields = {} if turn is None else {"turn": turn}
        refused = await caller.create(writer.completed(T), b"{}", **fields)
        assert (refused.status, refused.body["error"]) == (403, "fenced")
    assert (await caller.create(writer.completed(T), b"{}", turn=held))[:2] == GUARDED


async def test_whoever_has_asked_for_one_slice_knows_of_all_beside_it_of_its_instant(
    unguarding: Caller, other: Caller, root: str
) -> None:
    writer, caller = Writer(None, root), unguarding
    assert (await caller.call("admit", writer.slice_of(T))).body["also"] is None  # it is nobody's yet
    await caller.create(writer.requested(T), b"")
    assert (await caller.call("admit", writer.inflight(T))).body["also"] is None
    for name in (writer.slice_of(T), writer.log_of(T)):
        also = re.compile((await caller.call("admit", name)).body["also"])
        assert also.fullmatch(writer.slice_of(T, "7-8-9"))
        assert also.fullmatch(writer.log_of(T))
        base, log = (name.rpartition("/")[2] for name in (writer.slice_of(T), writer.log_of(T)))
        strangers = [
            writer.slice_of(T.replace("2026", "2027")),
            writer.requested(T),
            writer.completed(T),
            *(f"{root}/{folder}/{last}" for last in (base, log) for folder in FOLDERS),
            f"{root}2/dt=1/{base}",
        ]
        assert not [each for each in strangers if also.fullmatch(each)]


async def test_where_patterns_guard_names_no_slice_speaks_for_another(caller: Caller, root: str) -> None:
    writer = Writer(None, root)
    await caller.create(writer.requested(T), b"")
    assert (await caller.call("admit", writer.slice_of(T))).body["also"] is None


async def test_a_folder_with_characters_of_a_pattern_is_a_folder(caller: Caller, ground: Ground) -> None:
    assert (await caller.call("delete", ground.name("[ab]"), recursive=True))[:2] == NOT_GUARDED


async def test_where_an_arbiter_decides_no_folder_is_removed_that_could_be_a_pattern(ground: Ground) -> None:
    for folder in ("a", "b"):
        ground.around.makedirs(ground.name(folder))
        ground.write(ground.name(f"{folder}/f"), b"")
    mount = {"prefix": f"file:{ground.folder}", "options": {"arbiter": "ballot"}}
    async with answering({"secret": SECRET, "mounts": [mount]}) as url, Caller.at(url) as caller:
        answer = await caller.call("delete", ground.name("[ab]"), recursive=True)
    assert (answer.status, answer.body["error"]) == (400, "request")
    assert ground.files() == ["a/f", "b/f"]


@pytest.mark.parametrize("call", ["delete", "rename"])
async def test_nobody_reaches_what_the_shim_keeps(
    call: str, caller: Caller, ground: Ground, root: str
) -> None:
    await caller.create(Writer(None, root).requested(T), b"")
    record = f"{root}/.hoodie/.putifabsent/ledger/-life"
    if call == "delete":
        answer = await caller.call("delete", record)
    else:
        fields = {"source": f"file:{record}", "token": str(uuid.uuid4())}
        answer = await caller.call("rename", ground.log(), **fields)
    assert (answer.status, answer.body["error"]) == (403, "denied")
    assert records_of(ground, root) == ["OPEN"]


async def test_a_token_of_another_creation_commits_nothing(caller: Caller, ground: Ground, root: str) -> None:
    writer, token, later = Writer(None, root), str(uuid.uuid4()), T.replace("2026", "2027")
    for instant in (T, later):
        await caller.create(writer.requested(instant), b"")
    assert (await caller.create(writer.completed(T), b"{}", token)).status == 200
    answer = await caller.create(writer.completed(later), b"{}", token)
    assert (answer.status, answer.body["error"]) == (400, "request")
    assert not ground.is_there(writer.completed(later))


async def test_a_name_that_the_pattern_does_not_match_is_a_file(caller: Caller, ground: Ground) -> None:
    answer = await caller.call("names", ground.folder)
    known = re.compile(answer.body["pattern"])
    guarded = [ground.log(), manifest(ground, 1), Writer(None, ground.folder).requested(T)]
    assert all(known.fullmatch(each) for each in guarded)
    assert not known.fullmatch(ground.name("part-0.parquet"))
