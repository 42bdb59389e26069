"""The rules of the house find what breaks them, and CONTRIBUTING.md says truly where things are."""

from __future__ import annotations

import re
import runpy
import sys
import uuid
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

import putifabsent

if TYPE_CHECKING:
    from types import FrameType

    from putifabsent.lab.servers import LocalBucket

ROOT = Path(__file__).parents[1]
PACKAGE = Path(putifabsent.__file__).parent
HOUSE = runpy.run_path(str(ROOT / "tools" / "house.py"))
TABLE = (
    (ROOT / "CONTRIBUTING.md").read_text().partition("| behaviour | file | text |")[2].partition("\n\n")[0]
)
ROWS = re.findall(r"^\| (.+?) \| `(.+?\.py)` \| `` (.+?) `` \|$", TABLE, re.MULTILINE)
# So many files does a warm guarded put of a Paimon snapshot on S3 enter. It may become less, and no more.
MOST_FILES = 18


@pytest.mark.parametrize(("file", "text"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_behaviour_is_in_its_file_and_in_no_other(file: str, text: str) -> None:
    holding = [path for path in sorted(PACKAGE.rglob("*.py")) if text in path.read_text()]
    assert [path.relative_to(PACKAGE).as_posix() for path in holding] == [file]


def test_no_row_of_the_table_is_overlooked() -> None:
    assert len(ROWS) == len(TABLE.splitlines()[2:]) >= 25


def test_make_proof_collects_all_that_plays_every_schedule() -> None:
    [folders] = re.findall(r"^PROOFS := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    playing = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if re.search(r"\bmark\.(exhaustive|proof)\b", path.read_text())
    ]
    assert len(playing) > 5
    assert [path for path in playing if not path.startswith(tuple(folders.split()))] == []


def test_a_warm_guarded_put_enters_few_files(localbucket: LocalBucket) -> None:
    """Seen in a process of its own, where no other test's objects are there to be collected."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        entered = process.submit(files_entered, localbucket.storage_options, localbucket.bucket).result()
    assert 1 < len(entered) <= MOST_FILES, sorted(entered)


def files_entered(options: dict[str, Any], bucket: str) -> set[str]:
    fs: Any = fsspec.filesystem("pias3", **options)
    table = f"{bucket}/lab.db/{uuid.uuid4()}"
    # By what is beside them its snapshots are seen to be a Paimon table's.
    for name in ("schema/schema-0", "manifest/manifest", "snapshot/snapshot-1", "snapshot/snapshot-2"):
        fs.pipe_file(f"{table}/{name}", b"{}")
    with pytest.raises(FileExistsError):
        fs.pipe_file(f"{table}/snapshot/snapshot-2", b"{}")
    entered: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            entered.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        fs.pipe_file(f"{table}/snapshot/snapshot-3", b"{}")
    finally:
        sys.setprofile(None)
    return entered


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Give the root of a package that breaks all rules."""
    files = {
        "putifabsent/fsspec_plugin/small.py": "class A: ...\nclass B(A): ...\n",
        "putifabsent/fsspec_plugin/guard.py": (
            "from putifabsent.fsspec_plugin.small import B\n"
            "from putifabsent.shim.formats import hudi\n"
            "class C(B): ...\n"
        ),
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_what_breaks_a_rule_is_found(root: Path) -> None:
    package = HOUSE["modules"](root)
    small, guard = (f"putifabsent/fsspec_plugin/{name}.py" for name in ("small", "guard"))
    assert HOUSE["small"](package) == {small: f"2 lines, and only {guard} imports it"}
    assert HOUSE["chains"](package) == {guard: "C is the last of 3 classes that inherit from each other"}
    assert [line.rpartition(" ")[2] for line in HOUSE["formats"](package)] == [
        "putifabsent.shim.formats",
        "putifabsent.shim.formats.hudi",
    ]


def test_a_reason_counts_while_it_is_needed_and_if_it_is_a_sentence() -> None:
    found = {"a.py": "it is small"}
    assert list(HOUSE["reasoned"](found, {})) == ["a.py: it is small"]
    assert list(HOUSE["reasoned"](found, {"a.py": "It has a good reason."})) == []
    [wordless] = HOUSE["reasoned"](found, {"a.py": "because"})
    assert wordless.endswith("is no sentence")
    [stale] = HOUSE["reasoned"]({}, {"a.py": "It has a good reason."})
    assert stale.endswith("is needed no more")
