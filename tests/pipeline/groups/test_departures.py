"""Why a member is gone, and for how long nobody consumed: what the coordinator's log shows, and no more."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.wire.protocol import Subscription, encode_subscription
from kafka_assignors.history import departures, ownership
from kafka_assignors.history.events import Event
from kafka_assignors.pipeline import findings, schema
from kafka_assignors.pipeline.groups import committed, rebalances
from kafka_assignors.pipeline.sources import read
from tests.support.histories.whole import whole

SESSION_MS, REBALANCE_MS = 6_000, 60_000
SAYS = encode_subscription(Subscription(("t",))).hex()


@pytest.mark.slow
@given(seen=st.integers(0, 10**6), timeout=st.integers(1000, 10**5), after=st.integers(0, 2 * 10**5))
def test_whoever_a_timeout_can_have_taken_out_has_not_provably_left(seen: int, timeout: int, after: int) -> None:
    """The coordinator takes a member out no earlier than its timeout after it was last seen."""
    cause = departures.cause(seen, seen + after, timeout)

    assert cause == departures.UNPROVEN if after >= timeout else cause in (departures.LEFT, departures.UNPROVEN)
    assert departures.cause(seen, seen, timeout) == departures.LEFT
    assert departures.cause(None, seen, timeout) == departures.cause(seen, None, timeout) == departures.UNPROVEN


def ns(ms: int) -> int:
    return (3_600_000 + ms) * 1_000_000


class Log:
    """A group's part of the coordinator's log; times in ms, from an hour after the epoch on."""

    def __init__(self, group: str) -> None:
        self.group, self.events = group, list[Event]()
        self.generation = 0

    def _tell(self, ms: int, kind: str, **data: Any) -> None:
        self.events.append(
            Event(kind, "r", "coordlog", len(self.events), ns(ms), ns(ms), self.group, data=whole(kind, data))
        )

    def round(self, ms: int, joined_ms: int, **owned: Sequence[int]) -> Log:
        """A generation that was joined and then committed."""
        self.generation += 1
        members = [
            {"member_id": name, "client_id": name, "subscription": SAYS, "session_timeout_ms": SESSION_MS,
             "rebalance_timeout_ms": REBALANCE_MS, "assigned": [{"topic": "t", "partition": p} for p in partitions]}
            for name, partitions in owned.items()
        ]  # fmt: skip
        self._tell(ms, "generation_committed", generation=self.generation, protocol="range",
                   leader=next(iter(owned), None), ts_ms=3_600_000 + joined_ms, members=members)  # fmt: skip
        return self

    def commit(self, ms: int, *partitions: int) -> Log:
        for partition in partitions:
            self._tell(ms, "offset_committed", topic="t", partition=partition, offset=ms)
        return self

    def intervals(self) -> list[ownership.LoggedInterval]:
        """Computed without Spark, the causes by the timeouts alone."""
        log: list[ownership.Committed] = []
        for event in self.events:
            if event.kind == "generation_committed":
                row = {**event.data, "group": event.group, "mono_ns": event.mono_ns, "ts_ns": event.ts_ns}
                row["members"] = json.dumps(row["members"])
                log.append(committed.generation(row, {}).committed)
            else:
                made = log[-1].commits
                tp, at = TopicPartition("t", event.data["partition"]), event.mono_ns
                first = made[tp].first_ns if tp in made else at
                log[-1] = replace(log[-1], commits={**made, tp: ownership.Commits(first, at, at // 1_000_000)})
        causes = {
            (after.generation, holder): departures.cause(
                before.last_seen_ms(holder), after.joined_ms, before.timeouts[holder]
            )
            for before, after in itertools.pairwise(log)
            for holder in before.members.keys() - after.members.keys()
        }
        return ownership.intervals(log, causes)


def crashed(group: str = "g") -> Log:
    """b consumes, commits last at 20 s, and is replaced at 35 s; a gets its partition, and commits at 36 s."""
    log = Log(group).round(1_000, 990, a=[0], b=[1])
    for second in range(5, 25, 5):
        log.commit(second * 1000, 0, 1)
    return log.commit(25_000, 0).round(35_000, 34_990, a=[0, 1]).commit(36_000, 0, 1).commit(40_000, 0, 1)


def left(group: str = "g") -> Log:
    """b commits and leaves: it is gone long before a timeout could have run out."""
    return (
        Log(group)
        .round(1_000, 990, a=[0], b=[1])
        .commit(20_000, 0, 1)
        .round(21_000, 20_990, a=[0, 1])
        .commit(22_000, 1)
    )


def unbounded(group: str = "g") -> Log:
    """No commit at all; all members go, and another comes 40 s later."""
    return Log(group).round(1_000, 990, a=[0, 1]).round(50_000, 49_990).round(90_000, 89_900, c=[0, 1])


def emptied(group: str = "g") -> Log:
    return Log(group).round(1_000, 990, a=[0, 1]).round(50_000, 49_990)


def test_a_crash_is_told_as_what_the_log_shows_of_it() -> None:
    rows = crashed().intervals()

    assert [row.end_kind for row in rows] == ["revoked", "left or expired", "open", "open"]
    assert (rows[2].gap_at_least_ms, rows[2].gap_at_most_ms, rows[2].returned) == (10.0, 11_000.0, True)
    assert (rows[3].gap_at_least_ms, rows[3].gap_at_most_ms, rows[3].returned) == (10.0, 16_000.0, False)
    assert (rows[1].first_commit_ns, rows[1].last_commit_ns) == (ns(5_000), ns(20_000))


def test_a_proven_leave_is_told_as_one() -> None:
    rows = left().intervals()

    assert [row.end_kind for row in rows] == ["revoked", "leave", "open", "open"]
    assert rows[3].gap_at_most_ms == 2_000


def test_what_no_commit_bounds_is_not_bounded() -> None:
    rows = unbounded().intervals()

    assert [row.end_kind for row in rows] == ["left or expired"] * 2 + ["open"] * 2
    # nobody had them from the empty generation on
    assert (rows[2].gap_at_least_ms, rows[2].gap_at_most_ms) == (40_000, None)


# long: a job over four groups; the tests above have three of these logs without Spark, test_sentences.py the words
@pytest.mark.long
@pytest.mark.spark
def test_no_sentence_says_more_than_the_log_shows(spark: SparkSession) -> None:
    logs = {log.group: log for log in (crashed("crashed"), left("left"), unbounded("unbounded"), emptied("emptied"))}
    lines = [("kafka:x", event.to_json()) for log in logs.values() for event in log.events]
    events = read.events(read.parse(spark.createDataFrame(lines, "file string, line string")))

    found = rebalances.collect(events)

    owned = spark.createDataFrame(found.intervals, schema.GROUP_TIMELINE)
    for group, log in logs.items():
        here = [(row.start_ns, row.tp.partition, row.end_kind, row.gap_at_most_ms) for row in log.intervals()]
        rows = [dict(zip(schema.GROUP_TIMELINE.names, row, strict=True)) for row in found.intervals]
        names = ("start_ns", "partition", "end_kind", "gap_at_most_ms")
        assert [tuple(row[name] for name in names) for row in rows if row["group"] == group] == here
        assert {row["gap_before_ms"] for row in rows} == {None}
    told = [
        dict(zip(schema.REBALANCES.names, row, strict=True))
        for row in rebalances.per_rebalance(found.rebalances, rebalances.begun(owned))
    ]
    last = {row["group"]: row for row in told}
    assert {group: row["trigger"] for group, row in last.items()} == {
        "crashed": "left or expired", "left": "leave", "unbounded": "join+left or expired", "emptied": "join",
    }  # fmt: skip
    crash = last["crashed"]
    assert (crash["stop_ms"], crash["tp_downtime_ms"]) == (None, None)
    assert (crash["moves"], crash["needless"], crash["returned"]) == (1, 0, 1)
    assert (crash["stop_at_least_ms"], crash["stop_at_most_ms"]) == (10.0, 16_000.0)
    assert last["unbounded"]["stop_at_most_ms"] is None
    fields = [dict(zip(schema.FINDINGS.names, row, strict=True)) for row in findings.ownership(owned)]
    assert {row["group"]: row["text"] for row in fields} == {
        "crashed": "b left or expired (the coordinator's log does not say which). It is not in generation 2, and held "
        "1 topic-partition, which had no member for at least 10 ms and no consumer for at most 16,000 ms",
        "unbounded": "a left or expired (the coordinator's log does not say which). It is not in generation 2, and "
        "held 2 topic-partitions, which had no member for at least 40,000 ms; no commit shows when one of them had a "
        "consumer again",
        "emptied": "a left or expired (the coordinator's log does not say which). It is not in generation 2, and held "
        "2 topic-partitions, which no later generation assigns",
    }


@pytest.mark.long  # long: a bound on what the driver holds, which rarely changes
@pytest.mark.spark
def test_of_a_long_log_the_last_generations_are_looked_at(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalances, "MOST_GENERATIONS", 2)
    log = Log("long")
    for n in range(5):
        log.round(1000 * n, 1000 * n, **{f"m{n}": [0]})
    lines = [("kafka:x", event.to_json()) for event in (*log.events, *crashed("short").events)]
    events = read.events(read.parse(spark.createDataFrame(lines, "file string, line string")))

    found = rebalances.collect(events)

    assert [(r.group, r.generation) for r in found.rebalances] == [("long", 4), ("long", 5), ("short", 1), ("short", 2)]
    (left_out,) = (dict(zip(schema.REJECTED.names, row, strict=True)) for row in found.left_out)
    assert (left_out["file"], left_out["rows"]) == ("group:long", 3)
