"""The guard of real KafkaConsumers that never reach a broker; `tests/harness/test_faults.py` shows it live."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as Theirs
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.base import Generation
from kafka.errors import FencedInstanceIdError
from kafka.protocol.consumer import HeartbeatResponse
from kafka.structs import TopicPartition

from kafka_assignors import CooperativeStickyAssignor, RangeAssignor, guard
from kafka_assignors.errors import ConfigError

Make = Callable[..., Any]
FENCED, UNKNOWN_MEMBER = 82, 25


class Lost(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.lost: set[TopicPartition] = set()

    def on_partitions_assigned(self, assigned: Any) -> None: ...

    def on_partitions_revoked(self, revoked: Any) -> None: ...

    def on_partitions_lost(self, lost: Any) -> None:
        self.lost |= set(lost)


@pytest.fixture
def consumer() -> Iterator[Make]:
    """Makes consumers in generation 7 that hold two partitions."""
    made, silent = [], socket.create_server(("127.0.0.1", 0))

    def make(*strategy: Any, **config: Any) -> Any:
        settings = {"group_id": "g", "group_instance_id": "i", "enable_auto_commit": False, **config}
        at = f"127.0.0.1:{silent.getsockname()[1]}"
        made.append(
            KafkaConsumer(
                bootstrap_servers=at, api_version=(2, 5), partition_assignment_strategy=list(strategy), **settings
            )
        )
        made[-1].subscribe(["t"], listener=Lost())
        if made[-1]._coordinator.group_id is not None:
            made[-1]._coordinator._generation = Generation(7, "m-1", strategy[0].name)
            made[-1]._subscription.assign_from_subscribed([TopicPartition("t", p) for p in range(2)])
        return made[-1]

    yield make
    for each in made:
        each.close(autocommit=False, timeout_ms=100)
    silent.close()


def heartbeat(consumer: Any, error: int) -> None:
    """The coordinator's answer to a heartbeat."""
    answer = HeartbeatResponse(version=4, throttle_time_ms=0, error_code=error)
    consumer._coordinator._handle_heartbeat_response(answer, 0.0)


def joins(consumer: Any) -> Any:
    """What a consumer says as it joins."""
    return dict(consumer._coordinator.group_protocols())


def test_a_fenced_consumer_polls_and_commits_no_more(consumer: Make) -> None:
    fenced = consumer(RangePartitionAssignor)
    guard(fenced)

    with pytest.raises(FencedInstanceIdError):
        heartbeat(fenced, FENCED)

    for _ in range(2):
        with pytest.raises(FencedInstanceIdError, match="group_instance_id i"):
            fenced.poll(timeout_ms=0)
    with pytest.raises(FencedInstanceIdError):
        fenced.commit()
    listener = fenced._subscription.rebalance_listener
    fenced.close(autocommit=False, timeout_ms=100)
    assert listener.lost == {TopicPartition("t", 0), TopicPartition("t", 1)}


def test_a_fenced_consumer_does_not_join_again_and_fence_the_other(consumer: Make) -> None:
    """Its poll may have asked the latch just before the heartbeat was answered."""
    fenced = consumer(RangePartitionAssignor)
    guard(fenced)
    with pytest.raises(FencedInstanceIdError):
        heartbeat(fenced, FENCED)
    assert fenced._coordinator.need_rejoin()

    with pytest.raises(FencedInstanceIdError, match="another process has the group_instance_id i"):
        fenced._coordinator._net.run(fenced._coordinator._do_join_and_sync_async)


@pytest.mark.source("kafka-python 3.0.12 kafka/coordinator/base.py _do_heartbeat")
def test_one_without_the_guard_holds_on(consumer: Make) -> None:
    fenced = consumer(RangePartitionAssignor)

    with pytest.raises(FencedInstanceIdError):
        heartbeat(fenced, FENCED)

    assert not fenced._coordinator._async_commit_fenced
    assert fenced.group_metadata().generation_id == 7


@pytest.mark.parametrize("cls", [RangeAssignor, CooperativeStickyAssignor])
def test_ours_guard_their_consumer_when_it_joins(consumer: Make, cls: type[Any]) -> None:
    ours = consumer(cls)
    joins(ours)
    joins(ours)

    with pytest.raises(FencedInstanceIdError):
        heartbeat(ours, FENCED)

    with pytest.raises(FencedInstanceIdError):
        ours.poll(timeout_ms=0)
    once = ours._coordinator._handle_heartbeat_response.__wrapped__
    assert not hasattr(once, "__wrapped__"), "guarded once"


@pytest.mark.parametrize(("strategy", "left"), [(Theirs, 2), (RangePartitionAssignor, 0)])
def test_thrown_out_in_the_middle_of_a_join(consumer: Make, strategy: type[Any], left: int) -> None:
    """A cooperative one prepares its join again, which tells what is lost; an eager one has given up all before."""
    out = consumer(strategy)
    guard(out)
    out._coordinator.rejoining = True

    with pytest.raises(Exception, match="UnknownMemberId"):
        heartbeat(out, UNKNOWN_MEMBER)

    assert out._coordinator.rejoining == (left == 0)
    assert len(out.assignment()) == left


def test_thrown_out_at_rest_is_kafka_pythons_own_affair(consumer: Make) -> None:
    out = consumer(RangePartitionAssignor)
    guard(out)

    with pytest.raises(Exception, match="UnknownMemberId"):
        heartbeat(out, UNKNOWN_MEMBER)

    assert len(out.assignment()) == 2, "lost is told, and they are dropped, by the join that follows"


def test_kafka_pythons_cooperative_assignor_claims_nothing_that_is_lost(consumer: Make) -> None:
    assignor = Theirs()
    out = consumer(assignor)
    assignor.member_assignment = out.assignment()
    assert joins(out)["cooperative-sticky"].owned_partitions
    guard(out)

    out._coordinator.reset_generation()

    assert not joins(out)["cooperative-sticky"].owned_partitions


def test_a_consumer_that_can_not_be_guarded_is_refused_and_with_ours_told_once(
    consumer: Make, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"coordinator lacks _handle_heartbeat_response, .*for kafka-python 3\.0\.12"):
        guard(object())

    monkeypatch.setattr("kafka_assignors.kafka_guard._NEEDED", ("rejoining", "of_another_version"))
    ours = consumer(RangeAssignor)
    with caplog.at_level(logging.WARNING, "kafka_assignors"):
        joins(ours)
        joins(ours)
    assert [r.getMessage() for r in caplog.records if "guarded" in r.getMessage()] == [
        "range: this consumer can't be guarded: kafka-python's coordinator lacks of_another_version; the guard is made "
        "for kafka-python 3.0.12 and consumers with a group_id"
    ]
