"""Which table an address is of; and what is said where there is none."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import fsspec
import pytest

from putifabsent.errors import ConfigError
from putifabsent.timeline import HudiTimeline, is_table, read, tables_below
from tests.stub import FaultStub
from tests.timeline.tables import Delta, Hudi, Paimon

if TYPE_CHECKING:
    from pathlib import Path

    from tests.timeline.conftest import Place

INSTANTS = {"hoodie.timeline.path": "instants"}


def test_a_table_shows_its_format(place: Place) -> None:
    Hudi(place.fs, f"{place.root}/h")
    Paimon(place.fs, f"{place.root}/p")
    Delta(place.fs, f"{place.root}/d").commit(0, {"add": {}})
    found = {last: read(f"{place.root}/{last}", fs=place.fs).format for last in "hpd"}
    assert found == {"h": "hudi", "p": "paimon", "d": "delta"}


def test_an_address_and_a_folder_are_the_same(tmp_path: Path) -> None:
    Hudi(fsspec.filesystem("file"), str(tmp_path))
    roots = {read(url).root for url in (str(tmp_path), f"file://{tmp_path}", f"{tmp_path}/")}
    assert roots == {str(tmp_path)}


def test_the_root_of_a_filesystem_may_be_a_table(tmp_path: Path) -> None:
    table = Hudi(fsspec.filesystem("file"), str(tmp_path))
    table.commit("20260101120000001", "20260101120000002")
    fs = fsspec.filesystem("dir", path=str(tmp_path), fs=table.fs)
    assert [each.action for each in read("", fs=fs).records()] == ["commit"]


def test_options_are_the_filesystem_s(tmp_path: Path) -> None:
    Hudi(fsspec.filesystem("file"), str(tmp_path))
    assert read(str(tmp_path), auto_mkdir=True, skip_instance_cache=True).fs.auto_mkdir


def test_no_table_is_said_to_be_none(place: Place) -> None:
    place.fs.makedirs(place.root, exist_ok=True)
    with pytest.raises(ConfigError, match="there is no table"):
        read(place.root, fs=place.fs)
    with pytest.raises(ConfigError, match="there is no table"):
        read(f"{place.root}/nowhere", fs=place.fs)


@pytest.mark.parametrize("form", ["hudi", "paimon", "delta"])
def test_where_there_is_none_of_the_format_asked_for_it_is_said(place: Place, form: str) -> None:
    place.fs.makedirs(place.root, exist_ok=True)
    with pytest.raises(ConfigError, match=f"there is no {form.capitalize()} table"):
        read(place.root, fs=place.fs, format=form)


def test_a_folder_that_is_two_tables_is_not_guessed_at(place: Place) -> None:
    Hudi(place.fs, place.root)
    Paimon(place.fs, place.root)
    with pytest.raises(ConfigError, match="hudi and of paimon"):
        read(place.root, fs=place.fs)
    assert isinstance(read(place.root, fs=place.fs, format="hudi"), HudiTimeline)


def test_an_unknown_format_is_refused(place: Place) -> None:
    with pytest.raises(ConfigError, match="'lance'"):
        read(place.root, fs=place.fs, format="lance")


@pytest.mark.parametrize("version", [5, 7, 10, "x", ""])
def test_a_table_of_an_unknown_version_is_refused(place: Place, version: int | str) -> None:
    Hudi(place.fs, place.root, version)
    with pytest.raises(ConfigError, match="can be read"):
        read(place.root, fs=place.fs)


def test_while_the_properties_are_written_anew_their_copy_counts(place: Place) -> None:
    Hudi(place.fs, place.root)
    path = f"{place.root}/.hoodie/hoodie.properties"
    place.fs.pipe_file(f"{path}.backup", place.fs.cat_file(path))
    place.fs.pipe_file(path, b"")
    assert read(place.root, fs=place.fs).format == "hudi"
    place.fs.rm_file(path)
    assert read(place.root, fs=place.fs).format == "hudi"


@pytest.mark.parametrize("cut", ["hoodie.table.checksum", "hoodie.table.version", "stants"])
def test_where_the_properties_are_torn_their_copy_counts(place: Place, cut: str) -> None:
    table = Hudi(place.fs, place.root, **{"hoodie.table.checksum": str(zlib.crc32(b".t")), **INSTANTS})
    table.write(".hoodie/instants/20260101120000001.commit.requested")
    path = f"{place.root}/.hoodie/hoodie.properties"
    whole = place.fs.cat_file(path)
    place.fs.pipe_file(f"{path}.backup", whole)
    place.fs.pipe_file(path, whole[: whole.index(cut.encode())])
    assert [each.time for each in read(place.root, fs=place.fs).records()] == ["20260101120000001"]


def test_properties_that_are_written_anew_between_two_reads_are_found(place: Place) -> None:
    Hudi(place.fs, place.root, **{"hoodie.table.checksum": str(zlib.crc32(b".t"))})
    hidden = [f"{place.root}/.hoodie/hoodie.properties"]

    class Rewritten(type(place.fs)):  # type: ignore[misc]
        """The first read comes after their removal, and the second after that of their copy."""

        cachable = False

        def cat_file(self, path: str, **more: object) -> bytes:
            if hidden and path.endswith("hoodie.properties"):
                raise FileNotFoundError(hidden.pop())
            return bytes(super().cat_file(path, **more))

    assert HudiTimeline(Rewritten(), place.root).layout.version == 9


def test_a_store_that_refuses_is_not_taken_for_an_empty_one(memory: Place) -> None:
    Hudi(memory.fs, memory.root)

    class Refusing(type(memory.fs)):  # type: ignore[misc]
        cachable = False

        def ls(self, path: str, **more: object) -> list[object]:
            raise PermissionError(13, "refused", path)

    with pytest.raises(PermissionError):
        list(HudiTimeline(Refusing(), memory.root).active())


def test_without_the_packages_it_is_said_which_are_wanted(
    monkeypatch: pytest.MonkeyPatch, memory: Place
) -> None:
    table = Hudi(memory.fs, memory.root)
    name = "20260101120000001_20260101120000001_0.parquet"
    table.manifest(
        1, {name: table.archive(name, [("20260101120000001", "20260101120000002", "commit", None, None)])}
    )
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"putifabsent\[timeline\]"):
        list(read(table.root, fs=table.fs).history())


def test_tables_are_found_below_a_folder_in_order_and_not_within_each_other(place: Place) -> None:
    fs, root = place.fs, place.root
    for folder in (
        "b/t/.hoodie",
        "b/t/.hoodie/metadata/.hoodie",
        "b/t/p=1/_delta_log",
        "a/b/c/deep/_delta_log",
        "a/b/c/too/deep/_delta_log",
        "paimon/schema/paimon/schema",
        "paimon/schema/paimon/snapshot",
        "_hidden/t/_delta_log",
    ):
        fs.makedirs(f"{root}/{folder}", exist_ok=True)
        fs.pipe_file(f"{root}/{folder}/file", b"")
    found = list(tables_below(root, fs=fs))
    plain = str(fs._strip_protocol(root))
    assert [each.removeprefix(f"{plain}/") for each in found] == ["a/b/c/deep", "b/t", "paimon/schema/paimon"]
    assert list(tables_below(f"{root}/b/t", fs=fs)) == [f"{plain}/b/t"]
    assert list(tables_below(f"{root}/nothing", fs=fs)) == []


def test_a_table_that_others_have_made_since_is_there() -> None:
    log = f"_delta_log/{0:020d}.json"
    with FaultStub() as stub:
        fs = fsspec.filesystem("s3", **stub.storage_options("s3"))
        stub.put("bucket", f"lake/a/{log}", b'{"add": {}}')
        stub.put("bucket", "lake/c/else", b"")
        assert list(tables_below("bucket/lake", fs=fs)) == ["bucket/lake/a"]
        assert fs.ls("bucket/lake/c", detail=False) == ["bucket/lake/c/else"]
        stub.put("bucket", f"lake/b/{log}", b'{"add": {}}')
        stub.put("bucket", f"lake/c/{log}", b'{"add": {}}')
        assert is_table("bucket/lake/c", fs=fs)
        assert list(tables_below("bucket/lake", fs=fs)) == [f"bucket/lake/{last}" for last in "abc"]
