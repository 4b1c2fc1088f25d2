"""The guard of real KafkaConsumers that never reach a broker; see `scenario/test_faults.py` for a live one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as Theirs
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import FencedInstanceIdError, GroupAuthorizationFailedError, KafkaConnectionError, StaleMetadata
from kafka.protocol.consumer import HeartbeatResponse
from kafka.structs import TopicPartition

from kafka_assignors import CooperativeStickyAssignor, RangeAssignor, guard
from kafka_assignors.clients.kafka_python import private
from kafka_assignors.errors import ConfigError
from tests.support.kafka_python.silent import MakeConsumer, holding, silent_consumers

FENCED, UNKNOWN_MEMBER = 82, 25


class Lost(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.lost: set[TopicPartition] = set()
        self.revoked: list[int] = []

    def on_partitions_assigned(self, assigned: Any) -> None: ...

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.revoked.append(len(revoked))

    def on_partitions_lost(self, lost: Any) -> None:
        self.lost |= set(lost)


@pytest.fixture
def consumer() -> Iterator[MakeConsumer]:
    """Makes consumers in generation 7 that hold two partitions."""
    with silent_consumers() as make:

        def made(*strategy: Any, **config: Any) -> Any:
            one = make(*strategy, **{"group_instance_id": "i", "enable_auto_commit": False, **config})
            if one._coordinator.group_id is None:
                one.subscribe(["t"], listener=Lost())
                return one
            assignor = next(iter(private.consumer.assignors(one._coordinator))).name
            return holding(one, 0, 1, assignor=assignor, listener=Lost())

        yield made


def heartbeat(consumer: Any, error: int) -> None:
    """The coordinator's answer to a heartbeat."""
    answer = HeartbeatResponse(version=4, throttle_time_ms=0, error_code=error)
    consumer._coordinator._handle_heartbeat_response(answer, 0.0)


def joins(consumer: Any) -> Any:
    """What a consumer says as it joins."""
    return dict(consumer._coordinator.group_protocols())


def test_a_fenced_consumer_polls_and_commits_no_more(consumer: MakeConsumer) -> None:
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


def test_a_fenced_consumer_does_not_join_again_and_fence_the_other(consumer: MakeConsumer) -> None:
    """Its poll may have asked the latch just before the heartbeat was answered."""
    fenced = consumer(RangePartitionAssignor)
    guard(fenced)
    with pytest.raises(FencedInstanceIdError):
        heartbeat(fenced, FENCED)
    assert fenced._coordinator.need_rejoin()

    with pytest.raises(FencedInstanceIdError, match="another process has the group_instance_id i"):
        fenced._coordinator._net.run(fenced._coordinator._do_join_and_sync_async)


@pytest.mark.source("kafka-python 3.0.12 kafka/coordinator/base.py _do_heartbeat")
def test_one_without_the_guard_holds_on(consumer: MakeConsumer) -> None:
    fenced = consumer(RangePartitionAssignor)

    with pytest.raises(FencedInstanceIdError):
        heartbeat(fenced, FENCED)

    assert not fenced._coordinator._async_commit_fenced
    assert fenced.group_metadata().generation_id == 7


@pytest.mark.parametrize("cls", [RangeAssignor, CooperativeStickyAssignor])
@pytest.mark.parametrize("form", [lambda cls: cls, lambda cls: cls(), lambda cls: cls.factory()])
def test_ours_guard_their_consumer_from_its_creation_on(
    consumer: MakeConsumer, cls: type[Any], form: Callable[..., Any]
) -> None:
    ours = consumer(form(cls))

    with pytest.raises(FencedInstanceIdError):
        heartbeat(ours, FENCED)

    with pytest.raises(FencedInstanceIdError):
        ours.poll(timeout_ms=0)
    joins(ours)
    once = ours._coordinator._handle_heartbeat_response.__wrapped__
    assert not hasattr(once, "__wrapped__"), "guarded once"


