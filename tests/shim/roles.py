"""A line of letters is who does what: scenarios of ballots, claims and locks are written so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from putifabsent.testing.explore import Actor

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.shim.requests import Protocol

    Played = Callable[[str, str], tuple[str, Callable[[], Protocol[Any]]]]


UNTIMED = "fx"
"""Who forgets a lock and who cleans up do nothing to a name that has an order."""


def actors_of(roles: str, played: Played) -> list[Actor]:
    """Return a process for each letter; those of one word come one after the other.

    Parameters
    ----------
    roles
        Words of letters.
    played
        Says what a process of that letter and name does: its role, and what makes its protocol. The name
        is its token, too.
    """
    found: list[Actor] = []
    for word in roles.split():
        before = None
        for letter in word:
            name = f"{letter}{len(found)}"
            role, make = played(letter, name)
            found.append(Actor(name, role, make, name, before, timed=letter.lower() not in UNTIMED))
            before = name
    return found
