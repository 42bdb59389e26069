"""The verbs about single names: ``putifabsent explain``, ``put`` and ``resolve``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer
from fsspec.implementations.local import make_path_posix
from rich.table import Table
from rich.text import Text

from putifabsent.backends.base import Absent, Found
from putifabsent.cli.arguments import AsJson, Endpoint, Options, Url, guarded_address, mount
from putifabsent.cli.screen import Exit, answering, empty_table
from putifabsent.errors import ConfigError
from putifabsent.fsspec_plugin.paths import spelled_out
from putifabsent.shim.policy import Policy
from putifabsent.shim.state_keys import creation_of

_WRITES = {None: "depends on that", True: "creates, or fails", False: "overwrites"}


def explain(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Addresses, or local paths.")],
    *,
    check: Annotated[bool, typer.Option("--check", help="Look for the evidence at the store.")] = False,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", help="A format that the mount names (formats=[...]). Repeatable."),
    ] = None,
    guard: Annotated[
        list[str] | None, typer.Option(help="A pattern of more names to guard (guard=[...]). Repeatable.")
    ] = None,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Say what names are to their table formats, and what a plain write to them would do.

    Names alone are enough: no request goes to a store, unless --check is given.
    """
    with answering(as_json=as_json) as screen:
        policy = Policy(formats or "auto", guard or ())
        rows = [_explained(policy, name, option, endpoint_url, check=check) for name in names]
        screen.answer(rows, _tables(rows, checked=check))


def _explained(
    policy: Policy, url: str, option: Sequence[str] | None, endpoint_url: str | None, *, check: bool
) -> dict[str, Any]:
    """Return what a name is to its table format, and what a plain write to it does."""
    protocol, path = guarded_address(url)
    name = policy.classify(
        spelled_out(make_path_posix(path), "local") if protocol == "piafile" else path.rstrip("/")
    )
    found = against = None
    if check:
        fs, _ = mount(url, option, endpoint_url)
        found, against = (
            next((each for each in paths if fs.exists(each)), None) for paths in (name.evidence, name.unless)
        )
    guarded: bool | None = name.guarded and against is None
    if guarded and name.evidence:
        guarded = found is not None if check else None
    return {
        "name": url,
        "path": name.path,
        "role": name.role.value,
        "format": name.format,
        "table": name.table,
        "identity": name.identity,
        "guarded": guarded,  # null: that depends on the evidence, which was not looked for
        "evidence": list(name.evidence),
        "found": found,
        "unless": list(name.unless),
        "against": against,
        "write": _WRITES[guarded],
    }


def _tables(rows: Sequence[dict[str, Any]], *, checked: bool) -> Iterator[Table | str]:
    """Return the names by their tables: of a table's name only what is inside it."""
    for place, ones in groupby(rows, _place):
        yield place or "in no table"
        shown = [_cells(one, place, checked=checked) for one in ones]
        # Most names are identities of their own, and a line has no room for saying so.
        columns = [each for each in shown[0] if each != "identity" or any(row[each] for row in shown)]
        table = empty_table(*columns)
        for row in shown:
            table.add_row(*(row[each] for each in columns))
        yield table


def _cells(one: dict[str, Any], place: str, *, checked: bool) -> dict[str, Text | str]:
    is_itself = one["identity"] == one["path"]
    return {
        "name": Text(one["name"].removeprefix(f"{place}/") if place else one["name"]),
        "role": one["role"],
        "format": one["format"] or "",
        "identity": Text("" if is_itself else _in_table(one, one["identity"])),
        "guarded": _guarded(one, checked=checked),
        "a plain write": one["write"],
    }


def _place(one: dict[str, Any]) -> str:
    """Return the address of a name's table; none: the name is in no table that its path shows."""
    inside = f"/{_in_table(one, one['path'])}"
    return one["name"].removesuffix(inside) if one["table"] and one["name"].endswith(inside) else ""


def _guarded(one: dict[str, Any], *, checked: bool) -> Text:
    if one["against"] is not None:
        return Text(f"no: {_in_table(one, one['against'])} is there")
    wanted = " or ".join(_in_table(one, path) for path in one["evidence"])
    if one["guarded"] is None:
        return Text(f"with evidence: {wanted}", "yellow")
    if one["guarded"]:
        return Text(f"yes: {_in_table(one, one['found'])} is there" if one["found"] else "yes", "green")
    return Text(f"no: {wanted} is not there" if checked and wanted else "no")


def _in_table(one: dict[str, Any], path: str) -> str:
    """Return a path as seen from the table's root, which is all that a line has room for."""
    return path.removeprefix(f"{one['table']}/")


def put(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, readable=True, help="A local file.")
    ],
    url: Url,
    *,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Create a name from a file, only if the name is not there; any name, guarded or not.

    It exits with 1 if the name is taken. If it exits with 3, the outcome is unknown: keep the file, and ask
    with `putifabsent resolve`, with the token that it printed.
    """
    with answering(url, as_json=as_json) as screen:
        if url.endswith("/"):
            raise ConfigError(f"{url} is a folder: give the whole name, {url}{file.name}")
        fs, path = mount(url, option, endpoint_url)
        with screen.waiting(f"creating {url}"):
            fs.put_file(file, path, mode="create")
            seen = fs.backend.head(path)
        token = version = None
        is_read = isinstance(seen, (Absent, Found))
        since = "it has been removed or replaced since" if is_read else "what is there now can't be read"
        shown = [f"created {url}; {since}"]
        if isinstance(seen, Found) and seen.holder.writer == fs.writer:
            token, version = creation_of(seen.holder.token or ""), seen.holder.version
            shown = [f"created {url}", f"  token    {token}", f"  version  {version or 'the store has none'}"]
        screen.answer({"outcome": "created", "name": url, "token": token, "version": version}, shown)


def resolve(
    url: Url,
    creation: Annotated[UUID, typer.Argument(metavar="TOKEN", help="Its token: see OutcomeUnknown.")],
    *,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Answer an unknown outcome later.

    It exits with 0 if the creation with this token holds the name, with 1 if another one does, and with 3
    if the name is not there or the store can't be read: then it is still unknown.
    """
    with answering(url, as_json=as_json) as screen:
        token = str(creation)
        fs, path = mount(url, option, endpoint_url)
        holder = fs.resolve(path, token)
        if holder is None:
            from putifabsent.timeline.files import lacks_bucket

            bucket = ", nor is its bucket" if lacks_bucket(fs, path) else ""
            absent = (
                f"{url} is not there now{bucket}. The creation may never have happened, may have been "
                f"deleted since, or may still land: ask again, or create the name again"
            )
            screen.answer({"outcome": "absent", "name": url, "token": token, "version": None}, (absent,))
            raise typer.Exit(Exit.UNKNOWN)
        screen.answer(
            {"outcome": "created", "name": url, "token": token, "version": holder.version},
            (f"{url} was created by it, {holder.size} bytes: {holder}",),
        )
