"""pyiceberg's door: unmodified pyiceberg commits through it, and no file of a table is ever replaced."""

from __future__ import annotations

import pickle
import uuid
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import load_file_io
from pyiceberg.io.fsspec import SIGNERS, FsspecFileIO, S3RequestSigner
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import StaticTable
from s3fs import S3FileSystem

import putifabsent
from putifabsent import ConfigError, Damaging, NameTaken
from putifabsent.fsspec_plugin import GuardedFileSystem
from putifabsent.iceberg import GuardedFileIO
from tests.stub import FaultStub

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fsspec_plugin.grounds import Ground

ROWS = pa.table({"x": pa.array([1, 2, 3], pa.int64())})
IMPLEMENTATION = {"py-io-impl": "putifabsent.iceberg.GuardedFileIO"}


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest) -> Ground:
    found: Ground = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def properties(place: Ground) -> dict[str, str]:
    """Tell pyiceberg, in its own words, where the store is."""
    if place.kind == "local":
        return dict(IMPLEMENTATION)
    return {
        **IMPLEMENTATION,
        "putifabsent.arbiter": "native",
        "s3.endpoint": place.options["client_kwargs"]["endpoint_url"],
        "s3.access-key-id": place.options["key"],
        "s3.secret-access-key": place.options["secret"],
        "s3.region": "us-east-1",
    }


@pytest.fixture
def catalog(place: Ground, properties: dict[str, str], tmp_path: Path) -> Iterator[SqlCatalog]:
    made = SqlCatalog(
        "test",
        **properties,
        uri=f"sqlite:///{tmp_path}/{uuid.uuid4().hex}.db",
        warehouse=location(place, "warehouse"),
    )
    made.create_namespace("db")
    yield made
    made.close()


def location(place: Ground, last: str) -> str:
    return f"{place.plain}://{place.name(last)}"


def test_half_a_metadata_file_is_a_failure_and_no_loss(place: Ground, properties: dict[str, str]) -> None:
    file = GuardedFileIO(properties).new_output(location(place, "t/metadata/v1.metadata.json"))
    stream = file.create()
    stream.write(b'{"format-version": 2, "schemas": [')
    with pytest.raises(Damaging):
        stream.close()
    assert not file.exists()


def write(io: Any, where: str, body: bytes, *, overwrite: bool = False) -> None:
    with io.new_output(where).create(overwrite=overwrite) as file:
        file.write(body)


def read(io: Any, where: str) -> bytes:
    with io.new_input(where).open() as file:
        found: bytes = file.read()
        return found


def test_a_table_is_written_and_read(place: Ground, catalog: SqlCatalog) -> None:
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    table.append(ROWS)
    assert isinstance(table.io, GuardedFileIO)
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 6
    table.overwrite(ROWS)
    table.delete("x == 1")
    assert sorted(catalog.load_table("db.t").scan().to_arrow()["x"].to_pylist()) == [2, 3]
    assert table.metadata_location.startswith(location(place, "warehouse")), "other engines can read it"
    states = [name for name in place.files() if name.endswith(".metadata.json")]
    assert len(states) >= 5
    for name in states:
        assert place.fs.backend.head(place.name(name)).holder.token, f"{name} was created"


def test_of_two_commits_on_one_state_none_is_lost(catalog: SqlCatalog) -> None:
    """The catalog tells the second that it comes too late, and pyiceberg tries again."""
    catalog.create_table("db.t", ROWS.schema)
    first, second = catalog.load_table("db.t"), catalog.load_table("db.t")
    first.append(ROWS)
    second.append(ROWS)
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 6


def test_path_based_metadata_is_created_once(
    place: Ground, catalog: SqlCatalog, properties: dict[str, str]
) -> None:
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    where = location(place, "t/metadata/v1.metadata.json")
    ToOutputFile.table_metadata(table.metadata, table.io.new_output(where))
    before = read(table.io, where)
    for overwrite in (False, True):
        with pytest.raises(NameTaken):
            ToOutputFile.table_metadata(table.metadata, table.io.new_output(where), overwrite=overwrite)
    assert read(table.io, where) == before
    assert StaticTable.from_metadata(where, properties).scan().to_arrow().num_rows == 3
    hint = location(place, "t/metadata/version-hint.text")
    for body in (b"1", b"2"):
        write(table.io, hint, body, overwrite=True)
    assert read(table.io, hint) == b"2"


