"""The control tower: who wants to begin a commit of Hudi's waits while another writes the same file groups.

Two commits that write one file group are both done, and then one of them is refused. So whoever is about to
begin one looks at the instants that other sessions have open: what they have declared, or else are expected
to write, beside what the asker is. Where that meets, the asker had better wait; when the other is completed,
rolled back, or shows no sign of life any more, it goes on, upon what the other has written. Those who wait
go in the order in which they came, as far as their sets meet.

It is advice alone. A wrong guess, a lost answer, a file that can't be read cost one conflict, or one wait;
which commits count is decided by the ledger, as ever. Nobody waits for its own session, whose threads it
can't tell apart, nor for table services that writers pass by.

What it reads: one listing of the queue. While another session has an instant open, one of the heartbeats,
each open instant's declaration once, and the last commits, each once.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from putifabsent.backends.base import Absent, Creation, Entry, Got, Listed
from putifabsent.fsspec_plugin.mount import Cache
from putifabsent.fsspec_plugin.queues import LIFELESS, Asker, Queues, Watch, queue_of
from putifabsent.shim.formats import hudi_sets
from putifabsent.shim.requests import Get, List, Protocol, read
from putifabsent.timeline.files import content_of

if TYPE_CHECKING:
    from putifabsent.shim.formats.hudi_sets import WriteSet
    from putifabsent.shim.ledger.book import Ledger
    from putifabsent.shim.ledger.facts import Completion, Opened, State

T = TypeVar("T")

_log = logging.getLogger(__name__)

_WRITE = frozenset({"commit", "deltacommit", "replacecommit"})
_CLUSTERS = frozenset({"clustering", "replacecommit"})
_WAITED_FOR = _WRITE | _CLUSTERS

_BETWEEN = {("commit", "inflight"): ""}
"""What stands between a pending instant's time and its state, where that is not its action."""

_NOTHING: tuple[WriteSet] = ({},)

_BY_GUESS = 120.0
"""Seconds for which a session waits of which nothing is known: it may write what nobody else does. So long,
too, others wait for an instant that does not say what it writes."""

_LONGEST_REST = 4.0
"""Seconds for which who has others before it, beside the next one, asks the store nothing: one for each."""

_LIFELESS = 120.0
"""Seconds without a heartbeat after which Hudi takes a writer for dead: an interval of 60, missed twice
(``hoodie.client.heartbeat.interval_in_ms``, ``hoodie.client.heartbeat.tolerable.misses``)."""


class Begins(NamedTuple):
    """What somebody is about to begin."""

    # Whether it is a clustering, whose plan may be of any file group; else it is a commit.
    clusters: bool = False
    commits: int = 0  # clusterings are planned after so many commits
    # Whether it is a commit that only inserts rows, so that it can't write over anybody's.
    inserts: bool = False


