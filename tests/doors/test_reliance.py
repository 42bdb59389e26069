"""What a mount relies on: a store that was raced and found able to decide, or it refuses to write."""

from __future__ import annotations

import json
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent import UnsafeStore
from putifabsent.backends.probe import probe
from tests.servers import BucketServer, LocalBucketServer, PublishedLocalBucketServer, chosen, server
from tests.stub import FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers import Server
    from tests.stub.faults import Conditions

LOG = "table/_delta_log/00000000000000000000.json"


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Forget what earlier probes have found, and return where the next ones' verdicts are kept."""
    file = tmp_path / "verdicts.json"
    monkeypatch.setattr("putifabsent.backends.probe_cache._file", lambda: file)
    monkeypatch.setattr("putifabsent.backends.probe_cache._here", {})
    return file


@pytest.fixture
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a store raced two times instead of ``ROUNDS``, where it is honest: it is found so by either."""
    monkeypatch.setattr("putifabsent.backends.probe.probe", partial(probe, rounds=2))


@contextmanager
def mounted(running: Server) -> Iterator[tuple[Any, str]]:
    """Mount a real server as a user does who has heard of no arbiter."""
    assert isinstance(running, BucketServer)
    with running:
        scheme = f"pia{running.scheme}"
        yield (
            fsspec.filesystem(scheme, skip_instance_cache=True, **running.storage_options),
            running.new_bucket(),
        )


def refuses_to_write(fs: Any, bucket: str) -> None:
    name = f"{bucket}/{LOG}"
    for _ in range(2):
        with pytest.raises(UnsafeStore, match="arbiter"):
            fs.pipe_file(name, b"mine")
    with pytest.raises(UnsafeStore), fs.open(name, "wb") as file:
        file.write(b"mine")
    # What has nothing to do with the promise goes on as ever, and the probe has left nothing behind.
    fs.pipe_file(f"{bucket}/data", b"data")
    assert fs.cat_file(f"{bucket}/data") == b"data"
    assert [found for found in fs.fs.find(bucket) if "/table/" in found] == []


def test_a_mount_on_a_server_that_keeps_no_tokens_refuses_to_write() -> None:
    with mounted(PublishedLocalBucketServer()) as (fs, bucket):
        refuses_to_write(fs, bucket)


def test_a_mount_on_a_server_that_ignores_conditions_refuses_to_write() -> None:
    with FaultStub(conditions="ignored") as stub:
        fs = fsspec.filesystem("pias3", skip_instance_cache=True, **stub.storage_options("s3"))
        refuses_to_write(fs, "bucket")


@pytest.mark.servers
def test_a_mount_on_moto_refuses_to_write() -> None:
    with mounted(server("moto")) as (fs, bucket):
        refuses_to_write(fs, bucket)


@pytest.mark.servers
@pytest.mark.parametrize("name", [name for name in chosen() if name in ("gofakes3", "s3s-fs")])
def test_a_mount_on_a_server_that_races_conditions_refuses_to_write(name: str) -> None:
    with mounted(server(name)) as (fs, bucket):
        refuses_to_write(fs, bucket)


def test_a_mount_races_what_it_is_going_to_use_and_nothing_more_when_it_copies(
    kept: Path, few_rounds: None
) -> None:
    def raced() -> set[str]:
        (verdicts,) = json.loads(kept.read_text()).values()
        return set(verdicts)

    with mounted(LocalBucketServer()) as (fs, bucket):
        fs.pipe_file(f"{bucket}/data", b"data")
        assert not kept.exists()
        fs.pipe_file(f"{bucket}/{LOG}", b"first")
        assert raced() == {"put", "complete"}
        fs.mv(f"{bucket}/data", f"{bucket}/{LOG}".replace("0.json", "1.json"))
        assert raced() == {"put", "complete"}
        assert sorted(fs.find(f"{bucket}/table")) == sorted(
            [f"{bucket}/{LOG}", f"{bucket}/{LOG}".replace("0.json", "1.json")]
        )


def test_a_mount_relies_on_no_bucket_for_what_another_one_does(few_rounds: None) -> None:
    """Some stores honour no conditions where versions are kept."""
    conditions: dict[Op, Conditions] = {}
    with FaultStub(buckets=("bucket", "versions"), conditions=conditions) as stub:
        fs = fsspec.filesystem("pias3", skip_instance_cache=True, **stub.storage_options("s3"))
        for number in range(2):
            fs.pipe_file(f"bucket/data-{number}", b"data")
            fs.mv(f"bucket/data-{number}", f"bucket/{LOG}".replace("0.json", f"{number}.json"))
        conditions.update(dict.fromkeys((Op.PUT, Op.COMPLETE, Op.COPY), "ignored"))
        refuses_to_write(fs, "versions")
        fs.pipe_file(f"bucket/{LOG}".replace("0.json", "2.json"), b"third")


def test_a_mount_by_ballots_races_what_they_rest_on(kept: Path, few_rounds: None) -> None:
    with FaultStub(conditions="ignored") as stub:
        options = {**stub.storage_options("s3"), "arbiter": "ballot"}
        fsspec.filesystem("pias3", skip_instance_cache=True, **options).pipe_file(f"bucket/{LOG}", b"first")
    (verdicts,) = json.loads(kept.read_text()).values()
    assert {word: verdict["safe"] for word, verdict in verdicts.items()} == {"list": True, "publish": True}


def test_many_creations_at_once_wait_for_one_probe(few_rounds: None) -> None:
    """As many as the loop has threads would leave none to the probe that they wait for."""
    with FaultStub() as stub:
        fs = fsspec.filesystem("pias3", skip_instance_cache=True, **stub.storage_options("s3"))
        names = [f"bucket/tables/{number:02d}/_delta_log/{0:020d}.json" for number in range(40)]
        fs.pipe(dict.fromkeys(names, b"mine"))
        assert fs.find("bucket/tables") == names
