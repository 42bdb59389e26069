"""Which addresses a service answers for, and the filesystems that it answers from, one a caller."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

import fsspec

from putifabsent.errors import ConfigError
from putifabsent.shim.formats import is_state

if TYPE_CHECKING:
    from collections.abc import Iterable

    from putifabsent.fsspec_plugin import GuardedFileSystem
    from putifabsent.service.settings import Mounting

__all__ = ["Caller", "Mounts", "Outside"]

_SCHEMES = {
    "s3": "pias3", "s3a": "pias3", "s3n": "pias3",
    "gs": "piags",
    "file": "piafile",
    "memory": "piamemory",
}  # fmt: skip

_MOST = 256
"""So many callers are remembered; who is forgotten has its ledgers read again."""


class Outside(PermissionError):
    """The address is none that this service answers for."""


class Caller(NamedTuple):
    """For whom a call is made.

    Attributes
    ----------
    session
        One process's life of a writer.
    writer
        Its application.
    """

    session: str
    writer: str


class Address(NamedTuple):
    """An address in its parts.

    Attributes
    ----------
    scheme
        ``s3a``.
    path
        What comes after it, without the slashes between them; a local path keeps its own.
    """

    scheme: str
    path: str

    @classmethod
    def of(cls, said: str) -> Address:
        """Part an address, as Hadoop spells it: ``file:/tmp`` has no authority, and no slashes for it."""
        scheme, _, rest = said.partition(":")
        path = rest.removeprefix("//") if rest.startswith("//") else rest
        return cls(scheme.lower(), path)

    def holds(self, other: Address) -> bool:
        """Whether another address is this one, or below it."""
        here = self.path.rstrip("/")
        return self.scheme == other.scheme and (not here or f"{other.path}/".startswith(f"{here}/"))


class Mounts:
    """Finds the filesystem for an address and a caller.

    Parameters
    ----------
    mountings
        What the settings say.

    Raises
    ------
    ConfigError
        No filesystem is known for a scheme, or one does not take its options.
    """

    def __init__(self, mountings: Iterable[Mounting]) -> None:
        made = [(Address.of(each.prefix), each) for each in mountings]
        # The longest prefix first: it is about the fewest names.
        self._mountings = sorted(made, key=lambda pair: len(pair[0].path), reverse=True)
        self._made: OrderedDict[tuple[int, Caller], GuardedFileSystem] = OrderedDict()
        self._lock = threading.Lock()
        nobody = Caller("nobody", "nobody")
        for number, (address, _) in enumerate(self._mountings):
            if address.scheme not in _SCHEMES:
                raise ConfigError(f"{address.scheme}:// is not known here: use {', '.join(_SCHEMES)}")
            self._filesystem(number, nobody)

    def find(self, said: str, caller: Caller) -> tuple[GuardedFileSystem, str]:
        """Return the filesystem of an address, and the path in it.

        Raises
        ------
        Outside
            None that this service answers for.
        """
        address = Address.of(said)
        # What the shim keeps for itself is no caller's: a record that is removed is as good as never written.
        if {".", ".."}.isdisjoint(address.path.split("/")) and not is_state(address.path):
            for number, (mounted, _) in enumerate(self._mountings):
                if mounted.holds(address):
                    return self._filesystem(number, caller), address.path
        raise Outside(f"{said} is outside what this service answers for")

    def within(self, said: str, caller: Caller) -> list[GuardedFileSystem]:
        """Return the filesystems of all mounts that an address is in, or that are below it.

        Raises
        ------
        Outside
            There are none.
        """
        address = Address.of(said)
        found = [
            self._filesystem(number, caller)
            for number, (mounted, _) in enumerate(self._mountings)
            if mounted.holds(address) or address.holds(mounted)
        ]
        if not found:
            raise Outside(f"{said} is outside what this service answers for")
        return found

    def _filesystem(self, number: int, caller: Caller) -> GuardedFileSystem:
        with self._lock:
            fs = self._made.get((number, caller))
            if fs is None:
                address, mounting = self._mountings[number]
                protocol = _SCHEMES[address.scheme]
                options = {**mounting.options, "session": caller.session, "writer": caller.writer}
                fs = fsspec.filesystem(protocol, skip_instance_cache=True, **options)
                self._made[number, caller] = fs
                if len(self._made) > _MOST:
                    self._made.popitem(last=False)
            self._made.move_to_end((number, caller))
            return fs
