"""Instants side by side: Hudi passes them over, and everybody has them in one order."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from putifabsent.shim.formats.hudi import ACTIONS
from putifabsent.shim.formats.hudi_salt import Kept, is_instant, kept_as, ordered, parsed, salt_of, shown
from putifabsent.shim.policy import Policy
from tests.shim.test_formats_hudi import actions, instants, layouts, tables
from tests.shim.test_hudi_salt import sessions

CLASSIFY = Policy().classify
FOLDER = "bucket/t/.hoodie/timeline"

HUDI_INSTANT = re.compile(r"(\d+(_\d+)?)(\.\w+)(\.\D+)?")
"""``NAME_FORMAT`` of InstantFileNameParserV2 in org.apache.hudi.common.table.timeline.versioning.v2, 1.x.

``HoodieTableMetaClient.scanHoodieInstantsFromFileSystem`` makes an instant of each file whose name, behind
the first group, is one of the extensions that the active timeline knows; of all others it makes nothing.
"""
HUDI_EXTENSIONS = {
    ".inflight",
    *(f".{action}" for action in ACTIONS),
    *(f".{action}.{state}" for action in ACTIONS for state in ("requested", "inflight")),
}
"""``VALID_EXTENSIONS_IN_ACTIVE_TIMELINE``, and more."""

names = st.one_of(
    st.builds("{}.{}.{}".format, instants, actions, st.sampled_from(["requested", "inflight"])),
    st.builds("{}.inflight".format, instants),
    st.builds("{}_{}.{}".format, instants, instants, actions),
    st.builds("{}.{}".format, instants, actions),
)


def is_taken_for_an_instant(last: str) -> bool:
    """Whether Hudi makes an instant of a file: as above; before 1.x, by what is behind the first dot."""
    match = HUDI_INSTANT.fullmatch(last)
    behind = "" if match is None else last[len(match[1]) :]
    return behind in HUDI_EXTENSIONS or last[last.find(".") :] in HUDI_EXTENSIONS


@given(names, sessions)
def test_hudi_passes_over_what_is_kept(name: str, session: str) -> None:
    assert is_taken_for_an_instant(name)
    assert not is_taken_for_an_instant(kept_as(name, session))


@given(tables, layouts, names, sessions)
def test_what_is_kept_leads_back_to_what_its_writer_calls_it(
    table: str, layout: str, name: str, session: str
) -> None:
    path = f"{table}/{layout}/{name}"
    instant = re.split(r"[._]", name)[0]
    assert is_instant(CLASSIFY(path))
    assert parsed(CLASSIFY, path) == Kept(instant, "", path, path)
    kept = kept_as(path, session)
    assert parsed(CLASSIFY, kept) == Kept(instant, salt_of(session), kept, path)
    assert not CLASSIFY(kept).guarded


@given(st.lists(st.tuples(names, sessions), unique=True, max_size=12), st.randoms())
def test_everybody_has_them_in_one_order_whoever_lists_them_how(
    made: list[tuple[str, str]], random: object
) -> None:
    paths = [kept_as(f"{FOLDER}/{name}", session) for name, session in made]
    in_order = ordered(CLASSIFY, paths)
    assert [(each.instant, each.salt) for each in in_order] == sorted(
        (each.instant, each.salt) for each in in_order
    )
    random.shuffle(paths)  # type: ignore[attr-defined]
    assert ordered(CLASSIFY, [*paths, f"{FOLDER}/history", f"{FOLDER}/100.commit.requested.crc"]) == in_order
    for session in {"a reader", *(session for _, session in made)}:
        assert list(shown(in_order, session).values()) == in_order


def test_each_is_shown_under_a_name_by_which_it_is_read() -> None:
    one, both = f"{FOLDER}/100.commit.requested", f"{FOLDER}/200.commit.requested"
    kept = ordered(CLASSIFY, [kept_as(one, "a"), kept_as(both, "a"), kept_as(both, "b")])
    by_salt = sorted([kept_as(both, "a"), kept_as(both, "b")])
    assert list(shown(kept, "reader")) == [one, *by_salt]
    assert list(shown(kept, "a")) == [
        one,
        *(both if name == kept_as(both, "a") else name for name in by_salt),
    ]
