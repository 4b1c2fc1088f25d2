"""Sound services at drawn settings of their clients are true, whatever happens to their processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_assignors.integration.broker import Broker
from tests.support.live.settings import CLIENTS, drawn, played

pytestmark = [pytest.mark.broker, pytest.mark.source("kafka-python's, aiokafka's and librdkafka's configurations")]
SHORT = {("kafka-python", 15), ("confluent-kafka", 9), ("aiokafka", 17)}
"""Static members, and a cooperative group whose commits are not waited for."""


@pytest.mark.parametrize(
    ("client", "seed"),
    [
        pytest.param(client, seed, marks=() if (client, seed) in SHORT else pytest.mark.long)
        for client in CLIENTS
        for seed in range(20)
    ],
)
@pytest.mark.release("test_service_faults.py plays a sound service")
def test_a_sound_service_is_true(client: str, seed: int, kafka_broker: Broker, tmp_path: Path) -> None:
    outcome = played(drawn(client, seed), kafka_broker, tmp_path)

    assert (outcome.value, outcome.violations, outcome.unknown) == (True, (), ()), outcome.settings
