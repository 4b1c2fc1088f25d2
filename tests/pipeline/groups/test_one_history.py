"""The pipeline's tables of a kept history have the figures of `why` and the judge; `tests/history` has the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kafka_assignors.history.events import Event
from kafka_assignors.history.rebalances import rebalances as told_by_why
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.pipeline import schema
from kafka_assignors.pipeline.groups import committed, decided, rebalances, timeline
from kafka_assignors.pipeline.sources import read
from tests.support.histories.kept import COOPERATIVE, EAGER, log_of, unpacked


def rows_of(history: History) -> Iterator[dict[str, Any]]:
    """A history's events as `decided.event_rows` and `committed.commits` give them, made without Spark."""
    columns = ("generation", "protocol", "fault", "duration_us", "leader")
    made: dict[tuple[int, str, int], list[Event]] = {}
    n = 0
    for event in history.events:
        data = event.data
        n += event.kind == "generation_committed"
        if event.kind == "offset_committed":
            made.setdefault((n, data["topic"], data["partition"]), []).append(event)
        elif event.kind in decided._TOLD and event.group is not None:
            yield {
                **{name: getattr(event, name) for name in ("mono_ns", "ts_ns", "seq", "kind", "member", "member_id")},
                **{name: data.get(name) for name in columns},
                **{name: json.dumps(data[name]) if name in data else None for name in (*_AS_TEXT, "ts_ms")},
                "run": event.run,
                "group": event.group,
            }
    for (n, topic, partition), events in made.items():
        yield {
            **dict.fromkeys((*columns, *_AS_TEXT, "mono_ns", "seq", "member_id")),
            **{"kind": committed.COMMITS, "n": n, "topic": topic, "partition": partition},
            **{"first_ns": events[0].mono_ns, "last_ns": events[-1].mono_ns},
            "last_ms": events[-1].ts_ns // 1_000_000,
        }


_AS_TEXT = ("members", "topics", "racks", "leaders")


@pytest.mark.slow
@pytest.mark.parametrize("name", [COOPERATIVE, EAGER])
def test_one_groups_rebalances_are_those_of_why(tmp_path: Path, name: str) -> None:
    """What the grouped map computes for a group, without Spark."""
    history = History.load(unpacked(name, tmp_path))
    why = [each for each in told_by_why(log_of(history)) if each.counted]
    counts = [(e.mono_ns, e.data["topics"]) for e in history.events if e.kind == "step" and "topics" in e.data]

    found, owned = decided.of_group("r", "g", rows_of(history), counts)

    rows = [dict(zip(schema.REBALANCES.names, row, strict=True)) for row in rebalances.per_rebalance(found, {})]
    assert [[row[name] for name in _NAMES] for row in rows] == [
        [each.generations[-1], len(each.generations), each.moved, each.needless, each.returned, each.members]
        for each in why
    ]
    assert [row["min_moves"] for row in rows] == [each.fewest for each in why]
    words = [row["trigger"] for row in rows]
    assert words == ["join"] * (len(rows) - 2) + ["leave", "kill"]
    spans = [dict(zip(schema.GROUP_TIMELINE.names, row, strict=True)) for row in owned]
    assert sum(span["moved"] for span in spans) == sum(each.moved for each in why)
    assert sum(span["returned"] for span in spans) == sum(each.returned for each in why)


_NAMES = ("generation", "generations", "moves", "needless", "returned", "members")


# long: two jobs on Spark; the test above has both histories' figures by the same code without Spark,
# test_end_to_end.py a timeline by Spark
@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("name", [COOPERATIVE, EAGER])
def test_the_tables_have_the_figures_of_why(spark: SparkSession, tmp_path: Path, name: str) -> None:
    folder = unpacked(name, tmp_path)
    history = History.load(folder)
    why = [each for each in told_by_why(log_of(history)) if each.counted]
    frame = read.events(read.parse(read.lines(spark, str(folder)))).persist()

    for by_members in (True, False):
        events = frame if by_members else frame.where("src = 'coordlog' or kind = 'start'")
        found = rebalances.collect(events)
        triggers = spark.createDataFrame(rebalances.triggers(found.rebalances), timeline.TRIGGERS)
        by_log = spark.createDataFrame(found.intervals, schema.GROUP_TIMELINE)
        owned = timeline.group_timeline(events, triggers, by_log).persist()
        begun = rebalances.begun(owned)
        rows = [
            dict(zip(schema.REBALANCES.names, row, strict=True))
            for row in rebalances.per_rebalance(found.rebalances, begun)
        ]

        assert [tuple(row[name] for name in _NAMES) for row in rows] == [
            (each.generations[-1], len(each.generations), each.moved, each.needless, each.returned, each.members)
            for each in why
        ]
        assert [row["min_moves"] for row in rows] == [each.fewest for each in why]
        spans = owned.select("moved", "returned").collect()
        assert sum(span["moved"] for span in spans) == sum(each.moved for each in why)
        assert sum(span["returned"] for span in spans) == sum(each.returned for each in why)
        bounds = [(each.at_least_ms, each.at_most_ms if each.ownerless else 0.0) for each in why]
        if by_members:
            steps = check(history).measures["steps"][1:]
            stops = {row["generation"]: row["stop_ms"] for row in rows}
            assert [stops[step["generation"]] for step in steps] == pytest.approx([step["stop_ms"] for step in steps])
            assert all(least <= row["stop_ms"] <= most for row, (least, most) in zip(rows, bounds, strict=True))
        else:
            assert [(row["stop_at_least_ms"], row["stop_at_most_ms"]) for row in rows] == [
                pytest.approx(each, abs=1) for each in bounds
            ]
        owned.unpersist()
    frame.unpersist()
