"""What `why` and `exporter` tell of a churn is what the harness did: every generation counted, every cause right."""

from __future__ import annotations

import pytest

from benchmarks.causes import soak
from kafka_assignors.integration.broker import Broker


@pytest.mark.broker
@pytest.mark.long  # long: a soak; operator/live/test_meter.py counts each cause
@pytest.mark.timeout(1200)
def test_every_generation_of_a_churn_is_counted_under_its_cause(kafka_broker: Broker) -> None:
    """The soak of `benchmarks/causes.py`, without its figures of cost."""
    generations = 1000
    found = {each.name: each for each in soak(kafka_broker.bootstrap, 8, generations)}

    assert (found["causes/generations"].value or 0) >= generations
    for name in ("causes/why/uncounted", "causes/why/wrong", "causes/exporter/differs"):
        assert found[name].value == 0, (name, found[name].raw)
