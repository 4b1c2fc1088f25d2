"""A leader whose poll ends before its join does: kafka-python forgets the join, our assignors make it join again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient
from kafka.coordinator.assignors.range import RangePartitionAssignor

from integration.broker import Broker
from kafka_assignors import RangeAssignor

from .polling import Polling, until

POLL_MS = 100


class Slow:
    """Once told to, assigns for longer than a poll of its consumer lasts, as a large group makes it do."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = threading.Event()

    def assign(self, cluster: Any, members: Any) -> Any:
        answer = super().assign(cluster, members)  # type: ignore[misc]
        if self.slow.is_set():
            threading.Event().wait(4 * POLL_MS / 1000)
        return answer


class SlowOurs(Slow, RangeAssignor):
    pass


class SlowTheirs(Slow, RangePartitionAssignor):
    pass


@pytest.mark.broker
@pytest.mark.parametrize(("assignor", "stays"), [(SlowOurs, True), (SlowTheirs, False)], ids=["ours", "kafka-python's"])
@pytest.mark.source("kafka-python 3.0.12 kafka/coordinator/base.py join_group_async, consumer.py need_rejoin")
def test_leader_that_learns_of_a_topic_stays_in_its_group(
    kafka_broker: Broker, kafka_admin: KafkaAdminClient, kafka_topic: Callable[..., str],
    assignor: type[Slow], stays: bool,
) -> None:  # fmt: skip
    """A second member brings a topic that the leader's metadata lack, so the leader rejoins by itself."""
    own, other = kafka_topic(partitions=2), kafka_topic(partitions=2)
    group = f"guard-{own}"

    def members() -> set[str]:
        return {m["client_id"] for m in kafka_admin.describe_groups([group])[group]["members"]}

    slow = assignor()
    leader = Polling(kafka_broker, group, [own], [slow], assignor.__name__, POLL_MS)
    try:
        until(lambda: len(leader.consumer.assignment()) == 2, "the leader has its topic alone")
        slow.slow.set()
        second = Polling(kafka_broker, group, [own, other], [RangeAssignor], "second", POLL_MS)
        try:
            until(lambda: len(second.consumer.assignment()) >= 2, "the second member has the other topic")
            if stays:
                until(
                    lambda: (
                        leader.generation == second.generation
                        and sorted(len(p.consumer.assignment()) for p in (leader, second)) == [1, 3]
                    ),
                    "both are in one generation and own everything",
                )
                assert members() == {"SlowOurs", "second"}
            else:
                until(lambda: members() == {"second"}, "the leader is evicted")
                assert leader.is_alive(), "its polls tell nothing of that"
        finally:
            second.stop()
    finally:
        leader.stop()
