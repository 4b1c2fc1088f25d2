"""A broker that is killed time after time: a guarded consumer outlives it, kafka-python's own ends."""

from __future__ import annotations

import contextlib
import time

import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaConnectionError

from kafka_assignors import guard
from kafka_assignors.integration.broker import start_broker
from kafka_assignors.integration.topics import create_topics
from tests.support.kafka_python.polling import Polling
from tests.support.waiting import until

OUTAGES, AWAY_S = 5, 12


@pytest.mark.long
@pytest.mark.broker
def test_a_guarded_consumer_outlives_outages_of_its_broker() -> None:
    with start_broker() as broker, contextlib.ExitStack() as stack:
        create_topics(broker.bootstrap, {"t": 2})
        polling = {}
        for name in ("plain", "guarded"):
            patient = {"reconnect_backoff_max_ms": 1000} if name == "guarded" else {}
            polling[name] = Polling(broker, name, ["t"], [RangePartitionAssignor], name, poll_ms=200, **patient)
            stack.callback(ended, polling[name])
        guard(polling["guarded"].consumer)
        until(lambda: all(each.partitions == [0, 1] for each in polling.values()), "both joined", 60)
        guarded = polling["guarded"]
        for _ in range(OUTAGES):
            before = guarded.generation
            broker.kill()
            time.sleep(AWAY_S)  # the outage itself
            broker.restart()
            until(lambda before=before: guarded.generation > before or guarded.error, "it joined again", 60)
            assert guarded.error is None
        # so the outages were long enough
        assert isinstance(polling["plain"].error, KafkaConnectionError)


def ended(polling: Polling) -> None:
    with contextlib.suppress(KafkaConnectionError):
        polling.stop()
