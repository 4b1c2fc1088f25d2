"""Co-partitioned topics on a real broker: equal partition numbers stay at one member.

Eagerly under either client's leader, and in the cooperative form, which aiokafka's consumers can't have.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup

pytestmark = pytest.mark.broker

CLIENTS = {
    "copartitioned": {"m1": "kafka-python", "m2": "aiokafka", "m3": "kafka-python", "m4": "aiokafka"},
    "cooperative-copartitioned": dict.fromkeys(("m1", "m2", "m3", "m4"), "kafka-python"),
}


# long: five steps of a live group; tests/core/test_copartitioned.py proves whole bundles without members
@pytest.mark.long
# long: the cooperative one, whose hand-over of bundles tests/core/test_copartitioned.py proves
@pytest.mark.parametrize(
    "assignor", ["copartitioned", pytest.param("cooperative-copartitioned", marks=pytest.mark.long)]
)
def test_bundles_stay_whole_through_join_leave_kill_and_growth(
    assignor: str, unjudged_group: Callable[..., MemberGroup], kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topics = [kafka_topic(partitions=6), kafka_topic(partitions=6), kafka_topic(partitions=4)]
    group = unjudged_group(session_timeout_ms=6000)  # one dies; a busy machine must not end another's session
    stable = []

    def start(*members: str) -> None:
        for member in members:
            group.start(member, topics, [assignor], client=CLIENTS[assignor][member], metadata_max_age_ms=2000)
        stable.append(group.wait_stable())

    start("m1", "m2", "m3")
    start("m4")
    group.stop("m1")
    stable.append(group.wait_stable())
    group.kill("m3")
    stable.append(group.wait_stable())
    orders, payments, audit = topics
    group.step("two topics grow")
    for topic in (orders, payments):
        group.topics.add_partitions(topic, 9)
    grown = group.wait_stable(timeout_s=60)
    group.close()

    for each in (*stable, grown):
        members, bundles = len(each.owned), 9 if each is grown else 6
        for owned in each.owned.values():
            assert owned[orders] == owned[payments]
            assert len(owned[orders]) in (bundles // members, -(-bundles // members))
            assert len(owned[audit]) in (4 // members, -(-4 // members))
    verdict = check(History.load(tmp_path))
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    assert verdict.checked["A1"] >= 1
    # Only members that keep partitions while they rebalance claim any.
    assert (verdict.checked.get("R2", 0) > 0) == (assignor == "cooperative-copartitioned")
