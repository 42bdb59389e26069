"""Which variables of a suspended frame can still matter: those that it may read before it writes them.

Two protocols that differ in nothing else go on alike. This is the liveness analysis of compilers (Aho, Lam,
Sethi, Ullman, "Compilers", 2nd ed., 9.2.5), over CPython's bytecode.
"""

from __future__ import annotations

import dis
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import CodeType

__all__ = ["live"]

_ENDS = {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"}
_GOES_ON_ELSEWHERE = {"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"}


@cache
def live(code: CodeType, at: int) -> frozenset[str]:
    """Return the names that matter to a frame of ``code`` that is suspended at the offset ``at``.

    All of them where that can't be told: before Python 3.11, for variables that functions share, and within
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
