"""From a name to what it is: its role, its identity, and whether a plain write to it is a create.

Writers never ask for a create: they open a name and write. So the name decides, by the grammars of the table
formats, and by the user's own patterns. No request is sent here; where a name needs evidence beside it, the
answer says which, and the door looks.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from putifabsent.backends.base import STATE_FOLDER
from putifabsent.errors import ConfigError
from putifabsent.shim.formats import delta, hudi, iceberg, paimon, spark
from putifabsent.shim.names import Enforced, Name, Rule, is_state, nameless, ordinary

Grammar: TypeAlias = Callable[[str, str, str], Name | None]
"""``classify`` of one format: takes a full name, its folder and its last component."""

# Hudi and Delta come first: whatever lies in their folders is theirs.
_FORMATS = (hudi, delta, iceberg, paimon, spark)

GRAMMARS: dict[str, Grammar] = {module.FORMAT: module.classify for module in _FORMATS}
"""Each format's grammar, in the order in which they are tried."""

RULES = {module.FORMAT: tuple(Rule(*row) for row in module.RULES) for module in _FORMATS}
"""Each format's grammar, for people."""

ENFORCED: dict[str, Enforced] = {module.FORMAT: module.ENFORCED for module in _FORMATS}
"""What of each format a store's own policy can see to."""

_ALL = tuple(GRAMMARS)
_EXAMPLES = tuple({rule.example.rpartition("/")[2]: None for rules in RULES.values() for rule in rules})
# What each format guards, and the steps of Hudi's instants, of which a ledger may have to hear. They match
# full names, maybe others too, and stay within what Java's regular expressions mean alike.
_PATTERNS = {module.FORMAT: nameless("|".join(module.PATTERNS)) for module in _FORMATS}
_STATE = rf"(?:.*/)?{re.escape(STATE_FOLDER)}(?:/.*)?"
_AUTO = "auto"
_NONE = "none"
_DIGITS = frozenset("0123456789")
_UNDERSCORES = 2
# Of a bucket's policy: how many bytes S3 takes, and what is special in it.
_LARGEST = 20 * 1024
_SPECIAL = re.compile(r"[*?$]")
# What is special in a glob's component: a star, a question mark, a set (which may begin with a bracket).
_PIECES = re.compile(r"(\*|\?|\[!?\][^\]]*\]|\[!?[^\]]+\])")


