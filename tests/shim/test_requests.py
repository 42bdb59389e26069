"""Each request calls one method, of the store or of what it names first, with its fields in their order."""

from __future__ import annotations

import typing
from inspect import signature
from typing import Any

import pytest

from putifabsent.backends.base import Store
from putifabsent.backends.registries import Claims, Counter, Lock
from putifabsent.shim import requests

BY_THE_DRIVER = {requests.Both, requests.Now, requests.Pause, requests.Since, requests.Sleep}
CALLED = {"claims": Claims, "lock": Lock, "counter": Counter}
OTHERWISE = {"wanted": "count"}  # a tuple's own `count` is a method


@pytest.mark.parametrize(("kind", "method"), requests._OF_THE_STORE.items())
def test_a_request_of_the_store_has_the_parameters_of_its_method(kind: Any, method: str) -> None:
    assert tuple(signature(getattr(Store, method)).parameters)[1:] == kind._fields
    assert callable(getattr(Store, f"{method}_async"))


@pytest.mark.parametrize(("kind", "method"), requests._OF_ITS_FIRST.items())
def test_a_request_of_another_has_the_parameters_of_its_method_behind_it(kind: Any, method: str) -> None:
    first, *others = kind._fields
    parameters = tuple(signature(getattr(CALLED[first], method)).parameters)[1:]
    assert parameters == tuple(OTHERWISE.get(each, each) for each in others)
    assert callable(getattr(CALLED[first], f"{method}_async"))


def test_every_request_is_performed() -> None:
    every = set(typing.get_args(requests.Request))
    assert {*requests._OF_THE_STORE, *requests._OF_ITS_FIRST} == every - BY_THE_DRIVER
