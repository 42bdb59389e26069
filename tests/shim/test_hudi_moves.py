"""Tables that were upgraded or downgraded round the shim: an instant stays one completion."""

from __future__ import annotations

import itertools
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from putifabsent import shim
from putifabsent.backends.base import Created
from putifabsent.errors import ConfigError, Fenced
from putifabsent.shim.formats.hudi_layout import completed_by, refuse_move, was_moved
from putifabsent.shim.ledger import calls, completion
from putifabsent.shim.ledger.records import Complete, Open
from tests.mutation import Change
from tests.shim import ledger_judges, ledger_runs
from tests.shim.ledger_judges import shown
from tests.shim.ledger_runs import Run, creation, inflight, kinds, requested, undo
from tests.shim.ledger_tables import ROOT, STATE, TIMELINE, slice_of

if TYPE_CHECKING:
    from collections.abc import Iterator

BODY = ".putifabsent/bodies/first.0"


def whole(version: int) -> bytes:
    """Return properties as Hudi writes them."""
    checksum = zlib.crc32(b".t")
    return b"hoodie.table.checksum=%d\nhoodie.table.name=t\nhoodie.table.version=%d\n" % (checksum, version)


class Move(NamedTuple):
    """A change of a table's layout.

    Attributes
    ----------
    was, name
        The completed name of the instant 1 before, and since.
    following
        That of the instant 2, which is completed since.
    version
        Of the table since.
    """

    was: str
    name: str
    following: str
    version: int


UPGRADE = Move(f"{ROOT}/1.commit", f"{TIMELINE}/1_17.commit", f"{TIMELINE}/2_29.commit", 8)
DOWNGRADE = Move(f"{TIMELINE}/1_19.commit", f"{ROOT}/1.commit", f"{ROOT}/2.commit", 6)
BOTH = Move(f"{TIMELINE}/1_19.commit", f"{TIMELINE}/1_17.commit", f"{TIMELINE}/2_29.commit", 8)
ALL = pytest.mark.parametrize(
    "move", [UPGRADE, DOWNGRADE, BOTH], ids=["upgrade", "downgrade", "downgrade and upgrade"]
)
LEAVES = pytest.mark.parametrize("move", [UPGRADE, DOWNGRADE], ids=["upgrade", "downgrade"])


def records_before(move: Move) -> tuple[Any, ...]:
    name = move.was.removeprefix(f"{ROOT}/")
    return Open("1", "A", "o1", "commit"), Complete("1", "A", "first", name, BODY)


def moved(move: Move, *after: Any) -> Run:
    """Return a table whose layout was changed round the shim once the instant 1 was completed."""
    run = Run(*records_before(move), *after)
    run.state = frozenset(each for each in run.state if each[0] != move.was)
    run.put(move.name, data=b"the same, written anew")
    run.put(f"{ROOT}/hoodie.properties", data=whole(move.version))
    return run


def following(move: Move) -> tuple[Any, ...]:
    name = move.following.removeprefix(f"{ROOT}/")
    return Open("2", "B", "o2"), Complete("2", "B", "second", name, ".putifabsent/bodies/second.0")


def there(run: Run, path: str) -> bool:
    return path.removeprefix("b/t/") in run.things()


# --- rollbacks and restores -------------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize("is_last", [True, False], ids=["the last", "an earlier one"])
def test_a_rollback_undoes_what_was_moved_before_it_removes_anything(move: Move, is_last: bool) -> None:
    run = moved(move, *(() if is_last else following(move)))
    rolling = run.session("R")
    run.creates(rolling, requested("9", "rollback"), "r", frees="1")
    run.deletes(rolling, move.name)
    assert kinds(run)[-2:] == ["OPEN", "UNDO"]
    assert [each for each in run.asked if each.startswith("delete")] == [
        "delete bodies/first.0",
        f"delete {move.name.removeprefix(f'{ROOT}/')}",
    ]
    run.put(slice_of("1"))
    run.deletes(rolling, slice_of("1"))
    assert not there(run, slice_of("1"))


