"""A plug-in of pytest that puts guarded filesystems in the place of those that a peer's suite constructs.

It is loaded alone (``-p guarding``, with this folder on the path), for some peers' suites are a package
``tests``, too. Without ``PUTIFABSENT_PEER_GUARDS`` nothing is replaced, and the suite is stock.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import fsspec

_ROOT = Path(os.environ["PUTIFABSENT_PEER_ROOT"])
_GUARDS = os.environ.get("PUTIFABSENT_PEER_GUARDS", "").split()
_AZURITE = os.environ.get("PUTIFABSENT_PEER_AZURITE")
_MOTO = os.environ.get("PUTIFABSENT_PEER_MOTO")

_instead: dict[int, Any] = {}
"""What replaces a class in the names of the suite's modules, by its id."""


def _guard(what: str) -> None:
    if what == "pyiceberg":
        from pyiceberg.io import fsspec as files

        from putifabsent.iceberg import GuardedFileIO

        files.FsspecFileIO = GuardedFileIO  # type: ignore[misc]
    elif what == "pypaimon":
        from pypaimon.catalog.catalog_factory import CatalogFactory

        from putifabsent.paimon import GuardedCatalog

        CatalogFactory.CATALOG_REGISTRY["filesystem"] = GuardedCatalog
    else:
        from putifabsent import guard_protocol

        stock = fsspec.get_filesystem_class(what)
        guard_protocol(what)
        guarded = fsspec.get_filesystem_class(what)
        if id(stock) not in _instead:
            _instead[id(stock)] = guarded
            _forget_together(stock, guarded)


def _forget_together(stock: Any, guarded: Any) -> None:
    """Have a suite that clears the cache of the stock class, between its event loops, clear both."""
    forget = stock.clear_instance_cache.__func__

    def forget_both(cls: Any) -> None:
        forget(cls)
        guarded._cache.clear()

    stock.clear_instance_cache = classmethod(forget_both)


def _start_no_container() -> None:
    """Have adlfs's suite find the server that there is, where it would have Docker start one."""
    from unittest.mock import MagicMock

    docker: Any = ModuleType("docker")
    docker.from_env = MagicMock()
    sys.modules["docker"] = docker
    from adlfs.tests import constants

    before = constants.URL
    for name, value in vars(constants).items():
        if isinstance(value, str) and before in value:
            setattr(constants, name, value.replace(before, str(_AZURITE)))


def _start_moto() -> None:
    """Have a suite find a server that it can't start: it calls ``moto_server`` as it was called before 5."""
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    ThreadedMotoServer(ip_address="127.0.0.1", port=int(str(_MOTO))).start()


# At once: pytest imports the suite's conftest before it calls a plug-in.
if _AZURITE:
    _start_no_container()
if _MOTO:
    _start_moto()
for each in _GUARDS:
    _guard(each)


def pytest_collection_finish() -> None:
    """Replace the classes that the suite's modules have imported by name."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file is None or not Path(file).is_relative_to(_ROOT):
            continue
        if "tests" in Path(file).relative_to(_ROOT).parts or _ROOT.name == "tests":
            for name, value in list(vars(module).items()):
                if id(value) in _instead:
                    setattr(module, name, _instead[id(value)])
