"""One transaction for the guarded and the wrapped filesystem: files are completed in the order of writing."""

from __future__ import annotations

import contextlib
from typing import Any

from fsspec.transaction import Transaction

__all__ = ["JointTransaction"]


class JointTransaction(Transaction):
    """Ends whatever its files do.

    fsspec 2025 leaves a transaction open where a commit fails, and a name that is taken is such a
    failure: every later write would be deferred, and never be committed.
    """

    fs: Any

    def start(self) -> None:
        """Defer what either filesystem opens from now on."""
        super().start()
        self.fs.fs._intrans = True
        self.fs.fs._transaction = self

    def complete(self, commit: bool = True) -> None:
        """Commit all files in order, or discard them; after one that fails, discard the rest."""
        try:
            while self.files:
                file: Any = self.files[0]
                file.commit() if commit else file.discard()
                self.files.popleft()
        finally:
            for file in self.files:
                with contextlib.suppress(Exception):
                    file.discard()
            self.files.clear()
            guarded, self.fs = self.fs, None
            for each in (guarded.fs, guarded):
                each._intrans = False
                each._transaction = None
