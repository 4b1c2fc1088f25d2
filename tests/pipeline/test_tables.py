"""A run's tables are there as a whole or not at all, beside those of other runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from kafka_assignors.errors import ConfigError
from kafka_assignors.pipeline import schema
from kafka_assignors.pipeline.storage import tables
from kafka_assignors.pipeline.storage.tables import StoredTables

pytestmark = pytest.mark.spark
NAMES = ("topic_load", "rejected")


def load(spark: SparkSession, run: str, records: int) -> DataFrame:
    return spark.createDataFrame([(run, "t", 1, records, 9, 1.0, 0.0, 0.0, 0)], schema.TOPIC_LOAD)


def kept(spark: SparkSession, out: Path, run: str, records: int) -> StoredTables:
    """A run that has written all and not committed."""
    found = StoredTables(spark, str(out), run)
    found.begin()
    found.write(load(spark, run, records), "topic_load")
    found.write(spark.createDataFrame([], schema.REJECTED), "rejected")
    return found


def there(spark: SparkSession, out: Path) -> dict[str, int]:
    rows = tables.written(spark, str(out), "topic_load", schema.TOPIC_LOAD, None).collect()
    assert len({row["run"] for row in rows}) == len(rows)
    return {row["run"]: row["records"] for row in rows}


@pytest.mark.long  # long: four runs; the next test has one that was killed, and one that takes its place
def test_runs_accumulate_and_one_that_was_killed_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no complete run; create one with"):
        tables.chosen(spark, str(tmp_path), None)
    odd = "2026-01-02T03:04 50% [a]"
    kept(spark, tmp_path, "a", 1).commit(NAMES, "c")
    kept(spark, tmp_path, odd, 2).commit(NAMES, "c")
    assert there(spark, tmp_path) == {"a": 1, odd: 2}
    assert tables.chosen(spark, str(tmp_path), None) == odd
    assert tables.chosen(spark, str(tmp_path), "a") == "a"
    with pytest.raises(ConfigError, match=r"--run 'b' is not a complete run in .*; complete runs: "):
        tables.chosen(spark, str(tmp_path), "b")
    assert tables.written(spark, str(tmp_path), "rejected", schema.REJECTED, "a").count() == 0

    killed = kept(spark, tmp_path, "a", 3)
    assert there(spark, tmp_path) == {"a": 1, odd: 2}
    assert killed.read("topic_load", schema.TOPIC_LOAD).collect()[0]["records"] == 3  # by itself alone

    kept(spark, tmp_path, "a", 4).commit(NAMES, "c")
    assert there(spark, tmp_path) == {"a": 4, odd: 2}
    assert tables.chosen(spark, str(tmp_path), None) == "a"
    assert not list((tmp_path / "_staging").iterdir())


@pytest.mark.release("the test above reads what a killed run left")
def test_a_run_that_was_killed_while_it_put_its_tables_in_place_is_not_whole(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(spark, tmp_path, "a", 1).commit(NAMES, "c")
    kept(spark, tmp_path, "b", 1).commit(NAMES, "c")
    again = kept(spark, tmp_path, "b", 2)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    for call in ("make", "move"):
        with monkeypatch.context() as patch:
            patch.setattr(tables.Files, call, fail)
            with pytest.raises(KeyboardInterrupt):
                again.commit(NAMES, "c")
        assert tables.chosen(spark, str(tmp_path), None) == "a"

    kept(spark, tmp_path, "b", 3).commit(NAMES, "c")
    assert there(spark, tmp_path) == {"a": 1, "b": 3}


@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_a_format_that_spark_does_not_have_is_refused(spark: SparkSession, name: str) -> None:
    with pytest.raises(ConfigError, match=rf"--format {name}: Spark has no class .* --packages \S+:VERSION"):
        tables.require(spark, name)
    tables.require(spark, "parquet")
