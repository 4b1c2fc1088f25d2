"""The tables of the pipeline as Spark types: the only place that defines their names, types, units and nullability.

Changes are additive. Written data is compared strictly with these types: by `DataFrame.to` on writing, and by the tests
in the Parquet files. A column is nullable only if null has a meaning, given beside it. `run` and, if a table has it,
`dt` (UTC day) name the folders of the Parquet files: placement/run=…/dt=…/.
"""

from __future__ import annotations

from datetime import date, datetime, timezone

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

STRING, INT, LONG, DOUBLE = StringType(), IntegerType(), LongType(), DoubleType()
TIMESTAMP, BOOLEAN, DATE, BINARY = TimestampType(), BooleanType(), DateType(), BinaryType()

PARTITION_COLUMNS = ("run", "dt")
"""The columns in the folders' names of every Parquet table, outermost first."""


def _table(*fields: tuple[str, DataType, bool]) -> StructType:
    return StructType([StructField(*field) for field in fields])


NEVER, OR_NULL = False, True

RECORDS = _table(
    ("run", STRING, NEVER),
    ("cluster", STRING, NEVER),  # cluster id
    ("topic", STRING, NEVER),
    ("partition", INT, NEVER),
    ("offset", LONG, NEVER),
    ("ts", TIMESTAMP, NEVER),  # of the record, at most `LAST`; ts_type says what set it
    ("ts_type", INT, NEVER),  # 0: the producer when it created the record, 1: the broker when it appended it
    ("key_hash", LONG, OR_NULL),  # Spark's xxhash64 of the key bytes (seed 42); null: no key
    ("key_bytes", INT, OR_NULL),  # bytes; null: no key
    ("value_bytes", INT, OR_NULL),  # bytes; null: a tombstone
    ("header_bytes", INT, NEVER),  # bytes of header names and values
    ("value_id", STRING, OR_NULL),  # the payload's id in a run of the harness; null: another record
    ("producer", STRING, OR_NULL),  # header producer, else header partitioner: what placed it; null: no such header
    ("key", BINARY, OR_NULL),  # key bytes; null: no key
)
"""One row per Kafka record, without its value. Never written: the only keys in tables are those of `hot_keys` and
`findings`. The hash has 64 bits because 32 bits collide from about 10,000 keys on, and a collision looks like a key
that moved."""

_SUMS = (
    ("records", LONG, NEVER),
    ("bytes", LONG, NEVER),  # B of keys, values and headers
    ("tombstones", LONG, NEVER),  # records without a value
    ("null_key_records", LONG, NEVER),
    ("numbered_records", LONG, NEVER),  # records with a key and an id of sender and sequence number
    ("first_ts", TIMESTAMP, NEVER),
    ("last_ts", TIMESTAMP, NEVER),
    ("first_offset", LONG, NEVER),
    ("last_offset", LONG, NEVER),
)

COUNTS = _table(
    ("run", STRING, NEVER),
    ("topic", STRING, NEVER),
    ("partition", INT, NEVER),
    ("of_key", BOOLEAN, NEVER),  # whether the row sums a key over all windows; else a window over all keys
    ("window_start", TIMESTAMP, OR_NULL),  # inclusive; null: row of a key
    ("window_end", TIMESTAMP, OR_NULL),  # exclusive; null: row of a key
    ("key_hash", LONG, OR_NULL),  # as in records
    ("key", BINARY, OR_NULL),
    *_SUMS,
    ("low", INT, OR_NULL),  # the key's first partition; null: row of a window, or no key
    ("high", INT, OR_NULL),  # the key's last partition, likewise
    ("home", INT, OR_NULL),  # the key's partition by the reference rule; null: as before, or no reference
)
"""Each record is counted twice: in the row of its topic-partition and window, and in that of its topic-partition and
key. Tables about records are made from it; it is never written. Its size is keys + windows, never keys x windows."""

TOPIC_PARTITION = StructType([StructField("topic", STRING), StructField("partition", INT)])

EVENT_OFFSETS = StructType(
    [StructField("topic", STRING), StructField("partition", INT)]
    + [StructField(name, LONG) for name in ("first", "last", "count", "bytes")]
)

