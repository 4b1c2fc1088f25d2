"""Records as they come, by Structured Streaming: each batch's load, so that any restart loses and doubles nothing.

A batch has a number, and its offsets stand in the checkpoint before it is read. Its load is written to a folder of its
number, which a repetition replaces. So no state is kept between batches, whatever came late counts, and what is held
in memory is one batch: `max_records` at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from . import failures, keys, read, report, schema
from .brokers import Topics
from .findings import printable

BATCH_KEYS = 100
"""Keys of a topic-partition that a batch keeps; a key that is hot over all batches is among those of many."""

TABLES = ("loads", "batch_keys")


@dataclass(frozen=True)
class Streamed:
    """Where a stream goes.

    Args:
        out: Folder or URI of the tables.
        checkpoint: Folder or URI of what was read so far. It belongs to `out`: one without the other doubles or loses.
        window: Length of the windows, as Spark writes it.
        max_records: Of one batch.
        run: Id on every row.
        allow_loss: Go on behind records that are gone before they were read.
    """

    out: str
    checkpoint: str
    window: str
    max_records: int
    run: str
    allow_loss: bool = False


def follow(spark: SparkSession, bootstrap: str, topics: Topics, to: Streamed) -> None:
    """Read all that came since the checkpoint, from the first record on if there is none, and return.

    Args:
        spark: A session with Spark's Kafka connector.
        bootstrap: ``host:port[,host:port]``.
        topics: What `brokers.topics` found. Partitions that a topic gets later are read from their first record.
        to: Where to.

    Raises:
        ConfigError: Records are gone that were not read yet, and that is not allowed; the brokers answer no more.
        StreamingQueryException: There is no place to write.

    Cost: one job of a few shuffles per `max_records` records; memory of one batch.
    """

    def take(rows: DataFrame, batch: int) -> None:
        records = read.from_kafka(rows, to.run, topics.cluster)
        # Spark tells the number of the batch before; a batch that is done again finds its own folder.
        by_key = keys.by_key(records, to.window, topics.partitions, None).persist()
        loads(by_key).write.mode("overwrite").parquet(f"{to.out}/loads/batch={batch}")
        top_keys(by_key).write.mode("overwrite").parquet(f"{to.out}/batch_keys/batch={batch}")
        by_key.unpersist()

    stream = (
        spark.readStream.format("kafka")
        .options(**read.connection(bootstrap, topics.isolation))
        .option("subscribe", ",".join(topics.partitions))
        .option("startingOffsets", "earliest")  # of a new stream, and of new partitions
        .option("maxOffsetsPerTrigger", str(to.max_records))
        .option("failOnDataLoss", str(not to.allow_loss).lower())
        .load()
    )
    query = (
        stream.writeStream.foreachBatch(take)
        .option("checkpointLocation", to.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    remedy = "--allow-loss goes on behind them; another --out and --checkpoint begin anew"
    try:
        with failures.explained(bootstrap, topics.partitions, remedy):
            query.awaitTermination()
    finally:
        query.stop()


def loads(by_key: DataFrame) -> DataFrame:
    """`schema.KEYS` -> `schema.LOADS` without its batch. Lazy; one small shuffle."""
    null_keys = sf.sum(sf.when(sf.col("key_hash").isNull(), sf.col("records")).otherwise(0))
    rows = by_key.groupBy("run", "topic", "partition", "window_start", "window_end").agg(
        *(sf.sum(name).alias(name) for name in ("records", "bytes", "tombstones")),
        null_keys.alias("null_key_records"),
        sf.min("first_ts").alias("first_ts"),
        sf.max("last_ts").alias("last_ts"),
        sf.min("first_offset").alias("first_offset"),
        sf.max("last_offset").alias("last_offset"),
    )
    return schema.conform(rows, schema.without(schema.LOADS, "batch"), strict=False)


def top_keys(by_key: DataFrame) -> DataFrame:
    """`schema.KEYS` -> the keys of each topic-partition with most records: `schema.BATCH_KEYS` without its batch."""
    each = by_key.where("key_hash is not null").groupBy("run", "topic", "partition", "key_hash", "key")
    place = Window.partitionBy("run", "topic", "partition").orderBy(sf.desc("records"), "key_hash")
    rows = (
        each.agg(sf.sum("records").alias("records"))
        .withColumn("rank", sf.row_number().over(place))
        .where(sf.col("rank") <= BATCH_KEYS)
        .withColumn("key_sample", keys.sample("key"))
    )
    return schema.conform(rows, schema.without(schema.BATCH_KEYS, "batch"), strict=False)


def summary(spark: SparkSession, out: str) -> dict[str, Any]:
    """All batches together.

    Returns:
        ``batches``: how many. ``topics``: per topic ``records``, ``bytes``, ``windows``; ``loads``: per partition its
        ``records``, ``bytes``, ``first_offset``, ``last_offset`` and ``missing``, the offsets between them that had no
        record (compacted, or a transaction's); ``hot_keys``: the ten with most records, as far as the batches kept
        them: a count that is never too high.

    Cost: three small jobs; driver memory of O(partitions).
    """
    try:
        written = spark.read.schema(schema.LOADS).parquet(f"{out}/loads")
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return {"batches": 0, "windows": 0, "topics": []}  # nothing came yet
    per_partition = written.groupBy("topic", "partition").agg(
        *(sf.sum(name).alias(name) for name in ("records", "bytes")),
        sf.min("first_offset").alias("first_offset"),
        sf.max("last_offset").alias("last_offset"),
    )
    topics: dict[str, dict[str, Any]] = {}
    for row in sorted(per_partition.collect()):
        topic = topics.setdefault(row["topic"], {"topic": row["topic"], "records": 0, "bytes": 0, "loads": []})
        topic["records"] += row["records"]
        topic["bytes"] += row["bytes"]
        load = row.asDict()
        del load["topic"]
        load["missing"] = row["last_offset"] - row["first_offset"] + 1 - row["records"]
        topic["loads"].append(load)
    each = spark.read.schema(schema.BATCH_KEYS).parquet(f"{out}/batch_keys").groupBy("topic", "key_hash", "key_sample")
    place = Window.partitionBy("topic").orderBy(sf.desc("records"), "key_hash")
    hot = each.agg(sf.sum("records").alias("records")).withColumn("rank", sf.row_number().over(place))
    for row in sorted(hot.where("rank <= 10").select("topic", "rank", "key_sample", "records").collect()):
        key = {"key": printable(row["key_sample"]), "records": row["records"]}
        topics[row["topic"]].setdefault("hot_keys", []).append(key)
    return {
        "batches": written.select(sf.count_distinct("batch")).collect()[0][0],
        "windows": written.select("topic", "window_start").distinct().count(),
        "topics": list(topics.values()),
    }


def paths(out: str) -> dict[str, str]:
    """Where each table is."""
    return {table: f"{out}/{table}" for table in TABLES}


def show(said: dict[str, Any]) -> None:
    """Print a summary on stdout."""
    report.table(
        f"Load in {said['batches']} batches",
        ("topic", "partition", "records", "bytes", "offsets", "without a record"),
        [
            (topic["topic"], *(load[name] for name in ("partition", "records", "bytes")),
             f"{load['first_offset']} to {load['last_offset']}", load["missing"])
            for topic in said["topics"] for load in topic["loads"]
        ],
    )  # fmt: skip
    report.table(
        "Keys with most records",
        ("topic", "key", "records, at least"),
        [(topic["topic"], key["key"], key["records"]) for topic in said["topics"] for key in topic.get("hot_keys", ())],
    )
