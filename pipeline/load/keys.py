"""Distinct keys of records: where each key is, where it should be, which are hot, and whose order was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from kafka_assignors.producers.batch import partitions_for_keys, partitions_for_tries

from .. import schema

HOT_KEYS = 100
"""Maximum keys per topic that `hot` keeps, by records and by bytes each."""

SAMPLE_BYTES = 64


def counted(records: DataFrame, window: str) -> DataFrame:
    """Aggregate `schema.RECORDS` twice in one pass: per topic-partition and window, and per topic-partition and key.

    A `window` (Spark's syntax, ``"1 minute"``) starts at a multiple of its length since the epoch. The result is
    `schema.COUNTS`, whose ``low``, ``high`` and ``home`` are null.

    Cost: lazy. One read of the records, one shuffle of partial sums.
    """
    place = ["run", "topic", "partition"]
    # A sketch of distinct keys per window is no part of this: its buffer would be in every key's row as well.
    rows = (
        records.withColumn("window", sf.window("ts", window))
        .groupingSets([[*place, "window"], [*place, "key_hash", "key"]], *place, "window", "key_hash", "key")
        .agg(
            (sf.grouping("window") == 1).alias("of_key"),
            sf.count("*").alias("records"),
            sf.sum(_bytes()).alias("bytes"),
            sf.count_if(sf.col("value_bytes").isNull()).alias("tombstones"),
            sf.count_if(sf.col("key_bytes").isNull()).alias("null_key_records"),
            sf.count_if(_numbered()).alias("numbered_records"),
            sf.min("ts").alias("first_ts"),
            sf.max("ts").alias("last_ts"),
            sf.min("offset").alias("first_offset"),
            sf.max("offset").alias("last_offset"),
        )
    )
    nothing = {name: sf.lit(None).cast("int") for name in ("low", "high", "home")}
    ends = {"window_start": sf.col("window.start"), "window_end": sf.col("window.end")}
    return schema.conform(rows.withColumns({**ends, **nothing}), schema.COUNTS, strict=False)


def placed(counts: DataFrame, partitions: Mapping[str, int], reference: str | None) -> DataFrame:
    """Complete the `schema.COUNTS` of `counted`: the other partitions of each key, and the one where it should be.

    `reference` is the preset of `producers` for that; None: no key has a home. Persist the result.

    Cost: lazy. One shuffle of the keys; each is hashed once, as whole columns.
    """
    # The hash first: Spark's sort compares a prefix of the first column before whole rows.
    same = Window.partitionBy("key_hash", "key", "topic", "run", "of_key")
    of_key = sf.col("of_key") & sf.col("key_hash").isNotNull()
    rows = counts.withColumns(
        {
            "low": sf.when(of_key, sf.min("partition").over(same)),
            "high": sf.when(of_key, sf.max("partition").over(same)),
        }
    )
    if reference is None:
        return rows
    columns = rows.select(*(name for name in schema.COUNTS.names if name != "home"))
    return columns.mapInArrow(_homes(partitions, reference), schema.COUNTS)


def distinct(counts: DataFrame) -> DataFrame:
    """The rows of `schema.COUNTS` for keys, and for records without one."""
    return counts.where("of_key")


def windows(counts: DataFrame) -> DataFrame:
    """The rows of `schema.COUNTS` for windows."""
    return counts.where("not of_key")


def _bytes() -> Column:
    zero = sf.lit(0)
    return sf.coalesce("key_bytes", zero) + sf.coalesce("value_bytes", zero) + sf.col("header_bytes")


def _homes(
    partitions: Mapping[str, int], reference: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def place(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            topics, keys, of_key = (batch.column(name) for name in ("topic", "key", "of_key"))
            home = np.full(batch.num_rows, -1, np.int32)
            for topic in pc.unique(topics).to_pylist():
                of_topic = pc.and_(of_key, pc.equal(topics, topic))
                home[np.asarray(of_topic)] = partitions_for_keys(keys.filter(of_topic), partitions[topic], reference)
            column = pa.array(home, pa.int32(), mask=home < 0)
            yield pa.RecordBatch.from_arrays([*batch.columns, column], names=[*batch.schema.names, "home"])

    return place


def per_partition(keys: DataFrame) -> DataFrame:
    """`schema.PARTITION_KEYS` from the keys of `distinct`. Cost: lazy; one small shuffle."""
    has_key, judged = sf.col("key_hash").isNotNull(), sf.col("home").isNotNull()
    rows = keys.groupBy("run", "topic", "partition").agg(
        sf.count("key_hash").alias("keys"),
        # max() of the complement picks the lower hash if two keys have the same number of records
        sf.max(sf.when(has_key, sf.struct("records", sf.bitwise_not("key_hash").alias("not_hash")))).alias("top"),
        sf.sum("records").alias("records"),
        sf.sum("bytes").alias("bytes"),
        sf.max(sf.when(has_key, sf.col("bytes"))).alias("top_bytes"),
        sf.count_if(sf.col("low") != sf.col("high")).alias("moved_keys"),
        *(
            sf.sum(sf.when(which, sf.col("records")).otherwise(0)).alias(name)
            for name, which in (
                ("judged_records", judged),
                ("misplaced_records", judged & (sf.col("home") != sf.col("partition"))),
            )
        ),
    )
    top = {
        "top_key_hash": sf.bitwise_not("top.not_hash"),
        "top_key_share": sf.coalesce(sf.col("top.records") / sf.col("records"), sf.lit(0.0)),
        "top_byte_share": sf.coalesce(sf.try_divide("top_bytes", "bytes"), sf.lit(0.0)),
    }
    return schema.conform(rows.withColumns(top), schema.PARTITION_KEYS)


def hot(keys: DataFrame) -> DataFrame:
    """`schema.HOT_KEYS` from the keys of `distinct`: those with the most records, and those with the most bytes.

    At most `HOT_KEYS` of each per topic; exact.

    Cost: lazy; a shuffle of (topic-partition, key) sums. Each task ranks its own keys, and passes on only its first
    `HOT_KEYS`.
    """
    key = ["run", "topic", "key_hash", "key"]
    per_key = (
        keys.where("key_hash is not null")
        .groupBy(*key)
        .agg(
            sf.sum("records").alias("records"),
            sf.sum("bytes").alias("bytes"),
            sf.count("*").cast("int").alias("partitions"),
            # max() of the complement picks the lower partition if two have the same number of records
            sf.max(sf.struct("records", sf.bitwise_not("partition").alias("not_partition"))).alias("most"),
        )
    )

    # Compute only one rank per topic at a time: Spark then drops the other keys before it shuffles by topic.
    def first(by: str, rank: str) -> DataFrame:
        place = sf.row_number().over(Window.partitionBy(*key[:2]).orderBy(sf.desc(by), "key_hash"))
        return per_key.withColumn(rank, place).where(sf.col(rank) <= HOT_KEYS)

    both = first("records", "rank").unionByName(first("bytes", "byte_rank"), allowMissingColumns=True)
    ranked = both.groupBy(*key).agg(
        *(sf.first(name).alias(name) for name in ("records", "bytes", "partitions", "most")),
        *(sf.max(name).alias(name) for name in ("rank", "byte_rank")),
    )
    topics = keys.groupBy("run", "topic").agg(
        sf.sum("records").alias("of_topic"), sf.sum("bytes").alias("bytes_of_topic")
    )
    return schema.conform(
        ranked.join(sf.broadcast(topics), ["run", "topic"])
        .withColumn("share", sf.col("records") / sf.col("of_topic"))
        .withColumn("byte_share", sf.coalesce(sf.try_divide("bytes", "bytes_of_topic"), sf.lit(0.0)))
        .withColumn("key_sample", sample("key"))
        .withColumn("partition", sf.bitwise_not("most.not_partition")),
        schema.HOT_KEYS,
        strict=False,
    )


def placed_by(keys: DataFrame, partitions: Mapping[str, int], presets: Sequence[str]) -> DataFrame:
    """How many keys, rows of `distinct`, each preset of `producers` places where they lie.

    The result has ``topic, preset, keys, of_keys, records, of_records``: those that it places where they lie, and all.

    Cost: lazy; each key is hashed once per hash, as whole columns.
    """

    def agree(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            topics, key_column, place, records = (
                batch.column(name) for name in ("topic", "key", "partition", "records")
            )
            rows = []
            for topic in pc.unique(topics).to_pylist():
                of_topic = pc.equal(topics, topic)
                mine, many = np.asarray(place.filter(of_topic)), np.asarray(records.filter(of_topic))
                tries = [(preset, partitions[topic]) for preset in presets]
                for preset, to in zip(presets, partitions_for_tries(key_column.filter(of_topic), tries), strict=True):
                    there = to == mine
                    rows.append((topic, preset, int(there.sum()), len(mine), int(many[there].sum()), int(many.sum())))
            columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, names=names)

    names = ["topic", "preset", "keys", "of_keys", "records", "of_records"]
    kinds = [pa.string(), pa.string(), *4 * [pa.int64()]]
    partial_sums = keys.select("topic", "key", "partition", "records").mapInArrow(
        agree, "topic string, preset string, " + ", ".join(f"{name} long" for name in names[2:])
    )
    return partial_sums.groupBy("topic", "preset").agg(*(sf.sum(name).alias(name) for name in names[2:]))


def sample(key: str) -> Column:
    """The first `SAMPLE_BYTES` of a column of keys."""
    return sf.substring(key, 1, SAMPLE_BYTES)


def _numbered() -> Column:
    return sf.col("key_hash").isNotNull() & sf.coalesce(sf.col("value_id").rlike(r"^.+-\d{1,18}$"), sf.lit(False))


def disorder(records: DataFrame, window: str) -> DataFrame:
    """Records that come after one that their sender sent later, with the same key and on the same partition.

    A record of the harness has the id ``SENDER-NUMBER``, numbered by the sender. Records with other ids or none, and
    records without a key, have no order to keep. The result has one row per out-of-order record: ``run, topic,
    partition, window_start, offset, key, value_id``.

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