@pytest.mark.source("apache/kafka CommonClientConfigs.DEFAULT_RECONNECT_BACKOFF_MAX_MS")
@pytest.mark.parametrize(("chosen", "longest_ms"), [({}, 1000), ({"reconnect_backoff_max_ms": 9000}, 9000)])
@pytest.mark.parametrize("ours", [True, False])
def test_a_broker_that_is_back_is_tried_within_a_second(
    consumer: MakeConsumer, ours: bool, chosen: dict[str, int], longest_ms: int
) -> None:
    """kafka-python waits up to 30 s between two tries; what its user chose holds."""
    made = consumer(RangeAssignor if ours else RangePartitionAssignor, **chosen)
    if not ours:
        guard(made)
    waits = [made._manager.update_backoff("a broker") for _ in range(30)]
    assert max(waits[10:]) <= 1.2 * longest_ms, "with kafka-python's jitter"


@pytest.mark.parametrize(("strategy", "left"), [(Theirs, 2), (RangePartitionAssignor, 0)])
def test_thrown_out_in_the_middle_of_a_join(consumer: MakeConsumer, strategy: type[Any], left: int) -> None:
    """A cooperative one prepares its join again, which tells what is lost; an eager one has given up all before."""
    out = consumer(strategy)
    guard(out)
    out._coordinator.rejoining = True

    with pytest.raises(Exception, match="UnknownMemberId"):
        heartbeat(out, UNKNOWN_MEMBER)

    assert out._coordinator.rejoining == (left == 0)
    assert len(out.assignment()) == left


@pytest.mark.parametrize(
    ("strategy", "joining", "revoked"),
    [
        (RangePartitionAssignor, True, [2]),  # not guarded
        (RangeAssignor, True, []),
        (RangeAssignor, False, [2]),
        (CooperativeStickyAssignor, True, [2]),
    ],
)
def test_what_was_revoked_to_join_is_not_revoked_again_by_a_close(
    consumer: MakeConsumer, strategy: type[Any], joining: bool, revoked: list[int]
) -> None:
    closed = consumer(strategy)
    closed._coordinator.rejoining = joining
    closed._coordinator._net.run(closed._coordinator._on_close_prepare_async)
    assert closed._subscription.rebalance_listener.revoked == revoked
    assert not closed.assignment()


def test_thrown_out_at_rest_is_kafka_pythons_own_affair(consumer: MakeConsumer) -> None:
    out = consumer(RangePartitionAssignor)
    guard(out)

    with pytest.raises(Exception, match="UnknownMemberId"):
        heartbeat(out, UNKNOWN_MEMBER)

    assert len(out.assignment()) == 2, "lost is told, and they are dropped, by the join that follows"


def test_kafka_pythons_cooperative_assignor_claims_nothing_that_is_lost(consumer: MakeConsumer) -> None:
    assignor = Theirs()
    out = consumer(assignor)
    assignor.member_assignment = out.assignment()
    assert joins(out)["cooperative-sticky"].owned_partitions
    guard(out)

    out._coordinator.reset_generation()

    assert not joins(out)["cooperative-sticky"].owned_partitions


def test_what_is_no_consumer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"object has no coordinator; pass a KafkaConsumer of kafka-python 3\.0\.12"):
        guard(object())


@pytest.mark.parametrize("name", ["rejoining", "_async_commit_fenced"])
def test_one_that_lacks_a_name_is_refused(consumer: MakeConsumer, name: str) -> None:
    """With an assignor of ours it isn't: `tests/clients/kafka_python/test_renamed.py`."""
    made = consumer(RangePartitionAssignor)
    delattr(made._coordinator, name)
    with pytest.raises(ConfigError, match=rf"coordinator lacks {name}; install kafka-python 3\.0\.12"):
        guard(made)
    setattr(made._coordinator, name, False)


