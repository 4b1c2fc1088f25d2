"""A bridged consumer that is closed while a frozen member holds its join up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer

from kafka_assignors import CooperativeStickyAssignor
from kafka_assignors.confluent import BridgedConsumer
from kafka_assignors.integration.broker import Broker
from tests.support.kafka_python.held_up import AT_ONCE_S, HOLDS_MS, HeldUp, held_up, in_join, interrupted_when
from tests.support.waiting import finished, until

pytestmark = pytest.mark.broker


@pytest.fixture
def held(
    kafka_broker: Broker, kafka_admin: KafkaAdminClient, kafka_topic: Callable[..., str], tmp_path: Path
) -> Iterator[HeldUp]:
    with held_up(kafka_broker, kafka_admin, kafka_topic(partitions=4), "cooperative-sticky", tmp_path) as found:
        yield found


def bridged(held: HeldUp) -> BridgedConsumer:
    config = {
        "bootstrap.servers": held.bootstrap, "group.id": held.group, "client.id": "bridged",
        "session.timeout.ms": HOLDS_MS // 2, "heartbeat.interval.ms": 200, "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": HOLDS_MS,
    }  # fmt: skip
    made = BridgedConsumer(config, [CooperativeStickyAssignor])
    made.subscribe([held.topic])
    return made


def test_it_leaves_at_once_and_commits_what_it_read_meanwhile(held: HeldUp, request: pytest.FixtureRequest) -> None:
    """Ctrl-C ends the poll that waits for the join, and the close after it doesn't wait either."""
    bridge = bridged(held)
    request.addfinalizer(bridge.close)
    until(lambda: bridge.poll(0.1) or len(bridge.assignment()) == 2, "it has its share")
    kept = {each.partition for each in bridge.assignment()}
    held.freeze()
    newcomer = KafkaConsumer(
        held.topic, client_id="newcomer", partition_assignment_strategy=[CooperativeStickyAssignor], **held.settings
    )
    until(lambda: newcomer.poll(timeout_ms=100) or in_join(newcomer), "the newcomer joins")
    until(lambda: bridge.poll(0.1) or in_join(bridge._control), "it joins again")
    held.send(1)
    read = 0
    while read < len(kept):
        read += bridge.poll(30) is not None

    with pytest.raises(KeyboardInterrupt), interrupted_when(lambda: bridge._working and in_join(bridge._control)):
        bridge.poll(60)
    finished(bridge.close, AT_ONCE_S)

    assert held.client_ids() == ["frozen", "newcomer"]
    assert held.waits(), "so nothing but the close has ended its join"
    assert dict.fromkeys(kept, 1).items() <= held.committed().items()
    finished(newcomer.close, AT_ONCE_S)
