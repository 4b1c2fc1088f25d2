"""Topics and kept histories -> DataFrames. Nothing here decides anything about what it reads.

Spark reads with consumers of its own, commits nothing and never joins a group under study. Per-partition order of rows
is not promised: whoever needs it sorts by offset.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.admin import OffsetSpec
from kafka.structs import TopicPartition
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import MapType, StringType, StructField, StructType

from kafka_assignors.errors import ConfigError
from kafka_assignors.events import VERSION

from . import schema

TIMEOUT_MS = 15_000
"""How long a broker may take to answer, here and in Spark's consumers."""


@dataclass(frozen=True)
class Topics:
    """What the brokers say about the topics to read.

    Args:
        cluster: Cluster id.
        partitions: topic -> partition count.
    """

    cluster: str
    partitions: dict[str, int]


def topics(bootstrap: str, names: Collection[str]) -> Topics:
    """Ask the brokers for topics before Spark does: its own answer would be a stack trace, after its slow start.

    Args:
        bootstrap: ``host:port[,host:port]``.
        names: Topics, each with records in it.

    Raises:
        ConfigError: No broker answers; a topic is absent, has a partition without leader, or holds no record.

    Cost: one connection, three requests; at most `TIMEOUT_MS` when nobody answers.
    """
    try:
        client = KafkaAdminClient(
            bootstrap_servers=bootstrap.split(","), bootstrap_timeout_ms=TIMEOUT_MS, request_timeout_ms=TIMEOUT_MS
        )
    except (kafka_errors.KafkaError, ValueError, OSError) as error:
        raise ConfigError(
            f"--bootstrap {bootstrap!r}: no broker answered within {TIMEOUT_MS // 1000} s "
            f"({type(error).__name__}); is it running, and is this its host:port?"
        ) from None
    try:
        found = {t["name"]: t for t in client.describe_topics(list(names))}
        for name in names:
            _require_readable(name, found.get(name, {}))
        partitions = {name: len(found[name]["partitions"]) for name in names}
        tps = [TopicPartition(name, p) for name, count in partitions.items() for p in range(count)]
        first = client.list_partition_offsets(dict.fromkeys(tps, OffsetSpec.EARLIEST))
        end = client.list_partition_offsets(dict.fromkeys(tps, OffsetSpec.LATEST))
        for name, count in partitions.items():
            if not any(end[tp].offset > first[tp].offset for tp in tps if tp.topic == name):
                raise ConfigError(
                    f"--topics: {name!r} has {count} partitions and no record; leave it out, or produce to it first"
                )
        return Topics(client.describe_cluster()["cluster_id"], partitions)
    except kafka_errors.KafkaError as error:
        raise ConfigError(
            f"--bootstrap {bootstrap!r}: {type(error).__name__} while asking for topics: {error}"
        ) from None
    finally:
        client.close()


def _require_readable(name: str, said: dict[str, object]) -> None:
    code = said.get("error_code", 3)
    if code:
        why = kafka_errors.for_code(code)
        raise ConfigError(
            f"--topics: {name!r} cannot be read ({why.__name__}); is it spelled right, and was it created or deleted?"
        )
    rows: list[dict[str, int]] = said["partitions"]  # type: ignore[assignment]
    if leaderless := [p["partition_index"] for p in rows if p["leader_id"] < 0]:
        raise ConfigError(f"--topics: partitions {leaderless} of {name!r} have no leader; is a broker down?")


def records(spark: SparkSession, bootstrap: str, topics: Topics, run: str) -> DataFrame:
    """All records that the topics hold now -> `schema.RECORDS`.

    Args:
        spark: A session with Spark's Kafka connector.
        bootstrap: ``host:port[,host:port]``.
        topics: What `topics` found.
        run: Id to put on every row.

    Cost: lazy; one task per topic-partition.
    """
    return from_kafka(_source(spark, bootstrap, topics), run, topics.cluster)


def keys(spark: SparkSession, bootstrap: str, topics: Topics, run: str) -> DataFrame:
    """The keys of the same records -> ``run, topic, partition, key binary, bytes long``, as `what_if` takes them."""
    return keys_from_kafka(_source(spark, bootstrap, topics), run)


def _source(spark: SparkSession, bootstrap: str, topics: Topics) -> DataFrame:
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", ",".join(topics.partitions))
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .option("includeHeaders", "true")
        # A fetch at a partition's end waits this long for records that a batch has no use for (default 0.5 s each).
        .option("kafka.fetch.max.wait.ms", "10")
        # A broker that goes away during the job is an error soon, not after the client's minutes.
        .option("kafka.request.timeout.ms", str(TIMEOUT_MS))
        .option("kafka.default.api.timeout.ms", str(2 * TIMEOUT_MS))
        .load()
    )


