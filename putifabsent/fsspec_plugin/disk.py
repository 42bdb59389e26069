"""What the guarded filesystem of a local disk has beside: links, modes, and that it is a ``LocalFileSystem``.

Others ask for that by ``isinstance``: fsspec's ``DirFileSystem`` refuses ``..`` there alone, since nowhere
else it leads out of a folder.
"""

from __future__ import annotations

import io
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from putifabsent.fsspec_plugin.filesystem import GuardedFileSystem

__all__ = ["GuardedDisk"]


class GuardedDisk(GuardedFileSystem, LocalFileSystem):
    """Guards a local disk."""

    root_marker = "/"

    @property
    def auto_mkdir(self) -> bool:
        """Whether the folders of what is written are made."""
        return bool(self.fs.auto_mkdir)

    @auto_mkdir.setter
    def auto_mkdir(self, value: bool) -> None:
        # Set by LocalFileSystem's own constructor, too, which nothing is wrapped for yet.
        if "_fs" in vars(self):
            self.fs.auto_mkdir = value

    @property
    def fsid(self) -> Any:
        """What this disk is known by."""
        return self.fs.fsid

    def _isfilestore(self) -> bool:
        return bool(self.fs._isfilestore())

    def lexists(self, path: str, **kwargs: Any) -> bool:
        """Whether a name is there, be it a link to nothing."""
        return bool(self.fs.lexists(self._own(path), **kwargs)) or self.exists(path)

    def islink(self, path: str) -> bool:
        """Whether a name is a symbolic link."""
        return bool(self.fs.islink(self._own(path)))

    def chmod(self, path: str, mode: int) -> Any:
        """Set the permissions of a name."""
        return self._read("chmod", path, mode)

    def link(self, src: str, dst: str, **kwargs: Any) -> Any:
        """Make another name for a file: a hard link.

        Raises
        ------
        io.UnsupportedOperation
            One of the names is guarded: its bytes could be changed through the other.
        """
        self._refuse_links(src, dst)
        return self.fs.link(self._own(src), self._written_as(dst), **kwargs)

    def symlink(self, src: str, dst: str, **kwargs: Any) -> Any:
        """Make a symbolic link at ``dst``, to ``src``; it raises as :meth:`link` does."""
        self._refuse_links(src, dst)
        return self.fs.symlink(self._own(src), self._written_as(dst), **kwargs)

    def _refuse_links(self, src: str, dst: str) -> None:
        name = self._promote(dst, explicit=False) or self._walk_steps(self._guarded(src))
        if name is not None:
            msg = f"{name.path} is guarded: no link is made of it or to it. Copy the file"
            raise io.UnsupportedOperation(msg)