@LEAVES
def test_nothing_of_what_was_moved_is_removed_while_its_completion_stands(move: Move) -> None:
    run = moved(move)
    run.creates(run.session("R"), requested("9", "rollback"), "r", frees="1")
    run.put(slice_of("1"))
    with pytest.raises(Fenced, match="no failed instant"):
        run.deletes(run.session("R"), slice_of("1"))


@LEAVES
def test_a_rollback_that_crashed_before_it_removed_the_name_is_gone_on_with(move: Move) -> None:
    run = moved(move, *following(move))
    run.creates(run.session("R"), requested("9", "rollback"), "r", frees="1")
    run.play(undo(run.session("R"), "1", creation("u")))
    run.deletes(run.session("Z"), move.name)
    assert kinds(run).count("UNDO") == 1
    assert not there(run, move.name)
    assert not there(run, f"{ROOT}/{BODY}")


@LEAVES
def test_of_an_instant_that_was_completed_twice_the_second_completion_is_undone(move: Move) -> None:
    run = Run(*records_before(move))
    run.deletes(run.session("R"), move.was, "first undone")
    run.creates(run.session("A"), requested("1"), "anew")
    run.creates(run.session("A"), move.was, "second time")
    run.state = frozenset(each for each in run.state if each[0] != move.was)
    run.put(move.name)
    run.creates(run.session("R"), requested("9", "rollback"), "r", frees="1")
    run.deletes(run.session("R"), move.name)
    assert kinds(run)[-2:] == ["OPEN", "UNDO"]
    assert not there(run, f"{STATE}/bodies/second time.0")


@LEAVES
def test_an_instant_older_than_the_ledger_is_listed_until_its_rollback_removes_it(move: Move) -> None:
    run = Run()
    run.creates(run.session("R"), requested("9", "rollback"), "r", frees="1")
    folder = move.name.rpartition("/")[0]
    assert shown(run.session("L"), folder, [move.name]) == [move.name]


@LEAVES
def test_an_undone_instant_is_not_listed_by_the_name_that_the_table_gave_it(move: Move) -> None:
    run = moved(move, *following(move))
    run.creates(run.session("R"), requested("9", "rollback"), "r", frees="1")
    folder = move.name.rpartition("/")[0]
    savepoint = f"{folder}/1_18.savepoint"
    names = [move.name, move.following, savepoint, inflight("1")]
    inside = sorted(each for each in names if each.startswith(folder))
    assert shown(run.session("L"), folder, inside) == inside
    run.play(undo(run.session("R"), "1", creation("u")))
    reader = run.session("L")
    assert shown(reader, folder, inside) == [each for each in inside if each != move.name]
    other = f"b/another{move.name.removeprefix('b/t')}"
    assert calls.view(reader, folder).hidden([other]) == set()


@LEAVES
def test_an_instant_completed_again_since_is_shown_and_spared(move: Move) -> None:
    """A zombie of the rollback removes the name of what it has undone, and no other."""
    run = moved(move)
    run.creates(run.session("R"), requested("9", "rollback"), "r", frees="1")
    run.deletes(run.session("R"), move.name)
    run.deletes(run.session("R"), requested("9", "rollback"))
    again = move.name.replace("1_17", "1_25")
    run.creates(run.session("A"), requested("1"), "anew")
    run.creates(run.session("A"), again, "second time")
    folder = again.rpartition("/")[0]
    assert shown(run.session("L"), folder, [again]) == [again]
    assert [each.undone for each in run.session("L").state.completions.values()] == [True, False]


# --- archival ---------------------------------------------------------------------------------------------


@ALL
def test_what_was_moved_is_archived_with_its_body(move: Move) -> None:
    run = moved(move, *following(move))
    run.deletes(run.session("Z"), move.name)
    assert run.asked == [
        "list ledger",
        "delete bodies/first.0",
        f"head {move.name.removeprefix(f'{ROOT}/')}",
        f"delete {move.name.removeprefix(f'{ROOT}/')}",
    ]
    assert kinds(run).count("UNDO") == 0
    assert there(run, move.following)


