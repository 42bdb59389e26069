"""The coordination service of one driver: it lives as long, and says why where it can't."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import fsspec
import pytest

from putifabsent.errors import ConfigError
from putifabsent.spark.companion import Companion
from tests.service.callers import Caller
from tests.service.processes import answers, arguments_of_all

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "a secret of more than sixteen characters"


def told_in(folder: Path) -> dict[str, object]:
    return {"secret": SECRET, "mounts": [{"prefix": f"file:{folder}", "options": {}}]}


def soon(what: Callable[[], bool]) -> bool:
    for _ in range(300):
        if what():
            return True
        time.sleep(0.1)
    return False


def gone(address: str) -> bool:
    return soon(lambda: not answers(address))


def test_it_listens_until_it_is_ended(tmp_path: Path) -> None:
    companion = Companion(told_in(tmp_path))
    assert answers(companion.address)
    companion.end()
    assert gone(companion.address)


def test_what_it_prints_later_waits_for_no_reader(tmp_path: Path) -> None:
    companion = Companion(told_in(tmp_path))
    try:
        own = Path(f"/proc/{companion._process.pid}/fd")
        assert soon(lambda: (own / "1").readlink() == (own / "2").readlink())
    finally:
        companion.end()


def test_its_secret_is_no_argument(tmp_path: Path) -> None:
    secret = secrets.token_hex()
    companion = Companion({**told_in(tmp_path), "secret": secret})
    try:
        shown = arguments_of_all()
        assert "--until-eof" in shown
        assert secret not in shown
    finally:
        companion.end()


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_its_driver_however_that_ends(tmp_path: Path, end: signal.Signals) -> None:
    program = (
        "import json, sys, time; from putifabsent.spark.companion import Companion;"
        "print(Companion(json.loads(sys.argv[1])).address, flush=True); time.sleep(600)"
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", program, json.dumps(told_in(tmp_path))], stdout=subprocess.PIPE, text=True
    )
    with driver:
        assert driver.stdout is not None
        address = driver.stdout.readline().strip()
        assert answers(address)
        os.kill(driver.pid, end)
    assert gone(address)


def test_a_driver_that_ends_holds_nobody_up(tmp_path: Path) -> None:
    table = tmp_path / "t"
    (table / ".hoodie").mkdir(parents=True)
    companion = Companion(told_in(tmp_path))

    async def take() -> str | None:
        async with Caller.at(companion.address) as caller:
            answer = await caller.call("turns/take", str(table), token=str(uuid.uuid4()))
        turn: str | None = answer.body["turn"]
        return turn

    assert asyncio.run(take()) is not None
    assert asyncio.run(take()) is None
    companion.end()
    with fsspec.filesystem("piafile", skip_instance_cache=True).turn(str(table), timeout=0):
        pass


def test_one_that_was_killed_is_started_again_where_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    companion = Companion(told_in(tmp_path))
    address = companion.address
    killed = set()
    for _ in range(2):
        killed.add(companion.pid)
        os.kill(companion.pid, signal.SIGKILL)
        assert soon(lambda: companion.pid not in killed and answers(address))
    companion.end()
    assert gone(address)
    assert caplog.text.count("starting it again") == 2


def test_one_that_is_started_again_asks_the_same_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://first.example")
    companion = Companion(told_in(tmp_path))
    before = companion.pid
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://second.example")
    os.kill(before, signal.SIGKILL)
    assert soon(lambda: companion.pid != before and answers(companion.address))
    environment = Path(f"/proc/{companion.pid}/environ").read_text()
    companion.end()
    assert "AWS_ENDPOINT_URL_S3=http://first.example\0" in environment


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"did not start.*{port}"):
            Companion({**told_in(tmp_path), "port": port})


def test_a_wrong_option_is_said(tmp_path: Path) -> None:
    told = {"secret": SECRET, "mounts": [{"prefix": f"file:{tmp_path}", "options": {"arbitre": "ballot"}}]}
    with pytest.raises(ConfigError, match="arbitre"):
        Companion(told)


def test_what_lies_in_the_working_directory_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise SystemExit('a stranger')")
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "job.py").write_text(
        "from putifabsent.spark.companion import Companion\n"
        f"companion = Companion({told_in(tmp_path)!r})\n"
        "print(companion.address)\n"
        "companion.end()\n"
    )
    done = subprocess.run(
        [sys.executable, "jobs/job.py"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert done.stdout.startswith("http://"), done.stderr


def test_what_its_driver_finds_it_finds_and_its_silent_end_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "typer.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"did not start: it ended with 3 .* see stderr"):
        Companion(told_in(tmp_path))


def test_one_that_hangs_as_it_starts_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "typer.py").write_text("import time; time.sleep(600)")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("putifabsent.spark.companion._PATIENCE", 1)
    with pytest.raises(ConfigError, match="did not start: it has not answered in 1 s"):
        Companion(told_in(tmp_path))


def test_an_option_that_no_other_process_can_have_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="handed to its service"):
        Companion({**told_in(tmp_path), "mounts": [{"prefix": "file:", "options": {"session": object()}}]})


def test_a_signal_for_all_of_a_group_does_not_end_it(tmp_path: Path) -> None:
    companion = Companion(told_in(tmp_path))
    try:
        before = companion.pid
        os.kill(before, signal.SIGTERM)
        time.sleep(1)
        assert answers(companion.address)
        assert companion.pid == before
    finally:
        companion.end()


def test_a_forked_worker_does_not_keep_it(tmp_path: Path) -> None:
    companion = Companion(told_in(tmp_path))
    worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    worker.start()
    try:
        companion.end()
        assert gone(companion.address)
    finally:
        worker.kill()
        worker.join()