EVENTS = _table(
    ("run", STRING, NEVER),
    ("src", STRING, NEVER),  # member, harness, coordlog, producer
    ("seq", LONG, NEVER),  # position in its source's file
    ("ts", TIMESTAMP, NEVER),  # ts_ns truncated to microseconds
    ("ts_ns", LONG, NEVER),  # wall clock, ns since the epoch
    ("mono_ns", LONG, NEVER),  # monotonic clock, ns; the only order between sources
    ("group", STRING, OR_NULL),  # null: not about a group
    ("member", STRING, OR_NULL),  # its name in the run; null: not about a member
    ("incarnation", INT, NEVER),  # restarts of the member, from 0
    ("member_id", STRING, OR_NULL),  # the coordinator's; null: none yet
    ("instance_id", STRING, OR_NULL),  # null: not a static member
    ("client", STRING, OR_NULL),
    ("kind", STRING, NEVER),
    ("generation", INT, OR_NULL),
    ("protocol", STRING, OR_NULL),
    ("partitions", ArrayType(TOPIC_PARTITION), OR_NULL),
    ("owned", ArrayType(TOPIC_PARTITION), OR_NULL),
    ("offsets", ArrayType(EVENT_OFFSETS), OR_NULL),  # first and last inclusive; bytes in B
    ("fault", STRING, OR_NULL),
    ("error", STRING, OR_NULL),
    ("duration_us", LONG, OR_NULL),  # µs
    ("detail", MapType(STRING, STRING), NEVER),  # every other field of the kind, as text or as JSON text
)
"""One row per event of a history; see `kafka_assignors.history.events` for the kinds."""

PLACEMENT = _table(
    ("run", STRING, NEVER),
    ("dt", DATE, NEVER),  # UTC day of window_start
    ("topic", STRING, NEVER),
    ("partition", INT, NEVER),
    ("window_start", TIMESTAMP, NEVER),  # inclusive
    ("window_end", TIMESTAMP, NEVER),  # exclusive
    ("records", LONG, NEVER),
    ("bytes", LONG, NEVER),  # B of keys, values and headers, uncompressed, without the log's overhead
    ("record_rate", DOUBLE, NEVER),  # records per second of the window
    ("byte_rate", DOUBLE, NEVER),  # B per second of the window
    ("null_key_records", LONG, NEVER),
    ("share", DOUBLE, NEVER),  # records / the topic's records in the window, 0..1
    ("skew", DOUBLE, NEVER),  # bytes / mean bytes of the topic's partitions in the window, empty ones included
    ("first_ts", TIMESTAMP, NEVER),  # of the row's earliest record
    ("last_ts", TIMESTAMP, NEVER),  # of the row's latest record
    ("tombstones", LONG, NEVER),  # records without a value
    ("order_violations", LONG, NEVER),  # records after one that their sender sent later with the same key
    ("numbered_records", LONG, NEVER),  # records with a key and a sequence number: those that order_violations checks
)
"""One row per topic-partition and window with records.

`order_violations` needs records with sender and sequence number, as the harness writes them; it is 0 for others.
"""

PARTITION_KEYS = _table(
    ("run", STRING, NEVER),
    ("topic", STRING, NEVER),
    ("partition", INT, NEVER),
    ("keys", LONG, NEVER),  # distinct keys, exact
    ("top_key_hash", LONG, OR_NULL),  # key_hash of the key with the most records, ties to the lower; null: no keys
    ("top_key_share", DOUBLE, NEVER),  # its records / the partition's records, 0..1; 0: no keys
    ("top_byte_share", DOUBLE, NEVER),  # bytes of the key with the most bytes / the partition's bytes; 0: no keys
    ("moved_keys", LONG, NEVER),  # its keys with records on other partitions of the topic too, among the records read
    ("judged_records", LONG, NEVER),  # records whose key was compared with the reference rule
    ("misplaced_records", LONG, NEVER),  # those that the reference rule puts on another partition
)
"""One row per topic-partition with records: its keys over all windows."""

