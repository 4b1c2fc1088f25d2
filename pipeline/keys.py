"""Records -> their different keys: where each lies, where it should, which are hot, and whose order was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from producers.batch import partitions_for_keys

from . import schema

HOT_KEYS = 100
"""Keys of a topic that `hot` keeps."""

SAMPLE_BYTES = 64


def by_key(records: DataFrame, window: str, partitions: Mapping[str, int], reference: str | None) -> DataFrame:
    """The different keys of each topic-partition and window.

    Args:
        records: `schema.RECORDS`.
        window: Length of the windows, as Spark writes it (``"1 minute"``); they start at the epoch's multiples of it.
        partitions: topic -> partition count, as the reference rule is to see it.
        reference: A preset of `producers`; None: no key has a home.

    Returns:
        `schema.KEYS`.

    Cost: lazy. One shuffle of partial sums; each row's key is hashed once, as whole columns. The frame has at most as
    many rows as records, and few where keys come again: persist it.
    """
    rows = records.groupBy("run", "topic", "partition", sf.window("ts", window).alias("window"), "key_hash", "key").agg(
        sf.count("*").alias("records"),
        sf.sum(_bytes()).alias("bytes"),
        sf.count_if(sf.col("value_bytes").isNull()).alias("tombstones"),
        sf.min("ts").alias("first_ts"),
        sf.max("ts").alias("last_ts"),
        sf.min("offset").alias("first_offset"),
        sf.max("offset").alias("last_offset"),
        sf.count_if(_numbered()).alias("numbered"),
    )
    rows = rows.withColumns({"window_start": sf.col("window.start"), "window_end": sf.col("window.end")})
    rows = schema.conform(rows, schema.without(schema.KEYS, "home"), strict=False)
    if reference is None:
        return schema.conform(rows.withColumn("home", sf.lit(None).cast("int")), schema.KEYS, strict=False)
    return rows.mapInArrow(_homes(partitions, reference), schema.KEYS)


def _bytes() -> Column:
    zero = sf.lit(0)
    return sf.coalesce("key_bytes", zero) + sf.coalesce("value_bytes", zero) + sf.col("header_bytes")


def _homes(
    partitions: Mapping[str, int], reference: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def place(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            topics, keys = batch.column("topic"), batch.column("key")
            home = np.full(batch.num_rows, -1, np.int32)
            for topic in pc.unique(topics).to_pylist():
                of_topic = pc.equal(topics, topic)
                home[np.asarray(of_topic)] = partitions_for_keys(keys.filter(of_topic), partitions[topic], reference)
            column = pa.array(home, pa.int32(), mask=home < 0)
            yield pa.RecordBatch.from_arrays([*batch.columns, column], names=[*batch.schema.names, "home"])

    return place


def hot(keys: DataFrame) -> DataFrame:
    """The keys with most records, at most `HOT_KEYS` a topic.

    Args:
        keys: `schema.KEYS`.

    Returns:
        `schema.HOT_KEYS`; exact.

    Cost: lazy; two shuffles of (topic-partition, key) sums.
    """
    key = ["run", "topic", "key_hash", "key"]
    each = keys.groupBy(*key, "partition").agg(sf.sum("records").alias("records"), sf.sum("bytes").alias("bytes"))
    whole = each.groupBy(*key).agg(
        sf.sum("records").alias("records"),
        sf.sum("bytes").alias("bytes"),
        sf.count("*").alias("partitions"),
        # max() of the complement picks the lower of two partitions with as many records
        sf.max(sf.struct("records", sf.bitwise_not("partition").alias("not_partition"))).alias("most"),
    )
    topic = Window.partitionBy("run", "topic")
    ranked = (
        whole.withColumn("share", sf.col("records") / sf.sum("records").over(topic))
        .where(sf.col("key_hash").isNotNull())
        .withColumn("rank", sf.row_number().over(topic.orderBy(sf.desc("records"), "key_hash")))
        .where(sf.col("rank") <= HOT_KEYS)
        .withColumn("key_sample", sample("key"))
        .withColumn("partition", sf.bitwise_not("most.not_partition"))
        .withColumn("partitions", sf.col("partitions").cast("int"))
    )
    return schema.conform(ranked, schema.HOT_KEYS, strict=False)


def sample(key: str) -> Column:
    """The first `SAMPLE_BYTES` of a column of keys."""
    return sf.substring(key, 1, SAMPLE_BYTES)


def _numbered() -> Column:
    return sf.col("key_hash").isNotNull() & sf.coalesce(sf.col("value_id").rlike(r"^.+-\d{1,18}$"), sf.lit(False))


def disorder(records: DataFrame, window: str) -> DataFrame:
    """Records that lie behind one which their sender sent later, with the same key and on the same partition.

    The id in a record of the harness is ``SENDER-NUMBER``, and a sender counts. Records with other ids, or none, and
    records without a key have no order to keep.

    Args:
        records: `schema.RECORDS`.
        window: As for `by_key`.

    Returns:
        ``run, topic, partition, window_start, offset, key, value_id``, a row per such record.

    Cost: lazy; one sort of the records that have such an id by (topic-partition, key, sender, offset).
    """
    sent = records.where(_numbered())
    before = (
        Window.partitionBy("run", "topic", "partition", "key_hash", "key", "sender")
        .orderBy("offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return (
        sent.withColumn("sender", sf.regexp_extract("value_id", r"^(.+)-\d+$", 1))
        .withColumn("number", sf.regexp_extract("value_id", r"-(\d+)$", 1).cast("long"))
        .withColumn("latest", sf.max("number").over(before))
        .where("number < latest")
        .withColumn("window_start", sf.window("ts", window)["start"])
        .select("run", "topic", "partition", "window_start", "offset", "key", "value_id")
    )
