"""Whole tables are copied, uploaded and moved, many files at a time; each series comes in ascending order."""

from __future__ import annotations

import asyncio
import os
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from fsspec import generic
from fsspec.callbacks import Callback

from putifabsent import NameExpired, NameTaken
from putifabsent.fsspec_plugin import GuardedFileSystem, GuardedS3FileSystem
from tests.fsspec_plugin.grounds import Ground, Served
from tests.fsspec_plugin.whole_tables import TABLES, commit, files_of
from tests.servers import BucketServer, server
from tests.stub import Fault, Op
from tests.stub.clients import filesystem
from tests.vouching import vouch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.stub import FaultStub
    from tests.stub.server import Cloud

VERBS = ["cp", "put", "mv"]
HERE = ["memory-native", "local-native"]
GROUNDS = pytest.mark.parametrize("ground", [*HERE, "s3-native"], indirect=True)
SERVERS: dict[Served, str] = {"gcs": "fake-gcs-server", "azure": "azurite"}
PAIRS = [(table, verb) for table in TABLES for verb in VERBS]
# Over a network, of each verb two tables or one; all of them in a long run.
SOME = [*zip(TABLES, 2 * VERBS, strict=False)]
# In a short run each verb has one of Google's and of Azure's.
FEW = SOME[: len(VERBS)] if os.environ.get("SHORT") else SOME
OTHERS = [pair for pair in PAIRS if pair not in SOME] if os.environ.get("LONG") else []


