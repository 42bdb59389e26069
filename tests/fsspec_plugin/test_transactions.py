"""In a transaction every write of a guarded name waits for its end, or is refused; none happens at once."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from fsspec.transaction import Transaction

from putifabsent import NameTaken
from tests.fsspec_plugin.children import in_a_child

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fsspec_plugin.grounds import Ground

    Way = Callable[[Ground, Path], Any]

BODY = b"mine"
MEANWHILE = 60


class OnTheWayError(Exception):
    pass


def on_disk(here: Path) -> str:
    (here / "source").write_bytes(BODY)
    return str(here / "source")


def tree(here: Path) -> str:
    (here / "_delta_log").mkdir(exist_ok=True)
    (here / "_delta_log" / f"{0:020d}.json").write_bytes(BODY)
    return f"{here}/_delta_log"


DEFERRED: dict[str, Way] = {
    "pipe_file": lambda ground, _: ground.fs.pipe_file(ground.log(), BODY),
    "pipe": lambda ground, _: ground.fs.pipe(ground.log(), BODY),
    "pipe of several": lambda ground, _: ground.fs.pipe({ground.log(): BODY}),
    "write_bytes": lambda ground, _: ground.fs.write_bytes(ground.log(), BODY),
    "write_text": lambda ground, _: ground.fs.write_text(ground.log(), BODY.decode()),
    "put_file": lambda ground, here: ground.fs.put_file(on_disk(here), ground.log()),
    "put": lambda ground, here: ground.fs.put(on_disk(here), ground.log(), batch_size=3),
    "put of several": lambda ground, here: ground.fs.put([on_disk(here)], [ground.log()]),
    "put of a folder": lambda ground, here: ground.fs.put(
        f"{tree(here)}/", ground.name("_delta_log/"), recursive=True
    ),
    "_pipe_file": lambda ground, _: asyncio.run(ground.fs._pipe_file(ground.log(), BODY)),
    "_put_file": lambda ground, here: asyncio.run(ground.fs._put_file(on_disk(here), ground.log())),
}
TOUCHES: dict[str, Way] = {
    "touch": lambda ground, _: ground.fs.touch(ground.log()),
    "touch without truncating": lambda ground, _: ground.fs.touch(ground.log(), truncate=False),
    "_touch": lambda ground, _: asyncio.run(ground.fs._touch(ground.log())),
}
REFUSED: dict[str, Way] = {
    "cp_file": lambda ground, _: ground.fs.cp_file(ground.name("source"), ground.log()),
    "cp": lambda ground, _: ground.fs.cp(ground.name("source"), ground.log()),
    "mv": lambda ground, _: ground.fs.mv(ground.name("source"), ground.log()),
    "mv of several": lambda ground, _: ground.fs.mv([ground.name("source")], [ground.log()]),
    "_cp_file": lambda ground, _: asyncio.run(ground.fs._cp_file(ground.name("source"), ground.log())),
    "_mv_file": lambda ground, _: asyncio.run(ground.fs._mv_file(ground.name("source"), ground.log())),
}


@pytest.fixture
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("here")


def fails(ground: Ground, write: Callable[[], Any]) -> None:
    with ground.fs.transaction:
        write()
        raise OnTheWayError


@pytest.mark.parametrize("way", [*DEFERRED, *TOUCHES])
def test_a_write_waits_for_the_end(ground: Ground, here: Path, way: str) -> None:
    write = {**DEFERRED, **TOUCHES}[way]
    with ground.fs.transaction:
        write(ground, here)
        assert not ground.is_there(ground.log())
    assert ground.read(ground.log()) == (b"" if way in TOUCHES else BODY)
    assert ground.fs.backend.head(ground.log()).holder.writer == ground.fs.writer


@pytest.mark.parametrize("way", [*DEFERRED, *TOUCHES])
def test_a_transaction_that_fails_has_written_nothing(ground: Ground, here: Path, way: str) -> None:
    write = {**DEFERRED, **TOUCHES}[way]
    with pytest.raises(OnTheWayError):
        fails(ground, lambda: write(ground, here))
    assert ground.files() == []


@pytest.mark.parametrize("way", REFUSED)
def test_copies_and_moves_are_refused_until_its_end(ground: Ground, here: Path, way: str) -> None:
    ground.write(ground.name("source"), BODY)
    with ground.fs.transaction, pytest.raises(io.UnsupportedOperation, match="a transaction defers"):
        REFUSED[way](ground, here)
    assert ground.files() == ["source"]
    ground.fs.mv(ground.name("source"), ground.log())
    assert ground.read(ground.log()) == BODY


def test_a_series_that_is_piped_together_is_created_in_ascending_order(ground: Ground) -> None:
    """So that what follows a loser is not created."""
    numbers = [4, 1, 3, 2]
    ground.write(ground.log(0), BODY)

    def writes() -> None:
        with ground.fs.transaction:
            ground.fs.pipe({ground.log(number): BODY for number in numbers})
            ground.write(ground.log(3), b"the winner's")

    with pytest.raises(NameTaken) as caught:
        writes()
    assert caught.value.name == ground.log(3)
    assert [ground.is_there(ground.log(number)) for number in numbers] == [False, True, True, True]
    assert ground.read(ground.log(3)) == b"the winner's"


def test_names_that_nobody_guards_are_put_and_piped_as_ever(ground: Ground, here: Path) -> None:
    ground.write(ground.name("source"), BODY)
    with ground.fs.transaction:
        ground.fs.pipe({ground.name("a"): BODY, ground.name("b"): BODY})
        ground.fs.put(on_disk(here), ground.name("c"))
        ground.fs.cp(ground.name("source"), ground.name("d"))
        ground.fs.touch(ground.name("e"))
    assert ground.files() == ["a", "b", "c", "d", "e", "source"]


def test_it_takes_in_nothing_of_another_mount(ground: Ground) -> None:
    """Both wrap one object of the plain filesystem, as fsspec has it."""
    ground.fs.clear_instance_cache()  # another test may have cleared the wrapped one's alone
    other = ground.mount(writer="2c3e9d53-4c1a-4f0e-8a8e-7a1b1f0d5a11")
    assert other.fs is ground.fs.fs
    with contextlib.suppress(OnTheWayError), ground.fs.transaction:
        other.pipe_file(ground.name("theirs"), BODY)
        with other.transaction:
            other.pipe_file(ground.name("theirs too"), BODY)
        with ground.fs.open(ground.name("mine"), "wb") as file:
            file.write(BODY)
        raise OnTheWayError
    assert ground.files() == ["theirs", "theirs too"]
    assert other.fs is ground.fs.fs


def begins_another(fs: Any) -> None:
    with fs.transaction:
        pass


@pytest.mark.parametrize("begin", [begins_another, lambda fs: fs.start_transaction()])
def test_a_second_one_is_refused_and_what_the_first_has_deferred_is_kept(
    ground: Ground, begin: Callable[[Any], Any]
) -> None:
    """And what is written after its end is there."""
    fs = ground.fs
    with fs.transaction:
        fs.pipe_file(ground.log(), BODY)
        with fs.open(ground.name("first"), "wb") as file:
            file.write(BODY)
        with pytest.raises(ValueError, match="under way"):
            begin(fs)
        fs.pipe_file(ground.log(1), BODY)
    with fs.open(ground.name("later"), "wb") as file:
        file.write(BODY)
    assert [ground.read(name) for name in (ground.log(), ground.log(1))] == [BODY, BODY]
    assert [ground.read(ground.name(last)) for last in ("first", "later")] == [BODY, BODY]


def test_a_forked_child_that_ends_one_works_with_a_client_of_its_own(ground: Ground) -> None:
    fs = ground.fs
    parents = fs.fs

    def ends() -> bool:
        fs.transaction.complete(commit=False)
        return fs.fs is not parents

    with fs.transaction:
        assert in_a_child("fork", ends) is True
    assert fs.fs is parents


def test_what_a_forked_child_writes_is_not_of_it(ground: Ground) -> None:
    """The parent ends it, and would never hear of what the child has deferred."""
    fs, mine, theirs = ground.fs, ground.name("mine"), ground.name("theirs")

    def writes() -> list[Any]:
        fs.pipe_file(ground.log(), BODY)
        with fs.open(theirs, "wb") as file:
            file.write(BODY)
        with fs.transaction:
            fs.pipe_file(ground.log(1), BODY)
        return [fs.cat_file(name) for name in (ground.log(), ground.log(1), theirs)]

    with fs.transaction:
        with fs.open(mine, "wb") as file:
            file.write(BODY)
        fs.pipe_file(ground.log(2), BODY)
        assert in_a_child("fork", writes) == [BODY] * 3
        assert not ground.is_there(ground.log(2))
    assert ground.read(mine) == ground.read(ground.log(2)) == BODY


def test_a_forked_child_that_rolls_back_leaves_its_parent_s_files(ground: Ground) -> None:
    fs = ground.fs
    with fs.transaction:
        with fs.open(ground.name("data"), "wb") as file:
            file.write(BODY)
        fs.pipe_file(ground.log(), BODY)
        assert in_a_child("fork", lambda: fs.transaction.complete(commit=False)) is None
    assert ground.read(ground.name("data")) == ground.read(ground.log()) == BODY


def test_a_client_that_is_kept_from_it_defers_nothing_after_its_end(ground: Ground) -> None:
    with ground.fs.transaction:
        kept = ground.fs.fs
    with kept.open(ground.name("data"), "wb") as file:
        file.write(BODY)
    assert ground.read(ground.name("data")) == BODY


class Interrupted:
    """A file whose end is slow, and is interrupted."""

    def commit(self) -> None:
        raise KeyboardInterrupt

    discard = commit


def test_one_that_is_interrupted_twice_has_ended(ground: Ground) -> None:
    fs = ground.mount(skip_instance_cache=True)
    with pytest.raises(KeyboardInterrupt), fs.transaction as transaction:
        transaction.files.append(Interrupted())
    fs.pipe_file(ground.log(), BODY)
    with fs.open(ground.name("data"), "wb") as file:
        file.write(BODY)
    assert ground.read(ground.log()) == ground.read(ground.name("data")) == BODY


def in_a_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result(MEANWHILE)


def test_a_file_that_gives_its_bytes_once_is_put_whole(memory: Ground, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    giver = Thread(target=(tmp_path / "pipe").write_bytes, args=[BODY])
    giver.start()
    with memory.fs.transaction:
        memory.fs.put_file(str(tmp_path / "pipe"), memory.log())
        memory.fs.put_file("/proc/version", memory.log(1))
    giver.join()
    assert memory.fs.cat_file(memory.log()) == BODY
    assert memory.fs.cat_file(memory.log(1)) == Path("/proc/version").read_bytes()


@pytest.mark.parametrize("way", ["pipe_file", "pipe of several", "write_text", "put_file"])
def test_what_another_thread_writes_is_not_of_it(ground: Ground, here: Path, way: str) -> None:
    """Filesystems are shared by all threads, and that one knows of no transaction."""
    fs = ground.fs

    def fails_meanwhile() -> None:
        with fs.transaction:
            fs.pipe_file(ground.log(1), BODY)
            in_a_thread(lambda: DEFERRED[way](ground, here))
            assert ground.read(ground.log()) == BODY
            in_a_thread(lambda: fs.pipe_file(ground.name("theirs"), BODY))
            raise OnTheWayError

    with pytest.raises(OnTheWayError):
        fails_meanwhile()
    assert ground.read(ground.log()) == ground.read(ground.name("theirs")) == BODY
    assert not ground.is_there(ground.log(1))


def test_a_transaction_that_another_thread_begins_meanwhile_is_refused(ground: Ground) -> None:
    fs = ground.fs
    with fs.transaction:
        fs.pipe_file(ground.log(), BODY)
        with pytest.raises(ValueError, match="under way"):
            in_a_thread(lambda: begins_another(fs))
        assert not ground.is_there(ground.log())
        fs.pipe_file(ground.log(1), BODY)
        assert not ground.is_there(ground.log(1))
    assert ground.read(ground.log()) == ground.read(ground.log(1)) == BODY


def test_of_two_threads_that_begin_one_at_the_same_time_one_is_refused(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it ends: both have the same object from the filesystem."""
    fs, begin = memory.mount(skip_instance_cache=True), Transaction.start
    threads: list[Thread] = []

    def meanwhile() -> None:
        with contextlib.suppress(ValueError):
            begins_another(fs)

    def begins(transaction: Transaction) -> None:
        begin(transaction)
        if not threads:
            threads.append(Thread(target=meanwhile))
            threads[0].start()
            threads[0].join(0.2)

    monkeypatch.setattr(Transaction, "start", begins)
    with fs.transaction:
        fs.pipe_file(memory.log(), BODY)
        threads[0].join(MEANWHILE)
    fs.pipe_file(memory.log(1), BODY)
    begins_another(fs)
    assert memory.read(memory.log()) == memory.read(memory.log(1)) == BODY


def test_one_that_never_began_ends_no_other(ground: Ground) -> None:
    fs = ground.mount(skip_instance_cache=True)
    never = fs.transaction
    fs.start_transaction()
    fs.pipe_file(ground.log(), BODY)
    never.complete()
    fs.pipe_file(ground.log(1), BODY)
    fs.transaction.complete(commit=False)
    assert ground.files() == []
    fs.pipe_file(ground.log(), BODY)
    assert ground.read(ground.log()) == BODY


@pytest.mark.parametrize("mode", ["wb", "w"])
def test_a_handle_that_its_transaction_has_discarded_says_so(ground: Ground, mode: str) -> None:
    with contextlib.ExitStack() as block:
        with contextlib.suppress(OnTheWayError), ground.fs.transaction:
            block.enter_context(ground.fs.open(ground.log(), mode))
            raise OnTheWayError
        with pytest.raises(ValueError, match="its transaction ended"):
            block.close()
    assert ground.files() == []