def test_whoever_removes_a_stray_name_takes_no_commit_back_that_may_be_unpublished() -> None:
    run = Run(*records_before(BOTH))
    run.state = frozenset(each for each in run.state if each[0] != BOTH.was)
    run.put(BOTH.name)
    run.deletes(run.session("Z"), BOTH.name)
    assert not there(run, BOTH.name)
    run.play(completion.settle(run.session("B"), creation("s")))
    assert there(run, BOTH.was)
    assert kinds(run) == ["OPEN", "COMPLETE"]


# --- publishing and listing -------------------------------------------------------------------------------


@ALL
def test_what_was_moved_is_not_published_again(move: Move) -> None:
    run = moved(move, Open("2", "B", "o2"))
    session = run.session("B")
    assert run.creates(session, move.following, "second") == Created("second")
    assert not there(run, move.was)
    assert there(run, move.name)
    assert [each for each in run.asked if each.startswith("publish")] == [
        f"publish {move.following.removeprefix(f'{ROOT}/')}"
    ]
    assert run.asked.count("get hoodie.properties") == 1


@LEAVES
def test_the_table_is_asked_for_its_layout_once_and_only_where_the_name_is_gone(move: Move) -> None:
    run = moved(move)
    session = run.session("B")
    run.play(completion.settle(session, creation("s")))
    assert run.asked.count("get hoodie.properties") == 1
    run.play(completion.settle(session, creation("s")))
    assert run.asked == ["list ledger"]
    run.put(move.was, "first")
    run.play(completion.settle(run.session("C"), creation("s")))
    assert "get hoodie.properties" not in run.asked


def test_what_is_completed_anew_is_published_though_an_undone_name_is_there_still() -> None:
    run = moved(BOTH)
    run.play(undo(run.session("R"), "1", creation("u")))
    again = f"{TIMELINE}/1_25.commit"
    run.put(BOTH.was, "first")
    run.creates(run.session("A"), requested("1"), "anew")
    run.creates(run.session("A"), again, "second time")
    run.state = frozenset(each for each in run.state if each[0] not in (again, BOTH.name))
    run.play(completion.settle(run.session("B"), creation("s")))
    assert there(run, again)


def test_what_was_published_meanwhile_was_not_moved() -> None:
    run = moved(BOTH)
    assert run.play(was_moved(BOTH.was, ()))
    run.put(BOTH.was, "first")
    assert not run.play(was_moved(BOTH.was, ()))


def test_properties_that_are_being_written_anew_are_read_from_their_copy() -> None:
    run = moved(UPGRADE)
    run.state = frozenset(each for each in run.state if not each[0].endswith("/hoodie.properties"))
    run.put(f"{ROOT}/hoodie.properties.backup", data=b"hoodie.table.version=8")
    run.play(completion.settle(run.session("B"), creation("s")))
    assert not there(run, UPGRADE.was)


@pytest.mark.parametrize(
    "properties",
    [
        b"hoodie.table.version=6",
        b"hoodie.table.version=8\nhoodie.timeline.path=",
        b"hoodie.table.version=?",
        b"",
    ],
)
def test_what_a_dead_writer_has_left_is_published_where_the_table_has_not_left(properties: bytes) -> None:
    run = Run(*records_before(UPGRADE))
    run.state = frozenset(each for each in run.state if each[0] != UPGRADE.was)
    run.put(f"{ROOT}/hoodie.properties", data=properties)
    run.play(completion.settle(run.session("B"), creation("s")))
    assert there(run, UPGRADE.was)


# --- one instant, one completion --------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize("session", ["A", "B"], ids=["its owner", "another"])
def test_no_writer_completes_an_instant_in_the_other_layout(move: Move, session: str) -> None:
    run = moved(move)
    run.state = frozenset(each for each in run.state if each[0] != move.name)
    with pytest.raises(PermissionError if session == "B" else FileExistsError):
        run.creates(run.session(session), move.name, "once more")
    assert not there(run, move.name)


@pytest.mark.parametrize(
    ("path", "instant"),
    [
        (f"{ROOT}/1.commit", "1"),
        (f"{TIMELINE}/1_19.clean", "1"),
        (f"{TIMELINE}/1_19.savepoint", None),
        (inflight("1"), None),
        (requested("1"), None),
        (slice_of("1"), None),
        (f"{ROOT}/metadata/.hoodie/timeline/1_19.deltacommit", None),
        (f"{STATE}/ledger/-life", None),
    ],
)
def test_a_completed_name_says_of_which_instant(path: str, instant: str | None) -> None:
    assert completed_by(path) == instant


