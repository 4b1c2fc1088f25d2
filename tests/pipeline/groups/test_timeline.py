"""Ownership intervals: what Spark reads of each history gives the judge's own."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertSchemaEqual

from kafka_assignors.history import zombies as checkers
from kafka_assignors.history.events import Event
from kafka_assignors.history.timeline import Interval
from kafka_assignors.integration.checker import intervals
from kafka_assignors.integration.history import History
from kafka_assignors.pipeline import schema
from kafka_assignors.pipeline.groups import rebalances, timeline
from kafka_assignors.pipeline.sources import read
from tests.support.histories.faults import fenced
from tests.support.histories.story import HEARTBEAT_MS, Story, churn
from tests.support.histories.whole import whole
from tests.support.histories.zombies import hit

pytestmark = pytest.mark.spark


def random_history(rng: random.Random, run: str) -> list[Event]:
    """Callbacks in no sensible order: doubled, out of nothing, after the end, two at one instant."""
    events: list[Event] = []
    for seq in range(rng.randint(0, 90)):
        src = rng.choice(["member", "harness", "proxy"])
        kind = rng.choice(["assigned_begin"] * 4 + ["revoke_end"] * 3 + ["start"] * 2 + ["generation"] * 2 + [
            "lost_begin", "stop", "exit", "revoke_begin", "step",
            *["fault_begin", "fault_end", "generation_committed"] * 3])  # fmt: skip
        data: dict[str, object] = {}
        if kind in ("assigned_begin", "revoke_end", "lost_begin", "generation", "revoke_begin"):
            tps = rng.sample([(t, p) for t in "tu" for p in range(3)], rng.randint(0, 4))
            data = {"generation": seq, "partitions": [{"topic": t, "partition": p} for t, p in tps]}
        elif kind in ("fault_begin", "fault_end"):
            data = {"fault": rng.choice(["cut", "drop"] if src == "proxy" else ["kill", "pause", "pause", "stall"])}
        elif kind == "start":
            data = {"config": {"heartbeat_interval_ms": rng.choice([100, 700])} if rng.random() < 0.8 else {}}
        elif kind == "generation_committed":
            there = rng.choice(["", "a", "b", "ab"])
            members = [{"member_id": m, "client_id": m, "subscription": "", "assigned": []} for m in there]
            data = {"generation": seq, "protocol": "range", "leader": "a", "members": members}
        member = None if kind in ("step", "generation_committed") else rng.choice(["a", "b"])
        # two processes of a member, and members, share instance ids
        instance = rng.choice([None, "i", "j"]) if kind in ("start", "generation") else None
        now = (seq - (rng.random() < 0.2)) * 500_000_000  # so that a pause may be noticed too late
        group = rng.choice(["g", "h", None] if kind == "step" else ["g", "h"])
        incarnation = rng.randint(0, 1)
        events.append(
            Event(kind, run, src, seq, now, now, group, member, incarnation, 1, None, instance, data=whole(kind, data))
        )
    return events


def zombies() -> dict[str, tuple[Story, set[float]]]:
    """Members that stand still, are fenced, are cut off: stories, and how long each can't know what it lost (ms)."""
    still = Story("range").start("a", "b").round().pause("a").round().resume("a", notice_ms=40).round()
    still.pause("b", "stall").tell("step", name="later")
    stories = {
        "still": still,  # a goes on and notices, b stands still to the end
        "fenced": fenced(None),
        "fenced and told": fenced(HEARTBEAT_MS),
        "cut off": hit(protocol="range", notice_ms=40),
        "cut off and told late": hit(protocol="range", notice_ms=checkers.ZOMBIE_MS + 1000),
    }
    found = {name: {i.zombie_ms for i in intervals(story.history)} - {0.0} for name, story in stories.items()}
    assert {name: len(times) for name, times in found.items()} == {name: 1 + (name == "still") for name in stories}
    assert found["fenced"] == {2 * HEARTBEAT_MS + checkers.FENCED_MS}
    assert found["fenced and told"] == {HEARTBEAT_MS}
    (told,), (late,) = found["cut off"], found["cut off and told late"]
    assert late - told == checkers.ZOMBIE_MS - 40 - 1  # an event takes a millisecond
    return {name: (story, found[name]) for name, story in stories.items()}


# long: 105 histories on Spark; test_end_to_end.py compares the intervals of a real group with the checker's
@pytest.mark.long
def test_intervals_equal_the_checkers(spark: SparkSession, tmp_path: Path) -> None:
    """100 random histories and whole stories, each a run of its own, in one job over the written files."""
    rng = random.Random(11)
    histories = {f"random{i}": random_history(rng, f"random{i}") for i in range(100)}
    for protocol in ("range", "cooperative-sticky"):
        histories[protocol] = [replace(e, run=protocol) for e in churn(protocol).events]
    lost = zombies()
    histories |= {run: [replace(e, run=run) for e in story.events] for run, (story, _) in lost.items()}
    for run, events in histories.items():
        (tmp_path / run).mkdir()
        # A file's end comes later than all that happened, and ends no interval.
        ends = [Event("end", run, "harness", len(events), 10**15, 10**15, group) for group in "gh"]
        text = "".join(event.to_json() + "\n" for event in [*events, *ends])
        (tmp_path / run / "events.jsonl").write_text(text)

    parsed = read.parse(read.lines(spark, str(tmp_path))).persist()
    frame = read.events(parsed)
    decided = rebalances.collect(frame)
    triggers = spark.createDataFrame(rebalances.triggers(decided.rebalances), timeline.TRIGGERS)
    committed = spark.createDataFrame(decided.intervals, schema.GROUP_TIMELINE)
    found_intervals = timeline.group_timeline(frame, triggers, committed)

    assertSchemaEqual(found_intervals.schema, schema.GROUP_TIMELINE)
    found: dict[str, list[dict[str, object]]] = {run: [] for run in histories}
    for row in found_intervals.collect():
        found[row["run"]].append(row.asDict())
    parsed.unpersist()
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
    assert {run: {row["zombie_ms"] for row in found[run]} - {0.0} for run in lost} == {
        r: ms for r, (_, ms) in lost.items()
    }
    assert sum(row["zombie_ms"] != 0.0 for row in rows) > 100
    # What an eager assignor takes and gives back: all that its member has before and after; a cooperative one nothing.
    given_back = {run: sum(row["returned"] for row in found[run]) for run in ("range", "cooperative-sticky")}
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
