"""The SQL of Flink's page runs as it stands there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.flink.cluster import ROOT
from tests.flink.programs import FORMATS

if TYPE_CHECKING:
    from tests.flink.cluster import Cluster
    from tests.flink.programs import Program
    from tests.servers import BucketServer

pytestmark = [pytest.mark.flink, pytest.mark.timeout(300)]

PAGE = (ROOT / "docs" / "how-to" / "flink.md").read_text()
BLOCKS = re.findall(r"^```sql\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_page_has_a_block_for_each_format() -> None:
    assert len(BLOCKS) == len(FORMATS)


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_writes_and_its_rows_are_read(
    block: str, program: Program, cluster: Cluster, store: BucketServer
) -> None:
    own = block.replace("s3a://lake/", f"s3a://{store.new_bucket()}/")
    statements = [each.strip() for each in own.split(";") if each.strip()]
    assert cluster.wait_for(program.submit(*statements)) == "FINISHED"
    read = f"SELECT who, n FROM {statements[-1].split()[2]}"  # noqa: S608 - the page's own
    assert sorted(program.run(statements[0], read)) == [["me", 1], ["me", 2]]
