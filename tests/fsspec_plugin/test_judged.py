"""Which calls a ledger judges, and what who is refused finds in the store."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent import Fenced, NameTaken
from putifabsent.backends.base import InMemory
from tests.fsspec_plugin.hudi_tables import Writer, table_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fsspec_plugin.grounds import Ground

BODY = b"{}"


def rolls_back(writer: Writer) -> None:
    writer.plans_rollback("200", of="100")
    writer.fs.rm_file(writer.slice_of("100"))


REFUSED: dict[str, Callable[[Writer], object]] = {
    "committed once more": lambda writer: writer.fs.pipe_file(writer.completed("100", "3000"), BODY),
    "requested": lambda writer: writer.fs.pipe_file(writer.requested("100", "clean"), b""),
    "inflight": lambda writer: writer.fs.pipe_file(writer.inflight("100"), b""),
    "rolled back": rolls_back,
}


@pytest.mark.parametrize("session", ["a", "other"])
@pytest.mark.parametrize("step", REFUSED)
def test_who_is_refused_for_what_a_dead_writer_has_completed_finds_it_in_the_store(
    memory: Ground, session: str, step: str
) -> None:
    root = table_in(memory)
    name = Writer(memory.mount(writer_session="a"), root).commits("100", BODY)
    memory.around.rm_file(name)  # as it is before it is published
    with pytest.raises((Fenced, NameTaken)):
        REFUSED[step](Writer(memory.mount(writer_session=session, skip_instance_cache=True), root))
    assert memory.read(name) == BODY


def before_a_commit_of_another_tool(writer: Writer) -> None:
    writer.begins("300")
    writer.fs.fs.pipe_file(writer.completed("300"), BODY)
    writer.completes("300")


@pytest.mark.parametrize(
    "refused",
    [
        REFUSED["committed once more"],
        REFUSED["requested"],
        lambda writer: writer.fs.pipe_file(writer.requested("150"), b""),
        before_a_commit_of_another_tool,
    ],
    ids=["committed once more", "requested", "requested by another tool", "committed by another tool"],
)
def test_who_is_refused_keeps_nothing_of_what_it_would_have_written(
    memory: Ground, refused: Callable[[Writer], object], collect: Callable[[], int]
) -> None:
    """A collection may come long after that."""
    root = table_in(memory)
    writer = Writer(memory.mount(writer_session="a"), root)
    writer.commits("100", BODY)
    memory.write(writer.requested("150"), b"")
    collect()
    gc.disable()
    try:
        with suppress(Fenced, NameTaken):
            refused(writer)
            pytest.fail("it was not refused")
        kept = [each for each in gc.get_objects() if isinstance(each, InMemory)]
    finally:
        gc.enable()
    assert not kept


def test_who_looked_before_the_table_was_made_removes_nothing_of_it(memory: Ground) -> None:
    idle, other = (Writer(memory.mount(writer_session=each), memory.name("t")) for each in ("idle", "other"))
    idle.fs.pipe_file(idle.slice_of("100"), b"")
    assert table_in(memory) == other.root
    other.commits("200")
    other.plans_rollback("300", of="200")
    with pytest.raises(Fenced):
        idle.fs.rm_file(idle.slice_of("200"))


def test_a_table_whose_properties_are_written_anew_meanwhile_is_found(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = table_in(memory)
    Writer(memory.fs, root).commits("100")
    properties = f"{root}/.hoodie/hoodie.properties"
    written = memory.read(properties)
    late = Writer(memory.mount(writer_session="late"), root)
    get = late.fs.backend.get

    def get_(path: str, *args: Any) -> Any:
        got = get(path, *args)
        if path == properties and not memory.is_there(path):
            memory.write(path, written)
        return got

    monkeypatch.setattr(late.fs.backend, "get", get_)
    memory.around.rm_file(properties)
    with pytest.raises(Fenced):
        late.fs.pipe_file(late.slice_of("100"), b"")
