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
_DIFFERENT = 4_000_000  # large enough that a job's fixed cost is small

_Answer = dict[tuple[Any, ...], tuple[int, ...]]  # (rule, partitions, placed) -> sums


def run(quick: bool) -> Iterator[Result]:
    """``what-if``: every rule by four partition counts over distinct keys, columns against a row UDF.
    ``scale-1m``, ``scale-10m``: `keys`, `placement`, `topic_load`, hot keys and what-if of generated records, in one
    job. For ten million also the growth of time and CPU from one million; CPU does not depend on the machine's load.

    The JVM compiles as with spark-submit. Spark generates the records, so reading Kafka is not included. The quick
    form is what-if alone, once, with fewer keys for the row UDF.
    """
    # Spark is an extra: other benchmarks must not import it.
    from kafka_assignors.pipeline.session import session

    with session(long=True) as spark:
        if quick:
            yield _what_if(spark, _DIFFERENT // 32, 1)
            return
        _tables(spark, 10_000)
        yield _what_if(spark, _DIFFERENT // 8, 2)
        yield (million := _scale(spark, "scale-1m", 1_000_000, 2))
        yield _scale(spark, "scale-10m", 10_000_000, 1, million)


def _what_if(spark: SparkSession, few: int, rounds: int) -> Result:
    """The partitions of distinct keys under five rules and four counts, from cached rows.

    Both sides compute the same sums. The slow row UDF gets `few` of the rows. Results are per key, and on these rows
    both must be equal. The note has our fixed cost: the time of the query over eight keys.
    """
    from pyspark.sql import functions as sf

    from kafka_assignors.pipeline.load.what_if import KEYED, KEYLESS, placed
    from kafka_assignors.producers import partition_for_key

    sums = ("records", "bytes", "keys", "moved_keys", "moved_records")
    tries = [(rule, n) for rule in KEYED for n in _COUNTS]

    def rows(count: int) -> DataFrame:
        key = sf.encode(sf.format_string("customer-%07d", "id"), "utf-8")
        at = sf.pmod(sf.xxhash64(key), sf.lit(12)).cast("int")
        frame = spark.range(count).select(
            sf.lit("t").alias("topic"), at.alias("partition"), key.alias("key"),
            sf.lit(1).cast("long").alias("records"), sf.lit(100).cast("long").alias("bytes"),
            at.alias("low"), at.alias("high"),
        ).repartition(2).cache()  # fmt: skip
        frame.count()
        return frame

    def by_rows(keys: DataFrame) -> _Answer:
        place = sf.udf(lambda key: [partition_for_key(bytes(key), n, rule) for rule, n in tries], "array<int>")
        placements = keys.select("*", sf.posexplode(place("key")).alias("try", "at"))
        first, elsewhere = sf.col("partition") == sf.col("low"), sf.col("partition") != sf.col("at")
        counted = placements.groupBy("try", "at").agg(
            sf.sum("records").alias("records"),
            sf.sum("bytes").alias("bytes"),
            sf.count_if(first).alias("keys"),
            sf.count_if(first & ((sf.col("low") != sf.col("at")) | (sf.col("high") != sf.col("at")))).alias(
                "moved_keys"
            ),
            sf.sum(sf.when(elsewhere, sf.col("records")).otherwise(0)).alias("moved_records"),
        )
        return {(*tries[r["try"]], r["at"]): tuple(r[name] for name in sums) for r in counted.collect()}

    def by_columns(keys: DataFrame) -> _Answer:
        placements = placed(keys, {"t": _COUNTS}).where(sf.col("rule") != KEYLESS).collect()
        return {(r["rule"], r["partitions"], r["placed"]): tuple(r[name] for name in sums) for r in placements}

    all_keys, few_keys, eight = rows(_DIFFERENT), rows(few), rows(8)
    timed = {"ours": (by_columns, all_keys, _DIFFERENT), "peer": (by_rows, few_keys, few)}
    # In this order: the first run starts the workers.
    expected = {"peer": by_columns(few_keys), "ours": by_columns(all_keys)}
    began = time.perf_counter()
    by_columns(eight)
    fixed_s = time.perf_counter() - began
    us: dict[str, list[float]] = {who: [] for who in timed}
    cpu_us: dict[str, list[float]] = {who: [] for who in timed}
    for _ in range(rounds):
        for who, (call, keys, count) in timed.items():
            with Cost() as cost:
                began = time.perf_counter()
                answer = call(keys)
                us[who].append((time.perf_counter() - began) / count * 1e6)
            cpu_us[who].append(cost.cpu_seconds / count * 1e6)
            if answer != expected[who]:
                raise WrongAnswer("the columns and the row UDF place keys differently")
    for keys in (all_keys, few_keys, eight):
        keys.unpersist()
    ours, peer = (statistics.median(us[who]) for who in timed)
    worked = [statistics.median(cpu_us[who]) for who in timed]
    note = (
        f"{len(KEYED)} rules x {len(_COUNTS)} partition counts; {_DIFFERENT:,} distinct keys, the UDF {few:,}; a query "
        f"of 8 keys {fixed_s:.2f} s; CPU {worked[0]:.2f} and {worked[1]:.1f} us/key, ratio {worked[1] / worked[0]:.1f}"
    )
    return Result(
        "what-if", ours, "us/key", "a Python row UDF", peer, note, raw={"us": us, "cpu_us": cpu_us, "fixed_s": fixed_s}
    )


def _scale(spark: SparkSession, name: str, size: int, rounds: int, smaller: Result | None = None) -> Result:
    with Cost() as cost:
        seconds = [_tables(spark, size) for _ in range(rounds)]
    middle = sorted(seconds)[len(seconds) // 2]
    cpu = cost.cpu_seconds / rounds
    note = f"{size / middle:,.0f} records/s; {cpu:.1f} CPU s; peak {cost.peak_bytes / 1e6:,.0f} MB in all processes"
    raw: dict[str, Any] = {"seconds": seconds, "cpu_seconds": cpu, "peak_rss_bytes": cost.peak_bytes}
    if smaller is not None:
        grew = {"wall": middle / min(smaller.raw["seconds"]), "cpu": cpu / smaller.raw["cpu_seconds"]}
        raw["growth"] = grew
        note += f"; from {smaller.name} wall x{grew['wall']:.1f}, CPU x{grew['cpu']:.1f}"
    return Result(name, middle, "s", note=note, raw=raw)


def _tables(spark: SparkSession, size: int) -> float:
    from kafka_assignors.pipeline.load.balance import placement, topic_load
    from kafka_assignors.pipeline.load.keys import counted, distinct, hot, placed, windows
    from kafka_assignors.pipeline.load.what_if import partitioners

    began = time.perf_counter()
    counts = placed(counted(records(spark, size), "1 minute"), _PARTITIONS, "java").persist()
    keys = distinct(counts)
    load = placement(windows(counts), _PARTITIONS).cache()
    found_records: Any = load.agg({"records": "sum"}).collect()[0][0]
    topic_load(load, _PARTITIONS).collect()
    hot(keys).collect()
    tried = partitioners(keys, "run", _PARTITIONS, _COUNTS).select("rule", "partitions", "records").collect()
    took = time.perf_counter() - began
    load.unpersist()
    counts.unpersist()
    if found_records != size:
        raise WrongAnswer(f"placement counts {found_records} records of {size}")
    for count in _COUNTS:
        if (
            record_count := sum(row["records"] for row in tried if row["rule"] == "java" and row["partitions"] == count)
        ) != size:
            raise WrongAnswer(f"the what-if for {count} partitions has {record_count} records of {size}")
    return took


class Cost:
    """CPU time and peak resident memory of this process, the JVM and Spark's Python workers together."""

    def __enter__(self) -> Cost:
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
                self._last[process.pid] = sum(process.cpu_times()[:2])  # of an ended process: the last value seen
            except psutil.NoSuchProcess:
                continue
        self.peak_bytes = max(self.peak_bytes, total)


def records(spark: SparkSession, size: int, distinct: int | None = None) -> DataFrame:
    """`schema.RECORDS`: three topics, ten minutes, 50,000 keys of 16 bytes, every fourth record without one; 100 B.

    With `distinct`: this many keys, and every record has a key.
    """
    from pyspark.sql import functions as sf

    from kafka_assignors.pipeline import schema

    row = sf.col("id")
    topics = list(_PARTITIONS)
    topic = sf.when(row % 7 < 4, topics[0]).when(row % 7 < 6, topics[1]).otherwise(topics[2])
    partitions = sf.when(row % 7 < 4, 12).when(row % 7 < 6, 6).otherwise(3)
    key = sf.encode(sf.format_string("customer-%07d", row % (distinct or _KEYS)), "utf-8")
    if distinct is None:
        key = sf.when(row % 4 != 3, key)
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
