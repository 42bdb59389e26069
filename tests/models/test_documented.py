"""The page of the documentation has the tables that the tests go by."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models import hudi_matrix, paimon_matrix

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "published-models.md"


@pytest.mark.parametrize("table", [hudi_matrix.table(), paimon_matrix.table()], ids=["hudi", "paimon"])
def test_the_tables_of_verdicts_are_those_that_are_tested(table: str) -> None:
    assert table in PAGE.read_text(), table
