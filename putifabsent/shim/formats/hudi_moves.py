"""What an upgrade or a downgrade makes of completed names: it moves them to the other layout, round the shim.

``.hoodie/<T>.<action>`` becomes ``.hoodie/timeline/<T>_<C>.<action>``, or the other way round, with a ``C``
and bytes that nobody can foretell: a commit's metadata is written anew. ``T`` stays what it is, and so does
its completion.

Through the shim the first of these calls is refused. Hudi moves the metadata table before the data table,
each instant by a rename or by a create that may overwrite, and writes the properties when all is moved.
Nobody else brings a name of an instant so into the layout that the properties do not say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from putifabsent.backends.base import Absent
from putifabsent.errors import ConfigError
from putifabsent.shim.formats.hudi import instant_in, step_of
from putifabsent.shim.formats.hudi_layout import PROPERTIES, is_left
from putifabsent.shim.reading import read
from putifabsent.shim.requests import Get, List

if TYPE_CHECKING:
    from collections.abc import Collection

    from putifabsent.backends.base import Got, Listed
    from putifabsent.shim.requests import Protocol

__all__ = ["completed_by", "is_instant", "refuse_move", "was_moved"]

_META = "/.hoodie/"
_TIMELINES = ("/.hoodie", "/.hoodie/timeline")
_SAVEPOINT = "savepoint"


def completed_by(path: str) -> str | None:
    """Return the instant whose completed name this is; None: it is none, or a savepoint's."""
    step = step_of(path)
    if step is None or step.state != "completed" or step.action == _SAVEPOINT:
        return None
    return step.instant


def was_moved(path: str, undone: Collection[str]) -> Protocol[bool]:
    """Whether a completed name that is not there was moved to another one of its instant.

    That is in the other layout, where the table has left the name's; or in the same, with another ``C``,
    where it has come back. One request, and a listing where it has not left; one more while the properties
    are written anew.

    Parameters
    ----------
    path
        The completed name.
    undone
        Names that may still be there, and that don't count.
    """
    folder, instant = path.rpartition("/")[0], completed_by(path)
    properties = yield from _properties(path)
    if properties is None or is_left(folder, properties):
        return properties is not None
    listed: Listed = yield from read(List(folder))
    return any(completed_by(each.name) == instant for each in listed.entries if each.name not in undone)


def _properties(path: str) -> Protocol[bytes | None]:
    """Return what the table of a name in its timeline says of itself; None: there is none."""
    root = path[: path.rfind(_META)]
    for each in PROPERTIES:
        got: Got | Absent = yield from read(Get(f"{root}/{each}"))
        if not isinstance(got, Absent):
            return got.data
    return None


def is_instant(path: str) -> bool:
    """Whether it is a name of an instant, in the timeline of a table or of a metadata table."""
    folder, _, last = path.rpartition("/")
    return folder.endswith(_TIMELINES) and instant_in(last) is not None


def refuse_move(path: str) -> Protocol[None]:
    """Refuse to bring a name of an instant into the layout that its table, or metadata table, does not have.

    To be asked of calls that only an upgrade makes of such names: a rename, or a create that may overwrite.
    No request for other names; for these one, or two while the properties are written anew.

    Raises
    ------
    ConfigError
        It would be the first step of an upgrade or a downgrade.
    """
    properties = (yield from _properties(path)) if is_instant(path) else None
    if properties is None or not is_left(path.rpartition("/")[0], properties):
        return
    raise ConfigError(
        f"{path}: an upgrade or a downgrade of a Hudi table moves its whole timeline, which is not done "
        "through putifabsent. No instant was moved, and the table has the version that it had. Stop its "
        "writers, and upgrade it in a session that is not mounted (see 'Upgrade a table' in the "
        "documentation of Hudi on Spark); or have this writer leave the version as it is: "
        "hoodie.write.auto.upgrade=false, and no other hoodie.write.table.version than the table's"
    )
