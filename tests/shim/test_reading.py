"""What reading says when the store refuses."""

from __future__ import annotations

import pytest

from putifabsent.backends.base import Refused
from putifabsent.shim.requests import Get, read


def refused() -> PermissionError:
    """Return a store's error that has a client library's for its cause."""
    refusal = PermissionError("you may not")
    refusal.__cause__ = ValueError("the client library's own")
    return refusal


def test_a_refusal_keeps_the_cause_that_it_has() -> None:
    refusal, protocol = refused(), read(Get("name"))
    next(protocol)
    with pytest.raises(PermissionError) as caught:
        protocol.send(Refused(refusal))
    assert caught.value is refusal
    assert isinstance(refusal.__cause__, ValueError)


def test_what_is_raised_in_place_of_a_refusal_has_it_for_its_cause() -> None:
    refusal, protocol = refused(), read(Get("name"), lambda error: KeyError(str(error)))
    next(protocol)
    with pytest.raises(KeyError) as caught:
        protocol.send(Refused(refusal))
    assert caught.value.__cause__ is refusal
