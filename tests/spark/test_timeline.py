"""Ownership intervals: Spark's windows and the checker's loop must agree on every history."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertSchemaEqual

from integration.history import History
from integration.timeline import intervals
from kafka_assignors.events import Event
from pipeline import read, schema, timeline
from tests.harness.story import churn

pytestmark = pytest.mark.spark


def random_history(rng: random.Random, run: str) -> list[Event]:
    """Callbacks in no sensible order: doubled, out of nothing, after the end, two at one instant."""
    events: list[Event] = []
    for seq in range(rng.randint(0, 60)):
        src = rng.choice(["member", "harness"])
        kind = rng.choice(["assigned_begin"] * 4 + ["revoke_end"] * 3 + [
            "lost_begin", "fault_begin", "stop", "exit", "generation", "revoke_begin", "step"])  # fmt: skip
        data: dict[str, object] = {}
        if kind in ("assigned_begin", "revoke_end", "lost_begin", "generation", "revoke_begin"):
            tps = rng.sample([(t, p) for t in "tu" for p in range(3)], rng.randint(0, 4))
            data = {"generation": seq, "partitions": [{"topic": t, "partition": p} for t, p in tps]}
        elif kind == "fault_begin":
            data = {"fault": rng.choice(["kill", "kill", "pause"])}
        member = None if kind == "step" else rng.choice(["a", "b"])
        now = (seq - (rng.random() < 0.2)) * 1_000_000
        group = rng.choice(["g", "h", None] if kind == "step" else ["g", "h"])
        events.append(Event(kind, run, src, seq, now, now, group, member, rng.randint(0, 1), 1, data=data))
    return events


def test_intervals_equal_the_checkers(spark: SparkSession, tmp_path: Path) -> None:
    """40 random histories and two whole stories, each a run of its own, in one job over the written files."""
    rng = random.Random(11)
    histories = {f"random{i}": random_history(rng, f"random{i}") for i in range(40)}
    for protocol in ("range", "cooperative-sticky"):
        histories[protocol] = [Event(**{**vars(e), "run": protocol}) for e in churn(protocol).events]
    for run, events in histories.items():
        (tmp_path / run).mkdir()
        # A file's end comes later than all that happened, and ends no interval.
        ends = [Event("end", run, "harness", len(events), 10**15, 10**15, group) for group in "gh"]
        text = "".join(event.to_json() + "\n" for event in [*events, *ends])
        (tmp_path / run / "events.jsonl").write_text(text)

    found_intervals = timeline.group_timeline(read.events(read.parse(read.lines(spark, str(tmp_path)))))

    assertSchemaEqual(found_intervals.schema, schema.GROUP_TIMELINE)
    found: dict[str, list[dict[str, object]]] = {run: [] for run in histories}
    for row in found_intervals.collect():
        found[row["run"]].append(row.asDict())
    # the checker's intervals may know more than the table has columns for
    names = set(schema.GROUP_TIMELINE.names) - {"run", "dt", "source"}
    expected = {
        run: [{k: v for k, v in vars(interval).items() if k in names} for interval in intervals(History(events))]
        for run, events in histories.items()
    }
    for run in histories:
        rows = [{k: row[k] for k in names} for row in found[run]]
        place = ("group", "topic", "partition", "start_ns", "member", "incarnation")
        assert sorted(rows, key=lambda r: [r[k] for k in place]) == expected[run], run
    # the comparison saw every kind of end, an overlap, a gap and a move
    rows = [row for rows in expected.values() for row in rows]
    assert {row["end_kind"] for row in rows} == {"revoked", "lost", "killed", "stop", "exit", "open"}
    assert any(r["overlap_prev_ms"] for r in rows)
    assert any(r["gap_before_ms"] for r in rows)
    assert any(r["moved"] for r in rows)
