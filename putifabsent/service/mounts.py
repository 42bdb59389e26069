"""Which addresses a service answers for, and the filesystems that it answers from, one a caller."""

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import fsspec

from putifabsent.errors import ConfigError
from putifabsent.fsspec_plugin.mount import Cache
from putifabsent.fsspec_plugin.options import borrowing
from putifabsent.fsspec_plugin.stores import GUARDED
from putifabsent.shim.names import is_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from putifabsent.fsspec_plugin import GuardedFileSystem
    from putifabsent.service.settings import Mounting

_SCHEMES = {**GUARDED, "s3n": GUARDED["s3"]}

# Anybody can have an account there, and only Azure may receive a caller's credentials.
_ACCOUNT = re.compile(
    r"(?P<name>[a-z0-9]{3,24})\.(?:dfs|blob)(?P<cloud>\.core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net))"
)
_USUAL = ".core.windows.net"

_BY_ITSELF = "AZURE_STORAGE_CONNECTION_STRING"
"""The environment variable by which adlfs goes where no connection string is given, whatever account is."""

_MOST = 256  # so many callers are remembered; who is forgotten has its ledgers read again
_MOST_READ = 64  # so many of them keep what was read of ledgers: of each table some hundred kilobytes
_CONNECTIONS = 256  # all callers of a mount share them; s3fs has 10


class Outside(PermissionError):
    """The address is none that this service answers for."""


class Caller(NamedTuple):
    """For whom a call is made: one process's life of a writer."""

    session: str
    writer: str


class Address(NamedTuple):
    """An address in its parts; a local path keeps its slash.

    ``account`` is the host of Azure's, where one is named, which then is not in the path.
    """

    scheme: str
    path: str
    account: str = ""

    @classmethod
    def of(cls, address: str) -> Address:
        """Part an address, as Hadoop spells it.

        ``file:/tmp`` has no authority, and no slashes for it. In ``abfs://container@account/path`` the
        account comes second; ``abfs://@account/`` is all that it has.
        """
        scheme, _, rest = address.partition(":")
        path = rest.removeprefix("//")
        scheme = scheme.lower()
        if _SCHEMES.get(scheme) != "piaaz":
            return cls(scheme, path)
        authority, slash, name = path.partition("/")
        container, _, account = authority.partition("@")
        return cls(scheme, f"{container}{slash}{name}".lstrip("/"), account)

    def holds(self, other: Address) -> bool:
        """Whether another address is this one, or below it."""
        here = self.path.rstrip("/")
        return (
            self.scheme == other.scheme
            and self.account in ("", other.account)
            and (not here or f"{other.path}/".startswith(f"{here}/"))
        )


