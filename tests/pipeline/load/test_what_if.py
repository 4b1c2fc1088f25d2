"""What-if over keys: the prediction is what a scalar loop says, and what a topic of that many partitions then shows."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.testing import assertSchemaEqual

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.records import Record, send
from kafka_assignors.pipeline import schema
from kafka_assignors.pipeline.load import keys, what_if
from kafka_assignors.pipeline.sources import brokers, read
from kafka_assignors.producers import partition_for_key

pytestmark = pytest.mark.spark

ROWS = "run string, topic string, partition int, key binary, bytes long, records long"


def summed(rows: DataFrame) -> DataFrame:
    """Rows of records -> a row per topic, partition and key, as `keys.distinct` gives them."""
    same = Window.partitionBy("topic", "key")
    sums = rows.groupBy("run", "topic", "partition", "key").agg(
        sf.sum("bytes").alias("bytes"), sf.sum("records").alias("records")
    )
    ends = {name: sf.when(sf.col("key").isNotNull(), f("partition").over(same)) for name, f in
            (("low", sf.min), ("high", sf.max))}  # fmt: skip
    return sums.withColumns(ends)


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, "50")
    yield
    spark.conf.set(name, before)


# long: sums that are handed on once per task, and not per batch as well
@pytest.mark.parametrize("held", [100, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_every_rule_and_count_equals_a_loop_over_the_records(
    spark: SparkSession, small_batches: None, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    """Random keys with a hot one, empty ones, none, some on two partitions; sums handed on per batch and per task."""
    monkeypatch.setattr(what_if, "_HELD", held)  # goes to the workers with the function that reads it
    rng = random.Random(4)
    names = [rng.randbytes(rng.randint(1, 40)) for _ in range(300)] + [b""]
    rows = []
    for topic, n in (("t", 5), ("u", 3)):
        for _ in range(1500):
            key = rng.choice([None, names[0], *rng.choices(names, k=4)])
            home = rng.randrange(n) if key is None or rng.random() < 0.1 else partition_for_key(key, n)
            rows.append(("r", topic, home, key, rng.randint(0, 300), 1))
    frame = summed(spark.createDataFrame(rows, ROWS)).repartition(3)

    predicted = what_if.partitioners(frame, "r", {"t": 5, "u": 3}, [4, 5, 16])

    assertSchemaEqual(predicted.schema, schema.PARTITIONER_WHAT_IF)
    found = {(row["topic"], row["rule"], row["partitions"]): row for row in predicted.collect()}
    assert set(found) == {
        (topic, rule, n)
        for topic, counts in (("t", (4, 5, 16)), ("u", (3, 4, 5, 16)))
        for rule in (*what_if.KEYED, what_if.KEYLESS)
        for n in counts
    }
    for (topic, rule, n), row in found.items():
        records, size = [0.0] * n, [0.0] * n
        moved: set[bytes] = set()
        seen: set[bytes] = set()
        elsewhere = 0
        for _, name, partition, key, value, _ in rows:
            if name != topic:
                continue
            if key is not None:
                seen.add(key)
            if key is None or rule == what_if.KEYLESS or (rule == "librdkafka" and not key):
                records = [x + 1 / n for x in records]
                size = [x + value / n for x in size]
                continue
            at = partition_for_key(key, n, preset=rule)
            records[at] += 1
            size[at] += value
            if at != partition:
                moved.add(key)
                elsewhere += 1
        assert row["records_per_partition"] == pytest.approx(records), (topic, rule, n)
        assert (row["records"], row["keys"]) == (1500, len(seen))
        assert row["current"] == (n == {"t": 5, "u": 3}[topic])
        assert row["max_over_mean"] == pytest.approx(max(size) / statistics.mean(size))
        assert row["cv"] == pytest.approx(statistics.pstdev(size) / statistics.mean(size), abs=1e-9)
        lookless = rule == what_if.KEYLESS
        assert row["moved_keys"] == (None if lookless else len(moved))
        assert row["moved_records"] == (None if lookless else elsewhere)
        assert row["moved_key_share"] == (None if lookless else pytest.approx(len(moved) / len(seen)))


@pytest.mark.parametrize("split", [False, True])
def test_one_count_tells_of_those_that_divide_it(split: bool) -> None:
    """Counts below and above the partitions that there are; some hashes are none (-1), some keys on two partitions."""
    rng = np.random.default_rng(9)
    size = 2000
    hashes = rng.integers(0, 1 << 32, size)
    none = rng.random(size) < 0.1
    weights = [rng.integers(1, 9, size), rng.integers(0, 300, size), rng.integers(0, 2, size)]
    if split:
        weights.append(weights[2] * (rng.random(size) < 0.2))
    here = what_if._Here(rng.integers(0, 5, size).astype(np.int32), [column.astype(np.float64) for column in weights])

    together = what_if._together([2, 3, 12, 24, 7, 5], 24)

    assert together == {24: [24, 12, 3, 2], 7: [7], 5: [5]}
    places = {n: np.where(none, -1, hashes % n).astype(np.int32) for n in (2, 3, 5, 12, 24)}
    for n in together[24]:
        expected = here.by_staying(places[n], n)
        assert expected[:3].sum(1).tolist() == [column.sum() for column in weights[:3]]
        assert 0 < expected[3].sum() < expected[2].sum()
        np.testing.assert_array_equal(here.folded(here.by_partition(places[24], 24), n), expected)


# long: the same numbers from a real topic; the first test compares each of them with a loop over the records
@pytest.mark.long
@pytest.mark.broker
def test_the_prediction_is_what_a_topic_with_more_partitions_shows(
    kafka_broker: Broker, kafka_topic, spark: SparkSession, tmp_path
) -> None:
    """The same keyed records to 5 partitions and, for real, to 12; 30 % of them have one key."""
    rng = random.Random(6)
    names = [b"hot" if rng.random() < 0.3 else b"k%d" % rng.randrange(200) for _ in range(600)]
    small, large = kafka_topic(partitions=5), kafka_topic(partitions=12)
    for topic in (small, large):
        assert send(kafka_broker.bootstrap, tmp_path, "r", "default", [Record(topic, key) for key in names]).nacked == 0
    found = brokers.topics(kafka_broker.bootstrap, [small, large])

    there = read.records(spark, kafka_broker.bootstrap, found, "r")

    counts = keys.placed(keys.counted(there, "1 minute"), found.partitions, None)
    rows = what_if.partitioners(keys.distinct(counts), "r", found.partitions, [12]).collect()

    row = {(row["topic"], row["rule"], row["partitions"]): row for row in rows}
    predicted, real = row[small, "java", 12], row[large, "java", 12]
    counted = there.where(f"topic = '{large}'").groupBy("partition").count().collect()
    counts = {r["partition"]: r["count"] for r in counted}
    assert predicted["records_per_partition"] == [counts.get(p, 0) for p in range(12)]
    assert (predicted["max_over_mean"], predicted["cv"]) == (real["max_over_mean"], real["cv"])
    moved = {key for key in names if partition_for_key(key, 5) != partition_for_key(key, 12)}
    assert predicted["moved_keys"] == len(moved) > 0
    assert (real["moved_records"], row[small, "java", 5]["moved_records"]) == (
        0,
        0,
    )  # what Java's rule placed lies there
    assert real["moved_key_share"] == 0.0
    assert row[large, "librdkafka", 12]["moved_records"] > 0
