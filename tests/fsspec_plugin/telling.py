"""What is observed: creations in both colours, under stores and registries that tell what they are asked."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.shim.arbiter import Claiming, Locking

if TYPE_CHECKING:
    from tests.fsspec_plugin.grounds import Ground

__all__ = ["BODY", "COLOURS", "EACH", "Telling", "kind_of", "told_by"]

BODY = b"what is written is nobody's business"

EACH = pytest.mark.parametrize(
    "ground", ["memory-native", "memory-ballot", "memory-claims", "memory-redis"], indirect=True
)


def at_once(fs: Any, name: str) -> None:
    fs.pipe_file(name, BODY)


def awaited(fs: Any, name: str) -> None:
    asyncio.run(fs._pipe_file(name, BODY))


COLOURS = pytest.mark.parametrize("create", [at_once, awaited])


def kind_of(ground: Ground) -> str:
    """Return what the arbiter is called: what its address begins with."""
    return ground.arbiter.partition("://")[0]


_OF_STORES = ("create", "head", "get", "list", "put", "publish", "delete")
_OF_REGISTRIES = {"read": "read_claim", "write": "write_claim", "acquire": "acquire", "release": "release"}


class Telling:
    """What it stands for, but it tells of each call; ``instead`` answers some of them."""

    def __init__(self, real: Any, told: list[str], kinds: dict[str, str], **instead: Any) -> None:
        self._real = real
        self._told = told
        self._kinds = kinds
        self._instead = instead

    def __getattr__(self, attribute: str) -> Any:
        method = attribute.removesuffix("_async")
        found = self._instead.get(attribute) or getattr(self._real, attribute)
        if method not in self._kinds:
            return found

        def told(*args: Any) -> Any:
            self._told.append(self._kinds[method])
            return found(*args)

        return told


def told_by(
    ground: Ground, *, instead: dict[str, Any] | None = None, **options: Any
) -> tuple[Any, list[str]]:
    """Return a mount that has created a name before, and what store and registry are asked from now on."""
    fs = ground.mount(skip_instance_cache=True, **options)
    fs.pipe_file(ground.log(0), b"agreed")
    # A look past every protocol, so that nothing counts it.
    fs.guard.refuse_folder = lambda _: None
    told: list[str] = []
    fs.mount._store = Telling(fs.backend, told, {each: each for each in _OF_STORES}, **(instead or {}))
    arbiter = fs.decider
    if isinstance(arbiter, (Claiming, Locking)):
        asked = "claims" if isinstance(arbiter, Claiming) else "lock"
        telling: Any = Telling(getattr(arbiter, asked), told, _OF_REGISTRIES)
        fs.mount._arbiter = replace(arbiter, **{asked: telling})
    return fs, told
