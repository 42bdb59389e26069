"""The command line: what each verb prints for people and for programs, and what it exits with."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from typer.testing import CliRunner

from putifabsent import __version__
from putifabsent.backends.base import Created, Maybe, Refused, TryAgain, Verdict
from putifabsent.backends.memory import MemoryStore
from putifabsent.backends.probe_cache import recall
from putifabsent.cli.app import app
from putifabsent.cli.arguments import guarded_address, parse_options
from tests.cli.conftest import own_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typer.testing import Result

    from putifabsent.backends.base import CreateOutcome, HeadOutcome
    from putifabsent.lab.servers import LocalBucket

TOKEN = "2f1e9a7c-5d0b-4c44-9a35-6d1f0c1c7a10"
DELTA = "memory://t/_delta_log/00000000000000000007.json"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("putifabsent.backends.probe_cache._here", {})
    with own_memory():
        yield


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def _json(result: Result) -> Any:
    """Return the one JSON value that is on stdout."""
    return json.loads(result.stdout)


# All verbs


def test_version_and_help_need_no_verb() -> None:
    assert _run("--version").stdout == f"putifabsent {__version__}\n"
    shown = _run("--help")
    assert shown.exit_code == 0
    for verb in ("demo", "doctor", "probe", "explain", "put", "resolve", "init"):
        assert f" {verb} " in shown.stdout


@pytest.mark.parametrize("verb", ["demo", "doctor", "probe", "explain", "put", "resolve", "init"])
def test_each_verb_shows_an_example_and_takes_json(verb: str) -> None:
    shown = _run(verb, "--help").stdout
    assert f"Example: putifabsent {verb}" in shown
    assert "--json" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("probe", "hdfs://host/x"), "hdfs:// is not known here: use s3,"),
        (("probe", "s3://"), "s3:// names no bucket"),
        (("probe", "memory://x", "-o", "formts=paimon"), "unknown option 'formts' for memory; did you mean"),
        (("probe", "memory://x", "-o", "formats"), "-o formats: it must be key=value"),
        (("probe", "memory://x", "-o", "formats=[1"), "-o formats: it begins like JSON, and is none: [1"),
        (("probe", "memory://x", "--endpoint-url", "http://h"), "--endpoint-url is for S3 and GCS"),
        (("resolve", "memory://x", TOKEN, "-o", "arbiter=nativ"), "did you mean 'native'?"),
        (("resolve", "memory://x", TOKEN, "-o", "deadline=-1"), "deadline must be a positive number"),
        (("explain", "memory://x/y", "--format", "paimmon"), "did you mean 'paimon'?"),
    ],
)  # fmt: skip
def test_wrong_usage_exits_with_2_and_says_what_is_right(arguments: tuple[str, ...], message: str) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
    assert _json(_run(*arguments, "--json"))["outcome"] == "usage"


@pytest.mark.parametrize("arguments", [("put",), ("put", "no-such-file", "memory://x"), ("probee",)])
def test_what_can_not_be_parsed_exits_with_2(arguments: tuple[str, ...]) -> None:
    assert _run(*arguments).exit_code == 2


def test_a_missing_package_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    result = _run("resolve", "s3://bucket/x", TOKEN)
    assert result.exit_code == 2
    assert "pip install 'putifabsent[s3]'" in result.stderr


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_the_cli_extra_the_command_says_what_to_install(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from putifabsent.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 2
    assert "pip install 'putifabsent[cli]'" in ended.stderr


def test_an_error_nobody_foresaw_is_not_taken_for_an_answer(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> CreateOutcome:
        return Refused(RuntimeError("a surprise\nand what only its author can read"))

    monkeypatch.setattr(MemoryStore, "create", broken)
    result = _run("put", file, DELTA)
    assert result.exit_code == 4
    assert result.stderr.strip().endswith("error: a surprise")
    assert _json(_run("put", file, DELTA, "--json")) == {"outcome": "failed", "message": "a surprise"}


# Addresses and options


@pytest.mark.parametrize(
    ("url", "protocol", "path"),
    [
        ("s3://b/k", "pias3", "b/k"),
        ("s3a://b/k", "pias3", "b/k"),
        ("pias3://b/k", "pias3", "b/k"),
        ("putifabsent::s3://b/k", "pias3", "b/k"),
        ("gs://b/k", "piags", "b/k"),
        ("abfss://c@a.dfs.core.windows.net/k", "piaaz", "c@a.dfs.core.windows.net/k"),
        ("az://c/k", "piaaz", "c/k"),
        ("memory://k", "piamemory", "k"),
        ("file:///a/b", "piafile", "/a/b"),
        ("a/b", "piafile", "a/b"),
        ("/a/b c", "piafile", "/a/b c"),
    ],
)
def test_an_address_leads_to_the_guarded_protocol(url: str, protocol: str, path: str) -> None:
    assert guarded_address(url) == (protocol, path)


def test_a_value_that_is_json_is_what_it_says_and_any_other_a_string() -> None:
    given = [
        "key=AKIA=x",
        "deadline=5",
        "anon=true",
        'client_kwargs={"region_name": "eu"}',
        "formats=paimon",
        'k="7"',
    ]
    assert parse_options(given) == {
        "key": "AKIA=x",
        "deadline": 5,
        "anon": True,
        "client_kwargs": {"region_name": "eu"},
        "formats": "paimon",
        "k": "7",
    }


# put, resolve


def test_put_creates_a_name_and_prints_its_token_and_version(file: str) -> None:
    result = _run("put", file, DELTA)
    assert result.exit_code == 0, result.stderr
    there = MemoryStore(MemoryFileSystem()).head(DELTA.removeprefix("memory:/"))
    shown = re.fullmatch(rf"created {DELTA}\n  token    (\S+)\n  version  (\S+)\n", result.stdout)
    assert shown is not None
    assert shown.groups() == (there.holder.token, there.holder.version)  # type: ignore[union-attr]


def test_put_creates_any_name_as_json(file: str) -> None:
    answer = _json(_run("put", file, "memory://plain/name", "--json"))
    assert answer.keys() == {"outcome", "name", "token", "version"}
    assert (answer["outcome"], answer["name"]) == ("created", "memory://plain/name")
    assert str(uuid.UUID(answer["token"])) == answer["token"]
    assert MemoryFileSystem().cat("/plain/name") == b"mine"


def test_put_on_a_taken_name_exits_with_1_and_says_who_holds_it(file: str) -> None:
    token = _json(_run("put", file, DELTA, "--json"))["token"]
    again = _run("put", file, DELTA)
    assert again.exit_code == 1
    assert again.stdout == ""
    assert "the name is taken: held by writer" in again.stderr
    assert token in again.stderr.replace("\n", "")
    answer = _json(_run("put", file, DELTA, "--json"))
    assert (answer["outcome"], answer["holder"]["token"], answer["holder"]["size"]) == ("taken", token, 4)
    assert datetime.fromisoformat(answer["holder"]["created"]) <= datetime.now(timezone.utc)


def test_put_into_a_folder_wants_the_whole_name(file: str, tmp_path: Path) -> None:
    """On a cloud's store it would create the folder's own name, which hides what is in it from some."""
    result = _run("put", file, f"{tmp_path}/snapshot/", "--json")
    assert result.exit_code == 2
    assert _json(result)["message"].endswith(f"snapshot/{file.rpartition('/')[2]}")
    assert not (tmp_path / "snapshot").exists()


def test_put_to_a_local_path_creates_it(file: str, tmp_path: Path) -> None:
    assert _run("put", file, str(tmp_path / "made")).exit_code == 0
    assert (tmp_path / "made").read_bytes() == b"mine"
    assert _run("put", file, str(tmp_path / "made")).exit_code == 1


def test_an_unknown_outcome_exits_with_3_with_the_token_and_how_to_resolve_it(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: set[str] = set()

    def lost(_: object, name: str, body: object, creation: Any) -> CreateOutcome:
        sent.add(creation.token)
        return Maybe(OSError("connection reset"))

    monkeypatch.setattr(MemoryStore, "create", lost)
    result = _run("put", file, DELTA, "-o", "deadline=0.05")
    assert result.exit_code == 3
    assert f"token: {min(sent)}\n" in result.stderr
    assert f"putifabsent resolve {DELTA} {min(sent)}\n" in result.stderr
    sent.clear()
    answer = _json(_run("put", file, DELTA, "-o", "deadline=0.05", "--json"))
    assert (answer["outcome"], {answer["token"]}) == ("unknown", sent)


def test_an_interruption_after_a_send_exits_with_3_too(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> CreateOutcome:
        raise KeyboardInterrupt

    monkeypatch.setattr(MemoryStore, "create", interrupted)
    result = _run("put", file, DELTA)
    assert result.exit_code == 3
    assert re.search(r"^token: [0-9a-f-]{36}$", result.stderr, re.MULTILINE)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_creation_that_was_removed_at_once_gets_no_others_token(
    file: str, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    def created(_: object, name: str, body: object, creation: object) -> CreateOutcome:
        if replaced:
            MemoryFileSystem().pipe(name, b"another's")
        return Created("v")

    monkeypatch.setattr(MemoryStore, "create", created)
    result = _run("put", file, "memory://plain/name")
    assert result.exit_code == 0
    assert result.stdout == "created memory://plain/name; it has been removed or replaced since\n"
    assert _json(_run("put", file, "memory://plain/name", "--json"))["token"] is None


def test_a_creation_that_may_not_be_read_is_not_called_removed(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryStore, "head", lambda *_: Refused(PermissionError("may not be read")))
    result = _run("put", file, "memory://plain/name")
    assert result.stdout == "created memory://plain/name; what is there now can't be read\n"


def test_a_refusal_exits_with_4(file: str) -> None:
    _run("put", file, "memory://plain/name")
    result = _run("put", file, "memory://plain/name/below")
    assert result.exit_code == 4
    assert "a parent of the name is a file" in result.stderr


def test_resolve_tells_mine_from_anothers_from_none(file: str) -> None:
    token = _json(_run("put", file, DELTA, "--json"))["token"]
    mine = _run("resolve", DELTA, token)
    assert (mine.exit_code, mine.stdout.startswith(f"{DELTA} was created by it, 4 bytes: writer")) == (
        0,
        True,
    )
    assert _json(_run("resolve", DELTA, token, "--json"))["outcome"] == "created"
    anothers = _run("resolve", DELTA, TOKEN)
    assert anothers.exit_code == 1
    assert _json(_run("resolve", DELTA, TOKEN, "--json"))["outcome"] == "taken"
    none = _run("resolve", "memory://nothing", TOKEN)
    assert none.exit_code == 3
    assert "may still land" in none.stdout
    assert _json(_run("resolve", "memory://nothing", TOKEN, "--json"))["outcome"] == "absent"


def test_a_token_is_a_uuid() -> None:
    result = _run("resolve", DELTA, f"{TOKEN}.0~1")
    assert result.exit_code == 2
    assert "UUID" in result.stderr


def test_the_token_that_put_says_is_the_creation_s_also_of_a_table_that_has_left_its_arbiter(
    file: str, tmp_path: Path
) -> None:
    table, name = str(tmp_path), str(tmp_path / "_delta_log" / "00000000000000000000.json")
    (tmp_path / "_delta_log").mkdir()
    by_ballot = ("-o", "arbiter=ballot")
    token = _json(_run("put", file, name, *by_ballot, "--json"))["token"]
    assert _json(_run("resolve", name, token, *by_ballot, "--json"))["outcome"] == "created"
    assert _run("leave", table, *by_ballot, "--yes").exit_code == 0
    assert _json(_run("resolve", name, token, "--json"))["outcome"] == "created"
    assert _json(_run("resolve", name, TOKEN, "--json"))["outcome"] == "taken"


def test_resolve_on_a_store_that_can_not_be_read_is_unknown_still(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(*_: object) -> HeadOutcome:
        return Refused(PermissionError(13, "Forbidden"))

    monkeypatch.setattr(MemoryStore, "head", unreadable)
    result = _run("resolve", DELTA, TOKEN)
    assert result.exit_code == 3
    assert "Forbidden" in result.stderr


# explain


def test_explain_says_what_names_are_without_asking_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    names = {
        "s3://b/t/_delta_log/00000000000000000007.json": ("log_entry", "delta", True, "creates, or fails"),
        "s3://b/t/snapshot/snapshot-7": ("snapshot", "paimon", None, "depends on that"),
        "s3://b/t/data.parquet": ("other", None, False, "overwrites"),
        "t/.hoodie/20240101000000000.commit": ("instant", "hudi", True, "creates, or fails"),
    }
    result = _run("explain", *names, "--json")
    assert result.exit_code == 0
    for one, (name, expected) in zip(_json(result), names.items(), strict=True):
        assert one["name"] == name
        assert (one["role"], one["format"], one["guarded"], one["write"]) == expected
    assert _json(result)[1]["evidence"] == ["b/t/schema/schema-0"]
    shown = _run("explain", *names).stdout
    assert re.search(r"snapshot-7 +snapshot +paimon +with evidence: schema/schema-0 +depends on", shown)
    assert re.search(r"data.parquet +other +no +overwrites", shown)
    assert shown.splitlines()[0] == "s3://b/t"
    assert re.search(
        r"^ /data/file.parquet +other", _run("explain", "/data/file.parquet").stdout, re.MULTILINE
    )


def test_explain_shows_an_identity_that_is_not_the_name() -> None:
    requested = "/t/.hoodie/20240101000000000.commit.requested"
    answer = _json(_run("explain", requested, "--json"))[0]
    assert answer["identity"] == "/t/.hoodie/20240101000000000.requested"
    assert ".hoodie/20240101000000000.requested" in _run("explain", requested).stdout


def test_explain_breaks_no_name_at_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("putifabsent.cli.screen._WIDTH", 80)
    short, long = "snapshot/snapshot-3", f"_delta_log/{3:020d}.json"
    in_line = _run("explain", f"s3://bucket/wh/db.db/t/{short}").stdout
    assert re.search(rf"^ {short} +snapshot +paimon +with evidence: +depends *$", in_line, re.MULTILINE)
    assert re.search(r"^ +schema/schema-0 +on that *$", in_line, re.MULTILINE)
    below = _run("explain", f"s3://b/t/{long}", f"s3://b/t/{long}.{'x' * 20}").stdout
    assert [line.split() for line in below.splitlines() if line.startswith(("name", "guarded"))] == [
        ["name", long],
        ["guarded", "yes"],
        ["name", f"{long}.{'x' * 20}"],
        ["guarded", "no"],
    ]


@pytest.mark.parametrize("way", ["", "./", "../{}/", "~/", "piafile://~/", "{}/../../{}/"])
def test_explain_takes_a_local_path_for_where_it_is(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    spelled = way.format(*[tmp_path.name] * 2)
    answer = _json(_run("explain", f"{spelled}t/_delta_log/00000000000000000007.json", "--json"))[0]
    assert answer["path"] == f"{tmp_path}/t/_delta_log/00000000000000000007.json"


def test_explain_check_looks_for_the_evidence() -> None:
    name = "memory://w/t/snapshot/snapshot-7"
    without = _json(_run("explain", name, "--check", "--json"))[0]
    assert (without["guarded"], without["found"], without["write"]) == (False, None, "overwrites")
    assert "no: schema/schema-0 is not there" in _run("explain", name, "--check").stdout
    MemoryFileSystem().pipe("/w/t/schema/schema-0", b"{}")
    found = _json(_run("explain", name, "--check", "--json"))[0]
    assert (found["guarded"], found["write"]) == (True, "creates, or fails")
    assert "yes: schema/schema-0 is there" in _run("explain", name, "--check").stdout


def test_explain_looks_for_what_speaks_against_a_name_only_with_check(tmp_path: Path) -> None:
    name, schema = str(tmp_path / "t/metadata/v3.metadata.json"), tmp_path / "t/schema/schema-0"
    schema.parent.mkdir(parents=True)
    schema.write_bytes(b"{}")
    without = _json(_run("explain", name, "--json"))[0]
    assert (without["guarded"], without["unless"], without["against"]) == (True, [str(schema)], None)
    found = _json(_run("explain", name, "--check", "--json"))[0]
    assert (found["guarded"], found["against"], found["write"]) == (False, str(schema), "overwrites")


def test_explain_goes_by_the_formats_and_patterns_of_a_mount() -> None:
    name, manifest = "s3://b/t/snapshot/snapshot-7", "s3://b/t/manifest-1"
    answer = _json(_run("explain", name, manifest, "--format", "paimon", "--guard", "manifest-*", "--json"))
    assert [one["guarded"] for one in answer] == [True, True]
    answer = _json(_run("explain", name, manifest, "--format", "delta", "--json"))
    assert [one["guarded"] for one in answer] == [False, False]


# probe


def test_probe_of_a_safe_store_exits_with_0_and_gives_evidence(tmp_path: Path) -> None:
    result = _run("probe", str(tmp_path), "--rounds", "2", "--json")
    assert result.exit_code == 0, result.stderr
    answer = _json(result)
    assert list(answer) == ["put", "complete"]
    assert all(one.keys() == {"safe", "evidence"} and one["safe"] is True for one in answer.values())
    shown = _run("probe", str(tmp_path), "--rounds", "2").stdout
    assert re.search(r"put +safe +32 creates at once: 2 of 2 names had one winner", shown)
    assert "a probe can prove a store unsafe, never safe" in shown
    assert [path for path in tmp_path.iterdir() if path.name != "cache"] == []


def test_probe_of_a_liar_exits_with_5_and_says_what_a_mount_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = MemoryStore.create

    def overwriting(self: MemoryStore, name: str, body: Any, creation: Any) -> CreateOutcome:
        self.fs.store.pop(name, None)
        return honest(self, name, body, creation)

    monkeypatch.setattr(MemoryStore, "create", overwriting)
    result = _run("probe", "memory://b")
    assert result.exit_code == 5
    assert re.search(r"put +unsafe +.*an existing object was overwritten by a conditional put", result.stdout)
    assert "a mount of memory://b raises UnsafeStore, for put, complete can't decide" in result.stdout
    answer = _json(_run("probe", "memory://b", "--operation", "complete", "--json"))
    assert list(answer) == ["complete"]
    assert answer["complete"]["safe"] is False


def test_probe_writes_what_it_found_for_a_list_of_stores(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = {
        "put": Verdict("put", safe=True, evidence="24 of 24"),
        "complete": Verdict("complete", safe=False, evidence="an existing object was overwritten"),
    }
    monkeypatch.setattr("putifabsent.cli.stores.race", lambda *_, **__: found)
    file = tmp_path / "stores" / "mine.md"
    _run("probe", "memory://b", "--report", str(file), "--creates", "64")
    written = file.read_text()
    assert re.search(rf"Raced on 20\d\d-\d\d-\d\d by putifabsent {re.escape(__version__)}\.", written)
    assert "24 names, with 64 simultaneous creates of each" in written
    assert (
        "| `put` | safe | 24 of 24 |\n| `complete` | **unsafe** | an existing object was overwritten |"
        in written
    )


def test_what_only_other_arbiters_rest_on_is_probed_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = ("--operation", "list", "--operation", "publish", "--rounds", "2")
    answer = _json(_run("probe", "memory://b", *chosen, "--json"))
    assert {word: one["safe"] for word, one in answer.items()} == {"list": True, "publish": True}
    found = {
        "publish": Verdict("publish", safe=False, evidence="a copy of a missing source was acknowledged")
    }
    monkeypatch.setattr("putifabsent.cli.stores.race", lambda *_, **__: found)
    result = _run("probe", "memory://b", "--operation", "publish")
    assert result.exit_code == 5
    assert "Unsafe for an arbiter beside the store: it rests on publish." in result.stdout


def test_what_a_probe_found_is_what_mounts_know(tmp_path: Path) -> None:
    _run("probe", str(tmp_path), "--operation", "put")
    assert recall("local", None, str(tmp_path))["put"].safe


def test_a_shorter_race_vouches_for_no_store_but_can_condemn_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "put": Verdict("put", safe=True, evidence="1 of 1"),
        "complete": Verdict("complete", safe=False, evidence="1 of 1 names had more than one winner"),
    }
    monkeypatch.setattr("putifabsent.cli.stores.race", lambda *_, **__: found)
    _run("probe", "memory://b", "--rounds", "1")
    assert recall("memory", None, "b") == {"complete": found["complete"]}


def test_a_store_that_can_not_be_probed_exits_with_4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = _run("probe", str(tmp_path / "missing"))
    assert missing.exit_code == 4
    assert "No such file or directory" in missing.stderr
    monkeypatch.setattr(MemoryStore, "create", lambda *_: TryAgain(OSError("connection refused")))
    monkeypatch.setattr(MemoryStore, "head", lambda *_: TryAgain(OSError("connection refused")))
    silent = _run("probe", "memory://b", "--json")
    assert silent.exit_code == 4
    assert "does not answer: connection refused" in _json(silent)["message"]


def test_fewer_than_32_creates_are_no_race() -> None:
    assert _run("probe", "memory://b", "--creates", "31").exit_code == 2


def test_a_real_s3_server_is_probed_put_to_and_resolved(file: str, localbucket: LocalBucket) -> None:
    bucket = localbucket.new_bucket()
    at = (
        "--endpoint-url",
        localbucket.endpoint,
        "-o",
        "key=k",
        "-o",
        "secret=s",
        "-o",
        'client_kwargs={"region_name": "us-east-1"}',
    )
    probed = _run("probe", f"s3://{bucket}", "--rounds", "1", *at, "--json")
    assert probed.exit_code == 0, probed.stderr
    assert list(_json(probed)) == ["put", "complete"]
    name = f"s3://{bucket}/t/snapshot/snapshot-1"
    native = (*at, "-o", "arbiter=native")
    put = _run("put", file, name, *native, "--json")
    assert put.exit_code == 0, put.stderr
    assert _run("put", file, name, *native).exit_code == 1
    assert _json(_run("resolve", name, _json(put)["token"], *at, "--json"))["outcome"] == "created"
    elsewhere = _run("put", file, "s3://no-such-bucket/x", *native)
    assert elsewhere.exit_code == 4
    assert "bucket" in elsewhere.stderr
