"""What another arbiter than the store costs: requests, counted on the wire."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent.backends.probe import BESIDE, NEEDED

if TYPE_CHECKING:
    from tests.stub import FaultStub

    Counted = tuple[Any, FaultStub, str]

BODY = b"mine"


@pytest.fixture
def counted(stub: FaultStub, request: pytest.FixtureRequest) -> Counted:
    """Give a mount of the stub that has agreed with all others, the stub, and a table."""
    arbiter = "ballot" if request.param == "ballot" else request.getfixturevalue("registry")
    options = {**stub.storage_options("s3"), "use_listings_cache": False, "skip_instance_cache": True}
    fs = fsspec.filesystem("pias3", arbiter=arbiter, **options)
    # Nothing here is probed: what the stub does is known.
    fs._relied = {*NEEDED, *BESIDE}
    table = f"bucket/{uuid.uuid4()}"
    fs.pipe_file(f"{table}/_delta_log/{0:020d}.json", BODY)
    fs.pipe_file(f"{table}/data/part", BODY)
    return fs, stub, table


def sent(stub: FaultStub, act: Any) -> list[str]:
    """Return the methods of the requests that ``act`` sends."""
    before = len(stub.requests)
    act()
    return [request.method for request in stub.requests[before:]]


@pytest.mark.parametrize(
    ("counted", "requests"),
    [("ballot", ["PUT", "GET", "HEAD", "PUT", "GET", "PUT"]), ("claims", ["PUT", "HEAD", "PUT"])],
    indirect=["counted"],
)
def test_a_creation_that_meets_nobody_costs_what_the_documentation_says(
    counted: Counted, requests: list[str]
) -> None:
    fs, stub, table = counted
    made = sent(stub, lambda: fs.pipe_file(f"{table}/_delta_log/lock", BODY, mode="create"))
    # Put and look go out together.
    assert sorted(made[:2]) + made[2:] == sorted(requests[:2]) + requests[2:]


@pytest.mark.parametrize("counted", ["ballot", "claims"], indirect=True)
def test_names_that_nothing_guards_cost_nothing_more(counted: Counted) -> None:
    fs, stub, table = counted
    for act in (
        lambda each: each.cat_file(f"{table}/data/part"),
        lambda each: each.info(f"{table}/data/part"),
        lambda each: each.pipe_file(f"{table}/data/other", b"x"),
        lambda each: each.ls(f"{table}/data"),
        lambda each: each.exists(f"{table}/data/part"),
        lambda each: each.find(f"{table}/data"),
    ):
        assert sent(stub, lambda act=act: act(fs)) == sent(stub, lambda act=act: act(fs.fs))


@pytest.mark.parametrize("counted", ["ballot", "claims"], indirect=True)
def test_reading_a_guarded_name_costs_one_look_up(counted: Counted) -> None:
    fs, stub, table = counted
    name = f"{table}/_delta_log/{0:020d}.json"
    plain = sent(stub, lambda: fs.fs.cat_file(name))
    look_up = ["GET"] if fs._mount.arbiter == "ballot" else []  # a registry is asked elsewhere
    assert sent(stub, lambda: fs.cat_file(name)) == [*look_up, *plain]
