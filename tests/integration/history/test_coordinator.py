"""The reader of the coordinator log beside what members say, and what it makes of a group that it can't judge."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from kafka_assignors.history.events import Event
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from tests.support.histories.schema import faults
from tests.support.histories.story import churn
from tests.support.integration.fixtures import MakeGroup, MakeTopic

DEADLINE_S = 30


def of_kind(folder: Path, kind: str) -> list[Event]:
    return [event for event in History.load(folder).events if event.kind == kind]


@pytest.mark.broker
def test_each_generation_that_members_tell_of_is_in_the_log_and_no_other(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """Cooperative members, each of which adopts every generation that it was in."""
    topic, group = kafka_topic(partitions=6), unjudged_group()
    for name in ("m1", "m2", "m3"):
        group.start(name, [topic], ["cooperative-sticky"])
        group.wait_stable()
    group.stop("m1")
    group.wait_stable()
    group.close()

    logged = {e.data["generation"]: e.data["members"] for e in of_kind(tmp_path, "generation_committed")}
    told = {(e.data["generation"], e.member) for e in of_kind(tmp_path, "generation")}
    in_log = {(number, member["client_id"]) for number, members in logged.items() for member in members}
    # One that left before it heard of the last generation, as others came and went, may not have adopted it.
    assert told <= in_log
    assert {number for number, _ in told} == {number for number, members in logged.items() if members}
    assert len({number for number, _ in told}) >= 4


@pytest.mark.broker
@pytest.mark.source("KIP-848; librdkafka's group.protocol=consumer")
def test_a_group_whose_broker_assigns_is_read_and_judged(
    kafka_broker: Broker, unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, group = kafka_topic(partitions=3), unjudged_group()
    config = {"bootstrap.servers": kafka_broker.bootstrap, "group.id": group.group, "group.protocol": "consumer"}
    with closing(Consumer(config)) as consumer:
        consumer.subscribe([topic])
        deadline = time.monotonic() + DEADLINE_S
        while len(consumer.assignment()) < 3:
            assert time.monotonic() < deadline, "the broker assigned nothing"
            consumer.poll(0.1)
    group.close()

    said = of_kind(tmp_path, "broker_assigned")
    assert [found for event in said if (found := faults(event.to_json()))] == []
    kinds = {event.data["record"].removeprefix("ConsumerGroup") for event in said}
    members = {"MemberMetadata", "TargetAssignmentMember", "CurrentMemberAssignment"}
    assert kinds == {"Metadata", "TargetAssignmentMetadata", *members}
    (subscribed,) = [e for e in said if e.data["record"].endswith("MemberMetadata") and "fields" in e.data]
    assert subscribed.data["fields"]["subscribedTopicNames"] == [topic]
    held = [
        row["partitions"]
        for event in said
        if event.member_id == subscribed.member_id and event.data["record"].endswith("CurrentMemberAssignment")
        for row in event.data.get("fields", {}).get("assignedPartitions", ())
    ]
    assert sorted(held[-1]) == [0, 1, 2]
    assert any("fields" not in event.data for event in said), "it left, and its records were deleted"
    verdict = check(History.load(tmp_path))
    assert (verdict.value, verdict.violations, verdict.unknown) == (True, (), ())
    assert min(verdict.checked["G1"], verdict.checked["O2"]) > 0


@pytest.mark.slow
def test_a_record_of_the_group_that_cannot_be_read_makes_its_verdict_unknown() -> None:
    story = churn("range")
    for _ in range(2):
        story.tell("unread", "coordlog", reason="group metadata value version 9")

    verdict = check(story.history)

    assert [found for event in story.events if (found := faults(event.to_json()))] == []
    assert verdict.value is None
    assert verdict.unknown == ("the coordinator log of group 'g' has group metadata value version 9",)