@pytest.mark.parametrize("verb", ["cp", "mv"])
def test_path_based_metadata_that_was_copied_takes_the_next_version(
    place: Ground, catalog: SqlCatalog, properties: dict[str, str], verb: str
) -> None:
    """Its first versions have expired; and by name, the tenth comes before the ninth."""
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    for number in range(9, 12):
        version = table.io.new_output(location(place, f"t/metadata/v{number}.metadata.json"))
        ToOutputFile.table_metadata(table.metadata, version)
    getattr(place.fs, verb)(place.name("t"), place.name("copy"), recursive=True)
    table.append(ROWS)
    where = location(place, "copy/metadata/v12.metadata.json")
    ToOutputFile.table_metadata(table.metadata, table.io.new_output(where))
    with pytest.raises(NameTaken):
        ToOutputFile.table_metadata(table.metadata, table.io.new_output(where))
    rows = [
        StaticTable.from_metadata(location(place, f"copy/metadata/v{number}.metadata.json"), properties)
        .scan()
        .to_arrow()
        .num_rows
        for number in (9, 10, 11, 12)
    ]
    assert rows == [3, 3, 3, 6]


def test_an_output_file_that_may_not_overwrite_is_a_create(place: Ground, properties: dict[str, str]) -> None:
    io = load_file_io(properties)
    where = location(place, "t/data/file")
    write(io, where, b"one")
    with pytest.raises(FileExistsError):
        io.new_output(where).create()
    write(io, where, b"two", overwrite=True)
    assert read(io, where) == b"two"
    output = io.new_output(location(place, "t/data/other")).create()
    output.write(b"late")
    place.write(place.name("t/data/other"), b"the winner's")
    with pytest.raises(NameTaken):
        output.close()
    assert place.read(place.name("t/data/other")) == b"the winner's"


def test_files_can_be_asked_for_and_removed(place: Ground, properties: dict[str, str]) -> None:
    io = load_file_io(properties)
    where = location(place, "t/data/file")
    assert not io.new_input(where).exists()
    with pytest.raises(FileNotFoundError):
        io.new_input(where).open()
    write(io, where, b"one")
    assert io.new_input(where).exists()
    assert io.new_output(where).exists()
    assert len(io.new_input(where)) == len(io.new_output(where)) == 3
    io.delete(where)
    write(io, where, b"two")
    assert io.new_output(where).to_input_file().open().read() == b"two"
    io.delete(io.new_input(where))
    assert not io.new_input(where).exists()


def test_no_location_that_is_deleted_is_a_pattern(place: Ground, properties: dict[str, str]) -> None:
    io = load_file_io(properties)
    for last in ("p[1]/file", "p1/file"):
        write(io, location(place, last), b"one")
    io.delete(io.new_output(location(place, "p[1]/file")))
    assert place.files() == ["p1/file"]


def test_an_output_file_that_breaks_off_is_not_created(place: Ground, properties: dict[str, str]) -> None:
    io = load_file_io(properties)

    def writes() -> None:
        with io.new_output(location(place, "t/data/file")).create() as file:
            file.write(b"half")
            raise RuntimeError("on the way")

    with pytest.raises(RuntimeError):
        writes()
    assert place.files() == []


def test_it_pickles(place: Ground, properties: dict[str, str]) -> None:
    io = load_file_io({**properties, "putifabsent.writer": "the application's"})
    write(io, location(place, "t/metadata/v1.metadata.json"), b"one")
    again = pickle.loads(pickle.dumps(io))
    with pytest.raises(NameTaken, match="the application's"):
        write(again, location(place, "t/metadata/v1.metadata.json"), b"two", overwrite=True)


def test_a_local_path_is_one(local: Ground) -> None:
    """Pyiceberg takes a location without a scheme for a path."""
    io = load_file_io(IMPLEMENTATION)
    write(io, local.name("t/metadata/v1.metadata.json"), b"one")
    with pytest.raises(NameTaken):
        write(io, local.name("t/metadata/v1.metadata.json"), b"two", overwrite=True)