@dataclass(frozen=True, slots=True, init=False)
class Policy:
    """Says what each name is. Equal options make equal policies; they pickle and hash.

    ``formats`` is ``"auto"``: every format's names, where other programs use a name as well only with
    evidence beside it; or one or more formats: only theirs, without asking for evidence; or ``"none"`` or an
    empty list: no format's, only ``guard``.

    ``guard`` are patterns of more names, matched against the full name without its protocol: ``*`` and ``?``
    stay within a component, ``[...]`` is one character of a set, a component ``**`` is any number of folders,
    and ``x/`` is all that lies in ``x``. A pattern without ``/`` before its end is looked for in every
    folder, as in a ``.gitignore``. What matches is guarded whatever lies beside it, with the role ``other``
    and its own name for its identity; only where a format guards it without evidence, its format's answer
    stands.

    ``ConfigError``: a format is unknown (it says the nearest one), or a pattern can't be matched.
    """

    formats: tuple[str, ...]
    guard: tuple[str, ...]
    # Whether names that other programs use as well are guarded only with evidence. What speaks against a name
    # is looked for all the same.
    asks_evidence: bool
    _guarded: re.Pattern[str] | None = field(compare=False, repr=False)

    def __init__(self, formats: str | Sequence[str] = _AUTO, guard: str | Sequence[str] = ()) -> None:
        chosen = _chosen(formats)
        patterns = _strings("guard", guard if not isinstance(guard, str) else [guard])
        known = tuple(name for name in GRAMMARS if chosen is None or name in chosen)
        put = object.__setattr__
        put(self, "formats", known)
        put(self, "guard", patterns)
        put(self, "asks_evidence", chosen is None)
        put(self, "_guarded", _compiled(patterns) if patterns else None)

    def classify(self, path: str) -> Name:
        """Say what a name is, as the wrapped filesystem says it, without protocol and trailing slash."""
        name = _recognise(path, self.formats)
        if name is None and self.formats != _ALL and (of_another := _recognise(path, _ALL)) is not None:
            name = of_another.unproven()
        if name is not None and not self.asks_evidence:
            name = name._replace(evidence=())  # its mount has named the format
        if (
            self._guarded is not None
            and (name is None or name.depends or not name.guarded)
            and self._guarded.fullmatch(path)
            and not is_state(path)
        ):
            if name is not None and name.guarded and not name.evidence:
                return name._replace(unless=())
            return (name.unproven() if name else ordinary(path))._replace(guarded=True)
        return name or ordinary(path)

    @property
    def pattern(self) -> str:
        """A regular expression that matches all of a name that may be guarded, or a step of an instant.

        It may match others. Java understands it as Python does. Nobody need ask about a name that it does not
        match: writing, renaming or removing that is the wrapped filesystem's alone.
        """
        own = [] if self._guarded is None else [self._guarded.pattern]
        return f"(?s:{'|'.join([*(_PATTERNS[name] for name in self.formats), _STATE, *own])})"

    @staticmethod
    @lru_cache(maxsize=4096)
    def states(folder: str) -> tuple[str, ...]:
        """Return where else than in ``folder`` itself the shim may keep what it knows of names in it.

        State folders, of the tables that ``folder`` may be a part of; nothing for most folders.
        """
        # A grammar knows names, not folders: it classifies one name of each kind.
        names = (_recognise(f"{folder}/{last}", _ALL) for last in _EXAMPLES)
        states = {name.state: None for name in names if name is not None}
        return tuple(state for state in states if state != f"{folder}/{STATE_FOLDER}")


@lru_cache(maxsize=1 << 14)  # listings name the same files again and again
def _recognise(path: str, formats: tuple[str, ...]) -> Name | None:
    """Return what the first of ``formats`` that knows a name says of it, or None.

    The first component is never taken for a part of a table: it is a bucket, a container, or the root.
    """
    cut = path.rfind("/")
    if cut < 0:
        return None
    last = path[cut + 1 :]
    candidates = _candidates(path, path[path.rfind("/", 0, cut) + 1 : cut], last)
    if not candidates or is_state(path):
        return None
    folder = path[:cut]
    for each in candidates:
        if each in formats and (name := GRAMMARS[each](path, folder, last)) is not None:
            return name
    return None


def _candidates(path: str, kind: str, last: str) -> list[str]:
    """Return the formats that may know a name, in the order of :data:`GRAMMARS`: most names, none does."""
    first = last[:1]
    # Hudi's log files begin with a dot, and its base files have two underscores.
    is_hudis = first == "." or last.count("_") == _UNDERSCORES or "/.hoodie/" in path
    found = []
    if kind in iceberg.FOLDERS:
        found.append(iceberg.FORMAT)
    if kind in paimon.FOLDERS:
        found.append(paimon.FORMAT)
    # Batches of sources begin with a digit.
    if kind in spark.FOLDERS or last in spark.LASTS or first in _DIGITS:
        found.append(spark.FORMAT)
    # What else lies below a log is nobody's: what is kept about it lies beside it, and must for good.
    if "/_delta_log/" in path and (kind in delta.FOLDERS or is_hudis or found):
        found.insert(0, delta.FORMAT)
    return [hudi.FORMAT, *found] if is_hudis else found


def _strings(option: str, given: object) -> tuple[str, ...]:
    values = tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(value, str) for value in values):
        raise ConfigError(f"{option}={given!r}: say one string, or a list of them")
    return values


