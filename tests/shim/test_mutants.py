"""The tests of the protocols find out each protocol that is wrong."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.shim import test_create, test_expiry, test_rename
from tests.shim.mutants import MUTANTS, Mutant
from tests.shim.scripted import REAL
from tests.shim.test_histories import HISTORIES, PlainNames, found_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.shim.scripted import Shim

MOST = 60_000
"""Histories: far more than any mutant here needs."""

FOUND_BY_HISTORIES = [mutant for mutant in MUTANTS if mutant.history]


def cases() -> list[tuple[str, Callable[[Shim], None]]]:
    """Return the scripted tests, one for each of their parameters."""
    found: list[tuple[str, Callable[[Shim], None]]] = []
    for module in (test_create, test_expiry, test_rename):
        for name, test in vars(module).items():
            if name.startswith("test_"):
                marks = getattr(test, "pytestmark", [])
                found += [(name, partial(test, **{m.args[0]: value})) for m in marks for value in m.args[1]]
                found += [] if marks else [(name, test)]
    return found


def killers(shim: Shim) -> Iterator[str]:
    """Return the scripted tests that fail on a protocol, one by one."""
    for name, test in cases():
        try:
            test(shim)
        except (Exception, KeyboardInterrupt, pytest.fail.Exception):  # noqa: BLE001 - it fails in any way
            yield name


def test_the_protocols_themselves_fail_no_scripted_test() -> None:
    assert len(cases()) > 80
    assert list(killers(REAL)) == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_scripted_test_finds_out_each_mutant(mutant: Mutant) -> None:
    assert next(killers(mutant.shim()), None)


@pytest.mark.parametrize("mutant", FOUND_BY_HISTORIES, ids=str)
def test_a_random_history_finds_out_a_mutant(mutant: Mutant) -> None:
    history = next(history for history in HISTORIES if history.__name__ == mutant.history)
    assert found_out(history, mutant.shim(), most=MOST)


def test_a_random_history_finds_out_a_client_that_sends_twice_by_itself() -> None:
    assert found_out(PlainNames, REAL, most=MOST, resends=True)


def test_a_mutant_whose_text_is_gone_is_no_mutant() -> None:
    with pytest.raises(LookupError, match="0 times"):
        Mutant("of nothing", "create", "no such text", "").shim()


def test_the_names_of_mutants_differ() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
