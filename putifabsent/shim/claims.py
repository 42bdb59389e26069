"""A registry beside the store decides: each identity has one claim, which says whose bytes the name is.

A name lives through numbered *incarnations*. A claim says which one it is, whether it lives, and under which
salted key its bytes lie (:mod:`putifabsent.shim.state_keys`); the registry changes it only from what the
writer expects. So a claim is a pointer that is swung by compare-and-swap, and only forwards::

    none -> 1, live -> 1, dead -> 2, live -> 2, dead -> ...

A creation puts its bytes first, then claims the name, then has the store copy them to the plain name. A
deletion ends the claim, then removes the bytes, then the plain name. A copy of bytes that are gone fails, so
nobody brings back what was deleted, however slow; and no incarnation begins before the bytes of the one
before it are gone. So readers take the bytes from where the claim says: they can't change, and nobody
publishes over them. The plain name is for readers without the shim, and for names that are older than it.

All names of one identity (its aliases) share one claim: the registry decides which of them comes into being.
Numbers expire as under the store's own decision (:mod:`putifabsent.shim.expiry`), but the bytes were put
before the claim, and published after it: the store's time of the one is early, that of the other late.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from putifabsent.backends.base import Absent, Created, Creation, Found, Holder, Refused
from putifabsent.backends.registries import Claim, Forgotten, NotAsExpected
from putifabsent.errors import NameExpired, NameTaken, OutcomeUnknown, PutIfAbsentError, unknown_from
from putifabsent.shim.claimant import Claimant, has_ended, holder_of
from putifabsent.shim.expiry import check_number
from putifabsent.shim.requests import Delete, Head, Located, Protocol, read, removed
from putifabsent.shim.state_keys import marked

if TYPE_CHECKING:
    from putifabsent.backends.base import Body
    from putifabsent.shim.arbiter import Claiming
    from putifabsent.shim.names import Name


def create(arbiter: Claiming, name: Name, body: Body, creation: Creation) -> Protocol[Created]:
    """Bring ``name`` into being with these bytes, at most once; they must stay readable until it ends.

    Four requests where nobody else is there, in three round trips: the bytes, and at the same time a look at
    the plain name; the claim; the copy.

    ``NameTaken``: another creation provably holds the name. ``OutcomeUnknown``: a claim was sent, and no
    answer until the deadline proves anything; or it can't be published. ``OSError``: store or registry
    refused, or gave no answer in time, and nothing was claimed.
    """
    claimant = Claimant(arbiter, name, creation)
    try:
        claim = yield from _decide(claimant, body)
        created = (yield from claimant.show(claim, name.path)) or (yield from _gone(claimant, claim))
        yield from check_number(
            name,
            creation.token,
            put_at=lambda: claimant.made(claim),
            withdraw=lambda: _withdraw(claimant, claim),
        )
    except GeneratorExit:
        raise
    except BaseException as error:
        if claimant.may_hold is None and claimant.key is not None:
            yield Delete(claimant.key)
        if claimant.may_hold is None or isinstance(error, PutIfAbsentError):
            raise
        reason = f"a claim had been sent, and then there was {type(error).__name__}: {error}"
        unknown_from(error, claimant.unknown(reason))
    return replace(created, again=claim.key != claimant.key)


def find(
    arbiter: Claiming, name: Name, creation: Creation, *, helps: bool = True, is_decided: bool = False
) -> Protocol[Located | Absent]:
    """Say who holds ``name``, and where its bytes lie.

    With ``helps`` it looks at the bytes, for their size and time, and at the plain name, to publish what a
    dead writer has left. Else the claim alone is read, which also tells what ``is_decided``.

    ``OutcomeUnknown``: it can't be known. ``OSError``: the bytes of a living claim are gone, and something
    else is under the plain name: what goes round the shim has removed the ones, and put the other.
    """
    del is_decided
    claimant = Claimant(arbiter, name, creation)
    while True:
        claim = yield from claimant.read()
        if claim is not None and claim.live and claimant.path_of(claim) == name.path:
            if not helps:
                return Located(holder_of(claim), claim.key)
            located = yield from claimant.located(claim)
            if located is not None:
                return located
            continue
        seen = yield from claimant.look(name.path)
        if isinstance(seen, Absent) or has_ended(seen, claim):
            return Absent()
        if (yield from claimant.read()) == claim:
            return Located(seen.holder, name.path)


def resolve(arbiter: Claiming, name: Name, creation: Creation) -> Protocol[Holder | None]:
    """Answer an unknown outcome later, as :func:`putifabsent.shim.create.resolve` does.

    ``NameTaken``: another creation holds the name, in its first incarnation: this one never did.
    ``OutcomeUnknown``: also if another holds a later one: whose those before it were, nobody says. NameTaken
    is its cause.
    """
    seen = yield from find(arbiter, name, creation)
    if isinstance(seen, Absent):
        return None
    if seen.holder.token != creation.token:
        taken = NameTaken(name.path, seen.holder)
        claimant = Claimant(arbiter, name, creation)
        claim = yield from claimant.read()
        if claim is not None and claim.incarnation > 1:
            raise claimant.unknown("it may have been created, and deleted since: another holds it") from taken
        raise taken
    # When it was claimed, nobody says: after its bytes were put, and before it was published.
    yield from check_number(name, creation.token, lost=True)
    return seen.holder


def delete(arbiter: Claiming, name: Name, creation: Creation, *, last: bool = False) -> Protocol[bool]:
    """Free ``name``: end its claim, then remove its bytes, then the plain name.

    After the ``last`` time the registry forgets the dead claim, if it will. ``OutcomeUnknown``: whether it is
    gone can't be known. ``OSError``: store or registry refused, and nothing has changed.
    """
    claimant = Claimant(arbiter, name, creation)
    claim = yield from claimant.read()
    if claim is not None and claim.live and claimant.path_of(claim) == name.path:
        claim = yield from claimant.end(claim)
    if claim is not None and not claim.live:
        yield from claimant.remove(claim.key)
    if (yield from claimant.hide(name.path, claim, older=True)):
        yield from claimant.repair()
    if not last or claim is None or claim.live:
        return last and claim is None
    try:
        forgotten = yield from claimant.forget(claim)
    except OutcomeUnknown:
        return False
    return isinstance(forgotten, Forgotten) or forgotten == NotAsExpected(None)


def clean(arbiter: Claiming, name: Name, creation: Creation) -> Protocol[int]:
    """Finish what dead writers and deleters have left; return how many objects were removed.

    Bytes that no claim can name any more go. Where one still could, its incarnation is ended first, by a
    claim of this process's own, behind which are nobody's bytes: a writer who comes later takes the next one.
    The living claim is published where it is not. The creation's token must be one that never creates.
    """
    claimant = Claimant(arbiter, name, creation)
    left = yield from claimant.listed()
    removed = 0
    while True:
        claim = yield from claimant.read()
        used = 0 if claim is None else claim.incarnation
        living = None if claim is None or not claim.live else claim.key
        over = [key for key, salted in left.items() if salted.incarnation <= used and key != living]
        for key in over:
            yield from claimant.remove(key)
        removed += len(over)
        left = {key: salted for key, salted in left.items() if salted.incarnation > used}
        # Beside a living claim they are of a table elsewhere, copied with its state.
        if not left or living is not None:
            break
        # An older name keeps its incarnation: what carries it may be marked like a copy of this one, if
        # another table was its first.
        if (yield from claimant.is_older(claim)):
            break
        # Who put these had the bytes of the dead removed first: they don't get out of sight.
        yield from claimant.burn(claim, left)
    for path in name.all_names:
        removed += yield from claimant.hide(path, claim, older=False)
    yield from claimant.repair()
    return removed


def forget(arbiter: Claiming, name: Name, creation: Creation) -> Protocol[None]:
    """Remove all that is kept of an identity, its claim included, and its plain names.

    The claim is ended and the bytes go before it is forgotten, for what is gone nobody publishes again; the
    plain names go last, for whoever goes through them finds there what one who died in the middle has left.
    An ``OSError`` may also say that all has gone but the dead claim, which the registry refuses to forget.
    """
    claimant = Claimant(arbiter, name, creation)
    claim = yield from claimant.read()
    while claim is not None and claim.live:
        claim = yield from claimant.end(claim)
    left = list((yield from claimant.listed()))
    while left:
        yield from removed(left.pop(0))
    refused: Refused | None = None
    if claim is not None:
        outcome = yield from claimant.forget(claim)
        if isinstance(outcome, NotAsExpected) and outcome.current is not None:
            return  # it was begun anew meanwhile
        refused = outcome if isinstance(outcome, Refused) else None
    left = list(name.all_names)
    while left:
        yield from removed(left.pop(0))
    if refused is not None:
        raise refused.error


def _decide(claimant: Claimant, body: Body) -> Protocol[Claim]:
    """Return my claim as soon as it is the registry's."""
    there = yield from _look_and_put(claimant, body)
    expected = None
    while True:
        if there is None:
            there = yield from claimant.claim(expected)
            if there is None:
                yield Delete(claimant.key or "")
                claimant.attempts += 1  # that deletion may come late
                forgotten = LookupError(f"the claim of {claimant.identity} was forgotten meanwhile")
                yield from claimant.pause("what it expected is gone", forgotten)
                yield from claimant.put(1, body)
                expected = None
                continue
            if there.live and claimant.is_mine(there):
                claimant.may_hold = there.incarnation
                return there
        there = yield from claimant.give_way(there)
        yield from claimant.put(there.incarnation + 1, body)
        expected, there = there, None


