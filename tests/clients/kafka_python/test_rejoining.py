"""A leader whose poll ends before its join does: kafka-python forgets the join, our assignors make it join again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import MemberState

from kafka_assignors import RangeAssignor
from kafka_assignors.integration.broker import Broker
from tests.support.kafka_python.polling import Polling
from tests.support.waiting import until

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


@pytest.fixture
def meeting(
    kafka_broker: Broker, kafka_admin: KafkaAdminClient, kafka_topic: Callable[..., str]
) -> Callable[[Slow], Any]:
    """A slow leader has a topic alone; then a second member brings one that the leader's metadata lack.

    So the leader rejoins by itself. Yields the leader, the second member, and who is in the group.
    """

    @contextmanager
    def meet(slow: Slow) -> Iterator[tuple[Polling, Polling, Callable[[], set[str]]]]:
        own, other = kafka_topic(partitions=2), kafka_topic(partitions=2)
        group = f"guard-{own}"

        def members() -> set[str]:
            return {m["client_id"] for m in kafka_admin.describe_groups([group])[group]["members"]}

        with ExitStack() as stack:
            leader = Polling(kafka_broker, group, [own], [slow], "leader", POLL_MS)
            stack.callback(leader.stop)
            until(lambda: len(leader.consumer.assignment()) == 2, "the leader has its topic alone")
            slow.slow.set()
            second = Polling(kafka_broker, group, [own, other], [RangeAssignor], "second", POLL_MS)
            stack.callback(second.stop)
            until(lambda: len(second.consumer.assignment()) >= 2, "the second member has the other topic")
            yield leader, second, members

    return meet


@pytest.mark.broker
def test_our_leader_that_learns_of_a_topic_stays_in_its_group(meeting: Callable[[Slow], Any]) -> None:
    with meeting(SlowOurs()) as (leader, second, members):
        until(
            lambda: (
                leader.generation == second.generation
                and leader.consumer.group_metadata().state is MemberState.STABLE  # its join is complete
                and sorted(len(p.consumer.assignment()) for p in (leader, second)) == [1, 3]
            ),
            "both are in one generation and own everything",
        )
        assert members() == {"leader", "second"}


@pytest.mark.broker
@pytest.mark.long
@pytest.mark.source("kafka-python 3.0.12 kafka/coordinator/base.py join_group_async, consumer.py need_rejoin")
def test_a_leader_of_kafka_python_does_not(meeting: Callable[[Slow], Any]) -> None:
    """The defect that ours work around. A heartbeat at the right time hides it, on a busy machine; hence the tries."""
    for last in (False, False, False, True):
        with meeting(SlowTheirs()) as (leader, _second, members):
            try:
                until(lambda: members() == {"second"}, "the leader is evicted", 10)
            except AssertionError:
                if last:
                    raise
            else:
                assert leader.is_alive(), "its polls tell nothing of that"
                return
