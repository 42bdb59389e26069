"""Spark's names: the logs of Structured Streaming.

A query's checkpoint holds ``metadata`` (its id), ``offsets/N`` (what batch N reads), ``commits/N`` (batch N
is done) and ``sources/<source>/N`` (what a source has seen); a file sink keeps ``_spark_metadata/N`` beside
its data. All are written to a temporary file and renamed, and never overwritten. Logs of files write every
tenth entry as ``N.compact``. How often is each writer's own setting, so two writers can name one ``N``
differently. Readers take their interval from the ``.compact`` names they find; so that name wins a tie.

``_spark_metadata`` is Spark's own word. The others are not, and ask for evidence:

``offsets/N``, ``sources/<source>/N``
    The checkpoint's ``metadata``: a query writes it when it starts, before its first batch.
``commits/N``
    ``offsets/``: the offsets of N are written before N is done.
``metadata``
    ``offsets/``. A query's first write of it has nothing beside it, so it is *not* guarded unless the mount
    names the format. Two queries that start on one new checkpoint at once can then both write it; they still
    meet at ``offsets/0``, where one of them fails.

What lies in ``state/`` is left alone: a batch that runs again writes its state again.
"""

from __future__ import annotations

import re

from putifabsent.shim.names import Enforced, Name, Role, Series

FORMAT = "spark"
FIRST = 0
FOLDERS = frozenset({"offsets", "commits", "_spark_metadata"})
LASTS = frozenset({"metadata"})

_BATCH = re.compile(r"(?P<n>0|[1-9][0-9]{0,18})")
_FILE_BATCH = re.compile(r"(?P<n>0|[1-9][0-9]{0,18})(?:\.compact)?")
PATTERNS = (
    rf".*/(?:offsets|commits)/{_BATCH.pattern}",
    rf".*/(?:_spark_metadata|sources/[^/]+)/{_FILE_BATCH.pattern}",
    r".*/metadata",
)


def classify(path: str, folder: str, last: str) -> Name | None:
    """Return what Spark says of a name, or None if it is no entry of a streaming log."""
    root, inside, log = folder.rpartition("/")
    if last == "metadata" and log != "_metadata":  # a stateful operator's own lies in state/<n>/_metadata/
        return Name(path, Role.MARKER, FORMAT, folder, path, guarded=True, evidence=(f"{folder}/offsets",))
    if not inside:
        return None
    if log == "_spark_metadata":
        return _entry(path, folder, last, root, (), of_files=True)
    if log == "offsets":
        return _entry(path, folder, last, root, (f"{root}/metadata",))
    if log == "commits":
        return _entry(path, folder, last, root, (f"{root}/offsets",))
    if root.endswith("/sources"):
        root = root[: -len("/sources")]
        return _entry(path, folder, last, root, (f"{root}/metadata",), of_files=True)
    return None


def _entry(
    path: str, folder: str, last: str, root: str, evidence: tuple[str, ...], *, of_files: bool = False
) -> Name | None:
    pattern = _FILE_BATCH if of_files else _BATCH
    match = pattern.fullmatch(last)
    if match is None:
        return None
    number = int(match["n"])
    plain, before = f"{folder}/{number}", f"{folder}/{number - 1}"
    predecessors = ((before, f"{before}.compact") if of_files else (before,)) if number > FIRST else ()
    # A sink logs every batch. Under asynchronous progress tracking, a query logs only some; and what a source
    # counts is its own business.
    series = Series(number, FIRST, predecessors, pattern, has_gaps=bool(evidence))
    name = Name(path, Role.LOG_ENTRY, FORMAT, root, plain, guarded=True, evidence=evidence, series=series)
    if not of_files:
        return name
    is_compact = path != plain
    return name._replace(aliases=(plain if is_compact else f"{plain}.compact",), rank=0 if is_compact else 1)


RULES = (
    ("<checkpoint>/offsets/<N>", Role.LOG_ENTRY, True, "the name",
     "bucket/checkpoint/offsets/3", "with <checkpoint>/metadata beside it"),
    ("<checkpoint>/commits/<N>", Role.LOG_ENTRY, True, "the name",
     "bucket/checkpoint/commits/3", "with <checkpoint>/offsets/ beside it"),
    ("<checkpoint>/sources/<source>/<N>[.compact]", Role.LOG_ENTRY, True, "N",
     "bucket/checkpoint/sources/0/3", "with <checkpoint>/metadata beside it"),
    ("<checkpoint>/metadata", Role.MARKER, True, "the name",
     "bucket/checkpoint/metadata",
     "with <checkpoint>/offsets/ beside it; so not the first one, unless the mount names the format"),
    ("_spark_metadata/<N>", Role.LOG_ENTRY, True, "N",
     "bucket/out/_spark_metadata/8", ""),
    ("_spark_metadata/<N>.compact", Role.LOG_ENTRY, True, "N",
     "bucket/out/_spark_metadata/9.compact", "wins a tie against the plain name of N"),
)  # fmt: skip

ENFORCED = Enforced(
    # By their digit: temporary files, which lie beside them, begin with a dot.
    tuple(
        f"{folder}/{digit}*"
        for folder in ("offsets", "commits", "sources/*", "_spark_metadata")
        for digit in range(10)
    ),
    "A checkpoint's own `metadata` is left out: the state of Spark's operators has files of that name, too. "
    "Other programs' offsets/0 and the like are refused as well.",
)