def account_of(host: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that name an account of Azure's, by its host, where those that are given do not.

    ``Outside``: it is another account than that of the options, or none of Azure's and no option says how to
    reach it. ``ConfigError``: the environment leads elsewhere, whatever account is named.
    """
    account = host.partition(".")[0]
    connection = options.get("connection_string", "")
    named = {options.get("account_name"), _account_in(connection)} - {None}
    if others := named - {account} if account else set():
        raise Outside(
            f"{host} is outside what this service answers for: its options are those of {others.pop()}"
        )
    by_itself = "" if connection else os.environ.get(_BY_ITSELF, "")
    if by_itself and _account_in(by_itself) != (account or options.get("account_name")):
        raise ConfigError(
            f"{_BY_ITSELF}, in the service's environment, leads elsewhere than to {host}: remove it there"
        )
    if named or connection:
        return {}
    if "account_host" in options:
        return {"account_name": account}
    found = _ACCOUNT.fullmatch(host)
    if found is None:
        raise Outside(f"{host or 'an address without an account'} is none of Azure's that this service knows")
    if found["cloud"] == _USUAL:
        return {"account_name": found["name"]}
    return {"account_name": found["name"], "account_host": f"{found['name']}.blob{found['cloud']}"}


def _account_in(connection: str) -> str | None:
    parts = (part.partition("=") for part in connection.split(";"))
    return next((each[2] for each in parts if each[0] == "AccountName"), None)


class Mounts:
    """Finds the filesystem for an address and a caller; ``ConfigError``: one does not take its options."""

    def __init__(self, mountings: Iterable[Mounting]) -> None:
        made = [(Address.of(each.prefix), each) for each in mountings]
        # The longest prefix first: it is about the fewest names.
        self._mountings = sorted(made, key=lambda pair: len(f"{pair[0].account}{pair[0].path}"), reverse=True)
        self._made: Cache[tuple[int, str, Caller], GuardedFileSystem] = Cache(_MOST)
        # Whose clients all others use. Each of them keeps it, so that it lives as long as somebody uses it.
        self._lenders: WeakValueDictionary[tuple[int, str], GuardedFileSystem] = WeakValueDictionary()
        self._lock = threading.Lock()
        nobody = Caller("nobody", "nobody")
        for number, (address, mounting) in enumerate(self._mountings):
            if address.scheme not in _SCHEMES:
                raise ConfigError(f"{address.scheme}:// is not known here: use {', '.join(_SCHEMES)}")
            # Wrong options are refused at once, by some account where an address must name it.
            known = {"account_name", "connection_string"} & set(mounting.options)
            any_account = _account_in(os.environ.get(_BY_ITSELF, "")) or "account"
            some = f"{any_account}.dfs{_USUAL}" if _SCHEMES[address.scheme] == "piaaz" and not known else ""
            self._filesystem(number, address.account or some, nobody)

    def find(self, url: str, caller: Caller) -> tuple[GuardedFileSystem, str]:
        """Return the filesystem of an address, and the path in it; ``Outside``: it is not this service's."""
        address = Address.of(url)
        # What the shim keeps for itself is no caller's: a record that is removed is as good as never written.
        if {".", ".."}.isdisjoint(address.path.split("/")) and not is_state(address.path):
            for number, (mounted, _) in enumerate(self._mountings):
                if mounted.holds(address):
                    fs = self._filesystem(number, address.account, caller)
                    # Who calls means it literally, and here it is one version of another object.
                    if fs.mount.paths.is_a_version(address.path):
                        break
                    return fs, address.path
        raise Outside(f"{url} is outside what this service answers for")

    def give_turns_back(self) -> None:
        """Release the turns of all callers, who are gone."""
        with self._lock:
            made = list(self._made.values())
        for fs in made:
            fs.guard.ledgers.give_turns_back()

    def is_apart(self, url: str) -> bool:
        """Whether no mount is at an address, above or below it, but one is in its bucket, or on its disk."""
        address = Address.of(url)
        parts = address.path.split("/")
        if not {".", ".."}.isdisjoint(parts):
            return False
        # Other schemes and other spellings of an account may lead to the same bytes.
        store = [
            each._replace(scheme="", account="")
            for each, _ in self._mountings
            if _SCHEMES[each.scheme] == _SCHEMES.get(address.scheme)
            and each.path.split("/")[0] in ("", parts[0])
        ]
        here = address._replace(scheme="", account="")
        return bool(store) and not any(each.holds(here) or here.holds(each) for each in store)

    def within(self, url: str, caller: Caller) -> list[GuardedFileSystem]:
        """Return the filesystems of all mounts that an address is in, or that are below it."""
        address = Address.of(url)
        found = [
            self._filesystem(number, address.account or mounted.account, caller)
            for number, (mounted, _) in enumerate(self._mountings)
            if mounted.holds(address) or address.holds(mounted)
        ]
        if not found:
            raise Outside(f"{url} is outside what this service answers for")
        return found

    def _filesystem(self, number: int, account: str, caller: Caller) -> GuardedFileSystem:
        key = (number, account, caller)
        with self._lock:
            fs = self._made.get(key)
            if fs is None:
                address, mounting = self._mountings[number]
                protocol = _SCHEMES[address.scheme]
                options = dict(mounting.options)
                if protocol == "piaaz":
                    options |= account_of(account, options)
                if protocol not in ("piafile", "piamemory"):
                    # A service lives long, and others write to its stores.
                    options = {"use_listings_cache": False} | options
                if protocol == "pias3":
                    config = options.get("config_kwargs") or {}
                    options["config_kwargs"] = {"max_pool_connections": _CONNECTIONS, **config}
                options |= {"writer_session": caller.session, "writer": caller.writer}
                lender = self._lenders.get((number, account))
                with borrowing(lender):
                    fs = fsspec.filesystem(protocol, skip_instance_cache=True, **options)
                if lender is None:
                    self._lenders[number, account] = fs
                self._made.keep(key, fs)
                for idle in list(self._made.values())[:-_MOST_READ]:
                    idle.guard.ledgers.rest()
            self._made.move_to_end(key)
            return fs
