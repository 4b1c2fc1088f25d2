"""What `plan` says a live group will do is what the group then does, with our leaders and with Java's."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.members.group import MemberGroup
from tests.support.live.predicting import Predicted


@pytest.mark.broker
@pytest.mark.parametrize(("client", "assignor"), [("kafka-python", "cooperative-sticky"), ("java", "range")])
def test_a_group_does_what_was_planned(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path, client: str, assignor: str
) -> None:
    """A join, a leave and a growth; `benchmarks/predictions.py` makes 200."""
    group, topics = f"g-{uuid.uuid4().hex[:8]}", {kafka_topic(partitions=6): 6}
    members = MemberGroup(kafka_broker.bootstrap, group, tmp_path, "run", session_timeout_ms=10_000)
    with members, Predicted(kafka_broker.bootstrap, members, client, assignor, topics, seed=7) as predicted:
        made = list(predicted.predictions(3))

    assert [each.change for each in made] == ["join", "leave", "growth"]
    for each in made:
        assert each.planned == each.did, each.options
