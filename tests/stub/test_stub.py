"""What the stub itself promises: scripts, faults and races."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from putifabsent.backends.base import Verdict
from putifabsent.backends.probe_cache import recall, remember
from tests.stub import Fault, FaultStub, Op, Step
from tests.stub.raw import ask, create, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.stub import Cloud, State

NAME = ("bucket", "name")
CLOUDS = ("s3", "gcs", "azure")
WRITERS = 32


def another(state: State) -> None:
    state.put(*NAME, b"another's")


def gone(state: State) -> None:
    state.delete(*NAME)


@pytest.fixture
def stub() -> Iterator[FaultStub]:
    with FaultStub(smallest_part=1) as running:
        yield running


@pytest.fixture(params=CLOUDS)
def cloud(request: pytest.FixtureRequest) -> Cloud:
    which: Cloud = request.param
    return which


# --- faults and scripts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "statuses", "applied"),
    [
        (Fault.DROP_AFTER_APPLY, None, True),
        (Fault.DROP_BEFORE_APPLY, None, False),
        (Fault.ERROR_500_AFTER, {500}, True),
        (Fault.ERROR_500_BEFORE, {500}, False),
        (Fault.ERROR_503_AFTER, {503}, True),
        (Fault.ERROR_503_BEFORE, {503}, False),
        (Fault.CONFLICT_409, {409}, False),
        (Fault.PRECONDITION_412, {412}, False),
        (Fault.PRECONDITION_412_BARE, {412}, False),
        (Fault.OK_WITH_ERROR_BODY, {200}, False),
        (Fault.FORBIDDEN_403, {403}, False),
    ],
)
def test_a_fault_answers_as_it_says_and_applies_as_it_says(
    stub: FaultStub, cloud: Cloud, fault: Fault, statuses: set[int] | None, applied: bool
) -> None:
    stub.script(Op.PUT, fault)
    answer = create(stub, cloud)
    assert (answer and {answer.status}) == statuses
    assert (NAME in stub.objects) is applied
    assert len(stub.requests) == 1
    assert stub.left() == []


def test_a_late_answer_comes_when_it_is_released(stub: FaultStub, cloud: Cloud) -> None:
    stub.script(Op.PUT, Fault.TIMEOUT_AFTER_APPLY)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(create, stub, cloud)
        stub.wait_for(Op.PUT)
        assert stub.objects[NAME].data == b"mine"
        assert not waiting.done()
        stub.release()
        answer = waiting.result(30)
    assert answer is not None
    assert answer.status in {200, 201}


def test_stopping_closes_what_is_late() -> None:
    with ThreadPoolExecutor(1) as pool:
        with FaultStub() as stub:
            stub.script(Op.PUT, Fault.TIMEOUT_AFTER_APPLY)
            waiting = pool.submit(create, stub, "s3")
            stub.wait_for(Op.PUT)
        assert waiting.result(30) is None


def test_the_nth_request_takes_the_nth_step_and_later_ones_are_honest(stub: FaultStub, cloud: Cloud) -> None:
    stub.script(Op.PUT, Fault.ERROR_500_BEFORE, None, Fault.DROP_BEFORE_APPLY)
    answers = [create(stub, cloud) for _ in range(4)]
    assert [answer and answer.status // 100 for answer in answers] == [5, 2, None, 4]
    assert stub.ops == [Op.PUT] * 4


def test_a_step_can_be_for_ever_and_others_can_be_left_over(stub: FaultStub) -> None:
    stub.script(Op.PUT, Fault.ERROR_503_BEFORE, forever=True)
    stub.script(Op.HEAD, Fault.FORBIDDEN_403)
    assert {create(stub, "s3").status for _ in range(5)} == {503}  # type: ignore[union-attr]
    assert stub.left() == [(Op.HEAD, Step(Fault.FORBIDDEN_403))]


def test_others_act_just_before_and_just_after_a_request(stub: FaultStub, cloud: Cloud) -> None:
    stub.script(Op.PUT, Step(before=another), Step(before=gone, after=gone))
    first, second = create(stub, cloud), create(stub, cloud)
    assert first is not None
    assert second is not None
    assert first.status in {409, 412}
    assert second.status in {200, 201}
    past = [held and held.data for held in stub.history[NAME]]
    assert past == [b"another's", None, b"mine", None]


def test_a_request_that_was_sent_twice_on_the_way_is_applied_and_told_412(stub: FaultStub) -> None:
    stub.script(Op.PUT, Step(Fault.PRECONDITION_412, applies=True))
    answer = create(stub, "s3")
    assert answer is not None
    assert answer.status == 412
    assert stub.objects[NAME].data == b"mine"


def test_a_step_overrides_whether_its_fault_applies(stub: FaultStub) -> None:
    stub.script(Op.PUT, Step(Fault.DROP_AFTER_APPLY, applies=False), Step(Fault.FORBIDDEN_403, applies=True))
    assert create(stub, "s3") is None
    assert stub.objects == {}
    refused = create(stub, "s3")
    assert refused is not None
    assert refused.status == 403
    assert stub.objects[NAME].data == b"mine"


def test_a_reset_forgets_everything_but_the_buckets(stub: FaultStub, cloud: Cloud) -> None:
    stub.script(Op.PUT, None, Fault.DROP_BEFORE_APPLY)
    create(stub, cloud)
    stub.script(Op.PUT, Fault.FORBIDDEN_403, forever=True)
    stub.reset()
    assert (stub.requests, stub.objects, stub.history, stub.left()) == ([], {}, {}, [])
    answer = create(stub, cloud)
    assert answer is not None
    assert answer.status in {200, 201}


def test_a_412_says_its_condition_or_does_not(stub: FaultStub) -> None:
    stub.script(Op.PUT, Fault.PRECONDITION_412, Fault.PRECONDITION_412_BARE)
    bodies = [create(stub, "s3").body for _ in range(2)]  # type: ignore[union-attr]
    assert [b"<Condition>If-None-Match</Condition>" in body for body in bodies] == [True, False]
    assert all(b"<Code>PreconditionFailed</Code>" in body for body in bodies)


def test_a_broken_hook_fails_the_test_that_wrote_it() -> None:
    def broken(state: State) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), FaultStub() as stub:  # noqa: PT012 - it is raised at the end
        stub.script(Op.PUT, Step(before=broken))
        create(stub, "s3")


def test_requests_are_kept_as_they_were_on_the_wire(stub: FaultStub) -> None:
    ask(stub, "s3", "PUT", "/bucket/a%20b?x=1", b"body", X_Amz_Meta_Key="Value")
    [request] = stub.requests
    assert (request.op, request.bucket, request.key, request.body) == (Op.PUT, "bucket", "a b", b"body")
    assert (request.method, request.path, request.query) == ("PUT", "/bucket/a%20b", {"x": "1"})
    assert request.headers["x-amz-meta-key"] == "Value"


# --- races --------------------------------------------------------------------------------------------------


def _race(stub: FaultStub, cloud: Cloud) -> list[bytes]:
    """The bodies of those that were told that they won, all sent at once."""
    barrier = threading.Barrier(WRITERS)

    def write(number: int) -> bytes | None:
        barrier.wait(30)
        answer = create(stub, cloud, b"%d" % number)
        return b"%d" % number if answer is not None and answer.status < 300 else None

    with ThreadPoolExecutor(WRITERS) as pool:
        return [body for body in pool.map(write, range(WRITERS)) if body is not None]


def test_an_honest_stub_lets_one_writer_win(stub: FaultStub, cloud: Cloud) -> None:
    assert _race(stub, cloud) == [stub.objects[NAME].data]


@pytest.mark.parametrize(("conditions", "winners"), [("ignored", WRITERS), ("raced", 2)])
def test_a_liar_lets_several_win(cloud: Cloud, conditions: str, winners: int) -> None:
    with FaultStub(conditions=conditions) as liar:  # type: ignore[arg-type]
        assert len(_race(liar, cloud)) >= winners


def test_a_racing_store_is_right_one_at_a_time(cloud: Cloud) -> None:
    with FaultStub(conditions="raced") as liar:
        liar.put(*NAME, b"another's")
        answer = create(liar, cloud)
    assert answer is not None
    assert answer.status in {409, 412}


def test_each_operation_can_lie_by_itself() -> None:
    with FaultStub(conditions={Op.COPY: "ignored"}) as liar:
        liar.put(*NAME, b"another's")
        liar.put("bucket", "source", b"copied")
        assert create(liar, "s3").status == 412  # type: ignore[union-attr]
        copied = told(
            liar, "s3", "PUT", "/bucket/name", if_none_match="*", x_amz_copy_source="/bucket/source"
        )
        assert copied.status == 200
        assert liar.objects[NAME].data == b"copied"


def test_a_stub_is_new_to_mounts_though_another_server_had_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    address = "http://127.0.0.1:9"
    remember("s3", address, "bucket", {"put": Verdict("put", safe=True, evidence="the other's")})
    monkeypatch.setattr(FaultStub, "url", lambda _stub, _cloud: address)
    with FaultStub():
        assert recall("s3", address, "bucket") == {}
