"""What the bench of a table's life says is so: it convicts what broke a promise, and lives a life itself."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from bench.life import tables
from bench.life_grounds import ARBITERS, PLACES
from bench.life_history import OUTCOMES, History, Sample, judged, near

GOOD = History(
    Counter({("commit", "acknowledged"): 97, ("commit", "refused"): 3, ("read", "acknowledged"): 10}),
    # Waves, up to the next checkpoint.
    samples=[Sample(each * 10, 30 + each % 3 * 40, 9, 0, 90, 50.0, 1, 30, 0.01) for each in range(1, 31)],
)


def grows(**by: int) -> History:
    """Return a life in which something grows with each commit."""
    samples = [
        each._replace(**{what: getattr(each, what) + each.commits * more for what, more in by.items()})
        for each in GOOD.samples
    ]
    return replace(GOOD, samples=samples)


def heard(kind: str, outcome: str) -> History:
    return replace(GOOD, outcomes=GOOD.outcomes + Counter({(kind, outcome): 1}))


def test_a_good_life_is_not_convicted() -> None:
    """It may have been refused where its table was removed."""
    assert judged(GOOD) == []


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (heard("commit", "unknown"), "1 outcomes are unknown"),
        (heard("read", "unknown"), "1 outcomes are unknown"),
        (heard("archive", "failed"), "1 actions failed"),
        (heard("commit begun", "needless"), "1 actions were refused needlessly"),
        (replace(GOOD, lost=["1_2.commit"]), "1 acknowledged names are lost"),
        (replace(GOOD, ghosts=["1_2.commit"]), "1 names are there that nobody was promised"),
        (replace(GOOD, changed=["1_2.commit"]), "1 names have other bytes"),
        (replace(GOOD, wedged=1), "1 times nobody could commit"),
        (replace(GOOD, outcomes=Counter({("commit", "refused"): 9})), "no commit was acknowledged"),
        (grows(state=4), "objects of the shim's grow"),
        (grows(state=2, records=2), "records of the ledger are not pruned"),
        (grows(items=4), "items in the registry grow"),
        (grows(a_commit=1), "requests a commit grow"),
        (grows(ls=1), "requests of a listing grow"),
        (grows(start_up=2), "requests of a first listing grow"),
    ],
    ids=lambda each: each.replace(" ", "-") if isinstance(each, str) else "",
)
def test_a_bad_life_is_convicted(bad: History, says: str) -> None:
    [problem] = judged(bad)
    assert says in problem


def test_a_table_that_has_more_names_may_have_more_kept_of_them() -> None:
    assert judged(grows(state=3, live=1)) == []
    assert judged(grows(state=9, live=1)) != []


def test_a_life_that_is_too_short_to_settle_may_grow() -> None:
    young = grows(state=9, a_commit=9)
    assert judged(replace(young, samples=young.samples[:9])) == []


def test_the_usual_is_a_trough_of_what_is_kept_and_a_mean_of_what_is_sent() -> None:
    samples = [GOOD.samples[0]._replace(commits=90 + each, state=each, a_commit=each) for each in range(11)]
    found = near(samples, 100)
    assert (found.state, found.a_commit) == (0, 5)


def test_eighty_columns_show_all_that_came_of_a_long_life() -> None:
    late = [each._replace(commits=each.commits * 333, items=99_999, seconds=0.98765) for each in GOOD.samples]
    life = replace(GOOD, samples=late, outcomes=Counter({("archive", each): 400_000 for each in OUTCOMES}))
    shown = io.StringIO()
    for table in tables([(place, arbiter, life) for place in PLACES for arbiter in ARBITERS]):
        Console(file=shown, width=80).print(table)
    assert "…" not in shown.getvalue()
    assert "99,900" in shown.getvalue()


def lived(*options: str, broken: str = "") -> dict[str, Any]:
    """Run the bench; with ``broken``, a part of the package is replaced before."""
    program = ["-c", f"{broken}; from bench.life import main; main()"] if broken else ["-m", "bench.life"]
    command = [sys.executable, *program, "--json", "--places", "memory", *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.stdout, done.stderr
    [life] = json.loads(done.stdout)
    assert done.returncode == bool(life["problems"])
    return dict(life)


@pytest.fixture(scope="module")
def native() -> dict[str, Any]:
    return lived("--arbiters", "native", "--commits", "150")


def test_a_life_tries_what_it_says_and_measures_it(native: dict[str, Any]) -> None:
    began, committed = native["outcomes"]["commit begun"], native["outcomes"]["commit"]
    assert sum(began.values()) - began["acknowledged"] + sum(committed.values()) >= 140
    assert native["outcomes"]["overwrite"]["acknowledged"] >= 5
    assert [each["commits"] for each in native["samples"]][-1] == 150
    assert all(each["a_commit"] > 10 for each in native["samples"])
    assert native["lost"] == native["ghosts"] == native["changed"] == []


def test_a_life_in_which_nothing_is_pruned_is_convicted() -> None:
    broken = "from putifabsent.fsspec_plugin import ledgers; ledgers.prune = lambda *_: iter(())"
    life = lived("--arbiters", "native", "--commits", "100", broken=broken)
    assert [each[:26] for each in life["problems"]] == ["records of the ledger are "]


def test_a_table_s_whole_life_breaks_no_promise(native: dict[str, Any]) -> None:
    """Nothing is unknown, lost or refused needlessly, and what the shim keeps is bounded."""
    assert native["problems"] == [], native["reasons"]


# What decides under a lock is the ballot.
@pytest.mark.parametrize(("arbiter", "commits"), [("ballot", 60), ("redis", 30)])
def test_nor_does_a_life_by_another_arbiter(arbiter: str, commits: int) -> None:
    life = lived("--arbiters", arbiter, "--commits", str(commits))
    assert life["problems"] == [], life["reasons"]