def from_kafka(rows: DataFrame, run: str, cluster: str) -> DataFrame:
    """Rows as Spark's Kafka source gives them -> `schema.RECORDS`."""
    headers = _headers()

    def header(name: str) -> Column:
        return sf.get(sf.filter(headers, lambda h: h["key"] == name), 0)["value"].cast("string")

    return schema.conform(
        rows.select(
            sf.lit(run).alias("run"),
            sf.lit(cluster).alias("cluster"),
            "topic",
            "partition",
            "offset",
            sf.col("timestamp").alias("ts"),
            sf.col("timestampType").alias("ts_type"),
            # xxhash64 of null is its seed, which would be a key like any other
            sf.when(sf.col("key").isNotNull(), sf.xxhash64("key")).alias("key_hash"),
            sf.octet_length("key").alias("key_bytes"),
            sf.octet_length("value").alias("value_bytes"),
            _header_bytes().alias("header_bytes"),
            # integration/records.py puts the header and a JSON value with an id; other values are not looked at
            sf.when(
                header("partitioner").isNotNull(), sf.get_json_object(sf.col("value").cast("string"), "$.id")
            ).alias("value_id"),
            sf.coalesce(header("producer"), header("partitioner")).alias("producer"),
        ),
        schema.RECORDS,
        strict=False,  # Kafka has no records without these
    )


def keys_from_kafka(rows: DataFrame, run: str) -> DataFrame:
    """Rows as Spark's Kafka source gives them -> what `keys` returns."""
    sizes = [sf.coalesce(sf.octet_length(name), sf.lit(0)) for name in ("key", "value")]
    size = (sizes[0] + sizes[1] + _header_bytes()).cast("long")
    return rows.select(sf.lit(run).alias("run"), "topic", "partition", "key", size.alias("bytes"))


def _headers() -> Column:
    return sf.coalesce("headers", sf.array().cast("array<struct<key string, value binary>>"))


def _header_bytes() -> Column:
    return sf.aggregate(
        _headers(),
        sf.lit(0),
        lambda total, h: total + sf.octet_length(h["key"]) + sf.coalesce(sf.octet_length(h["value"]), sf.lit(0)),
    )


def lines(spark: SparkSession, folder: str) -> DataFrame:
    """Every line of the ``*.jsonl`` files in a folder, at any depth -> ``file string, line string``. Lazy."""
    return (
        spark.read.option("recursiveFileLookup", "true")
        .option("pathGlobFilter", "*.jsonl")
        .text(folder)
        .select(sf.col("_metadata.file_path").alias("file"), sf.col("value").alias("line"))
    )


# What an event holds in columns of its own: the fields of schema.EVENTS as they are named in JSON.
_COMPUTED = {"ts", "detail"}
_TYPED = StructType([StructField(f.name, f.dataType) for f in schema.EVENTS.fields if f.name not in _COMPUTED])
_BAD = "_bad"
_REQUIRED = ("kind", "run", "src", "seq", "ts_ns", "mono_ns")  # as Event.from_json demands them


def parse(lines: DataFrame) -> DataFrame:
    """Lines -> ``file, line, reason, event, fields``; `reason` says why a line is no event, and is null if it is one.

    The same lines pass as in `kafka_assignors.events.Event.from_json`, and two lines run together do not: a killed
    writer can leave a line without its end, and Spark's reader would take the first event and drop the second.

    Cost: lazy; each line is parsed twice, once for the columns and once for the fields that have none.
    """
    typed = StructType([*_TYPED.fields, StructField("v", schema.INT), StructField(_BAD, schema.STRING)])
    event, fields = sf.col("event"), sf.col("fields")
    version = fields["v"]
    lacks = sf.array_compact(sf.array(*(sf.when(event[name].isNull(), sf.lit(name)) for name in _REQUIRED)))
    return lines.select(
        "file",
        "line",
        sf.from_json("line", typed, {"columnNameOfCorruptRecord": _BAD}).alias("event"),
        sf.from_json("line", MapType(StringType(), StringType())).alias("fields"),
    ).withColumn(
        "reason",
        sf.when(fields.isNull(), sf.lit("no JSON object: torn or damaged"))
        .when(sf.col("line").rlike(r'\}\s*\{\s*"v"\s*:'), sf.lit("two events in one line"))
        .when(version.isNull(), sf.lit("no event version"))
        .when(version != str(VERSION), sf.concat(sf.lit("unknown event version "), sf.substring(version, 1, 20)))
        .when(event[_BAD].isNotNull(), sf.lit("a field of another type than the format's"))
        .when(sf.size(lacks) > 0, sf.concat(sf.lit("lacks "), sf.array_join(lacks, ", "))),
    )


def events(parsed: DataFrame) -> DataFrame:
    """Parsed lines -> `schema.EVENTS`. Lazy."""
    event = sf.col("event")
    # A commit's offsets have another shape than those of consume, which have the column: they stay whole in `detail`.
    taken = sf.array(*(sf.lit(name) for name in (*_TYPED.names, "v")))
    detail = sf.map_filter(
        "fields",
        lambda name, _: ~sf.array_contains(taken, name) | ((name == "offsets") & (event["kind"] != "consume")),
    )
    computed = {
        "ts": sf.timestamp_micros(sf.expr("event.ts_ns div 1000")),
        "incarnation": sf.coalesce(event["incarnation"], sf.lit(0)),
        "detail": detail,
    }
    columns = (computed.get(name, event[name]).alias(name) for name in schema.EVENTS.names)
    return schema.conform(parsed.where(sf.col("reason").isNull()).select(*columns), schema.EVENTS, strict=False)


def rejected(parsed: DataFrame, run: str) -> DataFrame:
    """Parsed lines that are no events -> `schema.REJECTED`. Lazy."""
    return schema.conform(
        parsed.where(sf.col("reason").isNotNull()).select(
            sf.lit(run).alias("run"), "file", "reason", sf.substring("line", 1, 2000).alias("line")
        ),
        schema.REJECTED,
    )