HOT_KEYS = _table(
    ("run", STRING, NEVER),
    ("topic", STRING, NEVER),
    ("rank", INT, OR_NULL),  # from 1, by records, then by hash; null: not among the first 100
    ("byte_rank", INT, OR_NULL),  # from 1, by bytes, then by hash; null: likewise
    ("key_hash", LONG, NEVER),
    ("key_sample", BINARY, NEVER),  # its first 64 bytes
    ("records", LONG, NEVER),
    ("bytes", LONG, NEVER),  # B of keys, values and headers
    ("share", DOUBLE, NEVER),  # of the topic's records, 0..1
    ("byte_share", DOUBLE, NEVER),  # of the topic's bytes, 0..1
    ("partition", INT, NEVER),  # partition with most of its records, ties to the lower
    ("partitions", INT, NEVER),  # number of partitions it is on; above 1: the key moved
)
"""One row per topic and key among its 100 keys with the most records, or its 100 with the most bytes; exact."""

FINDINGS = _table(
    ("run", STRING, NEVER),
    ("kind", STRING, NEVER),  # hot-key, misplaced, split-key, order, overlap, killed, departure, clock
    ("group", STRING, OR_NULL),  # null: about records
    ("topic", STRING, OR_NULL),
    ("partition", INT, OR_NULL),
    ("member", STRING, OR_NULL),
    ("key_sample", BINARY, OR_NULL),  # the key's first 64 bytes
    ("first_offset", LONG, OR_NULL),
    ("last_offset", LONG, OR_NULL),  # inclusive
    ("records", LONG, OR_NULL),  # number of records concerned
    ("more", LONG, OR_NULL),  # this row counts so many further faults of its kind; null: it is a fault itself
    ("text", STRING, NEVER),  # one sentence
)
"""One row per fault, for the 100 faults of each kind with the most records; one more row then counts the rest."""

TOPIC_LOAD = _table(
    ("run", STRING, NEVER),
    ("topic", STRING, NEVER),
    ("partitions", INT, NEVER),  # partition count of the topic
    ("records", LONG, NEVER),
    ("bytes", LONG, NEVER),  # B
    ("max_over_mean", DOUBLE, NEVER),  # of bytes per partition; 1: even
    ("cv", DOUBLE, NEVER),  # standard deviation (of the population) / mean of bytes per partition; 0: even
    ("gini", DOUBLE, NEVER),  # Σᵢ(2i−n−1)xᵢ/(nΣx) over ascending bytes per partition; 0: even, 1−1/n: all on one
    ("empty_partitions", INT, NEVER),
)
"""One row per topic: how evenly its load is spread over all its partitions, over all windows."""

GROUP_TIMELINE = _table(
    ("run", STRING, NEVER),
    ("dt", DATE, NEVER),  # UTC day of the start
    ("group", STRING, NEVER),
    ("topic", STRING, NEVER),
    ("partition", INT, NEVER),
    ("member", STRING, NEVER),
    ("member_id", STRING, OR_NULL),  # null: the event lacks it
    ("incarnation", INT, NEVER),
    ("generation_start", INT, OR_NULL),  # generation of the callback that assigned it; null: the event lacks it
    ("generation_end", INT, OR_NULL),  # generation of the callback that took it; null: no callback ended it
    ("start_ns", LONG, NEVER),  # monotonic, ns
    ("end_ns", LONG, NEVER),  # monotonic, ns; for an open interval the group's last event
    ("start_kind", STRING, NEVER),  # assigned
    ("end_kind", STRING, NEVER),  # revoked, lost, killed, stop (closed), exit (gone without closing), open; coordlog:
    # reassigned (to another member or nobody, while still a member), revoked (given up by its member of an eager group,
    # which got it back), leave (proven by its timeouts), left or expired (the log does not tell which), open
    ("source", STRING, NEVER),  # callback: the members' view; coordlog: the coordinator's commits
    ("gap_before_ms", DOUBLE, OR_NULL),  # time without an owner before it; null: no previous owner, or source coordlog
    ("gap_at_least_ms", DOUBLE, OR_NULL),  # lower bound of the time without an owner before it; null: no previous
    # owner. Coordlog: from the completed join, or from when the previous owner was gone, to the record that assigned it
    ("gap_at_most_ms", DOUBLE, OR_NULL),  # upper bound of the time without a consumer; null: no previous owner, or no
    # commit bounds it. Coordlog: between the last commit before and the first one after
    ("first_commit_ns", LONG, OR_NULL),  # first commit while the member owned it; null: none, or source callback
    ("last_commit_ns", LONG, OR_NULL),  # last commit, likewise
    ("overlap_prev_ms", DOUBLE, NEVER),  # shared with the intervals before it; 0 if correct
    ("moved", BOOLEAN, NEVER),  # the previous interval was another process's
    ("returned", BOOLEAN, NEVER),  # a needless revoke: the previous interval was the same member's, which gave it up
    ("zombie_ms", DOUBLE, OR_NULL),  # part in which the process could not know what it had lost: it was paused, fenced,
    # or cut off and left out, and had not noticed yet (`history.zombies`); null: source coordlog, which has none
    ("trigger", STRING, OR_NULL),  # trigger of the rebalance that began it, as in rebalances; null: unknown generation
)
"""One row per ownership interval: who owned a topic-partition, from when to when.

The cost of a rebalance is in `rebalances`; the harness's checker judges the records that a member consumed.
"""

