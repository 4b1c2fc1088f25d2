"""Co-partitioned topics on a real broker: equal partition numbers stay at one member, under either client's leader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup

pytestmark = pytest.mark.broker

CLIENTS = {"m1": "kafka-python", "m2": "aiokafka", "m3": "kafka-python", "m4": "aiokafka"}


def test_bundles_stay_whole_through_join_leave_and_kill(
    unjudged_group: Callable[..., MemberGroup], kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topics, group = [kafka_topic(partitions=6), kafka_topic(partitions=6), kafka_topic(partitions=4)], unjudged_group()
    stable = []

    def start(*members: str) -> None:
        for member in members:
            group.start(member, topics, ["copartitioned"], client=CLIENTS[member])
        stable.append(group.wait_stable())

    start("m1", "m2", "m3")
    start("m4")
    group.stop("m1")
    stable.append(group.wait_stable())
    group.kill("m3")
    stable.append(group.wait_stable())
    group.close()

    orders, payments, audit = topics
    for each in stable:
        members = len(each.owned)
        for owned in each.owned.values():
            assert owned[orders] == owned[payments]
            assert len(owned[orders]) in (6 // members, -(-6 // members))
            assert len(owned[audit]) in (4 // members, -(-4 // members))
    verdict = check(History.load(tmp_path))
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    assert verdict.checked["A1"] >= 1
