"""A leader whose poll ends before its join does: kafka-python forgets the join, an attached assignor does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient

from integration.broker import Broker
from kafka_assignors import StickyAssignor

POLL_MS = 100
DEADLINE_S = 30


class SlowAssignor(StickyAssignor):
    """Once told to, assigns for longer than a poll of its consumer lasts, as a large group makes it do."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = threading.Event()

    def assign(self, cluster: Any, members: Any) -> Any:
        answer = super().assign(cluster, members)
        if self.slow.is_set():
            threading.Event().wait(4 * POLL_MS / 1000)
        return answer


class Polling(threading.Thread):
    """A consumer that is polled for short times, one after the other, until it is told to stop."""

    def __init__(self, broker: Broker, group: str, topics: list[str], assignor: StickyAssignor, attach: bool) -> None:
        super().__init__(daemon=True)
        self.consumer = KafkaConsumer(
            bootstrap_servers=broker.bootstrap, group_id=group, session_timeout_ms=2000, heartbeat_interval_ms=300,
            partition_assignment_strategy=[assignor], client_id=type(assignor).__name__,
        )  # fmt: skip
        if attach:
            assignor.attach(self.consumer)
        self.topics, self.done = topics, threading.Event()
        self.start()

    def run(self) -> None:
        self.consumer.subscribe(self.topics)
        while not self.done.is_set():
            self.consumer.poll(timeout_ms=POLL_MS)

    @property
    def generation(self) -> int:
        return int(self.consumer.group_metadata().generation_id)

    def stop(self) -> None:
        self.done.set()
        self.join(DEADLINE_S)
        self.consumer.close()


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S} s: {what}"
        threading.Event().wait(0.05)


@pytest.mark.broker
@pytest.mark.parametrize("attach", [True, False], ids=["attached", "not attached"])
@pytest.mark.source("kafka-python 3.0.12 kafka/coordinator/base.py join_group_async, consumer.py need_rejoin")
def test_leader_that_learns_of_a_topic_stays_in_its_group(
    kafka_broker: Broker, kafka_admin: KafkaAdminClient, kafka_topic: Callable[..., str], attach: bool
) -> None:
    """A second member brings a topic that the leader's metadata lack, so the leader rejoins by itself."""
    own, other = kafka_topic(partitions=2), kafka_topic(partitions=2)
    group = f"guard-{own}"

    def members() -> set[str]:
        return {m["client_id"] for m in kafka_admin.describe_groups([group])[group]["members"]}

    assignor = SlowAssignor()
    leader = Polling(kafka_broker, group, [own], assignor, attach)
    try:
        until(lambda: len(leader.consumer.assignment()) == 2, "the leader has its topic alone")
        assignor.slow.set()
        second = Polling(kafka_broker, group, [own, other], StickyAssignor(), True)
        try:
            until(lambda: len(second.consumer.assignment()) >= 2, "the second member has the other topic")
            if attach:
                until(
                    lambda: (
                        leader.generation == second.generation
                        and sorted(len(p.consumer.assignment()) for p in (leader, second)) == [2, 2]
                    ),
                    "both are in one generation and own everything",
                )
                assert members() == {"SlowAssignor", "StickyAssignor"}
            else:
                until(lambda: members() == {"StickyAssignor"}, "the leader is evicted")
                assert leader.is_alive(), "its polls tell nothing of that"
        finally:
            second.stop()
    finally:
        leader.stop()