REBALANCES = _table(
    ("run", STRING, NEVER),
    ("group", STRING, NEVER),
    ("rebalance", INT, NEVER),  # its number within the group, from 0
    ("generation", INT, NEVER),  # its last generation
    ("generations", INT, NEVER),  # number of its generations: a cooperative hand-over takes several
    ("begin_ns", LONG, NEVER),  # when the first was committed; monotonic, ns
    ("elected", STRING, NEVER),  # the assignor
    ("members", INT, NEVER),
    ("moves", INT, NEVER),  # topic-partitions that went from one member (instance id, else member id) to another
    ("min_moves", INT, OR_NULL),  # the fewest of any balanced assignment; null: bytes or partition counts unknown
    ("stop_ms", DOUBLE, OR_NULL),  # longest time without an owner before this rebalance assigned one; null: no
    # callbacks of members
    ("stop_at_least_ms", DOUBLE, NEVER),  # lower bound of that; 0: nothing is proven
    ("stop_at_most_ms", DOUBLE, OR_NULL),  # longest possible time without a consumer; null: no commit bounds it. From
    # the coordinator's log, both bounds are of the topic-partitions that moved or were given back
    ("tp_downtime_ms", DOUBLE, OR_NULL),  # sum of the times without an owner; null: no callbacks of members
    ("assign_us", LONG, OR_NULL),  # µs that the leader took to assign, longest round; null: not reported
    ("trigger", STRING, NEVER),  # difference from the rebalance before: join, leave (proven), left or expired (the log
    # does not tell which), the fault of a missing member (kill, pause, …), topic (partition counts), subscription;
    # several are joined by +; rejoin: none of them
    ("needless", INT, OR_NULL),  # needless moves: those beyond the fewest; null: racks, work or an unknown
    # assignor's own end may have asked for them
    ("returned", INT, NEVER),  # needless revokes: topic-partitions that their member gave up and got back
)
"""One row per rebalance, from the coordinator log; times without an owner are those of group_timeline.

A group that lost all its members has no rebalance for that: group_timeline shows how their intervals ended."""

GROUP_LAG = _table(
    ("run", STRING, NEVER),
    ("group", STRING, NEVER),
    ("topic", STRING, NEVER),
    ("partition", INT, NEVER),
    ("member", STRING, OR_NULL),  # who owned it last and still does; null: nobody
    ("committed", LONG, OR_NULL),  # the group's last committed offset; null: no commit was read
    ("committed_at", TIMESTAMP, OR_NULL),  # when; null: likewise
    ("end", LONG, OR_NULL),  # offset of the topic-partition's next record, open transactions included; null: not read
    ("lag", LONG, OR_NULL),  # end - committed, at least 0; null: one of them is unknown
)
"""One row per topic-partition that a group committed or owned: the records after its last commit that was read.

Ends are those at the moment when the analysis asked the brokers. A commit that expired or was deleted still counts. If
the group ended long before, its lag is what it would have to read if it started again."""