@pytest.mark.parametrize("when", ["before", "after", "both"])
@pytest.mark.parametrize("at", ["class", "instance"])
def test_one_that_a_tracing_tool_has_wrapped_is_guarded_all_the_same(
    consumer: MakeConsumer, monkeypatch: pytest.MonkeyPatch, when: str, at: str
) -> None:
    """Such tools leave ``__wrapped__`` behind, and what they put in place may be no bound method.

    They come before or after the consumer's creation, with which its guard comes, or after its first join.
    """
    seen: list[str] = []

    def trace(target: Any) -> None:
        for name in ("_handle_heartbeat_response", "reset_generation", "_do_join_and_sync_async"):
            monkeypatch.setattr(*traced(target, name))

    def traced(target: Any, name: str) -> tuple[Any, str, Any]:
        method = getattr(target, name)

        @functools.wraps(method)
        def tracing(*args: Any, **kwargs: Any) -> Any:
            seen.append(name)
            return method(*args, **kwargs)

        return target, name, tracing

    if at == "class" and when != "after":
        trace(ConsumerCoordinator)
    ours = consumer(CooperativeStickyAssignor)
    if at == "instance" and when != "after":
        trace(ours._coordinator)
    joins(ours)
    if when != "before":
        trace(ConsumerCoordinator if at == "class" else ours._coordinator)
    joins(ours)

    with pytest.raises(FencedInstanceIdError):
        heartbeat(ours, FENCED)
    with pytest.raises(FencedInstanceIdError):
        ours.poll(timeout_ms=0)
    with pytest.raises(FencedInstanceIdError, match="another process has the group_instance_id i"):
        ours._coordinator._net.run(ours._coordinator._do_join_and_sync_async)
    if (when, at) != ("after", "class"):  # what we have put on the instance hides what comes to its class later
        assert {"_handle_heartbeat_response", "reset_generation"} <= set(seen)


def test_a_leader_that_no_broker_tells_of_a_topic_joins_again(consumer: MakeConsumer) -> None:
    """Without metadata it would take the topic from everybody; kafka-python repeats a join that fails with this."""
    cold = consumer(CooperativeStickyAssignor, session_timeout_ms=300, heartbeat_interval_ms=100)
    coordinator = cold._coordinator

    with pytest.raises(StaleMetadata, match="got no metadata of other, t within half a session timeout"):
        coordinator._net.run(private.learning.learn, coordinator, {"t", "other"})

    assert StaleMetadata.retriable


class Away:
    """The search for a coordinator whose broker is away for some tries."""

    def __init__(self, error: Exception, tries: int) -> None:
        self.error, self.tries, self.asked = error, tries, 0

    async def __call__(self, timeout_ms: float | None = None) -> bool:
        self.asked += 1
        if self.asked <= self.tries:
            raise self.error
        return True


def searching(consumer: MakeConsumer, away: Away) -> Any:
    made = consumer(RangePartitionAssignor, retry_backoff_ms=1)
    made._coordinator.ensure_coordinator_ready_async = away
    guard(made)
    return made._coordinator


@pytest.mark.source("kafka-python 3.0.12 kafka/coordinator/base.py ensure_coordinator_ready_async")
def test_a_broker_that_is_away_for_a_moment_is_asked_again(consumer: MakeConsumer) -> None:
    away = Away(KafkaConnectionError("refused"), 3)
    assert searching(consumer, away).ensure_coordinator_ready(timeout_ms=20_000) is True
    assert away.asked == 4


def test_a_broker_that_stays_away_ends_the_search_at_its_time_limit(consumer: MakeConsumer) -> None:
    away = Away(KafkaConnectionError("refused"), 10**9)
    coordinator = searching(consumer, away)
    assert coordinator.ensure_coordinator_ready(timeout_ms=50) is False
    assert coordinator.poll(timeout_ms=0) is False
    with pytest.raises(KafkaConnectionError):
        coordinator._net.run(coordinator.ensure_coordinator_ready_async)  # since 3.1 other calls have a time limit


def test_an_error_that_no_retry_mends_is_raised_at_once(consumer: MakeConsumer) -> None:
    away = Away(GroupAuthorizationFailedError("g"), 1)
    with pytest.raises(GroupAuthorizationFailedError):
        searching(consumer, away).poll(timeout_ms=20_000)
    assert away.asked == 1


def test_a_retriable_error_elsewhere_in_the_poll_ends_it_early(consumer: MakeConsumer) -> None:
    """For example of the refresh of the metadata that a subscription by pattern waits for."""
    made = consumer(RangePartitionAssignor, retry_backoff_ms=1)

    def refuse(timeout_ms: float | None = None) -> bool:
        raise KafkaConnectionError("refused")

    made._coordinator.poll = refuse
    guard(made)
    assert made.poll(timeout_ms=5) == {}
    with pytest.raises(KafkaConnectionError):
        made._coordinator.poll()
