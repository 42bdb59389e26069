"""A job that ``spark-submit`` hands to a standalone cluster of two workers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from tests.spark.drivers import run_script, told_on

if TYPE_CHECKING:
    from tests.servers import BucketServer

pytestmark = [pytest.mark.spark, pytest.mark.formats, pytest.mark.timeout(600)]

JOB = """
    import json, os, sys
    import pandas as pd
    from pyspark.sql import SparkSession
    from putifabsent.spark import mount

    lake = sys.argv[1]
    spark = mount(SparkSession.builder.appName("job"), "s3a", arbiter="native").getOrCreate()

    def create(batches):
        import fsspec
        from putifabsent import NameTaken
        fs = fsspec.filesystem("pias3")
        for batch in batches:
            try:
                fs.pipe_file(f"{lake}/one/_delta_log/00000000000000000000.json", os.urandom(8).hex().encode())
                said = "won"
            except NameTaken:
                said = "lost"
            yield pd.DataFrame({"said": [said], "writer": [fs.writer], "worker": [os.environ["PIA_WORKER"]]})

    tasks = spark.range(0, 16, 1, 16).mapInPandas(create, "said string, writer string, worker string")
    said = [row.asDict() for row in tasks.collect()]
    for _ in range(2):
        spark.range(0, 100, 1, 4).write.format("delta").mode("append").save(f"s3a://{lake}/table")
    rows = spark.read.format("delta").load(f"s3a://{lake}/table").count()
    print(json.dumps({"said": said, "rows": rows}))
"""


def test_a_submitted_job_is_guarded_on_every_worker(
    master: str, store: BucketServer, bucket: str, tmp_path: Path
) -> None:
    settings = {
        **told_on(store, bucket, guarded=False).settings,
        "spark.master": master,
        "spark.executor.memory": "1g",
        # Without it no number of workers is waited for.
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.locality.wait": "0s",
    }
    defaults = "\n".join(f"{key} {value}" for key, value in settings.items())
    (tmp_path / "spark-defaults.conf").write_text(defaults)
    (tmp_path / "job.py").write_text(dedent(JOB))
    submit = Path(sys.executable).parent / "spark-submit"
    done = run_script(submit, tmp_path / "job.py", bucket, defaults=tmp_path, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-5000:]
    heard = json.loads(done.stdout.strip().splitlines()[-1])
    assert sorted(each["said"] for each in heard["said"]) == ["lost"] * 15 + ["won"]
    assert {each["worker"] for each in heard["said"]} == {"0", "1"}
    assert len({each["writer"] for each in heard["said"]}) == 1
    assert heard["rows"] == 200
