"""A command that is told to stop after a request has gone out leaves its user with the token."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from pathlib import Path

MAIN = "from putifabsent.cli import main; main()"
NAME = "s3://bucket/name"
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **KEYS},
    )


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_put_that_is_told_to_stop_prints_the_token_that_resolves_it(
    sent: signal.Signals, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"mine")
    with FaultStub() as stub:
        stub.script(Op.PUT, Fault.TIMEOUT_AFTER_APPLY)
        where = ["--endpoint-url", stub.url("s3"), "-o", "arbiter=native", "-o", "deadline=3"]
        with start("put", str(file), NAME, *where) as putting:
            stub.wait_for(Op.PUT)
            putting.send_signal(sent)
            _, printed = putting.communicate(timeout=60)
        assert putting.returncode == 3, printed
        token = printed.partition("token: ")[2].split("\n", 1)[0]
        with start("resolve", NAME, token, *where) as resolving:
            _, printed = resolving.communicate(timeout=60)
        assert resolving.returncode == 0, printed