def _gone(claimant: Claimant, claim: Claim) -> Protocol[Created]:
    """Say what a creation has come to whose bytes are gone before they were published.

    Who deletes a name ends its claim before the bytes go. Where it lives still, something else has removed
    them: what goes round the shim; or clean-up that has taken them for those of an incarnation that was
    forgotten meanwhile.
    """
    if (yield from claimant.read()) == claim:
        yield from claimant.end(claim)
        raise claimant.unknown("its bytes were removed before they were published, and nobody has deleted it")
    return Created()


def _look_and_put(claimant: Claimant, body: Body) -> Protocol[Claim | None]:
    """Put the bytes for the first incarnation; return the claim, where the names show that one is there.

    ``NameTaken``: the name lives; or it is older than the shim.
    """
    looks: list[Found | Absent] = []
    for alias in claimant.name.aliases:
        seen = yield from read(Head(alias))
        looks.append(seen)
    seen = yield from claimant.put_and_look(body)
    found = [each for each in (*looks, seen) if isinstance(each, Found)]
    if not found:
        return None
    claim = yield from claimant.read()
    older = [each for each in found if not has_ended(each, claim)]
    if claim is not None and claim.live:
        return claim
    for each in older:
        # A name whose claim was forgotten was removed before: then it is not there any more.
        is_copy = marked(each.holder.token) is not None
        if not is_copy or (yield from claimant.is_older(claim)):
            raise NameTaken(claimant.name.path, each.holder)
    return claim


def _withdraw(claimant: Claimant, claim: Claim) -> Protocol[NoReturn]:
    """Free the name again, and call my creation lost only once it is gone."""
    ended = yield from claimant.end(claim)
    yield from claimant.remove(claim.key)
    yield from claimant.hide(claimant.name.path, ended, older=False)
    raise NameExpired(claimant.name.path)
