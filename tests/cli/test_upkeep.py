"""``fsck``, ``migrate``, ``leave``, ``drop``: what they print, what they exit with, and that they ask."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from typer.testing import CliRunner

from putifabsent.backends.base import Refused
from putifabsent.cli.app import app
from putifabsent.timeline.files import lacks_bucket
from tests.stub import FaultStub

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typer.testing import Result

BALLOT = ("-o", "arbiter=ballot")


@pytest.fixture(autouse=True)
def _no_arbiter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PUTIFABSENT_ARBITER", raising=False)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a table with one name that is not published, and one that was deleted."""
    (tmp_path / "_delta_log").mkdir()
    fs = fsspec.filesystem("piafile", arbiter="ballot", skip_instance_cache=True)
    for number in range(3):
        fs.pipe_file(log(tmp_path, number), b"{}")
    fs.rm_file(log(tmp_path, 0))
    fsspec.filesystem("file").rm_file(log(tmp_path, 1))
    return tmp_path


def log(table: Path, number: int) -> str:
    return str(table / "_delta_log" / f"{number:020d}.json")


def run(*arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(app, arguments, **options)


def printed(result: Result) -> Any:
    return json.loads(result.stdout)


def state(table: Path) -> list[Path]:
    return [path for path in table.rglob("*") if ".putifabsent" in path.parts]


def test_fsck_says_what_it_finds_and_mends_nothing_unasked(table: Path) -> None:
    result = run("fsck", str(table), *BALLOT, "--grace", "0")
    assert result.exit_code == 1
    assert "unpublished" in result.stdout
    assert "publish it" in result.stdout
    assert "2 names, 1 findings, 1 left" in result.stdout
    assert run("fsck", str(table), *BALLOT, "--grace", "0").stdout == result.stdout


def test_fsck_mends_what_it_is_told_to(table: Path) -> None:
    result = run("fsck", str(table), *BALLOT, "--grace", "0", "--repair")
    assert result.exit_code == 0, result.output
    assert "1 findings, 0 left" in result.stdout
    assert (table / "_delta_log" / f"{1:020d}.json").read_bytes() == b"{}"
    again = run("fsck", str(table), *BALLOT, "--grace", "0")
    assert again.exit_code == 0
    assert "nothing is left of dead writers" in again.stdout


def test_fsck_prints_one_json_value(table: Path) -> None:
    result = run("fsck", str(table), *BALLOT, "--grace", "0", "--json")
    assert result.exit_code == 1
    answer = printed(result)
    assert (answer["names"], answer["busy"]) == (2, 0)
    one = next(each for each in answer["found"] if each["what"] == "unpublished")
    assert one["name"] == log(table, 1)
    assert one["path"].startswith(f"{table}/.putifabsent/ballot/_delta_log/")
    assert (one["objects"], one["repair"], one["left"]) == (1, "publish it", True)
    assert one["newest"] is not None
    assert {
        each["left"]
        for each in printed(run("fsck", str(table), *BALLOT, "--grace", "0", "--repair", "--json"))["found"]
    } == {False}


def test_fsck_says_what_it_may_not_mend(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Refused(PermissionError("s3:DeleteObject"))
    monkeypatch.setattr("putifabsent.backends.local.LocalStore.delete", lambda *_: refused)
    (table / ".putifabsent" / f"{uuid.uuid4()}.{uuid.uuid4().hex}").write_bytes(b"")
    result = run("fsck", str(table), *BALLOT, "--grace", "0", "--repair")
    assert result.exit_code == 1
    assert "s3:DeleteObject" in result.stdout


def test_fsck_leaves_what_is_young_to_its_writers(table: Path) -> None:
    result = run("fsck", str(table), *BALLOT, "--repair")
    assert result.exit_code == 0
    assert "Of 1 more something is young" in result.stdout


def test_fsck_by_another_arbiter_than_the_writers_is_refused(table: Path) -> None:
    result = run("fsck", str(table), "--json")
    assert result.exit_code == 2
    assert "another mount of the table ballot" in printed(result)["message"]


def test_what_is_lost_is_freed_only_where_that_is_said(table: Path) -> None:
    for path in state(table):
        if f"{1:020d}.json" in str(path) and path.name.startswith("P~"):
            path.unlink()
    fsck = ("fsck", str(table), *BALLOT, "--grace", "0", "--repair")
    result = run(*fsck)
    assert result.exit_code == 1
    assert "lost" in result.stdout
    assert run(*fsck, "--free-lost").exit_code == 0
    assert run(*fsck).exit_code == 0


@pytest.mark.parametrize("verb", [("leave",), ("drop",), ("migrate", "--to", "native")])
def test_verbs_that_want_the_writers_stopped_ask(table: Path, verb: tuple[str, ...]) -> None:
    before = state(table)
    result = run(*verb, str(table), *BALLOT, input="n\n")
    assert result.exit_code == 1
    assert "All its writers must be stopped. Are they?" in result.stderr
    assert state(table) == before


@pytest.mark.parametrize(
    ("verb", "outcome", "kept"),
    [(("leave",), "left", set()), (("migrate", "--to", "native"), "moved", {".putifabsent", "arbiters"})],
)
def test_a_table_can_do_without_its_arbiter(
    table: Path, verb: tuple[str, ...], outcome: str, kept: set[str]
) -> None:
    result = run(*verb, str(table), *BALLOT, "--json", "--yes")
    assert result.exit_code == 0, result.output
    answer = printed(result)
    assert (answer["outcome"], answer["name"]) == (outcome, str(table))
    assert answer["removed"] > 0
    assert {each.name for each in state(table) if each.is_dir()} == kept
    assert [path.name for path in sorted(table.rglob("*.json"))] == [f"{n:020d}.json" for n in (1, 2)]


def test_yes_on_the_keyboard_is_enough(table: Path) -> None:
    result = run("leave", str(table), *BALLOT, input="y\n")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"left {table}: "), "what is asked is no part of the answer"


def test_a_table_with_names_is_not_dropped(table: Path) -> None:
    run("fsck", str(table), *BALLOT, "--grace", "0", "--repair")
    before = state(table)
    result = run("drop", str(table), *BALLOT, "--yes", "--json")
    assert result.exit_code == 4
    assert "live: remove them, or `putifabsent leave` the table" in printed(result)["message"]
    assert state(table) == before


def test_a_table_that_is_gone_is_dropped(table: Path) -> None:
    fs = fsspec.filesystem("piafile", arbiter="ballot", skip_instance_cache=True)
    fs.rm(str(table), recursive=True)
    assert state(table)
    result = run("drop", str(table), *BALLOT, "--yes")
    assert result.exit_code == 0
    assert state(table) == []


def test_an_unknown_arbiter_is_a_usage_error(table: Path) -> None:
    result = run("migrate", str(table), *BALLOT, "--to", "balot", "--yes")
    assert result.exit_code == 2
    assert "did you mean 'ballot'?" in result.stderr


@pytest.mark.parametrize("verb", [("fsck",), ("leave", "--yes"), ("migrate", "--to", "ballot", "--yes")])
def test_where_nothing_is_nothing_is_well(verb: tuple[str, ...], tmp_path: Path) -> None:
    result = run(verb[0], str(tmp_path / "mistyped"), *verb[1:], "--json")
    assert result.exit_code == 2
    assert printed(result)["message"].endswith("nothing is there")


def test_what_an_arbiter_keeps_nothing_of_is_not_dropped(tmp_path: Path) -> None:
    fs = fsspec.filesystem("piafile", auto_mkdir=True)
    fs.pipe_file(log(tmp_path, 0), b"{}")
    for path in (tmp_path, tmp_path / "mistyped"):
        result = run("drop", str(path), "--yes", "--json")
        assert result.exit_code == 2
        assert "there is nothing to drop" in printed(result)["message"]
    assert fs.exists(log(tmp_path, 0))


@pytest.mark.parametrize(
    "url", ["s3:/bucket/name", "s3:bucket/name", "gs:/bucket/name", "pias3:/bucket/name"]
)
def test_an_address_with_too_few_slashes_is_no_local_file(url: str) -> None:
    result = run("explain", url, "--json")
    assert result.exit_code == 2
    assert f"say {url.partition(':')[0]}://bucket/name" in printed(result)["message"]


@pytest.mark.parametrize("url", ["", "putifabsent::", "file://", "piafile://"])
def test_a_variable_that_is_not_set_does_not_mean_the_folder_that_a_verb_is_run_in(
    url: str, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(table)
    before = state(table)
    result = run("leave", url, *BALLOT, "--yes", "--json")
    assert result.exit_code == 2
    assert "names no path" in printed(result)["message"]
    assert state(table) == before
    assert run("leave", ".", *BALLOT, "--yes").exit_code == 0


def test_who_stops_reading_an_answer_ends_it_quietly(tmp_path: Path) -> None:
    names = [str(tmp_path / "_delta_log" / f"{number:020d}.json") for number in range(2000)]
    command = [sys.executable, "-c", "from putifabsent.cli import main; main()", "explain", *names, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as explains:
        assert explains.stdout is not None
        assert explains.stderr is not None
        assert explains.stdout.read(1) == "["
        explains.stdout.close()
        assert (explains.stderr.read(), explains.wait(60)) == ("", 141)


def test_in_a_pipe_an_error_is_one_line_however_long_it_is() -> None:
    command = [sys.executable, "-c", "from putifabsent.cli import main; main()", "explain"]
    done = subprocess.run(
        [*command, f"s3:/{'long/' * 40}name"], capture_output=True, text=True, timeout=60, check=False
    )
    [line] = done.stderr.splitlines()
    assert line.startswith("error: s3:/long/")
    assert line.endswith("name for a local file")


# A bucket that is not there


@pytest.fixture(scope="module")
def stub() -> Iterator[FaultStub]:
    with FaultStub() as server:
        yield server


def at(stub: FaultStub, bucket: str, cloud: str) -> tuple[str, ...]:
    """Return the address of a table, and the options that it takes to get there."""
    options = [
        f"{key}={value if isinstance(value, str) else json.dumps(value)}"
        for key, value in stub.storage_options("azure" if cloud == "abfs" else "s3").items()
    ]
    return f"{cloud}://{bucket}/t", *(word for each in options for word in ("-o", each))


@pytest.mark.parametrize("cloud", ["s3", "abfs"])
@pytest.mark.parametrize(
    "verb",
    [
        ("inspect",),
        ("inspect", "--format", "delta"),
        ("fsck",),
        ("ledger",),
        ("turns",),
        ("migrate", "--to", "ballot", "--yes"),
        ("leave", "--yes"),
        ("drop", "--yes"),
    ],
    ids=" ".join,
)
def test_a_bucket_that_is_not_there_is_told(stub: FaultStub, verb: tuple[str, ...], cloud: str) -> None:
    missing = run(*verb, *at(stub, "none", cloud), "--json")
    assert missing.exit_code == 2
    assert (
        printed(missing)["message"]
        == f"there is no table at {cloud}://none/t: its bucket 'none' is not there"
    )
    assert "bucket 'bucket'" not in run(*verb, *at(stub, "bucket", cloud), "--json").stderr


def test_who_resolves_a_name_is_told_that_its_bucket_is_not_there(stub: FaultStub) -> None:
    token = "2f1e9a7c-5d0b-4c44-9a35-6d1f0c1c7a10"
    shown = [
        run("resolve", at(stub, each, "s3")[0], token, *at(stub, each, "s3")[1:])
        for each in ("none", "bucket")
    ]
    assert ["nor is its bucket" in each.stdout for each in shown] == [True, False]
    assert [each.exit_code for each in shown] == [3, 3]


@pytest.mark.parametrize(
    ("missing", "lacks"),
    [("b/none/o", True), ("b/other/o", False), ("none/t", False), ("none/b/none/o", False)],
)
def test_gcs_s_client_says_that_a_bucket_has_no_listing(missing: str, lacks: bool) -> None:
    class Listing:
        def invalidate_cache(self) -> None:
            """Have nothing cached."""

        def ls(self, path: str, *, detail: bool) -> list[str]:
            raise FileNotFoundError(missing)

    assert lacks_bucket(Listing(), "none/t") is lacks
