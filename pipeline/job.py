"""The job: topics and events -> tables, in a session of any kind."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.strategies import STRATEGIES

from . import (
    coordinator,
    failures,
    findings,
    keys,
    options,
    read,
    rebalances,
    report,
    schema,
    timeline,
    transform,
    weights,
    what_if,
)
from .brokers import Topics
from .steps import Steps

TABLES = {
    "placement": schema.PLACEMENT,
    "topic_load": schema.TOPIC_LOAD,
    "hot_keys": schema.HOT_KEYS,
    "partitioner_what_if": schema.PARTITIONER_WHAT_IF,
    "partition_weights": schema.PARTITION_WEIGHTS,
    "group_timeline": schema.GROUP_TIMELINE,
    "rebalances": schema.REBALANCES,
    "assignor_what_if": schema.ASSIGNOR_WHAT_IF,
    "findings": schema.FINDINGS,
    "rejected": schema.REJECTED,
}


@dataclass(frozen=True)
class Wanted:
    """What a run is to do.

    Args:
        out: Folder or URI of the tables.
        target: What shall become of the weights.
        history: Folder or URI of ``*.jsonl`` files; None: no history.
        groups: Groups to read from the coordinator's log.
        window: Length of the windows of placement, as Spark writes it.
        run_id: On every row; None: the history's if that has one run, else the time.
        reference: The preset that keys should follow; None: do not judge.
        hot_key_share: A key with more of its topic's records is a finding; 0..1.
        counts: Partition counts to try every rule with; none: no what-if of partitioners.
        tasks: Least number of tasks that read the records; None: one a topic-partition.
    """

    out: str
    target: weights.Target
    history: str | None = None
    groups: Collection[str] = ()
    window: str = "1 minute"
    run_id: str | None = None
    reference: str | None = "java"
    hot_key_share: float = 0.2
    counts: Iterable[int] = ()
    tasks: int | None = None


@dataclass(frozen=True)
class Sources:
    """What is to be read, as `brokers` found it.

    Args:
        topics: The topics with the records.
        log: The coordinator's log, where groups are wanted.
        events: The topic that a run's events were published to, a line a record; None: there is none.
    """

    topics: Topics
    log: Topics | None = None
    events: Topics | None = None


def work(spark: SparkSession, bootstrap: str, sources: Sources, wanted: Wanted, steps: Steps) -> dict[str, Any]:
    """Write all tables. Returns what ``--json`` prints, but for the seconds.

    Args:
        spark: A session with Spark's Kafka connector.
        bootstrap: ``host:port[,host:port]``.
        sources: What to read.
        wanted: What to do.
        steps: Told what is done.

    Raises:
        ConfigError: The history has no event, or several runs where `run_id` is None; a weights file is none; a group
            is not in the coordinator's log; records went, or brokers, while they were read.
        MachineError: The weights file cannot be written.
    """
    with failures.explained(bootstrap, sources.topics.partitions, "Run it again: it begins with what is there now"):
        return _work(spark, bootstrap, sources, wanted, steps)


def _work(spark: SparkSession, bootstrap: str, sources: Sources, wanted: Wanted, steps: Steps) -> dict[str, Any]:
    out, topics = wanted.out, sources.topics
    with steps("events"):
        parsed, run_id = _parsed(spark, bootstrap, sources, wanted)
        events = read.events(parsed)
        event_count = events.count()
    with steps("keys"):
        records = read.records(spark, bootstrap, topics, run_id, wanted.tasks)
        by_key = keys.by_key(records, wanted.window, topics.partitions, wanted.reference).persist()
        found = {
            TopicPartition(row["topic"], row["partition"]): row["records"]
            for row in by_key.groupBy("topic", "partition").agg(sf.sum("records").alias("records")).collect()
        }
    with steps("placement"):
        disorder = keys.disorder(records, wanted.window).persist()
        placement = transform.placement(by_key, topics.partitions, disorder).persist()
        write(placement, f"{out}/placement")
        write(transform.topic_load(placement, topics.partitions), f"{out}/topic_load")
        write(keys.hot(by_key), f"{out}/hot_keys")
    with steps("partitioner_what_if"):
        counts = list(wanted.counts)
        tried = what_if.partitioners(by_key, run_id, topics.partitions, counts) if counts else None
        write(_frame(spark, [], "partitioner_what_if") if tried is None else tried, f"{out}/partitioner_what_if")
    with steps("partition_weights"):
        measured = weights.measure(placement, topics.partitions, wanted.target.unit, topics.sample)
        settled, changes = weights.update(measured, wanted.target)
        write(weights.table(spark, run_id, measured, settled), f"{out}/partition_weights")
    with steps("group_timeline"):
        decided = rebalances.collect(events)
        triggers = spark.createDataFrame(rebalances.triggers(decided.rebalances), timeline.TRIGGERS)
        committed = _frame(spark, decided.intervals, "group_timeline")
        write(timeline.group_timeline(events, triggers, committed), f"{out}/group_timeline")
    owned = written(spark, out, "group_timeline")
    with steps("rebalances"):
        rows = rebalances.per_rebalance(decided.rebalances, rebalances.begun(owned))
        write(_frame(spark, rows, "rebalances"), f"{out}/rebalances")
        replayed = rebalances.what_if(decided.rebalances, measured.loads, STRATEGIES)
        write(_frame(spark, replayed, "assignor_what_if"), f"{out}/assignor_what_if")
    with steps("findings"):
        wrong = [
            *findings.hot_keys(written(spark, out, "hot_keys"), topics.partitions, wanted.hot_key_share),
            *(findings.misplaced(by_key, wanted.reference) if wanted.reference else ()),
            *findings.split_keys(by_key),
            *findings.disordered(disorder),
            *findings.ownership(owned),
            *findings.clocks(events, by_key),
        ]
        write(_frame(spark, wrong, "findings"), f"{out}/findings")
        gone = read.aborted(spark, bootstrap, topics, found)
        hidden = _frame(spark, read.unread(topics, found, gone, run_id), "rejected")
        # A union forgets what is never null.
        write(schema.conform(read.rejected(parsed, run_id).unionByName(hidden), schema.REJECTED), f"{out}/rejected")
    with steps("summary"):  # of what was written, read again
        said = report.summary({table: written(spark, out, table) for table in TABLES})
    said["rows"] = {"records": sum(found.values()), "events": event_count, **said["rows"]}
    for frame in (parsed, by_key, disorder, placement):
        frame.unpersist()
    return {"run": run_id, "cluster": topics.cluster, **said, "weights": changes, "out": paths(out)}


def _parsed(spark: SparkSession, bootstrap: str, sources: Sources, wanted: Wanted) -> tuple[DataFrame, str]:
    """The parsed lines of all sources, kept, and the run's id."""
    run_id, log = wanted.run_id, sources.log
    lines = spark.createDataFrame([], coordinator.LINES)
    if wanted.history is not None:
        lines = lines.unionByName(read.lines(spark, wanted.history))
    if sources.events is not None:
        lines = lines.unionByName(read.published(spark, bootstrap, sources.events))
    told = read.parse(lines).persist()
    if run_id is None and (kept := wanted.history or sources.events):
        counts = read.events(told).groupBy("run").count().collect()
        where = f"--history {kept!r}" if isinstance(kept, str) else f"--events-topic {next(iter(kept.partitions))!r}"
        run_id = options.only_run({row["run"]: row["count"] for row in counts}, where)
    run_id = run_id or f"{datetime.now(timezone.utc):%Y-%m-%dT%H-%M-%S}"
    if log is None:
        return told, run_id
    with read.internal_topics(spark):
        rows = read.source(spark, bootstrap, log)
        logged = read.parse(coordinator.lines(rows, wanted.groups, sources.topics.everywhere, run_id))
        parsed = told.unionByName(logged).persist()
        said = {row["group"] for row in read.events(parsed).select("group").distinct().collect()}
    told.unpersist()
    options.check_groups(wanted.groups, said)
    return parsed, run_id


def write(frame: DataFrame, path: str) -> None:
    """Replace one table by a frame that has its schema."""
    folders = [name for name in schema.PARTITION_COLUMNS if name in frame.columns]
    frame.write.mode("overwrite").partitionBy(*folders).parquet(path)


def written(spark: SparkSession, out: str, table: str) -> DataFrame:
    """A table as it was written."""
    return spark.read.schema(TABLES[table]).parquet(f"{out}/{table}")


def paths(out: str) -> dict[str, str]:
    """Where each table is."""
    return {table: f"{out}/{table}" for table in TABLES}


def _frame(spark: SparkSession, rows: Iterable[tuple[Any, ...]], table: str) -> DataFrame:
    return spark.createDataFrame(list(rows), TABLES[table])
