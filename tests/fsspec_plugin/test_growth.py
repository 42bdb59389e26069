"""What an arbiter keeps of a table is that of its live names: what goes for good goes whole."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from putifabsent.backends.registries import Claim, Refused
from putifabsent.errors import NameTaken
from putifabsent.shim.ledger.facts import State
from putifabsent.shim.ledger.records import marker_of
from putifabsent.shim.state_keys import placed
from putifabsent.upkeep import fsck
from tests.fsspec_plugin.hudi_tables import Writer, records_of, table_in
from tests.golden.worlds import FakeClaims

if TYPE_CHECKING:
    from tests.fsspec_plugin.grounds import Ground

EACH = pytest.mark.parametrize("ground", ["memory-ballot", "memory-claims"], indirect=True)


def kept(ground: Ground, fs: Any, root: str) -> set[str]:
    """Return the names of which the arbiter keeps anything."""
    found = {each.name for each in map(placed, ground.around.find(root)) if each is not None}
    return {str(name) for name in found} | set(fs.perform(fs.decider.remembered(root)))


def parquet() -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"instantTime": ["100"]}), file)
    return file.getvalue()


def snapshots(ground: Ground, last: int) -> tuple[Any, list[str]]:
    fs = ground.mount(formats="paimon")
    names = [ground.name(f"t/snapshot/snapshot-{number}") for number in range(1, last + 1)]
    for name in names:
        fs.pipe_file(name, b"{}")
    return fs, names


@pytest.mark.parametrize("order", [(1, 2, 3, 4, 5, 6), (3, 1, 2, 5, 4, 6)], ids=["ascending", "at once"])
@EACH
def test_of_numbers_that_have_expired_nothing_is_kept(ground: Ground, order: tuple[int, ...]) -> None:
    fs, names = snapshots(ground, 9)
    for number in order:
        fs.rm_file(names[number - 1])
    assert kept(ground, fs, ground.name("t")) == set(names[6:])


@EACH
def test_of_what_expires_above_numbers_that_stay_nothing_is_kept(ground: Ground) -> None:
    """Iceberg's log of metadata may have dropped the first ones before its expiry was turned on."""
    fs = ground.mount()
    names = [ground.name(f"t/metadata/v{number}.metadata.json") for number in range(1, 10)]
    for name in names:
        fs.pipe_file(name, b'{"location": "x"}')
    for name in names[2:7]:
        fs.rm_file(name)
    assert kept(ground, fs, ground.name("t")) == {*names[:2], *names[7:]}


