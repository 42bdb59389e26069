"""A probe calls no honest store a liar, catches the liars, and leaves nothing behind."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent.backends.base import (
    Refused,
    TryAgain,
    Verdict,
)
from putifabsent.backends.local import LocalStore
from putifabsent.backends.probe import CREATES, probe
from putifabsent.errors import UnsafeStore
from putifabsent.fsspec_plugin.stores import store_of
from tests.servers import BucketServer, LocalBucketServer, PublishedLocalBucketServer, Server, chosen, server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from putifabsent.backends.base import (
        Body,
        CreateOutcome,
        Creation,
        GetOutcome,
        HeadOutcome,
        Store,
    )

from tests.backends.probed_stores import (
    FOLDER,
    Deaf,
    Denying,
    Forgetful,
    LosersBytes,
    Memory,
    NotImplementing,
    Overwriting,
    Racy,
    RacyCompletion,
    Refusing,
    SilentlyOverwriting,
    Uploads,
    Vague,
)

# Honest stores


@pytest.mark.parametrize("store", [Memory(), Uploads()], ids=lambda store: type(store).__name__)
def test_an_honest_store_is_found_safe_in_each_operation_with_figures(store: Store) -> None:
    verdicts = probe(store, FOLDER, rounds=8)
    assert list(verdicts) == ["put", "complete"]
    for word, verdict in verdicts.items():
        assert verdict.operation == word
        assert verdict.safe, verdict.evidence
        assert "32 creates at once: 8 of 8 names had one winner" in verdict.evidence


def test_local_disk_is_found_safe_and_nothing_is_left_on_it(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    verdicts = probe(LocalStore(), str(tmp_path), rounds=3)
    assert all(verdict.safe for verdict in verdicts.values()), verdicts
    assert [file.name for file in tmp_path.rglob("*")] == ["mine"]


def test_a_state_folder_that_others_use_stays(tmp_path: Path) -> None:
    theirs = tmp_path / ".putifabsent" / "theirs"
    theirs.parent.mkdir()
    theirs.write_text("kept")
    probe(LocalStore(), str(tmp_path), rounds=1)
    assert list((tmp_path / ".putifabsent").iterdir()) == [theirs]


def test_only_a_folder_of_the_probe_is_written_to() -> None:
    written: set[str] = set()

    class Watched(Memory):
        def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
            written.update((name, creation.state))
            return super().create(name, body, creation)

    store = Watched()
    probe(store, FOLDER, rounds=2)
    folders = {re.sub(r"(/probe-[0-9a-f-]{36})/.*", r"\1", name) for name in written}
    assert len(folders) == 1
    assert folders.pop().startswith(f"{FOLDER}/.putifabsent/probe-")
    assert store.names == []


@pytest.mark.parametrize("creates", [CREATES, 40])
def test_so_many_creates_are_under_way_at_once(creates: int) -> None:
    meeting = threading.Barrier(creates)

    class OnlyTogether(Memory):
        def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
            if body.size > 1024:
                meeting.wait(30)
            return super().create(name, body, creation)

    verdicts = probe(OnlyTogether(), FOLDER, creates=creates, rounds=3)
    assert all(verdict.safe for verdict in verdicts.values()), verdicts


def test_no_create_of_a_race_begins_before_all_are_ready() -> None:
    ready: list[int] = []

    class Watched(Memory):
        def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
            if body.size > 1024:
                names = [thread.name for thread in threading.enumerate()]
                ready.append(sum(name.startswith("putifabsent-probe") for name in names))
            return super().create(name, body, creation)

    probe(Watched(), FOLDER, operations=["put"], rounds=1)
    assert ready == [CREATES] * CREATES


def test_large_and_small_bodies_are_raced() -> None:
    sizes: set[int] = set()

    class Watched(Memory):
        def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
            sizes.add(body.size)
            return super().create(name, body, creation)

    probe(Watched(), FOLDER, rounds=4)
    assert min(sizes) <= 1024
    assert max(sizes) >= 64 * 1024


# Liars


@pytest.mark.parametrize(
    ("store", "evidence"),
    [
        (Racy, r"32 creates at once: \d of 8 names had more than one winner \(up to \d+\)"),
        (Overwriting, r"an existing object was overwritten by a conditional put, which was acknowledged"),
        (SilentlyOverwriting, r"an existing object was overwritten by a refused put"),
        (Deaf, r"a taken name was created by a conditional put, which was acknowledged"),
        (Forgetful, r"token could not be read back"),
        (LosersBytes, r"names held other bytes, or another token, than their winner's"),
        (Denying, r"names were held by a creation that was refused"),
        (Refusing, r"refused: .*not implemented"),
        (NotImplementing, r"refused: it never created a new name, and wrote nothing: NotImplemented \(501\)"),
        (Vague, r"it never refused a taken name, and gave no certain answer: InternalError \(500\)"),
    ],
)
def test_a_liar_is_caught_and_the_evidence_says_how(store: type[Memory], evidence: str) -> None:
    liar = store()
    verdict = probe(liar, FOLDER, operations=["put"])["put"]
    assert not verdict.safe
    assert re.search(evidence, verdict.evidence), verdict.evidence
    assert liar.names == []


def test_a_liar_in_completions_alone_is_unsafe_in_these_alone() -> None:
    verdicts = probe(RacyCompletion(), FOLDER)
    assert verdicts["put"].safe
    assert not verdicts["complete"].safe
    assert "names had more than one winner" in verdicts["complete"].evidence


def test_what_a_store_says_of_itself_is_believed() -> None:
    class NoLinks(Memory):
        def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
            return Refused(UnsafeStore("the filesystem has no hard links"))

    assert probe(NoLinks(), FOLDER)["put"] == Verdict(
        "put", safe=False, evidence="refused: the filesystem has no hard links"
    )


def test_a_store_that_hardly_answers_in_a_race_is_not_called_safe() -> None:
    class Overloaded(Memory):
        def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
            if body.size > 1024:
                return TryAgain(OSError("503 SlowDown\nwith more that nobody reads"))
            return super().create(name, body, creation)

    verdict = probe(Overloaded(), FOLDER, operations=["put"], rounds=8)["put"]
    assert not verdict.safe
    assert verdict.evidence == (
        "only 2 of 8 races had a winner; 192 of 256 creates had no certain answer: 503 SlowDown"
    )


def test_answers_that_are_lost_now_and_then_make_no_liar() -> None:
    turns = iter(range(10**9))

    class Lossy(Memory):
        def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
            turn = next(turns)
            if turn % 7 == 0:
                raise RuntimeError("a client's own surprise")
            if turn % 7 == 1:
                return TryAgain(OSError("503"))
            return super().create(name, body, creation)

    verdict = probe(Lossy(), FOLDER, operations=["put"], rounds=8)["put"]
    assert verdict.safe, verdict.evidence
    assert "creates had no certain answer" in verdict.evidence


# What is no verdict


@pytest.mark.parametrize("error", [PermissionError(13, "AccessDenied"), FileNotFoundError(2, "NoSuchBucket")])
def test_missing_rights_and_buckets_are_errors_and_no_verdict(error: OSError) -> None:
    class Closed(Memory):
        def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
            return Refused(error)

    with pytest.raises(type(error)):
        probe(Closed(), FOLDER)


def test_a_store_that_does_not_answer_is_an_error_and_no_verdict() -> None:
    class Away(Memory):
        def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
            return TryAgain(OSError("connection refused"))

        def head(self, name: str) -> HeadOutcome:
            return TryAgain(OSError("connection refused"))

    with pytest.raises(ConnectionError, match="connection refused"):
        probe(Away(), FOLDER)


def test_bytes_that_may_not_be_read_are_an_error_and_no_verdict() -> None:
    class WriteOnly(Memory):
        def get(self, name: str) -> GetOutcome:
            return Refused(PermissionError(13, "no GetObject"))

    store = WriteOnly()
    with pytest.raises(PermissionError, match="no GetObject"):
        probe(store, FOLDER)
    assert store.names == []


def test_a_folder_that_is_not_there_is_an_error_and_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        probe(LocalStore(), str(tmp_path / "missing"))
    assert list(tmp_path.iterdir()) == []


# Bounds, and what is left


def test_a_probe_ends_after_its_rounds_and_its_time() -> None:
    names: set[str] = set()

    class Watched(Memory):
        def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
            names.add(name)
            return super().create(name, body, creation)

    probe(Watched(), FOLDER, operations=["put"], rounds=5)
    assert len(names) == 1 + 5
    names.clear()
    verdict = probe(Watched(), FOLDER, operations=["put"], rounds=10**9, seconds=0)["put"]
    assert len(names) == 1 + 1
    assert "1 of 1 names" in verdict.evidence


def test_progress_goes_from_nothing_to_all() -> None:
    steps: list[tuple[int, int, str]] = []
    probe(Racy(), FOLDER, rounds=20, progress=lambda done, total, what: steps.append((done, total, what)))
    assert steps[0] == (0, 42, "put: one after the other")
    assert (22, 42, "complete: race 1 of 20") in steps
    assert steps[-1][:2] == (42, 42)
    assert [done for done, _, _ in steps] == sorted(done for done, _, _ in steps)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("step", ["put: race 2", "complete: race 1"])
def test_an_interrupted_probe_leaves_nothing_either(interruption: type[BaseException], step: str) -> None:
    store = Uploads()

    def interrupt(done: int, total: int, what: str) -> None:
        if what.startswith(step):
            raise interruption

    with pytest.raises(interruption):
        probe(store, FOLDER, rounds=3, progress=interrupt)
    assert store.names == []
    assert store.open == set()


def test_an_interruption_within_a_race_holds_up_nobody_and_leaves_nothing() -> None:
    class Interrupting(Uploads):
        def get(self, name: str) -> GetOutcome:
            if self.staged > 2:
                raise KeyboardInterrupt
            return super().get(name)

    store = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        probe(store, FOLDER, operations=["complete"])
    assert store.staged == 2 + CREATES
    assert store.names == []
    assert store.open == set()


def test_a_process_that_gets_no_more_threads_fails_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = threading.Thread.start
    started: list[str] = []

    def start_some(thread: threading.Thread) -> None:
        started.append(thread.name)
        if sum(name.startswith("putifabsent-probe") for name in started) > CREATES // 2:
            monkeypatch.undo()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_some)
    store = Memory()
    with pytest.raises(RuntimeError, match="can't start new thread"):
        probe(store, FOLDER)
    assert store.names == []


def test_every_upload_of_a_probe_is_completed_or_discarded() -> None:
    store = Uploads()
    probe(store, FOLDER, operations=["complete"], rounds=2)
    assert store.staged == 2 + 2 * CREATES
    assert store.most_open == CREATES
    assert store.open == set()


def test_every_version_that_a_liar_has_made_is_removed() -> None:
    class Versioned(Racy):
        """Deleting a version uncovers the one before it, as often as a race of 32 can have overwritten it."""

        def __init__(self) -> None:
            super().__init__()
            self.covered: dict[str, list[Any]] = {}

        def drop(self, name: str) -> None:
            there = self.fs.store.pop(name, None)
            if there is not None:
                self.covered.setdefault(name, [there] * 31)

        def delete(self, name: str, version: str | None = None) -> Any:
            outcome = super().delete(name, version)
            if self.covered.get(name):
                self.fs.store[name] = self.covered[name].pop()
            return outcome

    store = Versioned()
    verdict = probe(store, FOLDER, operations=["put"])["put"]
    assert "more than one winner" in verdict.evidence
    assert store.covered
    assert store.names == []


def test_what_can_not_be_removed_is_said(caplog: pytest.LogCaptureFixture) -> None:
    class Undeletable(Memory):
        def delete(self, name: str, version: str | None = None) -> Any:
            return Refused(PermissionError(13, "no DeleteObject"))

    assert probe(Undeletable(), FOLDER, rounds=1)["put"].safe
    assert re.search(rf"{FOLDER}/\.putifabsent/probe-\S+ is empty: look there", caplog.text)


# Real servers


@contextmanager
def _probed(running: Server) -> Iterator[tuple[Store, str]]:
    """Give a real server's store and a bucket, in which nothing may be left."""
    assert isinstance(running, BucketServer)
    with running:
        roomy = {"config_kwargs": {"max_pool_connections": CREATES}} if running.kind == "s3" else {}
        options = {**running.storage_options, **roomy}
        fs = fsspec.filesystem(running.scheme, skip_instance_cache=True, **options)
        bucket = running.new_bucket()
        yield store_of(fs, options, 30), bucket
        assert fs.find(bucket) == []