class Tower:
    """What one mount knows of tables' commits that are under way.

    ``clock`` tells seconds that only go on; with ``inserts`` only commits that insert rows wait.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, inserts: bool = False) -> None:
        self._clock = clock
        self._inserts = inserts
        self._watch = Watch(clock)
        self._queues = Queues(clock)
        self._written: Cache[tuple[str, str], tuple[WriteSet]] = Cache()
        self._declared: Cache[tuple[str, str, str], Mapping[str, Any]] = Cache()
        self._tries: Cache[tuple[str, str], dict[str, WriteSet]] = Cache()
        self._since: Cache[tuple[str, str, str], tuple[float, float]] = Cache()
        self._rests: Cache[Asker, float] = Cache()  # until when

    def rests(self, state: str, session: str, thread: str) -> bool:
        """Whether a thread has just heard that several are before it."""
        return self._clock() < self._rests.get(Asker(queue_of(state), session, thread), 0.0)

    def in_the_way(
        self, begins: Begins, ledger: Ledger, thread: str, creation: Creation
    ) -> Protocol[list[str]]:
        """Return whom a thread of the session of ``ledger``, just read, had better wait for, in words.

        If there is anybody, it has a place in the queue then, by ``creation``, and keeps it.
        """
        if self._inserts and not begins.inserts:
            return []
        if begins.clusters and not _is_due(ledger.state, begins.commits):
            return []
        try:
            return (yield from self._in_the_way(begins, ledger, thread, creation))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with advice, the turn is got without
            _log.debug("nobody is waited for in %s: %s", ledger.root, error)
            return []

    def _in_the_way(
        self, begins: Begins, ledger: Ledger, thread: str, creation: Creation
    ) -> Protocol[list[str]]:
        asker = Asker(queue_of(ledger.name.state), ledger.session, thread)
        self._forget_over(ledger)
        # A clustering may be of any file group: who waits for it would wait for all that it waits for.
        entries = [] if begins.clusters else (yield from self._queues.listed(asker.folder, asker))
        # Its own tell whether those in the queue may wait for this session itself.
        watched = {
            instant: opened
            for instant, opened in ledger.state.open.items()
            if (entries or opened.session != ledger.session) and opened.action in _WAITED_FOR
        }
        alive = (yield from self._alive(ledger, watched)) if watched else {}
        if not (alive or entries):
            return []
        mine, is_known = None, True
        if not begins.clusters:
            mine, is_known = yield from self._expected(ledger, ledger.session, alive)
        if not is_known and self._waited(ledger, thread) > _BY_GUESS:
            return []
        found = []
        for instant, opened in sorted(alive.items()):
            if opened.session == ledger.session:
                continue
            theirs = yield from self._wanted(ledger, instant, opened, alive)
            if hudi_sets.meet(mine, theirs):
                found.append(f"{instant} of session {opened.session}")
        if begins.clusters:
            return found
        before = yield from self._before(asker, ledger, mine, entries, alive)
        found += [f"session {each}, which came before" for each in before]
        if found:
            yield from self._queues.wait(asker, mine, entries, creation, ledger.state.number)
            self._rests.keep(asker, self._clock() + min(len(found) - 1, _LONGEST_REST))
        return found

    def _before(
        self, asker: Asker, ledger: Ledger, mine: WriteSet, entries: list[Entry], alive: Mapping[str, Opened]
    ) -> Protocol[list[str]]:
        """Return the sessions that came before, but those that may wait for what this one has open.

        Who came before all that it has open would wait for ever, if each commit began while the last is open.
        Yet that may be one that was given up, and is waited for: so not for long.
        """
        own = []
        for instant, each in alive.items():
            # Nobody waits for a clustering that is planned; and what is clustered waits for no commit.
            if each.session == ledger.session and not (yield from self._clusters(ledger, instant, each)):
                own.append(ledger.state.tokens.get(each.token, 0))
        if own and self._waited(ledger, asker.thread) > _BY_GUESS:
            return []
        return (yield from self._queues.ahead(asker, mine, entries, begun=min(own, default=None)))

    def _waited(self, ledger: Ledger, thread: str) -> float:
        """Return for how many seconds a thread has asked in vain, and again and again."""
        key, now = (ledger.root, ledger.session, thread), self._clock()
        since, last = self._since.get(key, (now, now))
        # Who has not asked for so long had given it up, and begins something else.
        since, _ = self._since.keep(key, (since if now - last <= LIFELESS else now, now))
        return now - since

    def leave(self, ledger: Ledger, thread: str, creation: Creation) -> Protocol[float | None]:
        """Leave the queue, if this thread is in it, and return for how many seconds it was."""
        self._since.pop((ledger.root, ledger.session, thread), None)
        asker = Asker(queue_of(ledger.name.state), ledger.session, thread)
        self._rests.pop(asker, None)
        return (yield from self._queues.leave(asker, creation))

    def learn(self, ledger: Ledger, turn: int) -> Protocol[None]:
        """Keep what this session was about to complete in a turn, of this number, and did not.

        It was refused, and may be rolled back by others before it tries again.
        """
        tokens = ledger.state.tokens
        begun_in_it = {
            instant for instant, opened in ledger.state.open.items() if tokens.get(opened.token, 0) > turn
        }
        try:
            self._forget_over(ledger)
            yield from self._tried(ledger, ledger.session, begun_in_it, None)
        except Exception as error:  # noqa: BLE001 - it costs a conflict
            _log.debug("what was refused in %s is not known: %s", ledger.root, error)

    def _alive(self, ledger: Ledger, others: Mapping[str, Opened]) -> Protocol[dict[str, Opened]]:
        """Return those whose heartbeats go on. A writer without any is over, or waits for nobody itself.

        A clustering has none: it is waited for as long as for a writer that shows no sign of life.
        Its session may go on with commits meanwhile.
        """
        listed: Listed = yield from read(List(f"{ledger.root}/.heartbeat"))
        beats = {entry.name.rpartition("/")[2]: entry for entry in listed.entries}
        made = [each for each in ledger.state.completions.values() if not each.undone]
        alive = {}
        for instant, opened in others.items():
            silent = self._watch.unchanged(f"{ledger.root}/{instant}", beats.get(instant))
            # Who has completed a later one has given this one up, even if its heartbeat goes on.
            is_left = any(each.session == opened.session and each.instant > instant for each in made)
            lives = instant in beats and not is_left
            if silent <= _LIFELESS and (lives or (yield from self._clusters(ledger, instant, opened))):
                alive[instant] = opened
        return alive

    def _clusters(self, ledger: Ledger, instant: str, opened: Opened) -> Protocol[bool]:
        """Whether an instant is a clustering. Before table version 8 only its plan tells."""
        if opened.action != "replacecommit":
            return opened.action == "clustering"
        plan = yield from self._declaration(ledger, instant, opened, "requested")
        return bool(plan and plan.get("clusteringPlan"))

    def _wanted(
        self, ledger: Ledger, instant: str, opened: Opened, alive: Container[str]
    ) -> Protocol[WriteSet]:
        """Return what an open instant writes, as far as it is known."""
        if (yield from self._clusters(ledger, instant, opened)):
            inflight: Got | Absent = yield from read(Get(_pending(ledger, instant, opened, "inflight")))
            if isinstance(inflight, Absent):
                return {}  # another job may run it in an hour
            plan = yield from self._declaration(ledger, instant, opened, "requested")
            return hudi_sets.planned(plan or {})
        habit, _ = yield from self._expected(ledger, opened.session, alive)
        content = yield from self._declaration(ledger, instant, opened, "inflight")
        if content:
            return hudi_sets.declared(content, habit)
        habit = self._queues.said(queue_of(ledger.name.state), opened.session, habit)
        undeclared = self._watch.unchanged(f"{ledger.root}/{instant} undeclared", opened.token)
        # Who writes and has not said what never will; a stream may have no rows for hours.
        return habit if content is None or undeclared <= _BY_GUESS else {}

    def _declaration(
        self, ledger: Ledger, instant: str, opened: Opened, state: str
    ) -> Protocol[Mapping[str, Any] | None]:
        """Return what an open instant's file says, read until it says something; None: it is not there."""
        key = (ledger.root, opened.token, state)
        content = self._declared.get(key)
        if content is None:
            path = _pending(ledger, instant, opened, state)
            got = yield from _got(path)
            content = _content(got, path)
            if not content:
                return None if isinstance(got, Absent) else {}
            self._declared.keep(key, content)
        return content

    def _forget_over(self, ledger: Ledger) -> None:
        """Forget what instants have declared that are over, and have written before a session's last ones.

        Of a large commit it is megabytes.
        """
        tokens = {each.token for each in ledger.state.open.values()}
        for key in list(self._declared):
            if key[0] == ledger.root and key[1] not in tokens:
                self._declared.pop(key, None)
        known = list(self._written.items())
        over = {token for (root, token), each in known if root == ledger.root and each != _NOTHING}
        counted = Counter[str | None]()
        for made in _newest_first(ledger.state) if over else ():
            if made.token in over:
                counted.update((None, made.session))
                if counted[None] <= hudi_sets.NEWCOMER or counted[made.session] <= hudi_sets.OWN:
                    over.discard(made.token)
        for token in over:
            self._written.pop((ledger.root, token), None)

    def _expected(
        self, ledger: Ledger, session: str, alive: Container[str]
    ) -> Protocol[tuple[WriteSet, bool]]:
        """Return what a session is expected to write next, and whether what it has written or tried tells."""
        own = yield from self._last(ledger, session, hudi_sets.OWN)
        known = own or (yield from self._last(ledger, None, hudi_sets.NEWCOMER))
        habit = hudi_sets.expected(list(known.values()))
        tried = yield from self._tried(ledger, session, alive, habit)
        if not tried:
            return habit, bool(own)
        last = _newest({**tried, **own})
        return hudi_sets.expected(list(last.values())), True

    def _tried(
        self, ledger: Ledger, session: str, alive: Container[str], habit: WriteSet
    ) -> Protocol[dict[str, WriteSet]]:
        """Return what a session's last instants, but those that are alive, were going to write.

        A writer that was refused is about to try it again; and its last commit may be archived by now.
        """
        key = (ledger.root, session)
        found = dict(self._tries.get(key, {}))
        its = {
            instant: opened
            for instant, opened in ledger.state.open.items()
            if opened.session == session and opened.action in _WRITE and instant not in alive
        }
        for instant, opened in _newest(its).items():
            if instant not in found:
                content = yield from self._declaration(ledger, instant, opened, "inflight")
                if content and hudi_sets.is_a_writers(content):
                    found[instant] = hudi_sets.declared(content, habit)
        return self._tries.keep(key, _newest(found)) if found else found

    def _last(self, ledger: Ledger, session: str | None, most: int) -> Protocol[dict[str, WriteSet]]:
        """Return what the last commits of a session's writers have written, or of anybody's, by instant."""
        found: dict[str, WriteSet] = {}
        for each in _newest_first(ledger.state):
            if len(found) == most:
                break
            if session not in (None, each.session) or each.name.rpartition(".")[2] not in _WRITE:
                continue
            key = (ledger.root, each.token)
            known = self._written.get(key)
            if known is None:
                path = ledger.path(each.body)
                got = yield from _got(path)
                if got is None:
                    continue  # not to be read now
                content = _content(got, path)
                is_a_writers = content and hudi_sets.is_a_writers(content)
                known = self._written.keep(key, (hudi_sets.written(content) if is_a_writers else {},))
            if known != _NOTHING:
                found[each.instant] = known[0]
        return found