class Counted(FakeClaims):
    """A registry that counts its requests, and may refuse to forget."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.forgets = True

    def read(self, identity: str) -> Any:
        self.asked += 1
        return super().read(identity)

    def forget(self, identity: str, expected: Claim) -> Any:
        self.asked += 1
        refused = Refused(PermissionError("AccessDeniedException"))
        return super().forget(identity, expected) if self.forgets else refused


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> Counted:
    claims = Counted()
    monkeypatch.setattr("putifabsent.fsspec_plugin.stores.open_claims", lambda _: claims)
    return claims


@pytest.fixture
def claimed(memory: Ground, claims: Counted) -> Any:
    """Give a mount for which that registry decides."""
    return memory.mount(arbiter="dynamodb://claims?region=eu-west-1", skip_instance_cache=True)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("_delta_log/{:020d}.json", b"{}\n"),
        ("metadata/v{}.metadata.json", b'{"location": "x"}'),
        ("_spark_metadata/{}", b"v1\n{}"),
    ],
    ids=["delta", "iceberg", "spark"],
)
@pytest.mark.parametrize("forgets", [True, False], ids=["forgets", "refuses"])
def test_an_expiry_costs_no_more_the_more_have_expired(
    claimed: Any, claims: Counted, memory: Ground, name: str, body: bytes, forgets: bool
) -> None:
    claims.forgets = forgets
    names = [memory.name(name.format(number)) for number in range(2, 12)]
    for each in names:
        claimed.pipe_file(each, body)
    asked = [claims.asked]
    for each in names[:-1]:
        claimed.rm_file(each)
        asked.append(claims.asked)
    costs = {after - before for before, after in pairwise(asked)}
    assert len(costs) == 1
    assert len(claims.held) == (1 if forgets else 10)


@pytest.mark.parametrize("forgets", [True, False], ids=["forgets", "refuses"])
def test_however_many_have_expired_the_next_one_does(
    claimed: Any, claims: Counted, memory: Ground, forgets: bool
) -> None:
    last = 1500
    for number in (last, last + 1):
        claimed.pipe_file(memory.log(number), b"{}\n")
    identity = next(each for each in claims.held if each.endswith(memory.log(last)))
    for number in range(last):
        expired = replace(claims.held[identity], live=False, token=str(number))
        claims.held[identity.replace(memory.log(last), memory.log(number))] = expired
    claims.forgets = forgets
    claimed.rm_file(memory.log(last))
    assert len(claims.held) == (1 if forgets else last + 2)
    assert not claimed.exists(memory.log(last))


@EACH
def test_numbers_that_are_rolled_back_are_created_again(ground: Ground) -> None:
    fs, names = snapshots(ground, 6)
    for name in names[3:]:  # as a rollback may have it, the lowest first
        fs.rm_file(name)
    assert kept(ground, fs, ground.name("t")) == set(names)
    for name in names[3:]:
        fs.pipe_file(name, b"{}")
    assert kept(ground, fs, ground.name("t")) == set(names)


@EACH
def test_of_archived_instants_nothing_is_kept_when_they_are_over(ground: Ground) -> None:
    root = table_in(ground)
    old, instants = Writer(ground.mount(), root), [str(number) for number in range(100, 104)]
    history = f"{root}/.hoodie/timeline/history/100_103_0.parquet"
    old.fs.pipe_file(history, parquet())
    for instant in instants:
        completed = old.commits(instant)
        for name in (old.requested(instant), old.inflight(instant), completed):
            old.fs.rm_file(name)
    old.fs.rm_file(history)
    over = State(life="later", past=frozenset(instants), first=instants[0])
    ground.write(f"{root}/.hoodie/.putifabsent/ledger/-life", marker_of(over))
    writer = Writer(ground.mount(), root)
    writer.commits("200")
    assert kept(ground, writer.fs, root) >= {old.requested(instant) for instant in instants}
    fsck(ground.mount(), root, repair=True, grace=0)
    timeline = {name for name in kept(ground, writer.fs, root) if "/.putifabsent/" not in name}
    assert timeline == {writer.requested("200")}
    writer.commits("201")


@EACH
def test_of_a_table_that_was_removed_round_the_shim_nothing_is_kept_but_its_last_life(ground: Ground) -> None:
    root = table_in(ground)
    Writer(ground.mount(), root).commits("100")
    before = kept(ground, ground.mount(), root)
    ground.around.rm(root, recursive=True)
    writer = Writer(ground.mount(), table_in(ground))
    writer.commits("200")
    fsck(ground.mount(), root, repair=True, grace=0)
    life = f"{root}/.hoodie/.putifabsent/ledger/-life"
    assert kept(ground, writer.fs, root) & before <= {life}


@EACH
def test_of_hudi_s_names_nothing_is_kept_when_their_table_is_removed(ground: Ground) -> None:
    root = table_in(ground)
    writer = Writer(ground.mount(), root)
    for instant in ("100", "101"):
        writer.commits(instant)
    writer.fs.rm_file(writer.requested("100"))
    writer.fs.rm(root, recursive=True)
    assert kept(ground, writer.fs, root) == {f"{root}/.hoodie/.putifabsent/ledger/-life"}


@EACH
def test_of_however_many_tables_a_mount_remembers_so_many(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("mount", "guard"):
        monkeypatch.setattr(f"putifabsent.fsspec_plugin.{module}.MOST_KNOWN", 3)
    fs = ground.mount(skip_instance_cache=True)
    tables = [ground.name(f"t{number}") for number in range(8)]
    for number in (1, 2):
        for table in tables:
            ground.write(f"{table}/schema/schema-0", b"{}")
            fs.pipe_file(f"{table}/snapshot/snapshot-{number}", b"{}")
    for known in (fs.mount._agreed, fs.guard._evident):
        assert len(known) <= 3
    with pytest.raises(NameTaken):
        fs.pipe_file(f"{tables[0]}/snapshot/snapshot-2", b"{}")


def test_who_decides_is_known_of_a_table_that_was_forgotten(memory: Ground) -> None:
    fs = memory.mount(arbiter="ballot", skip_instance_cache=True)
    fs.pipe_file(memory.log(0), b"{}\n")
    fs.mount._agreed.clear()
    fs.mount.run(fs.mount.agreement(fs.guard.explain(memory.log(0))))


def test_who_has_written_a_checkpoint_prunes_and_others_do_where_it_does_not(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = table_in(memory)
    a, b = (Writer(memory.mount(writer_session=each), root) for each in "ab")
    begun: dict[str, list[Any]] = {"a": [], "b": []}
    monkeypatch.setattr(a.fs.guard.ledgers, "_prune", begun["a"].append)
    monkeypatch.setattr(b.fs.guard.ledgers, "_prune", begun["b"].append)
    for number in range(100, 165):
        a.commits(str(number))
    b.commits("165")
    assert begun["a"]
    assert not begun["b"]
    for number in range(166, 200):
        a.commits(str(number))
    b.commits("200")
    assert begun["b"]


def test_readers_remove_no_records(memory: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    root = table_in(memory)
    a = Writer(memory.mount(writer_session="a"), root)
    a.fs.guard.ledgers.pruning.add(f"{root}/.hoodie/.putifabsent")  # it never gets to it
    for number in range(100, 200):
        a.commits(str(number))
    before = len(records_of(memory, root))
    assert before > 3 * 64
    b = Writer(memory.mount(writer_session="b"), root)
    begun: list[Any] = []
    monkeypatch.setattr(b.fs.guard.ledgers, "_prune", begun.append)
    assert len(b.timeline()) == 3 * 100
    assert not begun
    b.commits("200")
    assert begun
