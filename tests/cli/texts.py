"""Every text of the command line that needs no store, in one file: ``python -m tests.cli.texts``."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from fsspec.implementations.memory import MemoryFileSystem
from typer.testing import CliRunner

from putifabsent.cli.app import app
from tests.cli.conftest import own_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = Path(__file__).parent / "texts.txt"

_DELTA = "memory://t/_delta_log/00000000000000000007.json"
_TOKEN = "2f1e9a7c-5d0b-4c44-9a35-6d1f0c1c7a10"
_TIME = re.compile(r"[0-9-]{10}T[0-9:.]{15}\+00:00")
_MISTAKES = (
    "nonsense",
    "-q -v explain s3://b/x",
    "--profile rack explain s3://b/x",
    "explain",
    "explain s3:/b/x",
    "explain ftp://b/x",
    "explain s3://b/x --format parquet",
    "put bytes s3://",
    "put missing s3://b/x",
    "put bytes memory://x -o deadline",
    "put bytes memory://x -o deadline=soon",
    "put bytes memory://x -o client_kwargs={",
    "put bytes memory://x -o nothing=1",
    "put bytes memory://x --endpoint-url http://localhost:9000",
    f"put bytes {_DELTA}",
    f"resolve {_DELTA} {_TOKEN}",
    f"resolve memory://x {_TOKEN}",
    "inspect nothing",
    "inspect memory://t --format iceberg",
    "inspect memory://t --plot picture.png",
    "inspect memory://t --report report",
    "inspect folder --timeline",
    "fsck nothing",
    "fsck folder",
    "ledger nothing",
    "turns nothing",
    "migrate nothing --to ballot --yes",
    "migrate folder --to nowhere --yes",
    "leave folder --yes",
    "drop folder --yes",
    "policy gs://b/t --format delta",
    "policy s3:// --format delta",
    "policy s3://b/t --format csv",
    "policy s3://b/t",
    "init",
    "init mysql://host",
    "init dynamodb://",
    "probe s3://",
    "probe memory://t --operation rename",
    "probe memory://t --report stores",
    "serve missing.json",
    "serve settings.json --until-eof",
    "spark-conf s3a",
    "flink-conf file --address http://10.0.0.7:8976",
    "simulate",
    "simulate --writers 2-20",
    "simulate --writers few --interval 1m",
    "simulate --writers 5 --interval soon",
    "simulate --writers 5 --interval 1m --runs 0",
    "simulate --writers 5 --interval 1m --plots charts",
    "stress memory://t",
    "stress folder --without rain",
    "stress folder --format csv",
    "stress folder --duration long",
)


def verbs() -> list[str]:
    """Return the names of all verbs, in the order of the overview."""
    return [
        str(each.name or getattr(each.callback, "__name__", "")).replace("_", "-")
        for each in app.registered_commands
    ]


def texts() -> str:
    """Return all of them, at 80 columns, each below its command."""
    return "\n".join(_parts()) + "\n"


def _parts() -> Iterator[str]:
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, own_memory():
        os.chdir(folder)
        try:
            Path("bytes").write_bytes(b"mine")
            Path("settings.json").write_text("{}")
            Path("folder").mkdir()
            MemoryFileSystem().pipe_file(_DELTA, b"{}")
            for command in ("--help", *(f"{each} --help" for each in verbs()), *_MISTAKES):
                yield _part(command, folder)
        finally:
            os.chdir(here)


def _part(command: str, folder: str) -> str:
    env = {
        "COLUMNS": "80",
        "TERM": "dumb",
        "XDG_CONFIG_HOME": folder,
        "XDG_CACHE_HOME": folder,
        "PUTIFABSENT_ARBITER": "",
    }
    came = CliRunner(env=env).invoke(app, command.split())
    shown = (came.stdout + came.stderr).replace(folder, "/home/me")
    lines = [line.rstrip() for line in _TIME.sub("<time>", shown).splitlines()]
    return "\n".join([f"$ putifabsent {command}", *lines, f"exit {int(came.exit_code)}", ""])


if __name__ == "__main__":
    FILE.write_text(texts())
