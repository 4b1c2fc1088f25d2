"""The Spark job's tables over many records, on this machine's cores."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .result import Result, WrongAnswer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PARTITIONS = {"orders": 12, "payments": 6, "audit": 3}


def run(quick: bool) -> Iterator[Result]:
    """``scale-1m``, ``scale-10m``: wall seconds for `placement` and `topic_load` of generated records, after a warm-up.

    The records are generated in Spark: reading Kafka is not in it. The quick form runs once instead of three times, and
    leaves ten million out.
    """
    # Spark is an extra: a benchmark that does without it must not ask for it.
    from pipeline.run import Steps, session

    with session(Steps()) as spark:
        _tables(spark, 10_000)
        yield _scale(spark, "scale-1m", 1_000_000, 1 if quick else 3)
        if not quick:
            yield _scale(spark, "scale-10m", 10_000_000, 1)


def _scale(spark: SparkSession, name: str, size: int, rounds: int) -> Result:
    seconds = [_tables(spark, size) for _ in range(rounds)]
    return Result(name, sorted(seconds)[len(seconds) // 2], "s", raw={"seconds": seconds})


def _tables(spark: SparkSession, size: int) -> float:
    from pipeline.transform import placement, topic_load

    began = time.perf_counter()
    placed = placement(_records(spark, size), "1 minute", _PARTITIONS).cache()
    counted: Any = placed.agg({"records": "sum"}).collect()[0][0]
    topic_load(placed, _PARTITIONS).collect()
    took = time.perf_counter() - began
    placed.unpersist()
    if counted != size:
        raise WrongAnswer(f"placement counts {counted} records of {size}")
    return took


def _records(spark: SparkSession, size: int) -> DataFrame:
    """`schema.RECORDS`: three topics, ten minutes, 50,000 keys, every fourth record without one."""
    from pyspark.sql import functions as sf

    from pipeline import schema

    row = sf.col("id")
    topics = list(_PARTITIONS)
    topic = sf.when(row % 7 < 4, topics[0]).when(row % 7 < 6, topics[1]).otherwise(topics[2])
    partitions = sf.when(row % 7 < 4, 12).when(row % 7 < 6, 6).otherwise(3)
    key = sf.when(row % 4 != 3, sf.xxhash64(row % 50_000))
    return schema.conform(
        spark.range(size).select(
            sf.lit("run").alias("run"), sf.lit("cluster").alias("cluster"), topic.alias("topic"),
            sf.pmod(sf.coalesce(key, sf.xxhash64(row)), partitions).cast("int").alias("partition"),
            row.alias("offset"), sf.timestamp_seconds(sf.lit(1_767_225_600) + row % 600).alias("ts"),
            sf.lit(0).alias("ts_type"), key.alias("key_hash"), sf.when(key.isNotNull(), 8).alias("key_bytes"),
            sf.lit(100).alias("value_bytes"), sf.lit(0).alias("header_bytes"), row.cast("string").alias("value_id"),
            sf.lit("default").alias("producer"),
        ),
        schema.RECORDS,
        strict=False,
    )  # fmt: skip
