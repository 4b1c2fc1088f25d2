"""Compute the tables from topics, histories and the coordinator's log. This file defines each table's inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from kafka_assignors.clients.weights import Weights
from kafka_assignors.connection import Connection
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.strategies import STRATEGIES

from . import findings, options, schema
from .groups import lag, rebalances, timeline
from .groups.rebalances import Decided
from .load import balance, keys, weights, what_if
from .sources import coordinator, read
from .sources.snapshot import Snapshot, Source


@dataclass(frozen=True)
class AnalysisOptions:
    """Options of the tables: those of `analyze` and of its `Source`, checked.

    `run_id` is its `run`, `counts` its `partition_counts` (none: no what-if of partitioners), and `tasks` its
    `min_partitions`.
    """

    history: str | None = None
    groups: Collection[str] = ()
    window: str = "1 minute"
    run_id: str | None = None
    reference: str | None = "java"
    hot_key_share: float = 0.2
    counts: Iterable[int] = ()
    tasks: int | None = None
    target: weights.Target = field(default_factory=weights.Target)


def analyze(
    spark: SparkSession,
    source: Source,
    *,
    window: str = "1 minute",
    run: str | None = None,
    reference: str | None = "java",
    hot_key_share: float = 0.2,
    partition_counts: Iterable[int] = (),
    weights_unit: str = "records_per_s",
    min_partitions: int | None = None,
) -> Tables:  # keyword options of a public function
    """Compute the tables about topics and groups, for notebooks.

    Args:
        spark: A session with Spark's Kafka connector, e.g. from `session.session`.
        source: What to read. The brokers are asked now, so that every table uses the same offsets.
        window: Length of the windows of ``placement``, e.g. ``"10 seconds"``.
        run: Id on every row; None: the history's id if it has one run, else the time.
        reference: The preset of `producers` that keys should follow; None: no comparison.
        hot_key_share: A key with a larger share of its topic's records or bytes is a finding; more than 0, at most 1.
        partition_counts: Partition counts to try every rule with, for ``partitioner_what_if``.
        weights_unit: ``"records_per_s"`` or ``"bytes_per_s"``, for ``partition_weights``.
        min_partitions: Minimum number of tasks that read the records; None: one per topic-partition.

    Returns:
        One DataFrame per table, computed when it is used. Nothing is written.

    Raises:
        ConfigError: An option is invalid; it is named as on the command line.
        ClusterError: No broker answers, or a topic is absent or empty.

    Cost: a few requests to the brokers; no Spark job.
    """
    options.length(window)
    wanted = AnalysisOptions(
        history=None if source.history is None else options.history_folder(source.history),
        groups=source.groups,
        window=window,
        run_id=run,
        reference=options.reference("none" if reference is None else reference),
        hot_key_share=options.share(hot_key_share),
        counts=tuple(partition_counts),
        tasks=options.at_least("--min-partitions", 1, min_partitions),
        target=options.weights_target(None, weights_unit, 60),
    )
    return Tables(spark, source.bootstrap, source.snapshot(), wanted)


class Tables:
    """The tables of one run: one attribute per name in `schema.TABLES`, a DataFrame of that schema.

    Tables about records are lazy. Tables about groups and findings are computed on the driver: the first use of such an
    attribute runs Spark jobs. Intermediate results stay in Spark's storage (memory, then disk) until `unpersist`.

    Raises:
        ConfigError: At first use: the history has no event, or several runs without a `run_id`; a group is not in the
            coordinator's log.

    Cost: records are read once, and those of the harness a second time for their order.
    """

    def __init__(
        self, spark: SparkSession, bootstrap: str | Connection, snapshot: Snapshot, options: AnalysisOptions
    ) -> None:
        self.spark, self._bootstrap, self._options = spark, bootstrap, options
        self._snapshot, self._topics = snapshot, snapshot.topics
        self._persisted: list[DataFrame] = []

    def unpersist(self) -> None:
        """Free intermediate results. The tables remain usable, but are then recomputed from the sources."""
        for frame in self._persisted:
            frame.unpersist()

    def _keep(self, name: str, frame: DataFrame) -> DataFrame:
        """Hook: the frame to use as a table; a subclass may write it and return what it wrote."""
        del name
        return frame

    def _rows(self, name: str, rows: Iterable[tuple[Any, ...]]) -> DataFrame:
        return self.spark.createDataFrame(list(rows), schema.TABLES[name])

    def _shared(self, frame: DataFrame) -> DataFrame:
        self._persisted.append(frame.persist())
        return frame

    # --- inputs ------------------------------------------------------------------------------------------------------

    @cached_property
    def run(self) -> str:
        """The id on every row."""
        return self._read_events[1]

    @cached_property
    def events(self) -> DataFrame:
        """`schema.EVENTS`: the events of the history, the events topic and the coordinator's log."""
        return read.events(self._read_events[0])

    @cached_property
    def _read_events(self) -> tuple[DataFrame, str]:
        """The parsed lines of all sources, and the run's id."""
        wanted, snapshot = self._options, self._snapshot
        run_id, log = wanted.run_id, snapshot.log
        lines = self.spark.createDataFrame([], coordinator.LINES)
        if wanted.history is not None:
            lines = lines.unionByName(read.lines(self.spark, wanted.history))
        if snapshot.events is not None:
            lines = lines.unionByName(read.published(self.spark, self._bootstrap, snapshot.events))
        parsed = self._shared(read.parse(lines))
        if run_id is None and (kept := wanted.history or snapshot.events):
            counts = read.events(parsed).groupBy("run").count().collect()
            named = (
                f"--history {kept!r}" if isinstance(kept, str) else f"--events-topic {next(iter(kept.partitions))!r}"
            )
            run_id = options.only_run({row["run"]: row["count"] for row in counts}, named)
        run_id = run_id or f"{datetime.now(timezone.utc):%Y-%m-%dT%H-%M-%S}"
        if log is None:
            return parsed, run_id
        with read.internal_topics(self.spark):
            rows = read.source(self.spark, self._bootstrap, log)
            logged = read.parse(coordinator.lines(rows, wanted.groups, self._topics.everywhere, run_id))
            both = self._shared(parsed.unionByName(logged))
            groups = {row["group"] for row in read.events(both).select("group").distinct().collect()}
        self._persisted = [frame for frame in self._persisted if frame is not parsed]
        parsed.unpersist()
        options.check_groups(wanted.groups, groups)
        return both, run_id

    @cached_property
    def _counts(self) -> DataFrame:
        """`schema.COUNTS`: the records per window, and per distinct key."""
        records = read.records(self.spark, self._bootstrap, self._topics, self.run, self._options.tasks)
        counted = keys.counted(records, self._options.window)
        return self._shared(keys.placed(counted, self._topics.partitions, self._options.reference))

    @cached_property
    def _totals(self) -> list[Row]:
        """Per topic-partition its number of records, and of those with a sequence number of their sender."""
        rows: list[Row] = (
            keys.windows(self._counts)
            .groupBy("topic", "partition")
            .agg(sf.sum("records").alias("records"), sf.sum("numbered_records").alias("numbered"))
            .collect()
        )
        return rows

    @cached_property
    def records(self) -> dict[TopicPartition, int]:
        """Number of records read per topic-partition that has any. Triggers the first read of the records."""
        return {TopicPartition(row["topic"], row["partition"]): row["records"] for row in self._totals}

    @cached_property
    def _disorder(self) -> DataFrame | None:
        """The result of `keys.disorder`; None if no record has a sequence number."""
        numbered = {row["topic"] for row in self._totals if row["numbered"]}
        if not numbered:
            return None
        # Order needs each record, so a second read, but only of topics whose records have sequence numbers.
        some = replace(self._topics, chosen={tp: r for tp, r in self._topics.ranges.items() if tp.topic in numbered})
        again = read.records(self.spark, self._bootstrap, some, self.run, self._options.tasks)
        return self._shared(keys.disorder(again, self._options.window))

    # --- load --------------------------------------------------------------------------------------------------------

    @cached_property
    def placement(self) -> DataFrame:
        """`schema.PLACEMENT`: the load of each topic-partition per window."""
        windows = keys.windows(self._counts)
        return self._keep("placement", balance.placement(windows, self._topics.partitions, self._disorder))

    @cached_property
    def topic_load(self) -> DataFrame:
        """`schema.TOPIC_LOAD`: how evenly each topic's bytes are spread over its partitions."""
        return self._keep("topic_load", balance.topic_load(self.placement, self._topics.partitions))

    @cached_property
    def partition_keys(self) -> DataFrame:
        """`schema.PARTITION_KEYS`: figures about the keys of each topic-partition."""
        return self._keep("partition_keys", keys.per_partition(keys.distinct(self._counts)))

    @cached_property
    def hot_keys(self) -> DataFrame:
        """`schema.HOT_KEYS`: the keys with the most records, exact."""
        return self._keep("hot_keys", keys.hot(keys.distinct(self._counts)))

    @cached_property
    def partitioner_what_if(self) -> DataFrame:
        """`schema.PARTITIONER_WHAT_IF`: the load under every rule and partition count; empty without counts."""
        counts, name = list(self._options.counts), "partitioner_what_if"
        if not counts:
            return self._keep(name, self._rows(name, []))
        distinct = keys.distinct(self._counts)
        return self._keep(name, what_if.partitioners(distinct, self.run, self._topics.partitions, counts))

    @cached_property
    def measured(self) -> weights.Measured:
        """The load of each topic-partition as a rate."""
        unit = self._options.target.unit
        return weights.measure(self.placement, self._topics.partitions, unit, self._topics.sample)

    @cached_property
    def settled_weights(self) -> tuple[Weights, dict[str, Any]]:
        """The weights for the next assignment, and the report of `weights.update`."""
        return weights.update(self.measured, self._options.target)

    @cached_property
    def partition_weights(self) -> DataFrame:
        """`schema.PARTITION_WEIGHTS`: the weight of each topic-partition for the next assignment."""
        table = weights.table(self.spark, self.run, self.measured, self.settled_weights[0])
        return self._keep("partition_weights", table)

    # --- groups ------------------------------------------------------------------------------------------------------

    @cached_property
    def _decided(self) -> Decided:
        return rebalances.collect(self.events)

    @cached_property
    def group_timeline(self) -> DataFrame:
        """`schema.GROUP_TIMELINE`: the owner of each topic-partition over time."""
        triggers = self.spark.createDataFrame(rebalances.triggers(self._decided.rebalances), timeline.TRIGGERS)
        committed = self._rows("group_timeline", self._decided.intervals)
        return self._keep("group_timeline", timeline.group_timeline(self.events, triggers, committed))

    @cached_property
    def group_lag(self) -> DataFrame:
        """`schema.GROUP_LAG`: how far each group is behind the ends of its topics."""
        topics = self._topics
        ends = {tp: end + topics.open.get(tp, 0) for tp, end in topics.end.items()}
        return self._keep("group_lag", lag.group_lag(self.events, self.group_timeline, ends))

    @cached_property
    def rebalances(self) -> DataFrame:
        """`schema.REBALANCES`: each rebalance, its trigger and its moves."""
        begun = rebalances.begun(self.group_timeline)
        return self._keep(
            "rebalances", self._rows("rebalances", rebalances.per_rebalance(self._decided.rebalances, begun))
        )

    @cached_property
    def assignor_what_if(self) -> DataFrame:
        """`schema.ASSIGNOR_WHAT_IF`: the result of every assignor at each rebalance."""
        replayed = rebalances.what_if(self._decided.rebalances, self.measured.loads, STRATEGIES)
        return self._keep("assignor_what_if", self._rows("assignor_what_if", replayed))

    # --- findings ----------------------------------------------------------------------------------------------------

    @cached_property
    def findings(self) -> DataFrame:
        """`schema.FINDINGS`: one sentence per fault."""
        wanted, distinct = self._options, keys.distinct(self._counts)
        rows = [
            *findings.hot_keys(self.hot_keys, self._topics.partitions, wanted.hot_key_share),
            *(findings.misplaced(distinct, wanted.reference, self._topics.partitions) if wanted.reference else ()),
            *findings.split_keys(distinct),
            *(findings.disordered(self._disorder) if self._disorder is not None else ()),
            *findings.ownership(self.group_timeline),
            *findings.clocks(self.events, keys.windows(self._counts)),
        ]
        return self._keep("findings", self._rows("findings", rows))

    @cached_property
    def rejected(self) -> DataFrame:
        """`schema.REJECTED`: lines and offsets that were not used, counted by reason."""
        aborted = read.aborted(self.spark, self._bootstrap, self._topics, self.records)
        unread = read.unread(self._topics, self.records, aborted, self.run)
        hidden = self._rows("rejected", [*unread, *self._decided.left_out])
        both = read.rejected(self._read_events[0], self.run).unionByName(hidden)
        # A union loses NOT NULL.
        return self._keep("rejected", schema.conform(both, schema.REJECTED))
