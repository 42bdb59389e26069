"""For stores that take a body of any size in one step: staging keeps it, completing creates it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from putifabsent.backends.base import Absent, Created, Found, Gone, Got, Staged, Store
from putifabsent.backends.body import InMemory

if TYPE_CHECKING:
    from putifabsent.backends.base import CompleteOutcome, Creation, StageOutcome
    from putifabsent.backends.body import Body


class WholeStore(Store):
    """A store whose :meth:`create` takes a body of any size."""

    largest_put = sys.maxsize

    def stage(self, name: str, body: Body, creation: Creation) -> StageOutcome:
        """Keep the body; nothing reaches the store yet."""
        # A list, for it can be emptied: what was published or discarded can't be published any more.
        return Staged(name, [(body, creation)])

    def stage_copy(
        self, source: str, size: int, version: str | None, name: str, creation: Creation
    ) -> StageOutcome:
        """Read the source, and keep its bytes."""
        del size
        seen = self.head(source)
        if not isinstance(seen, Found):
            return seen
        if version is not None and seen.holder.version != version:
            return Absent()
        got = self.get(source)
        return self.stage(name, InMemory(got.data), creation) if isinstance(got, Got) else got

    def complete(self, staged: Staged) -> CompleteOutcome:
        """Create the name from the kept body."""
        kept = tuple(staged.upload)
        if not kept:
            return Gone()
        outcome = self.create(staged.name, *kept[0])
        if isinstance(outcome, Created):
            staged.upload.clear()
        return outcome

    def discard(self, staged: Staged) -> None:
        """Forget the body; nothing was sent."""
        staged.upload.clear()
