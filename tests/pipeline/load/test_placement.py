"""Load, keys and skew, on rows counted by hand and against the formulas written as loops."""

from __future__ import annotations

import random
import statistics
from collections import Counter, defaultdict
from datetime import datetime, timedelta, timezone

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.testing import assertSchemaEqual

from kafka_assignors.pipeline import schema
from kafka_assignors.pipeline.load import balance, keys, what_if

pytestmark = pytest.mark.spark

MIDNIGHT = datetime(2026, 1, 2, tzinfo=timezone.utc)


def records(spark: SparkSession, rows: list[tuple[str, int, float, int | None, int | None, int]]) -> DataFrame:
    """Rows of (topic, partition, seconds after midnight, key hash, value bytes, header bytes)."""
    return spark.createDataFrame(
        [
            ("r", "c", topic, partition, offset, MIDNIGHT + timedelta(seconds=second), 0, key,
             None if key is None else 8, value, header, None, None, None)
            for offset, (topic, partition, second, key, value, header) in enumerate(rows)
        ],
        schema.RECORDS,
    )  # fmt: skip


def placed(spark: SparkSession, rows, partitions: dict[str, int]) -> DataFrame:
    return balance.placement(keys.windows(keys.counted(records(spark, rows), "10 seconds")), partitions)


def in_utc(row: Row) -> dict[str, object]:
    """Spark hands timestamps out in the time zone of the Python process, whatever the session's is."""
    return {k: v.astimezone(timezone.utc) if isinstance(v, datetime) else v for k, v in row.asDict().items()}


def test_placement_of_rows_counted_by_hand(spark: SparkSession) -> None:
    rows = [
        ("t", 0, 0.0, 1, 92, 0),  # 100 bytes
        ("t", 0, 1.0, 1, 92, 0),
        ("t", 0, 2.0, 2, 82, 10),
        ("t", 0, 9.999, None, None, 0),  # a tombstone without key: no bytes at all
        ("t", 1, 5.0, 2, 92, 0),
        ("t", 1, 10.0, 9, 92, 0),  # the next window
        ("t", 1, 11.0, -9, 92, 0),  # as many records as 9: the lower hash is named
        ("u", 0, 5.0, 2, 92, 0),  # key 2 of another topic is another key
    ]

    placement = placed(spark, rows, {"t": 4, "u": 1})

    assertSchemaEqual(placement.schema, schema.PLACEMENT)
    found = {(r["topic"], r["partition"], r["window_start"]): r for r in map(in_utc, placement.collect())}
    later = MIDNIGHT + timedelta(seconds=10)
    assert set(found) == {("t", 0, MIDNIGHT), ("t", 1, MIDNIGHT), ("t", 1, later), ("u", 0, MIDNIGHT)}
    assert found["t", 0, MIDNIGHT] == {
        "run": "r", "dt": MIDNIGHT.date(), "topic": "t", "partition": 0, "window_start": MIDNIGHT, "window_end": later,
        "records": 4, "bytes": 300, "record_rate": 0.4, "byte_rate": 30.0, "null_key_records": 1, "share": 0.8,
        "skew": 3.0, "first_ts": MIDNIGHT, "last_ts": MIDNIGHT + timedelta(seconds=9.999), "tombstones": 1,
        "order_violations": 0, "numbered_records": 0,
    }  # fmt: skip
    assert found["t", 1, MIDNIGHT]["skew"] == 1.0
    assert (found["t", 1, later]["share"], found["t", 1, later]["skew"]) == (1.0, 4.0)

    counts = keys.placed(keys.counted(records(spark, rows), "10 seconds"), {"t": 4, "u": 1}, None)
    per_partition = keys.per_partition(keys.distinct(counts))
    assertSchemaEqual(per_partition.schema, schema.PARTITION_KEYS)
    columns = ("keys", "top_key_hash", "top_key_share", "moved_keys", "judged_records", "misplaced_records")
    assert {(r["topic"], r["partition"]): tuple(r[name] for name in columns) for r in per_partition.collect()} == {
        ("t", 0): (2, 1, 0.5, 1, 0, 0),
        ("t", 1): (3, -9, 1 / 3, 1, 0, 0),
        ("u", 0): (1, 2, 1.0, 0, 0, 0),
    }


def test_rows_grow_with_keys_and_windows_not_with_their_product(spark: SparkSession) -> None:
    rows = [("t", 0, 10.0 * window, key, 92, 0) for window in range(12) for key in range(20)]

    counted = keys.counted(records(spark, rows), "10 seconds")

    assert counted.count() == 12 + 20
    assert counted._jdf.queryExecution().optimizedPlan().toString().count("LogicalRDD") == 1  # read once for both