def test_a_real_server_is_found_safe() -> None:
    with _probed(LocalBucketServer()) as (store, bucket):
        verdicts = probe(store, bucket, rounds=3)
        assert [word for word, verdict in verdicts.items() if verdict.safe] == ["put", "complete"]


def test_a_real_server_that_keeps_no_tokens_is_caught() -> None:
    with _probed(PublishedLocalBucketServer()) as (store, bucket):
        verdicts = probe(store, bucket, rounds=1)
        assert not any(verdict.safe for verdict in verdicts.values())
        assert all("token could not be read back" in verdict.evidence for verdict in verdicts.values())


@pytest.mark.servers
def test_moto_is_caught_in_completions() -> None:
    with _probed(server("moto")) as (store, bucket):
        verdicts = probe(store, bucket, operations=["complete"], rounds=60, seconds=90)
        assert not verdicts["complete"].safe, verdicts
        assert "had more than one winner" in verdicts["complete"].evidence


# What racing each by 64 sockets has shown.
_SAFE = {
    "versitygw": {"put", "complete"},
    "minio": {"put", "complete"},
    "gofakes3": {"put"},
    "s3s-fs": set(),
    "fake-gcs-server": {"put", "complete"},
    "azurite": {"put", "complete"},
}


@pytest.mark.servers
@pytest.mark.parametrize("name", [name for name in chosen() if name in _SAFE])
def test_a_server_is_judged_as_it_was_seen(name: str) -> None:
    with _probed(server(name)) as (store, bucket):
        verdicts = probe(store, bucket)
        assert {word for word, verdict in verdicts.items() if verdict.safe} == _SAFE[name], verdicts
