"""Runs whose tables are Iceberg's, in a Spark with that project's jars."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_assignors.jvm.jars import locked_jars

from .test_cluster import ROOT, SETTINGS, environment

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

FORMATS = {
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
    },
}
"""What the project's own page says that Spark needs."""


@pytest.mark.parametrize("format_", FORMATS)
def test_runs_accumulate_and_one_that_is_killed_is_not_named(format_: str, tmp_path: Path) -> None:
    jars = locked_jars(Path(__file__).parent / "locks" / f"{format_}.lock")
    out, settings = str(tmp_path / "out"), {**SETTINGS, **FORMATS[format_]}
    if format_ == "iceberg":
        out, settings["spark.sql.catalog.lake.warehouse"] = "lake.runs", str(tmp_path / "lake")

    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "spark" / "formats.py"), format_, out, ",".join(map(str, jars)),
         json.dumps(settings)],
        capture_output=True, text=True, timeout=500, check=False, cwd=tmp_path,
        env={**environment(), "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])

    assert said["two"] == {"records": [["a", 1], ["it's b", 2]], "runs": ["a", "it's b"], "last": "it's b"}
    # Tables are replaced one by one: until it is done again, the killed run isn't named, and the other is the last.
    assert said["killed"] == {"records": [["a", 3], ["it's b", 2]], "runs": ["it's b"], "last": "it's b"}
    assert said["again"] == {"records": [["a", 4], ["it's b", 2]], "runs": ["a", "it's b"], "last": "a"}
    assert said["one"] == [2]
