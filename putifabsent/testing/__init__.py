"""Conformance suites for stores and registries, and the races they run; for third parties' backends too.

Subclass :class:`StoreTests`, say where the store is, and inherit every test::

    import pytest
    from putifabsent.testing import Around, StoreTests


    class Disk(Around):
        def read(self, name):
            path = pathlib.Path(name)
            return path.read_bytes() if path.exists() else None

        def write(self, name, data):
            path = pathlib.Path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


    class TestMyStore(StoreTests):
        @pytest.fixture
        def store(self):
            return MyStore()

        @pytest.fixture
        def folder(self, tmp_path):
            return str(tmp_path)

        @pytest.fixture
        def around(self):
            return Disk()

More promises are classes of their own, which go with it: :class:`SharedStoreTests` for a store that
processes share, :class:`PublishTests` for what arbiters build on that are not the store itself,
:class:`ConditionalCopyTests` for one that copies conditionally, :class:`LostAnswerTests` for one behind a
network. Registries have theirs: :class:`ClaimsTests` with
:class:`LostClaimTests`, :class:`LockTests` with :class:`LostLockTests`, :class:`CounterTests` with
:class:`LostCounterTests`.

:func:`race` needs no pytest: race whatever creates names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from putifabsent.testing.races import Race, Raced, race, through_filesystem, through_made_store, through_store

if TYPE_CHECKING:
    from putifabsent.testing.asking import Around, Ask
    from putifabsent.testing.claims import ClaimsTests, LostClaimTests
    from putifabsent.testing.counters import CounterTests, LostCounterTests
    from putifabsent.testing.locks import LockTests, LostLockTests
    from putifabsent.testing.lost import LostAnswerTests
    from putifabsent.testing.publishing import ConditionalCopyTests, PublishTests
    from putifabsent.testing.stores import SharedStoreTests, StoreTests

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
    "through_filesystem",
    "through_made_store",
    "through_store",
]

# What imports pytest, by the module that it is in.
_SUITES = {
    "Around": "asking",
    "Ask": "asking",
    "ClaimsTests": "claims",
    "ConditionalCopyTests": "publishing",
    "CounterTests": "counters",
    "LockTests": "locks",
    "LostAnswerTests": "lost",
    "LostClaimTests": "claims",
    "LostCounterTests": "counters",
    "LostLockTests": "locks",
    "PublishTests": "publishing",
    "SharedStoreTests": "stores",
    "StoreTests": "stores",
}


def __getattr__(name: str) -> object:
    if name in _SUITES:
        import pytest

        # So that a failed assertion shows what it compared, as it does in a test module.
        pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in set(_SUITES.values())))
        return getattr(import_module(f"{__name__}.{_SUITES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
