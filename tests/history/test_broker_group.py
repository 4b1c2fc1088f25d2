"""A KIP-848 group from its records: one partition changes hands, a static member returns, a pattern, a migration."""

from __future__ import annotations

from typing import Any

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.broker_group import (
    AWAY_EPOCH,
    CURRENT,
    GROUP,
    MEMBER,
    PARTITIONS,
    PATTERN,
    STABLE,
    TARGET,
    TARGET_EPOCH,
    UNREVOKED,
    BrokerGroup,
    topic_ids,
)
from kafka_assignors.history.coordinator_log import BrokerAssigned

T = "AAAAAAAAAAAAAAAAAAAAAQ"


def places(*partitions: int) -> list[dict[str, Any]]:
    return [{"topicId": T, "partitions": list(partitions)}] if partitions else []


def metadata(**fields: Any) -> dict[str, Any]:
    return {
        "instanceId": None, "rackId": None, "clientId": "c", "clientHost": "/h", "subscribedTopicNames": ["orders"],
        "subscribedTopicRegex": None, "rebalanceTimeoutMs": 300_000, "serverAssignor": None, **fields,
    }  # fmt: skip


def current(epoch: int, state: int, assigned: list[Any], revoking: list[Any] | None = None) -> dict[str, Any]:
    return {
        "memberEpoch": epoch, "previousMemberEpoch": epoch - 1, "state": state, "assignedPartitions": assigned,
        "partitionsPendingRevocation": revoking or [],
    }  # fmt: skip


def after(*said: tuple[str, str | None, dict[str, Any] | None]) -> BrokerGroup:
    group = BrokerGroup("g")
    for record, member, fields in said:
        group.take(BrokerAssigned(record, "g", member, fields))
    return group


ALONE = (
    (GROUP, None, {"epoch": 1}),
    (MEMBER, "a", metadata()),
    (TARGET, "a", {"topicPartitions": places(0, 1)}),
    (TARGET_EPOCH, None, {"assignmentEpoch": 1}),
    (CURRENT, "a", current(1, STABLE, places(0, 1))),
)
JOINS = (
    (GROUP, None, {"epoch": 2}),
    (MEMBER, "b", metadata(clientId="d")),
    (TARGET, "a", {"topicPartitions": places(0)}),
    (TARGET, "b", {"topicPartitions": places(1)}),
    (TARGET_EPOCH, None, {"assignmentEpoch": 2}),
)


def test_a_group_is_settled_once_every_member_has_its_target() -> None:
    assert after(*ALONE).settled
    assert not after(*ALONE, *JOINS).settled
    hand_over = (
        (CURRENT, "a", current(1, UNREVOKED, places(0), places(1))),
        (CURRENT, "a", current(2, STABLE, places(0))),
        (CURRENT, "b", current(2, STABLE, places(1))),
    )
    assert [after(*ALONE, *JOINS, *hand_over[:n]).settled for n in (1, 2, 3)] == [False, False, True]
    during = after(*ALONE, *JOINS, *hand_over[:1]).members["a"]
    assert (during.epoch, during.state) == (1, UNREVOKED)
    assert (during.assigned, during.revoking) == ({TopicPartition(T, 0)}, {TopicPartition(T, 1)})


def test_an_epoch_whose_target_is_still_computed_is_not_settled() -> None:
    assert not after(*ALONE, (GROUP, None, {"epoch": 2})).settled


def test_a_member_that_leaves_is_gone_and_a_static_one_is_away() -> None:
    left = after(*ALONE, (CURRENT, "a", None), (TARGET, "a", None), (MEMBER, "a", None))
    assert left.members == {}
    away = after(*ALONE, (CURRENT, "a", current(AWAY_EPOCH, STABLE, places(0, 1)))).members["a"]
    assert (away.epoch, len(away.assigned)) == (AWAY_EPOCH, 2)


def test_a_pattern_subscribes_to_the_topics_that_the_broker_found() -> None:
    group = after((MEMBER, "a", metadata(subscribedTopicNames=["x"], subscribedTopicRegex="ord.*")))
    assert group.subscribed("a") == {"x"}
    found = {"topics": ["orders", "ordinary"], "version": 1, "timestamp": 2}
    group.take(BrokerAssigned(PATTERN, "g", None, found, "ord.*"))
    assert group.subscribed("a") == {"x", "orders", "ordinary"}
    group.take(BrokerAssigned(PATTERN, "g", None, None, "ord.*"))
    assert group.subscribed("a") == {"x"}


def test_a_member_of_the_classic_protocol_is_known_as_such() -> None:
    classic = metadata(classicMemberMetadata={"sessionTimeoutMs": 45_000, "supportedProtocols": []})
    assert after((MEMBER, "a", classic)).members["a"].classic
    assert not after((MEMBER, "a", metadata())).members["a"].classic


def test_older_brokers_tell_the_names_of_topic_ids() -> None:
    topics = [{"topicId": T, "topicName": "orders", "numPartitions": 2, "partitionMetadata": []}]
    assert after((PARTITIONS, None, {"topics": topics})).names == {T: "orders"}
    assert topic_ids(current(1, UNREVOKED, places(0), places(1))) == {T}
    assert topic_ids(None) == frozenset()
