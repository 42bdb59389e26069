"""What a suspended protocol will do depends on where it stands and on its variables: a value for both.

Only those variables count that it may read before it writes them: the liveness analysis of compilers finds
them in CPython's bytecode (Aho, Lam, Sethi, Ullman, "Compilers", 2nd ed., 9.2.5).
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Hashable, Iterable
from dataclasses import fields, is_dataclass
from datetime import date, timedelta
from enum import Enum
from functools import cache
from itertools import count
from types import CodeType, FunctionType, GeneratorType, MethodType
from typing import Any

from putifabsent.backends.body import InMemory

_PLAIN = (str, bytes, int, float, bool, type(None), Enum, date, timedelta)
# What is distinguished by its identity stays alive, so that no other object gets its address.
_kept: dict[int, Any] = {}
# Of what is looked at now: frames share most of it, and each is looked at once. It is kept, as above.
_seen: dict[int, tuple[Any, Hashable]] = {}
_ways: dict[type, Callable[[Any], Hashable]] = {}


def fingerprint(value: Any) -> Hashable:
    """Return a value that is equal for two suspended protocols only if they go on alike.

    It sees variables, not the hidden state of iterators and context managers; a loop's variable must tell
    where the loop stands. The explorer checks what it takes for the same against that.
    """
    _seen.clear()
    return _each((value,))[0]


def _way(kind: type) -> Callable[[Any], Hashable]:
    """Return what takes the fingerprints of a class's instances."""
    if issubclass(kind, _PLAIN):
        return _itself
    for kinds, parts in _PARTS:
        if issubclass(kind, kinds):
            return lambda value: (kind, parts(value))
    if is_dataclass(kind):
        names = [each.name for each in fields(kind)]
        return lambda value: (kind, _each([getattr(value, name) for name in names]))
    return lambda value: (kind, _identity(value))


def _itself(value: Any) -> Hashable:
    plain: Hashable = value
    return plain


def _identity(value: Any) -> int:
    _kept[id(value)] = value
    return id(value)


def _each(values: Iterable[Any]) -> tuple[Hashable, ...]:
    found = []
    for value in values:
        kind = type(value)
        way = _ways.get(kind)
        if way is None:
            way = _ways[kind] = _way(kind)
        if way is _itself:  # as most are: a call for each would be most of the time
            found.append(value)
            continue
        seen = _seen.get(id(value))
        if seen is None:
            seen = _seen[id(value)] = value, way(value)
        found.append(seen[1])
    return tuple(found)


def _items(values: dict[Any, Any]) -> Hashable:
    return frozenset(zip(_each(values), _each(values.values()), strict=True))


def _function(value: FunctionType) -> Hashable:
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    return value.__code__, _each([*cells, value.__defaults__])


def _frames(protocol: GeneratorType[Any, Any, Any]) -> Hashable:
    found: list[Hashable] = []
    link: Any = protocol
    while isinstance(link, GeneratorType) and link.gi_frame is not None:
        frame = link.gi_frame
        matter = _live(link.gi_code, frame.f_lasti)
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
    ((set, frozenset), lambda value: frozenset(_each(value))),
    (dict, _items),
    (BaseException, lambda error: (_each(error.args), _items(error.__dict__))),
    (InMemory, lambda body: body.data),
    (FunctionType, _function),
    (MethodType, lambda method: (method.__func__.__code__, _each((method.__self__,)))),
    (count, repr),
)


_ENDS = {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"}
_GOES_ON_ELSEWHERE = {"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"}


@cache
def _live(code: CodeType, at: int) -> frozenset[str]:
    """Return the names that matter to a frame of ``code`` that is suspended at the offset ``at``.

    All of them where that is not known: before Python 3.11, for variables that functions share, and within
    a ``for``, whose iterator is no variable.
    """
    every = frozenset((*code.co_varnames, *code.co_cellvars, *code.co_freevars))
    if not hasattr(code, "co_exceptiontable") or _in_a_loop(code, at):
        return every
    shared = frozenset((*code.co_cellvars, *code.co_freevars))
    return _after(code)[at] | shared


def _in_a_loop(code: CodeType, at: int) -> bool:
    return any(
        each.offset <= at < each.argval for each in dis.get_instructions(code) if each.opname == "FOR_ITER"
    )


@cache
def _after(code: CodeType) -> dict[int, frozenset[str]]:
    """Return, for each instruction's offset, the variables that are read after it before they are written."""
    instructions = list(dis.get_instructions(code))
    handlers = [(each.start, each.end, each.target) for each in dis.Bytecode(code).exception_entries]  # type: ignore[attr-defined]
    following: dict[int, list[int]] = {}
    for number, each in enumerate(instructions):
        goes_on = each.opname not in _ENDS and each.opname not in _GOES_ON_ELSEWHERE
        ways = [instructions[number + 1].offset] if goes_on and number + 1 < len(instructions) else []
        if each.opcode in dis.hasjrel or each.opcode in dis.hasjabs:
            ways.append(each.argval)
        ways += [target for start, end, target in handlers if start <= each.offset < end]
        following[each.offset] = ways
    before: dict[int, frozenset[str]] = dict.fromkeys(following, frozenset())
    after = dict(before)
    changed = True
    while changed:
        changed = False
        for each in reversed(instructions):
            read, written = _read(each), _written(each)
            out = frozenset[str]().union(*(before[way] for way in following[each.offset]))
            into = read | (out - written)
            if (after[each.offset], before[each.offset]) != (out, into):
                after[each.offset], before[each.offset] = out, into
                changed = True
    return after


def _names(instruction: dis.Instruction) -> tuple[str, ...]:
    value = instruction.argval
    return value if isinstance(value, tuple) else (value,)


def _read(instruction: dis.Instruction) -> frozenset[str]:
    name = instruction.opname
    if name.startswith("LOAD_FAST"):
        return frozenset(_names(instruction))
    if name == "STORE_FAST_LOAD_FAST":
        stored, loaded = _names(instruction)
        return frozenset({loaded} - {stored})
    return frozenset()


def _written(instruction: dis.Instruction) -> frozenset[str]:
    name = instruction.opname
    if name == "STORE_FAST_LOAD_FAST":
        return frozenset(_names(instruction)[:1])
    if name.startswith("STORE_FAST") or name in ("DELETE_FAST", "LOAD_FAST_AND_CLEAR"):
        return frozenset(_names(instruction))
    return frozenset()
