"""Where records would lie under other rules and other partition counts, from their keys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, starmap

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from producers.batch import partitions_for_tries

from . import schema

KEYED = ("java", "librdkafka", "sarama", "sarama-reference", "consistent")
"""The presets that differ from each other; see `producers.PRESETS`."""

KEYLESS = "roundrobin"
"""The rule that does not look at keys: each partition gets as many records as any other."""

_COUNTED = ("records", "bytes", "keys", "moved_keys", "moved_records")
_PLACED = "run string, topic string, rule string, partitions int, placed int, " + ", ".join(
    f"{name} long" for name in _COUNTED
)

_HELD = 5_000_000  # numbers, 40 MB

Sums = NDArray[np.int64]  # [_COUNTED, 1 + partition]; at 0 what is spread evenly


def partitioners(keys: DataFrame, partitions: Mapping[str, int], counts: Collection[int]) -> DataFrame:
    """Load and moved keys of each topic under each rule and partition count.

    Records without a key, and those with an empty key where a rule takes that for none, are spread evenly: what round
    robin, random, sticky and uniform come to in the long run.

    Args:
        keys: `schema.KEYS`.
        partitions: topic -> partition count.
        counts: Other partition counts to try, beside each topic's own.

    Returns:
        `schema.PARTITIONER_WHAT_IF`.

    Cost: lazy. Each different key is hashed once per rule and count, as whole columns; two shuffles of (topic,
    partition, key) counts, two of rules x counts x partitions rows.
    """
    tried = {topic: sorted({own, *counts}) for topic, own in partitions.items()}
    same_key = Window.partitionBy("run", "topic", "key")
    different = (
        keys.groupBy("run", "topic", "partition", "key")
        .agg(sf.sum("records").alias("records"), sf.sum("bytes").alias("bytes"))
        .withColumn("low", sf.min("partition").over(same_key))
        .withColumn("high", sf.max("partition").over(same_key))
    )
    place = ["run", "topic", "rule", "partitions"]
    topics = (
        placed(different, tried)
        .groupBy(*place)
        .agg(
            *(sf.sum(name).alias(name) for name in _COUNTED),
            sf.map_from_entries(sf.collect_list(sf.struct("placed", sf.struct("records", "bytes")))).alias("at"),
        )
    )
    n, keyed = sf.col("partitions"), sf.col("rule") != KEYLESS
    own = sf.create_map(*(sf.lit(x) for item in partitions.items() for x in item))[sf.col("topic")]

    def loads(name: str) -> Column:
        spread = sf.coalesce(sf.try_element_at("at", sf.lit(-1))[name], sf.lit(0)) / n
        every = sf.sequence(sf.lit(0), n - 1)
        return sf.transform(every, lambda p: sf.coalesce(sf.try_element_at("at", p)[name], sf.lit(0)) + spread)

    mean = sf.col("bytes") / n
    squares = sf.aggregate("load", sf.lit(0.0), lambda total, x: total + (x - mean) * (x - mean))
    share = sf.when(sf.col("keys") > 0, sf.col("moved_keys") / sf.col("keys")).otherwise(0.0)
    return schema.conform(
        topics.withColumn("load", loads("bytes")).select(
            *place,
            (n == own).alias("current"),
            "records",
            "bytes",
            "keys",
            sf.when(keyed, sf.col("moved_keys")).alias("moved_keys"),
            sf.when(keyed, share).alias("moved_key_share"),
            sf.when(keyed, sf.col("moved_records")).alias("moved_records"),
            sf.when(mean > 0, sf.array_max("load") / mean).otherwise(0.0).alias("max_over_mean"),
            sf.when(mean > 0, sf.sqrt(squares / n) / mean).otherwise(0.0).alias("cv"),
            loads("records").alias("records_per_partition"),
        ),
        schema.PARTITIONER_WHAT_IF,
    )


def placed(different: DataFrame, tried: Mapping[str, Collection[int]]) -> DataFrame:
    """Where keys lie under every rule and partition count.

    Args:
        different: A row per key and partition: ``run, topic, partition, key, records, bytes``, and ``low, high``: the
            first and the last partition of the key.
        tried: topic -> partition counts.

    Returns:
        ``run, topic, rule, partitions, placed`` (-1: spread evenly), and the sums ``records, bytes, keys, moved_keys,
        moved_records``.

    Cost: lazy; one pass in Arrow batches, one shuffle of each task's sums; about 0.6 µs a key for 20 tries.
    """
    parts = different.mapInArrow(_placing(tried), _PLACED)
    place = ["run", "topic", "rule", "partitions", "placed"]
    return parts.groupBy(*place).agg(*(sf.sum(name).alias(name) for name in _COUNTED))


def _placing(
    tried: Mapping[str, Collection[int]],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Batches of different keys -> batches of `_PLACED`, few: sums are kept until they are `_HELD` or all is read."""

    def place(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        totals: dict[tuple[str, str], dict[tuple[str, int], Sums]] = {}
        for batch in batches:
            for (run, topic), rows in _topics(batch):
                known = totals.setdefault((run, topic), {})
                for (rule, n), sums in _sums(rows, tried[topic]):
                    known[rule, n] = known[rule, n] + sums if (rule, n) in known else sums
            if sum(each.size for of_topic in totals.values() for each in of_topic.values()) > _HELD:
                yield from starmap(_rows, totals.items())
                totals.clear()
        yield from starmap(_rows, totals.items())

    return place


def _topics(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, str], pa.RecordBatch]]:
    """The rows of each (run, topic)."""
    pairs = pa.Table.from_batches([batch]).group_by(["run", "topic"]).aggregate([]).to_pylist()
    for pair in pairs:
        run, topic = pair["run"], pair["topic"]
        mine = (pc.field("run") == run) & (pc.field("topic") == topic)
        yield (run, topic), batch if len(pairs) == 1 else batch.filter(mine)