def test_what_is_known_of_topics_is_broadcast(spark: SparkSession) -> None:
    """No row is shuffled for it, and it stands in no expression, which all topics would make long."""
    rows = [("t", 0, 0.0, 1, 92, 0)]
    counts = keys.placed(keys.counted(records(spark, rows), "10 seconds"), {"t": 4}, None)

    for frame in (placed(spark, rows, {"t": 4}), what_if.partitioners(keys.distinct(counts), "r", {"t": 4}, [6])):
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert "BroadcastHashJoin [topic#" in plan
        assert "SortMergeJoin" not in plan


@pytest.mark.long  # long: 4,000 keys; test_end_to_end.py finds the hot key of a topic, with its rank and its records
def test_hot_keys_are_the_first_of_each_topic(spark: SparkSession) -> None:
    """More keys than are kept, a key on two partitions, records without a key; the shares are of all records."""
    rng = random.Random(9)
    rows = [("t", rng.randrange(3), 0.0, min(rng.randrange(400), rng.randrange(400)), 9, 0) for _ in range(4000)]
    rows += [("t", 0, 0.0, None, 9, 0)] * 100 + [("u", 0, 0.0, 5, 9, 0)]
    counts = keys.placed(keys.counted(records(spark, rows), "10 seconds"), {"t": 3, "u": 1}, None)

    hot = keys.hot(keys.distinct(counts))

    assertSchemaEqual(hot.schema, schema.HOT_KEYS)
    plan = hot._jdf.queryExecution().executedPlan().toString()
    assert plan.count("WindowGroupLimit") >= 2  # in each task, then among what is left
    found = {topic: [r for r in hot.orderBy("rank").collect() if r["topic"] == topic] for topic in "tu"}
    of_t = Counter(key for topic, _, _, key, *_ in rows if topic == "t" and key is not None)
    expected = sorted(of_t.items(), key=lambda item: (-item[1], item[0]))[: keys.HOT_KEYS]
    assert [(r["key_hash"], r["records"]) for r in found["t"]] == expected
    assert [r["rank"] for r in found["t"]] == list(range(1, keys.HOT_KEYS + 1))
    assert found["t"][0]["share"] == expected[0][1] / 4100
    places = Counter(p for _, p, _, key, *_ in rows if key == expected[0][0])
    most = max(places.values())
    assert (found["t"][0]["partition"], found["t"][0]["partitions"]) == (
        min(p for p, n in places.items() if n == most),
        len(places),
    )
    assert [(r["key_hash"], r["share"]) for r in found["u"]] == [(5, 1.0)]


@pytest.mark.release("the rows counted by hand")
def test_measures_of_load_are_the_textbooks(spark: SparkSession) -> None:
    """Random loads with empty partitions, an even topic, one that lies on a single partition, one without bytes."""
    rng = random.Random(5)
    counts = {"even": 3, "one": 5, "nothing": 2, **{f"random{i}": rng.randint(1, 9) for i in range(6)}}
    rows = [("even", p, 0, 1, 92, 0) for p in range(3)] + [("one", 4, 0, 1, 92, 0)] * 7
    rows += [("nothing", 1, 0, None, None, 0)]
    for topic, n in counts.items():
        if topic.startswith("random"):
            rows += [(topic, rng.randrange(n), rng.uniform(0, 50), 1, rng.randint(0, 500), 3) for _ in range(40)]
    loads: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for topic, partition, _, key, value, header in rows:
        loads[topic][partition] += (8 if key is not None else 0) + (value or 0) + header

    load = balance.topic_load(placed(spark, rows, counts), counts)

    assertSchemaEqual(load.schema, schema.TOPIC_LOAD)
    found = {row["topic"]: row for row in load.collect()}
    assert set(found) == set(counts)
    for topic, n in counts.items():
        x = sorted(loads[topic][p] for p in range(n))
        total, row = sum(x), found[topic]
        assert (row["partitions"], row["bytes"]) == (n, total)
        assert row["empty_partitions"] == n - len({r[1] for r in rows if r[0] == topic})
        if not total:
            assert (row["max_over_mean"], row["cv"], row["gini"]) == (0, 0, 0)
            continue
        assert row["max_over_mean"] == pytest.approx(max(x) / (total / n))
        assert row["cv"] == pytest.approx(statistics.pstdev(x) / statistics.mean(x))
        # Gini as it is defined, by all pairs: the table's form over ranks is another way to the same number
        assert row["gini"] == pytest.approx(sum(abs(a - b) for a in x for b in x) / (2 * n * total))
    assert found["one"]["gini"] == pytest.approx(1 - 1 / 5)
