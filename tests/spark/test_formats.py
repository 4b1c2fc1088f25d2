"""Runs whose tables are Iceberg's or Delta Lake's, in a Spark with that project's jars."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_assignors.jvm.jars import locked_jars

from .formats import ODD
from .test_cluster import ROOT, SETTINGS, environment

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

FORMATS = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
    },
}
"""What the project's own page says that Spark needs."""


def spark_with(format_: str, folder: Path) -> tuple[str, list[Path], dict[str, str]]:
    """Where the tables go, and the jars and settings of a Spark that has the format."""
    out, settings = str(folder / "out"), {**SETTINGS, **FORMATS.get(format_, {})}
    if format_ == "parquet":
        return out, [], settings
    if format_ == "iceberg":
        out, settings["spark.sql.catalog.lake.warehouse"] = "lake.runs", str(folder / "lake")
    return out, locked_jars(Path(__file__).parent / "locks" / f"{format_}.lock"), settings


@pytest.mark.parametrize("format_", FORMATS)
def test_runs_accumulate_and_one_that_is_killed_is_not_named(format_: str, tmp_path: Path) -> None:
    out, jars, settings = spark_with(format_, tmp_path)

    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "spark" / "formats.py"), format_, out, ",".join(map(str, jars)),
         json.dumps(settings)],
        capture_output=True, text=True, timeout=500, check=False, cwd=tmp_path,
        env={**environment(), "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])

    assert said["two"] == {"records": [["a", 1], [ODD, 2]], "runs": ["a", ODD], "last": ODD}
    # Tables are replaced one by one: until it is done again, the killed run isn't named, and the other is the last.
    assert said["killed"] == {"records": [["a", 3], [ODD, 2]], "runs": [ODD], "last": ODD}
    assert said["again"] == {"records": [["a", 4], [ODD, 2]], "runs": ["a", ODD], "last": "a"}
    assert said["one"] == [2]
