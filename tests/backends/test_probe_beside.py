"""A probe of what arbiters beside the store rest on: listings after puts, and copies of what is deleted."""

from __future__ import annotations

import os
import threading
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ClassVar

import fsspec
import pytest

from putifabsent.backends.base import (
    Absent,
    Created,
    Exists,
    InMemory,
    Listed,
    Maybe,
    Refused,
    TryAgain,
    Written,
)
from putifabsent.backends.local import LocalStore, _opened_alone
from putifabsent.backends.memory import MemoryStore
from putifabsent.backends.probe import BESIDE, CREATES, probe
from putifabsent.backends.probe_ground import Ground
from putifabsent.fsspec_plugin.stores import store_of
from tests.backends.memory_stores import OwnMemory
from tests.servers import BucketServer, LocalBucketServer, chosen, server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from putifabsent.backends.base import Body, Creation

FOLDER = "/t/probed"


class Memory(MemoryStore):
    """A store of its own, honest."""

    def __init__(self) -> None:
        super().__init__(OwnMemory())


def test_an_honest_store_is_found_safe_and_left_empty() -> None:
    store = Memory()
    verdicts = probe(store, FOLDER, operations=BESIDE, rounds=4)
    assert {word: verdict.safe for word, verdict in verdicts.items()} == {"list": True, "publish": True}
    assert verdicts["list"].evidence == (
        f"{CREATES} writers at once: each of {4 * CREATES} listings, in 4 folders, showed all that had been "
        "put before it"
    )
    assert verdicts["publish"].evidence == (
        "one after the other: a copy of a missing source failed, and wrote nothing"
    )
    assert store.fs.store == {}


def test_a_disk_is_found_safe_and_left_empty(tmp_path: Path) -> None:
    verdicts = probe(LocalStore(), str(tmp_path), operations=BESIDE, rounds=2)
    assert all(verdict.safe for verdict in verdicts.values()), verdicts
    assert list(tmp_path.iterdir()) == []


def test_what_somebody_else_removes_meanwhile_is_waited_for(tmp_path: Path) -> None:
    with Ground(LocalStore(), str(tmp_path)) as ground:
        name = ground.name("held")
        assert isinstance(ground.store.create(name, InMemory(b"a"), ground.creation()), Created)
        with ExitStack() as held:
            held.enter_context(_opened_alone(name))
            released = threading.Timer(0.3, held.pop_all().close)
            released.start()
    released.join()
    assert list(tmp_path.iterdir()) == []


def test_they_are_tried_only_where_they_are_asked_for() -> None:
    class Watched(Memory):
        def put(self, name: str, body: Body, creation: Creation) -> Any:
            raise AssertionError("nobody asked for this")

    assert set(probe(Watched(), FOLDER, rounds=1)) == {"put", "complete"}
    assert all(verdict.safe for verdict in probe(Watched(), FOLDER, rounds=1).values())


# --- liars


class Liar(Memory):
    """Memory that breaks one promise.

    Attributes
    ----------
    word, evidence
        The operation in which it must be found out, and what must be said of it.
    """

    word: ClassVar[str] = "list"
    evidence: ClassVar[str]


class ListsLate(Liar):
    """What was put last is not listed yet."""

    evidence = "one after the other: 1 keys were put, 0 of them listed"

    def list(self, folder: str) -> Any:
        listed = super().list(folder)
        return Listed(listed.entries[:-1]) if isinstance(listed, Listed) else listed


class ListsLateInARace(Liar):
    """Large folders are listed as they were a little ago."""

    evidence = "listings lacked what had been put before them, in 8 of 8 folders"

    def list(self, folder: str) -> Any:
        listed = super().list(folder)
        late = isinstance(listed, Listed) and len(listed.entries) > 8
        return Listed(listed.entries[8:]) if late and isinstance(listed, Listed) else listed


class ForgetsTheToken(Liar):
    evidence = "the bytes or the token of a put could not be read back"

    def put(self, name: str, body: Body, creation: Creation) -> Any:
        return super().put(name, body, creation._replace(token="forgotten"))


class NeverPuts(Liar):
    evidence = "refused: it never put a key: busy"

    def put(self, name: str, body: Body, creation: Creation) -> Any:
        return TryAgain(OSError("busy"))


class NeverLists(Liar):
    evidence = "refused: it never listed a folder: no listings here"

    def list(self, folder: str) -> Any:
        return Refused(OSError("no listings here"))


class ListsForFew(Liar):
    """Answers a quarter of those who list a folder."""

    evidence = "only 192 of 768 writers could list; 576 of 768 writers had no certain answer: busy"

    def __init__(self) -> None:
        super().__init__()
        self._asked: Counter[str] = Counter()
        self._counting = threading.Lock()

    def list(self, folder: str) -> Any:
        with self._counting:
            self._asked[folder] += 1
            is_among_few = self._asked[folder] <= CREATES // 4
        return super().list(folder) if is_among_few else TryAgain(OSError("busy"))


class CopiesNothing(Liar):
    word = "publish"
    evidence = "one after the other: a copy of a missing source was acknowledged"

    def publish(self, source: str, name: str, creation: Creation) -> Any:
        outcome = super().publish(source, name, creation)
        return Written() if outcome == Absent() else outcome


