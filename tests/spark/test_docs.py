"""The pages for Spark, run as they stand by the wheel; what a user has besides is in spark-defaults.conf."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.servers import VersityGW
from tests.spark.drivers import LONG, ROOT, SHORT, run_script, told_on
from tests.spark.pages import laid_out
from tests.spark.writers import FORMATS, THERE
from tests.test_snippets import HERE, MOUNTS
from tests.test_snippets import PAGES as BLOCKS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.formats, pytest.mark.timeout(600)]

ENOUGH = {"index", "streaming"}
"""Of a short run; all of a longer one."""
PAGES = [
    page
    for page in sorted((ROOT / "docs" / "how-to" / "spark").glob("*.md"))
    if (page.stem in ENOUGH or not SHORT) and (page.stem not in FORMATS or page.stem in THERE)
]
# What a page itself says.
SAID = ("spark.sql.", "spark.serializer", "spark.test.", "spark.databricks.")


@pytest.fixture(scope="module")
def defaults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Lay out a machine whose Spark has the jars, and S3 credentials."""
    folder = tmp_path_factory.mktemp("conf")
    with VersityGW() as store:
        store.client().create_bucket(Bucket="lake")
        settings = told_on(store, "lake", guarded=False).settings
        lines = [f"{key} {value}" for key, value in settings.items() if not key.startswith(SAID)]
        (folder / "spark-defaults.conf").write_text("\n".join(lines))
        yield folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs(page: Path, defaults: Path, python: Path, tmp_path: Path) -> None:
    script = laid_out(page, tmp_path)
    assert "mount(" in script.read_text()
    done = run_script(python, script, defaults=defaults, folder=tmp_path, python=python)
    assert done.returncode == 0, done.stderr[-3000:]


@LONG
def test_sessions_that_other_pages_mount_run(defaults: Path, python: Path, tmp_path: Path) -> None:
    lines = [
        line for name, blocks in BLOCKS.items() if name in HERE for line in MOUNTS.findall("\n".join(blocks))
    ]
    assert len(lines) >= 2
    script = tmp_path / "mounts.py"
    before = "from pyspark.sql import SparkSession\n\nfrom putifabsent.spark import mount\n\n"
    script.write_text(
        before + "\n".join(f"{line}\nspark.stop()" for line in (f"spark = {each}" for each in lines))
    )
    done = run_script(python, script, defaults=defaults, folder=tmp_path, python=python)
    assert done.returncode == 0, done.stderr[-3000:]
