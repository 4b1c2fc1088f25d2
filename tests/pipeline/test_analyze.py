"""`analyze`: the tables as lazy DataFrames, as docs/pipeline-tables.md shows them; importing it needs no Spark."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from pyspark.testing import assertSchemaEqual

from kafka_assignors.errors import ConfigError
from kafka_assignors.integration.records import Record, send
from kafka_assignors.pipeline import Source, analyze, schema
from kafka_assignors.producers import partition_for_key
from tests.support.places import ROOT
from tests.support.programs import python

EXAMPLE = re.search(
    r"```python\n(from kafka_assignors\.pipeline import .*?)```",
    (ROOT / "docs/pipeline-tables.md").read_text(),
    re.DOTALL,
)
WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None  # what an import finds when the package is not installed
from kafka_assignors import pipeline
assert {"analyze", "Source", "Tables"} <= set(dir(pipeline))
try:
    pipeline.analyze
except ModuleNotFoundError as missing:
    print(missing.name)
"""


def test_importing_the_package_needs_no_spark() -> None:
    run = python("-c", WITHOUT_SPARK)
    assert (run.stdout.strip().partition(".")[0], run.returncode) == ("pyspark", 0), run.stderr


def test_an_unknown_name_is_an_attribute_error() -> None:
    from kafka_assignors import pipeline

    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        pipeline.Nothing  # noqa: B018


# long: computes every table; test_end_to_end.py computes them by the command
@pytest.mark.long
@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.timeout(600)
def test_the_example_in_the_docs_says_what_the_topic_holds(kafka_broker, kafka_topic, spark, tmp_path) -> None:
    topic, keys = kafka_topic(partitions=6), [b"key-%d" % (i % 90) for i in range(300)]
    records = [Record(topic, b"hot" if i % 3 else key) for i, key in enumerate(keys)]
    assert send(kafka_broker.bootstrap, tmp_path, "r", "default", records).acked == 300
    expected = Counter(partition_for_key(record.key, 6) for record in records)

    assert EXAMPLE is not None
    here = EXAMPLE[1].replace("localhost:9092", kafka_broker.bootstrap).replace('"orders"', repr(topic))
    names: dict[str, Any] = {"spark": spark}
    exec(here, names)  # the program that the page shows

    tables = names["tables"]
    assert {row["partition"]: row["records"] for row in names["busiest"].collect()} == expected
    assert names["sentences"] == [row["text"] for row in tables.findings.collect()]
    assert any("'hot'" in sentence for sentence in names["sentences"])
    for name, columns in schema.TABLES.items():
        frame = getattr(tables, name)
        assertSchemaEqual(frame.schema, columns)
    assert [row["records"] for row in tables.topic_load.collect()] == [300]
    assert {row["partitions"] for row in tables.partitioner_what_if.collect()} == {6, 12, 24}  # its own too
    assert tables.group_timeline.count() == tables.rebalances.count() == tables.rejected.count() == 0
    assert list(tmp_path.rglob("*.parquet")) == []


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": "soon"}, "not a duration"),
        ({"reference": "nobody"}, "is not a rule"),
        ({"hot_key_share": 2}, "is not a share"),
        ({"weights_unit": "apples"}, "is not known"),
    ],
)
def test_an_option_that_cannot_work_is_refused_before_a_broker_is_asked(options, message) -> None:
    with pytest.raises(ConfigError, match=message):
        analyze(None, Source("localhost:1", ["orders"]), **options)  # type: ignore[arg-type]
