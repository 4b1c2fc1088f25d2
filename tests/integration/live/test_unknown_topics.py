"""A leader that has no metadata of a topic, as only others read it: it reads them before it assigns."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener
from kafka.admin import KafkaAdminClient

from kafka_assignors import CooperativeStickyAssignor, RangeAssignor
from kafka_assignors.integration.broker import Broker
from tests.support.kafka_python.polling import Polling
from tests.support.waiting import until

pytestmark = pytest.mark.broker

COLD = 4
"""Members that lack the topic. The coordinator elects any of those that are left, so nearly always one of these."""


class GaveUp(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.partitions: list[Any] = []

    def on_partitions_assigned(self, assigned: Any) -> None: ...

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.partitions += revoked

    on_partitions_lost = on_partitions_revoked


class Counting:
    """Tells in which generations it led, and of how many partitions of each topic it knew then."""

    def __init__(self) -> None:
        super().__init__()
        self.led: list[dict[str, int]] = []

    def assign(self, cluster: Any, members: Any) -> Any:
        answer = super().assign(cluster, members)  # type: ignore[misc]
        topics = set().union(*(member.metadata.topics for member in members))
        self.led.append({topic: len(cluster.partitions_for_topic(topic) or ()) for topic in topics})
        return answer


class Cooperative(Counting, CooperativeStickyAssignor):
    pass


class Range(Counting, RangeAssignor):
    pass


def changed_leader(
    broker: Broker, topic: Callable[..., str], cls: type[Any], stack: ExitStack, delete: Callable[[str], None] | None
) -> tuple[str, list[Any], list[dict[str, int]]]:
    """A leader leaves that read two topics; the holder of the second one stays, and members that never read it.

    Args:
        delete: Deletes the second topic just before.

    Returns:
        The second topic, what its holder gave up since, and what the new leader saw in each generation.
    """
    own, other = topic(partitions=COLD + 2), topic(partitions=2)
    group, gave_up = f"unknown-{other}", GaveUp()
    leader = Polling(broker, group, [own], [cls], "leader")
    stack.callback(leader.stop)
    until(lambda: len(leader.consumer.assignment()) == COLD + 2, "the leader has its topic alone")
    holder = Polling(broker, group, [own, other], [cls], "holder", listener=gave_up)
    stack.callback(holder.stop)
    assignors = [cls() for _ in range(COLD)]
    cold = [Polling(broker, group, [own], [each], f"cold-{n}") for n, each in enumerate(assignors)]
    for each in cold:
        stack.callback(each.stop)

    def at_rest(members: list[Polling], topics: set[str]) -> bool:
        held = [tp for each in members for tp in each.consumer.assignment()]
        whole = len(set(held)) == len(held) == COLD + 2 * len(topics) and {tp.topic for tp in held} == topics
        return whole and all(each.partitions for each in members) and len({each.generation for each in members}) == 1

    until(lambda: at_rest([leader, holder, *cold], {own, other}), "everybody has a partition")
    gave_up.partitions.clear()
    if delete is not None:
        delete(other)
    leader.stop()
    left = {own} if delete is not None else {own, other}
    until(lambda: at_rest([holder, *cold], left), "those who are left have everything")
    return other, [tp for tp in gave_up.partitions if tp.topic == other], [s for each in assignors for s in each.led]


@pytest.mark.long  # long: up to five groups; clients/kafka_python/test_rejoining.py has a leader that learns of a topic
# long: up to five groups, of an assignor without a memory
@pytest.mark.parametrize("cls", [Cooperative, pytest.param(Range, marks=pytest.mark.long)])
def test_who_holds_a_topic_that_a_new_leader_does_not_read_keeps_it(
    kafka_broker: Broker, kafka_topic: Callable[..., str], cls: type[Any]
) -> None:
    for _ in range(5):
        with ExitStack() as stack:
            other, gave_up, led = changed_leader(kafka_broker, kafka_topic, cls, stack, None)
        if led:  # or else the holder was elected
            assert all(seen[other] == 2 for seen in led), led
            if cls is Cooperative:
                assert gave_up == []
            return
    raise AssertionError("none of five leaders was new to the topic")


@pytest.mark.long  # long: one more group; test_faults.py deletes a topic while a group runs
def test_a_new_leader_keeps_a_deleted_topic_for_nobody(
    kafka_broker: Broker, kafka_admin: KafkaAdminClient, kafka_topic: Callable[..., str]
) -> None:
    """It lacks the topic before it asks, and it lacks the topic in the answers."""
    for _ in range(5):
        with ExitStack() as stack:
            other, gave_up, led = changed_leader(
                kafka_broker, kafka_topic, Cooperative, stack, lambda topic: kafka_admin.delete_topics([topic])
            )
        if led:
            assert led[0].get(other) == 0
            assert [tp.partition for tp in sorted(gave_up)] == [0, 1]
            return
    raise AssertionError("none of five leaders was new to the topic")
