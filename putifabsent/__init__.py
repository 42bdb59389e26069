"""Atomic create-if-absent for writers that don't know they need it.

``fsspec.filesystem("pias3", ...)`` (also ``piags``, ``piaaz``, ``piafile``, ``piamemory``) is the wrapped
filesystem in every way but one: a name that a table format commits by is created at most once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from putifabsent.errors import (
    ConfigError,
    Damaging,
    Fenced,
    Holder,
    InvalidTransition,
    NameExpired,
    NameTaken,
    OutcomeUnknown,
    PutIfAbsentError,
    UnsafeStore,
)

if TYPE_CHECKING:
    from putifabsent.clocks import clock
    from putifabsent.fsspec_plugin.protocols import guard_protocol, unguard_protocol

__version__ = "0.1.0"

__all__ = [
    "ConfigError",
    "Damaging",
    "Fenced",
    "Holder",
    "InvalidTransition",
    "NameExpired",
    "NameTaken",
    "OutcomeUnknown",
    "PutIfAbsentError",
    "UnsafeStore",
    "__version__",
    "clock",
    "guard_protocol",
    "unguard_protocol",
]


def __getattr__(name: str) -> object:
    if name in ("guard_protocol", "unguard_protocol"):
        from putifabsent.fsspec_plugin import protocols

        return getattr(protocols, name)
    if name == "clock":
        from putifabsent.clocks import clock

        return clock
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