def _sums(rows: pa.RecordBatch, counts: Collection[int]) -> Iterator[tuple[tuple[str, int], Sums]]:
    """One topic's keys, placed by every rule over every count."""
    keys = rows.column("key")
    now, low, high, records, size = (
        rows.column(name).to_numpy() for name in ("partition", "low", "high", "records", "bytes")
    )
    first = (now == low) & ~np.asarray(keys.is_null())  # a key is counted in one of its rows
    # As bincount takes them, once. Sums in float64 are exact up to 2**53, far beyond what one batch holds.
    records, size, counted = (column.astype(np.float64) for column in (records, size, first))
    on_two = counted * (low != high)
    split = on_two if on_two.any() else None
    tries = [(rule, n) for rule in KEYED for n in counts]
    placements = chain(
        zip(tries, partitions_for_tries(keys, tries), strict=True),
        (((KEYLESS, n), np.full(len(rows), -1, np.int32)) for n in counts),
    )
    for (rule, n), placed in placements:
        elsewhere = (placed != now) & (placed >= 0)
        # Two slots for each partition, here and elsewhere, so that one count answers for both.
        slot = 2 * (placed.astype(np.intp) + 1) + elsewhere

        def count(weights: NDArray[np.float64], slot: NDArray[np.intp] = slot, n: int = n) -> NDArray[np.float64]:
            sums = np.bincount(slot, weights=weights, minlength=2 * n + 2)
            return sums.astype(np.float64, copy=False).reshape(-1, 2)

        of_records, of_keys = count(records), count(counted)
        moved_keys = of_keys[:, 1]
        if split is not None:  # a key on two partitions is on another than its own in any case
            moved_keys = moved_keys + np.where(np.arange(n + 1) > 0, count(split)[:, 0], 0)
        sums = (of_records.sum(1), count(size).sum(1), of_keys.sum(1), moved_keys, of_records[:, 1])
        yield (rule, n), np.stack(sums).astype(np.int64)


def _rows(place: tuple[str, str], sums: Mapping[tuple[str, int], Sums]) -> pa.RecordBatch:
    """A row of this (run, topic) per rule, count and partition that has records (-1: spread)."""
    run, topic = place
    found = [
        {"run": run, "topic": topic, "rule": rule, "partitions": n, "placed": at - 1,
         **dict(zip(_COUNTED, column, strict=True))}
        for (rule, n), each in sums.items()
        for at, column in enumerate(each.T.tolist()) if column[0]
    ]  # fmt: skip
    types = {"run": pa.string(), "topic": pa.string(), "rule": pa.string(), "partitions": pa.int32(),
             "placed": pa.int32(), **dict.fromkeys(_COUNTED, pa.int64())}  # fmt: skip
    return pa.RecordBatch.from_pylist(found, schema=pa.schema(types))
