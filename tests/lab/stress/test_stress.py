"""Writers are killed, paused and not answered: what they are told holds, and a broken path is convicted."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from putifabsent.errors import ConfigError
from putifabsent.lab.stress import pool
from putifabsent.lab.stress.paths import Guarded, guarded, stock_of
from putifabsent.lab.stress.pool import Orders, Stress
from putifabsent.lab.stress.results import judge, table_of
from putifabsent.lab.stress.running import Ground, obeyed, run
from putifabsent.lab.stress.writers import body
from tests.lab.stress.broken import broken
from tests.lab.stress.chance import soon
from tests.shim import ballot_mutants, mutants
from tests.spark.pages import run_page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from putifabsent.lab.servers import LocalBucket
    from putifabsent.lab.stress.results import Result

pytestmark = pytest.mark.timeout(400)

A_MINUTE = pytest.mark.servers

SIX = partial(Stress, writers=6, seconds=6.0)


def purposes(result: Result) -> set[tuple[str, str]]:
    return {
        (each["action"], each["purpose"])
        for each in result.history.to_pylist()
        if each["outcome"] != "failed"
    }


def test_no_promise_is_broken_whatever_happens_to_writers(localbucket: LocalBucket) -> None:
    contender = guarded("pias3", "putifabsent", {**localbucket.storage_options, "arbiter": "native"})

    def all_has_happened(result: Result) -> bool:
        assert result.violations == []
        assert result.requests is not None
        assert result.requests > result.figures.acknowledged
        folders = {
            each.rpartition(".db")[0].rpartition("/")[2] for each in set(result.history["folder"].to_pylist())
        }
        assert {"hudi", "paimon", "delta"} <= folders
        did = {("create", each) for each in ("commit", "request", "slice")} <= purposes(result)
        return (
            did and result.figures.acknowledged > 10 and "kill" in result.figures.faults and result.lost > 0
        )

    what = SIX(localbucket.bucket, seconds=8.0)
    assert soon(all_has_happened, what, partial(run, contender=contender))


@A_MINUTE
def test_the_bucket_alone_keeps_the_promises(localbucket: LocalBucket) -> None:
    contender = guarded("pias3", "ballot", {**localbucket.storage_options, "arbiter": "ballot"})

    def somebody_commits(result: Result) -> bool:
        assert result.violations == []
        return result.figures.acknowledged > 0

    assert soon(somebody_commits, SIX(localbucket.bucket), partial(run, contender=contender))


def test_local_disk_keeps_them_without_a_proxy(tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    what = SIX(str(tmp_path), faults=("kill", "pause"))
    result = run(what, guarded("piafile", "local", {}), lambda *all_: told.append(all_))
    assert told[-1][:2] == (6, 6)
    assert told[-1][2].startswith("local: ")
    assert result.violations == []
    assert result.figures.acknowledged
    assert result.requests is None


@pytest.fixture
def ended(tmp_path: Path) -> Iterator[tuple[Ground, Guarded, str]]:
    """Return a ground on which writers have ended, its path, and a name that was created."""
    what = Stress(str(tmp_path), ("delta",), writers=1, seconds=1.0, faults=())
    with Ground(what, guarded("piafile", "ours", {"arbiter": "ballot"})) as ground:
        path = ground.contender.path()
        assert isinstance(path, Guarded)
        name, *_ = path.names(f"{ground.root}/warm-up/delta/_delta_log")
        yield ground, path, name


def breaches(ground: Ground, name: str) -> set[str]:
    return {each.breach for each in judge(table_of(ground.closing({name})))}


def test_what_listings_leave_out_at_the_end_is_convicted(
    ended: tuple[Ground, Guarded, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ground, _, name = ended
    before = breaches(ground, name)
    monkeypatch.setattr(Guarded, "names", lambda *_: [])
    assert breaches(ground, name) - before == {"it was read, and its folder's listing leaves it out"}


def test_other_bytes_beneath_putifabsent_at_the_end_are_convicted(ended: tuple[Ground, Guarded, str]) -> None:
    ground, path, name = ended
    before = breaches(ground, name)
    path.fs.fs.rm_file(name)
    path.fs.fs.pipe_file(name, body("another"))
    assert breaches(ground, name) - before == {"its plain bytes are others"}


def test_each_life_of_a_writer_is_a_session(tmp_path: Path) -> None:
    first, second = (guarded("piafile", "ours", {}).path() for _ in range(2))
    assert isinstance(first, Guarded)
    assert isinstance(second, Guarded)
    assert first.fs.writer != second.fs.writer
    assert first.fs.writer_session != second.fs.writer_session


def test_a_writer_that_hangs_fails_its_run_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool._Pool, "_write", lambda *_: signal.pause())
    monkeypatch.setattr(pool, "_GRACE_SECONDS", 0.1)
    monkeypatch.setattr(pool, "_is_alone", lambda: False)
    orders = Orders(
        Stress("", ("delta",), writers=2, seconds=0.1, faults=()), guarded("piafile", "local", {}), [1]
    )
    with pytest.raises(RuntimeError, match="writer 1 hung"):
        pool._Pool(orders, tmp_path, [0] * 2, [0] * 2).run()


def test_what_failed_in_a_pool_is_said_where_the_run_fails(tmp_path: Path) -> None:
    nothing = Stress("", formats=("delta",), writers=1, seconds=5, faults=())
    object.__setattr__(nothing, "formats", ("none",))
    orders = Orders(nothing, guarded("piafile", "local", {}), [0])
    with pytest.raises(RuntimeError, match="writer 0 has died of status 1,"):
        list(obeyed(orders, tmp_path))


@A_MINUTE
def test_who_stood_still_in_its_turn_is_fenced(localbucket: LocalBucket) -> None:
    contender = guarded("pias3", "putifabsent", {**localbucket.storage_options, "arbiter": "native"})
    what = Stress(localbucket.bucket, ("hudi",), writers=4, seconds=12.0, faults=("pause",))

    def is_fenced(result: Result) -> bool:
        assert result.violations == []
        return any("Fenced" in each for each in result.history["error"].to_pylist() if each)

    assert soon(is_fenced, what, partial(run, contender=contender))


@A_MINUTE
@pytest.mark.parametrize(
    ("arbiter", "name"),
    [("native", "exists is a loss without a look"), ("ballot", "its own value, whatever was accepted")],
)
def test_a_broken_protocol_is_convicted(
    localbucket: LocalBucket, monkeypatch: pytest.MonkeyPatch, arbiter: str, name: str
) -> None:
    # On a busy machine a writer has two creations a second: of one answer in ten too few are theirs.
    monkeypatch.setattr("putifabsent.lab.stress.running._LOST_SHARE", 0.3)
    [change] = [each for each in (*mutants.MUTANTS, *ballot_mutants.MUTANTS) if each.name == name]
    options = {**localbucket.storage_options, "protocol": "pias3", "arbiter": arbiter}
    what = Stress(localbucket.bucket, ("paimon",), writers=8, seconds=10.0, faults=("lost",))
    assert soon(lambda result: bool(result.violations), what, partial(run, contender=broken(change, options)))


@A_MINUTE
def test_stock_clients_are_convicted(localbucket: LocalBucket) -> None:
    paths = {each.label: each for each in stock_of("pias3", localbucket.storage_options)}
    assert set(paths) == {"s3fs", "boto3", "boto3, conditional", "pyarrow", "obstore"}
    for label in ("boto3", "boto3, conditional"):
        assert soon(
            lambda result: {each.promise for each in result.violations} >= {"U", "K"},
            Stress(localbucket.bucket, writers=8, seconds=6.0),
            partial(run, contender=paths[label]),
        )


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"writers": 0}, "writers is 0"),
        ({"writers": 2}, "writers is 2: give one or more for each of 3 formats"),
        ({"tables": -1}, "tables is -1"),
        ({"seconds": 0.0}, "seconds is 0"),
        ({"formats": ("orc",)}, "orc is none of hudi, paimon, delta"),
        ({"formats": ()}, "say at least one of hudi"),
        ({"faults": ("rain",)}, "rain is none of kill, pause, lost"),
        ({"faults": ("lost",)}, "plain http:// endpoint"),
    ],
)
def test_what_cannot_be_run_is_refused(what: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        run(Stress(str(tmp_path), **what), guarded("piafile", "local", {}))  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_what_the_documentation_shows_runs(tmp_path: Path) -> None:
    page = Path(__file__).parents[3] / "docs/how-to/stress.md"
    assert run_page(page, tmp_path, seconds=120) == 0
