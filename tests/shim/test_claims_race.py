"""Many threads claim the same names over real stores that decide nothing, and a real registry."""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from putifabsent.backends.base import Absent, Creation, Found, Got, InMemory, Listed
from putifabsent.backends.local import LocalStore
from putifabsent.backends.memory import MemoryStore
from putifabsent.errors import NameTaken
from putifabsent.shim import claims as protocols
from putifabsent.shim.arbiter import Claiming
from putifabsent.shim.drive import run
from putifabsent.shim.names import ordinary
from putifabsent.shim.requests import Located
from putifabsent.shim.state_keys import folder_of
from putifabsent.testing.asking import together
from tests.backends.dynamodb_servers import claims_at, credentials_of_the_lab, one_at_a_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from putifabsent.backends.base import Store
    from putifabsent.backends.registries import Claims
    from tests.servers import Moto

WRITERS = 16
NAMES = 6
DEADLINE = 120.0


@pytest.fixture(scope="module")
def registry(moto: Moto) -> Iterator[Claims]:
    with credentials_of_the_lab(), one_at_a_time(moto) as proxy:
        claims = claims_at(proxy.endpoint)
        claims.init()
        yield claims


@pytest.fixture(params=["memory", "disk"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Store, str]:
    if request.param == "disk":
        return LocalStore(), str(tmp_path)
    return MemoryStore(MemoryFileSystem()), f"/{uuid.uuid4()}"


class Table:
    """One folder of names in a store, whose claims a registry keeps."""

    def __init__(self, store: Store, folder: str, registry: Claims) -> None:
        self.store = store
        self.folder = folder
        self._arbiter = Claiming(registry, "test://", 2**20)

    def create(self, name: str, token: str) -> Any:
        body = InMemory(token.encode())
        return self._run("create", name, token, body=body)

    def delete(self, name: str) -> None:
        self._run("delete", name, str(uuid.uuid4()))

    def clean(self, name: str) -> Any:
        return self._run("clean", name, str(uuid.uuid4()))

    def resolve(self, name: str, token: str) -> Any:
        return self._run("resolve", name, token)

    def find(self, name: str) -> Any:
        return self._run("find", name, str(uuid.uuid4()))

    def salted(self, name: str) -> list[str]:
        listed = self.store.list(folder_of(ordinary(f"{self.folder}/{name}")))
        assert isinstance(listed, Listed)
        return [entry.name for entry in listed.entries]

    def bytes_at(self, path: str) -> bytes:
        got = self.store.get(path)
        assert isinstance(got, Got)
        return got.data

    def _run(self, protocol: str, name: str, token: str, **more: Any) -> Any:
        full = ordinary(f"{self.folder}/{name}")
        creation = Creation(token, "writer", full.state)
        made = getattr(protocols, protocol)(self._arbiter, full, creation=creation, **more)
        return run(made, self.store, DEADLINE)


@pytest.fixture
def table(place: tuple[Store, str], registry: Claims) -> Table:
    return Table(*place, registry)


def _wins(table: Table, name: str, tokens: list[str], writer: int) -> str | None:
    return won(table, name, tokens[writer])


def _does(table: Table, name: str, writer: int) -> None:
    if writer % 4 == 3:
        table.delete(name)
    elif writer % 4 == 2:
        table.clean(name)
    else:
        won(table, name, str(uuid.uuid4()))


def won(table: Table, name: str, token: str) -> str | None:
    """Return the winner's token as this writer has heard it."""
    try:
        table.create(name, token)
    except NameTaken as taken:
        return taken.holder.token if taken.holder else None
    return token


def test_of_sixteen_writers_one_creates_each_name_and_all_others_hear_whose_it_is(table: Table) -> None:
    tokens = [str(uuid.uuid4()) for _ in range(WRITERS)]
    for number in range(NAMES):
        name = f"name-{number}"
        heard = together(WRITERS, partial(_wins, table, name, tokens))
        (winner,) = set(heard)
        assert winner in tokens
        found = table.find(name)
        assert isinstance(found, Located)
        assert found.holder.token == winner
        plain = f"{table.folder}/{name}"
        assert table.bytes_at(found.path) == table.bytes_at(plain) == str(winner).encode()
        assert table.salted(name) == [found.path], "losers have left their bytes"


def test_a_name_that_is_deleted_again_and_again_never_has_two_winners(table: Table) -> None:
    for number in range(4):
        name = f"name-{number}"
        together(WRITERS, partial(_does, table, name))
        found = table.find(name)
        plain = f"{table.folder}/{name}"
        if isinstance(found, Absent):
            assert isinstance(table.store.head(plain), Absent)
        else:
            assert table.bytes_at(found.path) == table.bytes_at(plain) == found.holder.token.encode()
        table.delete(name)
        table.clean(name)
        assert table.salted(name) == []
        assert not isinstance(table.store.head(plain), Found)
        assert table.find(name) == Absent()


def test_a_later_resolution_finds_the_winner(table: Table) -> None:
    token = str(uuid.uuid4())
    table.create("name", token)
    assert table.resolve("name", token).token == token
    with pytest.raises(NameTaken):
        table.resolve("name", str(uuid.uuid4()))
