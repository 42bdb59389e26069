"""Salted base files: their names are Hudi's, each session's is its own, and the ledger says whose counts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from putifabsent.shim.formats.hudi_salt import (
    beginning_of,
    counting,
    is_recorded,
    is_settled,
    likeliest,
    owner_of,
    recorded,
    removable,
    salt_of,
    salted,
    variants,
)
from putifabsent.shim.ledger.facts import Completion, Opened, State
from putifabsent.shim.names import Role
from putifabsent.shim.policy import Policy
from tests.shim.folders import UUID, all_roots, uuids
from tests.shim.test_formats_hudi import file_ids, instants, slices, tokens

if TYPE_CHECKING:
    from collections.abc import Callable

POLICY = Policy()
PATH = f"bucket/t/dt=1/{UUID}-0_1-0-1_100.parquet"
A, B, C = (f"{letter * 8}-1111-4111-8111-111111111111" for letter in "abc")

extensions = st.sampled_from(["parquet", "orc", "hfile", "lance"])
base_files = st.builds("{}_{}_{}.{}".format, file_ids, tokens, instants, extensions)
sessions = st.one_of(uuids, st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1))


# --- how Hudi reads a name: facts of its sources, said anew -----------------------------------------------

HUDI_BASE_FILE = re.compile(r"[a-zA-Z0-9-]+_[a-zA-Z0-9-]+_[0-9]+\.[a-zA-Z0-9]+")
"""``BASE_FILE_PATTERN`` of org.apache.hudi.common.fs.FSUtils, releases 0.14 to 0.15."""

HUDI_LOG_FILE = re.compile(r"\.(.+)_(.*)\.(log|archive)\.(\d+)(_((\d+)-(\d+)-(\d+))(.cdc)?)?")
"""``LOG_FILE_PATTERN`` of the same class, to 1.x: a base file must not be taken for a log file."""

HUDI_NATIVE_LOG_FILE = re.compile(r"([^._]+)_((\d+)-(\d+)-(\d+))_([^_]+)_(\d+)\.(log|deletes|cdc)\.([^.]+)")
"""``NATIVE_LOG_FILE_PATTERN`` of org.apache.hudi.common.fs.FileNameParser, after 1.1."""


def by_splitting(name: str) -> tuple[str, str]:
    """File id and commit time, by ``FSUtils.getFileId`` and ``FSUtils.getCommitTime``."""
    return name.split("_", 1)[0], name.split("_")[2].split(".", 1)[0]


def by_scanning(name: str) -> tuple[str, str, str, str]:
    """File id, write token, commit time, extension, by ``FileNameParser.parseBaseFile``.

    It ends the file id at the first underscore, the write token at the second, and the commit time at the
    first dot after that; ``HoodieBaseFile`` of earlier releases does the same and leaves the token out.
    """
    first = name.index("_")
    second = name.index("_", first + 1)
    dot = name.index(".", second)
    return name[:first], name[first + 1 : second], name[second + 1 : dot], name[dot:]


@given(base_files, sessions)
def test_hudi_reads_a_salted_name_as_the_recorded_one_but_for_the_write_token(
    name: str, session: str
) -> None:
    made = salted(f"t/{name}", session).removeprefix("t/")
    file_id, token, instant, extension = by_scanning(name)
    assert by_scanning(made) == (file_id, f"{token}-{salt_of(session)}", instant, extension)
    assert by_splitting(made) == by_splitting(name) == (file_id, instant)
    assert HUDI_BASE_FILE.fullmatch(made)
    assert not HUDI_LOG_FILE.match(made)
    assert not HUDI_NATIVE_LOG_FILE.match(made)


# --- names ------------------------------------------------------------------------------------------------


@given(all_roots, base_files, sessions)
def test_a_salted_name_leads_back_to_the_recorded_one(root: str, name: str, session: str) -> None:
    path = f"{root}/{name}"
    made = salted(path, session)
    assert recorded(made) == recorded(path) == path
    assert made.startswith(f"{root}/{beginning_of(path)}-")
    assert variants(path, ["x", made, path]) == sorted([made, path])


@given(base_files, base_files, sessions, sessions)
def test_no_two_of_names_and_sessions_make_one_file(one: str, other: str, a: str, b: str) -> None:
    assert (salted(one, a) == salted(other, b)) == ((one, a) == (other, b))


@given(all_roots, base_files, sessions)
def test_a_salted_name_is_a_slice_of_the_same_instant_and_is_salted_once(
    root: str, name: str, session: str
) -> None:
    path = POLICY.classify(f"{root}/{name}")
    made = POLICY.classify(salted(path.path, session))
    assert made == path._replace(path=made.path, identity=made.path)
    assert made.role is Role.SLICE
    assert (is_recorded(path), is_recorded(made)) == (True, False)


@given(slices.filter(lambda name: name.startswith(".")))
def test_log_files_stay_as_they_are(name: str) -> None:
    assert not is_recorded(POLICY.classify(f"bucket/t/{name}"))
    assert recorded(f"bucket/t/{name}") == f"bucket/t/{name}"


@pytest.mark.parametrize(
    "path",
    [
        f"bucket/t/.hoodie/metadata/files/{UUID}-0_1-0-1_100.hfile",
        f"bucket/t/{UUID}-0_1-0-1-{'a' * 32}_100.parquet",
        f"bucket/t/{UUID}-0_1-0-1_100.txt",
        "bucket/t/a_b_c",
        "bucket/t/.hoodie/timeline/100_1009.commit",
    ],
)
def test_only_base_files_of_data_tables_are_salted(path: str) -> None:
    assert not is_recorded(POLICY.classify(path))


def test_a_salt_is_the_session_s_uuid() -> None:
    assert salt_of(A) == A.replace("-", "")
    assert re.fullmatch(r"[0-9a-f]{32}", salt_of("driver 1"))


# --- whose counts -----------------------------------------------------------------------------------------


def opened(session: str, *lost: str) -> Opened:
    return Opened(session, "token", lost=lost)


def completed(session: str) -> Completion:
    return Completion("100", session, "token", "timeline/100_1009.commit", "body", 2)


MINE, BS, CS = (salted(PATH, session) for session in (A, B, C))


@pytest.mark.parametrize("owned", [opened, completed])
def test_the_owner_s_file_counts_whatever_else_is_there(
    owned: Callable[[str], Opened | Completion],
) -> None:
    assert counting(PATH, sorted([PATH, MINE, BS]), owned(B)) == BS
    assert likeliest(PATH, owned(B)) == [BS, PATH]


@pytest.mark.parametrize(
    ("there", "owner", "expected"),
    [
        ([MINE], completed(B), MINE),
        ([MINE], None, MINE),
        ([PATH, MINE], completed(B), PATH),
        ([PATH, MINE, BS], None, PATH),
        ([MINE, CS], completed(B), None),
        ([MINE, CS], None, None),
    ],
)
def test_where_the_owner_has_none_the_plain_one_counts_or_the_only_one(
    there: list[str], owner: Completion | None, expected: str | None
) -> None:
    assert counting(PATH, there, owner) == expected


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        (opened(A), [MINE]),
        (opened(A, C), [MINE, CS]),
        (opened(B), [MINE]),
        (opened(B, A), [MINE]),
        (completed(B), [MINE]),
        (completed(A), [MINE, BS, CS]),
        (None, [MINE, BS, CS]),
    ],
)
def test_a_session_removes_what_is_nobody_s_else(
    owner: Opened | Completion | None, expected: list[str]
) -> None:
    assert removable(PATH, [MINE, BS, CS], owner, A) == expected


def test_a_cleaner_removes_another_s_and_nobody_an_open_instant_s() -> None:
    assert removable(PATH, [BS, CS], completed(B), A) == [BS, CS]
    assert removable(PATH, [BS, CS], opened(B), A) == []
    assert removable(PATH, [PATH, BS], opened(A), A) == [PATH]


def test_what_was_read_earlier_is_enough_only_where_nothing_later_changes_it() -> None:
    assert is_settled(State(open={"100": opened(A)}), "100", A)
    assert not is_settled(State(open={"100": opened(B)}), "100", A)
    assert not is_settled(State(freed={"100": (B,)}), "100", A)
    assert not is_settled(State(), "100", A)
    assert is_settled(State(completions={"token": completed(B)}), "100", A)
    assert is_settled(State(horizon="200"), "100", A)


def test_an_instant_that_was_undone_is_nobody_s() -> None:
    state = State(completions={"token": Completion("100", B, "token", "n", "b", 2, undone=True)})
    assert owner_of(state, "100") is None
