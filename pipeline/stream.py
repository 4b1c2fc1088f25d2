"""Structured Streaming: the load of each batch of new records. No restart loses or duplicates records.

A batch has a number, and its offsets are in the checkpoint before it is read. Its load is written to a folder named by
that number, which a repetition replaces. So batches share no state, late records count, and memory holds one batch of
at most `max_records`. When there are many folders, they are compacted into one: ``upto=N`` replaces all batches up to N
once it has its _SUCCESS; they are deleted after that.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from kafka_assignors.connection import Connection
from kafka_assignors.errors import ConfigError

from . import failures, options, schema
from .findings import printable
from .load import keys
from .report import text
from .sources import read
from .sources.brokers import TopicSnapshot
from .storage.files import Files

BATCH_KEYS = 100
"""Maximum keys per topic-partition and batch; a key that is hot overall is among the top keys of many batches."""

KEPT_KEYS = 1000
"""Maximum keys per topic-partition in a sum of batches."""

MOST_BATCHES = 50
"""Number of batch folders at which they are compacted."""

TABLES = ("loads", "batch_keys")


@dataclass(frozen=True)
class Streamed:
    """The output of a stream, and its limits.

    Delete both folders or neither: without the checkpoint records are counted twice, without `out` they are lost.
    """

    out: str  # folder or URI of the tables
    checkpoint: str  # folder or URI of the offsets read so far
    window: str  # length of the windows, in Spark's syntax
    max_records: int  # maximum records per batch
    run: str
    allow_loss: bool = False  # continue if records were deleted before they were read


def follow(spark: SparkSession, bootstrap: str | Connection, topics: TopicSnapshot, to: Streamed) -> None:
    """Read all new records since the checkpoint, or from the first record if there is none, then return.

    Partitions added later are read from their first record.

    Raises:
        ConfigError: Unread records were deleted, and `allow_loss` is not set.
        ClusterError: The brokers no longer answer.
        StreamingQueryException: The output cannot be written.

    Cost: one job of a few shuffles per `max_records` records; memory of one batch.
    """

    def take(rows: DataFrame, batch: int) -> None:
        records = read.from_kafka(rows, to.run, topics.cluster)
        # Spark passes the number of the batch, and the same number if it is repeated.
        counts = keys.counted(records, to.window).persist()
        loads(keys.windows(counts)).write.mode("overwrite").parquet(f"{to.out}/loads/batch={batch}")
        top_keys(keys.distinct(counts)).write.mode("overwrite").parquet(f"{to.out}/batch_keys/batch={batch}")
        counts.unpersist()

    stream = (
        spark.readStream.format("kafka")
        .options(**read.connection(bootstrap, topics.isolation))
        .option("subscribe", ",".join(topics.partitions))
        .option("startingOffsets", "earliest")  # for a new stream, and for new partitions
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
    remedy = "--allow-loss continues after them; another --out and --checkpoint start again"
    try:
        with failures.explained(bootstrap, topics.partitions, remedy):
            query.awaitTermination()
    finally:
        query.stop()
    for table in TABLES:
        compact(spark, to.out, table)


def remembered(spark: SparkSession, out: str, window: str | None) -> str:
    """The window of the existing batches; if there are none, the requested one, else a minute.

    Raises:
        ConfigError: A different one is requested: the rows would not add up.
    """
    there = Batches.of(spark, out, "loads")
    micros = sf.unix_micros("window_end") - sf.unix_micros("window_start")
    rows = there.read(spark).limit(1).select(micros).collect() if there.number else []
    if not rows:
        return window or "1 minute"
    batch_window = timedelta(microseconds=rows[0][0])
    if window is not None and options.length(window) != batch_window:
        raise ConfigError(
            f"--window {window!r}: the batches in {out!r} have windows of {batch_window.total_seconds():g} seconds; "
            "remove --window, or start again in another --out and --checkpoint"
        )
    return f"{batch_window // timedelta(milliseconds=1)} milliseconds"


@dataclass(frozen=True)
class Batches:
    """The batch folders of a table: the sum of those up to `upto` (-1: no sum), and the `later` ones, ascending."""

    folder: str
    upto: int
    later: tuple[int, ...]

    @classmethod
    def of(cls, spark: SparkSession, out: str, table: str) -> Batches:
        """The valid batches of a table."""
        folder, files = f"{out}/{table}", Files(spark)
        names = [name.partition("=") for name in files.children(folder)]
        sums = [int(n) for kind, _, n in names if kind == "upto" and files.exists(f"{folder}/upto={n}/_SUCCESS")]
        upto = max(sums, default=-1)
        return cls(folder, upto, tuple(sorted(int(n) for kind, _, n in names if kind == "batch" and int(n) > upto)))

    @property
    def number(self) -> int:
        """The number of batches so far."""
        return self.upto + 1 + len(self.later)

    def read(self, spark: SparkSession) -> DataFrame:
        """Their rows without the batch number; there must be a batch."""
        columns = schema.without(_SCHEMAS[self.folder.rpartition("/")[2]], "batch")
        paths = [f"{self.folder}/batch={n}" for n in self.later]
        paths += [f"{self.folder}/upto={self.upto}"] if self.upto >= 0 else []
        return spark.read.schema(columns).parquet(*paths)


_SCHEMAS = {"loads": schema.LOADS, "batch_keys": schema.BATCH_KEYS}


def compact(spark: SparkSession, out: str, table: str) -> None:
    """Compact the batches of a table if there are many. A kill at any time neither loses nor duplicates records.

    Cost: one job over what the table holds, every `MOST_BATCHES` batches.
    """
    there, files = Batches.of(spark, out, table), Files(spark)
    if len(there.later) >= MOST_BATCHES:
        rows, columns = there.read(spark), schema.without(_SCHEMAS[table], "batch")
        summed = _summed_loads(rows) if table == "loads" else _summed_keys(rows)
        last = there.later[-1]
        tasks = max(1, -(-spark.sparkContext.defaultParallelism // 2))
        conformed = schema.conform(summed, columns, strict=False).coalesce(tasks)
        conformed.write.mode("overwrite").parquet(f"{there.folder}/upto={last}")
        there = Batches.of(spark, out, table)
    kept = {f"upto={there.upto}", *(f"batch={n}" for n in there.later)}
    for name in files.children(there.folder) if there.upto >= 0 else ():
        if name.partition("=")[0] in ("upto", "batch") and name not in kept:
            files.delete(f"{there.folder}/{name}")


def _summed_loads(rows: DataFrame) -> DataFrame:
    lowest, highest = ("first_ts", "first_offset"), ("last_ts", "last_offset")
    return rows.groupBy("run", "topic", "partition", "window_start", "window_end").agg(
        *(sf.sum(name).alias(name) for name in ("records", "bytes", "tombstones", "null_key_records")),
        *(sf.min(name).alias(name) for name in lowest),
        *(sf.max(name).alias(name) for name in highest),
    )


def _summed_keys(rows: DataFrame) -> DataFrame:
    place = Window.partitionBy("run", "topic", "partition").orderBy(sf.desc("records"), "key_hash")
    summed = rows.groupBy("run", "topic", "partition", "key_hash", "key_sample").agg(sf.sum("records").alias("records"))
    return summed.withColumn("rank", sf.row_number().over(place)).where(sf.col("rank") <= KEPT_KEYS)


def loads(windows: DataFrame) -> DataFrame:
    """Convert the result of `keys.windows` to `schema.LOADS` without its batch. Lazy."""
    return schema.conform(windows, schema.without(schema.LOADS, "batch"), strict=False)


def top_keys(distinct: DataFrame) -> DataFrame:
    """Convert the result of `keys.distinct` to top keys per topic-partition: `schema.BATCH_KEYS` without its batch."""
    place = Window.partitionBy("run", "topic", "partition").orderBy(sf.desc("records"), "key_hash")
    rows = (
        distinct.where("key_hash is not null")
        .withColumn("rank", sf.row_number().over(place))
        .where(sf.col("rank") <= BATCH_KEYS)
        .withColumn("key_sample", keys.sample("key"))
    )
    return schema.conform(rows, schema.without(schema.BATCH_KEYS, "batch"), strict=False)


def summary(spark: SparkSession, out: str) -> dict[str, Any]:
    """Summarize all batches.

    Returns:
        ``batches``: their number. ``topics``: per topic ``records``, ``bytes``, ``windows``; ``loads``: per partition
        its ``records``, ``bytes``, ``first_offset``, ``last_offset`` and ``missing``, the offsets between them without
        a record (compacted, or a transaction's); ``hot_keys``: the ten keys with the most records among those that the
        batches kept; a count is never too high.

    Cost: three small jobs; driver memory of O(partitions).
    """
    there = Batches.of(spark, out, "loads")
    if not there.number:
        return {"batches": 0, "windows": 0, "topics": []}  # no records yet
    written = there.read(spark)
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
    if not topics:  # a first batch may be empty
        return {"batches": 0, "windows": 0, "topics": []}
    batch_keys = Batches.of(spark, out, "batch_keys").read(spark).groupBy("topic", "key_hash", "key_sample")
    place = Window.partitionBy("topic").orderBy(sf.desc("records"), "key_hash")
    hot = batch_keys.agg(sf.sum("records").alias("records")).withColumn("rank", sf.row_number().over(place))
    for row in sorted(hot.where("rank <= 10").select("topic", "rank", "key_sample", "records").collect()):
        key = {"key": printable(row["key_sample"]), "records": row["records"]}
        topics[row["topic"]].setdefault("hot_keys", []).append(key)
    return {
        "batches": there.number,
        "windows": written.select("topic", "window_start").distinct().count(),
        "topics": list(topics.values()),
    }


def paths(out: str) -> dict[str, str]:
    """The path of each table."""
    return {table: f"{out}/{table}" for table in TABLES}


def show(figures: dict[str, Any]) -> None:
    """Print a summary on stdout."""
    text.table(
        f"Load in {figures['batches']} batches",
        ("topic", "partition", "records", "bytes", "offsets", "without a record"),
        [
            (topic["topic"], *(load[name] for name in ("partition", "records", "bytes")),
             f"{load['first_offset']} to {load['last_offset']}", load["missing"])
            for topic in figures["topics"] for load in topic["loads"]
        ],
    )  # fmt: skip
    text.table(
        "Keys with most records",
        ("topic", "key", "records (at least)"),
        [
            (topic["topic"], key["key"], key["records"])
            for topic in figures["topics"]
            for key in topic.get("hot_keys", ())
        ],
    )
