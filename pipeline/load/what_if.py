"""Placement of records under other rules and other partition counts, from their keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from kafka_assignors.producers.batch import partitions_for_tries

from .. import schema
from .balance import ratio, with_counts

KEYED = ("java", "librdkafka", "sarama", "sarama-reference", "consistent")
"""The presets with distinct placements; see `kafka_assignors.producers.PRESETS`."""

KEYLESS = "roundrobin"
"""The rule that ignores keys: each partition gets the same number of records."""

_COUNTED = ("records", "bytes", "keys", "moved_keys", "moved_records")
_PLACED = "topic string, rule string, partitions int, placed int, " + ", ".join(f"{name} long" for name in _COUNTED)

_FOLD = ("java", "librdkafka", "sarama", "sarama-reference")
"""The rules that take a remainder: a placement over a multiple of n determines that over n."""

_HELD = 5_000_000  # numbers, 40 MB
_MOST_CELLS = 1 << 14  # 128 kB, so that it stays in cache

Sums = NDArray[np.int64]  # [_COUNTED, 1 + partition]; index 0: records spread evenly


@dataclass(frozen=True)
class _Packing:
    """Packs all fields of a row but key and bytes into one long: Spark transfers 3 columns in half the time of 8.

    From the lowest bit: first row of its key, key on two partitions, partition (below `most`), index in `topics`,
    records.
    """

    topics: tuple[str, ...]
    most: int

    @property
    def _bits(self) -> tuple[int, int]:
        return (self.most - 1).bit_length(), (len(self.topics) - 1).bit_length()

    def packed(self) -> Column:
        """The packed value of a row with ``number``, its topic's number."""
        of_partition, of_topic = self._bits
        at = sf.col("number").cast("long")
        for value, bits in (
            (sf.col("partition"), of_partition),
            (sf.coalesce(sf.col("low") != sf.col("high"), sf.lit(False)).cast("int"), 1),
            (sf.coalesce(sf.col("low") == sf.col("partition"), sf.lit(False)).cast("int"), 1),
        ):
            at = sf.shiftleft(at, bits) + value
        width = of_partition + of_topic + 2
        fits = sf.col("records") < (1 << (63 - width))
        return sf.when(fits, sf.shiftleft("records", width) + at).otherwise(
            sf.raise_error(sf.lit("a key has too many records for a what-if of so many topics and partitions"))
        )

    def unpacked(self, at: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Records, topic number, partition, 1 if the key is on two partitions, 1 if it is the key's first row."""
        of_partition, of_topic = self._bits
        fields = []
        for bits in (1, 1, of_partition, of_topic):
            fields.append(at & ((1 << bits) - 1))
            at = at >> bits
        return at, *reversed(fields)


def partitioners(keys: DataFrame, run: str, partitions: Mapping[str, int], counts: Collection[int]) -> DataFrame:
    """`schema.PARTITIONER_WHAT_IF`: load and moved keys of each topic under each rule and partition count.

    `keys` are those of `keys.distinct`, of one run. Counts are the topic's own and `counts`. Records without a key, or
    with an empty key if the rule treats it as none, are spread evenly, which is the long-run result of round robin,
    random, sticky and uniform.

    Cost: lazy. Each distinct key is hashed once per rule and count, as whole columns; two shuffles of rules x counts x
    partitions rows.
    """
    tried = {topic: sorted({own, *counts}) for topic, own in partitions.items()}
    place = ["topic", "rule", "partitions"]
    topics = with_counts(
        placed(keys, tried)
        .groupBy(*place)
        .agg(
            *(sf.sum(name).alias(name) for name in _COUNTED),
            sf.map_from_entries(sf.collect_list(sf.struct("placed", sf.struct("records", "bytes")))).alias("at"),
        ),
        partitions,
    )
    n, keyed = sf.col("partitions"), sf.col("rule") != KEYLESS

    def loads(name: str) -> Column:
        spread = sf.coalesce(sf.try_element_at("at", sf.lit(-1))[name], sf.lit(0)) / n
        every = sf.sequence(sf.lit(0), n - 1)
        return sf.transform(every, lambda p: sf.coalesce(sf.try_element_at("at", p)[name], sf.lit(0)) + spread)

    mean = sf.col("bytes") / n
    squares = sf.aggregate("load", sf.lit(0.0), lambda total, x: total + (x - mean) * (x - mean))
    share = ratio(sf.col("moved_keys"), sf.col("keys"))
    figures = {
        "run": sf.lit(run),
        "current": n == sf.col("n"),
        "moved_keys": sf.when(keyed, sf.col("moved_keys")),
        "moved_key_share": sf.when(keyed, share),
        # At the topic's own partition count these are the records that lie elsewhere than the rule puts them.
        "moved_records": sf.when(keyed, sf.col("moved_records")),
        "max_over_mean": ratio(sf.array_max("load"), mean),
        "cv": ratio(sf.sqrt(squares / n), mean),
        "records_per_partition": loads("records"),
    }
    return schema.conform(topics.withColumn("load", loads("bytes")).withColumns(figures), schema.PARTITIONER_WHAT_IF)


def placed(distinct: DataFrame, tried: Mapping[str, Collection[int]]) -> DataFrame:
    """The placement of keys under every rule, and every partition count that is `tried`, including the topic's own.

    Rows of `distinct` are one per key and partition: ``topic, partition, key, records, bytes``, and ``low, high``, the
    first and the last partition of the key (null: no key). The result has ``topic, rule, partitions, placed`` (-1:
    spread evenly), and the sums ``records, bytes, keys, moved_keys, moved_records``.

    Cost: lazy; one pass in Arrow batches, one shuffle of each task's sums; about 1 µs of CPU per key for 20 tries.
    """
    packing = _Packing(tuple(sorted(tried)), max(map(max, tried.values())))
    numbers = distinct.sparkSession.createDataFrame(list(enumerate(packing.topics)), "number int, topic string")
    numbered = distinct.join(sf.broadcast(numbers), "topic")
    # Everything about a row but its key and bytes is one long: a column costs more to hand over than a rule to compute.
    narrow = numbered.select(packing.packed().alias("at"), "key", "bytes")
    parts = narrow.mapInArrow(_placing(packing, tried), _PLACED)
    place = ["topic", "rule", "partitions", "placed"]
    return parts.groupBy(*place).agg(*(sf.sum(name).alias(name) for name in _COUNTED))


def _placing(
    packing: _Packing, tried: Mapping[str, Collection[int]]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Convert batches of distinct keys to a few batches of `_PLACED`: sums are kept up to `_HELD` numbers."""

    def place(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        totals: dict[tuple[str, str, int], Sums] = {}
        for batch in batches:
            _, numbers, *_ = packing.unpacked(batch.column("at").to_numpy())
            for number in np.flatnonzero(np.bincount(numbers)).tolist():
                topic, mine = packing.topics[number], numbers == number
                rows = batch if mine.all() else batch.filter(pa.array(mine))
                for try_, sums in _sums(rows, packing, tried[topic]):
                    total = totals.setdefault((topic, *try_), np.zeros_like(sums))
                    total += sums
            if sum(sums.size for sums in totals.values()) > _HELD:
                yield _rows(totals)
                totals.clear()
        yield _rows(totals)

    return place


def _sums(rows: pa.RecordBatch, packing: _Packing, counts: Collection[int]) -> Iterator[tuple[tuple[str, int], Sums]]:
    """Place one topic's keys by every rule over every count, and sum."""
    keys = rows.column("key")
    of_row, _, partition, on_two, first = packing.unpacked(rows.column("at").to_numpy())
    if keys.null_count:
        first = first * ~np.asarray(keys.is_null())  # count a key in only one of its rows, and no missing key
    # Converted for bincount once. Sums in float64 are exact up to 2**53, far beyond the content of a batch.
    columns = (of_row, rows.column("bytes").to_numpy(), first, first * on_two)
    weights = [column.astype(np.float64) for column in columns]
    everything = [column.sum() for column in weights[:3]]
    for n in counts:
        yield (KEYLESS, n), np.array([[x] for x in (*everything, 0, 0)], np.int64)
    if not weights[3].any():
        del weights[3]
    here = _Here(partition.astype(np.int32), weights)
    together = _together(counts, _MOST_CELLS // here.width)
    alone = {n: [n] for n in counts}
    shares = [(rule, n, share) for rule in KEYED for n, share in (together if rule in _FOLD else alone).items()]
    places = partitions_for_tries(keys, [(rule, n) for rule, n, _ in shares])
    for (rule, n, share), placed in zip(shares, places, strict=True):
        if share == [n]:
            yield (rule, n), here.by_staying(placed, n)
        else:
            partition_sums = here.by_partition(placed, n)
            for count in share:
                yield (rule, count), here.folded(partition_sums, count)


def _together(counts: Collection[int], most: int) -> dict[int, list[int]]:
    """Common multiples, at most `most` unless a count is alone -> the counts that share one: {96: [96, 24, 12]}."""
    shared: dict[int, list[int]] = {}
    for n in sorted(counts, reverse=True):
        multiple = min(shared, key=lambda candidate: math.lcm(candidate, n) // candidate, default=n)
        wider = math.lcm(multiple, n)
        if wider <= most:
            shared[wider] = [*shared.pop(multiple, ()), n]
        else:
            shared[n] = [n]
    return shared


class _Here:
    """Rows of one topic on their current partitions, int32[row].

    Weights are columns float64[row]: records, bytes, 1 in a key's first row; if any key is on two partitions, 1 in the
    first row of such a key.
    """

    def __init__(self, now: NDArray[np.int32], weights: list[NDArray[np.float64]]) -> None:
        self._now, self._weights = now, weights
        self.width = int(now.max()) + 1

    def _summed(self, slot: NDArray[np.intp], size: int) -> Iterator[NDArray[np.float64]]:
        for weights in self._weights:
            yield np.bincount(slot, weights=weights, minlength=size).astype(np.float64, copy=False)

    def by_partition(self, placed: NDArray[np.int32], n: int) -> list[NDArray[np.float64]]:
        """Sums of each column, float64[1 + placed, now]."""
        slot = (placed + 1).astype(np.intp)
        slot *= self.width
        slot += self._now
        return [sums.reshape(-1, self.width) for sums in self._summed(slot, (n + 1) * self.width)]

    def folded(self, partition_sums: list[NDArray[np.float64]], n: int) -> Sums:
        """Derive sums from `by_partition` of a multiple of n; a key's place is the remainder of its hash."""
        both = []
        for column in partition_sums:
            whole = np.vstack((column[:1], column[1:].reshape(-1, n, self.width).sum(0)))
            staying = np.zeros(n + 1)
            same = np.arange(min(n, self.width))
            staying[1 + same] = whole[1 + same, same]
            both.append((staying, whole.sum(1) - staying))
        return self._moved(both)

    def by_staying(self, placed: NDArray[np.int32], n: int) -> Sums:
        """Sums for any placement: two slots per partition, for keys that stay and keys that move."""
        slot = placed.astype(np.intp)
        slot += 1
        slot *= 2
        slot += placed != self._now
        return self._moved([(s[::2], s[1::2]) for s in self._summed(slot, 2 * n + 2)])

    @staticmethod
    def _moved(both: list[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> Sums:
        """Sums of each column for keys that stay, and for keys that move."""
        records, size, keys, *split = both
        moved_keys = keys[1] + split[0][0] if split else keys[1]  # a key on two partitions leaves one in any case
        sums = np.stack((sum(records), sum(size), sum(keys), moved_keys, records[1]))
        sums[3:, 0] = 0  # evenly spread records have no partition to move from
        return sums.astype(np.int64)


def _rows(totals: Mapping[tuple[str, str, int], Sums]) -> pa.RecordBatch:
    """One row per topic, rule, count and partition that has records (-1: spread evenly)."""
    rows = [
        {"topic": topic, "rule": rule, "partitions": n, "placed": at - 1, **dict(zip(_COUNTED, column, strict=True))}
        for (topic, rule, n), sums in totals.items()
        for at, column in enumerate(sums.T.tolist()) if column[0]
    ]  # fmt: skip
    types = {"topic": pa.string(), "rule": pa.string(), "partitions": pa.int32(), "placed": pa.int32(),
             **dict.fromkeys(_COUNTED, pa.int64())}  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(types))
