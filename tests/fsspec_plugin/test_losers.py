"""Who has lost a table's next state comes back for the one after it in the order of the losses."""

from __future__ import annotations

import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

from putifabsent.backends.base import Refused
from putifabsent.errors import NameTaken
from putifabsent.fsspec_plugin.queues import queue_of
from putifabsent.fsspec_plugin.remote import Remote

if TYPE_CHECKING:
    import pytest

    from tests.fsspec_plugin.grounds import Ground

LONG = 600.0


class Committer:
    """A session of Iceberg's writers, which renames metadata as Hadoop's catalog does."""

    def __init__(
        self, ground: Ground, session: str, waiters: threading.Semaphore | None = None, **options: Any
    ) -> None:
        self.ground = ground
        self.waiters = waiters
        self.folder = ground.name("db/t/metadata")
        self.fs = ground.mount(writer_session=session, **{"deadline": LONG, **options})
        self.had: list[int] = []

    def commits(self, number: int) -> bool:
        """Try to commit a version; return whether it did."""
        source = f"{self.folder}/{uuid.uuid4()}.metadata.json"
        self.ground.around.makedirs(self.folder, exist_ok=True)
        self.ground.write(source, b"{}")
        try:
            name, token = f"{self.folder}/v{number}.metadata.json", str(uuid.uuid4())
            Remote(self.fs, self.waiters).rename_as(source, name, token)
        except NameTaken:
            return False
        return True

    def queue(self) -> list[str]:
        """Return the entries of those who have lost."""
        state = self.fs.guard.explain(f"{self.folder}/v1.metadata.json").state
        return list(self.ground.around.find(queue_of(state)))


def loses(committer: Committer, number: int, order: list[str], name: str) -> threading.Thread:
    """Have somebody lose a version in a thread of its own; return that when it waits."""

    def lose() -> None:
        assert not committer.commits(number)
        order.append(name)

    before = len(committer.queue())
    thread = threading.Thread(target=lose)
    thread.start()
    end = time.monotonic() + 60
    while len(committer.queue()) == before and time.monotonic() < end:
        time.sleep(0.01)
    return thread


def test_who_has_lost_hears_of_it_when_it_is_the_next(ground: Ground) -> None:
    a, b, c, d = (Committer(ground, session) for session in "abcd")
    order: list[str] = []
    assert a.commits(1)
    assert not b.commits(1)  # nobody is before it
    waiting = [loses(c, 1, order, "c"), loses(d, 1, order, "d")]
    assert order == []
    assert b.commits(2)
    waiting[0].join(60)
    assert order == ["c"]
    assert not c.commits(2)  # its place is the first still
    assert c.commits(3)
    waiting[1].join(60)
    assert order == ["c", "d"]
    assert d.commits(4)
    assert a.queue() == []


def test_who_comes_later_waits_behind_who_has_lost(memory: Ground) -> None:
    a, b, late = Committer(memory, "a"), Committer(memory, "b"), Committer(memory, "late")
    order: list[str] = []
    assert a.commits(1)
    assert not b.commits(1)
    waiting = [loses(a, 2, order, "a"), loses(late, 2, order, "late")]
    assert order == []
    assert b.commits(2)
    waiting[0].join(60)
    assert order == ["a"]
    assert a.commits(3)
    waiting[1].join(60)
    assert late.commits(4)
    assert a.queue() == []


def test_nobody_waits_for_long_for_who_does_not_come_back(memory: Ground) -> None:
    a, gone, c = Committer(memory, "a"), Committer(memory, "gone"), Committer(memory, "c", deadline=0.2)
    assert a.commits(1)
    assert not gone.commits(1)
    assert not c.commits(1)
    assert c.commits(2)
    assert len(c.queue()) == 1


def test_where_nobody_has_lost_one_look_at_the_queue_is_all(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = Committer(memory, "a"), Committer(memory, "b")
    asked: list[str] = []

    def listed(folder: str) -> Any:
        asked.append(folder)
        return listing(folder)

    store = a.fs.mount.store
    listing = store.list
    monkeypatch.setattr(store, "list", listed)
    assert b.commits(1)
    assert a.commits(2)
    state = a.fs.guard.explain(f"{a.folder}/v1.metadata.json").state
    assert [each for each in asked if each == queue_of(state)] == [queue_of(state)]
    assert not memory.around.exists(queue_of(state))


def test_without_a_tower_nobody_waits(memory: Ground) -> None:
    a, b, c = (Committer(memory, session, tower=False) for session in "abc")
    assert a.commits(1)
    assert not b.commits(1)
    assert not c.commits(1)
    assert a.queue() == []


def test_a_queue_that_may_not_be_written_keeps_nobody_from_hearing(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = Committer(memory, "a"), Committer(memory, "b")
    assert a.commits(1)

    monkeypatch.setattr(b.fs.mount.store, "put", lambda *_: Refused(PermissionError("no rights")))
    assert not b.commits(1)
    assert b.commits(2)


def test_no_more_wait_of_all_sessions_than_leave_threads_for_others(memory: Ground) -> None:
    waiters = threading.Semaphore(1)
    a, b, c, d = (Committer(memory, session, waiters) for session in "abcd")
    order: list[str] = []
    assert a.commits(1)
    assert not b.commits(1)
    waits = loses(c, 1, order, "c")
    assert not d.commits(1)
    assert order == []
    assert b.commits(2)
    waits.join(60)
    assert order == ["c"]
    assert waiters.acquire(blocking=False)
