"""Commits in a churn of cooperative rebalances, by members that poll briefly and commit on a schedule of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_assignors.history.events import Event
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import Verdict, check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Sender
from kafka_assignors.integration.report.report import verdict_lines
from kafka_assignors.integration.topics import create_topics

HASTY = {"app_poll_ms": 50, "app_commit_ms": 100}
STAYING = ("m1", "m2", "m3")
LOST = "gave them to other members: "


def churn(broker: Broker, folder: Path, assignor: str, times: int) -> tuple[History, Verdict]:
    """A fourth member joins and leaves so often; records come all the while."""
    topic = f"orders-{folder.name}"
    create_topics(broker.bootstrap, {topic: 8})
    with MemberGroup(broker.bootstrap, f"churn-{folder.name}", folder, "run") as group:
        with Sender(broker.bootstrap, folder, "run", [topic], "default", 200):
            for name in STAYING:
                group.start(name, [topic], [assignor], **HASTY)
            group.wait_stable(timeout_s=60)
            for _ in range(times):
                group.start("m4", [topic], [assignor], **HASTY)
                group.wait_stable(timeout_s=60)
                group.stop("m4")
                group.wait_stable(timeout_s=60)
        group.drain(60)
    history = History.load(folder)
    return history, check(history)


def refused_of_what_is_kept(history: History, verdict: Verdict) -> list[Event]:
    """Failed commits of a partition that their member has before it, and still after its next adoption.

    An error that names what was lost is one of those alone.
    """
    found = []
    for fail in (event for event in history.events if event.kind == "commit_fail"):
        mine = (fail.member, fail.incarnation)
        later = (
            event.mono_ns
            for event in history.events
            if event.kind == "generation" and (event.member, event.incarnation) == mine and event.mono_ns > fail.mono_ns
        )
        adopted_ns = next(later, None)
        error = fail.data["error"]
        named = {f"{row['topic']}-{row['partition']}": (row["topic"], row["partition"]) for row in fail.data["offsets"]}
        tps = {tp for name, tp in named.items() if LOST not in error or name in error.partition(LOST)[2]}
        kept = (
            each
            for each in verdict.intervals
            if (each.member, each.incarnation) == mine
            and (each.topic, each.partition) in tps
            and adopted_ns is not None
            and each.start_ns < fail.mono_ns
            and each.end_ns > adopted_ns
        )
        if next(kept, None) is not None:
            found.append(fail)
    return found


def commits(history: History, kind: str) -> int:
    return sum(event.kind == kind for event in history.events)


@pytest.mark.broker
@pytest.mark.parametrize(
    "times",
    [
        # long: joins and leaves, again and again; clients/kafka_python/test_commits.py has what is committed during
        # a rebalance, test_reading_on.py with a broker
        pytest.param(4, marks=pytest.mark.long),
        pytest.param(50, marks=[pytest.mark.long, pytest.mark.timeout(1200)]),
    ],
)
def test_ours_commits_what_it_keeps_through_every_rebalance(kafka_broker: Broker, tmp_path: Path, times: int) -> None:
    history, verdict = churn(kafka_broker, tmp_path, "cooperative-sticky", times)

    assert verdict.value is True, "\n".join(verdict_lines(verdict))
    assert verdict.checked["G1"] >= 2 * times
    assert verdict.checked["C2"] >= 2 * times  # C4 judges those that left something uncommitted
    assert refused_of_what_is_kept(history, verdict) == []
    lost = [event for event in history.events if event.kind == "commit_fail"]
    assert [event for event in lost if LOST not in event.data["error"]] == []


@pytest.mark.broker
@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.source("getsentry/arroyo#168")
@pytest.mark.parametrize("times", [4, 50])
def test_kafka_pythons_own_is_refused_them(kafka_broker: Broker, tmp_path: Path, times: int) -> None:
    """What ours is for: where this fails, a newer kafka-python no longer needs it."""
    history, verdict = churn(kafka_broker, tmp_path, "kafka-python:cooperative-sticky", times)

    refused = refused_of_what_is_kept(history, verdict)
    assert refused
    assert {event.data["error"].partition(":")[0] for event in refused} == {"RebalanceInProgressError"}
