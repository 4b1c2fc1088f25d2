"""``__consumer_offsets`` -> lines of a history, so that a live group is read as a kept run is.

The coordinator writes every completed generation there, whatever client its members are of. What it does not know stays
unknown: callbacks, and on which monotonic clock; its records' wall clock takes that place.
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
    """Records of the coordinator's log -> ``file, line``, as `read.parse` takes them.

    Args:
        rows: As Spark's Kafka source gives them: ``key, value, topic, partition, offset, timestamp``.
        groups: The groups to keep.
        partitions: topic -> partition count, told as an event of its own: what the group's leader saw, near enough.
        run: Id on every line.

    Returns:
        A ``generation_committed`` or ``offset_committed`` line per record of these groups. A record that cannot be
        read is a line that is no event: its reason.

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
            found = [
                {"file": row["file"], "line": line}
                for row in batch.to_pylist()
                if (line := _line(row, groups, run)) is not None
            ]
            yield pa.RecordBatch.from_pylist(found, schema=pa.schema({"file": pa.string(), "line": pa.string()}))

    return decode_all


def _line(row: Mapping[str, Any], groups: Collection[str], run: str) -> str | None:
    said = decode(row["key"], row["value"])
    if isinstance(said, Unknown):
        # Other groups write here too; of a key that says nothing nobody knows whose it is.
        foreign = said.reason.startswith("key version") if said.group is None else said.group not in groups
        return None if foreign else f"offset {row['offset']}: {said.reason}"
    if isinstance(said, BrokerAssigned):
        broker = f"offset {row['offset']}: {said.record}: the broker assigns in the KIP-848 group {said.group!r}"
        return broker if said.group in groups else None
    if not isinstance(said, GroupCommitted | OffsetCommitted) or said.group not in groups:
        return None
    ns = row["ms"] * 1_000_000
    kind, data = committed(said)
    return Event(kind, run, "coordlog", row["offset"], ns, ns, said.group, data=data).to_json()
