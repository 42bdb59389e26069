"""Where the bytes of claimed names lie: one place for each identity, which any store can have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from putifabsent.shim import ballot_state
from putifabsent.shim.names import Name, ordinary
from putifabsent.shim.policy import Policy
from putifabsent.shim.state_keys import Salted, folder_of, identity_of, marked, parsed
from tests.shim.folders import all_roots, components, uuids

TOKEN = "11111111-1111-4111-8111-111111111111"
LONGEST = Salted(1, 10**6, TOKEN, 10**6)


def component(name: str) -> str:
    return folder_of(ordinary(name)).rpartition("/")[2]


def test_it_lies_where_no_format_lists() -> None:
    name = Policy().classify("bucket/w.db/t/snapshot/snapshot-7")
    assert folder_of(name) == "bucket/w.db/t/.putifabsent/claims/snapshot/snapshot-7"
    assert folder_of(ordinary("/folder/a b")) == "/folder/.putifabsent/claims/=/a%20b"


def test_two_names_have_two_places() -> None:
    names = [
        "b/a",
        "b/a~1",
        "b/a%20b",
        "b/a b",
        "b/a=b",
        "b/A",
        f"b/{'x' * 200}",
        f"b/{'x' * 201}",
        f"b/{'x' * 202}",
    ]
    assert len({folder_of(ordinary(name)) for name in names}) == len(names)


@given(
    st.lists(
        st.tuples(all_roots, components, uuids, st.integers(1, 9), st.integers(0, 9)),
        min_size=2,
        max_size=6,
        unique=True,
    )
)
def test_no_two_creations_of_any_names_ever_write_one_key(
    creations: list[tuple[str, str, str, int, int]],
) -> None:
    keys = set()
    for root, last, token, incarnation, attempt in creations:
        name = ordinary(f"{root}/{last}")
        prepare = ballot_state.Prepare(incarnation, 0, ballot_state.voter_of(token, attempt, name.rank))
        keys.add(f"{folder_of(name)}/{Salted(name.rank, incarnation, token, attempt)}")
        keys.add(f"{ballot_state.folder_of(name)}/{ballot_state.written(prepare)}")
    assert len(keys) == 2 * len({(f"{root}/{last}", *rest) for root, last, *rest in creations})


@pytest.mark.parametrize("length", [1, 199, 200, 201, 1000])
@pytest.mark.parametrize("letter", ["x", "\u00fc", "\U0001f600", " ", "\udcff"])
def test_no_component_is_longer_than_a_disk_takes(letter: str, length: int) -> None:
    assert len(component(f"b/{letter * length}")) <= 200
    assert len(str(LONGEST)) <= 200


def test_a_component_of_just_200_bytes_is_kept_as_it_is() -> None:
    assert component(f"b/{'x' * 200}") == "x" * 200
    assert component(f"b/{'x' * 201}").startswith("sha256=")


@pytest.mark.parametrize("root", [1, 700, 740, 760, 860])
def test_a_key_is_no_longer_than_an_object_store_takes(root: int) -> None:
    folder = folder_of(ordinary(f"b/{'r' * root}/{'x' * 200}"))
    assert len(f"{folder}/{LONGEST}".encode()) <= 1024


def test_all_names_of_an_identity_share_one_place_and_one_claim() -> None:
    policy = Policy("iceberg")
    one, other = (
        policy.classify(f"b/t/metadata/{last}") for last in ("v3.metadata.json", "v3.gz.metadata.json")
    )
    assert one.path != other.path
    assert folder_of(one) == folder_of(other)
    assert identity_of(one, "s3://") == identity_of(other, "s3://")
    assert one.all_names == other.all_names
    assert [each.all_names[each.rank] for each in (one, other)] == [one.path, other.path]


def test_an_identity_is_the_store_s_address_and_the_name() -> None:
    assert identity_of(ordinary("bucket/folder/name"), "s3://") == "s3://bucket/folder/name"
    assert identity_of(ordinary("/folder/name"), "file://host") == "file://host/folder/name"


def test_a_key_is_read_as_it_was_written() -> None:
    for salted in (LONGEST, Salted(0, 1, TOKEN, 0), Salted(0, 2, "c0", 3)):
        name: Name = ordinary("b/n")
        assert parsed(f"{folder_of(name)}/{salted}") == salted
        assert marked(salted.mark) == salted.incarnation


@pytest.mark.parametrize(
    "other", ["", "name", "0~1~", "0~1~token", "0~x~token.0", "0~1~token.0.tmp", "~~.", "0~1~a~b.0"]
)
def test_what_is_no_key_is_told_from_one(other: str) -> None:
    assert parsed(f"folder/{other}") is None


@pytest.mark.parametrize(
    "other", [None, "", TOKEN, "native", "a~b", f"{TOKEN}.0", f"{TOKEN}~1", f"{TOKEN}.0~x"]
)
def test_what_is_older_than_the_shim_is_told_from_a_copy(other: str | None) -> None:
    assert marked(other) is None
