"""Wrong protocols: each is the right one with one change in its text, by which it lies or does harm."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

from putifabsent import shim as shim_package
from putifabsent.shim import requests
from tests.mutation import Change
from tests.shim.scripted import Shim

History = Literal["PlainNames", "NumberedNames", "AliasedNames"]

_FAMILY = ("requests", "expiry", "create")


@dataclass(frozen=True)
class Mutant(Change):
    """One change of the native protocol.

    Attributes
    ----------
    history
        The random histories that find it out as well; None where only the exact requests do.
    """

    history: History | None = None

    def shim(self) -> Shim:
        """Return the protocols with this change."""
        modules = self.modules(shim_package, _FAMILY)
        # Whoever answers knows the requests themselves: only what is done with them is changed.
        known = {name: each for name, each in vars(requests).items() if isinstance(each, type)}
        for module in modules.values():
            vars(module).update(known)
        create, expiry = modules["create"], modules["expiry"]
        rename = partial(create.copy, keep=False)
        return Shim(create.create, create.copy, rename, create.resolve, expiry.check_win)


_PROVEN = "proven = not (sendings.uncertain or isinstance(error, OutcomeUnknown))"

MUTANTS = (
    # Whose is it?
    Mutant(
        "my own token is taken for another's",
        "create",
        "sendings.uncertain = holder.token == sendings.token",
        "sendings.uncertain = False",
        None,
    ),
    Mutant(
        "anybody's token is taken for mine",
        "create",
        "sendings.uncertain = holder.token == sendings.token",
        "sendings.uncertain = True",
        "PlainNames",
    ),
    Mutant(
        "exists is a loss without a look",
        "create",
        "    if holder is None:\n",
        "    if holder is None:\n        raise NameTaken(sendings.path)\n",
        "PlainNames",
    ),
    Mutant(
        "try again is taken for exists",
        "create",
        "    if isinstance(outcome, TryAgain) or (",
        "    if isinstance(outcome, TryAgain):\n        raise NameTaken(sendings.path)\n    if (",
        "PlainNames",
    ),
    Mutant(
        "a 403 on HEAD is taken for absent",
        "requests",
        "        cause = answer.error",
        "        if isinstance(answer, Refused):\n            return Absent(), attempt\n"
        "        cause = answer.error",
        "AliasedNames",
    ),
    Mutant(
        "a look without an answer is taken for absent",
        "requests",
        "        cause = answer.error",
        "        if isinstance(answer, TryAgain):\n            return Absent(), attempt\n"
        "        cause = answer.error",
        "AliasedNames",
    ),
    # What a lost answer means
    Mutant(
        "a 404 proves that the creation failed",
        "create",
        "            return None\n        holder = seen.holder\n    sendings",
        "            sendings.uncertain = False\n            raise OSError(sendings.path)\n"
        "        holder = seen.holder\n    sendings",
        "PlainNames",
    ),
    Mutant(
        "absent after a lost answer is tried again",
        "create",
        "if sendings.lost is not None and not isinstance(outcome, Maybe):",
        "if False:",
        "PlainNames",
    ),
    Mutant(
        "a lost answer is forgotten",
        "create",
        "            self.lost = outcome.cause\n",
        "            pass\n",
        "PlainNames",
    ),
    Mutant(
        "a refusal after a lost answer is final",
        "create",
        "        if self.lost is not None:\n            raise self.unknown(",
        "        self.uncertain = False\n        if False:\n            raise self.unknown(",
        "PlainNames",
    ),
    Mutant(
        "the deadline is a failure",
        "create",
        "        if self.lost is not None or self.denied or self.busy is None:\n"
        "            return self.unknown(reason)\n        return unanswered(self.busy)",
        "        self.uncertain = False\n        return unanswered(self.busy or self.lost or OSError())",
        "PlainNames",
    ),
    Mutant(
        "a lost answer to a completion is not looked up",
        "create",
        "(isinstance(outcome, Maybe) and sendings.upload is None)",
        "isinstance(outcome, Maybe)",
        None,
    ),
    Mutant(
        "another's name after a lost answer is a loss, whenever it came",
        "create",
        "    if sendings.lost is not None and not (",
        "    if False and not (",
        "PlainNames",
    ),
    Mutant(
        "what has passed since the first request is forgotten",
        "create",
        "age <= (yield Since())",
        "age <= 0",
        None,
    ),
    Mutant("a whole second is taken for exact", "create", "created - _MARGIN)", "created)", None),
    # Uploads
    Mutant("an upload is discarded on unknown", "create", _PROVEN, "proven = True", "PlainNames"),
    Mutant(
        "an upload is discarded where the holder can't be told",
        "create",
        _PROVEN,
        "proven = not sendings.uncertain",
        None,
    ),
    Mutant("an upload is left after a proven loss", "create", _PROVEN, "proven = False", "PlainNames"),
    Mutant(
        "a lost completion discards its upload and stages anew",
        "create",
        "sendings.lost is None and isinstance(outcome, (TryAgain, Gone))",
        "isinstance(outcome, (TryAgain, Gone, Maybe))",
        "PlainNames",
    ),
    Mutant(
        "a 409 to a completion keeps its upload",
        "create",
        "isinstance(outcome, (TryAgain, Gone))",
        "isinstance(outcome, Gone)",
        None,
    ),
    # Interruptions
    Mutant(
        "an interruption hides that a request had gone out",
        "create",
        "        sendings.uncertain = True\n        outcome = yield request\n",
        "        outcome = yield request\n",
        "PlainNames",
    ),
    Mutant(
        "an interruption after a lost answer hides it",
        "create",
        "sendings.uncertain = sendings.lost is not None or isinstance(outcome, (Created, Maybe))",
        "sendings.uncertain = isinstance(outcome, Created)",
        "PlainNames",
    ),
    Mutant(
        "an interruption becomes an error that code catches",
        "create",
        "        unknown_from(error, sendings.unknown(reason))",
        "        raise sendings.unknown(reason) from error",
        None,
    ),
    # Renames
    Mutant(
        "the source goes before the win",
        "create",
        "        seen = yield from read(Head(source))\n",
        "        if not keep:\n            yield Delete(source)\n"
        "        seen = yield from read(Head(source))\n",
        "PlainNames",
    ),
    Mutant(
        "what is copied is not judged",
        "create",
        "        check_whole(name, body)\n",
        "",
        None,
    ),
    Mutant(
        "a source that was looked at is looked at again",
        "create",
        "    if seen is None:\n",
        "    if True:\n",
        None,
    ),
    Mutant(
        "a source that stays behind undoes the win",
        "create",
        "with contextlib.suppress(Exception):",
        "with contextlib.suppress():",
        None,
    ),
    # Numbers
    Mutant(
        "nobody looks whether a win counts",
        "create",
        "        if name.aliases or name.series is not None:\n            lost, made",
        "        if False:\n            lost, made",
        "NumberedNames",
    ),
    Mutant(
        "a predecessor that is gone proves nothing",
        "expiry",
        "    mine, later = yield from _list(",
        "    return\n    mine, later = yield from _list(",
        "NumberedNames",
    ),
    Mutant(
        "a first number that comes again is not looked after",
        "expiry",
        "    if series is None:\n        return\n    for",
        "    if series is None or series.is_at_first:\n        return\n    for",
        None,
    ),
    Mutant(
        "a first number is unknown where others have gone on at once",
        "expiry",
        "return False if series.is_at_first and series.number + 1 in later else None",
        "return None",
        None,
    ),
    Mutant(
        "a number is removed though the next one is newer",
        "expiry",
        "_is_clearly_before(following, made.earliest)",
        "_is_clearly_before(made.earliest, following)",
        "NumberedNames",
    ),
    Mutant(
        "a number is removed though the next one is only about as old",
        "expiry",
        "other - one > CLEARLY",
        "other - one >= timedelta()",
        None,
    ),
    Mutant(
        "about as old is a win",
        "expiry",
        "if not skipped and all(_is_clearly_before(made.latest, created) for created in nearest):",
        "if not skipped:",
        "NumberedNames",
    ),
    Mutant(
        "after a lost answer an expired number is taken for another's",
        "expiry",
        "if expired and not lost:",
        "if expired:",
        "NumberedNames",
    ),
    Mutant(
        "a next number that is gone proves nothing",
        "expiry",
        "return bool(later) and not series.has_gaps and series.number + 1 not in later",
        "return False",
        "NumberedNames",
    ),
    Mutant(
        "what came in parts is as old as its upload",
        "create",
        "return Made(created.at, created.at)",
        "return None",
        "NumberedNames",
    ),
    Mutant(
        "a gap that the format leaves is taken for an expired number",
        "expiry",
        "bool(later) and not series.has_gaps and",
        "bool(later) and",
        None,
    ),
    Mutant(
        "a next number that came while it was listed is taken for gone",
        "expiry",
        "        _, later = yield from _list(name, series, token)\n",
        "        pass\n",
        None,
    ),
    Mutant(
        "an expired number is called another's",
        "expiry",
        "_withdraw(name, token, NameExpired(name.path))",
        "_withdraw(name, token, NameTaken(name.path))",
        None,
    ),
    Mutant(
        "somebody else's creation is removed",
        "expiry",
        "if isinstance(mine, Absent) or mine.holder.token != token:",
        "if isinstance(mine, Absent):",
        None,
    ),
    Mutant(
        "a number that others have removed is taken for a loser's",
        "expiry",
        "            if attempt > 1:\n",
        "            if True:\n",
        None,
    ),
    Mutant(
        "a removal that was lost is taken for done",
        "expiry",
        "if isinstance(outcome, Deleted):",
        "if True:",
        "NumberedNames",
    ),
    Mutant(
        "a later resolution does not ask whether a number counts",
        "create",
        "    yield from check_win(name, token, lost=True, made=made, may_withdraw=False)\n",
        "",
        None,
    ),
    Mutant(
        "a later resolution takes anybody's token for mine",
        "create",
        '    if creation_of(holder.token or "") != token:',
        "    if False:",
        None,
    ),
    Mutant(
        "a later resolution does not know what an arbiter has marked",
        "create",
        '    if creation_of(holder.token or "") != token:',
        "    if holder.token != token:",
        None,
    ),
    Mutant(
        "a later resolution removes what does not count",
        "create",
        "lost=True, made=made, may_withdraw=False)",
        "lost=False, made=made)",
        None,
    ),
    # Aliases
    Mutant(
        "an alias is not looked at before anything is written",
        "create",
        "    for alias in name.aliases:\n",
        "    for alias in ():\n",
        None,
    ),
    Mutant(
        "an alias that comes first is not looked at",
        "expiry",
        "for alias in name.aliases[: name.rank]:",
        "for alias in name.aliases[:0]:",
        "AliasedNames",
    ),
    Mutant(
        "what may have been read is removed for an alias that came later",
        "expiry",
        "    may_withdraw = may_withdraw and not lost\n",
        "",
        None,
    ),
    Mutant(
        "an alias that comes later is not waited for",
        "expiry",
        "for alias in name.aliases[name.rank :]:",
        "for alias in name.aliases[:0]:",
        "AliasedNames",
    ),
)
