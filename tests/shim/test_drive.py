"""Running a protocol: both drivers perform each request, keep the deadline, and hand on interruptions."""

from __future__ import annotations

import asyncio
import gc
import inspect
import sys
import weakref
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from putifabsent.backends.base import Absent, Created, Exists, Found, InMemory, Maybe, Staged, TryAgain
from putifabsent.backends.memory import MemoryStore
from putifabsent.errors import NameTaken, OutcomeUnknown
from putifabsent.shim import drive
from putifabsent.shim.create import create, resolve
from putifabsent.shim.drive import walk
from putifabsent.shim.requests import (
    Acquire,
    Advance,
    Complete,
    Create,
    Delete,
    Discard,
    Get,
    Head,
    List,
    Pause,
    Release,
    Sleep,
    Stage,
    StageCopy,
)
from tests.shim.scripted import BODY, BUSY, LOST, ME, MINE, NAME, OTHER, PATH, held_by, staged

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from putifabsent.backends.base import Body
    from putifabsent.shim.requests import Protocol

DEADLINE = 30.0


class Clock:
    """Stands still, but for pauses and for what a test makes it do."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(drive, "time", clock)
    monkeypatch.setattr(drive, "asyncio", SimpleNamespace(sleep=clock.sleep_async))
    return clock


class Answers:
    """A store that gives the answers it was given, in either colour; one that is an exception is raised."""

    kind = "scripted"

    def __init__(self, *answers: Any, takes: Callable[[], None] = lambda: None) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self._takes = takes

    def __getattr__(self, method: str) -> Any:
        def answer(*arguments: Any) -> Any:
            self.asked.append(method.removesuffix("_async"))
            self._takes()
            outcome = self.answers.pop(0)
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        async def answer_async(*arguments: Any) -> Any:
            return answer(*arguments)

        return answer_async if method.endswith("_async") else answer


def run_sync(protocol: Protocol[Any], store: Any, deadline: float = DEADLINE, *rest: Any) -> Any:
    return drive.run(protocol, store, deadline, *rest)


def run_async(protocol: Protocol[Any], store: Any, deadline: float = DEADLINE, *rest: Any) -> Any:
    return asyncio.run(drive.run_async(protocol, store, deadline, *rest))


@pytest.fixture(params=[run_sync, run_async], ids=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Any:
    return request.param


def creating() -> Protocol[Created]:
    return create(NAME, BODY, MINE, largest_put=2**20)


def test_a_creation_answered_at_once_returns_what_the_store_said(run: Any, clock: Clock) -> None:
    store = Answers(Created("v1"))
    assert run(creating(), store) == Created("v1")
    assert store.asked == ["create"]
    assert clock.pauses == []


def test_a_real_store_is_created_in_once(run: Any) -> None:
    store = MemoryStore(MemoryFileSystem())
    name = NAME._replace(path=f"/test-drive/{run.__name__}")
    assert isinstance(run(create(name, BODY, MINE, largest_put=2**20), store), Created)
    with pytest.raises(NameTaken):
        run(create(name, BODY, MINE._replace(token=OTHER), largest_put=2**20), store)
    assert run(resolve(name, ME), store).token == ME
    store.delete(name.path)


EVERY_REQUEST = (
    (Create(PATH, BODY, MINE), "create", Created()),
    (Stage(PATH, BODY, MINE), "stage", staged()),
    (StageCopy("s", 1, None, PATH, MINE), "stage_copy", staged()),
    (Complete(staged()), "complete", Created()),
    (Discard(staged()), "discard", None),
    (Head(PATH), "head", Absent()),
    (Get(PATH), "get", Absent()),
    (List("bucket"), "list", Absent()),
    (Delete(PATH, "v"), "delete", Absent()),
)


@pytest.mark.parametrize(("request_", "method", "outcome"), EVERY_REQUEST, ids=[r[1] for r in EVERY_REQUEST])
def test_each_request_is_one_call_of_the_store(run: Any, request_: Any, method: str, outcome: Any) -> None:
    def protocol() -> Protocol[Any]:
        return (yield request_)

    store = Answers(outcome)
    assert run(protocol(), store) == outcome
    assert store.asked == [method]


@pytest.mark.parametrize(
    ("request_", "method"),
    [
        (Acquire, ("acquire", ("key", "owner", 5.0))),
        (Release, ("release", ("key", "owner"))),
        (Advance, ("advance", ("name", 7, 1))),
    ],
)
def test_a_registry_is_asked_and_not_the_store(run: Any, request_: Any, method: Any) -> None:
    asked: list[Any] = []
    method, arguments = method

    class Asked:
        def __getattr__(self, name: str) -> Any:
            async def answer_async(*given: Any) -> Any:
                return answer(*given)

            def answer(*given: Any) -> Any:
                asked.append((name.removesuffix("_async"), given))
                return "the registry's answer"

            return answer_async if name.endswith("_async") else answer

    def protocol() -> Protocol[Any]:
        return (yield request_(Asked(), *arguments))

    assert run(protocol(), Answers()) == "the registry's answer"
    assert asked == [(method, arguments)]


@pytest.mark.parametrize(("seconds", "slept"), [(29.0, True), (31.0, False)])
def test_a_sleep_is_as_long_as_it_says_or_not_begun(
    run: Any, clock: Clock, seconds: float, slept: bool
) -> None:
    """Where its end is after the deadline, whoever asks hears so at once."""

    def protocol() -> Protocol[Any]:
        return (yield Sleep(seconds))

    assert run(protocol(), Answers()) is slept
    assert clock.pauses == [seconds] * slept


def test_whoever_takes_notes_is_told_of_each_request_before_it_is_performed(run: Any, clock: Clock) -> None:
    noted: list[Any] = []
    seen: list[int] = []
    store = Answers(TryAgain(BUSY), Created("v1"), takes=lambda: seen.append(len(noted)))
    run(creating(), store, DEADLINE, noted.append)
    again = Create(PATH, BODY, MINE)
    assert noted == [again, Pause(1), again]
    assert seen == [1, 3]


# --- the deadline


def test_pauses_grow_at_random_up_to_a_limit(run: Any, clock: Clock) -> None:
    def protocol() -> Protocol[None]:
        for attempt in range(1, 40):
            assert (yield Pause(attempt))

    run(protocol(), Answers(), 10_000.0)
    limits = [min(drive.FIRST_PAUSE * 2**attempt, drive.LONGEST_PAUSE) for attempt in range(1, 40)]
    assert all(0 <= pause <= limit for pause, limit in zip(clock.pauses, limits, strict=True))
    assert len(set(clock.pauses)) > 30
    assert max(clock.pauses) > drive.LONGEST_PAUSE / 2


def test_attempts_go_on_until_the_deadline_and_not_beyond(run: Any, clock: Clock) -> None:
    store = Answers(*[Maybe(LOST)] * 1000)
    with pytest.raises(OutcomeUnknown) as unknown:
        run(creating(), store)
    assert unknown.value.token == ME
    assert 1000 + DEADLINE - drive.LONGEST_PAUSE <= clock.now < 1000 + DEADLINE
    assert len(store.asked) == len(clock.pauses) + 1


def test_a_pause_with_a_share_ends_with_that_share(run: Any, clock: Clock) -> None:
    def protocol() -> Protocol[int]:
        for attempt in range(1, 1000):
            if not (yield Pause(attempt, 1 / 3)):
                return attempt
        raise AssertionError

    assert run(protocol(), Answers(), 300.0) > 1
    assert 1100 - drive.LONGEST_PAUSE <= clock.now < 1100


def test_the_last_of_the_pauses_that_are_cut_ends_with_the_deadline(run: Any, clock: Clock) -> None:
    def protocol() -> Protocol[list[float]]:
        looks = [clock.now]
        while (yield Pause(40, cut=True)):
            looks.append(clock.now)
        return looks

    looks = run(protocol(), Answers(), 1.0)
    assert looks[-1] == 1001.0
    assert clock.now == 1001.0


def test_requests_that_take_long_count_too(run: Any, clock: Clock) -> None:
    store = Answers(*[TryAgain(BUSY)] * 10, takes=lambda: clock.sleep(DEADLINE))
    with pytest.raises(OSError, match=str(BUSY)):
        run(creating(), store)
    assert store.asked == ["create"]


def test_a_staging_that_takes_long_leaves_time_to_complete_it(run: Any, clock: Clock) -> None:
    seconds = iter([10 * DEADLINE])
    answers = staged(), Maybe(LOST), Absent(), Created("v1")
    store = Answers(*answers, takes=lambda: clock.sleep(next(seconds, 0)))
    assert run(create(NAME, BODY, MINE, largest_put=0), store) == Created("v1")
    assert store.asked == ["stage", "complete", "head", "complete"]


def test_stagings_without_end_end_at_the_deadline(run: Any, clock: Clock) -> None:
    store = Answers(*[staged(), TryAgain(BUSY), None] * 1000)
    with pytest.raises(OSError, match=str(BUSY)):
        run(create(NAME, BODY, MINE, largest_put=0), store)
    assert clock.now < 1000 + DEADLINE
    assert set(store.asked) == {"stage", "complete", "discard"}


def test_without_time_a_creation_is_tried_once(run: Any, clock: Clock) -> None:
    store = Answers(Maybe(LOST))
    with pytest.raises(OutcomeUnknown):
        run(creating(), store, 0.0)
    assert store.asked == ["create"]
    assert clock.pauses == []


# --- interruptions


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_an_interruption_goes_through_the_protocol(kind: type[BaseException]) -> None:
    with pytest.raises(kind) as stopped:
        drive.run(creating(), Answers(kind()), DEADLINE)  # type: ignore[arg-type]
    assert isinstance(stopped.value.__cause__, OutcomeUnknown)
    assert stopped.value.__cause__.token == ME


def test_an_interruption_before_the_first_request_is_nothing_more(run: Any) -> None:
    stop = KeyboardInterrupt()
    store = Answers(stop)
    with pytest.raises(KeyboardInterrupt):
        run(create(NAME, BODY, MINE, largest_put=1), store)
    assert store.asked == ["stage"]
    assert stop.__cause__ is None


def test_a_protocol_may_still_ask_after_an_interruption(run: Any) -> None:
    store = Answers(staged(), Exists(), KeyboardInterrupt(), None)
    with pytest.raises(KeyboardInterrupt):
        run(create(NAME, BODY, MINE, largest_put=1), store)
    assert store.asked == ["stage", "complete", "head", "discard"]


def test_a_client_s_own_bug_is_an_unknown_outcome(run: Any) -> None:
    bug = ZeroDivisionError()
    with pytest.raises(OutcomeUnknown) as unknown:
        run(creating(), Answers(bug))
    assert unknown.value.__cause__ is bug


def test_a_cancelled_task_stays_cancelled_and_carries_its_token() -> None:
    class Hanging:
        def __init__(self) -> None:
            self.began = asyncio.Event()

        async def create_async(self, *_: Any) -> Any:
            self.began.set()
            await asyncio.Event().wait()

    async def main() -> tuple[bool, BaseException | None]:
        store = Hanging()
        task = asyncio.create_task(drive.run_async(creating(), store, DEADLINE))  # type: ignore[arg-type]
        await store.began.wait()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as error:
            return task.cancelled(), error.__cause__
        return False, None

    cancelled, cause = asyncio.run(main())
    assert cancelled
    assert isinstance(cause, OutcomeUnknown)
    assert cause.token == ME


def test_a_time_out_around_a_creation_is_a_time_out() -> None:
    class Hanging:
        async def create_async(self, *_: Any) -> Any:
            await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.wait_for(drive.run_async(creating(), Hanging(), DEADLINE), 0.01)  # type: ignore[arg-type]

    with pytest.raises(asyncio.TimeoutError) as late:
        asyncio.run(main())
    causes = []
    error: BaseException | None = late.value
    while error is not None:
        causes.append(error)
        error = error.__cause__
    assert any(isinstance(cause, OutcomeUnknown) and cause.token == ME for cause in causes)


def test_looking_later_runs_like_any_protocol(run: Any, clock: Clock) -> None:
    store = Answers(TryAgain(BUSY), held_by(ME))
    found = held_by(ME)
    assert isinstance(found, Found)
    assert run(resolve(NAME, ME), store) == found.holder
    assert store.asked == ["head", "head"]
    assert len(clock.pauses) == 1
    assert isinstance(staged(), Staged)


def test_who_is_interrupted_between_two_steps_hears_the_token() -> None:
    """The driver itself is interrupted before each line that it runs, but where the protocol has ended."""
    lines, first = inspect.getsourcelines(walk)
    ended = first + next(number for number, line in enumerate(lines) if "StopIteration" in line)
    told = []
    for nth in range(1, 20):
        store, passed = MemoryStore(MemoryFileSystem()), 0

        def inside(frame: FrameType, event: str, _: Any, nth: int = nth) -> Any:
            nonlocal passed
            passed += event == "line"
            if event == "line" and passed == nth and frame.f_lineno < ended:
                raise KeyboardInterrupt
            return inside

        before = sys.gettrace()
        sys.settrace(lambda frame, *_: inside if frame.f_code is walk.__code__ else None)
        try:
            drive.run(create(NAME, InMemory(b"{}"), MINE, largest_put=9), store, 5)
        except KeyboardInterrupt as error:
            told.append(isinstance(error.__cause__, OutcomeUnknown))
            assert told[-1] or not isinstance(store.head(PATH), Found)
        finally:
            sys.settrace(before)
            store.delete(PATH)
    assert any(told)


class Watched(InMemory):
    """Bytes of which it is seen when they are gone."""


@pytest.mark.parametrize("asynchronous", [False, True])
def test_who_hears_an_error_keeps_nothing_of_what_has_failed(asynchronous: bool) -> None:
    """A collection may come long after that, for it is by their number that objects call for one."""

    def creating(body: Body) -> Protocol[Any]:
        yield Create(PATH, body, MINE)

    def fails(*_: Any) -> None:
        raise ValueError

    async def fails_async(*_: Any) -> None:
        raise ValueError

    async def failed() -> weakref.ref[Body]:
        body, store = Watched(b"{}"), SimpleNamespace(create=fails, create_async=fails_async)
        with suppress(ValueError):
            if asynchronous:
                await drive.run_async(creating(body), store, DEADLINE)  # type: ignore[arg-type]
            else:
                run_sync(creating(body), store)
        return weakref.ref(body)

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(failed())() is None
    finally:
        gc.enable()
