"""A peer's suite: taken from PyPI, unpacked once a version, run stock or guarded."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from tests.servers import BucketServer, server
from tests.servers.installed import cache

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.peers.table import Peer

__all__ = ["Outcomes", "Runner", "runner"]

Outcomes = dict[str, str]
"""``passed``, ``failed``, ``error`` or ``skipped``, by test."""

_HERE = Path(__file__).parent
_PROJECT = _HERE.parents[1]
_LOCK = _PROJECT / "locks" / "peers-sdists.txt"


@dataclass(frozen=True)
class Runner:
    """Runs one peer's suite, whose server, if it wants one, is there."""

    peer: Peer
    root: Path

    def run(self, *, guarded: bool, log: Path) -> Outcomes:
        """Return each test's outcome; what pytest prints goes to ``log``."""
        with tempfile.TemporaryDirectory() as made, _served(self.peer) as (settings, found):
            folder = Path(made)
            results = folder / "results.xml"
            alone = self.peer.within in ("installed", "ours")  # no configuration of pytest is theirs
            command = [
                *(str(_python(self.peer)), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "guarding"),
                "--continue-on-collection-errors",
                # Their own options want plug-ins that only make reports.
                *("-o", "addopts=", "-o", "asyncio_default_fixture_loop_scope=function", "--timeout=120"),
                *(f"--rootdir={self.root}", f"--junitxml={results}"),
                *(("-c", os.devnull) if alone else ()),
                f"--basetemp={folder / 'temporary'}",
                *(each.format_map(found) for each in self.peer.arguments),
                *(str(self.root / each) for each in self.peer.tests),
            ]
            with log.open("w") as printed:
                status = subprocess.run(
                    command,
                    cwd=folder if alone else self.root,
                    env={**os.environ, **dict(self.peer.settings), **settings, **self._told(guarded=guarded)},
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=subprocess.STDOUT,
                    check=False,
                ).returncode
            if status not in (0, 1) or not results.exists():  # 1: some have failed
                raise RuntimeError(f"{self.peer.name}: pytest ended with {status}; what it printed: {log}")
            return _outcomes(results)

    def _told(self, *, guarded: bool) -> dict[str, str]:
        return {
            # Suites start servers by name.
            "PATH": f"{_python(self.peer).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(_HERE),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PUTIFABSENT_PEER_ROOT": str(self.root),
            "PUTIFABSENT_PEER_GUARDS": " ".join(self.peer.guards) if guarded else "",
            # No suite finds an account of the one who runs it.
            "AWS_ACCESS_KEY_ID": "none",
            "AWS_SECRET_ACCESS_KEY": "none",
            "AWS_EC2_METADATA_DISABLED": "true",
            # moto decides some races wrongly. No suite races, and a probe of it would come out by luck.
            "PUTIFABSENT_ARBITER": "native",
        }


@contextmanager
def runner(peer: Peer) -> Iterator[Runner]:
    """Lay out a peer's suite."""
    with ExitStack() as running:
        yield Runner(peer, _root(peer, running))


@contextmanager
def _served(peer: Peer) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Start what a suite asks for: a new server for each run, for suites leave things behind."""
    if peer.server is None:
        yield {}, {}
        return
    with server(peer.server) as started:
        assert isinstance(started, BucketServer)
        yield _ADDRESSES[peer.server](started)


def _of_s3(running: BucketServer) -> tuple[dict[str, str], dict[str, str]]:
    running._make("warehouse")
    options = running.storage_options
    return {}, {"endpoint": running.endpoint, "key": options["key"], "secret": options["secret"]}


def _of_gcs(running: BucketServer) -> tuple[dict[str, str], dict[str, str]]:
    return {"STORAGE_EMULATOR_HOST": running.endpoint, "FSSPEC_GCS_TOKEN": "anon"}, {}


def _of_azure(running: BucketServer) -> tuple[dict[str, str], dict[str, str]]:
    return {"PUTIFABSENT_PEER_AZURITE": running.endpoint.rpartition("/")[0]}, {}


_ADDRESSES = {"localbucket": _of_s3, "fake-gcs-server": _of_gcs, "azurite": _of_azure}


def _python(peer: Peer) -> Path:
    return _PROJECT / peer.environment / "bin" / "python"


def _root(peer: Peer, running: ExitStack) -> Path:
    if peer.within == "ours":
        root = Path(running.enter_context(tempfile.TemporaryDirectory())) / "tests"
        root.mkdir()
        for each in peer.tests:
            shutil.copy(_HERE / each, root)
        return root
    if peer.within == "installed":
        return _package(peer) / "tests"
    unpacked = _unpacked(peer.name)
    if peer.within == "sdist":
        return unpacked
    root = Path(running.enter_context(tempfile.TemporaryDirectory()))
    package = _package(peer)
    shutil.copytree(package, root / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    for each in peer.tests:
        shutil.copytree(unpacked / each, root / each)
    return root


def _package(peer: Peer) -> Path:
    find = f"from importlib.util import find_spec as f; print(f({peer.name!r}).submodule_search_locations[0])"
    return Path(subprocess.check_output([_python(peer), "-c", find], text=True).strip())


def _unpacked(name: str) -> Path:
    """Return the folder of a pinned sdist, which is there after the first time."""
    requirement, version = _pinned(name)
    peers = cache() / "peers"
    folder = peers / f"{name}-{version}"
    if not folder.is_dir():
        peers.mkdir(parents=True, exist_ok=True)
        # Beside its place, and moved there in one step: a folder that is there is whole.
        with tempfile.TemporaryDirectory(dir=peers, prefix=".") as made:
            work = Path(made)
            (work / "wanted.txt").write_text(requirement)
            subprocess.run(
                [
                    *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:"),
                    # pip looks at an sdist's metadata by its build back end, which the lock has.
                    *("--no-build-isolation", "--require-hashes", "--dest", made),
                    *("--requirement", str(work / "wanted.txt")),
                ],
                check=True,
            )
            (archive,) = work.glob("*.tar.gz")
            with tarfile.open(archive) as packed:
                packed.extractall(work / "unpacked", filter="data")
            (inside,) = (work / "unpacked").iterdir()
            try:
                inside.rename(folder)
            except OSError:
                if not folder.is_dir():  # another run was faster
                    raise
    return folder


def _pinned(name: str) -> tuple[str, str]:
    """Return a peer's lines of the lock, and the version that is this Python's."""
    from packaging.requirements import Requirement

    blocks = re.split(r"^(?=\S)", _LOCK.read_text(), flags=re.MULTILINE)
    for block in blocks:
        said = Requirement(block.partition("\\\n")[0]) if block.startswith(f"{name}==") else None
        if said and (said.marker is None or said.marker.evaluate()):
            return block, str(said.specifier).removeprefix("==")
    raise LookupError(f"{_LOCK.name} has no {name}")


def _outcomes(results: Path) -> Outcomes:
    found: Outcomes = {}
    for case in ET.parse(results).iter("testcase"):  # noqa: S314 - pytest's own, of a moment ago
        tags = {child.tag for child in case} & {"failure", "error", "skipped"}
        came = {"failure": "failed", "error": "error", "skipped": "skipped"}
        found[f"{case.get('classname')}::{case.get('name')}"] = (
            came["failure" if "failure" in tags else min(tags)] if tags else "passed"
        )
    return found
