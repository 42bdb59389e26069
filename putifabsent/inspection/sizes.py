"""Compares data files with the sizes that their commits say; the listing has said how large they are.

What is too small may be whole all the same: some writers have written down too much, as Iceberg's before 0.11
(apache/iceberg#1980). So its end is looked at. What is too large is not cut off: clients that encrypt files
make them larger behind the format's back.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.inspection.findings import Finding, Kind, found, many

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_END = 4
_ENDS = {"parquet": (b"PAR1", b"PARE"), "orc": (b"ORC",), "puffin": (b"PFA1",)}
"""How files end, or begin to, four bytes before their end; those of other kinds may end anyhow."""
_MOST = 256
"""So many ends are looked at."""
_WHAT = {
    Kind.EMPTY: "has no bytes",
    Kind.UNREADABLE: "is cut off",
    Kind.RESIZED: "has another size than its commit says",
}


class Recorded(NamedTuple):
    """What a commit says of a file."""

    size: int  # bytes; 0: it doesn't say
    moment: str  # the commit, as pictures mark it; empty: that is not known


def odd_sizes(
    fs: Any, recorded: Mapping[str, Recorded], there: Mapping[str, int | None], *, appended: bool = False
) -> Iterator[Finding]:
    """Find files whose sizes are not what was ``recorded``, by their full names.

    ``appended``: files grow after that, and what was recorded is what the store had said; so none is ever
    smaller.
    """
    small: list[str] = []
    odd: dict[Kind, list[str]] = defaultdict(list)
    for path, (size, _) in recorded.items():
        is_now = there.get(path) if size else None
        if is_now is None:
            continue
        if not is_now:
            odd[Kind.EMPTY].append(path)
        elif is_now < size:
            small.append(path)
        elif is_now > size and not appended:
            odd[Kind.RESIZED].append(path)
    torn = set(small) if appended else _torn(fs, small, there)
    for path in small:
        odd[Kind.UNREADABLE if path in torn else Kind.RESIZED].append(path)
    for kind, paths in odd.items():
        first, more = paths[0], f", and so {many(paths[1:], 'other')}" if paths[1:] else ""
        sizes = f"{there[first]:,} bytes, not {recorded[first].size:,}"
        moments = dict.fromkeys(recorded[each].moment for each in paths)
        yield found(
            kind,
            paths,
            f"data file {first} {_WHAT[kind]}: {sizes}{more}",
            moments=tuple(each for each in moments if each),
        )


def _torn(fs: Any, paths: Collection[str], there: Mapping[str, int | None]) -> set[str]:
    """Return files that lack their end, as far as these can be read and are not too many."""
    known = [path for path in paths if path.rpartition(".")[2] in _ENDS][:_MOST]
    ends = [there[path] or 0 for path in known]
    starts = [max(end - _END, 0) for end in ends]
    read = fs.cat_ranges(known, starts, ends, on_error="return") if known else ()
    return {
        path
        for path, end in zip(known, read, strict=True)
        if isinstance(end, bytes) and not end.startswith(_ENDS[path.rpartition(".")[2]])
    }
