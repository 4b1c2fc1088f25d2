"""Ownership intervals: who owned what from when to when, by `kafka_assignors.history.timeline`, a group at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from kafka_assignors.history.events import Event
from kafka_assignors.history.timeline import Span, spans

from .. import schema

TRIGGERS = "run string, group string, generation int, trigger string"


def group_timeline(events: DataFrame, triggers: DataFrame, committed: DataFrame) -> DataFrame:
    """`schema.GROUP_TIMELINE`: from the members' callbacks where a group's events have them, else `committed`.

    `committed` has the intervals of all groups by the coordinator's log, from `rebalances.collect`; `triggers` come
    from `rebalances.triggers`, `events` (`schema.EVENTS`) from one or more runs. Lazy.
    """
    begun = (sf.col("kind") == "assigned_begin") & (sf.size("partitions") > 0) & sf.col("member").isNotNull()
    groups_with_callbacks = events.where(begun).select("run", "group").distinct()
    silent = committed.join(sf.broadcast(groups_with_callbacks), ["run", "group"], "left_anti")
    of_start = triggers.withColumnRenamed("generation", "generation_start")
    intervals = from_callbacks(events).join(sf.broadcast(of_start), ["run", "group", "generation_start"], "left")
    # A union loses NOT NULL.
    return schema.conform(intervals.unionByName(silent), schema.GROUP_TIMELINE, strict=False)


_KINDS = (
    "assigned_begin", "revoke_end", "lost_begin", "start", "stop", "exit", "fault_begin", "fault_end", "generation",
    "generation_committed",
)  # fmt: skip
"""Those that `spans` reads."""
_LAST = "last"
"""Kind of a row with the time of a group's last event, at which open intervals end."""
_TABLE = schema.without(schema.GROUP_TIMELINE, "trigger")
_TYPES = {
    schema.STRING: pa.string(), schema.INT: pa.int32(), schema.LONG: pa.int64(), schema.DOUBLE: pa.float64(),
    schema.BOOLEAN: pa.bool_(), schema.DATE: pa.date32(),
}  # fmt: skip
_ARROW = pa.schema([(field.name, _TYPES[field.dataType]) for field in _TABLE.fields])


def from_callbacks(events: DataFrame) -> DataFrame:
    """`schema.GROUP_TIMELINE` without its trigger, from the callbacks in `schema.EVENTS` of one or more runs.

    Cost: lazy; one shuffle. The memory of a task is O(callbacks x topic-partitions) of one group.
    """
    detail = sf.col("detail")
    of_group = events.where(sf.col("group").isNotNull())
    last = of_group.groupBy("run", "group").agg(sf.max("mono_ns").alias("mono_ns")).withColumn("kind", sf.lit(_LAST))
    rows = of_group.where(sf.col("kind").isin(*_KINDS)).select(
        "run", "group", "src", "seq", "ts_ns", "mono_ns", "kind", "member", "member_id", "incarnation", "instance_id",
        "generation", "partitions", "fault", detail["config"].alias("config"), detail["members"].alias("members"),
    )  # fmt: skip
    of_each = rows.unionByName(last, allowMissingColumns=True).groupBy("run", "group")
    return schema.conform(of_each.applyInArrow(_intervals, _TABLE), _TABLE)


def _intervals(table: pa.Table) -> pa.Table:
    rows = sorted(table.to_pylist(), key=lambda row: (row["mono_ns"], row["kind"] == _LAST, row["src"], row["seq"]))
    return pa.Table.from_pylist(list(_rows(rows[0]["run"], spans([_event(row) for row in rows]))), schema=_ARROW)


def _event(row: Mapping[str, Any]) -> Event:
    """The event of a row with what `spans` reads of it, for all kinds alike."""
    config, members = json.loads(row["config"] or "{}"), json.loads(row["members"] or "[]")
    left_out = {"member_id": "", "subscription": "", "assignment": "", "assigned": [], "owned": []}
    data = {
        "generation": row["generation"], "partitions": row["partitions"] or [], "ts_ms": 0,
        "fault": row["fault"] or "", "target": "", "assignors": [], "topics": [], "config": config,
        "members": [{**left_out, "client_id": member["client_id"]} for member in members],
    }  # fmt: skip
    return Event(
        row["kind"], row["run"], row["src"] or "", row["seq"] or 0, row["ts_ns"] or 0, row["mono_ns"], row["group"],
        row["member"], row["incarnation"] or 0, 0, row["member_id"], row["instance_id"], data=data,
    )  # fmt: skip


def _rows(run: str, owned: Iterable[Span]) -> Iterator[dict[str, Any]]:
    before: Span | None = None
    for span in owned:
        gap_ms = span.interval.gap_before_ms
        is_back = before is not None and (before.tp, before.owner) == (span.tp, span.owner)
        yield {
            **vars(span.interval), "run": run, "dt": schema.utc_date(span.start.ts_ns), "source": "callback",
            "gap_at_least_ms": gap_ms, "gap_at_most_ms": gap_ms,
            "returned": is_back and before is not None and before.interval.end_kind == "revoked",
        }  # fmt: skip
        before = span
