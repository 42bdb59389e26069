"""What another arbiter than the store costs: requests, counted on the wire."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent.backends.probe import BESIDE, NEEDED
from putifabsent.fsspec_plugin.remote import Remote
from tests.fsspec_plugin.hudi_tables import Writer

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
    fs.mount.relied["bucket"] = {*NEEDED, *BESIDE}
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


def test_who_only_looks_meanwhile_takes_no_agreement_back() -> None:
    fs = fsspec.filesystem("piamemory", skip_instance_cache=True)
    name = fs.explain(f"{uuid.uuid4()}/_delta_log/{0:020d}.json")
    looking = fs.mount.looking([name.state], once=True)
    next(looking)
    fs.pipe_file(name.path, BODY)
    assert next(looking, None) is None
    assert list(fs.mount.relying(name)) == []


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
def test_the_arbiter_is_asked_about_such_a_name_that_is_removed_or_absent(counted: Counted) -> None:
    fs, stub, table = counted
    asked = ["GET"] if fs.mount.options.arbiter == "ballot" else []  # a registry is asked elsewhere
    absent = sent(stub, lambda: fs.fs.exists(f"{table}/data/none"))
    assert sent(stub, lambda: fs.exists(f"{table}/data/none")) == [*absent, *asked, "HEAD"]
    assert sent(stub, lambda: fs.rm_file(f"{table}/data/part")) == [*asked, "DELETE"]


@pytest.mark.parametrize("counted", ["ballot", "claims"], indirect=True)
def test_reading_a_guarded_name_costs_one_look_up(counted: Counted) -> None:
    fs, stub, table = counted
    name = f"{table}/_delta_log/{0:020d}.json"
    plain = sent(stub, lambda: fs.fs.cat_file(name))
    look_up = ["GET"] if fs.mount.options.arbiter == "ballot" else []  # a registry is asked elsewhere
    assert sent(stub, lambda: fs.cat_file(name)) == [*look_up, *plain]


@pytest.fixture
def table(stub: FaultStub) -> str:
    """Make a table of Hudi's on the stub."""
    folder = str(uuid.uuid4())
    stub.put("bucket", f"{folder}/.hoodie/hoodie.properties", b"hoodie.table.version=8\n")
    return f"bucket/{folder}"


def session(stub: FaultStub, table: str, name: str) -> Writer:
    """Return a writer by the store's own decision, which has found out that the store can be relied on."""
    options = {**stub.storage_options("s3"), "use_listings_cache": False, "skip_instance_cache": True}
    fs = fsspec.filesystem("pias3", arbiter="native", writer_session=name, **options)
    fs.mount.relied["bucket"] = {*NEEDED, *BESIDE}
    return Writer(fs, table)


def commits(writer: Writer, instant: str) -> None:
    """Commit in a turn, as Hudi does."""
    writer.fs.pipe_file(writer.requested(instant), b"")
    writer.fs.pipe_file(writer.inflight(instant), b"")
    with writer.fs.turn(writer.root, lease=600.0):
        writer.fs.pipe_file(writer.completed(instant), b"{}")


def test_a_whole_hudi_commit_in_a_turn_costs_what_the_documentation_says(stub: FaultStub, table: str) -> None:
    counts = {}
    for name, instants in (("a", ("100", "200")), ("b", ("300", "400"))):
        writer = session(stub, table, name)
        for instant in instants:
            counts[instant] = len(sent(stub, lambda w=writer, i=instant: commits(w, i)))
    assert counts["200"] == counts["400"] == 13 + 1
    assert counts["100"] == counts["200"] + 3 + 3  # it reads, and begins the life
    records, published = 2 * 4, 1
    assert counts["300"] == counts["200"] + 3 + records + published


def test_a_sign_of_life_by_a_turn_s_name_is_two_requests_and_so_is_giving_it_back(
    stub: FaultStub, table: str
) -> None:
    fs = session(stub, table, "a").fs
    turn = str(Remote(fs).take_turn(table, str(uuid.uuid4()), thread="main", lease=600.0).turn)
    assert sent(stub, lambda: Remote(fs).beat_turn(table, turn)) == ["GET", "PUT"]
    assert sent(stub, lambda: Remote(fs).release_turn(table, turn)) == ["PUT", "GET"]


def test_a_folder_of_hudi_s_marks_is_removed_without_a_look(
    stub: FaultStub, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = session(stub, table, "a").fs
    listed: list[str] = []
    listing = fs.backend.list

    def noted(folder: str) -> Any:
        listed.append(folder)
        return listing(folder)

    monkeypatch.setattr(fs.backend, "list", noted)
    for folder, looks in (("data", 2), (".hoodie/.temp/100", 1), (".hoodie/.temp/200/MARKERS0", 0)):
        Remote(fs).removed(f"{table}/{folder}", recursive=True)
        assert len(listed) == looks
        listed.clear()
