"""What Hudi's tables have beyond a grammar of names: a ledger, steps of a timeline, and salted names.

A call on an instant or a slice is judged by its table's ledger before the name alone decides; all other
names, and what is older than the shim, go by themselves.

Mounts with ``strict=True`` refuse, too, what a timeline has no step for. An instant's name costs one listing
of the instant more; all that it shows is judged by :mod:`hudi_steps`. What seems to be wrong is looked at
again as a reader would see it, for a plain listing may lack what is decided and show what has ended. And
whatever is refused without the option is refused in the same words. It is a look, and then a creation: who of
two comes first is decided as ever, by the name and the ledger.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from putifabsent.backends.base import Absent, Created, Creation, Found, Got, Holder, InMemory
from putifabsent.errors import Fenced, InvalidTransition, NameTaken, OutcomeUnknown, unknown_from
from putifabsent.fsspec_plugin.ledgers import turns_held
from putifabsent.fsspec_plugin.mount import MOST_KNOWN, Cache, Mount
from putifabsent.fsspec_plugin.options import SALTED
from putifabsent.fsspec_plugin.paths import renamed
from putifabsent.fsspec_plugin.salts import Salts
from putifabsent.fsspec_plugin.steps import Call, Decide, Steps, not_looked_at
from putifabsent.fsspec_plugin.tower import Tower
from putifabsent.shim.formats import hudi, hudi_ledger, hudi_salt, hudi_steps
from putifabsent.shim.formats.hudi_files import rolled_back
from putifabsent.shim.formats.hudi_layout import READ_IN_TURN, completed_by, other_layout, was_moved
from putifabsent.shim.ledger import calls, completion
from putifabsent.shim.ledger.appending import append
from putifabsent.shim.ledger.records import Free
from putifabsent.shim.names import Name, Role
from putifabsent.shim.requests import Get, Head, Located, Protocol, read, removed

if TYPE_CHECKING:
    from putifabsent.backends.base import Body
    from putifabsent.fsspec_plugin.guard import Guard
    from putifabsent.fsspec_plugin.reads import Details
    from putifabsent.shim.formats.hudi import Step
    from putifabsent.shim.ledger.book import Ledger
    from putifabsent.shim.ledger.facts import State

T = TypeVar("T")

_FOLDER = "/.hoodie"
"""In which a table's ledger lies; its timeline, too, or below it."""

_JUDGED = (Role.INSTANT, Role.SLICE)
"""What a table's ledger may have a word in, though its name is not guarded."""


class Table(NamedTuple):
    """A table that has a ledger."""

    name: Name  # a name of it, which shows its root
    version: int  # of its layout


