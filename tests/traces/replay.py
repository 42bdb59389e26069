"""A trace, called once more: on a filesystem as it is, and through a guarded one, as the adapter does."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from putifabsent.errors import NameTaken
from putifabsent.fsspec_plugin import GuardedFileSystem
from putifabsent.fsspec_plugin.remote import Remote
from tests.traces.trace import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fsspec import AbstractFileSystem

    from tests.traces.trace import Call

__all__ = ["ROUND", "Adapted", "Stock", "outcomes"]


# The documentation wants Hudi's tables upgraded round the shim, with writers stopped: it gives completed
# instants other names.
ROUND = "to table version "


class Stock:
    """What Hadoop's calls do on a filesystem: a file is there when it is written; no rename replaces."""

    def __init__(self, fs: AbstractFileSystem, root: str) -> None:
        self.fs = fs
        self.root = root

    def bare(self) -> Stock:
        """Return the same without the shim."""
        return self

    def restart(self) -> None:
        """Begin a writer's next life."""

    def at(self, name: str) -> str:
        return f"{self.root}/{name}"

    def create(self, call: Call) -> str:
        if not call.flag and self.fs.exists(self.at(call.name)):
            return "exists"
        self.fs.pipe_file(self.at(call.name), call.data)
        return "done"

    def rename(self, call: Call) -> str:
        source, target = self.at(call.name), self.at(str(call.body))
        if self.fs.exists(target) or not self.fs.exists(source):
            return "false"
        self.fs.mv(source, target)
        return "done"

    def delete(self, call: Call) -> str:
        try:
            self.fs.rm(self.at(call.name), recursive=call.flag)
        except FileNotFoundError:
            return "false"
        return "done"

    def files(self) -> dict[str, bytes]:
        """Return all files."""
        found = self.fs.find(self.root)
        return {name[len(self.root) :]: self.fs.cat_file(name) for name in found}


class Adapted(Stock):
    """What the adapter and the service make of them, over a guarded filesystem."""

    fs: GuardedFileSystem

    def bare(self) -> Stock:
        return Stock(self.fs.fs, self.root)

    def restart(self) -> None:
        self.fs = GuardedFileSystem(fs=self.fs.fs, writer_session=_token())

    def create(self, call: Call) -> str:
        path = self.at(call.name)
        try:
            admitted = Remote(self.fs).admit(path, overwrite=call.flag)
            if admitted.guarded and Remote(self.fs).create_as(path, call.data, _token(), overwrite=call.flag):
                return "done"
        except NameTaken:
            return "exists"
        return self.bare().create(call)

    def rename(self, call: Call) -> str:
        try:
            if Remote(self.fs).rename_as(self.at(call.name), self.at(str(call.body)), _token()):
                return "done"
        except NameTaken:
            return "false"
        return self.bare().rename(call)

    def delete(self, call: Call) -> str:
        try:
            if Remote(self.fs).removed(self.at(call.name), recursive=call.flag):
                return "done"
        except FileNotFoundError:
            return "false"
        return self.bare().delete(call)


def outcomes(
    trace: Iterable[Call | Step], on: Stock, after: Callable[[Call, str], None] | None = None
) -> list[str]:
    """Make the calls of a trace, and return what came of each, with the command that it belongs to."""
    found, step = [], ""
    for each in trace:
        if isinstance(each, Step):
            if step.startswith(ROUND):
                on.restart()
            step = each.step
            continue
        outcome: str = getattr(on.bare() if step.startswith(ROUND) else on, each.verb)(each)
        found.append(f"{step}: {each.verb} {each.name} {each.flag}: {outcome}")
        if after is not None:
            after(each, outcome)
    return found


def _token() -> str:
    return str(uuid.uuid4())
