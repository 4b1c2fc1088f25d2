"""Convert ``__consumer_offsets`` to lines of a history, so that a live group is analyzed like a recorded run.

The coordinator records every completed generation, whatever client its members use. It does not record callbacks and
has no monotonic clock; the records' wall clock replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from kafka_assignors.history.coordinator_log import BrokerAssigned, GroupCommitted, OffsetCommitted, Unknown, decode
from kafka_assignors.history.events import Event, committed

LINES = "file string, line string"


def lines(rows: DataFrame, groups: Collection[str], partitions: Mapping[str, int], run: str) -> DataFrame:
    """Convert records of the coordinator's log to ``file, line`` for `read.parse`.

    `rows` have ``key, value, topic, partition, offset, timestamp``, as from Spark's Kafka source. There is one
    ``generation_committed`` or ``offset_committed`` line per record of the groups. For a record that cannot be decoded,
    the line is the reason, which is not a valid event. `partitions`, topic -> partition count, is written as an event;
    an approximation of what the group's leader saw.

    Cost: lazy; every record goes through Python, in Arrow batches.
    """
    spark = rows.sparkSession
    seen = Event("admin_change", run, "harness", 0, 0, 0, data={"change": "seen", "topics": dict(partitions)})
    first = spark.createDataFrame([("kafka:brokers", seen.to_json())], LINES)
    needed = rows.select(
        "key", "value", sf.format_string("kafka:%s-%d", "topic", "partition").alias("file"), "offset",
        sf.unix_millis("timestamp").alias("ms"),
    )  # fmt: skip
    return first.unionByName(needed.mapInArrow(_decoding(frozenset(groups), run), LINES))


def _decoding(groups: Collection[str], run: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def decode_all(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [
                {"file": row["file"], "line": line}
                for row in batch.to_pylist()
                if (line := _line(row, groups, run)) is not None
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=pa.schema({"file": pa.string(), "line": pa.string()}))

    return decode_all


def _line(row: Mapping[str, Any], groups: Collection[str], run: str) -> str | None:
    entry = decode(row["key"], row["value"])
    if isinstance(entry, Unknown):
        # Other groups write here too; the group of an unreadable key is unknown.
        foreign = entry.reason.startswith("key version") if entry.group is None else entry.group not in groups
        return None if foreign else f"offset {row['offset']}: {entry.reason}"
    if isinstance(entry, BrokerAssigned):
        broker = f"offset {row['offset']}: {entry.record}: the broker assigns in the KIP-848 group {entry.group!r}"
        return broker if entry.group in groups else None
    if not isinstance(entry, GroupCommitted | OffsetCommitted) or entry.group not in groups:
        return None
    ns = row["ms"] * 1_000_000
    kind, data = committed(entry)
    return Event(kind, run, "coordlog", row["offset"], ns, ns, entry.group, data=data).to_json()
