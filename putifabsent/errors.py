"""Every error of this package, on one page.

Grouped by what a caller can do about it:

===========================  ==============================================================
:class:`NameTaken`           pick another name, or read what the holder wrote
:class:`NameExpired`         read the newest entry of the series, and go on from there
:class:`OutcomeUnknown`      keep your data; ask again with ``fs.resolve(name, token)``
:class:`Fenced`              stop: another writer has taken over
:class:`UnsafeStore`         configure an arbiter: this store can't decide
:class:`InvalidTransition`   the format does not allow this step
:class:`Damaging`            write it again: these bytes would damage the table
:class:`ConfigError`         correct an option
===========================  ==============================================================

A client library's own exception is always kept as ``__cause__``.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Holder:
    """The creation that holds a name, as far as its store tells."""

    token: str | None  # the creation's (a UUID); None: the object was not made through this package
    writer: str | None = None  # the UUID of the application that made it
    created: datetime | None = None  # by the store's clock; None where the store does not say
    size: int = 0  # bytes
    version: str | None = None
    """What tells this object from a later one under the same name: a version id, a generation, an entity tag,
    an inode. None where the store has nothing of the kind."""
    begun: datetime | None = None
    """When its upload was begun, where the store says only that: S3, of an object that came in parts."""
    age: float | None = None
    """Seconds that it has had the name at least, by the store's clock, where that was asked for."""

    def __str__(self) -> str:
        who = "another creation" if self.token else "a writer outside putifabsent"
        if self.writer:
            who = f"writer {self.writer}"
        when = f" at {self.created.isoformat()}" if self.created else ""
        if self.begun and not self.created:
            when = f", begun at {self.begun.isoformat()}"
        token = f" (token {self.token})" if self.token else ""
        return f"{who}{when}{token}"


class PutIfAbsentError(Exception):
    """The base of every error of this package."""


class NameTaken(PutIfAbsentError, FileExistsError):
    """Another creation provably holds the name. Nothing of this one is readable under it.

    ``name`` is as the writer gave it; ``holder`` says who holds it, None where only the fact is known.
    """

    def __init__(self, name: str, holder: Holder | None = None) -> None:
        self.name = name
        self.holder = holder
        super().__init__(errno.EEXIST, self._reason(), name)

    def _reason(self) -> str:
        by = f"held by {self.holder}" if self.holder else "held by another creation"
        return f"the name is taken: {by}. Choose another name, or read what is there"

    def __reduce__(self) -> tuple[type[NameTaken], tuple[str, Holder | None]]:
        return type(self), (self.name, self.holder)


class NameExpired(NameTaken):
    """The number was used before, and has expired: later ones are there, and nobody would read this one.

    What was created under the name has been removed again. Nobody holds it: ``holder`` is None.
    """

    def _reason(self) -> str:
        return (
            "the number has expired: later ones are there, and nobody reads this one any more, so it was "
            "removed again. Read the newest entry and go on from there. To restore old entries, create them "
            "in ascending order, or write them with the wrapped filesystem while nobody else writes"
        )


class OutcomeUnknown(PutIfAbsentError, OSError):
    """The creation may or may not have happened, and it can't be known now.

    Keep whatever the name refers to, and ask again later with ``fs.resolve(name, token)``: ``name`` is as the
    writer gave it, ``token`` the creation's.
    """

    others: tuple[OutcomeUnknown, ...] = ()
    """The other creations of the same call (``fs.pipe`` of many names) whose outcome is unknown, too."""

    def __init__(self, name: str, token: str, reason: str = "the store's answer was lost") -> None:
        self.name = name
        self.token = token
        self.reason = reason
        super().__init__(
            errno.EIO,
            f"it is unknown whether the name was created: {reason}. Delete nothing; "
            f"ask later with fs.resolve(name, {token!r})",
            name,
        )

    def __reduce__(self) -> tuple[type[OutcomeUnknown], tuple[str, str, str], dict[str, Any]]:
        return type(self), (self.name, self.token, self.reason), {"others": self.others}


def unknown_of(error: BaseException) -> OutcomeUnknown | None:
    """Return what says that an outcome is unknown, if it is; a cancellation has that for its cause."""
    found = error if isinstance(error, OutcomeUnknown) else error.__cause__
    return found if isinstance(found, OutcomeUnknown) else None


def unknown_from(error: BaseException, unknown: OutcomeUnknown) -> NoReturn:
    """Raise an unknown outcome, which an error has led to.

    A cancellation stays one, and carries it: code that cleans up after ``except Exception`` must not take it
    for a loss.
    """
    if isinstance(error, Exception):
        raise unknown from error
    raise error from unknown


def sentence_of(error: BaseException) -> str:
    """Return an error in one line: what happened, and to which file, without numbers and without a class."""
    sentence = str(error)
    if isinstance(error, OSError) and error.strerror:
        sentence = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    # Some clients' messages go on with what only their authors can read.
    return sentence.split("\n", 1)[0] or type(error).__name__


class Fenced(PutIfAbsentError, PermissionError):
    """Another writer has taken over: this one's step comes too late and was refused."""


class UnsafeStore(PutIfAbsentError):
    """The store can't decide who creates a name, and no arbiter is configured that could."""


class InvalidTransition(PutIfAbsentError):
    """The table format does not allow this step of its timeline (strict mode). Nothing was written.

    ``name`` is what the step would have made, as the writer gave it; ``reason``: the step, and what is wrong
    with it.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(
            f"{name}: this is no step of a timeline ({reason}), and nothing was written. Read the timeline "
            "again: its writer has a bug, or another one has taken the instant on or back"
        )

    def __reduce__(self) -> tuple[type[InvalidTransition], tuple[str, str]]:
        return type(self), (self.name, self.reason)


class Damaging(PutIfAbsentError, OSError):
    """The bytes would damage their table, and were refused: nothing was created, and the name is free.

    ``name`` is as the writer gave it; ``reason`` says what is wrong with the bytes, and what to do.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(errno.EINVAL, f"it would damage its table, and was not created: {reason}", name)

    def __reduce__(self) -> tuple[type[Damaging], tuple[str, str]]:
        return type(self), (self.name, self.reason)


class ConfigError(PutIfAbsentError, ValueError):
    """An option is wrong. The message says which, and the nearest right one."""
