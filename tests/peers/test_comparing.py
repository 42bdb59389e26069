from __future__ import annotations

from tests.peers.comparing import compare, differences
from tests.peers.table import PEERS

STOCK = {"same": "passed", "other": "passed", "both fail": "failed", "only stock": "passed"}
GUARDED = {"same": "passed", "other": "failed", "both fail": "failed", "only guarded": "passed"}
DIFFERING = frozenset({"other", "only stock", "only guarded"})


def test_what_differs_and_is_expected_is_no_complaint() -> None:
    found = compare(STOCK, GUARDED, DIFFERING)
    assert found.differing == {
        "other": ("passed", "failed"),
        "only stock": ("passed", "absent"),
        "only guarded": ("absent", "passed"),
    }
    assert found.as_row() == (5, 3, 2, 3, 3, 0)
    assert not found.complaints("peer")


def test_a_difference_without_a_reason_is_a_complaint() -> None:
    (line,) = compare(STOCK, GUARDED, DIFFERING - {"other"}).complaints("peer")
    assert "other: passed stock, failed guarded" in line


def test_a_reason_without_a_difference_is_a_complaint() -> None:
    (line,) = compare(STOCK, GUARDED, DIFFERING | {"same"}).complaints("peer")
    assert "same no longer differs" in line


def test_every_difference_is_a_peer_s_and_has_a_reason() -> None:
    known = {peer.name for peer in PEERS}
    said = differences()
    assert said.keys() <= known
    for each in (entry for entries in said.values() for entry in entries):
        assert each.keys() == {"reason", "tests"}
        assert len(each["reason"].split()) > 3
        assert each["tests"]
