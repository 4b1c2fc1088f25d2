"""The Spark job's tables over many records, on this machine's cores."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .result import Result, WrongAnswer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PARTITIONS = {"orders": 12, "payments": 6, "audit": 3}
_COUNTS = (12, 24, 48, 96)
_KEYS = 50_000
_UDF_KEYS = 1_000_000  # enough that a job's fixed cost is little of it; a row UDF needs minutes for more


def run(quick: bool) -> Iterator[Result]:
    """``what-if``: every rule by four partition counts over different keys, columns against a row UDF.
    ``scale-1m``, ``scale-10m``: `keys`, `placement`, `topic_load`, hot keys and what-if of generated records.

    The JVM compiles as spark-submit's does. The records are generated in Spark: reading Kafka is not in it. The quick
    form runs once and leaves ten million out.
    """
    # Spark is an extra: a benchmark that does without it must not ask for it.
    from pipeline.run import Steps, session

    with session(Steps(), long=True) as spark:
        _tables(spark, 10_000)
        yield _what_if(spark, _UDF_KEYS // 5 if quick else _UDF_KEYS, 1 if quick else 3)
        yield _scale(spark, "scale-1m", 1_000_000, 1 if quick else 2)
        if not quick:
            yield _scale(spark, "scale-10m", 10_000_000, 1)


def _what_if(spark: SparkSession, size: int, rounds: int) -> Result:
    """Where so many different keys would lie under five rules and four counts, both from the same cached rows.

    Both sides answer the same, keys per rule, count and partition; ours also counts records, bytes and moves.
    """
    from pyspark.sql import functions as sf

    from pipeline.what_if import KEYED, KEYLESS, placed
    from producers import partition_for_key

    keys = (
        spark.range(size)
        .select(
            sf.lit("run").alias("run"), sf.lit("t").alias("topic"), sf.lit(0).alias("partition"),
            sf.encode(sf.format_string("customer-%07d", "id"), "utf-8").alias("key"),
            sf.lit(1).cast("long").alias("records"), sf.lit(100).cast("long").alias("bytes"),
            sf.lit(0).alias("low"), sf.lit(0).alias("high"),
        )
        .repartition(2)
        .cache()
    )  # fmt: skip
    keys.count()
    tries = [(rule, n) for rule in KEYED for n in _COUNTS]

    def by_rows() -> dict[tuple[str, int, int], int]:
        place = sf.udf(lambda key: [partition_for_key(bytes(key), n, rule) for rule, n in tries], "array<int>")
        each = keys.select(sf.posexplode(place("key")).alias("try", "at"))
        return {(*tries[r["try"]], r["at"]): r["count"] for r in each.groupBy("try", "at").count().collect()}

    def by_columns() -> dict[tuple[str, int, int], int]:
        rows = placed(keys, {"t": _COUNTS}).where(sf.col("rule") != KEYLESS).collect()
        return {(r["rule"], r["partitions"], r["placed"]): r["keys"] for r in rows}

    timed = {"ours": by_columns, "peer": by_rows}
    expected = by_columns()  # the first one starts the workers
    seconds: dict[str, list[float]] = {who: [] for who in timed}
    cpu: dict[str, list[float]] = {who: [] for who in timed}
    for _ in range(rounds):
        for who, call in timed.items():
            with _Cost() as cost:
                began = time.perf_counter()
                found = call()
                seconds[who].append(time.perf_counter() - began)
            cpu[who].append(cost.cpu_seconds)
            if found != expected:
                raise WrongAnswer("the columns and the row UDF place keys differently")
    keys.unpersist()
    ours, peer = (statistics.median(seconds[who]) for who in timed)
    worked = statistics.median(cpu["ours"]), statistics.median(cpu["peer"])
    note = (
        f"{size:,} different keys, {len(KEYED)} rules x {len(_COUNTS)} partition counts; "
        f"{worked[0]:.1f} and {worked[1]:.1f} CPU s"
    )
    raw = {"seconds": seconds, "cpu_seconds": cpu, "keys": size}
    return Result("what-if", ours, "s", "a Python row UDF", peer, note, raw=raw)


def _scale(spark: SparkSession, name: str, size: int, rounds: int) -> Result:
    with _Cost() as cost:
        seconds = [_tables(spark, size) for _ in range(rounds)]
    middle = sorted(seconds)[len(seconds) // 2]
    cpu = cost.cpu_seconds / rounds
    note = f"{size / middle:,.0f} records/s; {cpu:.1f} CPU s; peak {cost.peak_bytes / 1e6:,.0f} MB in all processes"
    raw = {"seconds": seconds, "cpu_seconds": cpu, "peak_rss_bytes": cost.peak_bytes}
    return Result(name, middle, "s", note=note, raw=raw)


def _tables(spark: SparkSession, size: int) -> float:
    from pipeline.keys import by_key, hot
    from pipeline.transform import placement, topic_load
    from pipeline.what_if import partitioners

    began = time.perf_counter()
    keys = by_key(_records(spark, size), "1 minute", _PARTITIONS, "java").persist()
    placed = placement(keys, _PARTITIONS).cache()
    counted: Any = placed.agg({"records": "sum"}).collect()[0][0]
    topic_load(placed, _PARTITIONS).collect()
    hot(keys).collect()
    tried = partitioners(keys, _PARTITIONS, _COUNTS).select("rule", "partitions", "records").collect()
    took = time.perf_counter() - began
    placed.unpersist()
    keys.unpersist()
    if counted != size:
        raise WrongAnswer(f"placement counts {counted} records of {size}")
    for count in _COUNTS:
        if (
            found := sum(row["records"] for row in tried if row["rule"] == "java" and row["partitions"] == count)
        ) != size:
            raise WrongAnswer(f"the what-if for {count} partitions has {found} records of {size}")
    return took


class _Cost:
    """CPU time, and the most resident memory at a time, of this process, the JVM and Spark's Python workers."""

    def __enter__(self) -> _Cost:
        self.peak_bytes = 0
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._look()
        self._first = dict(self._last)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._look()
        self.cpu_seconds = sum(last - self._first.get(pid, 0.0) for pid, last in self._last.items())

    def _watch(self) -> None:
        while not self._end.wait(0.5):
            self._look()

    def _look(self) -> None:
        import psutil

        me, total = psutil.Process(), 0
        for process in (me, *me.children(recursive=True)):
            try:
                total += process.memory_info().rss
                self._last[process.pid] = sum(process.cpu_times()[:2])  # of one that ends: as last seen
            except psutil.NoSuchProcess:
                continue
        self.peak_bytes = max(self.peak_bytes, total)


