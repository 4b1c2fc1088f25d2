"""A member joins a cooperative group with default heartbeats (3 s): the second round does not wait for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Sender

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

DEFAULT_HEARTBEAT_MS, SESSION_MS = 3000, 45_000
GAP_MS = 1500
"""Between the 3 s of a heartbeat, that the new member would wait for, and the milliseconds that it needs."""


@pytest.mark.parametrize(
    ("assignor", "member"),
    [
        ("cooperative-sticky", {}),
        ("kafka-python:cooperative-sticky", {"guarded": True}),
        ("cooperative-sticky", {"client": "bridge"}),
    ],
    ids=["ours", "kafka-python-guarded", "bridge"],
)
def test_a_join_stops_no_partition_until_the_next_heartbeat(
    kafka_broker: Broker, unjudged_group: Callable[..., MemberGroup], kafka_topic: Callable[..., str],
    tmp_path: Path, assignor: str, member: dict[str, Any],
) -> None:  # fmt: skip
    topic = kafka_topic(partitions=12)
    group = unjudged_group(session_timeout_ms=SESSION_MS, heartbeat_interval_ms=DEFAULT_HEARTBEAT_MS)
    with Sender(kafka_broker.bootstrap, tmp_path, "run", [topic], "roundrobin", 50):
        for name in ("m1", "m2", "m3"):
            group.step(f"{name} joins", gap_ms=GAP_MS)
            group.start(name, [topic], [assignor], **member)
            stable = group.wait_stable(timeout_s=60)
    assert sorted(map(len, (owned[topic] for owned in stable.owned.values()))) == [4, 4, 4]
    group.drain()
    group.close()

    verdict = check(History.load(tmp_path))
    assert (verdict.violations, verdict.value) == ((), True), verdict.unknown
    assert verdict.checked["O4"]
