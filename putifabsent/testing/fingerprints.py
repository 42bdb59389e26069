"""What a suspended protocol will do depends on where it stands and on its variables: a value for both."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import date, timedelta
from enum import Enum
from itertools import count
from types import FunctionType, GeneratorType, MethodType
from typing import TYPE_CHECKING, Any

from putifabsent.backends.body import InMemory
from putifabsent.testing.liveness import live

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["fingerprint"]

_PLAIN = (str, bytes, int, float, bool, type(None), Enum, date, timedelta)
# What is told apart by being itself stays alive, so that no other object gets its address.
_kept: dict[int, Any] = {}
_ways: dict[type, Callable[[Any], Hashable]] = {}


def fingerprint(value: Any) -> Hashable:
    """Return a value that is equal for two suspended protocols only if they go on alike.

    It sees variables, not the hidden state of iterators and context managers; a loop's variable must tell
    where the loop stands. The explorer checks what it takes for the same against that.
    """
    kind = type(value)
    way = _ways.get(kind)
    if way is None:
        way = _ways[kind] = _way(kind)
    return way(value)


def _way(kind: type) -> Callable[[Any], Hashable]:
    """Return what takes the fingerprints of a class's instances."""
    if issubclass(kind, _PLAIN):
        return _itself
    for kinds, parts in _PARTS:
        if issubclass(kind, kinds):
            return lambda value: (kind, parts(value))
    if is_dataclass(kind):
        names = [each.name for each in fields(kind)]
        return lambda value: (kind, tuple([fingerprint(getattr(value, name)) for name in names]))
    return lambda value: (kind, _identity(value))


def _itself(value: Any) -> Hashable:
    plain: Hashable = value
    return plain


def _identity(value: Any) -> int:
    _kept[id(value)] = value
    return id(value)


def _each(values: Any) -> Hashable:
    return tuple(map(fingerprint, values))


def _items(values: dict[Any, Any]) -> Hashable:
    return frozenset((fingerprint(key), fingerprint(value)) for key, value in values.items())


def _function(value: FunctionType) -> Hashable:
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    return value.__code__, _each(cells), fingerprint(value.__defaults__)


def _frames(protocol: GeneratorType[Any, Any, Any]) -> Hashable:
    found: list[Hashable] = []
    link: Any = protocol
    while isinstance(link, GeneratorType) and link.gi_frame is not None:
        frame = link.gi_frame
        matter = live(link.gi_code, frame.f_lasti)
        names = {
            name: value
            for name, value in frame.f_locals.items()
            if name in matter and value is not link.gi_yieldfrom
        }
        found.append((link.gi_code, frame.f_lasti, _items(names)))
        link = link.gi_yieldfrom
    return tuple(found)


_PARTS: tuple[tuple[Any, Callable[[Any], Hashable]], ...] = (
    (GeneratorType, _frames),
    ((tuple, list), _each),
    ((set, frozenset), lambda value: frozenset(map(fingerprint, value))),
    (dict, _items),
    (BaseException, lambda error: (_each(error.args), _items(error.__dict__))),
    (InMemory, lambda body: body.data),
    (FunctionType, _function),
    (MethodType, lambda method: (method.__func__.__code__, fingerprint(method.__self__))),
    (count, repr),
)
