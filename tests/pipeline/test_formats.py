"""Runs whose tables are Iceberg's or Delta Lake's, in a Spark with that project's jars."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Record, send
from kafka_assignors.jvm import spark_jars
from kafka_assignors.jvm.jars import locked_jars
from tests.support.cli import valid
from tests.support.pipeline.clusters import SETTINGS, SPARK, environment
from tests.support.pipeline.formats import ODD
from tests.support.places import ROOT
from tests.support.programs import python, ran

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

    done = python(
        str(ROOT / "tests" / "spark" / "formats.py"), format_, out, ",".join(map(str, jars)), json.dumps(settings),
        within_s=500, cwd=tmp_path, env={**environment(), "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])

    assert said["two"] == {"records": [["a", 1], [ODD, 2]], "runs": ["a", ODD], "last": ODD}
    # Tables are replaced one by one: until it is done again, the killed run isn't named, and the other is the last.
    assert said["killed"] == {"records": [["a", 3], [ODD, 2]], "runs": [ODD], "last": ODD}
    assert said["again"] == {"records": [["a", 4], [ODD, 2]], "runs": ["a", ODD], "last": "a"}
    assert said["one"] == [2]


@pytest.mark.broker
@pytest.mark.timeout(1800)
def test_a_whole_run_says_the_same_in_every_format(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Records and a group's log by spark-submit, the same run twice, then its page: as with Spark's own Parquet."""
    topic, name = kafka_topic(partitions=3), f"formats-{uuid.uuid4().hex}"
    send(
        kafka_broker.bootstrap,
        tmp_path / "history",
        "r",
        "default",
        [Record(topic, b"key-%d" % (n % 40)) for n in range(200)],
    )
    with MemberGroup(kafka_broker.connection, name, tmp_path / "history", "r") as group:
        for member in ("m1", "m2"):
            group.start(member, [topic], ["cooperative-sticky"])
            group.wait_stable()
    reads = ("--bootstrap", kafka_broker.bootstrap, "--topics", topic, "--group", name, "--what-if", "7")

    def submitted(format_: str, *words: str) -> dict[str, Any]:
        (folder := tmp_path / format_).mkdir(exist_ok=True)
        out, jars, settings = spark_with(format_, folder)
        where = ["--out", out] if words[0] == "run" else [out, "--html", str(folder / "report.html")]
        done = ran(
            str(SPARK / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "1g",
            "--jars", ",".join(map(str, [*spark_jars(), *jars])),
            *itertools.chain(*(("--conf", f"{name}={value}") for name, value in settings.items())),
            str(ROOT / "pipeline" / "__main__.py"), *words, "--run", ODD, "--format", format_, "--json", *where,
            within_s=300, env={**environment(), "PYTHONPATH": str(ROOT)}, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        said = valid(f"report-{'run' if words[0] == 'run' else 'page'}", json.loads(done.stdout.splitlines()[-1]))
        for name in ("version", "written_ms", "expires_ms"):  # of the weights: when they were measured
            said.get("weights", {}).pop(name, None)
        return {name: value for name, value in said.items() if name not in ("out", "seconds")}

    expected = submitted("parquet", "run", *reads)
    assert (expected["rows"]["records"], expected["rows"]["group_timeline"] > 0) == (200, True)
    page = submitted("parquet", "report")
    for format_ in FORMATS:
        assert submitted(format_, "run", *reads) == expected
        assert submitted(format_, "run", *reads) == expected  # it replaces the first one's rows
        assert submitted(format_, "report") == page
