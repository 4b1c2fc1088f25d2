"""The Spark job's tables over records whose keys are all distinct: memory, disk and time as the keys grow."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from .pipeline import Cost, records
from .result import Result, WrongAnswer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZES = (1_000_000, 3_000_000, 10_000_000, 30_000_000)
_PARTITIONS = {"orders": 12, "payments": 6, "audit": 3}
_COUNTS = (12, 24)


def run(quick: bool, sizes: tuple[int, ...] = SIZES) -> Iterator[Result]:
    """``distinct-N``: every table about records, and the findings, of N records with N distinct keys of 16 bytes.

    Each size runs in its own session, which separates the peaks. The quick form is the first size.
    """
    before: Result | None = None
    for size in sizes[:1] if quick else sizes:
        result = measured(f"distinct-{size // 1_000_000}m", size, before, _tables)
        yield result
        before = result


WARM = 10_000
"""Keys of the run before the measured one."""


def measured(
    name: str, size: int, before: Result | None, tables: Callable[[SparkSession, int], dict[str, int]]
) -> Result:
    """The cost of `tables` over so many keys, in a session of its own; `before` is the result of the smaller size."""
    from kafka_assignors.pipeline.session import session

    with session(long=True) as spark:
        tables(spark, WARM)
        local = Path(spark.conf.get("spark.local.dir") or "")
        with Cost() as cost, _Disk(local) as disk:
            began = time.perf_counter()
            more = tables(spark, size)
            seconds = time.perf_counter() - began
        heap = spark.conf.get("spark.driver.memory")
    raw: dict[str, Any] = {"keys": size, "seconds": seconds, "cpu_seconds": cost.cpu_seconds,
                           "peak_rss_bytes": cost.peak_bytes, "peak_disk_bytes": disk.peak_bytes, "heap": heap,
                           **more}  # fmt: skip
    note = (
        f"{size:,} distinct keys; {size / seconds:,.0f} keys/s; {cost.cpu_seconds:.0f} CPU s; peak "
        f"{cost.peak_bytes / 1e6:,.0f} MB in all processes, {disk.peak_bytes / 1e6:,.0f} MB of temporary files, "
        f"heap {heap}"
    )
    if before is not None:
        measures = ("keys", "seconds", "cpu_seconds", "peak_rss_bytes", "peak_disk_bytes")
        raw["growth"] = {name: raw[name] / before.raw[name] for name in measures}
        grew = raw["growth"]
        note += f"; keys x{grew['keys']:.1f}: wall x{grew['seconds']:.1f}, disk x{grew['peak_disk_bytes']:.1f}"
    return Result(name, seconds, "s", note=note, raw=raw)


def _tables(spark: SparkSession, size: int) -> dict[str, int]:
    """Compute all tables from keys and check them. Returns the size of the kept data."""
    from kafka_assignors.pipeline import findings
    from kafka_assignors.pipeline.load import keys
    from kafka_assignors.pipeline.load.balance import placement, topic_load
    from kafka_assignors.pipeline.load.what_if import partitioners

    with TemporaryDirectory(prefix="distinct-") as out:
        counted = keys.counted(records(spark, size, size), "1 minute")
        counts = keys.placed(counted, _PARTITIONS, "java").persist()
        placement(keys.windows(counts), _PARTITIONS).write.parquet(f"{out}/placement")
        load = spark.read.parquet(f"{out}/placement")
        topic_load(load, _PARTITIONS).write.parquet(f"{out}/topic_load")
        distinct = keys.distinct(counts)
        keys.per_partition(distinct).write.parquet(f"{out}/partition_keys")
        keys.hot(distinct).write.parquet(f"{out}/hot_keys")
        partitioners(distinct, "run", _PARTITIONS, _COUNTS).write.parquet(f"{out}/partitioner_what_if")
        list(findings.misplaced(distinct, "java", _PARTITIONS))
        list(findings.split_keys(distinct))
        info = spark.sparkContext._jsc.sc().getRDDStorageInfo()
        kept = {"cached_memory_bytes": sum(rdd.memSize() for rdd in info),
                "cached_disk_bytes": sum(rdd.diskSize() for rdd in info)}  # fmt: skip
        key_count: Any = spark.read.parquet(f"{out}/partition_keys").agg({"keys": "sum"}).collect()[0][0]
        placed: Any = load.agg({"records": "sum"}).collect()[0][0]
        counts.unpersist(blocking=True)
    if (placed, key_count) != (size, size):
        raise WrongAnswer(f"{placed} records and {key_count} keys of {size}")
    return kept


class _Disk:
    """Peak total size of the files in a folder, bytes."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.peak_bytes = folder, 0

    def __enter__(self) -> _Disk:
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(1):
            total = 0
            for root, _, names in os.walk(self._folder):
                for name in names:
                    try:
                        total += (Path(root) / name).stat().st_size
                    except OSError:  # Spark has removed it
                        continue
            self.peak_bytes = max(self.peak_bytes, total)
