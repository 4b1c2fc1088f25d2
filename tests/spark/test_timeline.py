"""Ownership intervals: Spark's windows and the checker's loop must agree on every history."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertSchemaEqual

from integration import timeline as checkers
from integration.history import History
from integration.timeline import Interval, intervals
from kafka_assignors.events import Event
from pipeline import read, rebalances, schema, timeline
from tests.harness.story import Story, churn

pytestmark = pytest.mark.spark


def random_history(rng: random.Random, run: str) -> list[Event]:
    """Callbacks in no sensible order: doubled, out of nothing, after the end, two at one instant."""
    events: list[Event] = []
    for seq in range(rng.randint(0, 60)):
        src = rng.choice(["member", "harness"])
        kind = rng.choice(["assigned_begin"] * 4 + ["revoke_end"] * 3 + [
            "lost_begin", "stop", "exit", "generation", "revoke_begin", "step",
            *["fault_begin", "fault_end"] * 3])  # fmt: skip
        data: dict[str, object] = {}
        if kind in ("assigned_begin", "revoke_end", "lost_begin", "generation", "revoke_begin"):
            tps = rng.sample([(t, p) for t in "tu" for p in range(3)], rng.randint(0, 4))
            data = {"generation": seq, "partitions": [{"topic": t, "partition": p} for t, p in tps]}
        elif kind in ("fault_begin", "fault_end"):
            data = {"fault": rng.choice(["kill", "pause", "pause", "stall"])}
        member = None if kind == "step" else rng.choice(["a", "b"])
        now = (seq - (rng.random() < 0.2)) * 500_000_000  # so that a pause may be noticed too late
        group = rng.choice(["g", "h", None] if kind == "step" else ["g", "h"])
        events.append(Event(kind, run, src, seq, now, now, group, member, rng.randint(0, 1), 1, data=data))
    return events


def test_intervals_equal_the_checkers(spark: SparkSession, tmp_path: Path) -> None:
    """40 random histories and whole stories, each a run of its own, in one job over the written files."""
    rng = random.Random(11)
    histories = {f"random{i}": random_history(rng, f"random{i}") for i in range(40)}
    for protocol in ("range", "cooperative-sticky"):
        histories[protocol] = [Event(**{**vars(e), "run": protocol}) for e in churn(protocol).events]
    still = Story("range").start("a", "b").round().pause("a").round().resume("a", notice_ms=40).round()
    still.pause("b", "stall").tell("step", name="later")
    histories["still"] = [Event(**{**vars(e), "run": "still"}) for e in still.events]
    for run, events in histories.items():
        (tmp_path / run).mkdir()
        # A file's end comes later than all that happened, and ends no interval.
        ends = [Event("end", run, "harness", len(events), 10**15, 10**15, group) for group in "gh"]
        text = "".join(event.to_json() + "\n" for event in [*events, *ends])
        (tmp_path / run / "events.jsonl").write_text(text)

    frame = read.events(read.parse(read.lines(spark, str(tmp_path)))).persist()
    triggers = spark.createDataFrame(rebalances.triggers(rebalances.collect(frame)), timeline.TRIGGERS)
    found_intervals = timeline.group_timeline(frame, triggers)

    assertSchemaEqual(found_intervals.schema, schema.GROUP_TIMELINE)
    found: dict[str, list[dict[str, object]]] = {run: [] for run in histories}
    for row in found_intervals.collect():
        found[row["run"]].append(row.asDict())
    frame.unpersist()
    names = sorted(Interval.__dataclass_fields__)
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
    assert timeline.ZOMBIE_MS == checkers.ZOMBIE_MS
    zombies = {row["zombie_ms"] for row in expected["still"]} - {0.0}
    assert len(zombies) == 2  # a went on and noticed, b stands still to the end
    # What an eager assignor takes and gives back: all that its member has before and after; a cooperative one nothing.
    given_back = {run: sum(row["needless"] for row in found[run]) for run in ("range", "cooperative-sticky")}
    kept = 0
    commits = [e.data["members"] for e in histories["range"] if e.kind == "generation_committed"]
    for before, after in itertools.pairwise(commits):
        owners = [
            {(tp["topic"], tp["partition"], m["client_id"]) for m in g for tp in m["assigned"]} for g in (before, after)
        ]
        kept += len(owners[0] & owners[1])
    assert given_back == {"range": kept, "cooperative-sticky": 0}
    assert kept > 5
    for run in ("range", "cooperative-sticky"):
        by_generation: dict[int, set[str]] = {}
        for row in found[run]:
            by_generation.setdefault(row["generation_start"], set()).add(row["trigger"])
        told = [one for _, (one,) in sorted(by_generation.items())]  # of a generation, one
        assert [word for word, _ in itertools.groupby(told)] == ["join", "leave", "kill"]
    assert "pause" in {row["trigger"] for row in found["still"]}