# --- through the shim -------------------------------------------------------------------------------------

METADATA = f"{ROOT}/metadata/.hoodie"
LAYOUTS = {6: "", 8: "/timeline", 9: "/timeline"}


def table(version: int, at: str = ROOT) -> Run:
    run = Run()
    run.put(f"{at}/hoodie.properties", data=b"hoodie.table.version=%d" % version)
    return run


@pytest.mark.parametrize("at", [ROOT, METADATA], ids=["table", "metadata table"])
@pytest.mark.parametrize("version", LAYOUTS)
def test_a_name_of_the_layout_that_a_table_does_not_have_is_refused(version: int, at: str) -> None:
    run = table(version, at)
    names = ("1.commit.requested", "1.inflight", "1.commit", "1_19.commit", "1.savepoint")
    for folder in LAYOUTS.values():
        for path in (f"{at}{folder}/{last}" for last in names):
            if folder == LAYOUTS[version]:
                run.play(refuse_move(path))
                continue
            with pytest.raises(ConfigError, match="in a session that is not mounted"):
                run.play(refuse_move(path))


def test_an_upgrade_is_refused_while_the_properties_are_written_anew() -> None:
    run = Run()
    run.put(f"{ROOT}/hoodie.properties.backup", data=b"hoodie.table.version=6")
    with pytest.raises(ConfigError):
        run.play(refuse_move(f"{TIMELINE}/1_17.commit"))


def test_an_upgrade_is_refused_while_the_properties_are_torn() -> None:
    run = Run()
    run.put(f"{ROOT}/hoodie.properties", data=whole(6)[:-9])
    run.put(f"{ROOT}/hoodie.properties.backup", data=whole(6))
    with pytest.raises(ConfigError):
        run.play(refuse_move(f"{TIMELINE}/1_17.commit"))


def test_of_a_table_that_is_being_made_any_layout_may_be() -> None:
    for folder in LAYOUTS.values():
        Run().play(refuse_move(f"{ROOT}{folder}/1.commit.requested"))


@pytest.mark.parametrize(
    "path",
    [
        f"{ROOT}/.aux/1.compaction.requested",
        f"{TIMELINE}/history/1_2_0.parquet",
        f"{ROOT}/hoodie.properties",
        slice_of("1"),
    ],
)
def test_for_what_is_no_instants_name_no_table_is_asked(path: str) -> None:
    run = table(9)
    run.play(refuse_move(path))
    assert run.asked == []


# --- wrong ones -------------------------------------------------------------------------------------------

