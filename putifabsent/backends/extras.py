"""Moved."""

from putifabsent.backends.refusals import unsupported

__all__ = ["unsupported"]
