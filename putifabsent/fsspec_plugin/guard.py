"""What becomes of a name: a guarded one is created at most once; all else is the wrapped filesystem's.

Each is a generator of steps, which both colours run. What a format knows of a name beyond its grammar, and
what it keeps beside its names, are its *rules*. They apply to its own names alone; most formats have none,
and then the names themselves decide.
"""

from __future__ import annotations

import contextlib
import errno
import io
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from putifabsent.backends.base import Absent, Created, Creation, Found, Got, Refused
from putifabsent.backends.local import obstacle
from putifabsent.backends.streaming_upload import Ahead, FileBody, StagesAhead
from putifabsent.errors import Holder, NameTaken, OutcomeUnknown
from putifabsent.fsspec_plugin.hudi import Hudi
from putifabsent.fsspec_plugin.ledgers import Ledgers
from putifabsent.fsspec_plugin.mount import MOST_KNOWN, Cache, Mount, new_token
from putifabsent.fsspec_plugin.paths import check_path, spelled_out
from putifabsent.fsspec_plugin.queues import Queues
from putifabsent.fsspec_plugin.reads import Reads
from putifabsent.fsspec_plugin.removals import Removals
from putifabsent.fsspec_plugin.slots import Losers
from putifabsent.fsspec_plugin.steps import Aside, Call, Decide, Steps, looked, not_looked_at
from putifabsent.shim import create as native
from putifabsent.shim.requests import Get, Head, Located, Protocol, read
from putifabsent.shim.whole import Seen, check_whole, looked_at

if TYPE_CHECKING:
    from putifabsent.backends.base import Body
    from putifabsent.fsspec_plugin.salts import Salts
    from putifabsent.fsspec_plugin.tower import Tower
    from putifabsent.inspection.inspecting import Commits
    from putifabsent.shim.names import Name

_AT_ONCE = 2**17  # bytes; to look at more takes a millisecond and longer, for which a loop is not held up