def _newest_first(state: State) -> list[Completion]:
    """Return the commits that stand, the last one first."""
    made = (each for each in state.completions.values() if not each.undone)
    return sorted(made, key=lambda each: each.number, reverse=True)


def _newest(by_instant: Mapping[str, T]) -> dict[str, T]:
    """Return what is of the last instants, at most ``OWN``."""
    return dict(sorted(by_instant.items(), key=lambda each: each[0])[-hudi_sets.OWN :])


def _pending(ledger: Ledger, instant: str, opened: Opened, state: str) -> str:
    """Return the name of a pending instant, in the layout that the table has since its last upgrade."""
    made = max(ledger.state.completions.values(), key=lambda each: each.number, default=None)
    folder = f"{ledger.root}/timeline" if made is None else ledger.path(made.name).rpartition("/")[0]
    return f"{folder}/{instant}{_BETWEEN.get((opened.action, state), f'.{opened.action}')}.{state}"


def _is_due(state: State, commits: int) -> bool:
    """Whether a clustering that is planned after so many commits would be planned now.

    See Hudi's ``ClusteringPlanActionExecutor``: it counts what was completed since the last one was begun.
    """
    begun = [instant for instant, opened in state.open.items() if opened.action in _CLUSTERS]
    made = [each for each in state.completions.values() if not each.undone]
    begun += [each.instant for each in made if each.name.endswith(".replacecommit")]
    last = max(begun, default="")
    return sum(each.instant > last and each.name.rpartition(".")[2] in _WRITE for each in made) >= commits


def _got(path: str) -> Protocol[Got | Absent | None]:
    """Return an instant's file; None: it can't be read now."""
    try:
        got: Got | Absent = yield from read(Get(path))
    except OSError:
        return None
    return got


def _content(got: Got | Absent | None, path: str) -> Mapping[str, Any]:
    """Return what an instant's file says: nothing, where it was archived."""
    content = content_of(got.data, path, []) if isinstance(got, Got) else None
    return {} if content is None else content.value
