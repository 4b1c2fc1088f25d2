"""One run: write the tables of an analysis, the weights file and the summary."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kafka_assignors.connection import Connection

from . import failures
from .analysis import AnalysisOptions, Tables
from .load import weights
from .progress import Progress
from .report.summary import summary
from .schema import TABLES
from .session import interpreted
from .sources.snapshot import Snapshot
from .storage import tables as storage
from .storage.files import Files

FEW_RECORDS, FEW_BYTES = 10_000, 5_000_000
"""Up to this many offsets, and bytes of history, Spark interprets queries: to compile Java for each takes longer."""

STEPS = {
    "placement": ("placement", "topic_load", "partition_keys", "hot_keys"),
    "partitioner_what_if": ("partitioner_what_if",),
    "partition_weights": ("partition_weights",),
    "group_timeline": ("group_timeline", "group_lag"),
    "rebalances": ("rebalances", "assignor_what_if"),
    "findings": ("findings", "rejected"),
}
"""step -> the tables it writes, in this order: later tables are computed from earlier ones as written."""


@dataclass(frozen=True, kw_only=True)
class RunOptions(AnalysisOptions):
    """Options of a run: those of its analysis; `out` is a folder or URI, `format` one of `storage.FORMATS`."""

    out: str
    format: str = "parquet"


class _WrittenTables(Tables):
    """Tables that are written as soon as they are computed; later tables read the written ones."""

    def __init__(
        self, spark: SparkSession, bootstrap: str | Connection, snapshot: Snapshot, options: RunOptions
    ) -> None:
        super().__init__(spark, bootstrap, snapshot, options)
        self._out, self._format = options.out, options.format

    @cached_property
    def stored(self) -> storage.StoredTables:
        return storage.StoredTables(self.spark, self._out, self.run, self._format)

    def _keep(self, name: str, frame: DataFrame) -> DataFrame:
        self.stored.write(frame, name)
        return self.stored.read(name, TABLES[name])


def write_run(
    spark: SparkSession, bootstrap: str | Connection, snapshot: Snapshot, options: RunOptions, progress: Progress
) -> dict[str, Any]:
    """Write all tables. Returns the value that ``--json`` prints, without the seconds.

    Raises:
        ConfigError: The history has no event, or several runs although `run_id` is None; the weights file is another
            kind of file; a group is not in the coordinator's log; records were deleted before they were read.
        ClusterError: The brokers no longer answer.
        MachineError: The weights file cannot be written.
    """
    with (
        failures.explained(
            bootstrap, snapshot.topics.partitions, "Run it again: it starts from the records that exist now"
        ),
        interpreted(spark, few(spark, snapshot, options)),
    ):
        return _write_run(_WrittenTables(spark, bootstrap, snapshot, options), snapshot, options, progress)


def few(spark: SparkSession, snapshot: Snapshot, options: AnalysisOptions) -> bool:
    """Whether a run reads at most `FEW_RECORDS` offsets and `FEW_BYTES` of history. Cost: lists the history's files."""
    topics = [topics for topics in (snapshot.topics, snapshot.log, snapshot.events) if topics is not None]
    offsets = sum(
        end - first for topic_snapshot in topics for ranges in topic_snapshot.ranges.values() for first, end in ranges
    )
    history = 0 if options.history is None else Files(spark).size(options.history)
    return offsets <= FEW_RECORDS and history <= FEW_BYTES


def _write_run(tables: _WrittenTables, snapshot: Snapshot, options: RunOptions, progress: Progress) -> dict[str, Any]:
    spark = tables.spark
    storage.require(spark, options.format)
    with progress("events"):
        event_count = tables.events.count()
    tables.stored.begin()
    with progress("keys"):
        record_count = sum(tables.records.values())
    for step, names in STEPS.items():
        with progress(step):
            for name in names:
                getattr(tables, name)
    with progress("summary"):
        settled, changes = tables.settled_weights
        tables.stored.commit(TABLES, snapshot.topics.cluster)
        if options.target.path is not None:  # after the tables that explain it: no run, no file
            weights.write(options.target.path, settled)
        figures = summary({name: written(spark, options.out, name, tables.run, options.format) for name in TABLES})
    figures["rows"] = {"records": record_count, "events": event_count, **figures["rows"]}
    tables.unpersist()
    return {
        "run": tables.run, "cluster": snapshot.topics.cluster, **figures, "weights": changes, "out": paths(options.out),
    }  # fmt: skip


def written(spark: SparkSession, out: str, table: str, run: str | None = None, format_: str = "parquet") -> DataFrame:
    """A written table; with `run`, only the rows of that run."""
    return storage.written(spark, out, table, TABLES[table], run, format_)


def paths(out: str) -> dict[str, str]:
    """The path of each table."""
    return {table: f"{out}/{table}" for table in TABLES}
