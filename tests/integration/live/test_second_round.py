"""A member joins a cooperative group with default heartbeats (3 s): the second round does not wait for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import Verdict, check, planned
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Sender
from tests.support.integration.early import DEFAULT_HEARTBEAT_MS, SESSION_MS, early

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]


def joined(
    broker: Broker, group: MemberGroup, topic: str, folder: Path, assignor: str, member: dict[str, Any]
) -> Verdict:
    """Three members join one after the other while records are sent; no step says how long a partition may be alone."""
    with Sender(broker.bootstrap, folder, "run", [topic], "roundrobin", 50):
        for name in ("m1", "m2", "m3"):
            group.step(f"{name} joins")
            group.start(name, [topic], [assignor], **member)
            stable = group.wait_stable(timeout_s=60)
    assert sorted(map(len, (owned[topic] for owned in stable.owned.values()))) == [4, 4, 4]
    group.drain()
    group.close()
    return check(History.load(folder))


@early(pytest.mark.long)  # long: members that have early heartbeats by the same guard
def test_a_join_stops_no_partition_until_the_next_heartbeat(
    kafka_broker: Broker, unjudged_group: Callable[..., MemberGroup], kafka_topic: Callable[..., str],
    tmp_path: Path, assignor: str, member: dict[str, Any],
) -> None:  # fmt: skip
    group = unjudged_group(session_timeout_ms=SESSION_MS, heartbeat_interval_ms=DEFAULT_HEARTBEAT_MS)

    verdict = joined(kafka_broker, group, kafka_topic(partitions=12), tmp_path, assignor, member)

    assert (verdict.violations, verdict.value) == ((), True), verdict.unknown
    # By itself: what moved to the second and to the third member. Who is closed last may own all for a moment.
    assert verdict.checked["O4"] == 6 + 4
    assert all(why.endswith(planned.UNSTABLE) for why in verdict.skipped.get("O4", {}))


@pytest.mark.long  # long: waits for heartbeats of 15 s; checker/judge/test_planned.py has the law without members
def test_a_join_that_waits_for_a_heartbeat_is_false_by_itself(
    kafka_broker: Broker, unjudged_group: Callable[..., MemberGroup], kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The members of a guarded group whose early heartbeats are broken.

    Their interval is longer than a busy machine takes for all else, which would pass a part of it.
    """
    group = unjudged_group(session_timeout_ms=SESSION_MS, heartbeat_interval_ms=SESSION_MS // 3)
    deaf = "tests.support.integration.planted:Deaf"

    verdict = joined(kafka_broker, group, kafka_topic(partitions=12), tmp_path, deaf, {"guarded": True})

    assert {violation.law for violation in verdict.violations} == {"O4"}
    assert "all members ask early" in verdict.violations[0].message
