"""What a rebalance did is what was committed; an assignor's prediction is what it then does."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from kafka_assignors.core.group import NO_GENERATION, TopicPartition
from kafka_assignors.core.group.assignment import moves
from kafka_assignors.core.strategies import STRATEGIES
from kafka_assignors.history.events import Event
from kafka_assignors.integration.checker import intervals
from kafka_assignors.pipeline import schema
from kafka_assignors.pipeline.groups import rebalances, timeline
from kafka_assignors.pipeline.sources import read
from tests.support.histories.story import COOPERATIVE, Story, churn

pytestmark = pytest.mark.spark


def events(spark: SparkSession, folder: Path, histories: Mapping[str, list[Event]]) -> DataFrame:
    """Histories as they are kept, each a run of its own."""
    for run, history in histories.items():
        (folder / run).mkdir(parents=True)
        lines = [replace(e, run=run).to_json() + "\n" for e in history]
        (folder / run / "events.jsonl").write_text("".join(lines))
    return read.events(read.parse(read.lines(spark, str(folder))))


def garbage(data: dict[str, object]) -> None:
    data["members"][0]["subscription"] = "ff"


# long: a story per assignor on Spark; test_one_history.py has rebalances and moves without Spark,
# operator/live/test_leading.py what each assignor would do
@pytest.mark.long
def test_what_was_committed_and_what_would_have_been(spark: SparkSession, tmp_path: Path) -> None:
    """Whole stories, one per assignor; one whose leaders tell nothing, one with bytes that are no subscription."""
    stories: dict[str, Story] = {name: churn(name) for name in STRATEGIES}
    mute = stories["mute"] = churn("range")
    mute.events = [e for e in mute.events if e.kind not in ("assign_begin", "assign_end")]
    stories["damaged"] = churn("range").change("generation_committed", garbage, nth=-1)
    frame = events(spark, tmp_path, {name: story.events for name, story in stories.items()}).persist()

    decided = rebalances.collect(frame)
    found = decided.rebalances
    triggers = spark.createDataFrame(rebalances.triggers(found), timeline.TRIGGERS)
    committed = spark.createDataFrame(decided.intervals, schema.GROUP_TIMELINE)
    begun = rebalances.begun(timeline.group_timeline(frame, triggers, committed))
    told = [dict(zip(schema.REBALANCES.names, row, strict=True)) for row in rebalances.per_rebalance(found, begun)]
    loads = {TopicPartition("t", 0): 10.0, TopicPartition("u", 2): 2.0}
    replayed = rebalances.what_if(found, loads, STRATEGIES)
    predicted = [dict(zip(schema.ASSIGNOR_WHAT_IF.names, row, strict=True)) for row in replayed]
    frame.unpersist()

    for name, story in stories.items():
        recorded = [row for row in told if row["run"] == name]
        assert [row["members"] for row in recorded] == [3, 4, 3, 2]
        # apart from the code under test: the last committed generation of each membership
        committed = [e.data for e in story.history.events if e.kind == "generation_committed"]
        last = {tuple(sorted(m["member_id"] for m in data["members"])): data for data in committed}  # type: ignore[attr-defined]
        owners = [
            {(tp["topic"], tp["partition"]): m["member_id"] for m in data["members"] for tp in m["assigned"]}
            for data in last.values()
        ]
        assert [row["generation"] for row in recorded] == [data["generation"] for data in last.values()]
        for before, after, row in zip([{}, *owners], owners, recorded, strict=False):
            assert row["moves"] == len(moves(before, after)), name
        assert sum(row["generations"] for row in recorded) == len(committed)
        waits = [iv.gap_before_ms or 0 for iv in intervals(story.history)]
        assert sum(row["tp_downtime_ms"] for row in recorded) == pytest.approx(sum(waits))
        assert max(row["stop_ms"] for row in recorded) == max(waits)
        assert [row["trigger"] for row in recorded] == [
            "join",
            "join",
            "leave",
            "kill" + "+subscription" * (name == "damaged"),
        ]
        if name in COOPERATIVE:
            assert [row["returned"] for row in recorded] == [0] * 4
        else:  # what its member keeps, an eager assignor takes and gives back
            kept = [len(a.items() & b.items()) for a, b in itertools.pairwise(owners)]
            assert [row["returned"] for row in recorded] == [0, *kept], name

        elected = [row for row in predicted if row["run"] == name and row["elected"]]
        known = recorded[:-1] if name == "damaged" else recorded
        assert [row["moves"] for row in elected] == [row["moves"] for row in known], name
        assert [row["assign_us"] for row in recorded] == [None if name == "mute" else 100] * 4
        fewest = [row["min_moves"] for row in recorded]
        assert fewest[-1] is None if name == "damaged" else fewest[-1] > 0
        for row in recorded:
            assert row["needless"] in (None, max(0, row["moves"] - (row["min_moves"] or 0)))
        if name in ("sticky", "compact-sticky", "cooperative-sticky"):
            assert fewest == [row["moves"] for row in recorded]
    assert max(row["generations"] for row in told if row["run"] == "cooperative-sticky") == 2
    total = {name: sum(row["moves"] for row in told if row["run"] == name) for name in STRATEGIES}
    assert total["sticky"] < total["roundrobin"]
    # every story has the same members, so each predicts what the others then did
    for name in STRATEGIES:
        for other in STRATEGIES:
            guess = [row["moves"] for row in predicted if row["run"] == name and row["assignor"] == other]
            assert guess == [row["moves"] for row in told if row["run"] == other], (name, other)
    assert {row["mean_load"] for row in predicted if row["members"] == 4} == {3.0}
    assert {row["max_load"] for row in predicted if row["members"] == 4} <= {10.0, 12.0}
    assert {row["max_partitions"] for row in predicted if row["members"] == 4 and row["assignor"] == "sticky"} == {2}

    # The prediction is the committed assignment, partition by partition.
    compared = 0
    for run in STRATEGIES:
        held: rebalances.Owners = {}
        generation = NO_GENERATION
        for rebalance in (r for r in found if r.run == run):
            held = rebalances.answer(run, rebalance, held, generation)
            assert held == rebalance.owners, (run, rebalance.number)
            generation = rebalance.generation
            compared += len(held)
    assert compared == len(STRATEGIES) * 4 * 7


@pytest.mark.long  # long: a job on Spark; operator/live/test_rebalances.py has a static member that comes back
def test_a_static_member_that_comes_back_moves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    story = Story("range").start("a", "b").round()
    first = [e for e in story.events if e.kind == "generation_committed"][-1]
    for row in first.data["members"]:
        row["instance_id"] = row["client_id"]
    again = {**first.data, "generation": 2, "members": [{**row} for row in first.data["members"]]}
    again["members"][0]["member_id"] = "another"
    story.tell("generation_committed", "coordlog", **again)

    found = rebalances.collect(events(spark, tmp_path, {"r": story.events})).rebalances
    rows = list(rebalances.per_rebalance(found, {}))

    assert [row[schema.REBALANCES.names.index("moves")] for row in rows] == [0, 0]
