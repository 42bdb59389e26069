"""A rollback that is open, and was never requested: its writer was killed between the two, or is paused."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent import Fenced, NameTaken
from tests.fsspec_plugin.hudi_tables import Writer, plan_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fsspec_plugin.grounds import Ground

GROUNDS = pytest.mark.parametrize("ground", ["memory-native", "memory-ballot"], indirect=True)
FAILED, DEAD, ANOTHER = "20260101120000000", "20260101120100000", "20260101120200000"


class Killed(BaseException):
    """The end of a process."""


def dies() -> None:
    raise Killed


def plans(writer: Writer, first: Callable[[], object], rollback: str = DEAD) -> None:
    """Begin a rollback, in which something else comes first before it is requested."""
    guard = writer.fs.guard
    by_name = guard.by_name

    def later(*what: Any) -> Any:
        guard.by_name = by_name
        first()
        return by_name(*what)

    guard.by_name = later
    writer.plans_rollback(rollback, of=FAILED)


@GROUNDS
def test_an_instant_is_begun_anew_though_a_rollback_of_it_was_never_requested(a: Writer, b: Writer) -> None:
    a.begins(FAILED)
    with pytest.raises(Killed):
        plans(a, dies)
    b.plans_rollback(ANOTHER, of=FAILED)
    b.fs.pipe_file(f"{b.root}/.hoodie/timeline/{ANOTHER}.rollback.inflight", b"")
    b.fs.rm_file(b.inflight(FAILED))
    b.fs.pipe_file(b.completed(ANOTHER, action="rollback"), b"{}")
    b.fs.pipe_file(b.inflight(FAILED), b"")
    b.fs.pipe_file(b.slice_of(FAILED, "2-0-2"), b"")
    b.completes(FAILED)
    assert [each for each in b.timeline() if DEAD in each] == []


@GROUNDS
def test_a_completed_instant_is_cleaned_though_a_rollback_of_it_was_never_requested(
    a: Writer, b: Writer
) -> None:
    a.commits(FAILED)
    with pytest.raises(Killed):
        plans(a, dies)
    b.fs.rm_file(b.slice_of(FAILED))
    assert not b.fs.exists(b.slice_of(FAILED))


@GROUNDS
def test_who_was_paused_before_it_requested_its_rollback_does_not_go_on(
    ground: Ground, a: Writer, b: Writer
) -> None:
    a.begins(FAILED)
    with pytest.raises(Fenced, match="given up"):
        plans(a, lambda: b.fs.touch(b.inflight(FAILED)))
    assert [each for each in b.timeline() if DEAD in each] == []
    # Killed before it has seen that.
    ground.write(a.requested(DEAD, "rollback"), plan_of(FAILED))
    for each in (a, b):
        with pytest.raises(Fenced, match="given up"):
            each.fs.pipe_file(f"{a.root}/.hoodie/timeline/{DEAD}.rollback.inflight", b"")
        assert [last for last in each.timeline() if DEAD in last] == []


@GROUNDS
def test_one_that_is_requested_at_the_last_moment_is_not_given_up(
    ground: Ground, a: Writer, b: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    a.begins(FAILED)
    by_name = b.fs.guard.by_name

    def late(*what: Any) -> Any:
        ground.write(a.requested(DEAD, "rollback"), plan_of(FAILED))
        return by_name(*what)

    with pytest.raises(Killed):
        plans(a, dies)
    monkeypatch.setattr(b.fs.guard, "by_name", late)
    with pytest.raises(Fenced, match="being rolled back"):
        b.fs.touch(b.inflight(FAILED))
    assert b.timeline()[-1] == f"{DEAD}.rollback.requested"


@GROUNDS
def test_who_is_killed_while_it_gives_one_up_leaves_that_to_the_next(
    ground: Ground, root: str, a: Writer, b: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    a.begins(FAILED)
    with pytest.raises(Killed):
        plans(a, dies)
    by_name = b.fs.guard.by_name

    def killed(*what: Any) -> Any:
        yield from by_name(*what)
        raise Killed

    monkeypatch.setattr(b.fs.guard, "by_name", killed)
    with pytest.raises(Killed):
        b.fs.touch(b.inflight(FAILED))
    other = Writer(ground.mount(writer_session="c"), root)
    other.fs.touch(b.inflight(FAILED))
    assert [each for each in other.timeline() if DEAD in each] == []


@GROUNDS
def test_two_that_were_never_requested_are_given_up_by_two_at_once(
    ground: Ground, root: str, a: Writer, b: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    a.begins(FAILED)
    for dead in (DEAD, ANOTHER):
        with pytest.raises(Killed):
            plans(a, dies, dead)
    other = Writer(ground.mount(writer_session="c"), root)
    by_name = b.fs.guard.by_name

    def slow(*what: Any) -> Any:
        monkeypatch.setattr(b.fs.guard, "by_name", by_name)
        other.fs.touch(b.inflight(FAILED))
        return by_name(*what)

    monkeypatch.setattr(b.fs.guard, "by_name", slow)
    b.fs.touch(b.inflight(FAILED))
    assert [each for each in b.timeline() if FAILED not in each] == []


def restores(writer: Writer) -> str:
    """Take a commit back as a restore does, up to its end; return the inflight name of the rollback."""
    writer.commits(FAILED)
    writer.plans_rollback(DEAD, of=FAILED)
    inflight = f"{writer.root}/.hoodie/timeline/{DEAD}.rollback.inflight"
    writer.fs.pipe_file(inflight, b"")
    for each in (writer.completed, writer.slice_of, writer.inflight, writer.requested):
        writer.fs.rm_file(each(FAILED))
    return inflight


@GROUNDS
def test_what_a_restore_has_left_of_a_rollback_when_it_was_killed_keeps_nobody_for_ever(
    a: Writer, b: Writer
) -> None:
    inflight = restores(a)
    a.fs.rm_file(inflight)
    with pytest.raises(Fenced):
        b.fs.pipe_file(inflight, b"")
    assert b.timeline() == []


@GROUNDS
def test_nor_does_a_rollback_of_which_nothing_was_removed_yet(
    a: Writer, b: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    inflight, ending = restores(a), a.fs.guard.rules.ending

    def killed(*what: Any) -> Any:
        yield from ending(*what)
        raise Killed

    monkeypatch.setattr(a.fs.guard.rules, "ending", killed)
    with pytest.raises(Killed):
        a.fs.rm_file(inflight)
    assert len(b.timeline()) == 2
    with pytest.raises(Fenced):
        b.fs.pipe_file(b.completed(DEAD, action="rollback"), b"{}")
    assert b.timeline() == []


@GROUNDS
@pytest.mark.parametrize("left", ["inflight", "requested"])
def test_nor_does_a_completed_one_whose_completed_name_the_restore_has_removed(
    a: Writer, b: Writer, left: str
) -> None:
    a.begins(FAILED)
    a.plans_rollback(DEAD, of=FAILED)
    inflight = f"{a.root}/.hoodie/timeline/{DEAD}.rollback.inflight"
    a.fs.pipe_file(inflight, b"")
    for each in (a.slice_of, a.inflight, a.requested):
        a.fs.rm_file(each(FAILED))
    completed = a.completed(DEAD, action="rollback")
    a.fs.pipe_file(completed, b"{}")
    a.commits(ANOTHER)
    with pytest.raises(Fenced):
        b.fs.pipe_file(inflight, b"")
    assert len([each for each in b.timeline() if DEAD in each]) == 3
    for name in (completed, inflight)[: 1 + (left == "requested")]:
        a.fs.rm_file(name)
    for writer in (a, b):
        with pytest.raises((Fenced, NameTaken)):
            goes_on_with(writer, inflight)
        assert [each for each in writer.timeline() if DEAD in each] == []


def goes_on_with(writer: Writer, inflight: str) -> None:
    """Go on with a rollback, as Hudi does."""
    if not writer.fs.exists(inflight):
        writer.fs.pipe_file(inflight, b"")
    writer.fs.pipe_file(writer.completed(DEAD, "20260101120400000", action="rollback"), b"{}")


@GROUNDS
def test_nobody_goes_on_with_a_rollback_that_has_taken_a_commit_for_a_failed_one(
    ground: Ground, root: str, a: Writer, b: Writer
) -> None:
    a.commits(FAILED)
    b.plans_rollback(DEAD, of=FAILED)
    b.fs.pipe_file(f"{root}/.hoodie/timeline/{DEAD}.rollback.inflight", b"")
    for task in (b, Writer(ground.mount(writer_session="b"), root)):
        with pytest.raises(Fenced, match="no failed instant"):
            task.fs.rm_file(b.slice_of(FAILED))
        assert [each for each in a.timeline() if DEAD in each] == []
    # A cleaner; and a task of the rollback's that is late.
    a.fs.rm_file(b.slice_of(FAILED))
    ground.write(b.slice_of(FAILED, "2-0-2"), b"another slice")
    with pytest.raises(Fenced, match="no failed instant"):
        b.fs.rm_file(b.slice_of(FAILED, "2-0-2"))


@GROUNDS
def test_two_rollbacks_that_have_taken_a_commit_for_a_failed_one_remove_nothing_of_it(
    ground: Ground, root: str, a: Writer, b: Writer
) -> None:
    a.commits(FAILED)
    c = Writer(ground.mount(writer_session="c"), root)
    for each, rollback in ((b, DEAD), (c, ANOTHER)):
        each.plans_rollback(rollback, of=FAILED)
        each.fs.touch(f"{root}/.hoodie/timeline/{rollback}.rollback.inflight")
    for each in (b, c, b, c):
        with pytest.raises(Fenced, match="no failed instant"):
            each.fs.rm_file(a.slice_of(FAILED))
    assert a.fs.cat_file(a.slice_of(FAILED)) == FAILED.encode()


@GROUNDS
@pytest.mark.parametrize("left", ["inflight", "requested"])
def test_nobody_goes_on_with_a_dead_session_s_rollback_of_a_commit(
    ground: Ground, root: str, a: Writer, b: Writer, left: str
) -> None:
    name = a.commits(FAILED)
    a.commits(ANOTHER)
    inflight = f"{root}/.hoodie/timeline/{DEAD}.rollback.inflight"
    b.plans_rollback(DEAD, of=FAILED)
    if left == "inflight":
        b.fs.pipe_file(inflight, b"")
    other = Writer(ground.mount(writer_session="c"), root)
    goes_on = partial(other.fs.rm_file, name) if left == "inflight" else partial(other.fs.touch, inflight)
    with pytest.raises(Fenced, match="another session's rollback"):
        goes_on()
    assert [each for each in a.timeline() if DEAD in each] == []
    assert a.fs.cat_file(name) == b"{}"
    with pytest.raises(Fenced, match="no failed instant"):
        b.fs.rm_file(a.slice_of(FAILED))  # a task that is late
    rollback = "20260101120500000"
    other.plans_rollback(rollback, of=FAILED)
    other.fs.pipe_file(inflight.replace(DEAD, rollback), b"")
    other.fs.rm_file(name)
    other.fs.rm_file(a.slice_of(FAILED))
    assert not a.fs.exists(name)


@GROUNDS
def test_who_finds_a_rollback_in_the_store_finds_the_commit_there_that_it_takes_for_a_failed_one(
    ground: Ground, a: Writer, b: Writer
) -> None:
    name = a.commits(FAILED)
    ground.around.rm_file(name)  # its writer was killed before it was published
    b.plans_rollback(DEAD, of=FAILED)
    assert ground.is_there(name)
