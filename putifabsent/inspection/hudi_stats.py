"""What the instants of a Hudi table say of its files: decoded once, and kept small."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from putifabsent.shim.formats.hudi_files import (
    Removed,
    inputs_of,
    is_service,
    removed_by,
    replaced_by,
    saved_by,
    undone_by,
    writes_in,
)
from putifabsent.timeline import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from putifabsent.shim.formats.hudi_files import Group, Write
    from putifabsent.timeline import Details, HudiTimeline, Instant, Problems

__all__ = ["WRITING", "CommitStats", "stats_of", "undone_by_whom"]

WRITING = frozenset(("commit", "deltacommit", "replacecommit"))
"""What writes slices, as it is called when it is completed."""

_NOTHING = Removed(frozenset(), frozenset())


@dataclass(frozen=True, slots=True)
class CommitStats:
    """What an instant says that it wrote, replaced and removed.

    Attributes
    ----------
    instant
        Itself.
    legible
        Whether what it says could be read.
    writes
        What it wrote.
    replaced
        Which file groups it replaced.
    inputs
        Of a clustering: the files that it was to read.
    is_service
        Whether it is a compaction or a clustering, which is taken back, and performed again.
    removed
        What it has removed, or was about to.
    undone, logs
        Of a rollback or a restore: the instants that it took back, and log files that it wrote to do so.
    saved
        Of a savepoint: the files that it keeps.
    """

    instant: Instant
    legible: bool
    writes: tuple[Write, ...] = ()
    replaced: frozenset[Group] = frozenset()
    inputs: frozenset[str] | None = None
    is_service: bool = False
    removed: Removed = _NOTHING
    undone: frozenset[str] = frozenset()
    logs: frozenset[str] = frozenset()
    saved: frozenset[str] = frozenset()

    @property
    def has_written(self) -> bool:
        """Whether it is completed, and of those that write slices."""
        return self.instant.state is State.COMPLETED and self.instant.action in WRITING


def stats_of(timeline: HudiTimeline, problems: Problems) -> list[CommitStats]:
    """Return what all instants say, by when they were requested; what can't be read is added to problems."""
    active = list(timeline.active(problems=problems))
    there = {each.identity for each in active}
    archived = (each for each in timeline.history(raw=True, problems=problems) if each.identity not in there)
    found = [*_stats(timeline, active, problems), *_stats(timeline, archived, problems)]
    return sorted(found, key=lambda each: each.instant.key("requested"))


def _stats(
    timeline: HudiTimeline, instants: Iterator[Instant] | list[Instant], problems: Problems
) -> Iterator[CommitStats]:
    for each in instants:
        details = timeline.details(each, problems)
        yield _compact(replace(each, raw=None), details)


def _compact(instant: Instant, details: Details) -> CommitStats:
    plan = details.plan.value if details.plan else {}
    metadata = details.metadata.value if details.metadata else {}
    is_completed = instant.state is State.COMPLETED
    writes = instant.action in WRITING and is_completed
    undone, logs = undone_by(metadata)
    return CommitStats(
        instant,
        legible=details.metadata is not None or not is_completed,
        writes=tuple(writes_in(metadata)) if writes else (),
        replaced=replaced_by(metadata) if writes else frozenset(),
        inputs=inputs_of(plan),
        is_service=is_service(plan),
        removed=removed_by(plan, metadata),
        undone=undone,
        logs=logs,
        saved=saved_by(metadata) if instant.action == "savepoint" and is_completed else frozenset(),
    )


def undone_by_whom(stats: Sequence[CommitStats]) -> dict[str, Instant]:
    """Return the instants that completed rollbacks and restores say that they took back, and which did so."""
    return {
        time: each.instant for each in stats if each.instant.state is State.COMPLETED for time in each.undone
    }
