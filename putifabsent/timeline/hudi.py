"""Hudi's timelines, from names and the history; and whether instants went to their states by valid steps."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from itertools import chain
from typing import TYPE_CHECKING, Any

from putifabsent.errors import ConfigError
from putifabsent.shim.formats.hudi import SAVEPOINT, completed_as, instant_in
from putifabsent.shim.formats.hudi_layout import (
    PROPERTIES,
    READ_IN_TURN,
    Layout,
    is_whole,
    layout_of,
    that_counts,
)
from putifabsent.shim.formats.hudi_steps import Finding, Seen, State, check
from putifabsent.timeline import hudi_history
from putifabsent.timeline.files import (
    Content,
    Listed,
    Problems,
    Trouble,
    below,
    content_of,
    listed,
    read,
    report,
    report_all,
)
from putifabsent.timeline.reading import (
    Details,
    Instant,
    Order,
    Part,
    Raw,
    StateFile,
    Stretch,
    Timeline,
    Whole,
    stretches,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from putifabsent.timeline.hudi_history import Manifest


class HudiTimeline(Timeline[Instant]):
    """The timeline of a Hudi table, of version 6, 8 or 9; or of the metadata table of one.

    ``layout`` is what ``hoodie.properties`` says. ``ConfigError``: there is no Hudi table, or one of a
    version that is not known.
    """

    format = "hudi"
    COLUMNS = Instant.COLUMNS

    def __init__(self, fs: Any, root: str) -> None:
        super().__init__(fs, root)
        self.layout = self._layout()
        self._active = below(root, self.layout.timeline)
        self._history = below(root, self.layout.history)

    def _layout(self) -> Layout:
        found: dict[str, bytes] = {}
        for last in READ_IN_TURN:
            path = below(self.root, last)
            with suppress(FileNotFoundError, NotADirectoryError):
                found[path] = self.fs.cat_file(path)
                if is_whole(found[path]):
                    break
        counting = that_counts(found)
        if counting is None or not found[counting].strip():
            path = below(self.root, PROPERTIES[0])
            raise ConfigError(f"there is no Hudi table at {self.root!r}: {path} is not there, or empty")
        return layout_of(found[counting], counting)

    def active(self, *, order: Order = "requested", problems: Problems | None = None) -> Iterator[Instant]:
        """Return the instants that are in the timeline's folder, each in its newest state."""
        found = self._active_of(listed(self.fs, self._active))
        return iter(sorted(found, key=lambda each: each.key(order)))

    def history(
        self, *, order: Order = "requested", raw: bool = False, problems: Problems | None = None
    ) -> Iterator[Instant]:
        """Return the instants that are archived.

        In the ``order`` in which they were requested they come while the files are read; else all are read
        first. With ``raw`` their plans and metadata are read, too, for :meth:`details`: most of its bytes.
        """
        found: Iterable[Instant]
        if self.layout.in_levels:
            files = hudi_history.timed(self.fs, self.manifest(problems).files)
            found = hudi_history.merged(self.fs, files, raw=raw, problems=problems)
            if order == "requested":
                return iter(found)
        else:
            found = hudi_history.in_logs(self.fs, self._history, raw=raw, problems=problems)
        return iter(sorted(found, key=lambda each: each.key(order)))

    def manifest(self, problems: Problems | None = None) -> Manifest:
        """Return what the history consists of; of table version 6, which has no manifests: nothing."""
        if not self.layout.in_levels:
            return hudi_history.Manifest(0)
        return hudi_history.manifest(self.fs, self._history, problems)

    def _cut(self, whole: Whole, most: int | None, problems: Problems | None) -> Sequence[Part]:
        """Cut a history in levels by time; only their bytes say which instants version 6's log files have."""
        if not self.layout.in_levels:
            return super()._cut(whole, most, problems)
        # In this order: what is archived in between is in both.
        there = listed(self.fs, self._active) if whole.active else []
        files = self.manifest(problems).files if whole.history else ()
        known = frozenset(each.identity for each in active_instants(there))
        return stretches(hudi_history.timed(self.fs, files), most, there, known)

    def records_in(self, part: Part, *, problems: Problems | None = None) -> Iterator[Instant]:
        """Return the instants of a part: first what is active."""
        if isinstance(part, Stretch):
            return chain(self._active_of(part.active), self._archived_in(part, problems))
        return super().records_in(part, problems=problems)

    def _active_of(self, there: Iterable[Listed]) -> Iterator[Instant]:
        return map(self._stamped, active_instants(there))

    def _archived_in(self, part: Stretch, problems: Problems | None) -> Iterator[Instant]:
        found: Problems | None = None if problems is None else []
        for each in hudi_history.merged(self.fs, part.files, raw=False, problems=found):
            if part.has(each.time) and each.identity not in part.known:
                yield each
        # A file that reaches into several parts is reported by the first of them.
        own = {file.path for file in part.files if part.has(file.first)}
        if problems is not None:
            report_all(problems, [each for each in found or () if each.path in own])

    def details(self, record: Instant, problems: Problems | None = None) -> Details:
        """Return what was written when an instant was requested, and when it was completed."""
        if not record.archived:
            return next(self.details_of([record], problems))
        raw = record.raw or self._raw(record, problems)
        if not isinstance(raw, Raw):
            return raw or Details(None, None)
        where = f"{record.source}: instant {record.time}"
        return Details(*(content_of(each, where, problems) for each in raw))

    def details_of(self, active: Sequence[Instant], problems: Problems | None = None) -> Iterator[Details]:
        """Return the :meth:`details` of each of some active instants, whose files are read at once."""
        # Inflight files repeat, or anticipate, what the others say.
        files = (file for each in active for file in each.files if file.state is not State.INFLIGHT)
        written = dict(read(self.fs, [file.path for file in files if file.size]))
        for each in active:
            contents: dict[State, Content | None] = {}
            for file in each.files:
                if file.path in written:
                    contents[file.state] = content_of(written[file.path], file.path, problems)
                elif file.size and file.state is not State.INFLIGHT:
                    reason = "it is gone: its instant has gone on, was archived, or was rolled back"
                    report(problems, file.path, Trouble.MISSING, reason)
                elif file.state is State.COMPLETED:
                    reason = "it is empty: whoever completed it has died while writing"
                    report(problems, file.path, Trouble.EMPTY, reason)
            yield Details(contents.get(State.REQUESTED), contents.get(State.COMPLETED))

    def _raw(self, record: Instant, problems: Problems | None) -> Raw | Details | None:
        """Read one record of the history again, with all that it says."""
        found: Iterable[Instant]
        if self.layout.in_levels:
            files = [file for file in self.manifest(problems).files if file.path == record.source]
            found = chain.from_iterable(
                hudi_history.instants_in(self.fs, file, raw=True, problems=problems) for file in files
            )
        else:
            found = hudi_history.in_log(self.fs, record.source, raw=True, problems=problems)
        for each in found:
            if each.identity == record.identity:
                return each.raw
        reason = f"it has no instant {record.time} any more: read the history again"
        report(problems, record.source, Trouble.MISSING, reason)
        return None

    def _stamped(self, instant: Instant) -> Instant:
        """Say when an instant was completed whose name doesn't: when its file was written."""
        if instant.state is not State.COMPLETED or instant.completion is not None:
            return instant
        when: datetime | None = None
        with suppress(FileNotFoundError, NotImplementedError):
            when = self.fs.modified(instant.path)
        if when is None:
            return replace(instant, stamped=True)
        local = when.astimezone(timezone.utc if self.layout.zone == "UTC" else None)
        text = f"{local:%Y%m%d%H%M%S}{local.microsecond // 1000:03d}"
        return replace(instant, completion=text, stamped=True)


