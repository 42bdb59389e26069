"""Whole tables are copied, uploaded and moved, many files at a time; each series comes in ascending order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent import NameExpired, NameTaken
from putifabsent.fsspec_plugin import GuardedFileSystem
from tests.stub import Fault, Op
from tests.stub.clients import filesystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fsspec_plugin.grounds import Ground
    from tests.stub import FaultStub
    from tests.stub.server import Cloud

# What came before has expired; and by name, the tenth of these comes before the first.
NUMBERS = range(85, 285)


def delta() -> list[str]:
    return [f"_delta_log/{number:020d}.json" for number in NUMBERS]


def paimon() -> list[str]:
    return ["schema/schema-0", "schema/schema-1", *(f"snapshot/snapshot-{number}" for number in NUMBERS)]


def iceberg() -> list[str]:
    return [f"metadata/v{number}.metadata.json" for number in NUMBERS]


def hudi() -> list[str]:
    times = [f"20260101000000{number:03d}" for number in NUMBERS[:67]]
    timeline = [[f"{time}.commit.requested", f"{time}.inflight", f"{time}_{time}.commit"] for time in times]
    return [
        ".hoodie/hoodie.properties",
        *(f".hoodie/timeline/{name}" for names in timeline for name in names),
    ]


def spark() -> list[str]:
    return ["metadata", *(f"{log}/{number}" for log in ("offsets", "commits") for number in NUMBERS[:100])]


TABLES: dict[str, tuple[Callable[[], list[str]], str]] = {
    "delta": (delta, f"_delta_log/{285:020d}.json"),
    "paimon": (paimon, "snapshot/snapshot-285"),
    "iceberg": (iceberg, "metadata/v285.metadata.json"),
    "hudi": (hudi, ".hoodie/timeline/20260101000000999.commit.requested"),
    "spark": (spark, "offsets/185"),
}
VERSION_8 = b"hoodie.table.name=t\nhoodie.table.version=8\nhoodie.timeline.layout.version=2\n"


def files_of(table: str) -> dict[str, bytes]:
    names = [*TABLES[table][0](), "data/part-0.parquet", "data/part-1.parquet"]
    return {name: VERSION_8 if "properties" in name else f"{table} {name}".encode() for name in names}


def guarded(ground: Ground) -> Any:
    """Return a guarded filesystem; where it is asynchronous it works on sixteen files at a time."""
    return ground.mount(**({"batch_size": 16} if ground.kind == "s3" else {}))


def bytes_below(fs: Any, folder: str) -> dict[str, bytes]:
    return {
        name[len(folder) + 1 :]: fs.cat_file(name) for name in fs.find(folder) if "/.putifabsent/" not in name
    }


@pytest.mark.parametrize("verb", ["cp", "put", "mv"])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("ground", ["memory-native", "local-native", "s3-native"], indirect=True)
def test_a_whole_table_arrives_byte_for_byte_and_is_committed_to(
    ground: Ground, table: str, verb: str, tmp_path: Path
) -> None:
    fs, files = guarded(ground), files_of(table)
    source, target = ground.name("from"), ground.name("to")
    if verb == "put":
        source = str(tmp_path / "source")
    for name, data in files.items():
        if verb == "put":
            Path(source, name).parent.mkdir(parents=True, exist_ok=True)
            Path(source, name).write_bytes(data)
        else:
            ground.around.makedirs(f"{source}/{name}".rpartition("/")[0], exist_ok=True)
            ground.write(f"{source}/{name}", data)
    getattr(fs, verb)(source, target, recursive=True)
    assert bytes_below(ground.around, target) == files
    following = f"{target}/{TABLES[table][1]}"
    fs.pipe_file(following, b"the next commit")
    with pytest.raises(NameTaken):
        fs.pipe_file(following, b"another's")
    assert ground.read(following) == b"the next commit"


@pytest.mark.parametrize("ground", ["memory-native", "local-native", "s3-native"], indirect=True)
def test_a_whole_series_is_piped_and_copied_from_lists_in_any_order(ground: Ground) -> None:
    fs, files = guarded(ground), files_of("delta")
    piped, copied = ground.name("piped"), ground.name("copied")
    for folder in piped, copied:
        ground.around.makedirs(f"{folder}/_delta_log", exist_ok=True)
        ground.around.makedirs(f"{folder}/data", exist_ok=True)
    fs.pipe({f"{piped}/{name}": data for name, data in reversed(files.items())})
    assert bytes_below(ground.around, piped) == files
    names = list(reversed(files))
    fs.copy([f"{piped}/{name}" for name in names], [f"{copied}/{name}" for name in names])
    assert bytes_below(ground.around, copied) == files


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


@pytest.mark.parametrize("ground", ["memory-native", "local-native", "s3-native"], indirect=True)
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


@pytest.mark.parametrize("ground", ["memory-native", "local-native", "s3-native"], indirect=True)
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


@pytest.mark.parametrize("ground", ["memory-native", "local-native", "s3-native"], indirect=True)
def test_a_number_in_a_gap_that_its_format_may_leave_stays(ground: Ground) -> None:
    fs, offsets = ground.mount(formats=["spark"]), ground.name("offsets")
    ground.around.makedirs(offsets, exist_ok=True)
    for number in range(10, 20):
        ground.write(f"{offsets}/{number}", b"x")
    with pytest.raises(OSError, match="unknown") as unknown:
        fs.pipe_file(f"{offsets}/5", b"late")
    assert not isinstance(unknown.value, FileExistsError)
    assert ground.read(f"{offsets}/5") == b"late"
