"""One process's part in what is claimed of one identity: the steps of which the protocol is made."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from putifabsent.backends.base import (
    Absent,
    Created,
    Creation,
    Exists,
    Found,
    HeadOutcome,
    Holder,
    Listed,
    Maybe,
    PublishOutcome,
    PutOutcome,
    Refused,
    TryAgain,
    Written,
)
from putifabsent.backends.registries import Claim, Claimed, Forgotten, FoundClaim, NotAsExpected
from putifabsent.errors import NameTaken, OutcomeUnknown
from putifabsent.shim.requests import (
    Both,
    Delete,
    ForgetClaim,
    Head,
    List,
    Located,
    Pause,
    Publish,
    Put,
    ReadClaim,
    WriteClaim,
    read,
    unanswered,
)
from putifabsent.shim.state_keys import Salted, folder_of, identity_of, marked, parsed

if TYPE_CHECKING:
    from datetime import datetime

    from putifabsent.backends.base import Body
    from putifabsent.backends.registries import ClaimOutcome, ForgetOutcome
    from putifabsent.shim.arbiter import Claiming
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol


@dataclass(slots=True)
class Claimant:
    """One process's part in what is claimed of one identity."""

    arbiter: Claiming
    # name, creation: what of, and for which creation.
    name: Name
    creation: Creation
    identity: str = field(init=False)
    key: str | None = None  # where its own bytes lie, as soon as they may
    # The incarnation of which a claim that it has written is the registry's, or may be, or may become so.
    may_hold: int | None = None
    attempts: int = field(init=False)  # goes up with each key: one that was not answered is never sent again
    pauses: int = 0  # how often it has backed off

    def __post_init__(self) -> None:
        self.identity = identity_of(self.name, self.arbiter.place)
        self.attempts = self.creation.first_try

    def is_mine(self, claim: Claim) -> bool:
        return claim.token == self.creation.token

    def path_of(self, claim: Claim) -> str | None:
        """Return which of the identity's names a claim is about."""
        salted, names = parsed(claim.key), self.name.all_names
        return names[salted.rank] if salted is not None and salted.rank < len(names) else None

    def unknown(self, reason: str) -> OutcomeUnknown:
        return OutcomeUnknown(self.name.path, self.creation.token, reason)

    def failure(self, reason: str, cause: Exception) -> OSError:
        """Return what to raise where store or registry refuse, or the deadline has come."""
        # A creation of which no claim may be the registry's has failed for certain.
        if self.key is not None and self.may_hold is None:
            return unanswered(cause)
        error = self.unknown(f"{reason}: {cause}")
        error.__cause__ = cause
        return error

    def pause(self, reason: str, cause: Exception) -> Protocol[None]:
        """Back off; raise at the deadline."""
        self.pauses += 1
        if not (yield Pause(self.pauses)):
            raise self.failure(reason, cause)

    def look(self, path: str) -> Protocol[Found | Absent]:
        """See who holds a path, where that must be known."""
        seen: Found | Absent = yield from read(
            Head(path),
            lambda error: self.failure(f"the registry was queried, and {path} can't be looked at", error),
        )
        return seen

    def read(self) -> Protocol[Claim | None]:
        answer: FoundClaim | Absent = yield from read(
            ReadClaim(self.arbiter.claims, self.identity),
            lambda error: self.failure("the registry can't be read", error),
        )
        return answer.claim if isinstance(answer, FoundClaim) else None

    def write(self, claim: Claim, expected: Claim | None) -> Protocol[Claim | None]:
        """Have the registry decide; return the claim that is there then, whosever it is; None: it has none.

        One that was expected is forgotten since.
        """
        while True:
            before, self.may_hold = self.may_hold, claim.incarnation
            outcome: ClaimOutcome = yield WriteClaim(self.arbiter.claims, self.identity, claim, expected)
            if isinstance(outcome, Claimed):
                return claim
            if not isinstance(outcome, Maybe):
                self.may_hold = before
            if isinstance(outcome, NotAsExpected):
                return outcome.current
            if isinstance(outcome, Refused):
                if before is None:
                    raise outcome.error
                reason = f"an answer was lost, and now the registry refuses: {outcome.error}"
                raise self.unknown(reason) from outcome.error
            yield from self.pause("the registry gave no certain answer in time", outcome.cause)

    def put_and_look(self, body: Body) -> Protocol[Found | Absent]:
        """Put the bytes for the first incarnation, and see meanwhile what the plain name shows."""
        outcome, seen = yield Both(self.salted(1, body), Head(self.name.path))
        if not isinstance(outcome, Written):
            yield from self.not_put(outcome)
            yield from self.put(1, body)
        while isinstance(seen, TryAgain):
            yield from self.pause("the store did not say in time whether the name is there", seen.cause)
            seen = yield Head(self.name.path)
        if isinstance(seen, Refused):
            raise seen.error
        shown: Found | Absent = seen
        return shown

    def put(self, incarnation: int, body: Body) -> Protocol[None]:
        while True:
            outcome: PutOutcome = yield self.salted(incarnation, body)
            if isinstance(outcome, Written):
                return
            yield from self.not_put(outcome)

    def salted(self, incarnation: int, body: Body) -> Put:
        """Return the request that puts the bytes for an incarnation, under a key of their own."""
        salted = Salted(self.name.rank, incarnation, self.creation.token, self.attempts)
        self.key = f"{folder_of(self.name)}/{salted}"
        return Put(self.key, body, self.creation._replace(token=salted.mark))

    def not_put(self, outcome: TryAgain | Refused | Maybe) -> Protocol[None]:
        """Return where the bytes may be put once more."""
        if isinstance(outcome, Refused):
            raise outcome.error
        if isinstance(outcome, Maybe):
            # It may land at any time, also after a deletion: nobody may ever claim it.
            self.attempts += 1
        yield from self.pause("the store did not take the bytes in time", outcome.cause)

    def claim(self, expected: Claim | None) -> Protocol[Claim | None]:
        """Claim the name for the bytes that are put; None: the claim that was expected is forgotten."""
        incarnation = 1 if expected is None else expected.incarnation + 1
        token, writer = self.creation.token, self.creation.writer
        mine = Claim(incarnation, live=True, key=self.key or "", token=token, writer=writer)
        there = yield from self.write(mine, expected)
        if there is None and self.may_hold is not None:
            raise self.unknown("it may have been created, and deleted since: its claim is forgotten")
        return there

    def give_way(self, there: Claim) -> Protocol[Claim]:
        """Return the dead claim after which the next incarnation may begin.

        A living one of which nothing is left dies: no deletion removes bytes before it has ended their claim,
        so something that goes round the shim has removed them, and nobody can bring them back.

        ``NameTaken``: it lives. ``OutcomeUnknown``: mine was there before. ``OSError``: the store shows
        nothing of mine either.
        """
        if self.is_mine(there):
            self.may_hold = there.incarnation
            raise self.unknown("it was created, and deleted since")
        if self.may_hold is not None and there.incarnation > self.may_hold:
            raise self.unknown("it may have been created, and deleted since: another incarnation has begun")
        # Of one incarnation there is one claim: mine can't come any more.
        self.may_hold = None
        if there.live:
            # When it was made the store knows, if it may be read.
            seen = yield from self.glimpse(there.key)
            if not isinstance(seen, Absent) or (yield from self.is_shown(there)):
                raise NameTaken(self.name.path, holder_of(there, seen))
            now = yield from self.read()
            if now is None:
                raise NameTaken(self.name.path, holder_of(there))  # it was, until it was forgotten
            if now == there:
                yield from self.refuse_unseen(there)
                now = yield from self.end(there)
                self.may_hold = None
            return (yield from self.give_way(now))
        yield Delete(self.key or "")
        # Its deleter may have died, or be slow: then somebody could publish these bytes over mine.
        yield from self.remove(there.key)
        return there

    def glimpse(self, path: str) -> Protocol[Found | Absent | Refused]:
        """See who holds a path, if the store lets me."""
        while True:
            seen: HeadOutcome = yield Head(path)
            if not isinstance(seen, TryAgain):
                return seen
            yield from self.pause(f"the store did not say in time what is under {path}", seen.cause)

    def is_shown(self, claim: Claim) -> Protocol[bool]:
        """Whether the plain name of a living claim may show it, or something that went round the shim."""
        path = self.path_of(claim)
        seen = Absent() if path is None else (yield from self.glimpse(path))
        return not isinstance(seen, Absent) and not (isinstance(seen, Found) and has_ended(seen, claim))

    def refuse_unseen(self, claim: Claim) -> Protocol[None]:
        """Pass if a listing shows my own bytes, and none of a living claim's.

        A look may be answered by who does not find the store, or has a copy of it that is behind.
        """
        left = yield from self.listed()
        if claim.key in left:
            raise NameTaken(self.name.path, holder_of(claim))
        if self.key not in left:
            reason = "the store shows neither the holder's bytes nor those that were put now"
            raise OSError(errno.EIO, reason, self.name.path)

    def located(self, claim: Claim) -> Protocol[Located | Absent | None]:
        """Find the bytes of a living claim, and publish them where they are not.

        Absent: nothing is left of it, not even the copy. None: it lives no more.
        """
        path = self.name.path
        seen, shown = yield Both(Head(claim.key), Head(path))
        if isinstance(seen, (TryAgain, Refused)):
            seen = yield from self.look(claim.key)
        is_shown = isinstance(shown, Found) and shown.holder.token == _mark(claim)
        if isinstance(seen, Absent):
            if (yield from self.read()) != claim:
                return None
            if is_shown:
                return Located(holder_of(claim, shown), path)
            if isinstance(shown, Absent) or (isinstance(shown, Found) and has_ended(shown, claim)):
                return Absent()
            reason = f"its bytes are gone: something that goes round the shim has removed {claim.key}"
            raise OSError(errno.EIO, reason, path)
        if isinstance(shown, (Found, Absent)) and self.hides(shown, claim):
            yield from self.publish(claim, path)
        return Located(holder_of(claim, seen), claim.key)

    def hides(self, shown: Found | Absent, claim: Claim) -> bool:
        """Whether a plain name shows something else than its living claim, which belongs there."""
        if isinstance(shown, Absent) or has_ended(shown, claim):
            return True
        # What nothing guards may have been written over since.
        return self.name.guarded and shown.holder.token != _mark(claim)

    def publish(self, claim: Claim, path: str) -> Protocol[PublishOutcome]:
        """Copy a claim's bytes to its plain name; what has ended makes way."""
        outcome: PublishOutcome = yield Publish(claim.key, path, self.creation)
        if not isinstance(outcome, Exists):
            return outcome
        seen: HeadOutcome = yield Head(path)
        if isinstance(seen, Found):
            if not has_ended(seen, claim):
                return outcome
            yield Delete(path, seen.holder.version)
        again: PublishOutcome = yield Publish(claim.key, path, self.creation)
        return TryAgain(FileExistsError(path)) if isinstance(again, Exists) else again

    def show(self, claim: Claim, path: str) -> Protocol[Created | None]:
        """Publish until the store answers, or the deadline: it is decided, whatever the plain name shows.

        None: its bytes are gone.
        """
        while True:
            outcome = yield from self.publish(claim, path)
            if isinstance(outcome, Refused):
                reason = f"it is created, and can't be published: {outcome.error}"
                raise self.unknown(reason) from outcome.error
            if isinstance(outcome, Absent):
                return None
            if not isinstance(outcome, (Maybe, TryAgain)):
                return Created(outcome.version if isinstance(outcome, Written) else None)
            self.pauses += 1
            if not (yield Pause(self.pauses)):
                return Created()

    def end(self, claim: Claim) -> Protocol[Claim]:
        """End a claim; return the one that is there then: a later one, if others were faster.

        One that is forgotten was ended before.
        """
        ended = replace(claim, live=False)
        return (yield from self.write(ended, claim)) or ended

    def forget(self, claim: Claim) -> Protocol[Forgotten | NotAsExpected | Refused]:
        while True:
            outcome: ForgetOutcome = yield ForgetClaim(self.arbiter.claims, self.identity, claim)
            if isinstance(outcome, (Forgotten, NotAsExpected, Refused)):
                return outcome
            yield from self.pause("the registry has not forgotten a claim in time", outcome.cause)

    def burn(self, claim: Claim | None, free: dict[str, Salted]) -> Protocol[Claim | None]:
        """End the incarnation that these bytes were put for, before it begins."""
        key, salted = max(free.items(), key=lambda item: item[1].incarnation)
        token, writer = self.creation.token, self.creation.writer
        return self.write(Claim(salted.incarnation, live=False, key=key, token=token, writer=writer), claim)

    def hide(self, path: str, claim: Claim | None, *, older: bool) -> Protocol[bool]:
        """Remove from a plain name what has ended; with ``older`` also what no claim has made."""
        seen = yield from self.look(path)
        if isinstance(seen, Absent):
            return False
        was = marked(seen.holder.token)
        if was is not None and was > (0 if claim is None else claim.incarnation):
            claim = yield from self.read()
        if claim is not None and claim.live and was == claim.incarnation:
            return False
        if not older and not has_ended(seen, claim):
            return False
        yield from self.remove(path, seen.holder.version)
        return True

    def repair(self) -> Protocol[None]:
        """Publish the living claim where it is not: a deletion that goes by names has hidden it."""
        claim = yield from self.read()
        path = None if claim is None or not claim.live else self.path_of(claim)
        if claim is None or path is None:
            return
        if self.hides((yield from self.look(path)), claim):
            yield from self.show(claim, path)

    def is_older(self, claim: Claim | None) -> Protocol[bool]:
        """Whether something is under one of the names that no claim has made."""
        for path in self.name.all_names:
            seen = yield from self.look(path)
            if isinstance(seen, Found) and not has_ended(seen, claim):
                return True
        return False

    def listed(self) -> Protocol[dict[str, Salted]]:
        folder = folder_of(self.name)
        listed: Listed = yield from read(
            List(folder), lambda error: self.failure(f"{folder} can't be listed", error)
        )
        parts = {entry.name: parsed(entry.name) for entry in listed.entries}
        return {key: salted for key, salted in parts.items() if salted is not None}

    def made(self, claim: Claim) -> Protocol[datetime | None]:
        """Say when the bytes of a claim were put; None: they are gone."""
        seen = yield from self.look(claim.key)
        return None if isinstance(seen, Absent) else seen.holder.created or seen.holder.begun

    def remove(self, path: str, version: str | None = None) -> Protocol[None]:
        yield from read(Delete(path, version), lambda error: self.failure(f"{path} can't be removed", error))


def has_ended(seen: Found, claim: Claim | None) -> bool:
    """Whether what a plain name showed is of an incarnation that has ended, as this claim tells."""
    was = marked(seen.holder.token)
    if was is None or claim is None:
        return False
    return was < claim.incarnation or (was == claim.incarnation and not claim.live)


def holder_of(claim: Claim, seen: HeadOutcome | None = None) -> Holder:
    """Say whose a claim is, and of its bytes what a look has shown."""
    holder = seen.holder if isinstance(seen, Found) else Holder(None)
    return replace(holder, token=claim.token, writer=claim.writer)


def _mark(claim: Claim) -> str | None:
    salted = parsed(claim.key)
    return salted and salted.mark
