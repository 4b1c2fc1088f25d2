"""The partition column of every preset equals the scalar function, also after Spark's own Kafka sink."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F  # noqa: N812

from kafka_assignors.producers import PRESETS, ConfigError, UnknownName, partition_for_key
from kafka_assignors.producers.spark import partition_column, with_partition
from tests.support.pages import example

pytestmark = pytest.mark.spark
KEYS = [None, b"", "ключ".encode(), bytes(range(256)), b"1468509572224", *(b"user-%d" % i for i in range(200))]


def expected(key, n, preset):
    known = PRESETS[preset]
    nobody = not known.null_is_empty if key is None else not key and known.empty_is_null
    return None if nobody else partition_for_key(key or b"", n, preset)


@pytest.fixture(scope="module")
def keys(spark):
    return spark.createDataFrame([(bytearray(k) if k is not None else None,) for k in KEYS], "key binary").coalesce(2)


# long: further presets, each another hash of the same form; tests/producers/ proves all scalar functions
@pytest.mark.parametrize(
    "preset", [each if each in ("java", "sarama") else pytest.param(each, marks=pytest.mark.long) for each in PRESETS]
)
def test_every_preset_places_as_the_scalar_function(keys, preset):
    columns = keys.withColumn("partition", partition_column("key", 7, preset))
    batches = with_partition(keys, 7, preset)
    for frame in (columns, batches):
        assert dict(frame.dtypes)["partition"] == "int"
        found = {None if row.key is None else bytes(row.key): row.partition for row in frame.collect()}
        assert found == {key: expected(key, 7, preset) for key in KEYS}


def test_text_keys_are_hashed_as_the_sink_writes_them(spark):
    words = spark.createDataFrame([("ключ",), ("kafka",)], "key string")
    places = {word: partition_for_key(word.encode(), 12) for word in ("ключ", "kafka")}
    for frame in (words.withColumn("partition", partition_column("key", 12)), with_partition(words, 12)):
        assert {row.key: row.partition for row in frame.collect()} == places


def test_arguments_are_checked(keys):
    for wrong in (lambda: partition_column("key", 0), lambda: with_partition(keys, True)):
        with pytest.raises(ConfigError, match="must be an int of at least 1"):
            wrong()
    with pytest.raises(UnknownName, match="unknown preset"):
        partition_column("key", 3, "mine")
    with pytest.raises(UnknownName, match="unknown column 'name'; known: key"):
        with_partition(keys, 3, key="name")
    for taken in ("partition", "Partition"):
        with pytest.raises(ConfigError, match=f"the frame already has a column '{taken}': drop or rename it first"):
            with_partition(keys.withColumnRenamed("key", taken).withColumn("key", F.lit("k")), 3)


@pytest.mark.broker
def test_the_sink_writes_where_the_column_says(spark, keys, kafka_broker, kafka_topic):
    from tests.support.producers.reading import read_back

    topic = kafka_topic(partitions=7, name="sink")
    rows = with_partition(keys, 7, "sarama").selectExpr(
        "key", "partition", "binary('v') as value", f"'{topic}' as topic"
    )
    rows.write.format("kafka").option("kafka.bootstrap.servers", kafka_broker.bootstrap).save()
    placed = {key: partition for partition, key, _ in read_back(kafka_broker, topic, len(KEYS))}
    keyed = [key for key in KEYS if key is not None]
    assert {key: placed[key] for key in keyed} == {key: partition_for_key(key, 7, "sarama") for key in keyed}


def test_the_readmes_example_makes_a_partition_column(spark):
    scope = {}
    exec(example("docs/clients.md", "kafka_assignors.producers.spark"), scope)
    frame = scope["placed"](spark.createDataFrame([(bytearray(b"kafka"),)], "key binary"), 6)
    assert frame.collect()[0].asDict() == {
        "key": bytearray(b"kafka"),
        "partition": partition_for_key(b"kafka", 6, "sarama"),
    }