class SilentlyCopiesNothing(Liar):
    word = "publish"
    evidence = "one after the other: a copy of a missing source wrote something"

    def publish(self, source: str, name: str, creation: Creation) -> Any:
        outcome = super().publish(source, name, creation)
        if outcome == Absent():
            self.put(name, InMemory(b""), creation)
        return outcome


class DoesNotSayWhy(Liar):
    word = "publish"
    evidence = "one after the other: a copy of a missing source failed without saying why: Bad Request"

    def publish(self, source: str, name: str, creation: Creation) -> Any:
        outcome = super().publish(source, name, creation)
        return Refused(OSError("Bad Request")) if outcome == Absent() else outcome


class SignsAsThePublisher(Liar):
    word = "publish"
    evidence = "one after the other: the bytes or the token of a copy could not be read back"

    def publish(self, source: str, name: str, creation: Creation) -> Any:
        got = self.get(source)
        return got if got == Absent() else self.put(name, InMemory(got.data), creation)  # type: ignore[union-attr]


class NeverPublishes(Liar):
    word = "publish"
    evidence = "refused: it never published a key: no copies here"

    def publish(self, source: str, name: str, creation: Creation) -> Any:
        return Refused(OSError("no copies here"))


class HalfOverwrites(Liar):
    word = "publish"
    evidence = "one after the other: a copy over another object left neither of them whole"

    def publish(self, source: str, name: str, creation: Creation) -> Any:
        was_there = name in self.fs.store
        outcome = super().publish(source, name, creation)
        if was_there:
            self.fs.store[name].truncate(1)
        return outcome


class NeverDeletes(Liar):
    word = "publish"
    evidence = "refused: it never deleted a key"

    def delete(self, name: str, version: str | None = None) -> Any:
        return Maybe(OSError("busy"))


def every_liar() -> Iterator[type[Liar]]:
    yield from Liar.__subclasses__()


@pytest.mark.parametrize("liar", list(every_liar()))
def test_a_liar_is_caught(liar: type[Liar]) -> None:
    verdict = probe(liar(), FOLDER, operations=[liar.word])[liar.word]
    assert not verdict.safe
    assert liar.evidence in verdict.evidence


def test_a_store_that_can_not_overwrite_is_safe() -> None:
    class Once(Memory):
        def publish(self, source: str, name: str, creation: Creation) -> Any:
            if source in self.fs.store and name in self.fs.store:
                return Exists()
            return super().publish(source, name, creation)

    assert probe(Once(), FOLDER, operations=["publish"], rounds=2)["publish"].safe


def test_an_answer_that_is_lost_now_and_then_is_no_fault() -> None:
    class Lossy(Memory):
        def __init__(self) -> None:
            super().__init__()
            self._number = 0

        def publish(self, source: str, name: str, creation: Creation) -> Any:
            self._number += 1
            outcome = super().publish(source, name, creation)
            return Maybe(OSError("lost")) if self._number % 7 == 0 else outcome

    verdict = probe(Lossy(), FOLDER, operations=["publish"], rounds=2)["publish"]
    assert verdict.safe


@pytest.mark.parametrize("word", BESIDE)
def test_what_is_the_mount_s_affair_is_raised(word: str) -> None:
    class Closed(Memory):
        def put(self, name: str, body: Body, creation: Creation) -> Any:
            return Refused(PermissionError(13, "AccessDenied"))

    with pytest.raises(PermissionError, match="AccessDenied"):
        probe(Closed(), FOLDER, operations=[word])


@pytest.mark.parametrize("step", ["list: race 2", "publish: one after the other"])
def test_an_interrupted_probe_leaves_nothing_either(step: str, tmp_path: Path) -> None:
    def interrupt(done: int, total: int, what: str) -> None:
        if what.startswith(step):
            raise KeyboardInterrupt

    store = Memory()
    for each, folder in ((store, FOLDER), (LocalStore(), str(tmp_path))):
        with pytest.raises(KeyboardInterrupt):
            probe(each, folder, operations=BESIDE, rounds=3, progress=interrupt)
    assert store.fs.store == {}
    assert list(tmp_path.iterdir()) == []


# --- real servers


ROUNDS = 6 if os.environ.get("SHORT") else 24


def _probed(running: BucketServer, rounds: int = ROUNDS) -> set[str]:
    with running:
        roomy = {"config_kwargs": {"max_pool_connections": CREATES}} if running.kind == "s3" else {}
        options = {**running.storage_options, **roomy}
        fs = fsspec.filesystem(running.scheme, skip_instance_cache=True, **options)
        bucket = running.new_bucket()
        verdicts = probe(store_of(fs, options, 30), bucket, operations=BESIDE, rounds=rounds, seconds=60)
        assert fs.find(bucket) == []
    return {word for word, verdict in verdicts.items() if verdict.safe}


def test_a_real_server_is_found_safe() -> None:
    assert _probed(LocalBucketServer(), rounds=3) == {"list", "publish"}


@pytest.mark.servers
@pytest.mark.parametrize("name", [name for name in chosen() if isinstance(server(name), BucketServer)])
def test_other_arbiters_can_rest_on_every_server_that_was_tried(name: str) -> None:
    running = server(name)
    assert isinstance(running, BucketServer)
    assert _probed(running) == {"list", "publish"}