MUTANTS = tuple(
    Change(name, source, old, new)
    for name, source, old, new in (
        (
            "only the name in the record is that of its completion",
            "formats/hudi_ledger",
            "state.named(asker.relative) or _made_of(state, step.instant)",
            "state.named(asker.relative)",
        ),
        (
            "whoever removes a stray name removes the last commit",
            "formats/hudi_ledger",
            " and made.name != asker.relative and not is_rolled_back:",
            " and False:",
        ),
        (
            "the last commit is removed by name though it is rolled back",
            "formats/hudi_ledger",
            " and made.name != asker.relative and not is_rolled_back:",
            " and made.name != asker.relative:",
        ),
        (
            "the first completion of an instant is its only one",
            "formats/hudi_ledger",
            "return max(found, key=lambda each: each.number",
            "return min(found, key=lambda each: each.number",
        ),
        (
            "what is undone is not a completion any more",
            "formats/hudi_ledger",
            "if each.instant == instant]",
            "if each.instant == instant and not each.undone]",
        ),
        (
            "what was moved is published again",
            "ledger/completion",
            "(isinstance(seen, Absent) and (yield from was_moved(path, undone)))",
            "False",
        ),
        (
            "the table is asked for its layout whatever is there",
            "ledger/completion",
            "if is_there or (isinstance(seen, Absent) and (yield from was_moved(path, undone))):",
            "if (yield from was_moved(path, undone)) or is_there:",
        ),
        (
            "what is not there was moved",
            "formats/hudi_layout",
            'return not folder.endswith(f"/.hoodie/{inside}".rstrip("/"))',
            "return True",
        ),
        (
            "where no version is said the table has left",
            "formats/hudi_layout",
            "if not version.isdecimal() or int(version) == 0:",
            "if False:",
        ),
        (
            "the copy of the properties is not read",
            "formats/hudi_layout",
            "for each in READ_IN_TURN:",
            "for each in READ_IN_TURN[:1]:",
        ),
        (
            "torn properties count",
            "formats/hudi_layout",
            "lambda each: (is_whole(found[each]), bool(",
            "lambda each: (False, bool(",
        ),
        (
            "what lies in its layout by another name is published again",
            "formats/hudi_layout",
            "completed_by(each) == instant for",
            "False for",
        ),
        (
            "what was published meanwhile was moved",
            "formats/hudi_layout",
            "path not in there and ",
            "",
        ),
        (
            "what is undone stands for what is completed anew",
            "formats/hudi_layout",
            ".difference(undone)",
            "",
        ),
        (
            "an upgrade goes on",
            "formats/hudi_layout",
            "if properties is None or not is_left(path",
            "if True or not is_left(path",
        ),
        (
            "the metadata table is moved before anything is refused",
            "formats/hudi_layout",
            "root = path[: path.rfind(_META)]",
            "root = path[: path.find(_META)]",
        ),
        (
            "no table may have an instant overwritten",
            "formats/hudi_layout",
            """or not is_left(path.rpartition("/")[0], properties)""",
            "or False",
        ),
        (
            "what lies beside a timeline is moved, too",
            "formats/hudi_layout",
            "folder.endswith(_TIMELINES) and ",
            "",
        ),
        (
            "a savepoint is a commit",
            "formats/hudi_layout",
            'step.state != "completed" or step.action == SAVEPOINT',
            'step.state != "completed"',
        ),
        (
            "what is undone is shown by the name that the table gave it",
            "ledger/calls",
            " or completed_by(path) in self.instants",
            "",
        ),
        (
            "other tables' instants are hidden",
            "ledger/calls",
            'if path.rpartition("/")[0] == self.folder',
            "if path",
        ),
        (
            "what is rolled back is hidden before it is undone",
            "ledger/calls",
            "if each.frees in undone and state",
            "if each.frees and state",
        ),
    )
)
FAMILY = (
    "formats/hudi_layout",
    "formats/hudi_ledger",
    "ledger/calls",
    "ledger/completion",
)


def cases() -> Iterator[partial[None]]:
    """Yield the tests above, each with its parameters."""
    for name, test in globals().items():
        if name.startswith("test_") and name != test_a_test_above_finds_out_each_mutant.__name__:
            marks = getattr(test, "pytestmark", [])
            for values in itertools.product(*(mark.args[1] for mark in marks)):
                arguments: dict[str, Any] = {}
                for mark, value in zip(marks, values, strict=True):
                    names = mark.args[0] if isinstance(mark.args[0], tuple) else (mark.args[0],)
                    arguments |= zip(names, value if len(names) > 1 else (value,), strict=True)
                yield partial(test, **arguments)


def is_found_out() -> bool:
    for case in cases():
        try:
            case()
        except (Exception, pytest.fail.Exception):  # noqa: BLE001 - it fails in any way
            return True
    return False


@pytest.mark.parametrize("mutant", [None, *MUTANTS], ids=str)
def test_a_test_above_finds_out_each_mutant(mutant: Change | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if mutant is not None:
        made = {name.rpartition("/")[2]: module for name, module in mutant.modules(shim, FAMILY).items()}
        for module in ("calls", "completion"):
            monkeypatch.setattr(ledger_runs, module, made[module])
        monkeypatch.setattr(ledger_runs, "rule_for", made["hudi_ledger"].rule_for)
        monkeypatch.setattr(ledger_judges, "view", made["calls"].view)
        for module in ("completion", "calls"):
            monkeypatch.setitem(globals(), module, made[module])
        for name in ("completed_by", "refuse_move", "was_moved"):
            monkeypatch.setitem(globals(), name, getattr(made["hudi_layout"], name))
    assert is_found_out() == (mutant is not None)
