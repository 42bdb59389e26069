"""Where PySpark has no data sources, that is said at once; a fake stands for such a PySpark here."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest


@pytest.mark.parametrize("source", ["putifabsent.spark.source", "putifabsent.spark.timelines"])
def test_pyspark_before_4_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    old, sql = ModuleType("pyspark"), ModuleType("pyspark.sql")
    vars(old)["__version__"] = "3.5.9"
    vars(old)["sql"] = sql
    monkeypatch.setitem(sys.modules, "pyspark", old)
    monkeypatch.setitem(sys.modules, "pyspark.sql", sql)
    for module in ("source", "timelines"):
        monkeypatch.delitem(sys.modules, f"putifabsent.spark.{module}", raising=False)
    with pytest.raises(ImportError, match=r"needs PySpark 4\.0 or newer.*this is PySpark 3\.5\.9"):
        importlib.import_module(source)
