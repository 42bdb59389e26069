"""Conformance suites for stores and registries, and the races they run; for third parties' backends too.

Subclass :class:`StoreTests`, say where the store is, and inherit every test::

    class TestMyStore(StoreTests):
        @pytest.fixture
        def store(self):
            return MyStore()

        @pytest.fixture
        def folder(self, tmp_path):
            return str(tmp_path)

Registries have suites of their own, and more promises of stores are classes that go with it: the
documentation, under "How do I test a store of my own?", has all of them and their fixtures.

:func:`race` needs no pytest: race whatever creates names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from putifabsent.testing.races import Race, Raced, race

if TYPE_CHECKING:
    from putifabsent.testing.asking import Around, Ask
    from putifabsent.testing.counters import CounterTests, LostCounterTests
    from putifabsent.testing.publishing import PublishTests
    from putifabsent.testing.registries import ClaimsTests, LockTests, LostClaimTests, LostLockTests
    from putifabsent.testing.stores import LostAnswerTests, SharedStoreTests, StoreTests

__all__ = [
    "Around",
    "Ask",
    "ClaimsTests",
    "CounterTests",
    "LockTests",
    "LostAnswerTests",
    "LostClaimTests",
    "LostCounterTests",
    "LostLockTests",
    "PublishTests",
    "Race",
    "Raced",
    "SharedStoreTests",
    "StoreTests",
    "race",
]

# What imports pytest, and has the names that are not here.
_SUITES = [f"{__name__}.{each}" for each in ("asking", "counters", "publishing", "registries", "stores")]


def __getattr__(name: str) -> object:
    if name in __all__:
        import pytest

        # So that a failed assertion shows what it compared, as it does in a test module.
        pytest.register_assert_rewrite(*_SUITES)
        return next(getattr(found, name) for found in map(import_module, _SUITES) if hasattr(found, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
