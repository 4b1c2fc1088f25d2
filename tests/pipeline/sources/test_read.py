"""Lines and Kafka rows become the tables' rows, or are rejected with a reason."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from py4j.java_gateway import GatewayClient
from pyspark.sql import Row, SparkSession
from pyspark.testing import assertSchemaEqual

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event
from kafka_assignors.pipeline import schema
from kafka_assignors.pipeline.sources import coordinator, read
from kafka_assignors.pipeline.sources.brokers import TopicSnapshot

pytestmark = pytest.mark.spark

GROUP_KEY = bytes.fromhex("00020006676f6c64656e")
GENERATION = bytes.fromhex(
    "00030008636f6e73756d657200000002000572616e6765002773312d38393562666663352d643139302d343063312d613131"
    "332d643931386566303335353933000001a1fe35869400000001002773312d38393562666663352d643139302d343063312d"
    "613131332d6439313865663033353539330002733100026d31000a2f3132372e302e302e31000493e0000007d00000001c00"
    "030000000100066f7264657273ffffffff0000000000000001ffff0000001e00030000000100066f72646572730000000200"
    "00000000000001ffffffff"
)
"""As apache/kafka 4.3.0 wrote it for a group of one kafka-python member; see tests/history/test_coordinator_log.py."""

WHOLE = Event(
    "assigned_begin", "r", "member", 3, 1_700_000_000_123_456_789, 42, "g", "m1", 1, 7, "m1-id", None, "kafka-python",
    data={"generation": 2, "partitions": [{"topic": "t", "partition": 0}], "extra": {"a": [1, "}{"]}},
).to_json()  # fmt: skip

DAMAGED = {
    WHOLE[:40]: "not a JSON object: torn or damaged",
    "": "not a JSON object: torn or damaged",
    "[]": "not a JSON object: torn or damaged",
    "null": "not a JSON object: torn or damaged",
    "17": "not a JSON object: torn or damaged",
    "\x00\x00\x00": "not a JSON object: torn or damaged",
    WHOLE + WHOLE: "two events in one line",
    WHOLE.replace('"v":1,', ""): "no event version",
    WHOLE.replace('"v":1,', '"v":2,'): "unknown event version 2",
    WHOLE.replace('"seq":3,', "").replace('"kind":"assigned_begin",', ""): "lacks kind, seq",
}
WRONG_TYPE = WHOLE.replace('"generation":2', '"generation":"two"')
"""Event.from_json keeps it as it is; a column of integers cannot."""


def parsed(spark: SparkSession, *lines: str):
    return read.parse(spark.createDataFrame([("file:/h/m1.jsonl", line) for line in lines], "file string, line string"))


def test_events_take_few_calls_into_the_jvm(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """In SQL: Python's functions made 400 calls, one for each part of an expression."""
    lines, calls, command = parsed(spark, WHOLE).select("file", "line"), [], GatewayClient.send_command

    def counted(self: GatewayClient, text: str, *args: Any, **options: Any) -> Any:
        if not text.startswith("m\nd"):  # Python's garbage collection releases an object
            calls.append(text)
        return command(self, text, *args, **options)

    monkeypatch.setattr(GatewayClient, "send_command", counted)
    read.events(read.parse(lines))

    assert 0 < len(calls) < 200


def test_damaged_lines_are_kept_with_the_reason_and_python_refuses_them_too(spark: SparkSession) -> None:
    for line in DAMAGED:
        with pytest.raises(ValueError, match=r".*"):
            Event.from_json(line)

    rejected = read.rejected(parsed(spark, WHOLE, WRONG_TYPE, *DAMAGED), "r")

    assertSchemaEqual(rejected.schema, schema.REJECTED)
    found = {row["line"]: row["reason"] for row in rejected.collect()}
    assert found == {**DAMAGED, WRONG_TYPE: "a field with another type than in the format"}


def test_an_event_keeps_every_field(spark: SparkSession) -> None:
    commit = Event(
        "commit_ok", "r", "member", 4, 1, 43, "g", "m1", data={"offsets": [{"topic": "t", "partition": 0, "offset": 9}]}
    ).to_json()
    consumed = {"topic": "t", "partition": 0, "first": 5, "last": 8, "count": 4, "bytes": 400}
    consume = Event("consume", "r", "member", 5, 1, 44, "g", "m1", data={"offsets": [consumed]}).to_json()

    events = read.events(parsed(spark, WHOLE, commit, consume))

    assertSchemaEqual(events.schema, schema.EVENTS)
    first, second, third = sorted(events.collect(), key=lambda row: row["seq"])
    assert first["ts"].astimezone(timezone.utc) == datetime(2023, 11, 14, 22, 13, 20, 123456, timezone.utc)
    assert first["ts_ns"] == 1_700_000_000_123_456_789
    assert (first["run"], first["group"], first["member"], first["incarnation"]) == ("r", "g", "m1", 1)
    assert first["partitions"] == [Row(topic="t", partition=0)]
    assert {name: json.loads(text) for name, text in first["detail"].items()} == {"pid": 7, "extra": {"a": [1, "}{"]}}
    # An offset of a commit has no column: it must not fall out.
    assert json.loads(second["detail"]["offsets"]) == [{"topic": "t", "partition": 0, "offset": 9}]
    assert third["offsets"] == [Row(**consumed)]
    assert "offsets" not in third["detail"]