def active_instants(found: Iterable[Listed]) -> Iterator[Instant]:
    """Return the instants that the names in a timeline's folder show, each in its newest state, in no order.

    Files of other names are none's. A time under which two instants were completed gives two; each has the
    files of the states before.
    """
    files: dict[tuple[str, str, str], list[StateFile]] = defaultdict(list)
    completions: dict[str, str | None] = {}
    for each in found:
        if (step := instant_in(each.last)) is not None:
            completions[each.path] = step.completion
            # A savepoint of T is another instant than the commit that it saves.
            key = (step.instant, step.salt or each.salt, completed_as(step.action))
            files[key].append(StateFile(State(step.state), step.action or "commit", each.path, each.size))
    for (time, salt, _), there in files.items():
        there.sort(key=lambda file: (file.state.rank, file.path))
        pending = [file for file in there if file.state is not State.COMPLETED]
        completed = there[len(pending) :]
        before = pending if completed else pending[:-1]
        for file in completed or pending[-1:]:
            states = (*before, file)
            began = states[0].action if len(states) > 1 or not completed else ""
            yield Instant(time, file.action, file.state, completions[file.path], salt, began, files=states)


def check_steps(instants: Iterable[Instant]) -> list[Finding]:
    """Return what is wrong with the steps of instants, by what is left of them.

    They are one table's, in any order. A listing shows that a state was reached, not how often. What is
    completed may have lost its earlier states, to an archiver that is at work or has died; so only what is
    pending must have them.
    """
    sequence: list[Seen] = []
    completed = set()
    for each in sorted(instants, key=lambda each: each.key("requested")):
        steps = list(seen_in(each))
        if each.state is State.COMPLETED:
            once = each.identity[:-1]
            # The same T was completed once more: it has not gone all the way again.
            sequence += steps[-1:] if once in completed else steps
            completed.add(once)
        else:
            sequence += steps
    return check(sequence)


def seen_in(instant: Instant) -> Iterator[Seen]:
    """Return the states that an instant must have gone through, in their order."""
    files = {file.state: file for file in instant.files}
    is_completed = instant.state is State.COMPLETED
    for state in (State.REQUESTED, State.INFLIGHT):
        file = files.get(state)
        must_be = is_completed and (state is State.INFLIGHT or instant.action != SAVEPOINT)
        if must_be or (file and not is_completed):
            action = file.action if file else instant.began or instant.action
            yield Seen(instant.time, action, state, instant.salt, name=file.path if file else "")
    if is_completed:
        name = instant.files[-1].path if instant.files else instant.source
        completion = None if instant.stamped else instant.completion
        yield Seen(instant.time, instant.action, State.COMPLETED, instant.salt, completion, name=name)