class Hudi:
    """The rules of Hudi's tables in one mount."""

    format = hudi.FORMAT

    def __init__(self, mount: Mount, guard: Guard) -> None:
        self._mount = mount
        self._guard = guard
        self._tables: Cache[str, Table | None] = Cache(MOST_KNOWN)
        self.salts: Salts | None = Salts(mount, guard, self) if mount.options.salt in SALTED else None
        self._keeps = self.salts is not None and self.salts.keeps
        self.tower = Tower(inserts=mount.options.tower == "inserts") if mount.options.tower else None

    # Which names they are about

    def permits(self, name: Name) -> bool:
        """Whether they may have a word in whether a name is written, though nothing guards it."""
        return name.role in _JUDGED

    def is_judged(self, name: Name) -> bool:
        """Whether a table's ledger has a word in what becomes of a name, or its session alone."""
        return self._is_kept(name) or hudi_ledger.step_in(name) is not None

    def is_a_step(self, name: Name) -> bool:
        """Whether a name is a step of a timeline, and such steps are checked."""
        return self._mount.options.strict and name.role is Role.INSTANT and name.format == hudi.FORMAT

    def _is_kept(self, name: Name) -> bool:
        return self.salts is not None and self.salts.is_kept(name)

    # Writing

    def permitting(self, name: Name, *, explicit: bool) -> Steps[None]:
        """Ask whether a name that nothing guards may be written: an inflight instant, a slice.

        Who would create what is there takes nothing over: it hears so from its creation. ``Fenced``,
        ``InvalidTransition``: it may not.
        """
        if self.is_a_step(name):
            yield from self._stepping(name, creates=explicit)
        table = yield from self.table_of(name)
        if table is None:
            return
        creation = self._mount.looker(table.name)

        def permitting(ledger: Ledger) -> Protocol[None]:
            rule = _rule(ledger, name, creation, version=table.version)
            if rule is not None and not (explicit and not (yield from _is_nothing(name))):
                is_old = self._guard.ledgers.is_old(table.name.state)
                deciding = partial(calls.decide, ledger, rule, creation, is_old=is_old)
                yield from self._unless_given_up(ledger, name, deciding)

        yield from self.relying(table.name)
        try:
            yield Decide(self._guard.ledgers.using(table.name, permitting))
        except Fenced:
            if not (yield from self._is_nobodys_by_now(name, table)):
                raise

    def relying(self, name: Name) -> Steps[None]:
        """Find out, before a record is written, whether the store and the other mounts can be relied on."""
        if not self._is_kept(name):
            yield from self._mount.relying(name, judged=self.is_judged(name))

    def creating(self, name: Name, body: Body, creation: Creation) -> Protocol[Created]:
        """Create a name: by its table's ledger, if that decides about it."""
        if self._is_kept(name):
            return hudi_salt.keep(name, body, creation)
        step = hudi_ledger.step_in(name)
        if step is None or not name.guarded:
            return self._guard.by_name(name, body, creation)
        return self._guard.ledgers.using(name, partial(self._creating_instant, name, step, body, creation))

    def _creating_instant(
        self, name: Name, step: Step, body: Body, creation: Creation, ledger: Ledger
    ) -> Protocol[Created]:
        # Where no table was is forgotten: whoever writes an instant may just have made one.
        for folder in [folder for folder, table in list(self._tables.items()) if table is None]:
            self._tables.pop(folder, None)
        is_plan = step.state == "requested" and step.action == "rollback"
        frees = rolled_back(body.whole(), name.path) if is_plan else None
        rule = _rule(ledger, name, creation, frees=frees)
        by_name = partial(self._guard.by_name, name, body, creation)
        if rule is None:
            return by_name()
        if frees is not None:
            by_name = partial(_planned, ledger, frees, creation, by_name)
        is_completed = step.state == "completed"
        creating = calls.create(
            ledger,
            rule,
            name.path,
            step.instant,
            body,
            creation,
            by_name,
            turn=turns_held.get().get(self._guard.ledgers.place(name)) if is_completed else None,
            largest_publish=self._mount.store.largest_publish,
        )
        if frees is not None:
            return self._requesting(ledger, name, step, creation, creating)
        return self._unless_left(ledger, name, creating)

    def _requesting(
        self, ledger: Ledger, name: Name, step: Step, creation: Creation, creating: Protocol[Created]
    ) -> Protocol[Created]:
        """Request a rollback; then see that nobody has given it up before it was there."""
        created = yield from creating
        try:
            state = yield from ledger.current(creation)
            if step.instant in state.open or state.completed(step.instant) is not None:
                return created
            yield from self._withdrawn(name)
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - it is raised, as what can't be known
            unknown_from(error, OutcomeUnknown(name.path, creation.token, f"it may be given up: {error}"))
        raise Fenced(errno.EPERM, f"the rollback {step.instant} was given up meanwhile", name.path)

    def _unless_left(self, ledger: Ledger, name: Name, deciding: Protocol[T]) -> Protocol[T]:
        """Decide; where that is refused for a rollback that nobody may go on with, remove what is left of it.

        Else each writer goes on with that before it begins a commit: and is refused, for ever, or undoes what
        was completed.
        """
        try:
            return (yield from deciding)
        except (Fenced, NameTaken):
            with contextlib.suppress(OSError):  # the next one tries it again
                for path in (yield from hudi_ledger.left_of_rollbacks(ledger, name)):
                    yield from self._withdrawn(self._mount.policy.classify(path))
            raise

    def _unless_given_up(
        self, ledger: Ledger, name: Name, deciding: Callable[[], Protocol[T]]
    ) -> Protocol[T]:
        """Decide; once more where that was refused for rollbacks that nobody can go on with."""
        try:
            return (yield from self._unless_left(ledger, name, deciding()))
        except Fenced:
            given_up = 0
            for rollback in hudi_ledger.in_the_way(ledger, name):
                given_up += yield from self._given_up(ledger, name, rollback)
            if not given_up:
                raise
        return (yield from deciding())

    def _given_up(self, ledger: Ledger, name: Name, rollback: str) -> Protocol[bool]:
        """Give up a rollback that was never requested: whoever was about to has died, or is paused.

        Meanwhile its name is held, by no bytes. So whoever is paused fails; or comes when it is given up, and
        sees that.
        """
        folder, opened = hudi_ledger.timeline_of(ledger, name), ledger.state.open.get(rollback)
        if folder is None or opened is None:
            return opened is None  # another has given it up meanwhile
        last = f"{rollback}.rollback.requested"
        plan = self._mount.policy.classify(f"{folder}/{last}")
        if not (yield from _is_nothing(plan._replace(path=f"{other_layout(folder)}/{last}"))):
            return False
        creation = self._mount.looker(plan)
        seen: Found | Absent = yield from read(Head(plan.path))
        if isinstance(seen, Found) and seen.holder.size:
            return False
        try:
            if isinstance(seen, Absent):  # else somebody has died in here
                yield from self._guard.by_name(plan, InMemory(b""), creation)
        except NameTaken:
            return False
        free = Free(rollback, ledger.session, creation.token)
        yield from append(
            ledger, lambda state: free if state.open.get(rollback) == opened else None, creation
        )
        yield from self._withdrawn(plan)
        return True

    def _is_nobodys_to_keep(self, ledger: Ledger, name: Name) -> Protocol[bool]:
        """Whether a slice may go that rollbacks take for a failed write's: they are others', and left by all.

        They stay open, for tasks of theirs may be under way still.
        """
        rollbacks, timeline = hudi_ledger.strange_to(ledger, name), hudi_ledger.timeline_of(ledger, name)
        if timeline is None or not rollbacks:
            return False
        folders, states = (timeline, other_layout(timeline)), ("requested", "inflight")
        for folder, rollback, state in product(folders, rollbacks, states):
            seen: Found | Absent = yield from read(Head(f"{folder}/{rollback}.rollback.{state}"))
            if isinstance(seen, Found) and (seen.holder.size or state == "inflight"):
                return False
        return True

    def _withdrawn(self, name: Name) -> Protocol[object]:
        arbiter = self._mount.arbiter
        return removed(name.path) if arbiter is None else arbiter.delete(name, self._mount.looker(name))

    def resolving(
        self, name: Name, creation: Creation, by_name: Callable[[], Protocol[Holder | None]]
    ) -> Protocol[Holder | None]:
        if not hudi_ledger.is_completed(name):
            return by_name()

        def resolving(ledger: Ledger) -> Protocol[Holder | None]:
            state = yield from ledger.current(creation)
            if state.named(ledger.relative(name.path)) is None:
                return (yield from by_name())
            return (yield from completion.resolve(ledger, name.path, creation))

        return self._guard.ledgers.using(name, resolving)

    # Removing

    def ending(self, name: Name) -> Steps[bool]:
        """Remove what a ledger decides about; False: what is left goes by its name.

        ``Fenced``: it is not this session's to remove.
        """
        yield from self._looking_again(name)
        table = yield from self.table_of(name)
        if table is None:
            return False
        creation = self._mount.looker(table.name)

        def ending(ledger: Ledger) -> Protocol[bool]:
            ruling = partial(_rule, ledger, name, creation, deletes=True, version=table.version)

            def rather(state: State) -> Protocol[calls.Rule | None]:
                instant = completed_by(name.path)
                if instant is None or not hudi_ledger.is_being_rolled_back(state, instant):
                    return None
                return ruling() if (yield from hudi_ledger.is_pending_beside(name.path, instant)) else None

            rule = ruling(archives=True)
            if rule is None or (hudi_ledger.is_pending(name) and (yield from _is_nothing(name))):
                return False  # nobody's work ends
            deleting = partial(calls.delete, ledger, rule, name.path, creation, rather=rather)
            try:
                return (yield from self._unless_given_up(ledger, name, deleting))
            except Fenced:
                if not (yield from self._is_nobodys_to_keep(ledger, name)):
                    raise
                return False

        yield from self.relying(table.name)
        removed: bool = yield Decide(self._guard.ledgers.using(table.name, ending), name)
        return removed

    def _looking_again(self, name: Name) -> Steps[None]:
        """Forget what permits no deletion: that no table was there, or one whose log files were nobody's."""
        folder, step = name.path.rpartition("/")[0], hudi_ledger.step_in(name)
        known = self._tables.get(folder)
        if known is None:
            self._tables.pop(folder, None)
        elif step is not None and hudi_ledger.is_nobodys(step, known.version):
            yield from self._known_anew(folder, known)

    def _known_anew(self, folder: str, known: Table) -> Steps[Table | None]:
        root = str(known.name.table)
        table = yield from self._table_at(root)
        self._tables.pop(folder, None)
        return self._tables.keep(root, table)

    def _is_nobodys_by_now(self, name: Name, known: Table) -> Steps[bool]:
        """Whether it is of a log file that instants share since the table was downgraded."""
        step = hudi_ledger.step_in(name)
        if step is None or step.state != "log":
            return False
        table = yield from self._known_anew(name.path.rpartition("/")[0], known)
        return table is not None and hudi_ledger.is_nobodys(step, table.version)

    def loses_instants(self, folder: str) -> bool:
        """Whether a folder has instants in it, and the ledger that knows them elsewhere."""
        return self.is_timeline(folder) and not folder.endswith(_FOLDER)

    def dies_with_its_table(self, path: str) -> bool:
        """Whether nothing need be remembered of a name when its table is removed."""
        return hudi_ledger.instant_of(path) is not None

    def forget_below(self, folder: str) -> None:
        for inside in list(self._tables):  # of which other threads find more meanwhile
            if f"{inside}/".startswith(f"{folder}/"):
                self._tables.pop(inside, None)

    # Reading

    def shows_more(self, path: str) -> bool:
        """Whether a ledger, or a salt, may show more or less of a path than the store."""
        return self.salts is not None or self.may_be_an_instant(path)

    def may_be_an_instant(self, path: str) -> bool:
        """Whether a path is in a timeline, or may have one below it."""
        return _FOLDER in path

    def is_timeline(self, folder: str) -> bool:
        return hudi_ledger.timeline_in(self._mount.policy.classify, folder) is not None

    def unpublished(self, name: Name) -> Steps[Located | None]:
        """Return where the bytes of a completed name lie that nobody has published; None: it is not there.

        It may have been published since somebody has looked for it, and then is where its name says; or be
        archived, and gone.
        """
        if not hudi_ledger.is_completed(name):
            return None
        view = yield from self.timeline(name.path.rpartition("/")[0])
        key = None if view is None else (yield from self._late(view, name.path))
        if key is None and view is not None and name.path in view.published:
            key = None if (yield Decide(_is_nothing(name))) else name.path
        return None if key is None else Located(Holder(None), key)

    def _late(self, view: calls.View, path: str) -> Steps[str | None]:
        """Return where the bytes lie of a name that is not there; None: nothing is late, or it was moved."""
        key = view.late.get(path)
        if key is None or (yield Decide(was_moved(path, view.undone))):
            return None
        return key

    def timeline(self, folder: str) -> Steps[calls.View | None]:
        """Return what a ledger says of the names in a folder, read before they are listed; None: nothing."""
        name = None if self._keeps else hudi_ledger.timeline_in(self._mount.policy.classify, folder)
        if name is None:
            return None

        def looking(ledger: Ledger) -> Protocol[calls.View]:
            yield from ledger.current(self._mount.looker(name))
            return calls.view(ledger, folder)

        view: calls.View = yield Decide(self._guard.ledgers.using(name, looking, writes=False))
        return view

    def viewed(self, view: calls.View, shown: Details) -> Steps[None]:
        """Show what a ledger says of a timeline, as it was read before the timeline was listed."""
        for name in view.hidden(shown):
            del shown[name]
        for name in view.late.keys() - shown.keys():
            key = yield from self._late(view, name)
            for place in () if key is None else (key, name):
                # Its body goes when it is undone, or archived; or when it was published, long after that.
                with contextlib.suppress(FileNotFoundError):
                    shown[name] = renamed((yield Call("info", (place,))), name)
                    break

    def with_timelines(self, found: Details) -> Steps[Details]:
        """Show what ledgers say of the timelines that were found."""
        folders = {name.rpartition("/")[0] for name in found if self.may_be_an_instant(name)}
        for folder in sorted(folders):
            view = yield from self.timeline(folder)
            if view is None or not (view.lacks(found) or view.hidden(found)):
                continue
            listed = yield from self._guard.reads.listing(folder, {"detail": True})
            files = {self._mount.paths.full(each["name"]): each for each in listed if each["type"] == "file"}
            gone = view.hidden(found) - files.keys()
            found = {name: each for name, each in found.items() if name not in gone} | files
        return found

    # The steps of a timeline

    def stepping_to(self, name: Name) -> Steps[None]:
        """Ask whether an instant may get this name now, in a mount that asks."""
        if name.guarded and self.is_a_step(name):
            yield from self._stepping(name)

    def _stepping(self, name: Name, *, creates: bool = True) -> Steps[None]:
        """Ask whether an instant may get this name now.

        If it ``creates``, a name that is there is not checked, since its creation fails.
        ``InvalidTransition``: it may not; ``Fenced``, ``NameTaken``: its table's ledger says so.
        """
        folder, _, last = name.path.rpartition("/")
        step = hudi.instant_in(last)
        assert step is not None  # noqa: S101 - for mypy
        finding = None
        for look in (self._mount.beside(folder, step.instant), self._shown_in(folder)):
            there = yield from look
            if creates and name.path in there:
                return
            finding = hudi_steps.finding_beside(map(_last, there), last)
            if finding is None:
                return
        elsewhere = yield from self._mount.beside(other_layout(folder), step.instant)
        if hudi_steps.is_moved(map(_last, elsewhere), last):
            return
        yield from self._refusing(name)
        raise InvalidTransition(name.path, str(finding))

    def _shown_in(self, folder: str) -> Steps[list[str]]:
        """List a folder as readers see it: by what arbiters and ledgers say."""
        self._mount.forget_listed(folder)
        try:
            found = yield from self._guard.reads.listing(folder, {"detail": False})
        except FileNotFoundError:
            return []
        except FileExistsError as error:
            raise not_looked_at(folder) from error
        return [self._mount.paths.full(each) for each in found]

    def _refusing(self, name: Name) -> Steps[None]:
        """Let a table's ledger say, by what it raises, why a name may not be created. Nothing is appended."""
        table = yield from self.table_of(name)
        if table is None:
            return
        creation = self._mount.looker(table.name)

        def asking(ledger: Ledger) -> Protocol[None]:
            yield from ledger.current(creation)
            rule = _rule(ledger, name, creation, version=table.version)
            if rule is not None:
                rule(ledger.state)

        yield Decide(self._guard.ledgers.using(table.name, asking, writes=False))

    # Which table a name is of

    def table_of(self, name: Name) -> Steps[Table | None]:
        """Return the table whose ledger a name concerns; None: it concerns none."""
        step = None if self._keeps else hudi_ledger.step_in(name)
        if step is None:
            return None
        if name.table is not None:
            return Table(name, hudi_ledger.NEWEST)
        folder = name.path.rpartition("/")[0]
        with contextlib.suppress(KeyError):
            return self._tables[folder]
        parts = folder.split("/")
        roots = ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]
        # Once a table: what is below a known one is a partition of it.
        table = next((known for root in roots if (known := self._tables.get(root))), None)
        for root in () if table is not None else roots:
            table = yield from self._table_at(root)
            if table is not None:
                self._tables.keep(root, table)
                break
        return self._tables.keep(folder, table)

    def _table_at(self, root: str) -> Steps[Table | None]:
        table = None
        for path in (f"{root}/{each}" for each in READ_IN_TURN):
            got: Got | Absent = Absent()
            with contextlib.suppress(PermissionError):  # above a table others may have rights
                got = yield Decide(read(Get(path)))
            if not isinstance(got, Absent):
                table = Table(self._mount.policy.classify(path), hudi_ledger.version_in(got.data))
                if got.data.strip():
                    break
        return table


def _rule(
    ledger: Ledger,
    name: Name,
    creation: Creation,
    *,
    deletes: bool = False,
    version: int = hudi_ledger.NEWEST,
    frees: str | None = None,
    archives: bool = False,
) -> calls.Rule | None:
    """Return the rule of this session's call on a name; None: its ledger has nothing to do with it."""
    relative = ledger.relative(name.path)
    own, token = ledger.session, creation.token
    asker = hudi_ledger.Asker(own, token, ledger.opened, name.path, relative, frees, archives=archives)
    return hudi_ledger.rule_for(asker, deletes=deletes, version=version)


def _planned(
    ledger: Ledger, frees: str, creation: Creation, by_name: Callable[[], Protocol[Created]]
) -> Protocol[Created]:
    """Request a rollback; who lists the store and finds it there finds its instant completed, if it is."""
    if ledger.state.completed(frees) is not None:
        yield from completion.settled(ledger, creation, ledger.state)
    return (yield from by_name())


def _is_nothing(name: Name) -> Protocol[bool]:
    return isinstance((yield from read(Head(name.path))), Absent)


def _last(path: str) -> str:
    return path.rpartition("/")[2]
