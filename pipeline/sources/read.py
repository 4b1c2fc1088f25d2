"""Topics and recorded histories as DataFrames, without any analysis.

Spark reads with its own consumers, commits nothing and never joins a group under study. The order of rows of a
partition is not guaranteed; sort by offset if it matters.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from kafka_assignors.connection import Connection
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import VERSION

from .. import schema
from . import brokers
from .brokers import TopicSnapshot


def records(
    spark: SparkSession, bootstrap: str | Connection, topics: TopicSnapshot, run: str, tasks: int | None = None
) -> DataFrame:
    """The records that the topics held when `brokers.topics` asked, as `schema.RECORDS`.

    Cost: lazy; one task per topic-partition, or `tasks`. Every action reads the same offsets again, regardless of newer
    records.
    """
    return from_kafka(source(spark, bootstrap, topics, tasks), run, topics.cluster)


def source(
    spark: SparkSession, bootstrap: str | Connection, topics: TopicSnapshot, tasks: int | None = None
) -> DataFrame:
    """The records to read, in the columns of Spark's Kafka source. Lazy.

    `tasks` is Spark's ``minPartitions``; None: a task per topic-partition.
    """
    ranges = topics.ranges
    frames = []
    # One read takes one range per topic-partition.
    for n in range(max(map(len, ranges.values()), default=1)):
        here = {tp: blocks[n] for tp, blocks in ranges.items() if n < len(blocks)}
        reader = (
            spark.read.format("kafka")
            .options(**connection(bootstrap, topics.isolation))
            # Listed one by one: Spark rejects the offsets if a partition is added in between.
            .option("assign", json.dumps(_by_topic((tp, tp.partition) for tp in here or topics.first)))
            .option("startingOffsets", _offsets({tp: first for tp, (first, _) in here.items()} or topics.first))
            .option("endingOffsets", _offsets({tp: end for tp, (_, end) in here.items()} or topics.first))
        )
        frames.append((reader if tasks is None else reader.option("minPartitions", str(tasks))).load())
    return functools.reduce(DataFrame.unionAll, frames)


def aborted(
    spark: SparkSession, bootstrap: str | Connection, topics: TopicSnapshot, read: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Records of aborted transactions among the offsets, per topic-partition that has any.

    `read` has the number of records that were read per topic-partition.

    Cost: a second read of the topic-partitions that have an offset without a record; nothing if there are none.
    """
    holes = {tp: ranges for tp, ranges in topics.ranges.items() if _size(ranges) > read.get(tp, 0)}
    if topics.isolation != brokers.ISOLATION[0] or not holes:
        return {}
    everything = replace(topics, chosen=holes, isolation=brokers.ISOLATION[1])
    counts = source(spark, bootstrap, everything).groupBy("topic", "partition").count().collect()
    more = {(tp := TopicPartition(row["topic"], row["partition"])): row["count"] - read.get(tp, 0) for row in counts}
    return {tp: n for tp, n in more.items() if n > 0}


def _size(ranges: Iterable[brokers.Range]) -> int:
    return sum(end - first for first, end in ranges)


@contextmanager
def internal_topics(spark: SparkSession) -> Iterator[None]:
    """Context manager in which Spark also reads Kafka's internal topics; compute and persist the result inside.

    Spark fetches offsets with Kafka's admin client, and drops internal topics from the answer. Its older way, with a
    consumer, keeps them.
    """
    name = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
    before = spark.conf.get(name, "false")
    spark.conf.set(name, "true")
    try:
        yield
    finally:
        spark.conf.set(name, before)


def connection(bootstrap: str | Connection, isolation: str) -> dict[str, str]:
    """Options of every read from Kafka, batch or stream; `isolation` is one of `brokers.ISOLATION`."""
    return {
        **Connection.of(bootstrap).spark(),
        "kafka.isolation.level": isolation,
        "includeHeaders": "true",
        "groupIdPrefix": brokers.GROUP_PREFIX,
        # A fetch at a partition's end waits this long for records that a batch does not need (default 0.5 s each).
        "kafka.fetch.max.wait.ms": "10",
        # If a broker disappears during the job, fail soon and not after the client's minutes.
        "kafka.request.timeout.ms": str(brokers.TIMEOUT_MS),
        "kafka.default.api.timeout.ms": str(2 * brokers.TIMEOUT_MS),
        "kafkaConsumer.pollTimeoutMs": str(2 * brokers.TIMEOUT_MS),
        "fetchOffset.numRetries": "1",  # the client has retried for that long already
    }


