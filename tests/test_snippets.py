"""All Python that the documentation shows is run from a wheel somewhere, most of it here, as it stands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from putifabsent.lab.servers import LocalBucket
from tests.vouching import vouch
from tests.wheel import install

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
SPARK = "in tests/spark/test_docs.py"
ELSEWHERE = {
    "docs/tutorial.md": "in tests/test_project.py",
    "docs/how-to/stress.md": "in tests/lab/stress/test_stress.py",
    "docs/how-to/paimon.md": "in tests/doors/test_paimon.py, where pypaimon is",
    "docs/how-to/plain-parquet-spark.md": "in tests/spark/test_source.py",
    "docs/how-to/timelines-spark.md": "in tests/spark/test_timeline_source.py",
    **{
        str(page.relative_to(ROOT)): SPARK
        for page in sorted((ROOT / "docs" / "how-to" / "spark").glob("*.md"))
    },
}
MOUNTS = re.compile(r"mount\(SparkSession\.builder.*")
"""A line that takes a JVM, on a page that takes none."""

# What a page's reader has: the store with its bucket, and what the text around a snippet says is there.
BEFORE = """
import fsspec, json, logging
from putifabsent import OutcomeUnknown
fsspec.config.conf["s3"] = fsspec.config.conf["pias3"] = {STORE!r}
"""
TABLE = """
from tests.timeline.tables import Hudi
Hudi(fsspec.filesystem("s3"), "bucket/table").commit("20260101120000000", "20260101120001000")
"""
BESIDE = {
    "docs/decisions/0003-a-cancellation-stays-one.md": """
fs, path, data = fsspec.filesystem("piamemory"), "/x", b"1"
""",
    "docs/how-to/inspect.md": """
from types import SimpleNamespace
from putifabsent.inspection import inspect
from tests.inspection.tables import Iceberg
Iceberg(fsspec.filesystem("memory"), "/orders").version(1)
metadata = SimpleNamespace(metadata_location="memory://orders/metadata/v1.metadata.json")
catalog = SimpleNamespace(load_table=lambda name: metadata)
"""
    + TABLE,
    "docs/how-to/unknown-outcomes.md": """
from types import SimpleNamespace
fs, error = fsspec.filesystem("piamemory"), SimpleNamespace(name="/x", token="5c1a")
""",
    "docs/reference/timeline.md": TABLE,
}
OF_SPARK = re.compile(r"from (putifabsent\.spark|pyspark\.sql) import .*\n")


def snippets(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


PAGES = {
    str(page.relative_to(ROOT)): found
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if (found := snippets(page))
}
HERE = [name for name in PAGES if name not in ELSEWHERE]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Give the Python that has the wheel, and what of this checkout pages may import beside it: its tests."""
    folder = tmp_path_factory.mktemp("wheel")
    beside = folder / "beside"
    beside.mkdir()
    (beside / "tests").symlink_to(ROOT / "tests")
    return install(folder, jar=False), beside


@pytest.fixture(scope="module")
def server() -> Iterator[LocalBucket]:
    with LocalBucket() as server:
        vouch(server.endpoint, bucket="bucket")
        yield server


@pytest.fixture
def store(server: LocalBucket) -> Iterator[LocalBucket]:
    """Give the server with an empty bucket."""
    (bucket := server.folder / "bucket").mkdir()
    yield server
    shutil.rmtree(bucket)


def test_every_page_with_python_is_run() -> None:
    assert ELSEWHERE.keys() <= PAGES.keys()
    for name, where in ELSEWHERE.items():
        test = (ROOT / where.removeprefix("in ").partition(",")[0]).read_text()
        page = Path(name)
        assert page.name in test or f'"{page.parent.name}"' in test, f"{name} is not run {where}"


@pytest.mark.parametrize("name", HERE)
def test_what_a_page_shows_runs(
    name: str, wheel: tuple[Path, Path], store: LocalBucket, tmp_path: Path
) -> None:
    python, beside = wheel
    script = tmp_path / "page.py"
    code = "\n".join(MOUNTS.sub("None", each) for each in PAGES[name])
    code = OF_SPARK.sub("", code.replace('"..."', repr(store.endpoint)))
    before = BEFORE.replace("{STORE!r}", repr(store.storage_options)) + BESIDE.get(name, "")
    script.write_text(f"{before}\n{code}")
    environment = {
        **os.environ,
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": str(beside),
        "AWS_REGION": "us-east-1",
    }
    done = subprocess.run(
        [python, script],
        cwd=tmp_path,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
