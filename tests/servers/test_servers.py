"""A server of ours comes up, holds what it is given, and is gone afterwards, however its starter ends.

``PUTIFABSENT_SERVERS`` says which servers; the default needs only what PyPI gives.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import fsspec
import pytest

import putifabsent
from tests.servers import (
    SERVERS,
    BucketServer,
    DynamoDBLocal,
    LastingServer,
    NotInstalledError,
    NotStartedError,
    Server,
    Valkey,
    VersityGW,
    chosen,
    server,
)
from tests.servers.process import Process, http_answers

_ROOT = Path(__file__).parents[2]
_BUILT = {name for name, each in SERVERS.items() if each.built}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.servers if name in _BUILT else ()) for name in chosen()],
)
def test_a_server_holds_an_object_and_leaves_no_process(name: str) -> None:
    with server(name) as running:
        assert _gives_back(running, b"what it was given")
        pids = running.pids
        assert all(_lives(pid) for pid in pids)
    assert pids
    assert not [pid for pid in pids if _lives(pid)]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(_address(running))


@pytest.mark.servers
def test_a_gateway_s_reader_reads_its_bucket_and_is_refused_what_else_it_tries() -> None:
    with VersityGW() as running:
        bucket, other = running.new_bucket(), running.new_bucket()
        running.client().put_object(Bucket=bucket, Key="one", Body=b"1")
        reads = fsspec.filesystem("s3", **{**running.storage_options, **running.reader(bucket)})
        assert reads.cat_file(f"{bucket}/one") == b"1"
        with pytest.raises(PermissionError):
            reads.pipe_file(f"{bucket}/two", b"2")
        with pytest.raises(PermissionError):
            reads.rm_file(f"{bucket}/one")
        with pytest.raises(PermissionError):
            reads.ls(other)


def test_stopping_twice_is_harmless() -> None:
    running = server("localbucket").start()
    running.stop()
    running.stop()
    assert not [pid for pid in running.pids if _lives(pid)]


def test_a_name_that_no_server_has_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match="localbucket"):
        server("localbuckett")


def test_a_server_that_is_not_installed_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUTIFABSENT_CACHE", str(tmp_path))
    with pytest.raises(NotInstalledError, match=r"make test-servers.*install\.sh versitygw"):
        VersityGW().start()


def test_every_built_server_has_a_pinned_version_and_a_recipe() -> None:
    tools = _ROOT / "tools" / "servers"
    pinned = {line.split()[0] for line in (tools / "pins.txt").read_text().splitlines() if line[:1] != "#"}
    recipes = (tools / "install.sh").read_text()
    assert pinned == _BUILT
    assert not [name for name in pinned if f"\n        {name}) bounded " not in recipes]


def test_a_server_that_ends_at_once_shows_what_it_printed() -> None:
    with ExitStack() as running:
        process = Process("hopeless", running)
        with pytest.raises(NotStartedError, match="no room on the disk"):
            process.start(lambda _: [sys.executable, "-c", "raise SystemExit('no room on the disk')"])


def test_a_program_that_is_not_there_is_named() -> None:
    with ExitStack() as running:
        process = Process("missing", running)
        with pytest.raises(NotStartedError, match="no-such-program"):
            process.start(lambda _: ["/no-such-program"])


def test_a_server_that_loses_its_port_is_started_on_another() -> None:
    with ExitStack() as running, socket.create_server(("127.0.0.1", 0)) as taken:
        lost = taken.getsockname()[1]
        asked: list[int] = []

        def command(port: int) -> list[str]:
            asked.append(port)
            listen_on = port if len(asked) > 1 else lost
            return [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(listen_on)]

        process = Process("unlucky", running)
        process.start(command)
        assert http_answers(process.port, status=200)
        assert len(asked) == 2


_STARTER = """
import signal, os, sys
from tests.servers import server
running = server(sys.argv[1]).start()
print(*running.pids, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("name", ["localbucket", "valkey"])
def test_a_server_ends_with_the_process_that_started_it(name: str, tmp_path: Path) -> None:
    starter = subprocess.run(
        [sys.executable, "-c", _STARTER, name],
        cwd=_ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},  # nobody is left to remove its folder
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    pids = [int(word) for word in starter.stdout.split()]
    assert pids
    assert all(_ends(pid, within=30) for pid in pids)


def _gives_back(running: Server, body: bytes) -> bool:
    if isinstance(running, BucketServer):
        files = fsspec.filesystem(running.scheme, skip_instance_cache=True, **running.storage_options)
        name = f"{running.new_bucket()}/folder/object"
        files.pipe_file(name, body)
        return bool(files.cat_file(name) == body)
    if isinstance(running, DynamoDBLocal):
        return _gives_an_item_back(running, body)
    if isinstance(running, LastingServer):
        return _counts_on(running)
    assert isinstance(running, Valkey)
    with socket.create_connection(_address(running), timeout=10) as connection:
        answers = connection.makefile("rb")
        connection.sendall(b"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n$2\r\nNX\r\n" % (len(body), body))
        assert answers.readline() == b"+OK\r\n"
        connection.sendall(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n")
        answers.readline()
        return answers.readline().strip() == body


def _counts_on(running: LastingServer) -> bool:
    """Whether it has a number still after it was killed."""
    given = putifabsent.clock(running.endpoint).instant()
    running.kill()
    running.start_again()
    return given < putifabsent.clock(running.endpoint).instant()


def _gives_an_item_back(running: DynamoDBLocal, body: bytes) -> bool:
    client = boto3.client(
        "dynamodb",
        endpoint_url=running.endpoint,
        region_name="us-east-1",
        aws_access_key_id="lab",
        aws_secret_access_key="lab-secret",
    )
    client.create_table(
        TableName="table",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "key", "AttributeType": "S"}],
    )
    item = {"key": {"S": "item"}, "body": {"B": body}}
    client.put_item(TableName="table", Item=item)
    return bool(client.get_item(TableName="table", Key={"key": item["key"]})["Item"] == item)


def _address(running: Server) -> tuple[str, int]:
    url = urlsplit(running.endpoint)
    assert url.hostname
    assert url.port
    return url.hostname, url.port


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _ends(pid: int, *, within: float) -> bool:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        ended, _, _ = select.select([process], [], [], within)
    finally:
        os.close(process)
    return bool(ended)
