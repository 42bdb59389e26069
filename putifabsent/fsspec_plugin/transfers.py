"""Creating a guarded name from another object: by the store's own copies or, for an arbiter, through here."""

from __future__ import annotations

import contextlib
import errno
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from putifabsent.backends.base import Found
from putifabsent.backends.streaming_upload import FileBody
from putifabsent.fsspec_plugin.keeping import Keeps
from putifabsent.fsspec_plugin.steps import Ask, Call, Decide
from putifabsent.shim.create import copy, rename
from putifabsent.shim.formats.whole import Seen, check_whole, looked_at
from putifabsent.shim.reading import read
from putifabsent.shim.requests import Head

if TYPE_CHECKING:
    from collections.abc import Mapping

    from putifabsent.backends.base import Absent
    from putifabsent.fsspec_plugin.steps import Steps
    from putifabsent.shim.names import Name

__all__ = ["Transfers"]


class Transfers(Keeps):
    """Creates guarded names from other objects."""

    def _from(self, source: str, name: Name, extra: Mapping[str, Any], *, keep: bool) -> None:
        self._walk_steps(self._transferring(source, name, _without_onerror(extra), keep=keep))

    async def _from_async(self, source: str, name: Name, extra: Mapping[str, Any], *, keep: bool) -> None:
        await self._walk_steps_async(self._transferring(source, name, _without_onerror(extra), keep=keep))

    def _transferring(
        self, source: str, name: Name, extra: Mapping[str, Any], *, keep: bool, token: str | None = None
    ) -> Steps[None]:
        self._refuse_folder(name)
        yield from self._relying(name)
        judged = self._is_judged(name) or (not keep and self._is_judged(self.explain(source)))
        if self._arbiter is not None or judged or self._recorded(source) is not None:
            yield from self._through_here(source, name, extra, token)
            if not keep:
                # A source that stays behind is litter, not harm: the name is decided.
                with contextlib.suppress(Exception):
                    yield from self._removing_file(source, {})
            return
        protocol = copy if keep else rename
        copies = yield from self._relying_on_copies(name)
        creation, most = self._creation(name, extra, token), self.backend.largest_put
        seen: Found | Absent = yield Decide(read(Head(source)))
        if isinstance(seen, Found) and seen.holder.size > most:
            yield from self._judging(source, seen.holder.size, name)
        creating = protocol(source, name, creation, largest_put=most, copies=copies, seen=seen)
        yield Decide(creating, name, creates=True)
        if not keep:
            self.fs.invalidate_cache(source)

    def _judging(self, source: str, size: int, name: Name) -> Steps[None]:
        """Judge, by its ends, what is too large to be read; the store copies it by itself."""
        pieces = {}
        for start, stop in looked_at(name, size):
            pieces[start] = yield Call("cat_file", (source,), {"start": start, "end": stop})
        if pieces:
            yield Ask(partial(check_whole, name, Seen(size, pieces)))

    def _through_here(
        self, source: str, name: Name, extra: Mapping[str, Any], token: str | None
    ) -> Steps[None]:
        """Create a name whose bytes lie elsewhere until an arbiter, or a ledger, has decided."""
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder, "copy")
            try:
                yield from self._reading("get_file", source, (str(here),), {})
            except FileNotFoundError as error:
                raise FileNotFoundError(errno.ENOENT, "the source is not there", source) from error
            with here.open("rb") as file:
                body = FileBody(file)
                yield Ask(partial(check_whole, name, body))
                creating = self._creating(name, body, self._creation(name, extra, token))
                yield Decide(creating, name, creates=True)


def _without_onerror(extra: Mapping[str, Any]) -> dict[str, Any]:
    # Not a parameter of the put: the `mv` of fsspec 2025 hands it down by mistake.
    return {key: value for key, value in extra.items() if key != "onerror"}
