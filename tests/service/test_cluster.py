"""The processes of a Flink cluster are one session, by what ``putifabsent flink-conf`` prints for it.

They call here as Hudi's sink does: a job manager begins instants and commits them, task managers write.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from putifabsent.flink import settings
from tests.fsspec_plugin.hudi_tables import Writer, plan_of, records_of
from tests.service.callers import Caller

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fsspec_plugin.grounds import Ground

T, R = "20260101000000000", "20260102000000000"
GUARDED = (200, {"guarded": True})


@pytest.fixture
def started(caller: Caller) -> Callable[[], Caller]:
    """Return what starts a process of a cluster."""
    site = settings(["s3a"], caller.url).site
    session, writer = site["fs.putifabsent.session"], site["fs.putifabsent.writer"]
    return lambda: Caller(caller.url, caller.http, session=session, writer=writer)


async def in_turn(process: Caller, root: str, name: str) -> tuple[int, dict[str, object]]:
    """Complete an instant in the table's turn."""
    turn = (await process.call("turns/take", root, token=str(uuid.uuid4()))).body["turn"]
    answer = await process.create(name, b"{}", turn=turn)
    await process.call("turns/release", root, turn=turn)
    return answer.status, answer.body


async def test_what_a_job_manager_has_begun_task_managers_write_and_its_successor_commits(
    started: Callable[[], Caller], root: str, ground: Ground
) -> None:
    job_manager, *task_managers, successor = (started() for _ in range(4))
    job = Writer(None, root)
    assert (await job_manager.create(job.requested(T), b""))[:2] == GUARDED
    assert not await job_manager.admitted(job.inflight(T))
    for number, each in enumerate(task_managers):
        assert not await each.admitted(job.slice_of(T, f"{number}-1-0"))
    assert await in_turn(successor, root, job.completed(T)) == GUARDED
    status, body = await in_turn(job_manager, root, job.completed(T))
    assert (status, body["error"]) == (409, "taken")
    assert records_of(ground, root).count("COMPLETE") == 1


async def test_a_job_of_another_cluster_that_goes_on_with_an_instant_ends_the_first_ones(
    started: Callable[[], Caller], other: Caller, root: str, ground: Ground
) -> None:
    job_manager, job = started(), Writer(None, root)
    await job_manager.create(job.requested(T), b"")
    assert await in_turn(other, root, job.completed(T)) == GUARDED
    status, body = await in_turn(job_manager, root, job.completed(T))
    assert (status, body["error"]) == (403, "fenced")
    assert records_of(ground, root).count("COMPLETE") == 1


async def test_tasks_of_an_attempt_that_was_rolled_back_write_no_more(
    started: Callable[[], Caller], root: str
) -> None:
    job_manager, task_manager, job = started(), started(), Writer(None, root)
    await job_manager.create(job.requested(T), b"")
    assert not await task_manager.admitted(job.slice_of(T))
    assert (await job_manager.create(job.requested(R, "rollback"), plan_of(T)))[:2] == GUARDED
    late = await task_manager.call("admit", job.slice_of(T, "2-1-0"))
    assert (late.status, late.body["error"]) == (403, "fenced")
    status, body = await in_turn(job_manager, root, job.completed(T))
    assert (status, body["error"]) == (403, "fenced")
