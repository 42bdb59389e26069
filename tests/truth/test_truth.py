"""No false "exists", no false "won", and exactly the requests of the protocol: S3, GCS and Azure."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent import NameTaken, OutcomeUnknown
from tests.stub import Fault, FaultStub, Op, Step
from tests.truth.cases import BUCKET, KEY, NAME, OTHER, SOURCE, Case, Shape, cases, on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.stub import Cloud

pytestmark = pytest.mark.usefixtures("pauses_pass_at_once")

PROTOCOLS: dict[Cloud, str] = {"s3": "pias3", "gcs": "piags", "azure": "piaaz"}
SHAPES: tuple[Shape, ...] = ("small", "large", "rename", "large rename")
LARGE = 2000
QUICK: dict[str, dict[str, Any]] = {
    "s3": {"config_kwargs": {"read_timeout": 0.4, "connect_timeout": 0.4}},
    "gcs": {"requests_timeout": 0.4},
    "azure": {"read_timeout": 0.4, "connection_timeout": 0.4},
}
PATIENCE = 20.0
IMPATIENCE = 0.7


@pytest.fixture(scope="module")
def stub() -> Iterator[FaultStub]:
    with FaultStub() as running:
        yield running


@pytest.fixture(scope="module")
def mounts(stub: FaultStub) -> dict[tuple[Cloud, float, bool], Any]:
    """One mount a cloud, patience with the store, and with an answer; over a kilobyte is large."""
    made = {}
    for cloud, deadline, late in itertools.product(PROTOCOLS, (PATIENCE, IMPATIENCE), (False, True)):
        # Where every answer comes in time, a busy machine must not make one late.
        options = {**stub.storage_options(cloud), **(QUICK[cloud] if late else {})}
        fs = fsspec.filesystem(PROTOCOLS[cloud], arbiter="native", deadline=deadline, **options)
        fs.backend.largest_put = LARGE // 2
        made[cloud, deadline, late] = fs
    return made


def tell(fs: Any, case: Case) -> tuple[str, BaseException | None]:
    """Write as the case says, and return what the writer was told."""
    body = b"mine" if case.shape in ("small", "rename") else b"m" * LARGE
    try:
        if "rename" in case.shape:
            fs.mv(SOURCE, NAME)
        else:
            fs.pipe_file(NAME, body)
    except NameTaken as error:
        return "taken", error
    except OutcomeUnknown as error:
        return "unknown", error
    except OSError as error:
        return "failed", error
    return "won", None


def sent(stub: FaultStub, case: Case) -> str:
    """Return the deciding requests, and the looks at the name, in order."""
    ops = [r.op.name for r in stub.requests if r.op in (case.decides, Op.HEAD) and r.key == KEY]
    return " ".join(ops)


def matches(seen: str, wanted: str) -> bool:
    if not wanted.endswith(" ..."):
        return seen == wanted
    wanted = wanted.removesuffix(" ...")
    return seen.startswith(wanted) and set(seen.split()) <= set(wanted.split())


@pytest.mark.parametrize("case", [case for shape in SHAPES for case in cases(shape)], ids=str)
@pytest.mark.parametrize("cloud", PROTOCOLS)
def test_a_writer_is_told_the_truth(stub: FaultStub, mounts: Any, cloud: str, case: Case) -> None:
    stub.reset()
    case = on(case, cloud)
    until_the_deadline = case.told in ("unknown", "failed") and case.sent.endswith(" ...")
    late = case.fault is Fault.TIMEOUT_AFTER_APPLY
    fs = mounts[cloud, IMPATIENCE if until_the_deadline else PATIENCE, late]
    if "rename" in case.shape:
        stub.put(BUCKET, SOURCE.partition("/")[2], b"m" * (LARGE if case.shape == "large rename" else 4))
    stub.script(case.decides, *case.steps, forever=case.forever)
    looks = case.heads
    if "rename" in case.shape and looks:
        looks = (Step(), *looks)  # the source is looked at first
        if cloud == "s3" and case.shape == "large rename":
            looks = (Step(), *looks)  # and once more: without versions, its entity tag pins it
    if looks:
        stub.script(Op.HEAD, *looks, forever=case.heads_forever)

    told, error = tell(fs, case)
    stub.release()

    history = stub.history.get((BUCKET, KEY), [])
    there = stub.objects.get((BUCKET, KEY))
    assert told == case.told, f"{error!r}; sent {sent(stub, case)}"
    assert matches(sent(stub, case), case.sent), sent(stub, case)
    if told == "won":
        assert any(one is not None and one.metadata["putifabsenttoken"] != OTHER for one in history)
        assert there is not None or case.ending == "deleted meanwhile"
        assert there is None or there.metadata["putifabsenttoken"] != OTHER
    if told == "taken":
        assert isinstance(error, NameTaken)
        assert error.holder is not None
        assert error.holder.token == OTHER
        assert there is not None
        assert there.data == b"another's"
    if told in ("unknown", "failed"):
        mine = error.token if isinstance(error, OutcomeUnknown) else OTHER
        assert all(one is None or one.metadata["putifabsenttoken"] in (OTHER, mine) for one in history)
    if "rename" in case.shape:
        kept = (BUCKET, SOURCE.partition("/")[2]) in stub.objects
        assert kept is (told != "won"), "the source goes only after a proven win"
    if cloud == "s3" and told != "unknown":
        assert not stub.uploads, "no open upload is left behind"
