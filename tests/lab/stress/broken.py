"""Paths through protocols that are broken on purpose, for writers' processes: a run must convict them."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from putifabsent import shim
from putifabsent.lab.stress.paths import Contender, Guarded
from tests.mutation import Change

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["broken", "open_path"]

_DOOR = "putifabsent.fsspec_plugin"


def broken(change: Change, options: Mapping[str, Any]) -> Contender:
    """Return the path by a mutant, for which no promise is made; this process stays a right one."""
    import_module(_DOOR)
    told = {"name": change.name, "source": change.source, "old": change.old, "new": change.new}
    return Contender(change.name, open_path, {**options, "change": told})


def open_path(change: Mapping[str, str], **options: Any) -> Guarded:
    """Open it in a process that has not come through the door yet; in another one it is the right one.

    A test's own process makes the tables, and reads them at last.
    """
    if _DOOR not in sys.modules:
        _replace(Change(**change))
        import_module(_DOOR)
    return Guarded(**options)


def _replace(change: Change) -> None:
    name = f"{shim.__name__}.{change.source}".replace("/", ".")
    assert name not in sys.modules
    # It is looked for by its name while its classes are made, and by all who import it afterwards.
    sys.modules[name] = module = ModuleType(name)
    text = change.text(shim, change.source)
    exec(compile(text, f"<{change.name}>", "exec"), module.__dict__)  # noqa: S102 - it is our own text
