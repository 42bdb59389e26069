"""What tests of the clouds' stores share: a way round to what the stub holds, a body that counts, tests."""

from __future__ import annotations

import threading
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from putifabsent.backends.base import Body, Created, Exists, InMemory, Listed, Maybe, Refused, TryAgain
from putifabsent.testing import Around
from putifabsent.testing.races import creation_of
from tests.backends import answers
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.base import Store

NAME = "bucket/t/name"
# What the stub lists at once: a cloud's thousand names take seconds to read.
PAGE = 100
ANSWERS = {**answers.ANSWERS, Fault.PRECONDITION_412: Exists, Fault.PRECONDITION_412_BARE: Exists}


class Objects(Around):
    """What the stub holds."""

    def __init__(self, stub: FaultStub) -> None:
        self._stub = stub

    def read(self, name: str) -> bytes | None:
        bucket, _, key = name.partition("/")
        there = self._stub.objects.get((bucket, key))
        return None if there is None else there.data

    def write(self, name: str, data: bytes) -> None:
        bucket, _, key = name.partition("/")
        self._stub.put(bucket, key, data)


class Watched(Body):
    """Keeps the sizes of what is read of it."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self.sizes: list[int] = []
        self._data = data

    def read(self, start: int, stop: int) -> bytes:
        self.sizes.append(stop - start)
        return self._data[start:stop]


def _look_by_32_threads(store: Store, name: str) -> None:
    """Look at a name three times in each of them, begun together."""
    together = threading.Barrier(32)

    def look() -> None:
        together.wait()
        for _ in range(3):
            store.head(name)

    threads = [threading.Thread(target=look) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class HttpStoreTests:
    """What a synchronous client sends, and what the answers mean.

    Attributes
    ----------
    store_at, nowhere
        Makes a store at an address; an address that nobody listens on.
    timeout
        The mount's option for it.
    outcome_of
        What says what an error means.
    impossible
        Names that nothing can have, beside those that no object store takes.
    """

    store_at: ClassVar[Callable[..., Store]]
    nowhere: ClassVar[Callable[..., str]]
    timeout: ClassVar[str]
    outcome_of: ClassVar[Callable[..., object]]
    impossible: ClassVar[tuple[str, ...]]

    @pytest.mark.parametrize(
        ("fault", "meaning"), ANSWERS.items(), ids=lambda value: getattr(value, "name", "")
    )
    def test_each_put_is_one_request_on_the_wire(
        self, stub: FaultStub, store: Store, fault: Fault, meaning: type
    ) -> None:
        _create(store, "bucket/t/before")  # so that the connection is one that the server has kept open
        stub.script(Op.PUT, fault)
        assert isinstance(_create(store), meaning)
        assert stub.ops == [Op.PUT, Op.PUT]

    def test_an_answer_that_does_not_come_in_time_is_lost(self, stub: FaultStub, store: Store) -> None:
        stub.script(Op.PUT, Fault.TIMEOUT_AFTER_APPLY)
        address = stub.url(store.kind)  # type: ignore[arg-type] # both call a cloud alike
        assert isinstance(_create(self.store_at(address, **{self.timeout: 0.3})), Maybe)
        stub.release()
        assert stub.ops == [Op.PUT]

    def test_a_slow_line_has_the_time_out_for_each_piece(
        self, stub: FaultStub, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A socket has it for all that it is given at once."""
        pieces: list[int] = []
        send = HTTPConnection.send

        def sent(connection: HTTPConnection, data: Any) -> None:
            pieces.append(len(data))
            send(connection, data)

        monkeypatch.setattr(HTTPConnection, "send", sent)
        assert isinstance(store.create(NAME, InMemory(bytes(2**20)), creation_of(NAME)), Created)
        assert len(stub.objects["bucket", "t/name"].data) == 2**20
        assert max(pieces) <= 2**16

    def test_a_refused_connection_sent_nothing(self) -> None:
        outcome = _create(self.store_at(self.nowhere()))
        assert isinstance(outcome, TryAgain)
        assert "refused" in str(outcome.cause)

    def test_what_was_not_foreseen_is_raised(self) -> None:
        with pytest.raises(ZeroDivisionError):
            self.outcome_of(ZeroDivisionError(), NAME)

    def test_a_name_that_no_object_can_have_is_refused_unsent(self, stub: FaultStub, store: Store) -> None:
        for name in (
            "bucket",
            "bucket/",
            "bucket/..",
            "bucket/\udcff",
            "bucket/" + "k" * 1025,
            *self.impossible,
        ):
            for outcome in (
                _create(store, name),
                store.stage(name, InMemory(b"mine"), creation_of(name)),
                store.head(name),
                store.delete(name),
            ):
                assert isinstance(outcome, Refused), name
                assert isinstance(outcome.error, OSError), name
                assert not isinstance(outcome.error, FileExistsError), name
            assert stub.ops == [], name

    @pytest.mark.parametrize(
        "fault", [Fault.DROP_BEFORE_APPLY, Fault.ERROR_500_BEFORE, Fault.ERROR_503_BEFORE]
    )
    def test_a_look_without_an_answer_says_nothing(self, stub: FaultStub, store: Store, fault: Fault) -> None:
        for op in (Op.HEAD, Op.GET, Op.LIST):
            stub.script(op, fault)
        assert isinstance(store.head(NAME), TryAgain)
        assert isinstance(store.get(NAME), TryAgain)
        assert isinstance(store.list("bucket/t"), TryAgain)
        assert stub.ops == [Op.HEAD, Op.GET, Op.LIST]

    def test_every_thread_keeps_its_connection(
        self, stub: FaultStub, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        _look_by_32_threads(store, NAME)
        assert stub.ops == [Op.HEAD] * 96
        assert caplog.records == []

    def test_a_refused_look_is_not_an_absent_name(self, stub: FaultStub, store: Store) -> None:
        stub.script(Op.HEAD, Fault.FORBIDDEN_403)
        stub.script(Op.LIST, Fault.FORBIDDEN_403)
        assert isinstance(store.head(NAME), Refused)
        assert isinstance(store.list("bucket/t"), Refused)

    def test_a_listing_of_several_pages_is_whole(self, stub: FaultStub, store: Store) -> None:
        keys = [f"t/{number:04d}" for number in range(PAGE + 1)]
        stub.call(lambda state: [state.put("bucket", key, b"", {}) for key in keys])
        listed = store.list("bucket/t")
        assert isinstance(listed, Listed)
        assert [entry.name for entry in listed.entries] == [f"bucket/{key}" for key in keys]
        assert stub.ops == [Op.LIST] * 2


def _create(store: Store, name: str = NAME) -> Any:
    return store.create(name, InMemory(b"mine"), creation_of(name))