class Guard:
    """Guards the names of a mount."""

    def __init__(self, mount: Mount, commits: Callable[[], Commits]) -> None:
        self.mount = mount
        self.commits = commits() if mount.options.inspect == "commits" else None
        # By what speaks for a name, nothing, and what speaks against it.
        self._evident: Cache[tuple[str, ...], bool] = Cache(MOST_KNOWN)
        self.ledgers = Ledgers(mount)
        self.queues = Queues()  # watched for as long as the mount is there
        self.losers = Losers(mount, self.queues)
        self.reads = Reads(mount, self)
        self.removals = Removals(mount, self)
        self.rules = Hudi(mount, self) if Hudi.format in mount.policy.formats else None

    def rules_for(self, name: Name) -> Hudi | None:
        rules = self.rules
        if rules is None or name.format == rules.format:
            return rules
        return rules if rules.salts is not None and rules.salts.is_kept(name) else None

    @property
    def salts(self) -> Salts | None:
        """What knows under which other name a file lies; None: none does."""
        return None if self.rules is None else self.rules.salts

    @property
    def tower(self) -> Tower | None:
        """What says who had better wait before it begins a commit; None: nobody waits."""
        return None if self.rules is None else self.rules.tower

    # Which names are guarded

    def explain(self, path: Any) -> Name:
        return self.mount.policy.classify(self.mount.paths.full(path))

    def classify(self, path: Any, *, explicit: bool) -> Name:
        """Say what a path that is to be written is, and refuse what can't be created.

        ``ValueError``, ``IsADirectoryError``: it is guarded, or its creation is explicit, and it can't be; or
        it is one version of a name.
        """
        paths = self.mount.paths
        if paths.is_plain(path):
            return self.mount.policy.classify(path)
        plain = paths.without_version(path)
        stripped = paths.strip(plain)
        name = self.mount.policy.classify(spelled_out(stripped, self.mount.kind))
        if explicit or name.guarded:
            check_path(plain if isinstance(plain, str) else stripped, stripped)
        if plain is not path and (explicit or self.has_a_word(name)):
            msg = f"{path!s} names one version of {plain}: a version can't be written. Say the name alone"
            raise ValueError(msg)
        return name

    def has_a_word(self, name: Name) -> bool:
        """Whether more than the wrapped filesystem may have a word in whether a name is written."""
        return name.guarded or ((rules := self.rules_for(name)) is not None and rules.permits(name))

    def promoting(self, path: Any, *, explicit: bool = False) -> Steps[Name | None]:
        """Return what ``path`` is, if writing it is a create, or None if it is the wrapped filesystem's."""
        name = self.classify(path, explicit=explicit)
        rules = self.rules_for(name)
        if self.salts is not None and (own := self.salts.own_instant(name)) is not None:
            return own if name.guarded or explicit else None
        found: Name | None = name
        if not name.guarded:
            if rules is not None:
                yield from rules.permitting(name, explicit=explicit)
            found = name if explicit else None
        elif not (yield from self.with_evidence(name)):
            found = name.unproven() if explicit else None
        if found is None or rules is None or rules.salts is None:
            return found
        return rules.salts.promoted(found)

    def written_as(self, path: Any) -> Any:
        """Return where the wrapped filesystem is to write what nothing guards."""
        return self.mount.paths.own(path) if self.salts is None else self.salts.written_as(path)

    def known_as(self, path: str) -> Steps[Name]:
        """Return what an explicit creation of ``path`` would be of."""
        name = self.mount.policy.classify(path)
        if self.salts is not None and (own := self.salts.own_instant(name)) is not None:
            return own
        found = yield from self.with_evidence(name)
        return name if found else name.unproven()

    def guarded(self, path: Any) -> Steps[Name | None]:
        """Return what a path is, if it is guarded; a version is the wrapped filesystem's."""
        if self.mount.paths.is_a_version(path):
            return None
        name = self.explain(path)
        if not name.guarded:
            return None
        found = yield from self.with_evidence(name)
        return name if found else None

    def with_evidence(self, name: Name) -> Steps[bool]:
        """Say whether what a name wants beside it is there, so that it is its format's."""
        if self.is_evident(name):
            return True
        # Who may not see what speaks against a name is not kept from creating it.
        if (yield from self._any(name.unless, PermissionError)):
            return False
        if name.evidence and not (yield from self._any(name.evidence)):
            return False
        self._evident.keep(_beside(name), True)
        return True

    def _any(self, siblings: tuple[str, ...], *absences: type[OSError]) -> Steps[bool]:
        for sibling in siblings:
            with contextlib.suppress(*absences):
                if (yield from self.mount.is_there(sibling)):
                    return True
        return False

    def forget_below(self, folder: str) -> None:
        """Forget what is known of a folder that is removed: something else may be made there."""
        self.mount.forget_below(folder)
        self.ledgers.forget_below(folder)
        if self.rules is not None:
            self.rules.forget_below(folder)
        for beside in list(self._evident):
            if any(each.startswith(f"{folder}/") for each in beside):
                self._evident.pop(beside, None)

    def is_evident(self, name: Name) -> bool:
        """Whether it is known already that a name is its format's."""
        return not name.depends or _beside(name) in self._evident

    # Creating

    def is_judged(self, name: Name) -> bool:
        """Whether its format's rules have a word in what becomes of a name."""
        rules = self.rules_for(name)
        return rules is not None and rules.is_judged(name)

    def creating(
        self, name: Name, body: Body, extra: Mapping[str, Any], token: str | None = None
    ) -> Steps[None]:
        """Create a name, as :meth:`promoting` returned it, from a body.

        ``extra`` are the wrapped filesystem's own parameters of a put; ``token`` is the creation's, by
        default a new one. Raised are ``NameTaken``, ``OutcomeUnknown``, ``Fenced``, ``InvalidTransition``,
        ``Damaging``, ``OSError``.
        """
        rules = self.rules_for(name)
        if rules is not None:
            yield from rules.stepping_to(name)
        if body.size <= _AT_ONCE:
            check_whole(name, body)
        else:
            yield Aside(partial(check_whole, name, body))
        yield from self._judging(name, body.whole)
        self.refuse_folder(name)
        yield from self.relying(name)
        ahead: Ahead | None = getattr(body, "ahead", None)
        creation = ahead.creation if ahead is not None else self._creation(name, extra, token)
        create = self.by_name if rules is None else rules.creating
        yield Decide(create(name, body, creation), name, creates=True)

    def creating_from(
        self, source: str, name: Name, extra: Mapping[str, Any], *, keep: bool, token: str | None = None
    ) -> Steps[None]:
        """Create a name from another object, by the store's own copies or, for an arbiter, through here.

        ``source`` is that object's full name: see :meth:`source`. With ``keep`` it stays after a win.
        """
        # Not a parameter of the put: the `mv` of fsspec 2025 hands it down by mistake.
        extra = {key: value for key, value in extra.items() if key != "onerror"}
        rules = self.rules_for(name)
        if rules is not None:
            yield from rules.stepping_to(name)
        self.refuse_folder(name)
        yield from self.relying(name)
        seen: Found | Absent | None = None
        goes_through_here = self._goes_through_here(source, name, keep=keep)
        if not goes_through_here:
            seen = yield Decide(read(Head(source)))
            if isinstance(seen, Found) and seen.is_unpacked:
                goes_through_here, extra = True, {**seen.properties, **extra}
        if goes_through_here:
            token = yield from self._through_here(source, name, extra, token, keep=keep)
            if not keep:
                yield from native.cleaning_up(name, token, self.removals.removing_file(source, {}))
            return
        creation, most = self._creation(name, extra, token), self.mount.store.largest_put
        if isinstance(seen, Found) and seen.holder.size > most:
            yield from _judging(source, seen.holder.size, name)
        if isinstance(seen, Found) and self._is_a_commit(name, keep=keep):
            got: Got | Absent = yield Decide(read(Get(source)))
            if isinstance(got, Absent):
                raise native.no_source(source)
            written = got.data
            yield from self._judging(name, lambda: written)
        creating = native.copy(source, name, creation, largest_put=most, seen=seen, keep=keep)
        yield Decide(creating, name, creates=True)
        if not keep:
            self.mount.forget_listed(source)

    def source(self, path: Any, name: Name) -> str:
        if not self.mount.has_folders:
            if self.mount.paths.is_a_version(path):
                raise ValueError(f"{path!s} names one version: read it and write the bytes to {name.path}")
            stripped = self.mount.paths.strip(path)
            check_path(path if isinstance(path, str) else stripped, stripped)
        return self.mount.paths.full(path)

    def resolving(self, path: str, token: str) -> Steps[Holder | None]:
        name = yield from self.known_as(self.mount.paths.full(path))
        # Who creates it may be at it still.
        creation, arbiter = self.mount.under(token, name), self.mount.arbiter
        # What another arbiter has decided may not be shown yet: "not there" would be taken for a loss.
        try:
            yield from self.mount.looking([name.state], once=True)
        except OSError as error:
            reason = f"who decides about its table can't be looked up: {error}"
            raise OutcomeUnknown(name.path, token, reason) from error

        def by_name() -> Protocol[Holder | None]:
            return native.resolve(name, token) if arbiter is None else arbiter.resolve(name, creation)

        rules = self.rules_for(name)
        protocol = by_name() if rules is None else rules.resolving(name, creation, by_name)
        holder: Holder | None = yield Decide(protocol)
        return holder

    def stage_ahead(self, name: Name, file: IO[bytes], extra: Mapping[str, Any]) -> Ahead | None:
        """Begin to send a large file that is still being written, where the store can."""
        store = self.mount.store
        # The bytes of another arbiter lie elsewhere; and rules may refuse it at its end.
        if self.mount.arbiter is not None or not isinstance(store, StagesAhead):
            return None
        if (rules := self.rules_for(name)) is not None and (rules.is_judged(name) or rules.is_a_step(name)):
            return None
        self.mount.rely(name, judged=False)
        return store.ahead(name.path, file, self._creation(name, extra))

    def look_early(self, name: Name) -> None:
        """Say early that a name is taken, where that is known; at close it is decided."""
        seen: object
        store, arbiter = self.mount.blocking_store, self.mount.arbiter
        if arbiter is None:
            seen = store.head(name.path)
            if isinstance(seen, Refused) and isinstance(seen.error, (IsADirectoryError, NotADirectoryError)):
                raise seen.error
        else:
            self.refuse_folder(name)
            seen = self.mount.run(arbiter.find(name, self.mount.looker(name), helps=False))
            if isinstance(seen, Located) and isinstance(more := store.head(seen.path), Found):
                seen = Found(replace(more.holder, token=seen.holder.token))
        if isinstance(seen, Found):
            self.mount.forget_listed(name.path)  # a listing may still say that it is not there
            raise NameTaken(name.path, seen.holder)

    def refuse_orphan(self, name: Name) -> None:
        """Refuse to open a file on disk whose folder is not there, and that nobody will make."""
        # Beside an arbiter the folder was looked at already.
        if self.mount.arbiter is None and not getattr(self.mount.fs, "auto_mkdir", False):
            self._refuse_obstacle(name)

    def _refuse_obstacle(self, name: Name) -> None:
        parent = self.mount.fs._parent(name.path)
        if self.mount.kind == "local" and (why := obstacle(parent, name.path)) is not None:
            raise why

    def refuse_mark(self, name: Name) -> Steps[None]:
        """Refuse to mark a guarded name that is there as modified.

        Stores want it written again for that; and on disk its time says when it was created.
        """
        if self.mount.arbiter is None:
            look = partial(self.mount.blocking_store.head, name.path)
            is_there = isinstance((yield Aside(look)), Found)
        else:
            is_there = yield from self.reads.existing(name.path, {})
        if is_there:
            raise io.UnsupportedOperation(f"{name.path} is guarded: it can't be marked as modified")

    def refuse_folder(self, name: Name) -> None:
        """Refuse a folder's name, and one in no folder, before anything is left beside it for its sake."""
        if self.mount.has_folders and self.mount.arbiter is not None:
            self._make_folder(name)
            seen = self.mount.store.head(name.path)
            if isinstance(seen, Refused):
                raise seen.error
            self._refuse_obstacle(name)

    def relying(self, name: Name) -> Steps[None]:
        return (self.rules_for(name) or self.mount).relying(name)

    def by_name(self, name: Name, body: Body, creation: Creation) -> Protocol[Created]:
        """Return the creation of a name that nothing but the name decides about."""
        if self.mount.arbiter is None:
            return native.create(name, body, creation, largest_put=self.mount.store.largest_put)
        return self.mount.arbiter.create(name, body, creation)

    def _goes_through_here(self, source: str, name: Name, *, keep: bool) -> bool:
        """Whether no copy of the store's can be the creation: its bytes lie elsewhere, or a source's do."""
        if self.mount.arbiter is not None or self.is_judged(name):
            return True
        is_salted = self.salts is not None and self.salts.recorded(source) is not None
        return is_salted or (not keep and self.is_judged(self.explain(source)))

    def _through_here(
        self, source: str, name: Name, extra: Mapping[str, Any], token: str | None, *, keep: bool
    ) -> Steps[str]:
        """Create a name whose bytes lie elsewhere until an arbiter, or its format's rules, have decided.

        Returns the creation's token.
        """
        # The name is decided when the copy goes: one that stays is litter.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            here = Path(folder, "copy")
            yield from self._fetching(source, here)
            with here.open("rb") as file:
                body = FileBody(file)
                yield Aside(partial(check_whole, name, body))
                if self._is_a_commit(name, keep=keep):
                    yield from self._judging(name, body.whole)
                rules, creation = self.rules_for(name), self._creation(name, extra, token)
                create = self.by_name if rules is None else rules.creating
                yield Decide(create(name, body, creation), name, creates=True)
            return creation.token

    def _fetching(self, source: str, here: Path) -> Steps[None]:
        """Copy a source to local disk."""
        self.mount.forget_listed(source)
        try:
            found = yield from self.reads.reading("info", source, (), {})
            yield from self.reads.reading("get_file", source, (str(here),), {})
        except FileNotFoundError as error:
            raise native.no_source(source) from error
        except FileExistsError as error:
            raise not_looked_at(source) from error
        size, kept = here.stat().st_size, found["size"]
        if size != kept:
            seen: Found | Absent = yield Decide(read(Head(source)))
            # Else a page of some proxy's may have come in the store's place.
            if not (isinstance(seen, Found) and seen.is_unpacked):
                reason = f"{size} bytes were read of the {kept} that the store says it has"
                raise OSError(errno.EIO, reason, source)

    def _judging(self, name: Name, written: Callable[[], bytes]) -> Steps[None]:
        """Refuse a commit that would hurt its table, if the mount wants that looked at."""
        if (commits := self.commits) is not None and commits.judges(name):
            yield Aside(lambda: commits.check(name, written(), self.mount.options.deadline))

    def _is_a_commit(self, name: Name, *, keep: bool) -> bool:
        """Whether a creation from another object is one to judge: commands copy what was committed."""
        return self.commits is not None and self.commits.judges(name) and not (keep and name.replaced)

    def _creation(self, name: Name, extra: Mapping[str, Any], token: str | None = None) -> Creation:
        self._make_folder(name)
        if token is not None:
            return self.mount.under(token, name)._replace(extra=extra)
        return Creation(new_token(), self.mount.writer, name.state, extra)

    def _make_folder(self, name: Name) -> None:
        if self.mount.kind == "local" and getattr(self.mount.fs, "auto_mkdir", False):
            folder = self.mount.fs._parent(name.path)
            try:
                self.mount.fs.makedirs(folder, exist_ok=True)
            except FileExistsError as error:  # which is no loss: nobody holds the name
                raise NotADirectoryError(
                    errno.ENOTDIR, "a file is in the place of its folder", folder
                ) from error


def _beside(name: Name) -> tuple[str, ...]:
    return (*name.evidence, "", *name.unless)


def _judging(source: str, size: int, name: Name) -> Steps[None]:
    """Judge, by its ends, what is too large to be read; the store copies it by itself."""
    pieces = {}
    for start, stop in looked_at(name, size):
        pieces[start] = yield from looked(Call("cat_file", (source,), {"start": start, "end": stop}))
    if pieces:
        yield Aside(partial(check_whole, name, Seen(size, pieces)))
