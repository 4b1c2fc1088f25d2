"""Who owned what over many generations: the Spark job's `group_timeline` from the coordinator's log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from kafka_assignors.core.group import TopicPartition

from .checker import MEMBERS, TOPICS, Run
from .pipeline import Cost
from .result import Result, WrongAnswer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EACH = 2_000
"""Generations of a group: as many as the job reads (`rebalances.MOST_GENERATIONS`)."""


def run(quick: bool) -> Iterator[Result]:
    """``timeline-10k``, ``-100k``: wall seconds from a history's lines to ownership intervals, of 5 and 50 groups.

    Three members share 21 partitions; in every second generation one drops a topic. The quick form is the first.
    """
    from kafka_assignors.pipeline.session import session

    before: Result | None = None
    with TemporaryDirectory(prefix="timeline-") as folder, session(long=True) as spark:
        lines = _lines()
        _measured(spark, Path(folder) / "warm", lines, 1)
        for groups in (5,) if quick else (5, 50):
            before = _measured(spark, Path(folder) / f"{groups}", lines, groups, before)
            yield before


def _lines() -> list[str]:
    """The commits of one group's generations, as the coordinator's log has them."""
    history = Run()
    assignment: dict[str, list[TopicPartition]] = {member: [] for member in MEMBERS}
    for _ in range(_EACH):
        assignment = history.rebalance(assignment)
    committed = [event for event in history.events if event.kind == "generation_committed"]
    return [replace(event, group="GROUP").to_json() for event in committed]


def _measured(spark: SparkSession, folder: Path, lines: list[str], groups: int, before: Result | None = None) -> Result:
    folder.mkdir()
    for n in range(groups):
        text = "".join(f"{line}\n" for line in lines).replace('"GROUP"', f'"g{n}"')
        (folder / f"coordlog-{n}.jsonl").write_text(text, "utf-8")
    size = sum(path.stat().st_size for path in folder.iterdir())
    with Cost() as cost:
        began = time.perf_counter()
        counts = _intervals(spark, folder)
        seconds = time.perf_counter() - began
    expected = (groups * _EACH, groups * sum(TOPICS.values()))
    if counts[:2] != expected:
        raise WrongAnswer(f"{counts[0]} rebalances and {counts[1]} open intervals, expected {expected}")
    raw: dict[str, Any] = {"generations": expected[0], "bytes": size, "intervals": counts[2], "seconds": seconds,
                           "cpu_seconds": cost.cpu_seconds, "peak_rss_bytes": cost.peak_bytes}  # fmt: skip
    note = (
        f"{groups} groups, {size / 1e6:,.0f} MB of history, {counts[2]:,} intervals; {cost.cpu_seconds:.0f} CPU s; "
        f"peak {cost.peak_bytes / 1e6:,.0f} MB in all processes"
    )
    if before is not None:
        raw["growth"] = {name: raw[name] / before.raw[name] for name in ("generations", "seconds", "cpu_seconds")}
        note += (
            f"; generations x{raw['growth']['generations']:.0f}: wall x{raw['growth']['seconds']:.1f}, "
            f"CPU x{raw['growth']['cpu_seconds']:.1f}"
        )
    return Result(f"timeline-{expected[0] // 1000}k", seconds, "s", note=note, raw=raw)


def _intervals(spark: SparkSession, folder: Path) -> tuple[int, int, int]:
    """The numbers of rebalances, of intervals that are still open, and of all intervals."""
    from kafka_assignors.pipeline import schema
    from kafka_assignors.pipeline.groups import rebalances, timeline
    from kafka_assignors.pipeline.sources import read

    parsed = read.parse(read.lines(spark, str(folder))).persist()
    events = read.events(parsed)
    decided = rebalances.collect(events)
    triggers = spark.createDataFrame(rebalances.triggers(decided.rebalances), timeline.TRIGGERS)
    committed = spark.createDataFrame(decided.intervals, schema.GROUP_TIMELINE)
    table = timeline.group_timeline(events, triggers, committed).persist()
    ends = {row["end_kind"]: row["count"] for row in table.groupBy("end_kind").count().collect()}
    table.unpersist()
    parsed.unpersist()
    return len(decided.rebalances), ends.get("open", 0), sum(ends.values())
