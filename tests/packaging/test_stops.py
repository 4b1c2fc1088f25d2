"""``python -m benchmarks stops``: what it takes from a history, and its tables. Nothing is measured here."""

from __future__ import annotations

import pytest

from benchmarks import stop_tables, stops
from kafka_assignors.errors import UnknownName
from kafka_assignors.integration.checker import check
from tests.support.histories.story import Story

GONE_MS = 400


def left() -> Story:
    """b leaves a cooperative group of three with ten records on the way; ten more are sent when the group is stable."""
    story = Story("cooperative-sticky").start("a", "b", "c").round().records(7).consume()
    story.tell("step", name=stops.LEAVE)
    story.records(7).stop("b").wait(GONE_MS).round().consume()
    return story.wait(5000).records(14).wait(5000).drain()


def test_a_change_costs_what_the_history_shows() -> None:
    history = left().history
    verdict = check(history)
    assert verdict.violations == ()

    found = stops._changes(history, verdict)[stops.LEAVE].measures()

    orphans = sum(span.member == "b" for span in verdict.intervals)
    assert orphans
    assert found["stop_ms"] == pytest.approx(GONE_MS, abs=30)
    assert found["downtime_ms"] == pytest.approx(orphans * found["stop_ms"], abs=30 * orphans)
    assert (found["generations"], found["moves"], found["above_least"], found["duplicates"]) == (1, orphans, 0, 0)
    # Each was sent before the leave ended; those that were sent afterwards waited for 5 s, and do not count.
    assert GONE_MS <= found["p50_ms"] <= found["p99_ms"] <= found["most_ms"] < 1000


def test_only_takes_groups_and_their_changes() -> None:
    shapes = [shape.changes for shape in stops._chosen("5x60/roll,3x12/kill", stops.SHAPES)]

    assert shapes == [(stops.ROLL,), (stops.ADDED, stops.KILL)]
    assert stops._chosen("3x12", stops.SHAPES) == [s for s in stops.SHAPES if s.members == 3]


def test_only_refuses_another_group() -> None:
    with pytest.raises(UnknownName, match="unknown group '4x4'; known: 10x60"):
        stops._chosen("3x12,4x4", stops.SHAPES)


def test_only_groups_that_wait_for_minutes_play_together() -> None:
    assert [shape.changes for shape in stops.SHAPES if shape.together > 1] == [(stops.ADDED, stops.KILL)]


def test_clients_refuses_another_row() -> None:
    assert stops._row("java/range").given == "range"
    with pytest.raises(UnknownName, match=r"unknown client 'java/sticky'; known: .*java/range"):
        stops._row("java/sticky")


def test_the_tables_have_the_medians_of_all_runs() -> None:
    raw = {"downtime_ms": [30.0, 1200.4, 90.0], "stop_ms": [10.0, 1000.0, 31.0], "generations": [2, 2, 3]}
    rows = [
        {"name": "3x12/join/ours/cooperative-sticky", "raw": raw},
        {"name": "3x12/leave/ours/cooperative-sticky", "raw": {**raw, "downtime_ms": [5.0]}},
        {"name": "3x12/join/java/range", "raw": {}},
        {"name": "ours/cooperative-sticky/verdict", "raw": {"values": []}},
    ]

    lines = stop_tables.tables(rows)

    assert lines[:5] == [
        "**3 members, 12 partitions**: partition-ms without an owner (longest, ms), median and worst run",
        "",
        "| | join | leave |",
        "|---|---:|---:|",
        "| ours `cooperative-sticky` | 90 (31), worst 1,200 (1,000) | 5 (31) |",
    ]
    whole = lines[lines.index("**3 members, 12 partitions, join**, medians") + 4]
    assert whole.startswith("| ours `cooperative-sticky` | 90 | 31 | not measured |")
    assert whole.endswith("| 2 | not measured | not measured |")