def _records(spark: SparkSession, size: int) -> DataFrame:
    """`schema.RECORDS`: three topics, ten minutes, 50,000 keys of 16 bytes, every fourth record without one; 100 B."""
    from pyspark.sql import functions as sf

    from pipeline import schema

    row = sf.col("id")
    topics = list(_PARTITIONS)
    topic = sf.when(row % 7 < 4, topics[0]).when(row % 7 < 6, topics[1]).otherwise(topics[2])
    partitions = sf.when(row % 7 < 4, 12).when(row % 7 < 6, 6).otherwise(3)
    key = sf.when(row % 4 != 3, sf.encode(sf.format_string("customer-%07d", row % _KEYS), "utf-8"))
    return schema.conform(
        spark.range(size).select(
            sf.lit("run").alias("run"), sf.lit("cluster").alias("cluster"), topic.alias("topic"),
            sf.pmod(sf.coalesce(sf.xxhash64(key), sf.xxhash64(row)), partitions).cast("int").alias("partition"),
            row.alias("offset"), sf.timestamp_seconds(sf.lit(1_767_225_600) + row % 600).alias("ts"),
            sf.lit(0).alias("ts_type"), sf.when(key.isNotNull(), sf.xxhash64(key)).alias("key_hash"),
            sf.octet_length(key).alias("key_bytes"), sf.lit(84).alias("value_bytes"), sf.lit(0).alias("header_bytes"),
            sf.lit(None).cast("string").alias("value_id"), sf.lit("default").alias("producer"), key.alias("key"),
        ),
        schema.RECORDS,
        strict=False,
    )  # fmt: skip
