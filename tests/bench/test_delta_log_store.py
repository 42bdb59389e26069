"""The contestant does what Delta's protocol promises, and shows where it differs."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from bench.arbiter_servers import BUCKET
from bench.delta_log_store import DeltaLogStore
from putifabsent.backends.base import Got

if TYPE_CHECKING:
    from bench.arbiter_servers import Far


@pytest.fixture
def folder() -> str:
    return f"{BUCKET}/{uuid.uuid4()}/_delta_log"


@pytest.fixture
def log(there: Far, folder: str) -> DeltaLogStore:
    return DeltaLogStore(there.mount("native").backend, there.registry, folder)


def shown(there: Far, folder: str, number: int) -> bytes | None:
    got = there.mount("native").backend.get(f"{folder}/{number:020d}.json")
    return got.data if isinstance(got, Got) else None


def dies(*_: Any) -> None:
    raise KeyboardInterrupt


def test_a_number_is_written_once(there: Far, log: DeltaLogStore, folder: str) -> None:
    log.write(0, b"first")
    with pytest.raises(FileExistsError):
        log.write(0, b"second")
    assert shown(there, folder, 0) == b"first"


def test_what_a_writer_has_decided_and_not_shown_is_shown_by_the_next(
    there: Far, log: DeltaLogStore, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write(0, b"zero")
    with monkeypatch.context() as patch:
        patch.setattr(log, "_copy", dies)
        with pytest.raises(KeyboardInterrupt):
            log.write(1, b"decided")
    assert shown(there, folder, 1) is None
    with pytest.raises(FileExistsError):
        log.write(1, b"too late")
    log.write(2, b"two")
    assert [shown(there, folder, number) for number in range(3)] == [b"zero", b"decided", b"two"]


def test_no_number_is_left_out(log: DeltaLogStore) -> None:
    log.write(0, b"zero")
    with pytest.raises(FileNotFoundError):
        log.write(2, b"two")
