"""What an upgrade or a downgrade makes of completed names: it moves them to the other layout, round the shim.

``.hoodie/<T>.<action>`` becomes ``.hoodie/timeline/<T>_<C>.<action>``, or the other way round, with a ``C``
and bytes that nobody can foretell: a commit's metadata is written anew. ``T`` stays what it is, and so does
its completion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from putifabsent.backends.base import Absent
from putifabsent.shim.formats.hudi import step_of
from putifabsent.shim.formats.hudi_layout import PROPERTIES, is_left
from putifabsent.shim.reading import read
from putifabsent.shim.requests import Get

if TYPE_CHECKING:
    from putifabsent.backends.base import Got
    from putifabsent.shim.requests import Protocol

__all__ = ["completed_by", "was_moved"]

_META = "/.hoodie/"
_SAVEPOINT = "savepoint"


def completed_by(path: str) -> str | None:
    """Return the instant whose completed name this is; None: it is none, or a savepoint's."""
    step = step_of(path)
    if step is None or step.state != "completed" or step.action == _SAVEPOINT:
        return None
    return step.instant


def was_moved(path: str) -> Protocol[bool]:
    """Whether a completed name that is not there was one of a layout that its table has left.

    One request; one more while the properties are written anew.
    """
    folder, root = path.rpartition("/")[0], path[: path.rfind(_META)]
    for each in PROPERTIES:
        got: Got | Absent = yield from read(Get(f"{root}/{each}"))
        if not isinstance(got, Absent):
            return is_left(folder, got.data)
    return False
