"""The job: topics and events -> tables, in a session of any kind."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from kafka_assignors.connection import Connection
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.strategies import STRATEGIES
from kafka_assignors.weights import Weights

from . import failures, findings, options, schema
from .groups import rebalances, timeline
from .load import keys, transform, weights, what_if
from .report import report
from .sources import coordinator, read
from .sources.brokers import Topics
from .steps import Steps
from .storage import tables
from .storage.tables import Tables, require

TABLES = {
    "placement": schema.PLACEMENT,
    "topic_load": schema.TOPIC_LOAD,
    "partition_keys": schema.PARTITION_KEYS,
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
        format: One of `tables.FORMATS`.
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
    format: str = "parquet"


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


def work(
    spark: SparkSession, bootstrap: str | Connection, sources: Sources, wanted: Wanted, steps: Steps
) -> dict[str, Any]:
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


def _work(
    spark: SparkSession, bootstrap: str | Connection, sources: Sources, wanted: Wanted, steps: Steps
) -> dict[str, Any]:
    topics = sources.topics
    require(spark, wanted.format)
    with steps("events"):
        parsed, run_id = _parsed(spark, bootstrap, sources, wanted)
        events = read.events(parsed)
        event_count = events.count()
    kept = Tables(spark, wanted.out, run_id, wanted.format)
    kept.begin()
    load = _load(spark, bootstrap, topics, wanted, run_id, kept, steps)
    with steps("group_timeline"):
        decided = rebalances.collect(events)
        triggers = spark.createDataFrame(rebalances.triggers(decided.rebalances), timeline.TRIGGERS)
        committed = _frame(spark, decided.intervals, "group_timeline")
        kept.write(timeline.group_timeline(events, triggers, committed), "group_timeline")
    owned = kept.read("group_timeline", schema.GROUP_TIMELINE)
    with steps("rebalances"):
        rows = rebalances.per_rebalance(decided.rebalances, rebalances.begun(owned))
        kept.write(_frame(spark, rows, "rebalances"), "rebalances")
        replayed = rebalances.what_if(decided.rebalances, load.measured.loads, STRATEGIES)
        kept.write(_frame(spark, replayed, "assignor_what_if"), "assignor_what_if")
    with steps("findings"):
        different = keys.different(load.counts)
        wrong = [
            *findings.hot_keys(kept.read("hot_keys", schema.HOT_KEYS), topics.partitions, wanted.hot_key_share),
            *(findings.misplaced(different, wanted.reference) if wanted.reference else ()),
            *findings.split_keys(different),
            *(findings.disordered(load.disorder) if load.disorder is not None else ()),
            *findings.ownership(owned),
            *findings.clocks(events, keys.windows(load.counts)),
        ]
        kept.write(_frame(spark, wrong, "findings"), "findings")
        gone = read.aborted(spark, bootstrap, topics, load.found)
        hidden = _frame(spark, [*read.unread(topics, load.found, gone, run_id), *decided.left_out], "rejected")
        # A union forgets what is never null.
        kept.write(schema.conform(read.rejected(parsed, run_id).unionByName(hidden), schema.REJECTED), "rejected")
    with steps("summary"):
        weighed, changes = load.weights
        kept.commit(TABLES, topics.cluster)
        if wanted.target.path:  # not before the tables that tell of them are there
            weights.write(wanted.target.path, weighed)
        said = report.summary({name: written(spark, wanted.out, name, run_id, wanted.format) for name in TABLES})
    said["rows"] = {"records": sum(load.found.values()), "events": event_count, **said["rows"]}
    for frame in (parsed, load.counts, load.disorder):
        if frame is not None:
            frame.unpersist()
    return {"run": run_id, "cluster": topics.cluster, **said, "weights": changes, "out": paths(wanted.out)}


@dataclass(frozen=True)
class _Load:
    """What the records say.

    Args:
        counts: `schema.COUNTS`, kept.
        found: Records per topic-partition.
        disorder: What `keys.disorder` returns, kept; None: no record says where it belongs.
        measured: The load of each topic-partition.
        weights: What `weights.update` returns.
    """

    counts: DataFrame
    found: dict[TopicPartition, int]
    disorder: DataFrame | None
    measured: weights.Measured
    weights: tuple[Weights, dict[str, Any]]


def _load(
    spark: SparkSession,
    bootstrap: str | Connection,
    topics: Topics,
    wanted: Wanted,
    run_id: str,
    kept: Tables,
    steps: Steps,
) -> _Load:
    """Write the tables about records."""
    with steps("keys"):
        records = read.records(spark, bootstrap, topics, run_id, wanted.tasks)
        counts = keys.placed(keys.counted(records, wanted.window), topics.partitions, wanted.reference).persist()
        rows = (
            keys.windows(counts)
            .groupBy("topic", "partition")
            .agg(sf.sum("records").alias("records"), sf.sum("numbered_records").alias("numbered"))
            .collect()
        )
        found = {TopicPartition(row["topic"], row["partition"]): row["records"] for row in rows}
    with steps("placement"):
        disorder = None
        # Order needs each record, and so a second read: of the topics alone whose records say where they belong.
        if numbered := {row["topic"] for row in rows if row["numbered"]}:
            some = replace(topics, chosen={tp: r for tp, r in topics.ranges.items() if tp.topic in numbered})
            again = read.records(spark, bootstrap, some, run_id, wanted.tasks)
            disorder = keys.disorder(again, wanted.window).persist()
        kept.write(transform.placement(keys.windows(counts), topics.partitions, disorder), "placement")
        placement = kept.read("placement", schema.PLACEMENT)
        kept.write(transform.topic_load(placement, topics.partitions), "topic_load")
        kept.write(keys.per_partition(keys.different(counts)), "partition_keys")
        kept.write(keys.hot(keys.different(counts)), "hot_keys")
    with steps("partitioner_what_if"):
        tries = list(wanted.counts)
        tried = _frame(spark, [], "partitioner_what_if")
        if tries:
            tried = what_if.partitioners(keys.different(counts), run_id, topics.partitions, tries)
        kept.write(tried, "partitioner_what_if")
    with steps("partition_weights"):
        measured = weights.measure(placement, topics.partitions, wanted.target.unit, topics.sample)
        settled = weights.update(measured, wanted.target)
        kept.write(weights.table(spark, run_id, measured, settled[0]), "partition_weights")
    return _Load(counts, found, disorder, measured, settled)


def _parsed(
    spark: SparkSession, bootstrap: str | Connection, sources: Sources, wanted: Wanted
) -> tuple[DataFrame, str]:
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


def written(spark: SparkSession, out: str, table: str, run: str | None = None, format_: str = "parquet") -> DataFrame:
    """A table as it was written; `run`: of one run."""
    return tables.written(spark, out, table, TABLES[table], run, format_)


def paths(out: str) -> dict[str, str]:
    """Where each table is."""
    return {table: f"{out}/{table}" for table in TABLES}


def _frame(spark: SparkSession, rows: Iterable[tuple[Any, ...]], table: str) -> DataFrame:
    return spark.createDataFrame(list(rows), TABLES[table])