def _chosen(formats: str | Sequence[str]) -> frozenset[str] | None:
    """Return the formats that a mount names, or None where it leaves them to the names and the evidence."""
    listed = _strings("formats", formats.split(",") if isinstance(formats, str) else formats)
    names = [name.strip().lower() for name in listed]
    if names == [_AUTO]:
        return None
    if names == [_NONE]:
        return frozenset()
    for name in names:
        if name in GRAMMARS:
            continue
        if name in (_AUTO, _NONE):
            raise ConfigError(f"formats={name!r} stands alone: say either it or the formats")
        words = (*GRAMMARS, _AUTO, _NONE)
        near = difflib.get_close_matches(name, words, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(words)}"
        raise ConfigError(f"unknown format {name!r}: {hint}")
    return frozenset(names)


def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    expressions = "|".join(_expression(pattern) for pattern in patterns)
    try:
        return re.compile(f"/?(?:{expressions})", re.DOTALL)
    except re.error as error:
        raise ConfigError(f"guard={patterns!r} can't be matched: {error.msg}") from error


def _expression(pattern: str) -> str:
    """Translate one glob to a regular expression for full names without a leading slash."""
    if "://" in pattern:
        raise ConfigError(f"the pattern {pattern!r} has a protocol: say the names without it")
    parts = pattern.removeprefix("/").split("/")
    if not parts[-1]:
        parts[-1] = "**"  # as in a .gitignore: a folder is all that lies in it
    if not all(parts) or pattern in ("", "/"):
        raise ConfigError(f"the pattern {pattern!r} has an empty component: it matches no name")
    if "/" not in pattern.removesuffix("/"):
        parts.insert(0, "**")
    *above, last = parts
    folders = "".join("(?:.*/)?" if part == "**" else _component(part, pattern) + "/" for part in above)
    return folders + (".+" if last == "**" else _component(last, pattern))


def _component(part: str, pattern: str) -> str:
    if "**" in part:
        raise ConfigError(f"the pattern {pattern!r} has '**' inside a component: it stands for whole folders")
    return "".join(_piece(piece) for piece in _PIECES.split(part))


def _piece(piece: str) -> str:
    if piece == "*":
        return "[^/]*"
    if piece == "?":
        return "[^/]"
    if _PIECES.fullmatch(piece):
        negated = piece[1] == "!" and piece != "[!]"
        members = re.sub(r"[\\\[\]&~|^]", r"\\\g<0>", piece[1 + negated : -1])
        return f"(?!/)[{'^' * negated}{members}]"
    return re.escape(piece)


def bucket_policy(place: str, formats: Iterable[str]) -> dict[str, Any]:
    """Return the S3 bucket policy that has the store itself refuse an unconditional put to a guarded name.

    It is for the tables in a folder and below it: a bucket, or ``lake/warehouse``. Reference: the S3 user
    guide, "Enforce conditional writes on Amazon S3 buckets". ``ConfigError``: no format is named, or S3 takes
    no policy as large as this one.
    """
    # What is special in a policy is escaped so.
    folder = _SPECIAL.sub(lambda found: f"${{{found[0]}}}", place.strip("/"))
    resources = [
        f"arn:aws:s3:::{folder}/{below}{pattern}"
        for each in formats
        for pattern in ENFORCED[each].patterns
        for below in ("", "*/")
    ]
    if not resources:
        raise ConfigError(f"name the formats of the tables: {', '.join(ENFORCED)}")
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "GuardedNamesAreCreatedOnce",
                "Effect": "Deny",
                "Principal": "*",
                "Action": "s3:PutObject",
                "Resource": resources,
                "Condition": {
                    "Null": {"s3:if-none-match": "true"},
                    "Bool": {"s3:ObjectCreationOperation": "true"},
                },
            }
        ],
    }
    size = len(json.dumps(policy, separators=(",", ":")).encode())
    if size > _LARGEST:
        raise ConfigError(
            f"the policy has {size} bytes, and S3 takes {_LARGEST}: name fewer formats, or a shorter prefix"
        )
    return policy
