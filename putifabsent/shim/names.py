"""What a name is: the words in which the policy answers, and the doors and protocols ask."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from putifabsent.backends.base import STATE_FOLDER

_HUDI = ".hoodie"
_GROUP_NAME = re.compile(r"\(\?P<[a-z]+>")


class Role(str, Enum):
    """What a name is to its format."""

    INSTANT = "instant"  # a step of a Hudi timeline: requested, inflight or completed
    SLICE = "slice"  # a Hudi data file, which carries the instant that wrote it
    SNAPSHOT = "snapshot"  # a numbered whole state: a Paimon snapshot or schema, an Iceberg metadata file
    LOG_ENTRY = "log_entry"  # a numbered step of a log: a Delta commit, a Spark batch
    POINTER = "pointer"  # says where the newest state is, and is overwritten: ``LATEST``, a version hint
    MARKER = "marker"  # says that something is there, or under way: a heartbeat, a query's id
    OTHER = "other"  # everything else


@dataclass(frozen=True, slots=True)
class Series:
    """A numbered name's place in its series, for names that expire."""

    number: int
    first: int  # the number that the format starts with
    # The full names under which ``number - 1`` may lie, the likeliest first; empty for the first.
    predecessors: tuple[str, ...]
    pattern: re.Pattern[str]  # matches the last component of each sibling; its group ``n`` is the number
    # Whether the format itself leaves numbers out. Where it does not, a missing number below others has been
    # there, and has expired; numbers expire in ascending order.
    has_gaps: bool = False

    @property
    def is_at_first(self) -> bool:
        return self.number == self.first

    def number_of(self, name: str) -> int | None:
        """Return the number of a sibling (a full name or its last component), or None for another file."""
        return number_by(self.pattern, name)


class Enforced(NamedTuple):
    """What a store's own policy can see to: that nobody puts these names without a condition."""

    # Names from a table's root, in the wildcards of such policies: ``?`` is one character, ``*`` any number,
    # slashes too. None matches a name that its format overwrites, or that is published by a copy.
    patterns: tuple[str, ...]
    beyond: str  # which of the format's names they leave out, and why: a sentence


class Name(NamedTuple):
    """What the policy says of one name, from the name alone."""

    path: str  # the name, as the wrapped filesystem says it
    role: Role  # what it is to its format
    # ``hudi``, ``paimon``, ``delta``, ``iceberg`` or ``spark``; None where no format knows the name, and for
    # names that only a pattern of the user's guards.
    format: str | None
    # The root of its table, or of its checkpoint; ``""`` when that is the root of the path itself, None where
    # the name does not show it.
    table: str | None
    identity: str  # what must be unique, written like a full name. It need not be one that anybody writes.
    # Whether a plain write to it is a create; where there is ``evidence``, only with evidence.
    guarded: bool
    # Files or folders one of which exists when the format's own writer writes this name; its grammar says
    # why, and which first names have none yet. The name is guarded only if one of them does: other programs
    # use such names too. Empty: none is needed.
    evidence: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()  # the other full names of this identity, in an order that all writers share
    series: Series | None = None
    # Where the name itself stands among its aliases in that order: 0 wins a tie against all of them.
    rank: int = 0
    # Files one of which exists where another format keeps this name, and overwrites it. The name is guarded
    # only if none of them does.
    unless: tuple[str, ...] = ()
    # Whether its format has commands that write it in place on purpose: over what is there, if the call says
    # so (Hadoop's ``overwrite``), and also where its number has expired. What commits it comes without that
    # flag, and where it has a number, by a rename.
    replaced: bool = False

    @property
    def depends(self) -> bool:
        """Whether what lies beside the name decides if it is guarded."""
        return bool(self.evidence or self.unless)

    @property
    def all_names(self) -> tuple[str, ...]:
        """The full names of this identity, its own among them, in the order that all of them share."""
        return (*self.aliases[: self.rank], self.path, *self.aliases[self.rank :])

    @property
    def canonical(self) -> str:
        """The name of this identity that wins a tie; all of its names agree on it."""
        return self.all_names[0]

    @property
    def state(self) -> str:
        """The folder for what the shim itself keeps about this name: a function of the name alone.

        It lies in the table's root where the name shows it (in Hudi's ``.hoodie/``), else beside the name.
        """
        if self.table is None:
            return f"{self.path.rpartition('/')[0]}/{STATE_FOLDER}"
        root = f"{self.table}/{_HUDI}" if self.format == "hudi" else self.table
        return f"{root}/{STATE_FOLDER}"

    def unproven(self) -> Name:
        """Return what it is where nothing says that it is its format's.

        What is kept of it lies where it would if that were so, and is about the same names: other mounts may
        know the format, and what shows it may come to be.
        """
        root = None if self.table is None else self.state.removesuffix(f"/{STATE_FOLDER}")
        identity = self.identity if self.aliases else self.path
        return Name(
            self.path, Role.OTHER, None, root, identity, guarded=False, aliases=self.aliases, rank=self.rank
        )


def is_state(path: str) -> bool:
    """Say whether a path is what the shim keeps for itself, at any depth."""
    return STATE_FOLDER in path and STATE_FOLDER in path.split("/")


def states_at(root: str) -> tuple[str, str]:
    """Return where the shim may keep what it knows of a table, by its root."""
    return f"{root}/{STATE_FOLDER}", f"{root}/{_HUDI}/{STATE_FOLDER}"


def number_by(pattern: re.Pattern[str], name: str) -> int | None:
    """Return the number ``n`` in a name, full or its last component, by its pattern; None: it has none."""
    match = pattern.fullmatch(name.rpartition("/")[2])
    return match and int(match["n"])


def nameless(pattern: str) -> str:
    """Return a pattern in which no group has a name: two may have one, and Java writes it otherwise."""
    return _GROUP_NAME.sub("(?:", pattern)


def ordinary(path: str) -> Name:
    """Return what nearly every name is: no format knows it, and it is not guarded."""
    return Name(path, Role.OTHER, None, None, path, guarded=False)


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a format's grammar, for people: the documentation and ``putifabsent explain`` print it."""

    pattern_text: str  # the names, with ``<placeholders>``, from the table's root
    role: Role  # what they are
    guarded: bool  # whether a plain write to them is a create
    identity_text: str  # what must be unique; ``the name`` mostly
    example: str  # a full name that this rule is about
    note: str  # the evidence needed, or why the name is left alone
