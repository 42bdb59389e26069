"""Tables of unmodified writers with all services on: no commit that hurts nothing is refused."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from typing import TYPE_CHECKING

import pytest

from bench.services import LIVES, judged, live, refused
from tests.child import CallError
from tests.spark.drivers import LONG
from tests.spark.writers import IS_NEWER

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Note
    from tests.servers import BucketServer
    from tests.spark.drivers import Driver

APPENDS = 1000 if os.environ.get("LONG") else 45

pytestmark = [pytest.mark.spark, pytest.mark.formats, pytest.mark.timeout(60 * APPENDS)]


@pytest.mark.skipif(IS_NEWER, reason="there are not all formats for this PySpark")
@LONG
@pytest.mark.parametrize("form", LIVES)
def test_nothing_is_refused_that_a_writer_and_its_services_commit(
    form: str, store: BucketServer, tmp_path: Path, note: Note
) -> None:
    lived = live(store, form, APPENDS, tmp_path / "log", lambda: None)
    note(f"{lived.commits} commits, {lived.refused} refused")
    assert judged(lived) == []
    assert lived.commits > APPENDS


def test_what_is_refused_is_counted(pair: list[Driver], bucket: str) -> None:
    before = refused(pair[0])
    body = b64encode(json.dumps({"add": {"path": "gone", "dataChange": True}}).encode()).decode()
    with pytest.raises(CallError, match="would damage its table"):
        pair[0].call("create", path=f"s3a://{bucket}/counted/_delta_log/{0:020d}.json", body=body)
    assert refused(pair[0]) == before + 1