def test_the_mount_s_options_are_properties(local: Ground) -> None:
    io = load_file_io(
        {
            **IMPLEMENTATION,
            "putifabsent.guard": "**/claim",
            "putifabsent.writer": "me",
            "putifabsent.deadline": "7",
            "putifabsent.strict": "true",
        }
    )
    write(io, location(local, "claim"), b"one", overwrite=True)
    with pytest.raises(NameTaken, match="writer me"):
        write(io, location(local, "claim"), b"two", overwrite=True)
    assert isinstance(io, GuardedFileIO)
    fs = io.get_fs("file")
    assert (fs.writer, fs.mount.options.deadline, fs.mount.options.strict) == ("me", 7.0, True)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"putifabsent.gard": "x"}, "unknown property putifabsent.gard.*putifabsent.guard"),
        ({"putifabsent.asynchronous": "true"}, "unknown property putifabsent.asynchronous"),
        ({"putifabsent.fs": "x"}, "unknown property putifabsent.fs"),
        ({"putifabsent.deadline": "soon"}, "deadline must be a positive number of seconds, not 'soon'"),
        ({"putifabsent.formats": "icebreg"}, "did you mean 'iceberg'"),
        ({"putifabsent.arbiter": "nativ"}, "did you mean 'native'"),
    ],
)
def test_a_wrong_property_is_told(wrong: dict[str, str], told: str) -> None:
    io = load_file_io({**IMPLEMENTATION, **wrong})
    with pytest.raises(ConfigError, match=told):
        io.new_output("file:///nowhere")


class Signer(S3RequestSigner):
    """Signs as a catalog's service would, with rights that nobody has here."""

    def __call__(self, request: Any, **_: Any) -> None:
        request.headers["Authorization"] = f"{request.method} by the catalog"


def signed_at(stub: FaultStub, **own: str) -> Any:
    given = {"s3.endpoint": stub.url("s3"), "s3.region": "us-east-1", "s3.signer": "Signer", **own}
    return load_file_io({**IMPLEMENTATION, **given, "putifabsent.arbiter": "native"})


def test_who_signs_for_pyiceberg_signs_what_is_guarded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIGNERS, "Signer", Signer)
    with FaultStub() as stub:
        io = signed_at(stub)
        for name in ("v1.metadata.json", "data.parquet"):
            write(io, f"s3://bucket/t/metadata/{name}", b"{}")
            assert read(io, f"s3://bucket/t/metadata/{name}") == b"{}"
        requests = stub.requests
    assert {each.method for each in requests} >= {"PUT", "GET"}
    signed = [each.headers.get("authorization") for each in requests]
    assert signed == [f"{each.method} by the catalog" for each in requests]


def test_who_signs_is_told_the_region_of_pyiceberg_s_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, regions = tmp_path / "config", []
    config.write_text("[profile lake]\nregion = eu-west-3\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    sign = Signer.__call__

    def noted(signer: Signer, request: Any, **_: Any) -> None:
        regions.append(request.context["client_region"])
        sign(signer, request)

    monkeypatch.setattr(Signer, "__call__", noted)
    monkeypatch.setitem(SIGNERS, "Signer", Signer)
    with FaultStub() as stub:
        io = signed_at(stub, **{"s3.region": "", "s3.profile-name": "lake"})
        write(io, "s3://bucket/t/metadata/v1.metadata.json", b"{}")
    assert set(regions) == {"eu-west-3"}


def test_fsspec_keeps_nothing_of_each_table_whose_catalog_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIGNERS, "Signer", Signer)
    kept = []
    with FaultStub() as stub:
        for number in range(1, 4):
            write(signed_at(stub), f"s3://bucket/t/metadata/v{number}.metadata.json", b"{}")
            kept.append([len(each._cache) for each in (S3FileSystem, GuardedFileSystem)])
    assert kept == 3 * kept[:1]


@pytest.mark.parametrize("protocol", ["file", "s3"])
def test_guarding_a_protocol_does_not_reach_pyiceberg_s_own_file_io(protocol: str) -> None:
    """It makes its filesystems itself, past fsspec's registry: so the way is ``py-io-impl``."""
    putifabsent.guard_protocol(protocol)
    try:
        assert isinstance(fsspec.filesystem(protocol), GuardedFileSystem)
        own = FsspecFileIO({}).get_fs(protocol)
    finally:
        putifabsent.unguard_protocol(protocol)
    assert not isinstance(own, GuardedFileSystem), "pyiceberg has changed: say so in the documentation"
