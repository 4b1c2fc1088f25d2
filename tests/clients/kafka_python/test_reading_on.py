"""A cooperative member reads on while its group rebalances, and its early heartbeats stay few (`guard`)."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener, KafkaProducer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as TheirAssignor

from kafka_assignors import CooperativeStickyAssignor, guard
from kafka_assignors.integration.broker import Broker
from tests.support.kafka_python.polling import Polling
from tests.support.waiting import until

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]
PARTITIONS = 12
EARLY = 8
"""Heartbeats of one adoption: at once, then after 25, 50, … 1,600 ms."""


class Slow(ConsumerRebalanceListener):
    """Its ``on_partitions_revoked`` takes as long as the test wants."""

    def __init__(self) -> None:
        self.revokes, self.goes_on = threading.Event(), threading.Event()

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.revokes.set()
        self.goes_on.wait(60)

    def on_partitions_assigned(self, assigned: Any) -> None: ...


class Counting(Polling):
    """Counts its records per partition, and its requests to the coordinator by type."""

    def __init__(self, *args: Any, guarded: bool = False, **config: Any) -> None:
        self.read: Counter[int] = Counter()
        self.places: Counter[tuple[int, int]] = Counter()
        """How often a record was read, by partition and offset."""
        self.requests: Counter[str] = Counter()
        self.goes_on = threading.Event()
        """Cleared: it works on the records of its last poll."""
        self.goes_on.set()
        super().__init__(*args, **config)
        if guarded:
            guard(self.consumer)
        manager = self.consumer._client._manager
        send = manager.send

        def counted(request: Any, *rest: Any, **named: Any) -> Any:
            self.requests[type(request).__name__] += 1
            return send(request, *rest, **named)

        manager.send = counted

    def polled(self, records: Any) -> None:
        self.goes_on.wait(60)
        self.read.update({tp.partition: len(each) for tp, each in records.items()})
        self.places.update((record.partition, record.offset) for each in records.values() for record in each)


@pytest.fixture
def members(kafka_broker: Broker, kafka_topic: Callable[..., str]) -> Iterator[Callable[..., Counting]]:
    """Makes members of one group with default heartbeats, on a topic to which records are sent all the time."""
    topic, ends = kafka_topic(partitions=PARTITIONS), threading.Event()
    producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap, linger_ms=0)

    def send() -> None:
        number = 0
        while not ends.wait(0.005):
            producer.send(topic, b"x", partition=(number := number + 1) % PARTITIONS)

    sending = threading.Thread(target=send, daemon=True)
    sending.start()
    with ExitStack() as undo:
        undo.callback(producer.close)
        undo.callback(sending.join)
        undo.callback(ends.set)

        def make(name: str, assignor: Any, listener: Any = None, **config: Any) -> Counting:
            settings = {
                "session_timeout_ms": 45_000, "heartbeat_interval_ms": 3000, "auto_offset_reset": "earliest", **config
            }  # fmt: skip
            made = Counting(
                kafka_broker, f"group-{topic}", [topic], [assignor], name, 1000, listener,
                guarded=assignor is TheirAssignor, **settings,
            )  # fmt: skip
            undo.callback(made.stop)
            return made

        yield make


def shared(*members: Counting) -> Callable[[], bool]:
    return lambda: sorted(len(each.partitions) for each in members) == [PARTITIONS // len(members)] * len(members)


# long: what the guard does for kafka-python's own, the second test has
OURS = pytest.mark.parametrize(
    "assignor",
    [CooperativeStickyAssignor, pytest.param(TheirAssignor, marks=pytest.mark.long)],
    ids=["ours", "kafka-python-guarded"],
)


@OURS
def test_a_slow_callback_of_one_makes_no_other_wait_or_spin(members: Callable[..., Counting], assignor: Any) -> None:
    """Two members must give partitions to a third. One takes long to do so; the other has joined again and waits."""
    slow = Slow()
    a = members("a", assignor, slow)
    until(lambda: len(a.partitions) == PARTITIONS, "one has all")
    slow.goes_on.set()
    b = members("b", assignor)
    until(shared(a, b), "two share", within_s=60)
    slow.revokes.clear()
    slow.goes_on.clear()

    c = members("c", assignor)
    until(slow.revokes.is_set, "the third has joined", within_s=60)
    until(lambda: b.consumer._coordinator.rebalance_in_progress(), "the second has revoked, and joins again")
    before, requests, begun = b.read.total(), Counter(b.requests), time.monotonic()
    until(lambda: b.read.total() > before + 100, "it reads on")
    until(lambda: time.monotonic() > begun + 3, "the time in which one that spins would tell")

    assert b.consumer._coordinator.rebalance_in_progress(), "it still waits for the join"
    sent = b.requests - requests
    assert sent["JoinGroupRequest"] == sent["HeartbeatRequest"] == sent["SyncGroupRequest"] == 0
    assert c.requests["JoinGroupRequest"] <= 4
    assert c.requests["HeartbeatRequest"] <= EARLY + 2
    slow.goes_on.set()
    until(shared(a, b, c), "three share", within_s=60)


@pytest.mark.parametrize("assignor", [CooperativeStickyAssignor, TheirAssignor], ids=["ours", "kafka-python-guarded"])
def test_what_is_read_during_a_join_is_committed_before_it_is_given_up(
    members: Callable[..., Counting], assignor: Any
) -> None:
    """With the defaults: the consumers commit by themselves, every 5 s. No record is read twice."""
    a = members("a", assignor, enable_auto_commit=True)
    until(lambda: len(a.partitions) == PARTITIONS, "one has all")
    b = members("b", assignor, enable_auto_commit=True)
    until(shared(a, b), "two share", within_s=60)
    a.goes_on.clear()
    c = members("c", assignor, enable_auto_commit=True)
    until(lambda: b.consumer._coordinator.rebalance_in_progress(), "it joins again, and waits for the busy one")
    before = Counter(b.read)
    until(lambda: all(b.read[each] > before[each] + 10 for each in b.partitions), "it reads on")
    a.goes_on.set()
    until(shared(a, b, c), "three share", within_s=60)
    until(lambda: all(c.read[each] > 5 for each in c.partitions), "it reads all that it has got")

    assert (a.places + b.places + c.places).most_common(1)[0][1] == 1


@OURS
def test_a_member_at_rest_sends_a_heartbeat_per_interval(members: Callable[..., Counting], assignor: Any) -> None:
    interval_s, intervals = 0.5, 6
    a = members("a", assignor, heartbeat_interval_ms=1000 * interval_s, session_timeout_ms=6000)
    until(lambda: len(a.partitions) == PARTITIONS, "it has all")
    until(lambda: a.requests["HeartbeatRequest"] > EARLY, "its early heartbeats are over")
    before, begun = Counter(a.requests), time.monotonic()
    until(lambda: time.monotonic() > begun + interval_s * intervals, "some intervals")
    took_s, sent = time.monotonic() - begun, a.requests - before
    assert 1 <= sent["HeartbeatRequest"] <= took_s / interval_s + 1
    assert set(sent) <= {"HeartbeatRequest", "FetchRequest", "OffsetCommitRequest", "MetadataRequest"}
