"""Judges a commit before it is created: whether it would hurt the table upon which it would come.

The rules are those of inspection that concern one commit. Whatever they do not know, passes; so do all names
but those by which a format commits.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any

from putifabsent.errors import Damaging
from putifabsent.inspection import delta, hudi, iceberg, paimon
from putifabsent.inspection.findings import Base, Finding, Severity
from putifabsent.timeline.files import avro, roaring

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.shim.names import Name

__all__ = ["Commits"]

_log = logging.getLogger(__name__)

_TABLES = 64
_RULES: dict[str, Callable[[Base, Name, bytes], list[Finding]]] = {
    "delta": delta.hurts,
    "hudi": hudi.hurts,
    "iceberg": iceberg.hurts,
    "paimon": paimon.hurts,
}


class Commits:
    """Judges the commits of one filesystem's tables.

    Parameters
    ----------
    fs
        Returns where the tables are: any filesystem of fsspec's that threads may call.

    Raises
    ------
    ConfigError
        A package is not installed that reads Avro or Roaring bitmaps, in which commits say what they do.
    """

    def __init__(self, fs: Callable[[], Any]) -> None:
        avro()
        roaring()
        self._fs = fs
        self.forget_process()

    def forget_process(self) -> None:
        """In a forked child: whoever holds a lock of the parent's will not give it back here."""
        self._bases: OrderedDict[str, tuple[Base, Lock]] = OrderedDict()
        self._lock = Lock()

    def check(self, name: Name, written: bytes) -> None:
        """Refuse a commit that would hurt its table; other names pass.

        Parameters
        ----------
        name
            What is to be created.
        written
            All of its bytes.

        Raises
        ------
        Damaging
            It says how. Nothing was created.
        OSError
            The store refuses to show the table.
        """
        rules = _RULES.get(name.format or "")
        if rules is None or name.table is None:
            return
        base, lock = self._base(name.table)
        with lock:
            try:
                findings = rules(base, name, written)
            except (KeyError, TypeError, ValueError) as error:
                _log.warning("%s is created unjudged: %s is not what is known of it", name.path, error)
                return
        for each in findings:
            if each.severity is Severity.DAMAGE:
                raise Damaging(name.path, f"{each.detail}. {_ADVICE}")

    def _base(self, table: str) -> tuple[Base, Lock]:
        with self._lock:
            found = self._bases.get(table) or (Base(self._fs(), table), Lock())
            self._bases[table] = found
            self._bases.move_to_end(table)
            if len(self._bases) > _TABLES:
                self._bases.popitem(last=False)
            return found


_ADVICE = "Read the table again, and make the commit anew, upon the table as it is now"