@pytest.fixture(scope="module", params=[pytest.param(each, marks=pytest.mark.servers) for each in SERVERS])
def served(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """Give a folder of a real server of Google's or Azure's protocol."""
    kind: Served = request.param
    with server(SERVERS[kind]) as running:
        assert isinstance(running, BucketServer)
        vouch(running.endpoint, kind)
        yield Ground(kind, running.storage_options, f"{running.new_bucket()}/tables")


def guarded(ground: Ground) -> Any:
    """Return a guarded filesystem; where it is asynchronous it works on sixteen files at a time."""
    return ground.mount(**({} if ground.kind in ("memory", "local") else {"batch_size": 16}))


def write(ground: Ground, folder: str, files: dict[str, bytes]) -> None:
    for name in files:
        ground.around.makedirs(f"{folder}/{name}".rpartition("/")[0], exist_ok=True)
    ground.around.pipe({f"{folder}/{name}": data for name, data in files.items()})


def write_here(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def bytes_below(ground: Ground, folder: str) -> dict[str, bytes]:
    """Return what another program reads below a folder."""
    found = [name for name in ground.around.find(folder) if "/.putifabsent/" not in name]
    return {name[len(folder) + 1 :]: data for name, data in ground.around.cat(found).items()} if found else {}


def arrives(ground: Ground, table: str, verb: str, here: Path) -> None:
    """Bring a table to a folder, and commit to it there."""
    fs, files, target = guarded(ground), files_of(table), ground.name(f"{table} by {verb}")
    source = str(here) if verb == "put" else ground.name(f"{table} to {verb}")
    if verb == "put":
        write_here(here, files)
    else:
        write(ground, source, files)
    getattr(fs, verb)(source, target, recursive=True)
    assert bytes_below(ground, target) == files
    if verb == "mv":
        assert bytes_below(ground, source) == {}
    commit(fs, table, target)
    there = bytes_below(ground, target)
    assert there.items() >= files.items()
    assert len(there) > len(files)
    with pytest.raises(NameTaken):
        commit(guarded(ground), table, target)


@pytest.mark.parametrize(
    ("ground", "table", "verb"),
    [
        *(("local-native", *pair) for pair in PAIRS),
        *((ground, *pair) for ground in ("memory-native", "s3-native") for pair in SOME),
        *(pytest.param("s3-native", *pair, marks=pytest.mark.servers) for pair in OTHERS),
    ],
    indirect=["ground"],
)
def test_a_whole_table_arrives_byte_for_byte_and_is_committed_to(
    ground: Ground, table: str, verb: str, tmp_path: Path
) -> None:
    arrives(ground, table, verb, tmp_path / "source")


@pytest.mark.clouds
@pytest.mark.parametrize(("table", "verb"), [*FEW, *OTHERS])
def test_a_whole_table_arrives_on_gcs_and_azure_and_is_committed_to(
    served: Ground, table: str, verb: str, tmp_path: Path
) -> None:
    arrives(served, table, verb, tmp_path / "source")


@GROUNDS
def test_a_callback_hears_of_each_file_of_a_table_once(ground: Ground, tmp_path: Path) -> None:
    files, heard = files_of("hudi"), Callback()
    write_here(tmp_path / "here", files)
    source = [str(tmp_path / "here" / name) for name in files]
    for name in files:
        ground.around.makedirs(ground.name(name).rpartition("/")[0], exist_ok=True)
    guarded(ground).put(source, [ground.name(name) for name in files], callback=heard)
    assert (heard.size, heard.value) == (len(files), len(files))


ASYNCHRONOUSLY = [
    *[(f"{kind}-native", verb) for kind in ("memory", "local") for verb in ("_copy", "_put")],
    *[("local-native", verb) for verb in ("_get", "get")],
]


@pytest.mark.parametrize(("table", "what"), [*zip(TABLES, cycle(["folder", "lists"]))])
@pytest.mark.parametrize(("ground", "verb"), ASYNCHRONOUSLY, indirect=["ground"])
def test_a_whole_table_arrives_in_threads_and_what_is_got_onto_a_guarded_disk_too(
    ground: Ground, table: str, verb: str, what: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    fs, files, target = guarded(ground), files_of(table), ground.name("to")
    source = ground.name("from")
    if verb == "_put":
        source = str(tmp_path_factory.mktemp("from"))
        write_here(Path(source), files)
    else:
        write(ground, source, files)
    names = list(reversed(files))
    lists = [f"{source}/{name}" for name in names], [f"{target}/{name}" for name in names]
    if what == "lists" and ground.kind == "local":
        for name in names:
            ground.around.makedirs(f"{target}/{name}".rpartition("/")[0], exist_ok=True)
    arguments = lists if what == "lists" else (f"{source}/", f"{target}/")
    done = getattr(fs, verb)(*arguments, recursive=what == "folder")
    if verb != "get":
        asyncio.run(done)
    assert bytes_below(ground, target) == files
    commit(fs, table, target)


@GROUNDS
def test_a_whole_series_is_piped_and_copied_from_lists_in_any_order(ground: Ground) -> None:
    fs, files = guarded(ground), files_of("delta")
    piped, copied = ground.name("piped"), ground.name("copied")
    for folder in piped, copied:
        ground.around.makedirs(f"{folder}/_delta_log", exist_ok=True)
        ground.around.makedirs(f"{folder}/dt=1", exist_ok=True)
    fs.pipe({f"{piped}/{name}": data for name, data in reversed(files.items())})
    assert bytes_below(ground, piped) == files
    names = list(reversed(files))
    fs.copy([f"{piped}/{name}" for name in names], [f"{copied}/{name}" for name in names])
    assert bytes_below(ground, copied) == files


@pytest.mark.parametrize("cloud", ["s3", pytest.param("gcs", marks=pytest.mark.clouds)])
def test_one_series_is_created_one_after_the_other(stub: FaultStub, cloud: Cloud) -> None:
    fs = GuardedFileSystem(fs=filesystem(stub, cloud), arbiter="native", skip_instance_cache=True)
    log = [f"bucket/t/_delta_log/{number:020d}.json" for number in (12, 10, 11)]
    # Whoever did not wait for it would be done before it is tried again.
    stub.script(Op.PUT, Fault.CONFLICT_409)
    fs.pipe(dict.fromkeys(log, b"x"))
    made = sorted((each.generation, key) for (_, key), each in stub.objects.items())
    assert [key[-7:-5] for _, key in made] == ["10", "11", "12"]


def test_what_follows_a_number_that_was_not_created_is_not_created(stub: FaultStub) -> None:
    fs = GuardedFileSystem(fs=filesystem(stub, "s3"), arbiter="native", skip_instance_cache=True)
    stub.script(Op.PUT, Fault.FORBIDDEN_403)
    with pytest.raises(PermissionError):
        fs.pipe({f"bucket/t/_delta_log/{number:020d}.json": b"x" for number in (2, 1, 0)})
    assert not stub.objects


@pytest.mark.parametrize("said", [{}, {"batch_size": 1, "on_error": "raise"}])
def test_rsync_says_nothing_of_what_is_refused_unless_it_is_told_how_to_copy(
    s3: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any]
) -> None:
    """It copies many at a time, and drops their errors: say so where that may lose an entry."""
    names = [f"_delta_log/{number:020d}.json" for number in range(7)]
    write_here(tmp_path, dict.fromkeys(names, b"{}"))
    put, ended = GuardedS3FileSystem._put_file, {name: asyncio.Event() for name in names}
    # The sixth, then the fourth, which looks expired without its neighbours.
    before = {names[3]: names[5], names[2]: names[3], names[4]: names[3]}

    async def held(fs: Any, lpath: Any, rpath: Any, *args: Any, **options: Any) -> Any:
        name = rpath[rpath.index("_delta_log") :]
        if not said and name in before:
            await ended[before[name]].wait()
        try:
            return await put(fs, lpath, rpath, *args, **options)
        finally:
            ended[name].set()

    monkeypatch.setattr(GuardedS3FileSystem, "_put_file", held)
    monkeypatch.setitem(generic._generic_fs, "pias3", s3.mount())
    monkeypatch.setitem(generic._generic_fs, "file", fsspec.filesystem("file"))
    target = s3.url(s3.name("to"))
    generic.rsync(f"file://{tmp_path}", target, fs=generic.GenericFileSystem("generic"), **said)
    left_out = set(names) - {*bytes_below(s3, s3.name("to"))}
    # Others may be, too: in which order they come is up to the loop.
    assert not left_out if said else names[3] in left_out


@GROUNDS
def test_a_failed_copy_of_a_series_ends(ground: Ground) -> None:
    """Nobody waits for ever for one who has failed."""
    fs, source, target = guarded(ground), ground.name("from"), ground.name("to")
    for folder in source, target:
        ground.around.makedirs(f"{folder}/metadata", exist_ok=True)
    for number in range(1, 20):
        ground.write(f"{source}/metadata/v{number}.metadata.json", b"x")
    ground.write(f"{target}/metadata/v3.metadata.json", b"another's")
    with pytest.raises(NameTaken):
        fs.copy(f"{source}/metadata/", f"{target}/metadata/", recursive=True)
    assert ground.read(f"{target}/metadata/v3.metadata.json") == b"another's"


@GROUNDS
@pytest.mark.parametrize("verb", ["cp", "mv"])
def test_a_table_that_is_there_is_not_gone_on_with_by_another_s_commits(ground: Ground, verb: str) -> None:
    fs, source, target = guarded(ground), ground.name("from"), ground.name("to")
    numbers = {f"{number:020d}.json": b"another's" for number in range(5)}
    write(ground, f"{source}/_delta_log", numbers)
    write(ground, f"{target}/_delta_log", dict.fromkeys([*numbers][:2], b"x"))
    # In a list, for on a disk a folder is moved as a whole.
    names = [[f"{each}/_delta_log/{name}" for name in numbers] for each in (source, target)]
    with pytest.raises(NameTaken):
        getattr(fs, verb)(*names)
    assert bytes_below(ground, f"{target}/_delta_log") == dict.fromkeys([*numbers][:2], b"x")
    assert bytes_below(ground, f"{source}/_delta_log") == numbers


@pytest.mark.parametrize(
    ("ground", "table", "verb"),
    [
        *(("s3-native", *pair) for pair in SOME),
        # On a disk a folder is moved as a whole, into one that is there.
        *((each, *pair) for each in HERE for pair in zip(TABLES, cycle(["put", "cp"]))),
    ],
    indirect=["ground"],
)
def test_of_a_table_that_is_there_nothing_is_written_over(
    ground: Ground, table: str, verb: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its properties neither, nor its data, which nothing guards."""
    fs, source, target = guarded(ground), f"{ground.name('from')}/", f"{ground.name('to')}/"
    if verb == "put":
        source = f"{tmp_path_factory.mktemp('from')}/"
        write_here(Path(source), files_of(table))
    else:
        write(ground, source.rstrip("/"), files_of(table))
    there = {name: data + b"another's" for name, data in files_of(table).items()}
    write(ground, target.rstrip("/"), there)
    with pytest.raises(NameTaken):
        getattr(fs, verb)(source, target, recursive=True)
    assert bytes_below(ground, target.rstrip("/")) == there


@GROUNDS
def test_a_number_in_a_gap_below_others_has_expired_and_is_nobody_s(ground: Ground) -> None:
    fs = ground.fs
    ground.around.makedirs(ground.name("_delta_log"), exist_ok=True)
    for number in range(10, 20):
        ground.write(ground.log(number), b"x")
    with pytest.raises(NameExpired) as expired:
        fs.pipe_file(ground.log(5), b"late")
    assert expired.value.holder is None
    assert "held by" not in str(expired.value)
    assert not ground.is_there(ground.log(5))


@GROUNDS
def test_a_number_in_a_gap_that_its_format_may_leave_stays(ground: Ground) -> None:
    fs, offsets = ground.mount(formats=["spark"]), ground.name("offsets")
    ground.around.makedirs(offsets, exist_ok=True)
    for number in range(10, 20):
        ground.write(f"{offsets}/{number}", b"x")
    with pytest.raises(OSError, match="unknown") as unknown:
        fs.pipe_file(f"{offsets}/5", b"late")
    assert not isinstance(unknown.value, FileExistsError)
    assert ground.read(f"{offsets}/5") == b"late"
