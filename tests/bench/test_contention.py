"""However many write one log, what the bench says of it is what the store holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.arbiter_servers import BUCKET
from bench.contention import CONTESTANTS, contend

if TYPE_CHECKING:
    from bench.arbiter_servers import Far


@pytest.mark.parametrize("name", CONTESTANTS)
def test_each_number_has_one_winner_and_every_answer_is_counted(there: Far, name: str) -> None:
    found = contend(there, name, writers=3, seconds=0.5)
    assert found.failed == {}
    assert found.requests >= found.acknowledged + found.taken
    fs = there.mount("native").fs
    entries = [path for path in fs.find(BUCKET) if path.endswith(".json") and "/.putifabsent/" not in path]
    # The first one was there before the clock ran.
    assert found.acknowledged < len(entries) <= 1 + found.acknowledged + found.unknown