def _by_topic(values: Iterable[tuple[TopicPartition, int]]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for tp, value in values:
        topics.setdefault(tp.topic, []).append(value)
    return topics


def _offsets(of: Mapping[TopicPartition, int]) -> str:
    offsets: dict[str, dict[str, int]] = {}
    for tp, offset in of.items():
        offsets.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return json.dumps(offsets)


def from_kafka(rows: DataFrame, run: str, cluster: str) -> DataFrame:
    """Convert rows of Spark's Kafka source to `schema.RECORDS`."""
    named = rows.withColumns({"run": sf.lit(run), "cluster": sf.lit(cluster)})
    # Kafka has no records without these
    return schema.conform(named.selectExpr(*_RECORD), schema.RECORDS, strict=False)


_HEADERS = "coalesce(headers, CAST(array() AS array<struct<key: string, value: binary>>))"


def _header(name: str) -> str:
    return f"CAST(get(filter({_HEADERS}, h -> h.key = '{name}'), 0).value AS string)"


_RECORD = (
    "run", "cluster", "topic", "partition", "offset",
    f"least(timestamp, TIMESTAMP'{schema.LAST:%Y-%m-%dT%H:%M:%SZ}') AS ts",
    "timestampType AS ts_type",
    # xxhash64 of null is its seed, which would look like a key
    "CASE WHEN key IS NOT NULL THEN xxhash64(key) END AS key_hash",
    "key",
    "octet_length(key) AS key_bytes",
    "octet_length(value) AS value_bytes",
    f"aggregate({_HEADERS}, 0, (total, h) -> total + octet_length(h.key) + coalesce(octet_length(h.value), 0)) "
    "AS header_bytes",
    # integration/records/sender.py writes the header and a JSON value with an id; other values are ignored
    f"CASE WHEN {_header('partitioner')} IS NOT NULL THEN get_json_object(CAST(value AS string), '$.id') END "
    "AS value_id",
    f"coalesce({_header('producer')}, {_header('partitioner')}) AS producer",
)  # fmt: skip
"""The columns of `schema.RECORDS` in SQL. Python's functions would call into the JVM for each part of an expression."""


def lines(spark: SparkSession, folder: str) -> DataFrame:
    """Every line of the ``*.jsonl`` files in a folder, at any depth -> ``file string, line string``. Lazy."""
    return (
        spark.read.option("recursiveFileLookup", "true")
        .option("pathGlobFilter", "*.jsonl")
        .text(folder)
        .select(sf.col("_metadata.file_path").alias("file"), sf.col("value").alias("line"))
    )


def published(spark: SparkSession, bootstrap: str | Connection, topic: TopicSnapshot) -> DataFrame:
    """The distinct lines published to a topic, one per record -> ``file string, line string``. Lazy.

    Producers resend unacknowledged records, so a line may occur twice; no two events have the same line.
    """
    lines = source(spark, bootstrap, topic).select(
        sf.format_string("kafka:%s-%d", "topic", "partition").alias("file"),
        sf.coalesce(sf.col("value").cast("string"), sf.lit("")).alias("line"),
    )
    return lines.dropDuplicates(["line"])


# Columns of an event that come straight from JSON: the fields of schema.EVENTS under their JSON names.
_COMPUTED = {"ts", "detail"}
_TYPED = StructType([StructField(f.name, f.dataType) for f in schema.EVENTS.fields if f.name not in _COMPUTED])
_BAD = "_bad"
_REQUIRED = ("kind", "run", "src", "seq", "ts_ns", "mono_ns")  # as Event.from_json demands them


def parse(lines: DataFrame) -> DataFrame:
    """Parse lines -> ``file, line, reason, event, fields``; `reason` is why a line is not an event, else null.

    Accepts the same lines as `history.events.Event.from_json`, and rejects two lines run together: a killed writer can
    leave a line without its end, and Spark's reader would take the first event and drop the second.

    Cost: lazy; persist it, and each line is parsed twice, once for the columns and once for the other fields. Otherwise
    a filter of `events` makes Spark parse it again for each column that the filter reads.
    """
    return lines.selectExpr("file", "line", f"{_EVENT} AS event", f"{_FIELDS} AS fields").selectExpr(
        "*", f"{_REASON} AS reason"
    )


_TYPES = StructType([*_TYPED.fields, StructField("v", schema.INT), StructField(_BAD, schema.STRING)]).simpleString()
_EVENT = f"from_json(line, '{_TYPES}', map('columnNameOfCorruptRecord', '{_BAD}'))"
_FIELDS = "from_json(line, 'map<string, string>')"
_LACKS = "array_compact(array({}))".format(", ".join(f"if(event.{name} IS NULL, '{name}', NULL)" for name in _REQUIRED))
_REASON = rf"""CASE
    WHEN fields IS NULL THEN 'not a JSON object: torn or damaged'
    WHEN line RLIKE r'\}}\s*\{{\s*"v"\s*:' THEN 'two events in one line'
    WHEN fields['v'] IS NULL THEN 'no event version'
    WHEN fields['v'] <> '{VERSION}' THEN concat('unknown event version ', substring(fields['v'], 1, 20))
    WHEN event.{_BAD} IS NOT NULL THEN 'a field with another type than in the format'
    WHEN size({_LACKS}) > 0 THEN concat('lacks ', array_join({_LACKS}, ', '))
END"""


def events(parsed: DataFrame) -> DataFrame:
    """Parsed lines -> `schema.EVENTS`. Lazy."""
    # An ``end`` seals its file and is not an event of the run; `integration.history` also leaves it out.
    rows = parsed.where("reason IS NULL AND event.kind <> 'end'")
    return schema.conform(rows.selectExpr(*_COLUMNS), schema.EVENTS, strict=False)


_SHOWN = ", ".join(f"'{name}'" for name in (*_TYPED.names, "v"))
_COLUMNS = tuple(
    f"{{}} AS `{name}`".format(
        {
            "ts": "timestamp_micros(event.ts_ns div 1000)",
            "incarnation": "coalesce(event.incarnation, 0)",
            # A commit's offsets have another shape than the column, which is that of consume: they stay whole.
            "detail": f"map_filter(fields, (name, text) -> name NOT IN ({_SHOWN}) "
            "OR (name = 'offsets' AND event.kind <> 'consume'))",
        }.get(name, f"event.`{name}`")
    )
    for name in schema.EVENTS.names
)


def rejected(parsed: DataFrame, run: str) -> DataFrame:
    """Parsed lines that are not events, as `schema.REJECTED`. Lazy."""
    return schema.conform(
        parsed.where(sf.col("reason").isNotNull()).select(
            sf.lit(run).alias("run"), "file", "reason", sf.substring("line", 1, 2000).alias("line"),
            sf.lit(1).cast("long").alias("rows"),
        ),
        schema.REJECTED,
    )  # fmt: skip


def unread(
    topics: TopicSnapshot, read: Mapping[TopicPartition, int], aborted: Mapping[TopicPartition, int], run: str
) -> list[tuple[str, str, str, str, int]]:
    """Offsets without a record, as rows of `schema.REJECTED`; `read` and `aborted` are numbers of records."""
    rows = []
    for tp, end in topics.end.items():
        first, ranges = topics.first[tp], topics.ranges.get(tp, ())
        size, there, gone = _size(ranges), read.get(tp, 0), aborted.get(tp, 0)
        where = f"{first} to {end - 1}, of which {there} have a record that was read"
        behind = f"{end} to {end + topics.open.get(tp, 0) - 1}"
        for reason, at, n in (
            ("deleted offsets: by retention or by a request", f"0 to {first - 1}", first),
            ("offsets outside of --since, --until, --offsets or --sample", where, end - first - size),
            ("records of aborted transactions", where, gone),
            ("offsets without a record: compacted, or transaction markers", where, size - there - gone),
            ("offsets after the start of an open transaction", behind, topics.open.get(tp, 0)),
        ):
            if n > 0:
                rows.append((run, f"kafka:{tp.topic}-{tp.partition}", reason, at, n))
    return rows
