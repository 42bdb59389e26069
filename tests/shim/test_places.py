"""Where arbiters keep what they know: one listing shows it for a folder, and each key tells whose it is."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from putifabsent.shim.names import ordinary
from putifabsent.shim.policy import Policy
from putifabsent.shim.state_keys import Placed, folder_for, placed, shelf_for
from tests.shim.folders import all_roots, components

LOG = "_delta_log/00000000000000000000.json"


@given(all_roots, components)
@example("bucket/sources/0", "0")
def test_a_key_tells_of_which_name_it_is(root: str, last: str) -> None:
    for path in (f"{root}/{last}", f"{root}/{LOG}"):
        name = Policy("delta").classify(path)
        folder = folder_for(name, "ballot", 130)
        found = placed(f"{folder}/P~1")
        assert found is not None
        assert found.folder == folder
        assert found.arbiter == "ballot"
        assert found.name == (None if "sha256=" in folder else name.canonical)


@given(all_roots, st.lists(components, min_size=2, max_size=4, unique=True))
def test_all_names_of_a_folder_lie_on_one_shelf(root: str, lasts: list[str]) -> None:
    state = f"{root}/.putifabsent"
    shelf = shelf_for(state, f"{root}/x", "claims", 64)
    names = [ordinary(f"{root}/x/{last}")._replace(table=root) for last in lasts]
    folders = {folder_for(name, "claims", 64) for name in names}
    assert {folder.rpartition("/")[0] for folder in folders} == {shelf}
    assert len(folders) == len(names)


def test_folders_of_one_table_have_shelves_of_their_own() -> None:
    state = "b/t/.putifabsent"
    shelves = [shelf_for(state, folder, "ballot", 130) for folder in ("b/t", "b/t/=", "b/t/a", "b/t/a/b")]
    assert shelves == [f"{state}/ballot/{shelf}" for shelf in ("=", "%3D", "a", "a%2Fb")]


def test_a_long_folder_is_hashed_and_a_key_no_longer_than_an_object_store_takes() -> None:
    deep = "/".join("d" * 60 for _ in range(5))
    name = Policy("paimon").classify(f"b/{'r' * 500}/{deep}/snapshot/snapshot-7")
    folder = folder_for(name._replace(table=f"b/{'r' * 500}"), "ballot", 130)
    assert "/sha256=" in folder
    assert len(folder) + 130 <= 1024
    assert placed(f"{folder}/P~1") == Placed("ballot", folder, None)


def test_what_is_no_arbiter_s_key_is_told_from_one() -> None:
    for path in (
        "b/t/_delta_log/0.json",
        "b/t/.putifabsent",
        "b/t/.putifabsent/tmp-1",
        "b/.putifabsent/x/y/z",
    ):
        assert placed(path) is None
