"""Every public name of every filesystem that is wrapped: whose it is on the guarded one."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem

from putifabsent.fsspec_plugin.options import Options
from putifabsent.fsspec_plugin.queries import HANDED_ON, OF_A_NAME, RENAMES, WRITES

if TYPE_CHECKING:
    from collections.abc import Iterable

TABLES = (HANDED_ON, OF_A_NAME, RENAMES, WRITES)
OPTIONS: dict[str, dict[str, Any]] = {
    "file": {},
    "memory": {},
    "s3": {"key": "a", "secret": "b"},
    "gs": {"token": "anon", "project": "p"},
    "az": {"account_name": "a", "account_key": "a2V5"},
}
GUARDED = {"file": "piafile", "memory": "piamemory", "s3": "pias3", "gs": "piags", "az": "piaaz"}
ASKS = "buckets"
"""A property that sends requests."""
OVER_OURS = {"upload", "download"}
"""What a wrapped filesystem says anew as fsspec says it: by its ``put`` and ``get``, which here are ours."""
ITS_OWN = {"protocol", "storage_options", "storage_args", "dircache", "async_impl"}
"""What must differ, or is looked at elsewhere."""


def both(plain: str) -> tuple[Any, Any]:
    options = OPTIONS[plain]
    return fsspec.filesystem(plain, **options), fsspec.filesystem(GUARDED[plain], **options)


def public(names: Iterable[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")} - {ASKS}


def is_ours(cls: type, name: str) -> bool:
    """Whether the guarded filesystem says itself what a name is."""
    owner = next((each for each in cls.__mro__ if name in vars(each)), object)
    return owner.__module__.startswith("putifabsent.")


def is_fsspec_s(cls: type, name: str) -> bool:
    """Whether a class has what fsspec's own has, which on the guarded filesystem works by its methods."""
    return any(
        inspect.getattr_static(base, name, None) is inspect.getattr_static(cls, name)
        for base in (AsyncFileSystem, AbstractFileSystem)
        if issubclass(cls, base)
    )


def of_spec(name: str) -> bool:
    return has(LocalFileSystem(), name) or has(AsyncFileSystem(), name)


def has(fs: Any, name: str) -> bool:
    try:
        getattr(fs, name)
    except (NotImplementedError, RuntimeError):
        return True  # it has it, and says that there is nothing yet
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize("plain", OPTIONS)
def test_every_method_of_a_wrapped_filesystem_has_its_place(plain: str) -> None:
    stock, fs = map(type, both(plain))
    methods = {name for name in public(dir(stock)) if callable(getattr(stock, name))}
    unknown = {
        name
        for name in methods
        if not (is_ours(fs, name) or is_fsspec_s(stock, name) or any(name in table for table in TABLES))
    }
    assert unknown - OVER_OURS == set(), "say in queries.py what these do, after reading them"


@pytest.mark.parametrize("plain", OPTIONS)
def test_all_that_a_wrapped_filesystem_has_is_there(plain: str) -> None:
    stock, fs = both(plain)
    assert {
        name for name in public({*dir(stock), *vars(stock)}) if has(stock, name) and not has(fs, name)
    } == set()


@pytest.mark.parametrize("plain", OPTIONS)
def test_its_data_is_the_wrapped_filesystem_s(plain: str) -> None:
    stock, fs = both(plain)
    data = {name for name in public(vars(stock)) if not callable(getattr(stock, name))} - ITS_OWN
    assert {name for name in data if getattr(fs, name) is not getattr(fs.fs, name)} == set()


@pytest.mark.parametrize("plain", OPTIONS)
def test_nothing_of_ours_has_the_name_of_something_else(plain: str) -> None:
    stock, fs = both(plain)
    ours = {name for name in public(dir(type(fs))) if is_ours(type(fs), name) and not of_spec(name)}
    assert ours & {*dir(type(stock)), *vars(stock)} == set()
    constructors = [vars(cls)["__init__"] for cls in type(stock).__mro__ if "__init__" in vars(cls)]
    options = {name for each in constructors[:-1] for name in inspect.signature(each).parameters}
    assert options & set(Options.__dataclass_fields__) == set()


CALLS: dict[str, list[Any]] = {
    "cp_file": ["b/a", "b/c"],
    "find": ["b/a"],
    "get_file": ["b/a", "/nowhere/c"],
    "info": ["b/a"],
    "makedir": ["b/a"],
    "mkdir": ["b/a"],
    "pipe_file": ["b/a", b"x"],
    "put_file": [__file__, "b/a"],
    "rm": ["b/a"],
    "rm_file": ["b/a"],
    "rmdir": ["b/a"],
    "touch": ["b/a"],
}
"""What is handed on as it is said, of names that nothing guards."""


@pytest.mark.parametrize("places", [True, False], ids=["by places", "by names"])
@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("plain", OPTIONS)
def test_what_a_call_says_means_the_same(
    monkeypatch: pytest.MonkeyPatch, plain: str, method: str, places: bool
) -> None:
    if (plain, method) == ("file", "get_file"):
        method = "cp_file"  # onto the disk that is guarded, the one is the other
    fs = both(plain)[1]
    signature = inspect.signature(getattr(fs.fs, method))
    said = {
        each.name: CALLS[method][place] if place < len(CALLS[method]) else each.default
        for place, each in enumerate(signature.parameters.values())
        if each.kind is each.POSITIONAL_OR_KEYWORD
    }
    heard = []

    def noted(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        heard.append(
            {name: each for name, each in bound.arguments.items() if name not in ("callback", "kwargs")}
        )
        return {}

    monkeypatch.setattr(noted, "__signature__", signature, raising=False)  # which inspect reads
    monkeypatch.setattr(fs.fs, method, noted)
    getattr(fs, method)(*said.values()) if places else getattr(fs, method)(**said)
    assert heard == [{name: each for name, each in said.items() if name != "callback"}]
