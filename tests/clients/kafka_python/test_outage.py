"""A broker that is killed: a guarded consumer outlives it, even before its first poll; kafka-python's own ends."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaConnectionError

from kafka_assignors import CooperativeStickyAssignor, RangeAssignor, StickyAssignor, guard
from kafka_assignors.integration.broker import start_broker
from kafka_assignors.integration.topics import create_topics
from tests.support.kafka_python.polling import Polling
from tests.support.waiting import until

OUTAGES, AWAY_S = 5, 12


class Reading(Polling):
    """Counts the records that it was given."""

    read = 0

    def polled(self, records: Any) -> None:
        self.read += sum(map(len, records.values()))


class Told(Polling):
    """Polls once it is told to."""

    def __init__(self, *args: Any, **config: Any) -> None:
        self.told = threading.Event()
        super().__init__(*args, **config)

    def run(self) -> None:
        self.told.wait()
        super().run()


@pytest.mark.long  # long: waits for a broker that is away; scenario/test_nodes.py has members whose coordinator goes
@pytest.mark.broker
def test_a_broker_that_is_away_at_the_first_poll_is_waited_for() -> None:
    """An assignor guards its consumer from its creation on, not from its first join."""
    strategies = {"class": CooperativeStickyAssignor, "instance": RangeAssignor(), "factory": StickyAssignor.factory()}
    with start_broker() as broker, contextlib.ExitStack() as stack:
        create_topics(broker.bootstrap, {"t": 2})
        polling = {name: Told(broker, name, ["t"], [strategy], name) for name, strategy in strategies.items()}
        for each in polling.values():
            stack.callback(each.stop)
        node: Any = broker
        node._node.pause()
        for each in polling.values():
            each.told.set()
            coordinator = each.consumer._coordinator
            until(lambda c=coordinator: c._find_coordinator_future is not None, "it looks for its coordinator")
        broker.kill()
        for each in polling.values():
            failures = each.consumer._manager._backoff
            until(lambda f=failures: any(count > 2 for count, *_ in f.values()), "it has tried again")
        broker.restart()
        until(lambda: all(each.partitions == [0, 1] or each.error for each in polling.values()), "they join", 60)
        assert {name: each.error for name, each in polling.items()} == dict.fromkeys(polling)


@pytest.mark.long
@pytest.mark.broker
def test_a_guarded_consumer_outlives_outages_of_its_broker() -> None:
    settings = {"poll_ms": 200, "reconnect_backoff_max_ms": 1000, "auto_offset_reset": "earliest"}
    with start_broker() as broker, contextlib.ExitStack() as stack:
        create_topics(broker.bootstrap, {"t": 2})
        plain, guarded = (
            Reading(broker, name, ["t"], [RangePartitionAssignor], name, **settings) for name in ("plain", "guarded")
        )
        for each in (plain, guarded):
            stack.callback(ended, each)
        guard(guarded.consumer)
        until(lambda: plain.partitions == guarded.partitions == [0, 1], "both joined", 60)
        for sent in range(1, OUTAGES + 1):
            broker.kill()
            time.sleep(AWAY_S)  # the outage itself
            broker.restart()
            with contextlib.closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
                producer.send("t", b"after an outage").get(60)
            until(lambda sent=sent: guarded.read >= sent or guarded.error, "it reads again", 60)
            assert guarded.error is None
        # so the outages were long enough
        assert isinstance(plain.error, KafkaConnectionError)


def ended(polling: Polling) -> None:
    with contextlib.suppress(KafkaConnectionError):
        polling.stop()
