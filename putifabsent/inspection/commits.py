"""Judges a commit before it is created: whether it would hurt the table upon which it would come.

The rules are those of inspection that concern one commit. Whatever they do not know, passes; so do all names
but those by which a format commits, and what was wrong with the table before.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from putifabsent.errors import Damaging
from putifabsent.inspection import delta, hudi, iceberg, paimon
from putifabsent.inspection.findings import Base, Finding, Severity
from putifabsent.timeline.files import avro, roaring

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.shim.names import Name

_log = logging.getLogger(__name__)

_TABLES = 64
_RECORDS = 500_000
"""So many records of manifests and instants are remembered of tables other than the one committed to last.

One is some hundred bytes. The last one's are what its next commit is judged by, however many these are.
"""
_RULES: dict[str, Callable[[Base, Name, bytes], list[Finding]]] = {
    "delta": delta.hurts,
    "hudi": hudi.hurts,
    "iceberg": iceberg.hurts,
    "paimon": paimon.hurts,
}
_ADVICE = "Read the table again, and make the commit anew, upon the table as it is now"


class Commits:
    """Judges the commits of one filesystem's tables; ``fs`` returns it, and threads may call it."""

    def __init__(self, fs: Callable[[], Any]) -> None:
        # Without either, there is a ConfigError now.
        avro()
        roaring()
        self._open = fs
        self._fs: Any = None
        self.forget_process()

    def forget_process(self) -> None:
        """In a forked child: whoever holds a lock of the parent's will not give it back here."""
        # A folder may be the table of several formats, each of which has a memory of its own.
        self._bases: OrderedDict[tuple[str, str], tuple[Base, Lock]] = OrderedDict()
        self._lock = Lock()

    def judges(self, name: Name) -> bool:
        """Whether there are rules for a name; for what a command writes in place there are none."""
        is_command = name.replaced and name.series is None
        return name.format in _RULES and name.table is not None and not is_command

    def check(self, name: Name, written: bytes, seconds: float = 30.0) -> None:
        """Refuse a commit that would hurt its table, of a name that :meth:`judges`.

        In half of the ``seconds`` its files may be asked for; the rest passes. Who has waited for longer may
        have given up: then nothing is created. Nor is it after an error. ``Damaging`` says how it would hurt;
        ``OSError``: the store refuses to show the table, or that took too long.
        """
        began = monotonic()
        base, lock = self._base(str(name.format), str(name.table))
        with lock:
            base.until = began + seconds / 2
            try:
                findings = _RULES[str(name.format)](base, name, written)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                _log.warning("%s is created unjudged: %r is not what is known of it", name.path, error)
                return
            finally:
                self._forget()
        for each in findings:
            if each.severity is Severity.DAMAGE:
                raise Damaging(name.path, f"{each.detail}. {_ADVICE}")
        if monotonic() - began > seconds:
            raise TimeoutError(
                f"{name.path}: its table could not be looked at in {seconds:g} s, and nothing was created. "
                f"Try again, when some of it is known; or mount with a longer deadline, or without inspect"
            )

    def _base(self, of: str, table: str) -> tuple[Base, Lock]:
        with self._lock:
            self._fs = self._fs or self._open()
            found = self._bases.get((of, table)) or (Base(self._fs, table), Lock())
            self._bases[of, table] = found
            self._bases.move_to_end((of, table))
            return found

    def _forget(self) -> None:
        """Forget the tables that nobody has committed to for longest, as many as are too many."""
        with self._lock:
            others = sum(base.remembered for base, _ in list(self._bases.values())[:-1])
            while len(self._bases) > _TABLES or (others > _RECORDS and len(self._bases) > 1):
                _, (base, _) = self._bases.popitem(last=False)
                others -= base.remembered
