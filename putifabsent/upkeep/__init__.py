"""Looking after tables: what dead writers have left, and how a table changes its arbiter, or leaves it."""

from __future__ import annotations

from putifabsent.upkeep.checking import GRACE, Checked, fsck
from putifabsent.upkeep.ledgers import Begun, TableLedger, TableTurns, Waiting, ledger_of, turns_of
from putifabsent.upkeep.parting import drop, leave, migrate

__all__ = [
    "GRACE",
    "Begun",
    "Checked",
    "TableLedger",
    "TableTurns",
    "Waiting",
    "drop",
    "fsck",
    "leave",
    "ledger_of",
    "migrate",
    "turns_of",
]
