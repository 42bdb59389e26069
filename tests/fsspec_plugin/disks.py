"""Writes on a disk of which something is wrong, in a process of its own, and reports what came of it.

``python -m tests.fsspec_plugin.disks PLACE TROUBLE``: the place is such a disk already, or the trouble is put
into the calls that would meet it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec

MOUNTS = {
    "full": "-t tmpfs -o size=64k none",
    "no inodes": "-t tmpfs -o nr_inodes=8 none",
    "read-only": "-t tmpfs none",
    "no attributes": "-t ramfs none",
    "full temporary folder": "-t tmpfs -o size=64k none",
}
"""How to come by the real thing, in a mount namespace that goes with the process."""

INJECTED = {
    "full": ("write", errno.ENOSPC),
    "no inodes": ("mkdir", errno.ENOSPC),
    "read-only": ("mkdir", errno.EROFS),
    "no attributes": ("setxattr", errno.ENOTSUP),
    "no links": ("link", errno.EPERM),
    "two disks": ("link", errno.EXDEV),
    "full temporary folder": ("TemporaryFile", errno.ENOSPC),
    "broken": ("fsync", errno.EIO),
}
"""The same by a call of ``os`` (or ``tempfile``) that fails: where nothing may be mounted."""

TAKEN = f"t/_delta_log/{0:020d}.json"
FREE = f"u/_delta_log/{0:020d}.json"
NO_MOUNT = 77


@dataclass
class Report:
    """What came of each way to write: the error's type, number and message; and what lies there now."""

    outcomes: dict[str, tuple[str, int | None, str]]
    files: dict[str, str]
    folders: list[str]
    injected: bool


def report(trouble: str, folder: Path) -> Report:
    """Write on such a disk."""
    here = [sys.executable, "-m", "tests.fsspec_plugin.disks", str(folder), trouble]
    if trouble in MOUNTS:
        mount = f"mount {MOUNTS[trouble]} '{folder}' || exit {NO_MOUNT}; exec \"$@\""
        for namespace in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
            done = run([*namespace, "sh", "-c", mount, "sh", *here, "mounted"])
            if done is not None:
                return Report(**json.loads(done), injected=False)
    done = run([*here, "injected"])
    if done is None:
        raise AssertionError("the child could not be started")
    return Report(**json.loads(done), injected=True)


def run(command: list[str]) -> str | None:
    """Return what a command prints, or None where it may not be done here."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        return None
    if done.returncode and not done.stderr.startswith("Traceback"):
        return None
    assert not done.returncode, done.stderr
    return done.stdout


def main(place: str, trouble: str, how: str) -> None:
    """Prepare the place, write in every way, and print the report."""
    folder = Path(place)
    for name in (TAKEN, FREE):
        (folder / name).parent.mkdir(parents=True)
    (folder / TAKEN).write_bytes(b"the winner's")
    (folder / "source").write_bytes(b"source")
    if how == "mounted":
        _fill(folder / "filler")
    ways = _ways(folder, b"x" * (17 * 2**20 if trouble == "full temporary folder" else 10))
    if trouble == "full temporary folder":
        tempfile.tempdir = place
    if how == "injected":
        _inject(*INJECTED[trouble])
    elif trouble == "read-only":
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)  # noqa: S607 - wherever it lies
    outcomes = {}
    for way, write in ways.items():
        try:
            write()
        except Exception as error:  # noqa: BLE001 - the test judges it
            outcomes[way] = (type(error).__name__, getattr(error, "errno", None), str(error))
    there = {str(each.relative_to(folder)): each for each in folder.rglob("*")}
    files = {name: each.read_text() for name, each in there.items() if each.is_file() and name != "filler"}
    folders = [name for name, each in there.items() if each.is_dir()]
    print(json.dumps({"outcomes": outcomes, "files": files, "folders": sorted(folders)}))  # noqa: T201 - it is how the child reports


def _fill(filler: Path) -> None:
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        for _ in range(64):  # pages: more than the small disks have
            file.write(b"f" * 4096)


def _ways(folder: Path, body: bytes) -> dict[str, Any]:
    fs = fsspec.filesystem("piafile")
    free, source = str(folder / FREE), str(folder / "source")

    def opened() -> None:
        with fs.open(free, "wb") as file:
            file.write(body)

    return {
        "pipe_file": lambda: fs.pipe_file(free, body),
        "open": opened,
        "put_file": lambda: fs.put_file(source, free),
        "cp_file": lambda: fs.cp_file(source, free),
        "mv": lambda: fs.mv(source, free),
        "taken": lambda: fs.pipe_file(str(folder / TAKEN), b"x"),
    }


def _inject(call: str, number: int) -> None:
    def fails(*args: Any, **kwargs: Any) -> Any:
        name = args[0] if args and isinstance(args[0], (str, Path)) else None
        raise OSError(number, os.strerror(number), *([name] if name else []))

    setattr(tempfile if call == "TemporaryFile" else os, call, fails)


if __name__ == "__main__":
    main(*sys.argv[1:])
