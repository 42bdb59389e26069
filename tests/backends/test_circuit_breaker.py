"""A lock that was lost is left alone for a while, and warned of once."""

from __future__ import annotations

import logging
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pytest

from putifabsent.backends.redis import REST, RestingLock
from putifabsent.backends.registries import Acquired, Free, Held, Lock, Maybe, Refused, Released, TryAgain
from putifabsent.backends.registry_urls import open_lock
from putifabsent.testing import LockTests
from putifabsent.testing.asking import InBothColours, Registry, together
from tests.servers import Valkey

if TYPE_CHECKING:
    from collections.abc import Iterator

LEASE = 60.0
GONE = ConnectionError("nobody is there")
LOST: list[Any] = [TryAgain(GONE), Refused(GONE), Maybe(GONE), GONE]
ANSWERS: list[Any] = [Acquired(), Held("other"), Free(), Released()]


class TestLikeAnyLock(LockTests):
    """As long as it answers."""

    @pytest.fixture(scope="class")
    def valkey(self) -> Iterator[Valkey]:
        with Valkey() as running:
            yield running

    @pytest.fixture
    def lock(self, valkey: Valkey) -> Lock:
        return RestingLock(open_lock(valkey.endpoint))


class Scripted(Lock):
    """Gives one outcome after another, and counts what it is asked."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.asked = 0

    def _answer(self) -> Any:
        self.asked += 1
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def acquire(self, key: str, owner: str, lease: float) -> Any:
        return self._answer()

    def release(self, key: str, owner: str) -> Any:
        return self._answer()

    def identity(self) -> str:
        return "scripted://here"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class TestLost(InBothColours):
    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    def resting(self, clock: Clock, *outcomes: Any) -> tuple[Scripted, RestingLock]:
        lock = Scripted(*outcomes)
        return lock, RestingLock(lock, clock=clock)

    def ask(self, lock: Lock, colour: Literal["sync", "async"], *words: str) -> list[Any]:
        asked = Registry(lock, colour)
        every = {"acquire": ("k", "me", LEASE), "release": ("k", "me")}
        return [getattr(asked, word)(*every[word]) for word in words]

    @pytest.mark.parametrize("outcome", LOST, ids=ascii)
    def test_it_is_not_asked_again_until_its_rest_is_over(
        self, clock: Clock, colour: Literal["sync", "async"], outcome: Any
    ) -> None:
        for first in ("acquire", "release"):
            lock, resting = self.resting(clock, outcome, Acquired())
            (told,) = self.ask(resting, colour, first)
            assert told == (Maybe(GONE) if outcome is GONE else outcome)
            clock.now += 0.9 * REST
            meanwhile = self.ask(resting, colour, "acquire", "release")
            assert meanwhile == [TryAgain(GONE)] * 2, "nothing was sent"
            assert lock.asked == 1
            clock.now += 0.2 * REST
            assert self.ask(resting, colour, "acquire") == [Acquired()]

    def test_while_one_caller_tries_it_the_others_do_not_wait(self, clock: Clock) -> None:
        others: list[Any] = []

        class Slow(Scripted):
            def acquire(self, key: str, owner: str, lease: float) -> Any:
                if self.asked == 1:
                    others.append(resting.acquire("k", "other", LEASE))
                return super().acquire(key, owner, lease)

        lock = Slow(Maybe(GONE), Acquired())
        resting = RestingLock(lock, clock=clock)
        resting.acquire("k", "me", LEASE)
        clock.now += REST
        assert resting.acquire("k", "me", LEASE) == Acquired()
        assert others == [TryAgain(GONE)]
        assert lock.asked == 2

    def test_it_warns_once_and_again_only_after_it_has_answered(
        self, clock: Clock, colour: Literal["sync", "async"], caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "putifabsent")
        lock, resting = self.resting(clock, *LOST, Acquired(), Released(), *LOST)
        for _ in range(len(lock.outcomes)):
            self.ask(resting, colour, "acquire", "release")
            clock.now += 2 * REST
        said = [record.levelname for record in caplog.records if record.name.startswith("putifabsent")]
        assert said == ["WARNING", "INFO", "WARNING"]
        assert "scripted://here" in caplog.text
        assert "nobody is there" in caplog.text
        assert "No name is at risk" in caplog.text

    def test_however_many_threads_lose_it_one_warns(
        self, clock: Clock, caplog: pytest.LogCaptureFixture
    ) -> None:
        _, resting = self.resting(clock, *[Maybe(GONE)] * 64)
        together(64, partial(_asks, resting))
        assert [record.levelname for record in caplog.records] == ["WARNING"]

    def test_an_interruption_is_no_answer(self, clock: Clock, colour: Literal["sync", "async"]) -> None:
        lock, resting = self.resting(clock, KeyboardInterrupt(), Acquired())
        with pytest.raises(KeyboardInterrupt):
            self.ask(resting, colour, "acquire")
        assert self.ask(resting, colour, "acquire") == [Acquired()]
        assert lock.asked == 2


def test_redis_that_is_gone_costs_its_time_out_once() -> None:
    with Valkey() as valkey:
        lock = RestingLock(open_lock(valkey.endpoint))
        key = f"test://{uuid.uuid4()}"
        assert lock.acquire(key, "me", LEASE) == Acquired()
    assert isinstance(lock.release(key, "me"), (TryAgain, Maybe))
    asked: list[object] = []
    lock._lock.acquire = lambda *given: asked.append(given)  # type: ignore[method-assign,assignment]
    assert [type(lock.acquire(key, str(each), LEASE)) for each in range(200)] == [TryAgain] * 200
    assert asked == []


def _asks(lock: Lock, number: int) -> object:
    return lock.acquire("k", str(number), LEASE)


async def test_where_no_thread_can_be_started_nobody_knows_who_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_thread(*_: Any) -> Any:
        raise RuntimeError("no thread can be started")

    monkeypatch.setattr("putifabsent.backends.concurrency.in_thread", no_thread)
    resting = RestingLock(Scripted(Acquired()))
    assert isinstance(await resting.acquire_async("key", "owner", LEASE), Maybe)
    assert isinstance(await resting.release_async("key", "owner"), Maybe)