ASSIGNOR_WHAT_IF = _table(
    ("run", STRING, NEVER),
    ("group", STRING, NEVER),
    ("rebalance", INT, NEVER),  # as in the table of rebalances
    ("generation", INT, NEVER),
    ("assignor", STRING, NEVER),
    ("elected", BOOLEAN, NEVER),  # whether the group had elected it
    ("members", INT, NEVER),
    ("moves", INT, NEVER),  # as in the table of rebalances, if this assignor had decided from the first one on
    ("max_partitions", INT, NEVER),  # topic-partitions of the member with the most
    ("max_load", DOUBLE, NEVER),  # measured load of the member with the highest, in the weights' unit
    ("mean_load", DOUBLE, NEVER),
)
"""One row per rebalance and assignor: its result with the same members, from the group's first record on.

Load is measured over all records read. A topic that was not read adds no load.
"""

PARTITIONER_WHAT_IF = _table(
    ("run", STRING, NEVER),
    ("topic", STRING, NEVER),
    ("rule", STRING, NEVER),  # a preset for keys, or roundrobin, which ignores keys
    ("partitions", INT, NEVER),  # the partition count tried
    ("current", BOOLEAN, NEVER),  # whether it is the topic's own count
    ("records", LONG, NEVER),
    ("bytes", LONG, NEVER),  # B of keys, values and headers
    ("keys", LONG, NEVER),  # distinct keys, exact; an empty key is one
    ("moved_keys", LONG, OR_NULL),  # keys with records elsewhere than by this rule; null: the rule ignores keys
    ("moved_key_share", DOUBLE, OR_NULL),  # of the keys, 0..1; null as before
    ("moved_records", LONG, OR_NULL),  # records with a key on another partition than this rule's; null as before
    ("max_over_mean", DOUBLE, NEVER),  # of bytes per partition; 1: even
    ("cv", DOUBLE, NEVER),  # standard deviation (of the population) / mean of bytes per partition; 0: even
    ("records_per_partition", ArrayType(DOUBLE), NEVER),  # index = partition; records without a key are spread evenly
)
"""One row per topic, rule and partition count. At the topic's own count, `moved_records` of the rule that its producers
use are its misplaced records: 0 in a healthy topic."""

PARTITION_WEIGHTS = _table(
    ("run", STRING, NEVER),
    ("topic", STRING, NEVER),
    ("partition", INT, NEVER),
    ("weight", DOUBLE, NEVER),  # load in `unit`, not below 0, two significant digits, changed beyond 20 % only
    ("unit", STRING, NEVER),  # records_per_s, bytes_per_s
    ("observed_from", TIMESTAMP, OR_NULL),  # time of the first record of all topics; null: there is none
    ("observed_to", TIMESTAMP, OR_NULL),  # time of the last one, likewise
    ("samples", LONG, NEVER),  # records behind the weight
    ("confidence", DOUBLE, NEVER),  # 1 − 1/√samples, 0..1: one minus the relative error of a count of random arrivals
    ("version", LONG, NEVER),  # of the weights; grows when one changes
)
"""One row per topic-partition, including empty ones: the content of the weights file, and its basis."""

REJECTED = _table(
    ("run", STRING, NEVER),  # of the job; the line does not have it
    ("file", STRING, NEVER),  # URI of the history file, or kafka:TOPIC-PARTITION
    ("reason", STRING, NEVER),
    ("line", STRING, NEVER),  # its first 2,000 characters; for a topic the offsets
    ("rows", LONG, NEVER),  # number of lines or offsets in this row
)
"""One row per line that is not an event, and per topic-partition whose offsets do not all have a record: nothing that
could be read is lost without a trace."""

RUNS = _table(
    ("run", STRING, NEVER),
    ("finished", TIMESTAMP, NEVER),  # when its last table was complete
    ("cluster", STRING, NEVER),  # cluster id
)
"""One row per run whose tables are all complete. Written last, and deleted first when a run is replaced."""

