"""Verdicts are kept for the next process, for as long as they mean something, and are never in the way."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent import __version__
from putifabsent.backends import probe_cache as kept
from putifabsent.backends.base import Verdict
from putifabsent.backends.probe_cache import SAFE_FOR, UNSAFE_FOR, recall, remember, turn

if TYPE_CHECKING:
    from pathlib import Path

SAFE = {
    "put": Verdict("put", safe=True, evidence="24 of 24"),
    "complete": Verdict("complete", True, "24 of 24"),
}
UNSAFE = {**SAFE, "complete": Verdict("complete", safe=False, evidence="7 of 8 had two winners")}
SERVER = ("s3", "http://store.example:9000")
WHERE = (*SERVER, "bucket/t")


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kept, "_here", {})
    return tmp_path / "putifabsent" / "verdicts.json"


def _in_another_process() -> None:
    kept._here.clear()


def _made_older(file: Path, seconds: float) -> None:
    content = json.loads(file.read_text())
    for records in content.values():
        for record in records.values():
            record["time"] -= seconds
    file.write_text(json.dumps(content))
    _in_another_process()


def test_another_process_knows_what_was_found_with_its_evidence() -> None:
    remember(*WHERE, UNSAFE)
    _in_another_process()
    assert recall(*WHERE) == UNSAFE


def test_nothing_is_known_of_another_endpoint_or_kind() -> None:
    remember(*WHERE, SAFE)
    assert recall("s3", "http://store.example:9001", "bucket/t") == {}
    assert recall("gcs", WHERE[1], "bucket/t") == {}


def test_what_creates_names_is_known_by_bucket_and_the_rest_by_server() -> None:
    publish = {"publish": Verdict("publish", safe=True, evidence="128 of 128")}
    remember(*WHERE, {**SAFE, **publish})
    for _ in range(2):
        assert recall(*SERVER, "other/t") == publish
        assert recall(*SERVER, "/bucket/another") == {**SAFE, **publish}
        _in_another_process()


def test_the_same_endpoint_in_other_words_is_the_same() -> None:
    remember("s3", "http://HOST:9000/", "bucket/t", SAFE)
    assert recall("s3", "http://host:9000", "bucket/t") == SAFE


@pytest.mark.parametrize(
    ("found", "age", "known"),
    [
        (SAFE, SAFE_FOR - 60, {"put", "complete"}),
        (SAFE, SAFE_FOR + 60, set()),
        (UNSAFE, UNSAFE_FOR - 60, {"put", "complete"}),
        (UNSAFE, UNSAFE_FOR + 60, {"put"}),
        (SAFE, -3600, set()),
    ],
)
def test_a_verdict_counts_for_a_week_and_one_that_stops_a_mount_for_an_hour(
    file: Path, found: dict[str, Verdict], age: float, known: set[str]
) -> None:
    remember(*WHERE, found)
    _made_older(file, age)
    assert set(recall(*WHERE)) == known


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "127.0.1.1", "[::]", "s3.localhost.localstack.cloud"]
)
def test_a_verdict_on_a_port_of_this_machine_counts_for_an_hour(file: Path, host: str) -> None:
    remember("s3", f"http://{host}:9000", "bucket/t", SAFE)
    _made_older(file, UNSAFE_FOR - 60)
    assert recall("s3", f"http://{host}:9000", "bucket/t") == SAFE
    _made_older(file, 120)
    assert recall("s3", f"http://{host}:9000", "bucket/t") == {}


def test_a_process_that_stays_looks_again_too(monkeypatch: pytest.MonkeyPatch) -> None:
    remember(*WHERE, SAFE)
    later = time.time() + SAFE_FOR + 60
    monkeypatch.setattr("putifabsent.backends.probe_cache.time.time", lambda: later)
    assert recall(*WHERE) == {}


def test_a_verdict_of_another_version_does_not_count(file: Path) -> None:
    remember(*WHERE, SAFE)
    file.write_text(file.read_text().replace(f'"{__version__}"', '"0.0.0"'))
    _in_another_process()
    assert recall(*WHERE) == {}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"s3 http://store.example:9000 bucket": 7}',
        '{"s3 http://store.example:9000 bucket": {"put": {}}}',
        '{"s3 http://store.example:9000 bucket": {"put": {"safe": true, "evidence": "", "version": 1}}}',
        "\udcff",
    ],
)
def test_a_broken_file_counts_as_empty_and_is_replaced(file: Path, content: str) -> None:
    file.parent.mkdir()
    file.write_bytes(content.encode(errors="surrogateescape"))
    assert recall(*WHERE) == {}
    remember(*WHERE, SAFE)
    _in_another_process()
    assert recall(*WHERE) == SAFE


def test_a_record_that_is_not_known_hides_no_other(file: Path) -> None:
    remember(*WHERE, SAFE)
    content = json.loads(file.read_text())
    content["s3 http://store.example:9000 bucket"]["a newer one's"] = 2
    file.write_text(json.dumps(content))
    _in_another_process()
    assert recall(*WHERE) == SAFE


def test_an_endpoint_with_a_path_is_no_bucket(file: Path) -> None:
    remember("s3", "http://store.example", "gateway/t", SAFE)
    assert recall("s3", "http://store.example/gateway", "bucket/t") == {}


def test_what_is_kept_of_other_stores_stays(file: Path) -> None:
    remember(*WHERE, SAFE)
    remember("gcs", "http://other", "bucket/t", UNSAFE)
    remember(*WHERE, {"complete": UNSAFE["complete"]})
    _in_another_process()
    assert recall("gcs", "http://other", "bucket/t") == UNSAFE
    assert recall(*WHERE) == UNSAFE
    assert [each.name for each in file.parent.iterdir()] == ["verdicts.json"]


def test_what_is_too_old_is_not_kept_for_ever(file: Path) -> None:
    remember("s3", "http://127.0.0.1:1", "bucket/t", SAFE)
    _made_older(file, SAFE_FOR + 60)
    remember(*WHERE, SAFE)
    assert list(json.loads(file.read_text())) == ["s3 http://store.example:9000 bucket"]


def test_a_turn_leaves_no_file(file: Path) -> None:
    with turn(*SERVER):
        assert [each.suffix for each in file.parent.iterdir()] == [".lock"]
    assert list(file.parent.iterdir()) == []


def test_a_turn_is_had_where_no_file_can_be(tmp_path: Path) -> None:
    (tmp_path / "putifabsent").write_text("in the way")
    with turn(*SERVER):
        remember(*WHERE, SAFE)
    assert recall(*WHERE) == SAFE


def test_a_folder_that_can_not_be_written_costs_only_the_next_process_a_probe(tmp_path: Path) -> None:
    (tmp_path / "putifabsent").write_text("in the way")
    remember(*WHERE, SAFE)
    assert recall(*WHERE) == SAFE
    _in_another_process()
    assert recall(*WHERE) == {}


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(*WHERE, SAFE)
    before = file.read_text()

    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    remember("s3", "http://other", "bucket/t", UNSAFE)
    assert file.read_text() == before
    assert [each.name for each in file.parent.iterdir()] == ["verdicts.json"]


def test_no_password_gets_into_the_file(file: Path) -> None:
    remember("s3", "http://user:hunter2@store.example:9000", "bucket/t", SAFE)
    assert "hunter2" not in file.read_text()


def test_without_a_cache_folder_the_home_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    remember(*WHERE, SAFE)
    assert (tmp_path / ".cache" / "putifabsent" / "verdicts.json").exists()
