"""Conformance suites for stores and registries, and the races they run; for third parties' backends too.

Subclass :class:`StoreTests`, say where the store is, and inherit every test::

    class TestMyStore(StoreTests):
        @pytest.fixture
        def store(self):
            return MyStore()

        @pytest.fixture
        def folder(self, tmp_path):
            return str(tmp_path)

More promises are classes of their own, which go with it: :class:`SharedStoreTests` for a store that
processes share, :class:`PublishTests` for what arbiters build on that are not the store itself,
:class:`ConditionalCopyTests` for one that copies conditionally, :class:`LostAnswerTests` for one behind a
network. Registries have theirs: :class:`ClaimsTests` with
:class:`LostClaimTests`, :class:`LockTests` with :class:`LostLockTests`, :class:`CounterTests` with
:class:`LostCounterTests`. Those of lost answers want two fixtures, second accesses to the same data: of
``unanswered`` every request is applied, and every answer is lost; of ``unheard`` every request is lost on its
way, after it has been sent.

:func:`race` needs no pytest: race whatever creates names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from putifabsent.testing.races import Race, Raced, race

if TYPE_CHECKING:
    from putifabsent.testing.asking import Around, Ask
    from putifabsent.testing.counters import CounterTests, LostCounterTests
    from putifabsent.testing.publishing import ConditionalCopyTests, PublishTests
    from putifabsent.testing.registries import ClaimsTests, LockTests, LostClaimTests, LostLockTests
    from putifabsent.testing.stores import LostAnswerTests, SharedStoreTests, StoreTests

__all__ = [
    "Around",
    "Ask",
    "ClaimsTests",
    "ConditionalCopyTests",
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
