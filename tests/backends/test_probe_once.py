"""A mount probes once, for all its threads and processes: only what is not known, and not what has failed."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from putifabsent.backends.base import (
    Refused,
    Verdict,
)
from putifabsent.backends.probe import verdicts_for
from putifabsent.backends.probe_cache import remember, turn

if TYPE_CHECKING:
    from pathlib import Path

    from putifabsent.backends.base import (
        Body,
        CreateOutcome,
        Creation,
        HeadOutcome,
        Store,
    )

from tests.backends.probed_stores import (
    FOLDER,
    Memory,
    Uploads,
)

# For a mount


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("has_cache", [True, False])
def test_a_mount_asks_once_for_all_threads_of_its_process(own_cache: Path, has_cache: bool) -> None:
    if not has_cache:
        own_cache.write_text("in the way of a folder")
    made: list[Store] = []
    found: list[dict[str, Verdict]] = []
    together = threading.Barrier(8)

    def make() -> Store:
        made.append(Memory())
        return made[-1]

    def ask() -> None:
        together.wait()
        found.append(verdicts_for("memory", f"http://threads-{has_cache}", make, FOLDER))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert len(found) == 8
    assert all(verdicts == found[0] and list(verdicts) == ["put", "complete"] for verdicts in found)


@pytest.mark.usefixtures("own_cache")
def test_only_what_is_not_known_is_probed() -> None:
    made: list[Uploads] = []

    def make() -> Store:
        made.append(Uploads())
        return made[-1]

    verdicts_for("memory", "http://more", make, FOLDER, operations=["put", "complete"])
    verdicts = verdicts_for("memory", "http://more", make, FOLDER, operations=["put", "complete", "list"])
    assert list(verdicts) == ["put", "complete", "list"]
    assert [store.staged > 0 for store in made] == [True, False]


@pytest.mark.usefixtures("own_cache")
def test_a_process_waits_for_another_ones_probe_and_uses_what_it_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = threading.Event()
    monkeypatch.setattr("putifabsent.backends.probe_cache.time.sleep", lambda _: waiting.set())
    made: list[Store] = []
    found: list[dict[str, Verdict]] = []

    def make() -> Store:
        made.append(Memory())
        return made[-1]

    theirs = {word: Verdict(word, safe=True, evidence="theirs") for word in ("put", "complete")}
    thread = threading.Thread(
        target=lambda: found.append(verdicts_for("memory", "http://shared", make, FOLDER))
    )
    # A lock is the open file's, so that this thread is to the other one as another process.
    with turn("memory", "http://shared"):
        thread.start()
        assert waiting.wait(30)
        remember("memory", "http://shared", FOLDER, theirs)
    thread.join()
    assert found == [theirs]
    assert made == []


@pytest.mark.usefixtures("own_cache")
def test_a_process_that_waits_too_long_probes_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("putifabsent.backends.probe_cache.LONGEST_WAIT", 0)
    with turn("memory", "http://stuck"):
        assert verdicts_for("memory", "http://stuck", Memory, FOLDER)["put"].safe


@pytest.mark.usefixtures("own_cache")
def test_a_failed_probe_is_not_remembered() -> None:
    class Closed(Memory):
        def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
            return Refused(PermissionError(13, "AccessDenied"))

    with pytest.raises(PermissionError):
        verdicts_for("memory", "http://closed", Closed, FOLDER)
    assert verdicts_for("memory", "http://closed", Memory, FOLDER)["put"].safe


@pytest.mark.usefixtures("own_cache")
def test_a_child_forked_while_a_thread_is_probing_can_probe() -> None:
    probing, forked = threading.Event(), threading.Event()

    class Slow(Memory):
        def head(self, name: str) -> HeadOutcome:
            probing.set()
            assert forked.wait(30)
            return super().head(name)

    thread = threading.Thread(target=verdicts_for, args=("memory", "http://forked", Slow, FOLDER))
    thread.start()
    assert probing.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        safe = verdicts_for("memory", "http://forked", Memory, FOLDER)["put"].safe
        os._exit(0 if safe else 1)
    forked.set()
    thread.join()
    _, status = os.waitpid(child, 0)
    assert status == 0
