"""The stores that libraries are tested on: those of the guarded filesystem's own tests."""

from __future__ import annotations

from tests.fsspec_plugin.conftest import ground, local, memory, s3

__all__ = ["ground", "local", "memory", "s3"]