def test_kafka_rows_become_records(spark: SparkSession) -> None:
    """As Spark's source gives them: keys and values may be null, headers may be null or empty."""
    kafka = (
        "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int, "
        "headers array<struct<key string, value binary>>"
    )
    at = datetime(2026, 1, 2, 3, 4, 5, 678_000, timezone.utc)
    ours = [("partitioner", b"default"), ("empty", None)]
    rows = [
        (b"k", b'{"run":"r","id":"7"}', "t", 0, 10, at, 0, ours),
        (None, None, "t", 0, 11, at, 1, None),
        (b"", b'{"id":"a user\'s"}', "t", 1, 0, at, 0, []),
    ]

    records = read.from_kafka(spark.createDataFrame(rows, kafka), "r", "c")

    assertSchemaEqual(records.schema, schema.RECORDS)
    found = [row.asDict() for row in records.orderBy("partition", "offset").collect()]
    hashes = [row.pop("key_hash") for row in found]
    assert hashes[1] is None
    assert len({*hashes, 42}) == 4  # 42, xxhash64's seed, is what it makes of null
    assert [row.pop("ts").astimezone(timezone.utc) for row in found] == [at] * 3
    assert [tuple(row.values()) for row in found] == [
        ("r", "c", "t", 0, 10, 0, 1, 20, 11 + 7 + 5, "7", "default", b"k"),
        ("r", "c", "t", 0, 11, 1, None, None, 0, None, None, None),
        ("r", "c", "t", 1, 0, 0, 0, 17, 0, None, None, b""),
    ]


def test_a_null_where_a_table_has_none_names_the_column(spark: SparkSession) -> None:
    row = spark.createDataFrame(
        [("r", "f", None, "l", 1)], "run string, file string, reason string, line string, rows long"
    )

    with pytest.raises(Exception, match="column reason has a null"):
        schema.conform(row, schema.REJECTED).collect()


def test_offsets_that_gave_no_record_are_counted() -> None:
    tps = [TopicPartition("t", p) for p in range(3)]
    topics = TopicSnapshot(
        "c", {"t": 3}, dict(zip(tps, (0, 7, 3), strict=True)), dict(zip(tps, (10, 10, 3), strict=True))
    )

    rows = read.unread(topics, {tps[0]: 10, tps[1]: 1}, {}, "r")

    assert [(file, reason.split(":")[0], line, n) for _, file, reason, line, n in rows] == [
        ("kafka:t-1", "deleted offsets", "0 to 6", 7),
        ("kafka:t-1", "offsets without a record", "7 to 9, of which 1 have a record that was read", 2),
        ("kafka:t-2", "deleted offsets", "0 to 2", 3),
    ]
    assert {row[0] for row in rows} == {"r"}


def test_the_coordinators_records_become_lines(spark: SparkSession) -> None:
    """Bytes of a real broker: a generation, a commit, another group's, a tombstone, and what cannot be read."""
    columns = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
    at = datetime(2026, 1, 2, tzinfo=timezone.utc)
    log = [(GROUP_KEY, GENERATION), (GROUP_KEY, None), (GROUP_KEY, b"\x00\x63"), (b"\x00\x7f\x00", b"x"), (None, b"")]
    frame = spark.createDataFrame([(k, v, "__consumer_offsets", 4, i, at) for i, (k, v) in enumerate(log)], columns)

    lines = coordinator.lines(frame, ["golden"], {"orders": 3}, "r")

    parsed = read.parse(lines).persist()
    events = read.events(parsed).orderBy("mono_ns", "seq").collect()
    assert [(e["kind"], e["group"], e["generation"], e["seq"]) for e in events] == [
        ("admin_change", None, None, 0), ("generation_committed", "golden", 2, 0)]  # fmt: skip
    assert events[1]["ts"].astimezone(timezone.utc) == at
    (member,) = json.loads(events[1]["detail"]["members"])
    assert member["instance_id"] == "s1"
    assert member["assigned"] == [{"topic": "orders", "partition": p} for p in (0, 1)]
    rejected = {r["line"]: r["file"] for r in read.rejected(parsed, "r").collect()}
    assert set(rejected.values()) == {"kafka:__consumer_offsets-4"}
    assert sorted(rejected) == [
        "offset 2: group metadata value version 99", "offset 4: record without a key"]  # fmt: skip
    nobody = read.events(read.parse(coordinator.lines(frame, ["other"], {}, "r")))
    assert [e["kind"] for e in nobody.collect()] == ["admin_change"]