LOADS = _table(
    ("run", STRING, NEVER),
    ("batch", LONG, NEVER),  # of the stream; the table's folder
    ("topic", STRING, NEVER),
    ("partition", INT, NEVER),
    ("window_start", TIMESTAMP, NEVER),  # inclusive
    ("window_end", TIMESTAMP, NEVER),  # exclusive
    ("records", LONG, NEVER),
    ("bytes", LONG, NEVER),  # B of keys, values and headers
    ("tombstones", LONG, NEVER),  # records without a value
    ("null_key_records", LONG, NEVER),
    ("first_ts", TIMESTAMP, NEVER),
    ("last_ts", TIMESTAMP, NEVER),
    ("first_offset", LONG, NEVER),
    ("last_offset", LONG, NEVER),
)
"""The load in one batch of a stream: a row per topic-partition and window. Rows of all batches add up."""

BATCH_KEYS = _table(
    ("run", STRING, NEVER),
    ("batch", LONG, NEVER),  # of the stream; the table's folder
    ("topic", STRING, NEVER),
    ("partition", INT, NEVER),
    ("key_hash", LONG, NEVER),
    ("key_sample", BINARY, NEVER),  # its first 64 bytes
    ("records", LONG, NEVER),
)
"""The keys with the most records of each topic-partition in one batch of a stream. Rows of all batches add up."""


TABLES = {
    "placement": PLACEMENT,
    "topic_load": TOPIC_LOAD,
    "partition_keys": PARTITION_KEYS,
    "hot_keys": HOT_KEYS,
    "partitioner_what_if": PARTITIONER_WHAT_IF,
    "partition_weights": PARTITION_WEIGHTS,
    "group_timeline": GROUP_TIMELINE,
    "group_lag": GROUP_LAG,
    "rebalances": REBALANCES,
    "assignor_what_if": ASSIGNOR_WHAT_IF,
    "findings": FINDINGS,
    "rejected": REJECTED,
}
"""name -> schema of the tables of a run."""


LAST = datetime(9999, 1, 1, tzinfo=timezone.utc)
"""Later timestamps of records are replaced by this: Python supports no later year, and no record was made then."""


def utc_day(column: str) -> Column:
    """The UTC day of a timestamp, independent of the session's time zone."""
    return sf.date_from_unix_date(sf.floor(sf.unix_seconds(column) / 86400).cast("int"))


def utc_date(ns: int) -> date:
    """The UTC day of a time in nanoseconds since the epoch."""
    return datetime.fromtimestamp(ns // 10**9, timezone.utc).date()


def without(table: StructType, *names: str) -> StructType:
    """A table without some columns, e.g. those that folder names hold."""
    return StructType([field for field in table.fields if field.name not in names])


# Spark infers NOT NULL from a literal of each type. In SQL, as all of `_column`.
_LITERALS = {
    STRING: "''",
    INT: "0",
    LONG: "0L",
    DOUBLE: "0D",
    BINARY: "X''",
    BOOLEAN: "false",
    DATE: "DATE'1970-01-01'",
    TIMESTAMP: "TIMESTAMP'1970-01-01T00:00:00Z'",
}


def conform(frame: DataFrame, table: StructType, *, strict: bool = True) -> DataFrame:
    """Select a table's columns, in its order, with its types and nullability, from a frame that has them.

    If `strict`, a null in a non-nullable column fails the job when the row is computed, and names the column. Pass
    False for a frame whose nulls were filtered out before and are filtered out again later: Spark may compute a column
    before the first filter.

    Raises:
        AnalysisException: A column is absent, or of a type that does not fit without loss.
    """
    # SQL: one call into the JVM per column, where Python's functions make about twenty.
    return frame.selectExpr(*(_column(field, strict) for field in table.fields)).to(table)


def _column(field: StructField, strict: bool) -> str:
    name, type_ = f"`{field.name}`", field.dataType.simpleString()
    if field.nullable:
        # Keep the column nullable even if this frame has no null in it: all files of a table must be alike.
        return f"CASE WHEN {name} IS NOT NULL THEN {name} END AS {name}"
    # The literal is never used, but without it Spark would treat every computed column as nullable.
    literal = _LITERALS.get(field.dataType) or ("array()" if isinstance(field.dataType, ArrayType) else "map()")
    null = f"CAST(raise_error('column {field.name} has a null') AS {type_}), " if strict else ""
    return f"coalesce({name}, {null}CAST({literal} AS {type_})) AS {name}"
